// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What all kinds of handles can: tell their kind, and keep a word for the program.

#include "api.hpp"
#include "cm/listener.hpp"
#include "cno.hpp"
#include "ep.hpp"
#include "evd.hpp"
#include "ia.hpp"
#include "lmr.hpp"
#include "pz.hpp"
#include "rmr.hpp"
#include "srq.hpp"

namespace coherdma::dapl {

namespace {

template <class kind>
bool is(DAT_HANDLE handle, object *&found, DAT_HANDLE_TYPE &type) noexcept {
    kind *const one = as<kind>(handle);
    if (one == nullptr)
        return false;
    found = one;
    type = kind::type;
    return true;
}

template <class... kinds>
bool one_of(DAT_HANDLE handle, object *&found, DAT_HANDLE_TYPE &type) noexcept {
    return (is<kinds>(handle, found, type) || ...);
}

} // namespace

object *find_any(DAT_HANDLE handle, DAT_HANDLE_TYPE &type) noexcept {
    object *found = nullptr;
    return one_of<cm::request, ep, evd, ia, lmr, cm::psp, pz, rmr, cm::rsp, cno, srq, cm::csp>(
               handle, found, type)
               ? found
               : nullptr;
}

DAT_RETURN set_consumer_context(DAT_HANDLE handle, DAT_CONTEXT context) noexcept {
    DAT_HANDLE_TYPE type;
    object *const one = find_any(handle, type);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE1);
    one->context.store(context.as_64, std::memory_order_relaxed);
    return DAT_SUCCESS;
}

DAT_RETURN get_consumer_context(DAT_HANDLE handle, DAT_CONTEXT *context) noexcept {
    DAT_HANDLE_TYPE type;
    object *const one = find_any(handle, type);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE1);
    if (context == nullptr)
        return wrong_argument(2);
    context->as_64 = one->context.load(std::memory_order_relaxed);
    return DAT_SUCCESS;
}

DAT_RETURN get_handle_type(DAT_HANDLE handle, DAT_HANDLE_TYPE *kind) noexcept {
    DAT_HANDLE_TYPE type;
    if (find_any(handle, type) == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE1);
    if (kind == nullptr)
        return wrong_argument(2);
    *kind = type;
    return DAT_SUCCESS;
}

} // namespace coherdma::dapl
