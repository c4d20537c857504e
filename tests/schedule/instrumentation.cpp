// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the compiler calls in code compiled with -fsanitize=thread: at each access to memory that is
// not a local variable, each atomic operation, and each function's begin and end. Here each access
// is a point of the schedule. Names and types are the compiler's.

#include "scheduler.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace {

using schedule::action;

// The order of atomic operations is that of the schedule: each is executed as sequentially
// consistent, whatever the program asks for.
constexpr int ORDER = __ATOMIC_SEQ_CST;

void access(action kind, const void *addr, const void *pc) {
    if (!schedule::is_on_own_stack(addr))
        schedule::point(kind, addr, pc);
}

/// A large copy is not made at once: another thread may see a half, of whole words.
std::size_t half_of(std::size_t size) {
    constexpr std::size_t WORD = 8;
    return size / 2 / WORD * WORD;
}

void move_part(char *dest, const char *src, std::size_t size, const void *pc) {
    if (size == 0)
        return;
    access(action::READ, src, pc);
    access(action::WRITE, dest, pc);
    std::memmove(dest, src, size);
}

void *move(void *dest, const void *src, std::size_t size, const void *pc) {
    char *const written = static_cast<char *>(dest);
    const char *const read = static_cast<const char *>(src);
    const std::size_t half = half_of(size);
    if (written < read) // the order matters if they overlap
        move_part(written, read, half, pc);
    move_part(written + half, read + half, size - half, pc);
    if (written >= read)
        move_part(written, read, half, pc);
    return dest;
}

void set_part(char *dest, int byte, std::size_t size, const void *pc) {
    if (size == 0)
        return;
    access(action::WRITE, dest, pc);
    std::memset(dest, byte, size);
}

} // namespace

#define CALLER __builtin_return_address(0)

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void *pc) {
    schedule::enter_function(pc);
}
void __tsan_func_exit() {
    schedule::exit_function();
}
void __tsan_atomic_thread_fence(int) {
    schedule::point(action::FENCE, nullptr, CALLER);
    __atomic_thread_fence(ORDER);
}
void __tsan_atomic_signal_fence(int) {}

// Of the constructors and destructors of classes with virtual functions.
void __tsan_vptr_update(void **addr, void *) {
    access(action::WRITE, addr, CALLER);
}
void __tsan_vptr_read(void **addr) {
    access(action::READ, addr, CALLER);
}
void __tsan_read_range(void *addr, std::size_t) {
    access(action::READ, addr, CALLER);
}
void __tsan_write_range(void *addr, std::size_t) {
    access(action::WRITE, addr, CALLER);
}

void *__tsan_memcpy(void *dest, const void *src, std::size_t size) {
    return move(dest, src, size, CALLER);
}
void *__tsan_memmove(void *dest, const void *src, std::size_t size) {
    return move(dest, src, size, CALLER);
}
void *__tsan_memset(void *dest, int byte, std::size_t size) {
    const std::size_t half = half_of(size);
    set_part(static_cast<char *>(dest), byte, half, CALLER);
    set_part(static_cast<char *>(dest) + half, byte, size - half, CALLER);
    return dest;
}

#define ACCESSES(size)                                                                             \
    void __tsan_read##size(void *addr) {                                                           \
        access(action::READ, addr, CALLER);                                                        \
    }                                                                                              \
    void __tsan_write##size(void *addr) {                                                          \
        access(action::WRITE, addr, CALLER);                                                       \
    }                                                                                              \
    void __tsan_unaligned_read##size(void *addr) {                                                 \
        access(action::READ, addr, CALLER);                                                        \
    }                                                                                              \
    void __tsan_unaligned_write##size(void *addr) {                                                \
        access(action::WRITE, addr, CALLER);                                                       \
    }                                                                                              \
    void __tsan_volatile_read##size(void *addr) {                                                  \
        access(action::READ, addr, CALLER);                                                        \
    }                                                                                              \
    void __tsan_volatile_write##size(void *addr) {                                                 \
        access(action::WRITE, addr, CALLER);                                                       \
    }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

// builtin: of the compiler, with the same arguments.
#define READ_MODIFY_WRITE(bits, name, builtin)                                                     \
    std::uint##bits##_t __tsan_atomic##bits##_##name(volatile std::uint##bits##_t *addr,           \
                                                     std::uint##bits##_t value, int) {             \
        schedule::point(action::READ_MODIFY_WRITE, const_cast<const std::uint##bits##_t *>(addr),  \
                        CALLER);                                                                   \
        return builtin(addr, value, ORDER);                                                        \
    }
// can_fail: also if the value is the expected one.
#define COMPARE_EXCHANGE(bits, name, can_fail)                                                     \
    int __tsan_atomic##bits##_##name(volatile std::uint##bits##_t *addr,                           \
                                     std::uint##bits##_t *expected, std::uint##bits##_t desired,   \
                                     int, int) {                                                   \
        schedule::point(action::READ_MODIFY_WRITE, const_cast<const std::uint##bits##_t *>(addr),  \
                        CALLER);                                                                   \
        if (can_fail && __atomic_load_n(addr, ORDER) == *expected && schedule::happens_seldom())   \
            return false;                                                                          \
        return __atomic_compare_exchange_n(addr, expected, desired, false, ORDER, ORDER);          \
    }
#define ATOMIC(bits)                                                                               \
    std::uint##bits##_t __tsan_atomic##bits##_load(const volatile std::uint##bits##_t *addr,       \
                                                   int) {                                          \
        schedule::point(action::LOAD, const_cast<const std::uint##bits##_t *>(addr), CALLER);      \
        return __atomic_load_n(addr, ORDER);                                                       \
    }                                                                                              \
    void __tsan_atomic##bits##_store(volatile std::uint##bits##_t *addr,                           \
                                     std::uint##bits##_t value, int) {                             \
        schedule::point(action::STORE, const_cast<const std::uint##bits##_t *>(addr), CALLER);     \
        __atomic_store_n(addr, value, ORDER);                                                      \
    }                                                                                              \
    COMPARE_EXCHANGE(bits, compare_exchange_strong, false)                                         \
    COMPARE_EXCHANGE(bits, compare_exchange_weak, true)                                            \
    READ_MODIFY_WRITE(bits, exchange, __atomic_exchange_n)                                         \
    READ_MODIFY_WRITE(bits, fetch_add, __atomic_fetch_add)                                         \
    READ_MODIFY_WRITE(bits, fetch_sub, __atomic_fetch_sub)                                         \
    READ_MODIFY_WRITE(bits, fetch_and, __atomic_fetch_and)                                         \
    READ_MODIFY_WRITE(bits, fetch_or, __atomic_fetch_or)                                           \
    READ_MODIFY_WRITE(bits, fetch_xor, __atomic_fetch_xor)                                         \
    READ_MODIFY_WRITE(bits, fetch_nand, __atomic_fetch_nand)
ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)
}
