// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Opening and closing an IA.

#include "api.hpp"
#include "async.hpp"
#include "dapl/cm/listener.hpp"
#include "dapl/core/instance.hpp"
#include "dapl/ep/ep.hpp"
#include "dapl/ep/srq.hpp"
#include "dapl/event/cno.hpp"
#include "dapl/event/evd.hpp"
#include "dapl/ia/device.hpp"
#include "dapl/ia/ia.hpp"
#include "dapl/memory/lmr.hpp"
#include "dapl/memory/pz.hpp"
#include "dapl/memory/rmr.hpp"

#include <algorithm>
#include <cerrno>

namespace coherdma::dapl {

namespace {

/// Sets ia.async_evd: the consumer's EVD, none, or a new one.
DAT_RETURN set_async_evd(dapl_ia &ia, DAT_COUNT qlen, DAT_EVD_HANDLE async_evd_handle) noexcept {
    if (async_evd_handle == DAT_EVD_OUT_OF_SCOPE || async_evd_handle == DAT_EVD_ASYNC_EXISTS)
        return DAT_SUCCESS;
    if (async_evd_handle != DAT_HANDLE_NULL) {
        // It belongs to another IA.
        ia.async_evd =
            require_stream(dapl_ia::get_any<dapl_evd>(async_evd_handle), DAT_EVD_ASYNC_FLAG);
        return ia.async_evd != nullptr ? DAT_RETURN{DAT_SUCCESS}
                                       : invalid_handle(DAT_INVALID_HANDLE_EVD_ASYNC);
    }
    if (qlen <= 0)
        return invalid_parameter(2);
    // Every EP may have one event queued, whatever qlen is: OFED's dtestsrq passes 8 for 20 EPs.
    const auto &dev_attr = ia.dev->attr;
    dapl_evd *evd = nullptr;
    const DAT_RETURN result = create_evd_object(
        ia, std::max(qlen, std::min(dev_attr.max_qp, dev_attr.max_cqe)), DAT_EVD_ASYNC_FLAG, evd);
    if (result != DAT_SUCCESS)
        return result;
    ia.async_evd = evd;
    ia.owns_async_evd = true;
    evd->refs = 1; // the IA
    return DAT_SUCCESS;
}

DAT_RETURN init_ia(dapl_ia &ia, DAT_COUNT qlen, DAT_EVD_HANDLE async_evd_handle) noexcept {
    ia.dev = find_device(ia.inst.instance_data.c_str(), event_thread::channel());
    if (ia.dev == nullptr)
        return dat_error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
    ia.coherency.reset(coherdma_open_device(ia.ctx()));
    if (!ia.coherency)
        return dat_error(DAT_INTERNAL_ERROR);
    ia.named = std::make_unique<named_attrs>(*ia.dev);
    const DAT_RETURN result = set_async_evd(ia, qlen, async_evd_handle);
    if (result != DAT_SUCCESS)
        return result;
    if (const int error = async_register(ia)) {
        if (ia.owns_async_evd)
            destroy_object(ia.async_evd.load());
        else
            dapl_ia::put(ia.async_evd);
        return from_errno(error, DAT_RESOURCE_ERROR_HANDLER);
    }
    return DAT_SUCCESS;
}

} // namespace

DAT_RETURN open_ia(const open_options &options, const DAT_NAME_PTR name, DAT_COUNT qlen,
                   DAT_EVD_HANDLE *async_evd_handle, DAT_IA_HANDLE *ia_handle) noexcept {
    if (name == nullptr)
        return invalid_parameter(1);
    if (async_evd_handle == nullptr)
        return invalid_parameter(3);
    if (ia_handle == nullptr)
        return invalid_parameter(4);
    instance *const inst = find_instance(name, options.version, options.thread_safe);
    if (inst == nullptr)
        return dat_error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
    // No effect if the environment selects another verbs provider or coherdma's is not installed.
    coherdma_use_provider();
    if (const int error = event_thread::start())
        return from_errno(error, DAT_RESOURCE_DEVICE);
    dapl_ia *const ia = create_object<dapl_ia>(*inst);
    DAT_RETURN result = ia == nullptr ? no_resources(DAT_RESOURCE_MEMORY) : DAT_SUCCESS;
    if (ia != nullptr) {
        ia->provider = inst->table;
        ia->ro_aware = options.ro_aware && inst->passes_ro_aware;
        result = init_ia(*ia, qlen, *async_evd_handle);
        if (result != DAT_SUCCESS)
            destroy_object(ia);
    }
    if (result != DAT_SUCCESS) {
        event_thread::stop();
        return result;
    }
    publish(ia, inst->table);
    if (ia->owns_async_evd)
        ia->insert(ia->async_evd.load());
    if (ia->async_evd != nullptr)
        *async_evd_handle = ia->async_evd;
    *ia_handle = ia;
    return DAT_SUCCESS;
}

DAT_RETURN ia_open(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async_evd_handle,
                   DAT_IA_HANDLE *ia_handle) noexcept {
    return open_ia({2, DAT_FALSE}, name, qlen, async_evd_handle, ia_handle);
}

DAT_RETURN ia_open_thread_safe(const DAT_NAME_PTR name, DAT_COUNT qlen,
                               DAT_EVD_HANDLE *async_evd_handle,
                               DAT_IA_HANDLE *ia_handle) noexcept {
    return open_ia({2, DAT_TRUE}, name, qlen, async_evd_handle, ia_handle);
}

namespace {

template <class object_type, class function>
void destroy_all_of(dapl_ia &ia, function &&destroy) noexcept {
    bool in_use;
    while (object_type *const obj = ia.first<object_type>()) {
        {
            // The objects that refer to it are already destroyed, or are destroyed with the IA.
            const std::lock_guard guard(ia.lock);
            obj->refs = 0;
        }
        if (ia.remove(obj, in_use))
            destroy(obj);
    }
}

void destroy_objects(dapl_ia &ia) noexcept {
    destroy_all_of<cm::dapl_cr>(ia, [](auto *cr) { cm::destroy_cr(cr); });
    destroy_all_of<dapl_ep>(ia, [](auto *ep) { destroy_ep(ep); });
    destroy_all_of<cm::dapl_psp>(ia, [](auto *psp) { cm::destroy_sp(psp); });
    destroy_all_of<cm::dapl_rsp>(ia, [](auto *rsp) { cm::destroy_sp(rsp); });
    destroy_all_of<cm::dapl_csp>(ia, [](auto *csp) { cm::destroy_sp(csp); });
    destroy_all_of<dapl_rmr>(ia, [](auto *rmr) { destroy_rmr(rmr); });
    destroy_all_of<dapl_lmr>(ia, [](auto *lmr) { destroy_lmr(lmr); });
    destroy_all_of<dapl_srq>(ia, [](auto *srq) { destroy_object(srq); });
    destroy_all_of<dapl_evd>(ia, [](auto *evd) { destroy_evd(evd); });
    destroy_all_of<dapl_cno>(ia, [](auto *cno) { destroy_cno(cno); });
    destroy_all_of<dapl_pz>(ia, [](auto *pz) { destroy_object(pz); });
}

} // namespace

DAT_RETURN ia_close(DAT_IA_HANDLE ia_handle, DAT_CLOSE_FLAGS flags) noexcept {
    dapl_ia *const ia = handle_to<dapl_ia>(ia_handle);
    if (ia == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    if (flags != DAT_CLOSE_ABRUPT_FLAG && flags != DAT_CLOSE_GRACEFUL_FLAG)
        return invalid_parameter(2);
    // A CNO's agent runs in the event thread, which ia_close waits for.
    if (event_thread::in_event_thread() || (flags == DAT_CLOSE_GRACEFUL_FLAG && ia->has_objects()))
        return invalid_state(DAT_INVALID_STATE_IA_IN_USE);
    unpublish(ia);
    if (!ia->owns_async_evd)
        dapl_ia::put(ia->async_evd.exchange(nullptr));
    async_unregister(*ia);
    destroy_objects(*ia);
    destroy_object(ia);
    event_thread::stop();
    return DAT_SUCCESS;
}

} // namespace coherdma::dapl
