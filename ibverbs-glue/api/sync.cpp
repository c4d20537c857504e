// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The calls that are made for every transfer. A straight line: check all, then the fences and the
// loop of the path that was chosen at open. A coherent device has a path that touches nothing.

#include "device.hpp"
#include "error.hpp"
#include "memory.hpp"

#include <cerrno>
#include <cstddef>
#include <infiniband/verbs.h>
#include <limits>

namespace {

using coherdma::api::fail;
using coherdma::cache::path;
using coherdma::cache::range;

static_assert(sizeof(range) == sizeof(ibv_sge));
static_assert(offsetof(range, begin) == offsetof(ibv_sge, addr));
static_assert(offsetof(range, length) == offsetof(ibv_sge, length));

constexpr std::uint32_t CLEANS = COHERDMA_BEFORE_READ | COHERDMA_BEFORE_WRITE;
constexpr std::uint32_t FLUSHES = COHERDMA_AFTER_WRITE;

// What a batch has begun, in reserved[0].
constexpr std::uint64_t CLEANED = 1;
constexpr std::uint64_t FLUSHED = 2;

const range *ranges_of(const ibv_sge *list) noexcept {
    return reinterpret_cast<const range *>(list);
}

[[gnu::cold]] int wraps(const range &which, std::size_t place) noexcept {
    return fail(EINVAL, "range %zu, of %u bytes at 0x%llx, goes beyond the last address", place,
                which.length, static_cast<unsigned long long>(which.begin));
}

[[gnu::cold, gnu::noinline]] int check_wraps(const range *ranges, std::size_t count) noexcept {
    for (std::size_t place = 0; place < count; ++place) {
        const range &each = ranges[place];
        constexpr std::uint64_t LAST = std::numeric_limits<std::uintptr_t>::max();
        if (each.length != 0 && (each.begin > LAST || each.length - 1 > LAST - each.begin))
            return wraps(each, place);
    }
    return 0;
}

// Whether all begin so low that none can wrap, as those of programs do on most systems. Quick,
// because the first line waits until all ranges are checked.
bool all_low(const range *ranges, std::size_t count) noexcept {
    if constexpr (sizeof(std::uintptr_t) < sizeof(std::uint64_t))
        return false;
    std::uint64_t even = 0, odd = 0; // two, for each waits for itself only
    std::size_t place = 0;
    for (; place + 1 < count; place += 2) {
        even |= ranges[place].begin;
        odd |= ranges[place + 1].begin;
    }
    if (place < count)
        even |= ranges[place].begin;
    return (even | odd) >> 63 == 0;
}

int check(const coherdma_device *device, const ibv_sge *list, std::size_t count) noexcept {
    if (!device)
        return fail(EINVAL, "no device is given");
    if (!device->path)
        return fail(EOPNOTSUPP, "sync is needed for %s, but %s", device->name.c_str(),
                    device->problem);
    if (!list && count != 0)
        return fail(EINVAL, "the list of %zu ranges is NULL", count);
    const range *ranges = ranges_of(list);
    if (!all_low(ranges, count))
        if (const int error = check_wraps(ranges, count))
            return error;
    return device->check_memory ? device->check_memory(*device, ranges, count) : 0;
}

int check_phase(std::uint32_t phase) noexcept {
    if (phase == 0 || (phase & ~(CLEANS | FLUSHES)) != 0)
        return fail(EINVAL, "phase 0x%x is none of enum coherdma_phase", phase);
    return 0;
}

void clean(const coherdma_device &device, const range *ranges, std::size_t count) noexcept {
    device.path->clean(ranges, count, device.line);
}

void flush(const coherdma_device &device, const range *ranges, std::size_t count) noexcept {
    device.path->flush(ranges, count, device.line);
}

// The fence before, once for all that follows of its kind; begun is what there was already.
std::uint64_t begin(const path &way, std::uint64_t begun, std::uint64_t next) noexcept {
    if ((next & ~begun & CLEANED) != 0)
        way.before_clean();
    if ((next & ~begun & FLUSHED) != 0)
        way.before_flush();
    return begun | next;
}

void end(const path &way, std::uint64_t begun) noexcept {
    if ((begun & CLEANED) != 0)
        way.after_clean();
    if ((begun & FLUSHED) != 0)
        way.after_flush();
}

std::uint64_t work_of(std::uint32_t phase) noexcept {
    return (phase & FLUSHES) != 0 ? FLUSHED : CLEANED;
}

void issue(const coherdma_device &device, const range *ranges, std::size_t count,
           std::uint64_t work) noexcept {
    if (work == FLUSHED)
        flush(device, ranges, count);
    else
        clean(device, ranges, count);
}

} // namespace

int coherdma_sync_rdma_read(const coherdma_device *device, const ibv_sge *list, size_t count) {
    if (const int error = check(device, list, count))
        return error;
    device->path->before_clean();
    clean(*device, ranges_of(list), count);
    device->path->after_clean();
    return 0;
}

int coherdma_sync_rdma_write(const coherdma_device *device, const ibv_sge *list, size_t count) {
    if (const int error = check(device, list, count))
        return error;
    device->path->before_flush();
    flush(*device, ranges_of(list), count);
    device->path->after_flush();
    return 0;
}

int coherdma_sync(const coherdma_device *device, const ibv_sge *list, const uint32_t *phases,
                  size_t count) {
    if (const int error = check(device, list, count))
        return error;
    if (!phases && count != 0)
        return fail(EINVAL, "the list of %zu phases is NULL", count);
    std::uint64_t needed = 0;
    for (std::size_t place = 0; place < count; ++place) {
        if (const int error = check_phase(phases[place]))
            return error;
        needed |= work_of(phases[place]);
    }
    begin(*device->path, 0, needed);
    for (std::size_t place = 0; place < count;) {
        const std::uint64_t work = work_of(phases[place]);
        std::size_t next = place + 1; // neighbours that need the same go in one loop
        while (next < count && work_of(phases[next]) == work)
            ++next;
        issue(*device, ranges_of(list) + place, next - place, work);
        place = next;
    }
    end(*device->path, needed);
    return 0;
}

void coherdma_batch_begin(coherdma_batch *batch, const coherdma_device *device) {
    if (!batch)
        return;
    *batch = {};
    batch->device = device;
}

int coherdma_batch_add(coherdma_batch *batch, const ibv_sge *list, size_t count, uint32_t phase) {
    if (!batch)
        return fail(EINVAL, "no batch is given");
    const coherdma_device *device = batch->device;
    if (const int error = check(device, list, count))
        return error;
    if (const int error = check_phase(phase))
        return error;
    const std::uint64_t work = work_of(phase);
    batch->reserved[0] = begin(*device->path, batch->reserved[0], work);
    issue(*device, ranges_of(list), count, work);
    return 0;
}

void coherdma_batch_end(coherdma_batch *batch) {
    if (!batch || !batch->device || !batch->device->path)
        return;
    end(*batch->device->path, batch->reserved[0]);
    batch->reserved[0] = 0;
}
