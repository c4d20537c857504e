// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Functions of RDMA libraries by which a program with the memory sanitizer gets results in its own
// memory: these are initialized then. The next functions of the same names do the work: the
// libraries', or those of the interposer when it is attached.

#include "msan_preload.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>

#undef ibv_query_port

using coherdma::check::bind_libraries, coherdma::check::mark_initialized;

namespace {

/// Looked up at each call: it may change once.
template <class function>
function *next(const char *name, function *) noexcept {
    return reinterpret_cast<function *>(dlsym(RTLD_NEXT, name));
}

/// Of a call that returns 0, or an errno or -1.
template <class... types>
int with_results(int error, types *...results) noexcept {
    if (error == 0)
        (mark_initialized(results, sizeof *results), ...);
    return error;
}

/// The driver's functions of open contexts, which inline functions of verbs.h call.
struct driver_functions {
    std::atomic<const ibv_context *> context = nullptr;
    decltype(verbs_context::query_port) query_port = nullptr;
    decltype(verbs_context::query_device_ex) query_device_ex = nullptr;
};
std::array<driver_functions, 256> contexts;
pthread_mutex_t contexts_mutex = PTHREAD_MUTEX_INITIALIZER; ///< two threads do not take one entry

driver_functions *find_driver(const ibv_context *context) noexcept {
    for (driver_functions &each : contexts)
        if (each.context.load(std::memory_order_acquire) == context)
            return &each;
    return nullptr;
}

int query_port(ibv_context *context, std::uint8_t port, ibv_port_attr *attr, std::size_t length) {
    const driver_functions *const driver = find_driver(context);
    const int error = driver != nullptr ? driver->query_port(context, port, attr, length) : EINVAL;
    if (error == 0)
        mark_initialized(attr, length);
    return error;
}

int query_device_ex(ibv_context *context, const ibv_query_device_ex_input *input,
                    ibv_device_attr_ex *attr, std::size_t length) {
    const driver_functions *const driver = find_driver(context);
    const int error =
        driver != nullptr ? driver->query_device_ex(context, input, attr, length) : EINVAL;
    if (error == 0)
        mark_initialized(attr, length);
    return error;
}

/// Those of more contexts than there is room for stay as they are.
void hook_context(ibv_context *context) noexcept {
    verbs_context *const extended = context != nullptr ? verbs_get_ctx(context) : nullptr;
    if (extended == nullptr || extended->query_port == query_port)
        return;
    pthread_mutex_lock(&contexts_mutex);
    driver_functions *entry = find_driver(context); // of one that was closed
    if (entry == nullptr)
        entry = find_driver(nullptr);
    if (entry != nullptr) {
        entry->query_port = extended->query_port;
        entry->query_device_ex = extended->query_device_ex;
        entry->context.store(context, std::memory_order_release);
    }
    pthread_mutex_unlock(&contexts_mutex);
    if (entry == nullptr)
        return;
    if (extended->query_port != nullptr)
        extended->query_port = query_port;
    if (extended->query_device_ex != nullptr)
        extended->query_device_ex = query_device_ex;
}

} // namespace

#pragma GCC visibility push(default)
extern "C" {

ibv_device **ibv_get_device_list(int *count) {
    ibv_device **const list = next("ibv_get_device_list", ibv_get_device_list)(count);
    bind_libraries(); // the drivers may have been loaded
    if (count != nullptr && list != nullptr)
        mark_initialized(count, sizeof *count);
    return list;
}

ibv_context *ibv_open_device(ibv_device *device) {
    ibv_context *const context = next("ibv_open_device", ibv_open_device)(device);
    hook_context(context);
    return context;
}

int ibv_query_device(ibv_context *context, ibv_device_attr *attr) {
    return with_results(next("ibv_query_device", ibv_query_device)(context, attr), attr);
}

int ibv_query_port(ibv_context *context, std::uint8_t port, _compat_ibv_port_attr *attr) {
    return with_results(next("ibv_query_port", ibv_query_port)(context, port, attr),
                        reinterpret_cast<ibv_port_attr *>(attr));
}

int ibv_query_gid(ibv_context *context, std::uint8_t port, int index, ibv_gid *gid) {
    return with_results(next("ibv_query_gid", ibv_query_gid)(context, port, index, gid), gid);
}

int ibv_query_pkey(ibv_context *context, std::uint8_t port, int index, __be16 *pkey) {
    return with_results(next("ibv_query_pkey", ibv_query_pkey)(context, port, index, pkey), pkey);
}

int ibv_query_srq(ibv_srq *srq, ibv_srq_attr *attr) {
    return with_results(next("ibv_query_srq", ibv_query_srq)(srq, attr), attr);
}

int ibv_query_qp(ibv_qp *qp, ibv_qp_attr *attr, int mask, ibv_qp_init_attr *init) {
    return with_results(next("ibv_query_qp", ibv_query_qp)(qp, attr, mask, init), attr, init);
}

ibv_qp *ibv_create_qp(ibv_pd *pd, ibv_qp_init_attr *attr) {
    ibv_qp *const qp = next("ibv_create_qp", ibv_create_qp)(pd, attr);
    if (qp != nullptr)
        mark_initialized(&attr->cap, sizeof attr->cap);
    return qp;
}

int ibv_get_cq_event(ibv_comp_channel *channel, ibv_cq **cq, void **context) {
    return with_results(next("ibv_get_cq_event", ibv_get_cq_event)(channel, cq, context), cq,
                        context);
}

int ibv_get_async_event(ibv_context *context, ibv_async_event *event) {
    return with_results(next("ibv_get_async_event", ibv_get_async_event)(context, event), event);
}

int rdma_create_id(rdma_event_channel *channel, rdma_cm_id **id, void *context,
                   rdma_port_space port_space) {
    return with_results(next("rdma_create_id", rdma_create_id)(channel, id, context, port_space),
                        id);
}

int rdma_create_ep(rdma_cm_id **id, rdma_addrinfo *info, ibv_pd *pd, ibv_qp_init_attr *attr) {
    return with_results(next("rdma_create_ep", rdma_create_ep)(id, info, pd, attr), id);
}

int rdma_get_request(rdma_cm_id *listener, rdma_cm_id **id) {
    return with_results(next("rdma_get_request", rdma_get_request)(listener, id), id);
}

int rdma_get_cm_event(rdma_event_channel *channel, rdma_cm_event **event) {
    return with_results(next("rdma_get_cm_event", rdma_get_cm_event)(channel, event), event);
}

int rdma_getaddrinfo(const char *node, const char *service, const rdma_addrinfo *hints,
                     rdma_addrinfo **result) {
    return with_results(next("rdma_getaddrinfo", rdma_getaddrinfo)(node, service, hints, result),
                        result);
}

int rdma_init_qp_attr(rdma_cm_id *id, ibv_qp_attr *attr, int *mask) {
    return with_results(next("rdma_init_qp_attr", rdma_init_qp_attr)(id, attr, mask), attr, mask);
}

} // extern "C"
#pragma GCC visibility pop
