// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The memory of all objects that have DAT handles. A slot is only ever used for one type of object
// and is never unmapped, so a stale handle can be checked after its object was freed:
//
//     word 0   DAT_PROVIDER *, as DAT requires; stays when the object is freed
//     word 1   the tag: the slot's address plus a number of the type; 0 without a published object
//     word 2   the number of users, which are calls; plus INT_MIN while the object is published
//
// Lifetime of an object:
//
//  1. create_object() constructs it. No other thread can reach it.
//  2. publish() makes its handle valid, when the object is complete.
//  3. handle_to() and lookup() return a call_ref, which counts a user until the call ends.
//  4. unpublish() makes the handle invalid: there are no new users.
//  5. wait_for_calls() waits until no call uses the object.
//  6. destroy_object() destroys it. The slot is reused only after min_freed later frees of its
//     type, so that the handle of a freed object stays invalid for a while.
//
// In the child of a fork the parent's slots are zero and not used, so that its handles are invalid.
#pragma once

#include "lock.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <dat2/dat_registry.h>
#include <dat2/udat.h>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

namespace coherdma::dapl {

/// The first words of every object. Its constructor does not initialize them: object_arena does.
struct slot {
    const DAT_PROVIDER *provider;
    std::uintptr_t tag;
    std::int32_t users;
};

/// Of the lists of all IAs' objects and of the objects' refs, see object.hpp. No other lock is
/// taken under it.
inline mutex objects_lock;

/// The memory of all DAT objects: slots that never become slots of another type, so that any thread
/// may read the first words of an object by a stale handle.
namespace object_arena {

/// A slot is reused only after this many slots of its type were freed after it, unless there is no
/// other, so that stale handles stay invalid for long.
inline constexpr std::size_t min_freed = 1000;

/// Called once, before an object is created.
void register_atfork() noexcept;

/// Memory for an object of this type, aligned to 64 bytes; nullptr: out of memory.
void *alloc(DAT_HANDLE_TYPE type, std::size_t size) noexcept;
void free(DAT_HANDLE_TYPE type, std::size_t size, void *memory) noexcept;

/// True: the words of a slot may be read at this address.
bool contains(const void *handle) noexcept;

constexpr std::uintptr_t make_tag(std::uintptr_t address, DAT_HANDLE_TYPE type) {
    return address + 0x5e3779b1 + type; // one instruction
}

} // namespace object_arena

/// True: the handle of an object is valid.
inline bool is_published(slot *object) noexcept {
    return std::atomic_ref(object->users).load(std::memory_order_acquire) < 0;
}

/// Use of an object by a call: until the destructor, the object is not destroyed. Empty: the handle
/// is not that of a published object.
template <class object_type>
class call_ref {
  public:
    call_ref() noexcept = default;
    /// head: a slot. Inlined, so that the pointer stays in a register: a post and its reap take 40
    /// instructions fewer (tests/bench/dapl_costs.py).
    [[gnu::always_inline]] explicit call_ref(slot *head) noexcept {
        // The tag shows that this is a slot of the type, which it stays; the sign of the count that
        // the object is published. acquire: pairs with publish().
        if (std::atomic_ref(head->tag).load(std::memory_order_relaxed) != make_tag(head))
            return;
        if (__atomic_add_fetch(&head->users, 1, __ATOMIC_ACQUIRE) < 0) [[likely]]
            obj = static_cast<object_type *>(head);
        else
            drop(head);
    }
    /// One more use of an object that the caller uses, also if it is not published any more.
    static call_ref share(object_type &object) noexcept {
        call_ref shared;
        std::atomic_ref(object.users).fetch_add(1, std::memory_order_relaxed);
        shared.obj = &object;
        return shared;
    }
    call_ref(call_ref &&other) noexcept
        : obj(std::exchange(other.obj, nullptr)) {}
    call_ref &operator=(call_ref &&other) noexcept {
        std::swap(obj, other.obj);
        return *this;
    }
    [[gnu::always_inline]] ~call_ref() {
        if (obj != nullptr)
            drop(obj);
    }

    void reset() noexcept {
        if (obj != nullptr)
            drop(std::exchange(obj, nullptr));
    }
    object_type *get() const noexcept { return obj; }
    object_type *operator->() const noexcept { return obj; }
    object_type &operator*() const noexcept { return *obj; }
    explicit operator bool() const noexcept { return obj != nullptr; }

