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

    /// The object of a handle if it is of this IA, or nullptr. Valid while the caller holds lock.
    template <class object_type>
    object_type *find(DAT_HANDLE handle) noexcept {
        object_type *const obj = lookup<object_type>(handle);
        return obj != nullptr && obj->ia == this ? obj : nullptr;
    }
    /// The same with a reference, which put() drops. The caller does not hold lock.
    template <class object_type>
    object_type *get(DAT_HANDLE handle) noexcept {
        const std::lock_guard guard(lock);
        object_type *const obj = find<object_type>(handle);
        if (obj != nullptr)
            ++obj->refs;
        return obj;
    }
    /// The same for an object of any IA.
    template <class object_type>
    static object_type *get_any(DAT_HANDLE handle) noexcept {
        object_type *const obj = lookup<object_type>(handle);
        return obj != nullptr ? obj->ia->template get<object_type>(handle) : nullptr;
    }
    static void put(object *obj) noexcept {
        if (obj == nullptr)
            return;
        const std::lock_guard guard(obj->ia->lock);
        --obj->refs;
    }

    /// Adds a complete object to the IA's list and makes its handle valid.
    template <class object_type>
    void insert(object_type *obj) noexcept {
        const std::lock_guard guard(lock);
        link(object_type::type, obj);
        publish(obj, provider);
    }

    /// Makes the object's handle invalid and removes it from the list. False: nothing was done,
    /// because the object has references (in_use) or another thread has removed it.
    template <class object_type>
    bool remove(object_type *obj, bool &in_use) noexcept {
        const std::lock_guard guard(lock);
        in_use = false;
        if (lookup<object_type>(obj) == nullptr)
            return false;
        in_use = obj->refs != 0;
        if (in_use)
            return false;
        unlink(obj);
        unpublish(obj);
        return true;
    }

    /// The first object of a type, or nullptr.
    template <class object_type>
    object_type *first() noexcept {
        const std::lock_guard guard(lock);
        return first_locked<object_type>();
    }
    /// The same; the caller holds lock.
    template <class object_type>
    object_type *first_locked() noexcept {
        return static_cast<object_type *>(objects.at(object_type::type));
    }
    /// True: there are objects, not counting an asynchronous EVD that dat_ia_open created.
    bool has_objects() noexcept;

    mutex lock; ///< of the lists, the indexes and the objects' refs
    instance &inst;
    std::shared_ptr<device> dev;
    std::unique_ptr<coherdma_device, deleter<coherdma_close>> coherency;
    std::unique_ptr<named_attrs> named;
    std::atomic<dapl_evd *> async_evd = nullptr; ///< may belong to another IA
    bool owns_async_evd = false;                 ///< dat_ia_open created it
    bool ro_aware = false;                       ///< the consumer accepts relaxed ordering

    index<dapl_lmr> lkey_index;
    index<object> rkey_index; ///< LMRs and RMRs
    index<dapl_ep> qpn_index; ///< EPs with an SRQ

  private:
    void link(DAT_HANDLE_TYPE handle_type, object *obj) noexcept;
    static void unlink(object *obj) noexcept;

    std::array<object *, DAT_HANDLE_TYPE_EXTENSION_BASE> objects = {};
};

/// The query call of a type: checks its arguments, sets param->ia_handle, and calls fill(object)
/// for the other fields.
template <class object_type, class param_type, class function>
DAT_RETURN query_object(DAT_HANDLE handle, DAT_UINT64 mask, DAT_UINT64 all_fields,
                        param_type *param, function &&fill) noexcept {
    object_type *const obj = handle_to<object_type>(handle);
    if (obj == nullptr)
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

/// The free call of a type; counted, if the type has a counter for that. in_use_subtype: of
/// DAT_INVALID_STATE, for an object with references.
template <class object_type, class function>
DAT_RETURN free_object(DAT_HANDLE handle, DAT_UINT32 in_use_subtype, function &&destroy) noexcept {
    object_type *const obj = handle_to<object_type>(handle);
    bool in_use = false;
    if (obj == nullptr || !obj->ia->remove(obj, in_use))
        return in_use ? invalid_state(in_use_subtype) : invalid_handle(object_type::bad_handle);
    if constexpr (requires { object_type::free_counter; })
        obj->ia->count(object_type::free_counter);
    destroy(obj);
    return DAT_SUCCESS;
}

} // namespace coherdma::dapl
