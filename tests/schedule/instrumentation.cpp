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

using schedule::access_kind;
using schedule::action;
using schedule::model_in_use;

// The memory has what the last operation of the schedule has stored, whatever its memory order: the
// memory model knows what else a load may return.
constexpr int ORDER = __ATOMIC_SEQ_CST;
constexpr std::uint32_t NEWEST = 0; ///< an age

void check_access(const void *addr, std::size_t size, access_kind kind, const void *pc) {
    if (const model_in_use model; model)
        if (const auto other = model->access(addr, size, kind, pc))
            schedule::fail_with_race(*other, kind, pc);
}

void access(action kind, const void *addr, std::size_t size, const void *pc) {
    if (!schedule::is_on_own_stack(addr))
        schedule::point(kind, addr, pc);
    check_access(addr, size, kind == action::WRITE ? access_kind::WRITE : access_kind::READ, pc);
}

// -- atomic operations. number: an unsigned integer of the object's size.

template <typename number>
number load_by_age(const void *addr, int memory_order, number newest, std::uint32_t age,
                   const void *pc) {
    if (age != NEWEST)
        schedule::note_action(action::LOAD_OLD, addr, pc);
    const model_in_use model;
    return model ? static_cast<number>(model->load(addr, sizeof(number), memory_order, newest, age))
                 : newest;
}

/// Of the value that a compare-and-exchange loads: only one that is not expected lets it fail, and
/// it changes the newest one only.
template <typename number>
std::uint32_t choose_age(const void *addr, int failure_order, number newest, number expected) {
    const model_in_use model;
    if (!model)
        return NEWEST;
    const std::size_t count = model->count_loadable(addr, sizeof(number), failure_order, newest);
    const std::uint32_t age = schedule::choose_value(static_cast<std::uint32_t>(count));
    const bool is_expected = model->value(addr, sizeof(number), newest, age) == expected;
    return is_expected ? NEWEST : age;
}

template <typename number>
number load(const volatile number *object, int memory_order, const void *pc) {
    const void *const addr = const_cast<const number *>(object);
    schedule::point(action::LOAD, addr, pc);
    check_access(addr, sizeof(number), access_kind::ATOMIC_READ, pc);
    const number newest = __atomic_load_n(object, ORDER);
    std::size_t count = 1;
    if (const model_in_use model; model)
        count = model->count_loadable(addr, sizeof(number), memory_order, newest);
    const std::uint32_t age = schedule::choose_value(static_cast<std::uint32_t>(count));
    return load_by_age(addr, memory_order, newest, age, pc);
}

template <typename number>
void store(volatile number *object, number value, int memory_order, const void *pc) {
    const void *const addr = const_cast<const number *>(object);
    schedule::point(action::STORE, addr, pc);
    check_access(addr, sizeof(number), access_kind::ATOMIC_WRITE, pc);
    if (const model_in_use model; model)
        model->store(addr, sizeof(number), memory_order, __atomic_load_n(object, ORDER), value);
    __atomic_store_n(object, value, ORDER);
}

/// Calls operation(), which changes the object and returns what its caller gets.
template <typename number, typename operation_type>
number change(volatile number *object, int memory_order, const void *pc, operation_type operation) {
    const void *const addr = const_cast<const number *>(object);
    schedule::point(action::READ_MODIFY_WRITE, addr, pc);
    check_access(addr, sizeof(number), access_kind::ATOMIC_WRITE, pc);
    const number newest = __atomic_load_n(object, ORDER);
    const number result = operation();
    if (const model_in_use model; model)
        model->change(addr, sizeof(number), memory_order, newest, __atomic_load_n(object, ORDER));
    return result;
}

