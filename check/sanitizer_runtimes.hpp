// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The functions of sanitizers that run this process, symbol by their names: nothing is linked.
#pragma once

#include "device_threads.hpp"
#include "initialized_memory.hpp"
#include "poisoned_memory.hpp"

#include <dlfcn.h>
#include <optional>

namespace coherdma::check {

/// False: the process has no such function.
template <class function>
bool find_function(function *&symbol, const char *name) noexcept {
    symbol = reinterpret_cast<function *>(dlsym(RTLD_DEFAULT, name));
    return symbol != nullptr;
}

inline std::optional<asan_runtime> find_asan() noexcept {
    asan_runtime asan = {};
    if (!find_function(asan.poison, "__asan_poison_memory_region") ||
        !find_function(asan.unpoison, "__asan_unpoison_memory_region") ||
        !find_function(asan.find_poisoned, "__asan_region_is_poisoned") ||
        !find_function(asan.get_shadow_mapping, "__asan_get_shadow_mapping"))
        return std::nullopt;
    return asan;
}

/// By functions that programs compiled by gcc and by clang have.
inline std::optional<tsan_runtime> find_tsan() noexcept {
    tsan_runtime tsan = {};
    if (!find_function(tsan.create_fiber, "__tsan_create_fiber") ||
        !find_function(tsan.destroy_fiber, "__tsan_destroy_fiber") ||
        !find_function(tsan.set_fiber_name, "__tsan_set_fiber_name") ||
        !find_function(tsan.get_current_fiber, "__tsan_get_current_fiber") ||
        !find_function(tsan.switch_to_fiber, "__tsan_switch_to_fiber") ||
        !find_function(tsan.acquire, "__tsan_acquire") ||
        !find_function(tsan.release, "__tsan_release") ||
        !find_function(tsan.read_range, "__tsan_read_range_pc") ||
        !find_function(tsan.write_range, "__tsan_write_range_pc") ||
        !find_function(tsan.enter_function, "__tsan_func_entry") ||
        !find_function(tsan.exit_function, "__tsan_func_exit") ||
        !find_function(tsan.ignore_sync_begin, "AnnotateIgnoreSyncBegin") ||
        !find_function(tsan.ignore_sync_end, "AnnotateIgnoreSyncEnd") ||
        !find_function(tsan.ignore_accesses_begin, "AnnotateIgnoreReadsBegin") ||
        !find_function(tsan.ignore_accesses_end, "AnnotateIgnoreReadsEnd"))
        return std::nullopt;
    return tsan;
}

inline std::optional<msan_runtime> find_msan() noexcept {
    msan_runtime msan = {};
    if (!find_function(msan.poison, "__msan_poison") ||
        !find_function(msan.unpoison, "__msan_unpoison") ||
        !find_function(msan.test_shadow, "__msan_test_shadow"))
        return std::nullopt;
    return msan;
}

} // namespace coherdma::check
