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

/// If the handle is of this type, calls fn(object, type).
template <class object_type, class function>
bool call_for_type(DAT_HANDLE handle, const function &fn) noexcept {
    const auto obj = lookup<object_type>(handle);
    if (obj)
        fn(*obj, object_type::type);
    return static_cast<bool>(obj);
}

template <class function, class... object_types>
bool call_for_types(DAT_HANDLE handle, const function &fn) noexcept {
    return (call_for_type<object_types>(handle, fn) || ...);
}

/// Calls fn(object, type) for the object of a handle of any type. False: there is none.
template <class function>
bool call_for_object(DAT_HANDLE handle, const function &fn) noexcept {
    return call_for_types<function, cm::dapl_cr, dapl_ep, dapl_evd, dapl_ia, dapl_lmr, cm::dapl_psp,
                          dapl_pz, dapl_rmr, cm::dapl_rsp, dapl_cno, dapl_srq, cm::dapl_csp>(handle,
                                                                                             fn);
}

} // namespace

DAT_RETURN set_consumer_context(DAT_HANDLE handle, DAT_CONTEXT context) noexcept {
    const bool is_valid = call_for_object(handle, [context](object &obj, DAT_HANDLE_TYPE) {
        obj.consumer_context.store(context.as_64, std::memory_order_relaxed);
    });
    return is_valid ? DAT_RETURN{DAT_SUCCESS} : invalid_handle(DAT_INVALID_HANDLE1);
}

DAT_RETURN get_consumer_context(DAT_HANDLE handle, DAT_CONTEXT *context) noexcept {
    const bool is_valid = call_for_object(handle, [context](const object &obj, DAT_HANDLE_TYPE) {
        if (context != nullptr)
            context->as_64 = obj.consumer_context.load(std::memory_order_relaxed);
    });
    if (!is_valid)
        return invalid_handle(DAT_INVALID_HANDLE1);
    return context != nullptr ? DAT_RETURN{DAT_SUCCESS} : invalid_parameter(2);
}

DAT_RETURN get_handle_type(DAT_HANDLE handle, DAT_HANDLE_TYPE *handle_type) noexcept {
    const bool is_valid =
        call_for_object(handle, [handle_type](const object &, DAT_HANDLE_TYPE type) {
            if (handle_type != nullptr)
                *handle_type = type;
        });
    if (!is_valid)
        return invalid_handle(DAT_INVALID_HANDLE1);
    return handle_type != nullptr ? DAT_RETURN{DAT_SUCCESS} : invalid_parameter(2);
}

} // namespace coherdma::dapl
