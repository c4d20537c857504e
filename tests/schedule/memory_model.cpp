// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "memory_model.hpp"

#include <algorithm>

namespace schedule {
namespace {

/// Older ones are forgotten.
constexpr std::size_t MAX_STORES = 8;
constexpr std::uint64_t NEVER_SEQ_CST = ~std::uint64_t{0};

bool is_acquire(int memory_order) {
    return memory_order != __ATOMIC_RELAXED && memory_order != __ATOMIC_RELEASE;
}
bool is_release(int memory_order) {
    return memory_order == __ATOMIC_RELEASE || memory_order == __ATOMIC_ACQ_REL ||
           memory_order == __ATOMIC_SEQ_CST;
}

bool is_write(access_kind kind) {
    return kind == access_kind::WRITE || kind == access_kind::ATOMIC_WRITE;
}
bool is_atomic(access_kind kind) {
    return kind == access_kind::ATOMIC_READ || kind == access_kind::ATOMIC_WRITE;
}
bool conflict(access_kind first, access_kind second) {
    return (is_write(first) || is_write(second)) && !(is_atomic(first) && is_atomic(second));
}

bool overlap(const void *first, std::size_t first_size, const void *second,
             std::size_t second_size) {
    const auto begin = reinterpret_cast<std::uintptr_t>(first);
    const auto other_begin = reinterpret_cast<std::uintptr_t>(second);
    return begin < other_begin + second_size && other_begin < begin + first_size;
}

/// Calls function(number, bytes) for each block of memory that has a part of this.
template <typename function_type>
void for_each_block(const void *addr, std::size_t size, function_type function) {
    const auto begin = reinterpret_cast<std::uintptr_t>(addr), end = begin + size;
    for (std::uintptr_t each = begin; each < end; each = (each / BLOCK_SIZE + 1) * BLOCK_SIZE) {
        const std::uintptr_t first = each % BLOCK_SIZE;
        const std::uintptr_t last = std::min(end - (each - first), BLOCK_SIZE);
        function(each / BLOCK_SIZE, static_cast<std::uint8_t>((1U << last) - (1U << first)));
    }
}

} // namespace

void vector_clock::join(const vector_clock &other) noexcept {
    for (std::size_t i = 0; i < numbers_.size(); ++i)
        numbers_[i] = std::max(numbers_[i], other.numbers_[i]);
}

void knowledge::join(const knowledge &other) noexcept {
    known.join(other.known);
    seen.join(other.seen);
    fence_step = std::max(fence_step, other.fence_step);
}

void memory_model::set_current(std::uint8_t thread, std::uint64_t step) noexcept {
    thread_ = thread;
    step_ = step;
}

/// The stores to an object that are known. If its memory has another value than the last one, code
/// that is not compiled for the scheduler has written it, such as a fake kernel. What a store of
/// another size has released goes on: code may access a part of an object.
std::vector<memory_model::atomic_store> &
memory_model::find_stores(const void *addr, std::size_t size, std::uint64_t newest) {
    auto &objects = blocks_[reinterpret_cast<std::uintptr_t>(addr) / BLOCK_SIZE].objects;
    const auto is_same = [&](const atomic_object &each) {
        return each.addr == addr && each.size == size;
    };
    const auto object = std::ranges::find_if(objects, is_same);
    if (object != objects.end() && object->stores.back().value == newest)
        return object->stores;
    knowledge released;
    std::erase_if(objects, [&](const atomic_object &each) {
        if (!overlap(each.addr, each.size, addr, size))
            return false;
        if (!is_same(each))
            released.join(each.stores.back().released);
        return true;
    });
    objects.push_back({.addr = addr,
                       .size = size,
                       .stores = {{.value = newest,
                                   .made = {.number = 0, .thread = 0},
                                   .released = released,
                                   .loads = {},
                                   .seq_cst_step = NEVER_SEQ_CST}}});
    return objects.back().stores;
}

bool memory_model::is_seen(const atomic_store &store, bool is_seq_cst) {
    const knowledge &now = self().now;
    const auto is_before = [&](moment each) {
        return now.known.has(each) || now.seen.has(each) ||
               (is_seq_cst && seq_cst_fences_.has(each));
    };
    return is_before(store.made) || std::ranges::any_of(store.loads, is_before) ||
           store.seq_cst_step <= (is_seq_cst ? step_ : now.fence_step);
}

std::size_t memory_model::count_loadable(const void *addr, std::size_t size, int memory_order,
                                         std::uint64_t newest) {
    const auto &stores = find_stores(addr, size, newest);
    std::size_t count = 1;
    while (count < stores.size() &&
           !is_seen(stores[stores.size() - count], memory_order == __ATOMIC_SEQ_CST))
        ++count;
    return count;
}

void memory_model::note_load(atomic_store &store, int memory_order) {
    const moment now = next_moment();
    if (std::ranges::none_of(store.loads, [&](moment each) { return each.thread == thread_; }))
        store.loads.push_back(now);
    if (memory_order == __ATOMIC_SEQ_CST)
        store.seq_cst_step = std::min(store.seq_cst_step, step_);
    thread_state &thread = self();
    (is_acquire(memory_order) ? thread.now : thread.not_acquired).join(store.released);
}

std::uint64_t memory_model::value(const void *addr, std::size_t size, std::uint64_t newest,
                                  std::size_t age) {
    const auto &stores = find_stores(addr, size, newest);
    return stores[stores.size() - 1 - age].value;
}

std::uint64_t memory_model::load(const void *addr, std::size_t size, int memory_order,
                                 std::uint64_t newest, std::size_t age) {
    auto &stores = find_stores(addr, size, newest);
    atomic_store &loaded = stores[stores.size() - 1 - age];
    note_load(loaded, memory_order);
    return loaded.value;
}

void memory_model::add_store(std::vector<atomic_store> &stores, int memory_order,
                             std::uint64_t value) {
    const moment now = next_moment();
    if (stores.size() == MAX_STORES)
        stores.erase(stores.begin());
    const thread_state &thread = self();
    stores.push_back({.value = value,
                      .made = now,
                      .released = is_release(memory_order) ? thread.now : thread.released_by_fence,
                      .loads = {},
                      .seq_cst_step = memory_order == __ATOMIC_SEQ_CST ? step_ : NEVER_SEQ_CST});
}

void memory_model::store(const void *addr, std::size_t size, int memory_order, std::uint64_t newest,
                         std::uint64_t value) {
    add_store(find_stores(addr, size, newest), memory_order, value);
}

// What the replaced store has released goes on: a change continues its release sequence.
void memory_model::change(const void *addr, std::size_t size, int memory_order,
                          std::uint64_t newest, std::uint64_t value) {
    auto &stores = find_stores(addr, size, newest);
    note_load(stores.back(), memory_order);
    const knowledge replaced = stores.back().released;
    add_store(stores, memory_order, value);
    stores.back().released.join(replaced);
}

void memory_model::fence(int memory_order) {
    next_moment();
    thread_state &thread = self();
    if (is_acquire(memory_order))
        thread.now.join(thread.not_acquired);
    if (memory_order == __ATOMIC_SEQ_CST) {
        thread.now.seen.join(seq_cst_fences_);
        seq_cst_fences_.join(thread.now.known);
        seq_cst_fences_.join(thread.now.seen);
        thread.now.fence_step = step_;
    }
    if (is_release(memory_order))
        thread.released_by_fence = thread.now;
}

void memory_model::acquire(const void *object) {
    const auto released = released_.find(object);
    if (released != released_.end())
        self().now.join(released->second);
}

void memory_model::release(const void *object) {
    next_moment();
    released_[object].join(self().now);
}

void memory_model::create_thread(std::uint8_t created) {
    next_moment();
    threads_[created].now.join(self().now);
}

std::optional<memory_access> memory_model::access(const void *addr, std::size_t size,
                                                  access_kind kind, const void *pc) {
    const moment now = next_moment();
    const vector_clock &known = self().now.known;
    std::optional<memory_access> conflicting;
    for_each_block(addr, size, [&](std::uintptr_t number, std::uint8_t bytes) {
        memory_block &block = blocks_[number];
        for (const memory_access &each : block.accesses)
            if ((each.bytes & bytes) != 0 && conflict(each.kind, kind) && !known.has(each.made))
                conflicting = each;
        // What is in conflict with an access that this one takes the place of is so with this one.
        std::erase_if(block.accesses, [&](const memory_access &each) {
            return (each.bytes & ~bytes) == 0 && known.has(each.made) &&
                   (is_write(kind) || !is_write(each.kind)) &&
                   (!is_atomic(kind) || is_atomic(each.kind));
        });
        block.accesses.push_back({.made = now, .kind = kind, .bytes = bytes, .pc = pc});
        if (kind == access_kind::WRITE) // a new object
            std::erase_if(block.objects, [&](const atomic_object &each) {
                return overlap(each.addr, each.size, addr, size);
            });
    });
    return conflicting;
}

void memory_model::forget(const void *addr, std::size_t size) {
    if (size / BLOCK_SIZE < blocks_.size()) {
        for_each_block(addr, size,
                       [&](std::uintptr_t number, std::uint8_t) { blocks_.erase(number); });
        return;
    }
    const auto begin = reinterpret_cast<std::uintptr_t>(addr);
    std::erase_if(blocks_,
                  [&](const auto &each) { return each.first * BLOCK_SIZE - begin < size; });
}

} // namespace schedule
