// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "request_books.hpp"

#include <array>
#include <atomic>
#include <deque>
#include <new>
#include <random>

namespace coherdma::interposer {
namespace {

// A token, from its highest bit: MARK, number of the queue, generation and index of the entry.
constexpr unsigned INDEX_BITS = 20, GENERATION_BITS = 12, QUEUE_BITS = 20;
constexpr std::uint32_t MAX_ENTRIES = std::uint32_t{1} << INDEX_BITS;
constexpr std::uint32_t MAX_QUEUES = std::uint32_t{1} << QUEUE_BITS;
constexpr std::uint16_t MAX_GENERATION = (1U << GENERATION_BITS) - 1;
constexpr unsigned GENERATION_SHIFT = INDEX_BITS, QUEUE_SHIFT = GENERATION_SHIFT + GENERATION_BITS,
                   MARK_SHIFT = QUEUE_SHIFT + QUEUE_BITS;

/// Entries of dropped queues whose CQ still exists: a program may destroy any number of QPs with
/// requests outstanding. If there are more, the oldest queues are forgotten.
constexpr std::size_t MAX_DROPPED_ENTRIES = 262144;

/// Not 0, and another number in each process: a wr_id that a program chose is not taken for a
/// token.
std::uint64_t make_mark() noexcept {
    constexpr std::uint64_t MAX_MARK = (std::uint64_t{1} << (64 - MARK_SHIFT)) - 1;
    try {
        return std::random_device{}() % MAX_MARK + 1;
    } catch (const std::exception &) {
        return MAX_MARK;
    }
}

/// By number. Not in queue_pool: its pages are used only as far as queues are.
request_queue *queues_by_number[MAX_QUEUES];

/// Release, acquire: what finds a queue sees its members.
std::atomic_ref<request_queue *> queue_slot(std::uint64_t number) noexcept {
    return std::atomic_ref(queues_by_number[number]);
}

} // namespace

/// All queues of the process.
struct queue_pool {
    struct dropped_queue {
        request_queue *queue;
        std::uint64_t cq_number;
        std::size_t num_entries;
    };

    struct idle_queues {
        std::vector<request_queue *> free;
        std::deque<dropped_queue> dropped;
        idle_queues *parents = nullptr; ///< of fork(): kept, so that a leak checker finds none
    };

    const std::uint64_t mark = make_mark();
    std::mutex mutex; ///< protects the following
    std::uint32_t num_queues = 0;
    idle_queues *idle = new idle_queues;
    std::size_t num_dropped_entries = 0;

