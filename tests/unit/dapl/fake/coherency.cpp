// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The libcoherdma calls of the provider, which are recorded.

#include "fabric.hpp"

#include <cerrno>
#include <coherdma/coherdma.h>
#include <coherdma/experimental.h>
#include <cstring>

using namespace fake;

struct coherdma_device {
    ibv_context *context;
    bool checks_memory;
};

namespace {

int sync(const char *name, bool write, const coherdma_range *list, std::size_t count) {
    const library_call_guard call;
    if (const int error = injected_error(name))
        return error;
    get_fabric().syncs.push_back({write, {list, list + count}});
    return 0;
}

int local_sync(const char *name, const coherdma_device &device, bool for_cpu,
               const coherdma_range *list, std::size_t count, std::uint32_t direction) {
    const library_call_guard call;
    if (const int error = injected_error(name))
        return error;
    get_fabric().local_syncs.push_back(
        {for_cpu, direction, {list, list + count}, device.checks_memory});
    return 0;
}

} // namespace

extern "C" {

coherdma_device *coherdma_open_device(ibv_context *context) {
    const library_call_guard call;
    if (const int error = injected_error("coherdma_open_device")) {
        errno = error;
        return nullptr;
    }
    get_fabric().adjust_object_count("coherdma_device", 1);
    return new coherdma_device{context, false};
}

coherdma_device *coherdma_open_device_ex(const coherdma_open_attr *attr, std::size_t) {
    coherdma_device *const device = coherdma_open_device(attr->context);
    if (device != nullptr)
        device->checks_memory = (attr->flags & COHERDMA_OPEN_CHECK_MEMORY) != 0;
    return device;
}

void coherdma_close_device(coherdma_device *device) {
    const library_call_guard call;
    get_fabric().adjust_object_count("coherdma_device", -1);
    delete device;
}

int coherdma_query_device(const coherdma_device *, coherdma_device_attr *attr, std::size_t size) {
    const library_call_guard call;
    if (const int error = injected_error("coherdma_query_device"))
        return error;
    coherdma_device_attr device_attr = {};
    device_attr.coherency =
        get_fabric().sync_required != 0 ? COHERDMA_NON_COHERENT : COHERDMA_COHERENT;
    device_attr.sync_required = get_fabric().sync_required;
    device_attr.line_size = 64;
    device_attr.buffer_alignment = 4096;
    std::memcpy(attr, &device_attr, size);
    return 0;
}

int coherdma_sync_before_read(const coherdma_device *, const coherdma_range *list,
                              std::size_t count) {
    return sync("coherdma_sync_before_read", false, list, count);
}

int coherdma_sync_after_write(const coherdma_device *, const coherdma_range *list,
                              std::size_t count) {
    return sync("coherdma_sync_after_write", true, list, count);
}

int coherdma_sync_for_device(const coherdma_device *device, const coherdma_range *list,
                             std::size_t count, std::uint32_t direction) {
    return local_sync("coherdma_sync_for_device", *device, false, list, count, direction);
}

int coherdma_sync_for_cpu(const coherdma_device *device, const coherdma_range *list,
                          std::size_t count, std::uint32_t direction) {
    return local_sync("coherdma_sync_for_cpu", *device, true, list, count, direction);
}

int coherdma_use_provider() {
    return 0;
}
}
