// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The sync calls, made for each transfer: check all ranges, then the fences and the loop of the
// cache_ops chosen at open. The cache_ops of a coherent device touch no line.

#include "device.hpp"
#include "error.hpp"
#include "memory.hpp"

#include <cerrno>
#include <cstddef>
#include <limits>

namespace {

using coherdma::api::fail;
using coherdma::cache::cache_ops;
using coherdma::cache::range;

static_assert(sizeof(range) == sizeof(coherdma_range));
static_assert(offsetof(range, addr) == offsetof(coherdma_range, addr));
static_assert(offsetof(range, length) == offsetof(coherdma_range, length));

// What the lines of a range need in a phase; a range with phases of both kinds is written back and
// invalidated.
constexpr std::uint32_t WRITEBACK_PHASES = COHERDMA_BEFORE_READ | COHERDMA_BEFORE_WRITE;
constexpr std::uint32_t INVALIDATE_PHASES = COHERDMA_AFTER_WRITE;

// The two operations of cache_ops on lines, as bits of a set. Each needs its fence before the first
// and its fence after the last range.
constexpr std::uint32_t OP_WRITEBACK = 1;
constexpr std::uint32_t OP_INVALIDATE = 2; // writes back, too

/// What a coherdma_batch holds.
struct [[gnu::may_alias]] batch_state {
    const coherdma_device *device;
    std::uint32_t begun_ops;  ///< the set of operations whose fence before has been executed
    std::int32_t first_error; ///< of coherdma_batch_begin() or coherdma_batch_add()
};
static_assert(sizeof(batch_state) <= sizeof(coherdma_batch));
static_assert(alignof(batch_state) <= alignof(coherdma_batch));

batch_state &state_of(coherdma_batch &batch) noexcept {
    return reinterpret_cast<batch_state &>(batch);
}

const range *to_ranges(const coherdma_range *list) noexcept {
    return reinterpret_cast<const range *>(list);
}

[[gnu::cold]] int fail_address_space(const range &range, std::size_t index) noexcept {
    return fail(EINVAL, "range %zu (%zu bytes at 0x%zx) exceeds the address space", index,
                range.length, static_cast<std::size_t>(range.addr));
}

// Checks that no range exceeds the address space.
[[gnu::cold, gnu::noinline]] int check_address_space(const range *ranges,
                                                     std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
        const range &range = ranges[i];
        constexpr std::uintptr_t LAST_ADDR = std::numeric_limits<std::uintptr_t>::max();
        if (range.length != 0 && range.length - 1 > LAST_ADDR - range.addr)
            return fail_address_space(range, i);
    }
    return 0;
}

// Whether all addresses and lengths are below 2^63, as those of user memory are on most systems, so
// that no range can exceed the address space. Fast, because all ranges are checked before the first
// line is touched.
bool are_all_in_lower_half(const range *ranges, std::size_t count) noexcept {
    if constexpr (sizeof(std::uintptr_t) < sizeof(std::uint64_t))
        return false;
    // Two variables make two independent chains of instructions.
    std::uint64_t addr_bits = 0, length_bits = 0;
    for (std::size_t i = 0; i < count; ++i) {
        addr_bits |= ranges[i].addr;
        length_bits |= ranges[i].length;
    }
    return (addr_bits | length_bits) >> 63 == 0;
}

/// Whether sync calls can be made for the device: 0, or an errno value with coherdma_error() set.
int check_device(const coherdma_device *device) noexcept {
    if (!device)
        return fail(EINVAL, "device is NULL");
    if (!device->ops)
        return fail(EOPNOTSUPP, "%s", device->sync_problem.c_str());
    return 0;
}

// Checks the arguments of a sync call: 0, or an errno value with coherdma_error() set.
int check_ranges(const coherdma_device *device, const coherdma_range *list,
                 std::size_t count) noexcept {
    if (const int error = check_device(device))
        return error;
    if (!list && count != 0)
        return fail(EINVAL, "the list of %zu ranges is NULL", count);
    const range *ranges = to_ranges(list);
    if (!are_all_in_lower_half(ranges, count))
        if (const int error = check_address_space(ranges, count))
            return error;
    return device->check_memory ? device->check_memory(*device, ranges, count) : 0;
}

// phase: one or more of enum coherdma_phase.
int check_phase(std::uint32_t phase) noexcept {
    if (phase == 0 || (phase & ~(WRITEBACK_PHASES | INVALIDATE_PHASES)) != 0)
        return fail(EINVAL, "phase 0x%x is not in enum coherdma_phase", phase);
    return 0;
}

// direction: enum coherdma_direction.
int check_direction(std::uint32_t direction) noexcept {
    if (direction == 0 || (direction & ~std::uint32_t{COHERDMA_BIDIRECTIONAL}) != 0)
        return fail(EINVAL, "direction 0x%x is not in enum coherdma_direction", direction);
    return 0;
}

void writeback(const coherdma_device &device, const range *ranges, std::size_t count) noexcept {
    device.ops->writeback(ranges, count, device.line_size);
}

void writeback_invalidate(const coherdma_device &device, const range *ranges,
                          std::size_t count) noexcept {
    device.ops->writeback_invalidate(ranges, count, device.line_size);
}

// The same with their fences.
void sync_writeback(const coherdma_device &device, const coherdma_range *list,
                    std::size_t count) noexcept {
    device.ops->fence_before_writeback();
    writeback(device, to_ranges(list), count);
    device.ops->fence_after_writeback();
}

void sync_writeback_invalidate(const coherdma_device &device, const coherdma_range *list,
                               std::size_t count) noexcept {
    device.ops->fence_before_invalidate();
    writeback_invalidate(device, to_ranges(list), count);
    device.ops->fence_after_invalidate();
}

