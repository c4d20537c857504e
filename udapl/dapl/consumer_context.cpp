// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Calls for handles of every type: dat_get_handle_type and the consumer context.

#include "api.hpp"
#include "dapl/cm/listener.hpp"
#include "dapl/ep/ep.hpp"
#include "dapl/ep/srq.hpp"
#include "dapl/event/cno.hpp"
#include "dapl/event/evd.hpp"
#include "dapl/ia/ia.hpp"
#include "dapl/memory/lmr.hpp"
#include "dapl/memory/pz.hpp"
#include "dapl/memory/rmr.hpp"

namespace coherdma::dapl {

namespace {

template <class object_type>
bool find_as(DAT_HANDLE handle, object *&obj, DAT_HANDLE_TYPE &type) noexcept {
    object_type *const typed_obj = lookup<object_type>(handle);
    if (typed_obj == nullptr)
        return false;
    obj = typed_obj;
    type = object_type::type;
    return true;
}

template <class... object_types>
object *find_as_any_of(DAT_HANDLE handle, DAT_HANDLE_TYPE &type) noexcept {
    object *obj = nullptr;
    return (find_as<object_types>(handle, obj, type) || ...) ? obj : nullptr;
}

/// The object of a handle of any type, or nullptr.
object *find_any(DAT_HANDLE handle, DAT_HANDLE_TYPE &type) noexcept {
    return find_as_any_of<cm::dapl_cr, dapl_ep, dapl_evd, dapl_ia, dapl_lmr, cm::dapl_psp, dapl_pz,
                          dapl_rmr, cm::dapl_rsp, dapl_cno, dapl_srq, cm::dapl_csp>(handle, type);
}

} // namespace

DAT_RETURN set_consumer_context(DAT_HANDLE handle, DAT_CONTEXT context) noexcept {
    DAT_HANDLE_TYPE type;
    object *const obj = find_any(handle, type);
    if (obj == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE1);
    obj->consumer_context.store(context.as_64, std::memory_order_relaxed);
    return DAT_SUCCESS;
}

DAT_RETURN get_consumer_context(DAT_HANDLE handle, DAT_CONTEXT *context) noexcept {
    DAT_HANDLE_TYPE type;
    object *const obj = find_any(handle, type);
    if (obj == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE1);
    if (context == nullptr)
        return invalid_parameter(2);
    context->as_64 = obj->consumer_context.load(std::memory_order_relaxed);
    return DAT_SUCCESS;
}

DAT_RETURN get_handle_type(DAT_HANDLE handle, DAT_HANDLE_TYPE *handle_type) noexcept {
    DAT_HANDLE_TYPE type;
    if (find_any(handle, type) == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE1);
    if (handle_type == nullptr)
        return invalid_parameter(2);
    *handle_type = type;
    return DAT_SUCCESS;
}

} // namespace coherdma::dapl
