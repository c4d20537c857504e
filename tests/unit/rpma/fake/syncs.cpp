// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The functions of libcoherdma that sync memory.

#include "rdma.hpp"
#include "state.hpp"

#include "../../dapl/fake/tsan_ordering.hpp"

#include <coherdma/coherdma.h>
#include <cstdio>
#include <mutex>
#include <utility>

namespace fake {

namespace {

std::mutex lock; // of syncs
std::string syncs;

int record(const char *name, const coherdma_range *list, std::size_t count,
           std::uint32_t argument = 0) {
    const tsan_ignore ignore;
    const std::lock_guard guard(lock);
    for (std::size_t i = 0; i != count; ++i) {
        char text[120];
        std::snprintf(text, sizeof text, "%s%s %p+%zu %#x", syncs.empty() ? "" : " | ", name,
                      list[i].addr, list[i].length, argument);
        syncs += text;
    }
    return call(name);
}

} // namespace

void reset_syncs() {
    syncs.clear();
}

std::string take_syncs() {
    return std::exchange(syncs, "");
}

} // namespace fake

using namespace fake;

struct coherdma_device {
    int unused;
};

extern "C" {

coherdma_device *coherdma_open_device_ex(const coherdma_open_attr *, std::size_t) {
    if (const int error = call("coherdma_open_device_ex")) {
        errno = error;
        return nullptr;
    }
    auto *const result = new coherdma_device{};
    add_object(result, "coherdma device", {});
    return result;
}
void coherdma_close_device(coherdma_device *closed) {
    remove_object(closed, "coherdma device");
    delete closed;
}
int coherdma_query_device(const coherdma_device *queried, coherdma_device_attr *attr, std::size_t) {
    check_object(queried, "coherdma device");
    *attr = {};
    attr->sync_required = settings.needs_sync ? 1 : 0;
    return 0;
}

int coherdma_sync_before_read(const coherdma_device *, const coherdma_range *list,
                              std::size_t count) {
    return record("before read", list, count);
}
int coherdma_sync_after_write(const coherdma_device *, const coherdma_range *list,
                              std::size_t count) {
    return record("after write", list, count);
}
int coherdma_sync_for_device(const coherdma_device *, const coherdma_range *list, std::size_t count,
                             std::uint32_t direction) {
    return record("for device", list, count, direction);
}
int coherdma_sync_for_cpu(const coherdma_device *, const coherdma_range *list, std::size_t count,
                          std::uint32_t direction) {
    return record("for CPU", list, count, direction);
}
void coherdma_batch_begin(coherdma_batch *batch, const coherdma_device *) {
    *batch = {};
}
int coherdma_batch_add(coherdma_batch *, const coherdma_range *list, std::size_t count,
                       std::uint32_t phase) {
    return record("batch", list, count, phase);
}
int coherdma_batch_end(coherdma_batch *) {
    return call("end of batch");
}
}
