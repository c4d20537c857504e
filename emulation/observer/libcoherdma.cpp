// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The cache operations for libcoherdma: the program's syncs. After fork() the child may use an
// inherited handle of libcoherdma: there is nothing to sync.

#include "cache/emulated_cache.hpp"
#include "devices.hpp"
#include "out_of_memory.hpp"

#include <cerrno>
#include <new>

namespace coherdma::emulation {
namespace {

using range_array = const coherdma::cache::range *;

addr_range to_addr_range(const coherdma::cache::range &range) noexcept {
    return {range.addr, range.addr + range.length};
}

/// emulated_cache::check_mapped.
int check_readable(range_array ranges, std::size_t count, std::uintptr_t *bad_addr) noexcept try {
    const call_scope scope;
    int error = 0;
    for (std::size_t i = 0; i < count && error == 0 && has_process_state(); ++i) {
        const addr_range range = to_addr_range(ranges[i]);
        error = process_state().cache.check_readable(&range, 1, bad_addr);
    }
    return error;
} catch (const std::bad_alloc &) {
    return ENOMEM;
}

using sync_function = void (cache_model::*)(const addr_range *, std::size_t);

/// Calls sync for each range; in a child of fork() without a device there is nothing to sync.
void sync_ranges(range_array ranges, std::size_t count, sync_function sync) noexcept {
    for (std::size_t i = 0; i < count && has_process_state(); ++i) {
        const addr_range range = to_addr_range(ranges[i]);
        unless_out_of_memory([&] { (process_state().cache.*sync)(&range, 1); });
    }
}

/// The program syncs, and the sync begins, like an instruction of a real cache: it is complete at
/// the fence after it, which a batch may never execute.
void begin_syncs(range_array ranges, std::size_t count, sync_function sync) noexcept {
    for (std::size_t i = 0; i < count && has_process_state(); ++i)
        unless_out_of_memory([&] { process_state().cache.begin_sync(to_addr_range(ranges[i])); });
    sync_ranges(ranges, count, sync);
}

void end_syncs() noexcept {
    if (has_process_state())
        unless_out_of_memory([] { process_state().cache.end_syncs(); });
}

void no_fence() noexcept {}
bool is_supported() noexcept {
    return true;
}
void writeback(range_array ranges, std::size_t count, std::size_t) noexcept {
    begin_syncs(ranges, count, &cache_model::sync_writeback);
}
void writeback_invalidate(range_array ranges, std::size_t count, std::size_t) noexcept {
    begin_syncs(ranges, count, &cache_model::sync_invalidate);
}

void sync_for_device(range_array ranges, std::size_t count, bool device_writes) noexcept {
    sync_ranges(ranges, count,
                device_writes ? &cache_model::sync_sink_for_device
                              : &cache_model::sync_source_for_device);
}
void sync_for_cpu(range_array ranges, std::size_t count) noexcept {
    sync_ranges(ranges, count, &cache_model::sync_sink_for_cpu);
}

const coherdma::cache::cache_ops CACHE_OPS = {.name = "emulated",
                                              .fence_before_writeback = no_fence,
                                              .writeback = writeback,
                                              .fence_after_writeback = end_syncs,
                                              .fence_before_invalidate = no_fence,
                                              .writeback_invalidate = writeback_invalidate,
                                              .fence_after_invalidate = end_syncs,
                                              .is_reported = is_supported};

const char *current_mode() noexcept {
    return process_state().mode.c_str();
}
std::size_t line_size() noexcept {
    return process_state().config.line_size;
}

const coherdma::cache::emulated_cache EMULATED_CACHE = {.size =
                                                            sizeof(coherdma::cache::emulated_cache),
                                                        .check_mapped = check_readable,
                                                        .mode = current_mode,
                                                        .line_size = line_size,
                                                        .ops = &CACHE_OPS,
                                                        .sync_for_device = sync_for_device,
                                                        .sync_for_cpu = sync_for_cpu};

} // namespace
} // namespace coherdma::emulation

extern "C" [[gnu::visibility("default")]] const coherdma::cache::emulated_cache *
coherdma_find_emulated_cache(const ibv_context *context) {
    using namespace coherdma::emulation;
    return find_device(context) != nullptr ? &EMULATED_CACHE : nullptr;
}
