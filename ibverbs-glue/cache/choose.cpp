// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "cache.hpp"
#include "fault_guard.hpp"

#include <cstring>

namespace coherdma::cache {
namespace {

constexpr std::size_t MAX_LINE_SIZE = 4096;

// Executes all functions of a cache_ops on a line of its stack, in the child of
// runs_without_fault(), whose stack the sanitizers do not know.
[[gnu::no_sanitize_address, gnu::no_sanitize_thread]] void try_on_stack_line(void *arg) {
    const cache_ops &ops = *static_cast<const cache_ops *>(arg);
    alignas(64) unsigned char bytes[64] = {};
    const range range = {.addr = reinterpret_cast<std::uintptr_t>(bytes), .length = sizeof bytes};
    const std::size_t size = line_size();
    ops.fence_before_writeback();
    ops.writeback(&range, 1, size);
    ops.fence_after_writeback();
    ops.fence_before_invalidate();
    ops.writeback_invalidate(&range, 1, size);
    ops.fence_after_invalidate();
}

// Returns nullptr.
const cache_ops *fail_with(const char **problem, const char *reason) noexcept {
    if (problem)
        *problem = reason;
    return nullptr;
}

} // namespace

/// Whether the CPU reports the instructions and they run without a fault.
bool is_usable(const cache_ops &ops) noexcept {
    const std::size_t size = line_size();
    if (size == 0 || size > MAX_LINE_SIZE || !ops.is_reported())
        return false;
    cache_ops copy = ops; // not const, as the argument is void *
    return runs_without_fault(try_on_stack_line, &copy);
}

/// The set of that name, or the first usable one if name is NULL or "". On failure returns nullptr
/// and sets *problem.
const cache_ops *choose_ops(const char *name, const char **problem) noexcept {
    const bool is_any_wanted = name == nullptr || *name == '\0';
    for (const cache_ops &ops : arch_ops()) {
        if (!is_any_wanted && std::strcmp(ops.name, name) != 0)
            continue;
        if (is_usable(ops))
            return &ops;
        if (!is_any_wanted)
            return fail_with(problem,
                             "this CPU does not have the instructions that COHERDMA_CACHE names");
    }
    return fail_with(
        problem, is_any_wanted ? "this CPU has no cache maintenance instructions for user programs"
                               : "COHERDMA_CACHE names no instructions of this CPU architecture");
}

} // namespace coherdma::cache
