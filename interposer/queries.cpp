// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Calls of which observers learn only that they begin: what the device has, and others that create
// no object.

#include "calls.hpp"

#include <type_traits>

namespace coherdma::interposer {
namespace {

/// Of those that return an errno.
template <class... parameters>
int call_function(const char *name, int (*function)(parameters...),
                  std::type_identity_t<parameters>... arguments) {
    if (const int error = failure_of(name))
        return error;
    return function(arguments...);
}

/// Of those that return -1, and set errno.
template <class... parameters>
int call_function_with_errno(const char *name, int (*function)(parameters...),
                             std::type_identity_t<parameters>... arguments) {
    if (const int error = failure_of(name)) {
        errno = error;
        return -1;
    }
    return function(arguments...);
}

void tell_limits(ibv_context *context, ibv_device_attr &attr) {
    const context_record *const record = tables().contexts.find(context);
    if (is_observed(record))
        notify(*record, &observer::on_query_device, *context, attr);
}

/// ibv_query_device() and ibv_query_device_ex() are one call.
int query_device_ex(ibv_context *context, const ibv_query_device_ex_input *input,
                    ibv_device_attr_ex *attr, std::size_t size) {
    const int error =
        call_function("ibv_query_device", context_of(context).driver_ex.query_device_ex, context,
                      input, attr, size);
    if (error == 0)
        tell_limits(context, attr->orig_attr);
    return error;
}

int query_port(ibv_context *context, std::uint8_t port, ibv_port_attr *attr, std::size_t size) {
    return call_function("ibv_query_port", context_of(context).driver_ex.query_port, context, port,
                         attr, size);
}

} // namespace

void hook_query_functions(ibv_context &context, extended_functions &driver) noexcept {
    driver.query_device_ex =
        replace_extended(context, &verbs_context::query_device_ex, query_device_ex);
    driver.query_port = replace_extended(context, &verbs_context::query_port, query_port);
}

} // namespace coherdma::interposer

using namespace coherdma::interposer;

extern "C" {

int ibv_query_device(ibv_context *context, ibv_device_attr *attr) {
    const int error = call_function("ibv_query_device", libibverbs().query_device, context, attr);
    if (error == 0)
        tell_limits(context, *attr);
    return error;
}

/// Of programs that do not call it by the inline function of its name, which uses the context's.
int ibv_query_port(ibv_context *context, std::uint8_t port, _compat_ibv_port_attr *attr) {
    return call_function("ibv_query_port", libibverbs().query_port, context, port, attr);
}

/// That of ibv_query_gid_ex().
int _ibv_query_gid_ex(ibv_context *context, std::uint32_t port, std::uint32_t index,
                      ibv_gid_entry *entry, std::uint32_t flags, std::size_t entry_size) {
    return call_function("ibv_query_gid", libibverbs().query_gid_ex, context, port, index, entry,
                         flags, entry_size);
}

int ibv_query_gid(ibv_context *context, std::uint8_t port, int index, ibv_gid *gid) {
    return call_function_with_errno("ibv_query_gid", libibverbs().query_gid, context, port, index,
                                    gid);
}

int ibv_query_pkey(ibv_context *context, std::uint8_t port, int index, std::uint16_t *pkey) {
    return call_function_with_errno("ibv_query_pkey", libibverbs().query_pkey, context, port, index,
                                    pkey);
}

int ibv_query_srq(ibv_srq *srq, ibv_srq_attr *attr) {
    return call_function("ibv_query_srq", libibverbs().query_srq, srq, attr);
}

int ibv_resize_cq(ibv_cq *cq, int cqe) {
    return call_function("ibv_resize_cq", libibverbs().resize_cq, cq, cqe);
}

int ibv_attach_mcast(ibv_qp *qp, const ibv_gid *gid, std::uint16_t lid) {
    return call_function("ibv_attach_mcast", libibverbs().attach_mcast, qp, gid, lid);
}

int ibv_detach_mcast(ibv_qp *qp, const ibv_gid *gid, std::uint16_t lid) {
    return call_function("ibv_detach_mcast", libibverbs().detach_mcast, qp, gid, lid);
}

} // extern "C"
