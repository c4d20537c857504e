// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "ia.hpp"

#include "dapl/core/instance.hpp"
#include "device.hpp"

namespace coherdma::dapl {

dapl_ia::dapl_ia(instance &provider_instance) noexcept
    : object(*this)
    , inst(provider_instance) {}

dapl_ia::~dapl_ia() = default;

ibv_context *dapl_ia::ctx() const noexcept {
    return dev->ctx();
}

/// The consumer's handle: the registry's integer, if the registry converts handles.
DAT_IA_HANDLE dapl_ia::handle() noexcept {
    DAT_IA_HANDLE registry_handle = DAT_HANDLE_NULL;
    if (inst.get_ia_handle != nullptr && inst.get_ia_handle(this, &registry_handle) == DAT_SUCCESS)
        return registry_handle;
    return this;
}

/// Adds the object to the list of its type. The caller holds objects_lock.
void dapl_ia::link(DAT_HANDLE_TYPE handle_type, object *obj) noexcept {
    object *&head = objects.at(handle_type);
    obj->next = head;
    obj->link = &head;
    if (head != nullptr)
        head->link = &obj->next;
    head = obj;
}

void dapl_ia::unlink(object *obj) noexcept {
    *obj->link = obj->next;
    if (obj->next != nullptr)
        obj->next->link = obj->link;
    obj->next = nullptr;
    obj->link = nullptr;
}

/// Drops a reference. The last destroys an EVD that a closed IA has left, see evd.cpp.
void dapl_ia::drop_ref(object *obj) noexcept {
    if (obj == nullptr)
        return;
    {
        const std::lock_guard guard(objects_lock);
        if (--obj->refs != 0 || obj->destroy_unreferenced == nullptr)
            return;
    }
    obj->destroy_unreferenced(obj);
}

bool dapl_ia::has_objects() const noexcept {
    const void *const implicit_evd = owns_async_evd ? async_evd.load() : nullptr;
    for (object *first_obj : objects) // of each type
        if (first_obj != nullptr && !(first_obj == implicit_evd && first_obj->next == nullptr))
            return true;
    return false;
}

} // namespace coherdma::dapl