/// can_fail: also if the value is the expected one.
template <typename number>
int compare_exchange(volatile number *object, number *expected, number desired, bool can_fail,
                     int memory_order, int failure_order, const void *pc) {
    const void *const addr = const_cast<const number *>(object);
    schedule::point(action::READ_MODIFY_WRITE, addr, pc);
    const number newest = __atomic_load_n(object, ORDER);
    const std::uint32_t age = choose_age(addr, failure_order, newest, *expected);
    const bool fails =
        age != NEWEST || newest != *expected || (can_fail && schedule::happens_seldom());
    check_access(addr, sizeof(number), fails ? access_kind::ATOMIC_READ : access_kind::ATOMIC_WRITE,
                 pc);
    if (fails) {
        *expected = load_by_age(addr, failure_order, newest, age, pc);
        return false;
    }
    if (const model_in_use model; model)
        model->change(addr, sizeof(number), memory_order, newest, desired);
    __atomic_store_n(object, desired, ORDER);
    return true;
}

/// A large copy is not made at once: another thread may see a half, of whole words.
std::size_t half_of(std::size_t size) {
    constexpr std::size_t WORD = 8;
    return size / 2 / WORD * WORD;
}

void move_part(char *dest, const char *src, std::size_t size, const void *pc) {
    if (size == 0)
        return;
    access(action::READ, src, size, pc);
    access(action::WRITE, dest, size, pc);
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
    access(action::WRITE, dest, size, pc);
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
void __tsan_atomic_thread_fence(int memory_order) {
    schedule::point(action::FENCE, nullptr, CALLER);
    __atomic_thread_fence(ORDER);
    if (const model_in_use model; model)
        model->fence(memory_order);
}
void __tsan_atomic_signal_fence(int) {}

// Of the constructors and destructors of classes with virtual functions. As for ThreadSanitizer, it
// does not write what is there already: the destructor of the most derived class.
void __tsan_vptr_update(void **addr, void *value) {
    if (!schedule::is_on_own_stack(addr))
        schedule::point(action::WRITE, addr, CALLER);
    if (*addr != value)
        check_access(addr, sizeof *addr, access_kind::WRITE, CALLER);
}
void __tsan_vptr_read(void **addr) {
    access(action::READ, addr, sizeof *addr, CALLER);
}
void __tsan_read_range(void *addr, std::size_t size) {
    access(action::READ, addr, size, CALLER);
}
void __tsan_write_range(void *addr, std::size_t size) {
    access(action::WRITE, addr, size, CALLER);
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

#define ACCESS(name, kind, size)                                                                   \
    void __tsan_##name##size(void *addr) {                                                         \
        access(action::kind, addr, size, CALLER);                                                  \
    }
#define ACCESSES(size)                                                                             \
    ACCESS(read, READ, size)                                                                       \
    ACCESS(write, WRITE, size)                                                                     \
    ACCESS(unaligned_read, READ, size)                                                             \
    ACCESS(unaligned_write, WRITE, size)                                                           \
    ACCESS(volatile_read, READ, size)                                                              \
    ACCESS(volatile_write, WRITE, size)
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

// builtin: of the compiler, with the same arguments.
#define READ_MODIFY_WRITE(bits, name, builtin)                                                     \
    std::uint##bits##_t __tsan_atomic##bits##_##name(                                              \
        volatile std::uint##bits##_t *addr, std::uint##bits##_t value, int memory_order) {         \
        return change(addr, memory_order, CALLER, [&] { return builtin(addr, value, ORDER); });    \
    }
#define COMPARE_EXCHANGE(bits, name, can_fail)                                                     \
    int __tsan_atomic##bits##_##name(volatile std::uint##bits##_t *addr,                           \
                                     std::uint##bits##_t *expected, std::uint##bits##_t desired,   \
                                     int memory_order, int failure_order) {                        \
        return compare_exchange(addr, expected, desired, can_fail, memory_order, failure_order,    \
                                CALLER);                                                           \
    }
#define ATOMIC(bits)                                                                               \
    std::uint##bits##_t __tsan_atomic##bits##_load(const volatile std::uint##bits##_t *addr,       \
                                                   int memory_order) {                             \
        return load(addr, memory_order, CALLER);                                                   \
    }                                                                                              \
    void __tsan_atomic##bits##_store(volatile std::uint##bits##_t *addr,                           \
                                     std::uint##bits##_t value, int memory_order) {                \
        store(addr, value, memory_order, CALLER);                                                  \
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
