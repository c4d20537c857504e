// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The memory of all objects that have DAT handles. A slot is only ever used for one type of object
// and is never unmapped, so a stale handle can be checked after its object was freed:
//
//     word 0   DAT_PROVIDER *, as DAT requires; stays when the object is freed
//     word 1   the tag: the slot's address plus a number of the type; 0 without a published object
//
// A slot is reused only after min_freed later frees of its type, so that the handle of a freed
// object stays invalid for a while.
//
// publish() stores the tag when the object is complete; unpublish() clears it before the object is
// torn down. In the child of a fork all slots are zero, so that the parent's handles are invalid.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <dat2/dat_registry.h>
#include <dat2/udat.h>
#include <new>
#include <type_traits>
#include <utility>

namespace coherdma::dapl {

/// The first words of every object. Its constructor does not initialize them: the arena does.
struct slot {
    const DAT_PROVIDER *provider;
    std::uintptr_t tag;
};

namespace arena {

inline constexpr std::size_t min_freed = 1000;

/// Reserves the address range and registers the fork handlers. False: no address space.
bool init() noexcept;

/// Memory for an object of this type, aligned to 64 bytes; nullptr: out of memory.
void *alloc(DAT_HANDLE_TYPE type, std::size_t size) noexcept;
void free(DAT_HANDLE_TYPE type, std::size_t size, void *memory) noexcept;

/// True: the words of a slot may be read at this address.
bool contains(const void *handle) noexcept;

constexpr std::uintptr_t make_tag(std::uintptr_t address, DAT_HANDLE_TYPE type) {
    return address + 0x5e3779b1 + type; // one instruction
}

} // namespace arena

/// The object of a handle from the consumer; nullptr: not the handle of a live object of this type.
template <class object_type>
object_type *lookup(DAT_HANDLE handle) noexcept {
    if (!arena::contains(handle))
        return nullptr;
    auto *const head = static_cast<slot *>(handle);
    // acquire: pairs with publish(); the object is complete.
    const auto tag = std::atomic_ref(head->tag).load(std::memory_order_acquire);
    return tag == arena::make_tag(reinterpret_cast<std::uintptr_t>(handle), object_type::type)
               ? static_cast<object_type *>(head)
               : nullptr;
}

/// The same for the handle by which the registry found the provider's table. The registry has read
/// word 0, so the address is mapped; if it is aligned like a slot, word 1 is on the same page.
template <class object_type>
object_type *handle_to(DAT_HANDLE handle) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(handle);
    if (address % 64 != 0) [[unlikely]]
        return nullptr;
    if (address == 0)
        __builtin_unreachable();
    auto *const head = static_cast<slot *>(handle);
    const auto tag = std::atomic_ref(head->tag).load(std::memory_order_acquire);
    return tag == arena::make_tag(address, object_type::type) ? static_cast<object_type *>(head)
                                                              : nullptr;
}

/// A new object, whose handle is not valid yet; nullptr: out of memory.
template <class object_type, class... arg_types>
object_type *create_object(arg_types &&...args) noexcept {
    // A pointer to virtual functions would precede the slot's words.
    static_assert(!std::is_polymorphic_v<object_type>);
    void *const memory = arena::alloc(object_type::type, sizeof(object_type));
    return memory != nullptr ? new (memory) object_type(std::forward<arg_types>(args)...) : nullptr;
}

/// Makes the handle valid.
template <class object_type>
void publish(object_type *object, const DAT_PROVIDER *provider) noexcept {
    std::atomic_ref(object->provider).store(provider, std::memory_order_relaxed);
    // release: a thread that reads the tag sees the object.
    std::atomic_ref(object->tag)
        .store(arena::make_tag(reinterpret_cast<std::uintptr_t>(object), object_type::type),
               std::memory_order_release);
}

/// Makes the handle invalid.
template <class object_type>
void unpublish(object_type *object) noexcept {
    std::atomic_ref(object->tag).store(0, std::memory_order_relaxed);
}

/// Destroys an object that is not published.
template <class object_type>
void destroy_object(object_type *object) noexcept {
    const DAT_PROVIDER *const provider = object->provider;
    object->~object_type();
    // Another thread may still read these words by a stale handle.
    auto *const head = reinterpret_cast<slot *>(object);
    std::atomic_ref(head->provider).store(provider, std::memory_order_relaxed);
    std::atomic_ref(head->tag).store(0, std::memory_order_relaxed);
    arena::free(object_type::type, sizeof(object_type), object);
}

} // namespace coherdma::dapl
