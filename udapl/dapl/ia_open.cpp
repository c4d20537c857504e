// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Opening and closing an IA.

#include "api.hpp"
#include "async.hpp"
#include "dapl/cm/listener.hpp"
#include "dapl/core/fork_guard.hpp"
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
#include "dapl/memory/writeback.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <new>

namespace coherdma::dapl {

namespace {

/// Checks qlen and the asynchronous EVD: the second and the third argument of dat_ia_open.
DAT_RETURN check_async_evd(DAT_COUNT qlen, const DAT_EVD_HANDLE *async_evd_handle) noexcept {
    if (async_evd_handle == nullptr)
        return invalid_parameter(3);
    if (*async_evd_handle == DAT_HANDLE_NULL)
        return qlen > 0 ? DAT_RETURN{DAT_SUCCESS} : invalid_parameter(2);
    if (*async_evd_handle == DAT_EVD_OUT_OF_SCOPE || *async_evd_handle == DAT_EVD_ASYNC_EXISTS)
        return DAT_SUCCESS;
    const auto evd = lookup<dapl_evd>(*async_evd_handle);
    return evd && (evd->flags & DAT_EVD_ASYNC_FLAG) != 0
               ? DAT_RETURN{DAT_SUCCESS}
               : invalid_handle(DAT_INVALID_HANDLE_EVD_ASYNC);
}

/// dat_ia_open: sets ia.async_evd to the EVD of async_evd_handle, to none, or to a new EVD for qlen
/// events.
DAT_RETURN set_async_evd(dapl_ia &ia, DAT_COUNT qlen, DAT_EVD_HANDLE async_evd_handle) noexcept {
    if (async_evd_handle == DAT_EVD_OUT_OF_SCOPE || async_evd_handle == DAT_EVD_ASYNC_EXISTS)
        return DAT_SUCCESS;
    if (async_evd_handle != DAT_HANDLE_NULL) {
        // It belongs to another IA.
        ia.async_evd = require_stream(dapl_ia::find_any_and_add_ref<dapl_evd>(async_evd_handle),
                                      DAT_EVD_ASYNC_FLAG);
        return ia.async_evd != nullptr ? DAT_RETURN{DAT_SUCCESS}
                                       : invalid_handle(DAT_INVALID_HANDLE_EVD_ASYNC);
    }
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

/// Handler of atexit(): the kernel deregisters the LMRs of open IAs when the process has ended. In
/// the child of a fork no IA is registered.
void writeback_open_ias() noexcept {
    for_each_watched_ia([](dapl_ia &ia) {
        const std::lock_guard guard(objects_lock);
        for (auto *lmr = ia.needs_sync ? ia.first<dapl_lmr>() : nullptr; lmr != nullptr;
             lmr = static_cast<dapl_lmr *>(lmr->next))
            writeback_pages(*lmr);
    });
}

/// Sets coherency, needs_sync and checked_coherency.
DAT_RETURN open_coherency(dapl_ia &ia) noexcept {
    ia.coherency.reset(coherdma_open_device(ia.ctx()));
    coherdma_device_attr attr = {};
    if (!ia.coherency || coherdma_query_device(ia.coherency.get(), &attr, sizeof attr) != 0)
        return dat_error(DAT_INTERNAL_ERROR);
    ia.needs_sync = attr.sync_required != 0;
    if (!ia.needs_sync)
        return DAT_SUCCESS;
    coherdma_open_attr open_attr = {};
    open_attr.flags = COHERDMA_OPEN_CHECK_MEMORY;
    open_attr.context = ia.ctx();
    ia.checked_coherency.reset(coherdma_open_device_ex(&open_attr, sizeof open_attr));
    if (!ia.checked_coherency)
        return dat_error(DAT_INTERNAL_ERROR);
    static const bool has_handler = std::atexit(writeback_open_ias) == 0;
    return has_handler ? DAT_RETURN{DAT_SUCCESS} : no_resources(DAT_RESOURCE_MEMORY);
}

/// Opens the device that the IA name stands for. On an error the caller destroys the IA. Throws
/// std::bad_alloc.
DAT_RETURN init_ia(dapl_ia &ia, DAT_COUNT qlen, DAT_EVD_HANDLE async_evd_handle) {
    ia.dev = find_device(ia.inst.instance_data.c_str(), event_thread::channel());
    if (ia.dev == nullptr)
        return dat_error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
    DAT_RETURN result = open_coherency(ia);
    if (result != DAT_SUCCESS)
        return result;
    ia.provider_attrs = std::make_unique<named_attrs>(*ia.dev);
    result = set_async_evd(ia, qlen, async_evd_handle);
    if (result != DAT_SUCCESS)
        return result;
    if (const int error = start_async_events(ia)) {
        if (ia.owns_async_evd)
            destroy_object(ia.async_evd.load());
        else
            dapl_ia::drop_ref(ia.async_evd);
        return from_errno(error, DAT_RESOURCE_ERROR_HANDLER);
    }
    return DAT_SUCCESS;
}

} // namespace

/// dat_ia_open, for the registries of DAT 1.2 and 2.0.
DAT_RETURN open_ia(const open_options &options, const DAT_NAME_PTR name, DAT_COUNT qlen,
                   DAT_EVD_HANDLE *async_evd_handle, DAT_IA_HANDLE *ia_handle) noexcept {
    if (name == nullptr)
        return invalid_parameter(1);
    instance *const inst = find_instance(name, options.version, options.thread_safe);
    if (inst == nullptr)
        return dat_error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
    if (const DAT_RETURN result = check_async_evd(qlen, async_evd_handle); result != DAT_SUCCESS)
        return result;
    if (ia_handle == nullptr)
        return invalid_parameter(4);
    // No effect if the environment selects another verbs provider or coherdma's is not installed.
    coherdma_use_provider();
    if (const int error = event_thread::start())
        return from_errno(error, DAT_RESOURCE_DEVICE);
    dapl_ia *const ia = create_object<dapl_ia>(*inst);
    DAT_RETURN result = ia == nullptr ? no_resources(DAT_RESOURCE_MEMORY) : DAT_SUCCESS;
    if (ia != nullptr) {
        ia->provider = inst->table;
        ia->ro_aware = options.ro_aware && inst->passes_ro_aware;
        try {
            const fork_guard guard;
            result = init_ia(*ia, qlen, *async_evd_handle);
        } catch (const std::bad_alloc &) {
            result = no_resources(DAT_RESOURCE_MEMORY);
        }
        if (result != DAT_SUCCESS)
            destroy_object(ia);
    }
    if (result != DAT_SUCCESS) {
        event_thread::stop();
        return result;
    }
    if (ia->owns_async_evd)
        ia->insert(ia->async_evd.load()); // makes its handle valid
    if (ia->async_evd != nullptr)
        *async_evd_handle = ia->async_evd;
    publish(ia, inst->table);
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

/// Calls fn for each type of objects with the function that destroys one: service points first,
/// since they add CRs and EPs, then each type before those that it refers to.
template <class function>
void for_each_type(function &&fn) noexcept {
    fn(cm::destroy_psp);
    fn(cm::destroy_rsp);
    fn(cm::destroy_csp);
    fn(cm::destroy_cr);
    fn(destroy_ep);
    fn(destroy_rmr);
    fn(destroy_lmr);
    fn(destroy_srq);
    fn(destroy_evd);
    fn(destroy_cno);
    fn(destroy_object<dapl_pz>);
}

template <class object_type>
using destroy_function = void (*)(object_type *) noexcept;

template <class object_type>
object_type *first_object(dapl_ia &ia) noexcept {
    const std::lock_guard guard(objects_lock);
    return ia.first<object_type>();
}

template <class object_type>
object_type *next_object(const object_type &obj) noexcept {
    const std::lock_guard guard(objects_lock);
    return static_cast<object_type *>(obj.next);
}

/// Makes the handles of the IA and its objects invalid. On an error nothing was done.
DAT_RETURN begin_close(dapl_ia &ia, DAT_CLOSE_FLAGS flags) noexcept {
    const std::lock_guard guard(objects_lock);
    if (!is_published(&ia))
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    if (flags == DAT_CLOSE_GRACEFUL_FLAG && ia.has_objects())
        return invalid_state(DAT_INVALID_STATE_IA_IN_USE);
    ia.closing = true;
    unpublish(&ia);
    for_each_type([&ia]<class object_type>(destroy_function<object_type>) {
        for (auto *obj = ia.first<object_type>(); obj != nullptr;
             obj = static_cast<object_type *>(obj->next))
            unpublish(obj);
    });
    return DAT_SUCCESS;
}

/// Waits until no call uses the IA or one of its objects. Until then calls may add objects, which
/// are not published.
void wait_for_all_calls(dapl_ia &ia) noexcept {
    for_each_type([&ia]<class object_type>(destroy_function<object_type>) {
        for (auto *obj = first_object<object_type>(ia); obj != nullptr; obj = next_object(*obj)) {
            if constexpr (requires { obj->cancel_waiters(); })
                obj->cancel_waiters();
            wait_for_calls(obj);
        }
    });
    wait_for_calls(&ia);
}

/// Destroys all objects of an IA that no call uses any more.
void destroy_objects(dapl_ia &ia) noexcept {
    for_each_type([&ia]<class object_type>(destroy_function<object_type> destroy) {
        while (object_type *const obj = first_object<object_type>(ia)) {
            {
                const std::lock_guard guard(objects_lock);
                dapl_ia::unlink(obj);
            }
            destroy(obj);
        }
    });
}

} // namespace

/// Makes all handles of the IA invalid, waits for the calls that use its objects, and destroys
/// them.
DAT_RETURN ia_close(DAT_IA_HANDLE ia_handle, DAT_CLOSE_FLAGS flags) noexcept {
    auto ref = handle_to<dapl_ia>(ia_handle);
    if (!ref)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    if (flags != DAT_CLOSE_ABRUPT_FLAG && flags != DAT_CLOSE_GRACEFUL_FLAG)
        return invalid_parameter(2);
    // A CNO's agent runs in the event thread, which ia_close waits for.
    if (event_thread::in_event_thread())
        return invalid_state(DAT_INVALID_STATE_IA_IN_USE);
    dapl_ia *const ia = ref.get();
    if (const DAT_RETURN result = begin_close(*ia, flags); result != DAT_SUCCESS)
        return result;
    ref.reset();
    wait_for_all_calls(*ia);
    stop_async_events(*ia);
    dapl_ia::drop_ref(ia->async_evd.exchange(nullptr));
    destroy_objects(*ia);
    destroy_object(ia);
    event_thread::stop();
    return DAT_SUCCESS;
}

} // namespace coherdma::dapl
