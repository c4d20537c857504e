// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Where all objects live that programs have handles of. A slot is used for one kind of object for
// ever and is never unmapped, so any handle can be looked at, long after its object was freed:
//
//     first word   the DAT_PROVIDER *, as DAT wants; it stays when the object is freed
//     second word  the tag: the slot's address and a number of its kind; 0 while there is no object
//
// A tag is written when its object is complete, and taken away before it is torn down.
// In the child of a fork all is zero: its parent's handles are good for nothing there.
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

/// Every object begins with it. Its constructor leaves it as it is: the arena fills it.
struct slot {
    const DAT_PROVIDER *provider;
    std::uintptr_t tag;
};

namespace arena {

/// Has its room, and will see to itself when the process forks. False: there is no room.
bool ready() noexcept;

/// Memory for an object of this kind, at a line's begin; nullptr if there is none.
void *take(DAT_HANDLE_TYPE kind, std::size_t size) noexcept;
void give_back(DAT_HANDLE_TYPE kind, std::size_t size, void *memory) noexcept;

/// Whether it may be looked at: the address of a slot that was used once.
bool holds(const void *handle) noexcept;

constexpr std::uintptr_t tag_of(std::uintptr_t address, DAT_HANDLE_TYPE kind) {
    return address + 0x5e3779b1 + kind; // one instruction
}

} // namespace arena

/// The object, or nullptr if the handle is not of one of this kind that lives. For handles that
/// are arguments; nothing is known of them.
template <class kind>
kind *as(DAT_HANDLE handle) noexcept {
    if (!arena::holds(handle))
        return nullptr;
    auto *const head = static_cast<slot *>(handle);
    // acquire: the object was complete before its tag was there.
    const auto tag = std::atomic_ref(head->tag).load(std::memory_order_acquire);
    return tag == arena::tag_of(reinterpret_cast<std::uintptr_t>(handle), kind::type)
               ? static_cast<kind *>(head)
               : nullptr;
}

/// The same for the handle that a call was made with: the registry has read its first word, or it
/// would not know whom to call. The second is on the same page if it is a slot's, so it can be read
/// without knowing the arena.
template <class kind>
kind *called_with(DAT_HANDLE handle) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(handle);
    if (address % 64 != 0) [[unlikely]]
        return nullptr;
    if (address == 0)
        __builtin_unreachable();
    auto *const head = static_cast<slot *>(handle);
    const auto tag = std::atomic_ref(head->tag).load(std::memory_order_acquire);
    return tag == arena::tag_of(address, kind::type) ? static_cast<kind *>(head) : nullptr;
}

/// A new object, not yet to be found by its handle; nullptr if there is no memory.
template <class kind, class... arguments>
kind *prepare(arguments &&...given) noexcept {
    // A compiler would put its table of virtual functions before the slot's words.
    static_assert(!std::is_polymorphic_v<kind>);
    void *const memory = arena::take(kind::type, sizeof(kind));
    return memory != nullptr ? new (memory) kind(std::forward<arguments>(given)...) : nullptr;
}

/// From now on its handle is good.
template <class kind>
void publish(kind *object, const DAT_PROVIDER *provider) noexcept {
    std::atomic_ref(object->provider).store(provider, std::memory_order_relaxed);
    // release: who sees the tag sees the object.
    std::atomic_ref(object->tag)
        .store(arena::tag_of(reinterpret_cast<std::uintptr_t>(object), kind::type),
               std::memory_order_release);
}

/// From now on its handle is bad.
template <class kind>
void withdraw(kind *object) noexcept {
    std::atomic_ref(object->tag).store(0, std::memory_order_relaxed);
}

/// Ends an object that was withdrawn or never published.
template <class kind>
void discard(kind *object) noexcept {
    const DAT_PROVIDER *const provider = object->provider;
    object->~kind();
    // Somebody may still look at them, by the handle of what was here.
    auto *const head = reinterpret_cast<slot *>(object);
    std::atomic_ref(head->provider).store(provider, std::memory_order_relaxed);
    std::atomic_ref(head->tag).store(0, std::memory_order_relaxed);
    arena::give_back(kind::type, sizeof(kind), object);
}

} // namespace coherdma::dapl