  private:
    [[gnu::always_inline]] static void drop(slot *head) noexcept {
        // Keeps GCC from holding the address of users in one more register.
        asm("" : "+r"(head));
        // release: the thread that destroys the object sees what this call wrote. seq_cst, since
        // notify_all loads the number of sleepers, see lock.cpp.
        if (std::atomic_ref(head->users).fetch_sub(1) == 1) [[unlikely]]
            wake(head);
    }
    static std::uintptr_t make_tag(const slot *head) noexcept {
        return object_arena::make_tag(reinterpret_cast<std::uintptr_t>(head), object_type::type);
    }
    [[gnu::noinline]] static void wake(slot *head) noexcept {
        std::atomic_ref(head->users).notify_all();
    }

    object_type *obj = nullptr;
};

/// The object of a handle from the consumer.
template <class object_type>
call_ref<object_type> lookup(DAT_HANDLE handle) noexcept {
    return object_arena::contains(handle) ? call_ref<object_type>(static_cast<slot *>(handle))
                                          : call_ref<object_type>();
}

/// The same for the handle by which the registry found the provider's table. The registry has read
/// word 0, so the address is mapped; if it is aligned like a slot, the next words are on the same
/// page.
template <class object_type>
[[gnu::always_inline]] inline call_ref<object_type> handle_to(DAT_HANDLE handle) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(handle);
    if (address % 64 != 0) [[unlikely]]
        return {};
    if (address == 0)
        __builtin_unreachable();
    return call_ref<object_type>(static_cast<slot *>(handle));
}

/// A new object, whose handle is not valid yet; nullptr: out of memory.
template <class object_type, class... arg_types>
object_type *create_object(arg_types &&...args) noexcept {
    // A pointer to virtual functions would precede the slot's words.
    static_assert(!std::is_polymorphic_v<object_type>);
    void *const memory = object_arena::alloc(object_type::type, sizeof(object_type));
    if (memory == nullptr)
        return nullptr;
    try {
        return new (memory) object_type(std::forward<arg_types>(args)...);
    } catch (const std::bad_alloc &) {
        object_arena::free(object_type::type, sizeof(object_type), memory);
        return nullptr;
    }
}

/// Makes the handle valid.
template <class object_type>
void publish(object_type *object, const DAT_PROVIDER *provider) noexcept {
    std::atomic_ref(object->provider).store(provider, std::memory_order_relaxed);
    // release: a thread whose call_ref reads the sign sees the object.
    std::atomic_ref(object->users)
        .fetch_add(std::numeric_limits<std::int32_t>::min(), std::memory_order_release);
    std::atomic_ref(object->tag)
        .store(object_arena::make_tag(reinterpret_cast<std::uintptr_t>(object), object_type::type),
               std::memory_order_relaxed);
}

/// Makes the handle of a published object invalid.
template <class object_type>
void unpublish(object_type *object) noexcept {
    std::atomic_ref(object->tag).store(0, std::memory_order_relaxed);
    // From now on a call_ref finds a count that is not negative. relaxed: it reads nothing else.
    std::atomic_ref(object->users)
        .fetch_sub(std::numeric_limits<std::int32_t>::min(), std::memory_order_relaxed);
}

/// Waits until no call uses an object that is not published. The caller must not use it by a
/// call_ref, nor hold a lock that such a call takes.
inline void wait_for_calls(slot *object) noexcept {
    const std::atomic_ref users(object->users);
    // acquire: sees what the calls wrote.
    for (std::int32_t count; (count = users.load(std::memory_order_acquire)) != 0;)
        users.wait(count, std::memory_order_relaxed);
}

/// Destroys an object that is not published and that no call uses.
template <class object_type>
void destroy_object(object_type *object) noexcept {
    const DAT_PROVIDER *const provider = object->provider;
    object->~object_type();
    // Another thread may still read these words by a stale handle.
    auto *const head = reinterpret_cast<slot *>(object);
    std::atomic_ref(head->provider).store(provider, std::memory_order_relaxed);
    std::atomic_ref(head->tag).store(0, std::memory_order_relaxed);
    object_arena::free(object_type::type, sizeof(object_type), object);
}

} // namespace coherdma::dapl