    void forget(const dropped_queue &) noexcept;
};

namespace {

// Never destroyed: other threads post and poll while one is in exit().
alignas(queue_pool) std::byte pool_storage[sizeof(queue_pool)];
queue_pool &pool() noexcept {
    static queue_pool &created = *new (pool_storage) queue_pool;
    return created;
}

} // namespace

/// With the pool's mutex: the queue may be taken again.
void queue_pool::forget(const dropped_queue &forgotten) noexcept {
    request_queue &queue = *forgotten.queue;
    {
        const std::lock_guard guard(queue.mutex_);
        for (request_queue::entry_index i = 0; i < queue.entries_.size(); ++i)
            if (queue.entries_[i].state != request_queue::entry_state::FREE)
                queue.free_entry(i);
        queue.posts_in_progress_.clear();
        queue.is_dropped_ = false;
    }
    num_dropped_entries -= forgotten.num_entries;
    idle->free.push_back(&queue); // has room: take() reserved it
}

request_queue *request_queue::take() noexcept try {
    queue_pool &all = pool();
    const std::lock_guard guard(all.mutex);
    if (!all.idle->free.empty()) {
        request_queue *const queue = all.idle->free.back();
        all.idle->free.pop_back();
        return queue;
    }
    if (all.num_queues == MAX_QUEUES)
        return nullptr;
    all.idle->free.reserve(all.num_queues + 1);
    auto *const queue = new request_queue;
    queue->number_ = all.num_queues++;
    queue_slot(queue->number_).store(queue, std::memory_order_release);
    return queue;
} catch (const std::bad_alloc &) {
    return nullptr;
}

void request_queue::drop(std::uint64_t cq_number) noexcept {
    std::size_t num_used, num_entries;
    {
        const std::lock_guard guard(mutex_);
        for (entry &dropped : entries_)
            if (dropped.state != entry_state::FREE)
                dropped.state = entry_state::DROPPED;
        first_ = last_ = NONE;
        num_used = num_used_;
        num_entries = entries_.size();
        is_dropped_ = true;
    }
    queue_pool &all = pool();
    const std::lock_guard guard(all.mutex);
    const queue_pool::dropped_queue dropped = {
        .queue = this, .cq_number = cq_number, .num_entries = num_entries};
    all.num_dropped_entries += num_entries;
    bool is_kept = num_used != 0;
    try {
        if (is_kept)
            all.idle->dropped.push_back(dropped);
    } catch (const std::bad_alloc &) {
        is_kept = false;
    }
    if (!is_kept)
        all.forget(dropped);
    while (all.num_dropped_entries > MAX_DROPPED_ENTRIES) {
        all.forget(all.idle->dropped.front());
        all.idle->dropped.pop_front();
    }
}

void request_queue::forget_dropped(std::uint64_t cq_number) noexcept {
    queue_pool &all = pool();
    const std::lock_guard guard(all.mutex);
    std::erase_if(all.idle->dropped, [&](const queue_pool::dropped_queue &dropped) {
        if (dropped.cq_number != cq_number)
            return false;
        all.forget(dropped);
        return true;
    });
}

/// In the child of fork(), threads of the parent may have held any mutex and been changing what it
/// protects. The child begins with queues of its own; completions of the parent's requests still
/// find their wr_id.
void request_queue::reset_after_fork() noexcept {
    queue_pool &all = pool();
    new (&all.mutex) std::mutex;
    for (std::uint32_t i = 0; i < all.num_queues; ++i)
        if (request_queue *const queue = queue_slot(i).load(std::memory_order_relaxed))
            new (&queue->mutex_) std::mutex;
    auto *const idle = new queue_pool::idle_queues;
    idle->parents = all.idle;
    all.idle = idle;
    all.num_dropped_entries = 0;
}

request_token request_queue::token_of(entry_index index) const noexcept {
    return pool().mark << MARK_SHIFT | std::uint64_t{number_} << QUEUE_SHIFT |
           std::uint64_t{entries_[index].generation} << GENERATION_SHIFT | index;
}

/// With the mutex. nullptr: the token is not that of an entry in use.
request_queue::entry *request_queue::find_entry(request_token token) noexcept {
    const entry_index index = token & (MAX_ENTRIES - 1);
    if (token >> MARK_SHIFT != pool().mark || index >= entries_.size() ||
        entries_[index].state == entry_state::FREE ||
        entries_[index].generation != (token >> GENERATION_SHIFT & MAX_GENERATION))
        return nullptr;
    return &entries_[index];
}

request_token request_queue::add(const request &added) noexcept {
    const std::lock_guard guard(mutex_);
    return add_entry(added);
}

/// With the mutex.
request_token request_queue::add_entry(const request &added) noexcept try {
    if (first_free_ == NONE) {
        if (entries_.size() == MAX_ENTRIES)
            return 0;
        entries_.emplace_back();
        first_free_ = static_cast<entry_index>(entries_.size() - 1);
    }
    const entry_index index = first_free_;
    entry &used = entries_[index];
    first_free_ = used.next;
    used.posted = added;
    used.previous = used.next = NONE;
    used.state = entry_state::ADDED;
    ++num_used_;
    return token_of(index);
} catch (const std::bad_alloc &) {
    return 0;
}

void request_queue::remove_from_list(entry_index index) noexcept {
    const entry &removed = entries_[index];
    (removed.previous != NONE ? entries_[removed.previous].next : first_) = removed.next;
    (removed.next != NONE ? entries_[removed.next].previous : last_) = removed.previous;
}

void request_queue::free_entry(entry_index index) noexcept {
    entry &freed = entries_[index];
    freed.state = entry_state::FREE;
    freed.generation = static_cast<std::uint16_t>((freed.generation + 1) & MAX_GENERATION);
    freed.next = first_free_;
    first_free_ = index;
    --num_used_;
}

/// Threads may post to one queue at a time, and only the driver knows the order of their requests:
/// a request is before another if its call had returned when the other's began.
std::uint64_t request_queue::begin_post_call() noexcept try {
    posts_in_progress_.push_back(last_post_ + 1);
    return ++last_post_;
} catch (const std::bad_alloc &) {
    return 0;
}

void request_queue::end_post(std::uint64_t post_number) noexcept {
    const std::lock_guard guard(mutex_);
    std::erase(posts_in_progress_, post_number);
}

/// As the last of its queue.
void request_queue::append_posted(request_token token) noexcept {
    entry *const posted = find_entry(token);
    if (posted == nullptr || posted->state != entry_state::ADDED)
        return;
    const entry_index index = token & (MAX_ENTRIES - 1);
    posted->post_number = last_post_;
    posted->first_concurrent_post = posts_in_progress_.front();
    posted->state = entry_state::POSTED;
    posted->previous = last_;
    (last_ != NONE ? entries_[last_].next : first_) = index;
    last_ = index;
}

void request_queue::cancel(request_token token) noexcept {
    const std::lock_guard guard(mutex_);
    const entry *const cancelled = find_entry(token);
    if (cancelled == nullptr)
        return;
    const entry_index index = token & (MAX_ENTRIES - 1);
    if (cancelled->state == entry_state::POSTED)
        remove_from_list(index);
    free_entry(index);
}

/// Frees the unsignaled entries before this one, and adds their requests to silent.
void request_queue::collect_silent(entry_index completed, std::vector<request> &silent) {
    const entry &last = entries_[completed];
    for (entry_index i = first_; i != completed;) {
        const entry_index next = entries_[i].next;
        const entry &earlier = entries_[i];
        const bool is_before = earlier.post_number < last.first_concurrent_post ||
                               earlier.post_number == last.post_number;
        if (is_before && !earlier.posted.is_signaled) {
            silent.push_back(earlier.posted);
            remove_from_list(i);
            free_entry(i);
        }
        i = next;
    }
}

std::optional<request_queue::completed_request>
request_queue::complete(std::uint64_t wr_id, bool is_flushed,
                        std::vector<request> &silent) noexcept {
    if (wr_id >> MARK_SHIFT != pool().mark)
        return std::nullopt;
    // Acquire: pairs with the release in take().
    request_queue *const queue =
        queue_slot(wr_id >> QUEUE_SHIFT & (MAX_QUEUES - 1)).load(std::memory_order_acquire);
    if (queue == nullptr)
        return std::nullopt;
    const std::lock_guard guard(queue->mutex_);
    const entry *const match = queue->find_entry(wr_id);
    if (match == nullptr)
        return std::nullopt;
    const entry_index index = wr_id & (MAX_ENTRIES - 1);
    const completed_request result = {.completed = match->posted,
                                      .is_dropped = match->state == entry_state::DROPPED};
    if (match->state == entry_state::POSTED) {
        try {
            if (!is_flushed && !match->posted.is_receive)
                queue->collect_silent(index, silent);
        } catch (const std::bad_alloc &) { // they stay until the next completion
        }
        queue->remove_from_list(index);
    }
    // In a dropped queue, entries are counted by the pool until it forgets the queue.
    if (!queue->is_dropped_)
        queue->free_entry(index);
    return result;
}

} // namespace coherdma::interposer
