// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// An interface adapter (IA): an open port of an RDMA device.
#pragma once

#include "dapl/core/index.hpp"
#include "dapl/core/lock.hpp"
#include "dapl/core/object.hpp"
#include "dapl/core/unique_handle.hpp"
#include "named_attr.hpp"

#include <array>
#include <atomic>
#include <coherdma/coherdma.h>
#include <memory>
#include <net/if.h>
#include <sys/socket.h>

namespace coherdma::dapl {

struct dapl_ep;
struct dapl_evd;
struct dapl_lmr;
struct dapl_rmr;
struct instance;
struct device;

class dapl_ia : public object {
  public:
    static constexpr DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_IA;
    static constexpr DAT_UINT32 bad_handle = DAT_INVALID_HANDLE_IA;
    explicit dapl_ia(instance &provider_instance) noexcept;
    ~dapl_ia();

    ibv_context *ctx() const noexcept;
    /// The consumer's handle: the registry's integer.
    DAT_IA_HANDLE handle() noexcept;

    /// The object of a handle, if it is of this IA.
    template <class object_type>
    call_ref<object_type> find(DAT_HANDLE handle) noexcept {
        auto obj = lookup<object_type>(handle);
        if (obj && obj->ia != this)
            obj.reset();
        return obj;
    }
    /// The same with a reference, so that it cannot be freed until drop_ref(); nullptr: there is
    /// none.
    template <class object_type>
    object_type *find_and_add_ref(DAT_HANDLE handle) noexcept {
        const auto obj = find<object_type>(handle);
        return obj ? add_ref(*obj) : nullptr;
    }
    /// The same for an object of any IA.
    template <class object_type>
    static object_type *find_any_and_add_ref(DAT_HANDLE handle) noexcept {
        const auto obj = lookup<object_type>(handle);
        return obj ? add_ref(*obj) : nullptr;
    }
    /// Drops a reference of these. nullptr is allowed.
    static void drop_ref(object *obj) noexcept;

    /// Adds a complete object to the IA's list and makes its handle valid, unless the IA is being
    /// closed.
    template <class object_type>
    void insert(object_type *obj) noexcept {
        const std::lock_guard guard(objects_lock);
        link(object_type::type, obj);
        if (!closing)
            publish(obj, provider);
    }

    /// True: there are objects, not counting an asynchronous EVD that dat_ia_open created. The
    /// caller holds objects_lock.
    bool has_objects() const noexcept;
    /// The first object of a type, or nullptr. The caller holds objects_lock.
    template <class object_type>
    object_type *first() noexcept {
        return static_cast<object_type *>(objects.at(object_type::type));
    }
    void link(DAT_HANDLE_TYPE handle_type, object *obj) noexcept;
    static void unlink(object *obj) noexcept;

    bool closing = false; ///< under objects_lock: objects are not published any more
    instance &inst;       ///< of the IA name, see instance.hpp
    std::shared_ptr<device> dev;
    std::unique_ptr<coherdma_device, deleter<coherdma_close_device>> coherency;
    /// The same, but its calls fail for memory that is not mapped; nullptr if no sync is needed.
    std::unique_ptr<coherdma_device, deleter<coherdma_close_device>> checked_coherency;
    std::unique_ptr<named_attrs> provider_attrs; ///< named attributes, for dat_ia_query
    std::atomic<dapl_evd *> async_evd = nullptr; ///< may belong to another IA
    bool owns_async_evd = false;                 ///< dat_ia_open created it
    bool needs_sync = false;                     ///< the device is not coherent
    bool ro_aware = false;                       ///< the consumer accepts relaxed ordering

    index<dapl_lmr> lkey_index;
    index<object> rkey_index; ///< LMRs and RMRs
    index<dapl_ep> qpn_index; ///< EPs with an SRQ

  private:
    /// nullptr: the object is not published any more.
    template <class object_type>
    static object_type *add_ref(object_type &obj) noexcept {
        const std::lock_guard guard(objects_lock);
        if (!is_published(&obj))
            return nullptr;
        ++obj.refs;
        return &obj;
    }

    std::array<object *, DAT_HANDLE_TYPE_EXTENSION_BASE> objects = {};
};

/// Removes an object from its IA, which stays open as long as this exists. If `obj` is not nullptr,
/// the object is the caller's alone: to be destroyed, or inserted again.
template <class object_type>
struct removal_from_ia {
    /// ref: the call's use of the object, which ends. in_use: nothing was done, because other
    /// objects refer to it. Neither obj nor in_use: another thread has removed it.
    explicit removal_from_ia(call_ref<object_type> ref) noexcept
        : ia(call_ref<dapl_ia>::share(*ref->ia)) {
        {
            const std::lock_guard guard(objects_lock);
            if (!is_published(ref.get()))
                return;
            in_use = ref->refs != 0;
            if (in_use)
                return;
            obj = ref.get();
            dapl_ia::unlink(obj);
            unpublish(obj);
        }
        ref.reset();
        if constexpr (requires { obj->cancel_waiters(); })
            obj->cancel_waiters();
        wait_for_calls(obj);
    }

    call_ref<dapl_ia> ia;
    object_type *obj = nullptr; ///< nullptr: in use, or another thread has removed it
    bool in_use = false;
};

/// The query call of a type: checks its arguments, sets param->ia_handle, and calls fill(object)
/// for the other fields.
template <class object_type, class param_type, class function>
DAT_RETURN query_object(DAT_HANDLE handle, DAT_UINT64 mask, DAT_UINT64 all_fields,
                        param_type *param, function &&fill) noexcept {
    const auto obj = handle_to<object_type>(handle);
    if (!obj)
        return invalid_handle(object_type::bad_handle);
    if ((mask & ~all_fields) != 0)
        return invalid_parameter(2);
    if (param == nullptr)
        return invalid_parameter(3);
    *param = {};
    if constexpr (requires { param->ia_handle; })
        param->ia_handle = obj->ia->handle();
    fill(*obj);
    return DAT_SUCCESS;
}

/// The free call of a type. ref: the object of the handle, or empty. in_use_subtype: of
/// DAT_INVALID_STATE, if other objects refer to it.
template <class object_type, class function>
DAT_RETURN free_object(call_ref<object_type> ref, DAT_UINT32 in_use_subtype,
                       function &&destroy) noexcept {
    if (!ref)
        return invalid_handle(object_type::bad_handle);
    const removal_from_ia<object_type> removed(std::move(ref));
    if (removed.obj == nullptr)
        return removed.in_use ? invalid_state(in_use_subtype)
                              : invalid_handle(object_type::bad_handle);
    destroy(removed.obj);
    return DAT_SUCCESS;
}

} // namespace coherdma::dapl