int check_and_sync_writeback(const coherdma_device *device, const coherdma_range *list,
                             std::size_t count) noexcept {
    if (const int error = check_ranges(device, list, count))
        return error;
    sync_writeback(*device, list, count);
    return 0;
}

// Executes the fence before the operation.
void begin_op(const cache_ops &ops, std::uint32_t op) noexcept {
    if (op == OP_INVALIDATE)
        ops.fence_before_invalidate();
    else
        ops.fence_before_writeback();
}

// Executes the fence after the begun operations. That of the invalidation suffices for both.
void end_ops(const cache_ops &ops, std::uint32_t begun) noexcept {
    if ((begun & OP_INVALIDATE) != 0)
        ops.fence_after_invalidate();
    else if ((begun & OP_WRITEBACK) != 0)
        ops.fence_after_writeback();
}

std::uint32_t op_for_phase(std::uint32_t phase) noexcept {
    return (phase & INVALIDATE_PHASES) != 0 ? OP_INVALIDATE : OP_WRITEBACK;
}

// Issues the operation for all lines of the ranges; end_ops() waits for it.
void issue_op(const coherdma_device &device, const range *ranges, std::size_t count,
              std::uint32_t op) noexcept {
    if (op == OP_INVALIDATE)
        writeback_invalidate(device, ranges, count);
    else
        writeback(device, ranges, count);
}

/// Checks the arguments, executes a fence, and issues the operation. Between two additions the
/// thread may have stored to the ranges, or learned of stores of others or of the end of a Write:
/// fence_before_writeback() orders that before either operation, without a wait for those that are
/// issued already.
int add_to_batch(batch_state &batch, const coherdma_range *list, std::size_t count,
                 std::uint32_t phase) noexcept {
    if (const int error = check_ranges(batch.device, list, count))
        return error;
    if (const int error = check_phase(phase))
        return error;
    const std::uint32_t op = op_for_phase(phase);
    if ((batch.begun_ops & op) == 0)
        begin_op(*batch.device->ops, op);
    else
        batch.device->ops->fence_before_writeback();
    batch.begun_ops |= op;
    issue_op(*batch.device, to_ranges(list), count, op);
    return 0;
}

// Keeps the first error of the batch.
void record_error(batch_state &batch, int error) noexcept {
    if (batch.first_error == 0)
        batch.first_error = error;
}

} // namespace

int coherdma_sync_before_read(const coherdma_device *device, const coherdma_range *list,
                              size_t count) {
    return check_and_sync_writeback(device, list, count);
}

// Lines that are clean are not written back over the data of the peer. They may be fetched again
// before it arrives: coherdma_sync_after_write() invalidates them.
int coherdma_sync_before_write(const coherdma_device *device, const coherdma_range *list,
                               size_t count) {
    return check_and_sync_writeback(device, list, count);
}

int coherdma_sync_after_write(const coherdma_device *device, const coherdma_range *list,
                              size_t count) {
    if (const int error = check_ranges(device, list, count))
        return error;
    sync_writeback_invalidate(*device, list, count);
    return 0;
}

// From the device: lines that share the first or last line of the range with other data may be
// dirty, so they are written back, not only invalidated. Afterwards no line is dirty, so no later
// eviction overwrites what the device writes.
int coherdma_sync_for_device(const coherdma_device *device, const coherdma_range *list,
                             size_t count, uint32_t direction) {
    if (const int error = check_ranges(device, list, count))
        return error;
    if (const int error = check_direction(direction))
        return error;
    const bool device_writes = (direction & COHERDMA_FROM_DEVICE) != 0;
    if (device->emulated) [[unlikely]]
        device->emulated->sync_for_device(to_ranges(list), count, device_writes);
    else if (device_writes)
        sync_writeback_invalidate(*device, list, count);
    else
        sync_writeback(*device, list, count);
    return 0;
}

// The CPU may have fetched lines speculatively before the device wrote them, so they are
// invalidated. User programs have no instruction that only invalidates. The write-back does
// nothing: sync_for_device() left the lines clean, and the program has not stored to them.
int coherdma_sync_for_cpu(const coherdma_device *device, const coherdma_range *list, size_t count,
                          uint32_t direction) {
    if (const int error = check_ranges(device, list, count))
        return error;
    if (const int error = check_direction(direction))
        return error;
    if ((direction & COHERDMA_FROM_DEVICE) == 0)
        return 0;
    if (device->emulated) [[unlikely]]
        device->emulated->sync_for_cpu(to_ranges(list), count);
    else
        sync_writeback_invalidate(*device, list, count);
    return 0;
}

void coherdma_batch_begin(coherdma_batch *batch, const coherdma_device *device) {
    if (!batch)
        return;
    batch_state &state = state_of(*batch);
    state = {.device = device, .begun_ops = 0, .first_error = 0};
    record_error(state, check_device(device));
}

int coherdma_batch_add(coherdma_batch *batch, const coherdma_range *list, size_t count,
                       uint32_t phase) {
    if (!batch)
        return fail(EINVAL, "batch is NULL");
    const int error = add_to_batch(state_of(*batch), list, count, phase);
    record_error(state_of(*batch), error);
    return error;
}

/// Waits for the operations of the batch. Returns the first error of begin or add.
int coherdma_batch_end(coherdma_batch *batch) {
    if (!batch)
        return fail(EINVAL, "batch is NULL");
    batch_state &state = state_of(*batch);
    const int error = state.first_error;
    if (state.begun_ops != 0)
        end_ops(*state.device->ops, state.begun_ops);
    state.begun_ops = 0;
    state.first_error = 0;
    return error;
}
