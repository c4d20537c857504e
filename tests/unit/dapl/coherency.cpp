// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// libcoherdma, as far as the provider asks it: it writes down what it is told.

#include "fabric.hpp"

#include <cerrno>
#include <coherdma/coherdma.h>
#include <cstring>

using namespace played;

struct coherdma_device {
    ibv_context *context;
};

namespace {

int sync(const char *name, bool write, const ibv_sge *list, std::size_t count) {
    const entered call;
    if (const int error = fault(name))
        return error;
    net().syncs.push_back({write, {list, list + count}});
    return 0;
}

} // namespace

extern "C" {

coherdma_device *coherdma_open_device(ibv_context *context) {
    const entered call;
    if (const int error = fault("coherdma_open_device")) {
        errno = error;
        return nullptr;
    }
    net().living("coherdma_device", 1);
    return new coherdma_device{context};
}

void coherdma_close(coherdma_device *device) {
    const entered call;
    net().living("coherdma_device", -1);
    delete device;
}

int coherdma_query_device(const coherdma_device *, coherdma_device_attr *attr, std::size_t size) {
    const entered call;
    if (const int error = fault("coherdma_query_device"))
        return error;
    coherdma_device_attr all = {};
    all.verdict = net().coherency != 0 ? COHERDMA_NON_COHERENT : COHERDMA_COHERENT;
    all.sync_required = net().coherency;
    all.line_size = 64;
    all.alignment = 128;
    std::memcpy(attr, &all, size);
    return 0;
}

int coherdma_sync_rdma_read(const coherdma_device *, const ibv_sge *list, std::size_t count) {
    return sync("coherdma_sync_rdma_read", false, list, count);
}

int coherdma_sync_rdma_write(const coherdma_device *, const ibv_sge *list, std::size_t count) {
    return sync("coherdma_sync_rdma_write", true, list, count);
}

int coherdma_use_provider() {
    return 0;
}
}
