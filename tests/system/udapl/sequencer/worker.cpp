// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "worker.hpp"

#include <sys/mman.h>

namespace sequencer {

namespace {

/// How many live objects of a type there are at most. EPs and CRs that events bring have more room.
constexpr std::size_t max_objects(DAT_HANDLE_TYPE type) {
    switch (type) {
    case DAT_HANDLE_TYPE_IA:
        return 4;
    case DAT_HANDLE_TYPE_EP:
        return 16;
    case DAT_HANDLE_TYPE_EVD:
        return 20;
    case DAT_HANDLE_TYPE_CR:
        return object_table::num_slots;
    case DAT_HANDLE_TYPE_LMR:
        return 10;
    default:
        return 5;
    }
}

/// Handles that are used after the free: well below the limit, since it takes time to use one.
constexpr std::uint64_t max_stale_age = min_later_frees / 2;

void *unreadable_page() {
    static void *const page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return page;
}

} // namespace

unsigned char *lmr_memory() {
    static void *const memory =
        mmap(nullptr, memory_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return static_cast<unsigned char *>(memory);
}

object *worker::find_live(DAT_HANDLE_TYPE type, const object *ia, DAT_EVD_FLAGS flags) {
    object *const obj = prefers_busy_objects ? find_live(type, ia, flags, true) : nullptr;
    return obj != nullptr ? obj : find_live(type, ia, flags, false);
}

object *worker::find_live(DAT_HANDLE_TYPE type, const object *ia, DAT_EVD_FLAGS flags, bool busy) {
    const std::size_t count = object_table::num_slots, start = random.number_below(count);
    for (std::size_t i = 0; i != count; ++i) {
        object *const obj = table.get(type, (start + i) % count);
        if (obj != nullptr && !obj->is_freed() && (ia == nullptr || obj->ia == ia) &&
            (obj->evd_flags & flags) == flags && (!busy || obj->num_users != 0))
            return obj;
    }
    return nullptr;
}

DAT_HANDLE worker::draw_invalid_handle(DAT_HANDLE_TYPE type) {
    alignas(64) static unsigned char bytes[256] = {};
    const auto other_type =
        static_cast<DAT_HANDLE_TYPE>((type + 1 + random.number_below(num_types - 1)) % num_types);
    switch (random.number_below(5)) {
    case 0:
        return DAT_HANDLE_NULL;
    case 1:
        return bytes;
    case 2:
        return bytes + 1;
    case 3:
        return unreadable_page();
    default:
        // The number of an IA may become valid at any time.
        object *const other = type != DAT_HANDLE_TYPE_IA && other_type != DAT_HANDLE_TYPE_IA
                                  ? find_live(other_type)
                                  : nullptr;
        return other != nullptr ? other->handle : bytes + 64;
    }
}

object_ref worker::draw(DAT_HANDLE_TYPE type) {
    if (random.percent_chance(2))
        return {nullptr, draw_invalid_handle(type)};
    if (random.percent_chance(5)) { // also a freed object, if its handle cannot have been reused
        object *const obj = table.get(type, random.number_below(object_table::num_slots));
        if (obj != nullptr && (obj->type != DAT_HANDLE_TYPE_IA || !obj->is_freed()) &&
            table.num_later_frees(*obj) < max_stale_age)
            return {obj, obj->handle};
    }
    if (object *const obj = find_live(type))
        return {obj, obj->handle};
    return {nullptr, draw_invalid_handle(type)};
}

object_ref worker::draw(DAT_HANDLE_TYPE type, const object *ia) {
    if (ia != nullptr && !random.percent_chance(8))
        if (object *const obj = find_live(type, ia))
            return {obj, obj->handle};
    return draw(type);
}

object_ref worker::draw_evd(const object *ia, DAT_EVD_FLAGS flags) {
    if (!random.percent_chance(5))
        if (object *const obj = find_live(DAT_HANDLE_TYPE_EVD, ia, flags))
            return {obj, obj->handle};
    return draw(DAT_HANDLE_TYPE_EVD, ia);
}

object_ref worker::draw_ia() {
    if (random.percent_chance(60))
        return {shared.main_ia, shared.main_ia->handle};
    return draw(DAT_HANDLE_TYPE_IA);
}

DAT_CONTEXT worker::draw_cookie() {
    DAT_CONTEXT cookie;
    cookie.as_64 = (cookie_mark << cookie_mark_shift) | (std::uint64_t{index} << 40) |
                   (num_calls & 0xffffffff);
    return cookie;
}

object &worker::add_object(DAT_HANDLE_TYPE type, DAT_HANDLE handle, object *ia) {
    for (std::size_t slot = 0; slot != object_table::num_slots; ++slot) {
        const object *const old = table.get(type, slot);
        if (old == nullptr || old->handle != handle)
            continue;
        const bool maybe_freed = old->active_frees != 0 || old->ia->active_frees != 0;
        if (!old->is_freed() && !maybe_freed)
            fail("the new handle is that of a live object");
        if (old->is_freed() && type != DAT_HANDLE_TYPE_IA &&
            table.num_later_frees(*old) < min_later_frees)
            fail("the new handle is that of an object freed " +
                 std::to_string(table.num_later_frees(*old)) + " frees ago");
    }
    object &obj = objects.emplace_back(type, handle, ia);
    obj.serial = shared.next_serial.fetch_add(1, std::memory_order_relaxed);
    return obj;
}

bool worker::insert_unless_full(object &obj) {
    const std::size_t limit = max_objects(obj.type);
    return table.insert(obj, random.number_below(limit), limit);
}

} // namespace sequencer
