// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "objects.hpp"

namespace sequencer {

bool object_table::insert(object &obj, std::size_t slot, std::size_t max_objects) {
    note_handle(obj);
    for (std::size_t i = 0; i != max_objects; ++i) {
        auto &entry = slots_.at(obj.type).at((slot + i) % max_objects);
        object *old = entry.load(std::memory_order_acquire);
        if ((old == nullptr || old->is_freed()) &&
            entry.compare_exchange_strong(old, &obj, std::memory_order_acq_rel))
            return true;
    }
    return false;
}

void object_table::begin_free(object &obj) {
    if (obj.type == DAT_HANDLE_TYPE_IA)
        for (std::size_t type = 0; type != num_types; ++type)
            obj.num_frees_before.at(type).store(num_frees(static_cast<DAT_HANDLE_TYPE>(type)),
                                                std::memory_order_relaxed);
    else if (!obj.freed.load(std::memory_order_relaxed))
        obj.num_frees_before.at(obj.type).store(num_frees(obj.type), std::memory_order_relaxed);
    count_free(obj.type);
    obj.active_frees.fetch_add(1, std::memory_order_relaxed);
    // release: pairs with the acquire of a thread whose call was refused because of this free.
    obj.free_attempts.fetch_add(1, std::memory_order_acq_rel);
}

bool object_table::end_free(object &obj, bool freed) {
    const bool was_freed = freed && obj.freed.exchange(true, std::memory_order_acq_rel);
    obj.active_frees.fetch_sub(1, std::memory_order_release);
    return !was_freed;
}

std::uint64_t object_table::num_later_frees(const object &obj) const {
    if (!obj.is_freed())
        return 0;
    // Closing the IA frees its objects, too.
    const object &freed = obj.freed.load(std::memory_order_acquire) ? obj : *obj.ia;
    return 1 + num_frees(obj.type) -
           freed.num_frees_before.at(obj.type).load(std::memory_order_relaxed);
}

std::size_t object_table::hash(DAT_HANDLE handle) {
    return (reinterpret_cast<std::uintptr_t>(handle) >> 6) * 0x9e3779b1 % num_handles;
}

object_table::handle_map *object_table::map_of_type(DAT_HANDLE_TYPE type) const {
    return type == DAT_HANDLE_TYPE_EP    ? eps_.get()
           : type == DAT_HANDLE_TYPE_RMR ? rmrs_.get()
                                         : nullptr;
}

void object_table::note_handle(object &obj) {
    handle_map *const map = map_of_type(obj.type);
    if (map == nullptr)
        return;
    for (std::size_t i = hash(obj.handle);; i = (i + 1) % num_handles) {
        object *old = map->objects.at(i).load(std::memory_order_acquire);
        while (old == nullptr || old->handle == obj.handle)
            if (map->objects.at(i).compare_exchange_weak(old, &obj, std::memory_order_acq_rel))
                return;
    }
}

object *object_table::find(DAT_HANDLE_TYPE type, DAT_HANDLE handle) const {
    const handle_map &map = *map_of_type(type);
    for (std::size_t i = hash(handle);; i = (i + 1) % num_handles) {
        object *const obj = map.objects.at(i).load(std::memory_order_acquire);
        if (obj == nullptr || obj->handle == handle)
            return obj;
    }
}

void object_table::clear() {
    for (auto &slots : slots_)
        for (auto &slot : slots)
            slot.store(nullptr, std::memory_order_relaxed);
    for (handle_map *map : {eps_.get(), rmrs_.get()})
        for (auto &obj : map->objects)
            obj.store(nullptr, std::memory_order_relaxed);
}

} // namespace sequencer
