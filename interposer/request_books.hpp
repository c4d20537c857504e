// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Requests that are posted and not complete. A driver gets a token as wr_id, which leads from its
// completion to the request; the program gets its wr_id back.
#pragma once

#include "observer.hpp"

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace coherdma::interposer {

/// A wr_id that the driver gets: which queue and which entry of it. 0: none.
using request_token = std::uint64_t;

/// Of requests that are posted: they have them by add(), or get them now.
enum class request_tokens : unsigned char { HAVE, ADD };

struct posted_request {
    request posted;
    request_token token = 0; ///< 0: no memory, so the request cannot be followed
};

/// The requests of one send queue, one receive queue or one SRQ. Thread-safe. Queues are never
/// freed, as a completion may come when its QP no longer exists: they are used again.
class request_queue {
  public:
    /// Of a queue that no object has; nullptr: there is none, or no memory.
    static request_queue *take() noexcept;
    /// The object is destroyed or reset: its requests are dropped, but completions of theirs that
    /// the CQ still has find their wr_id, as long as the CQ exists. cq_number: of the object; 0: of
    /// an SRQ.
    void drop(std::uint64_t cq_number) noexcept;
    /// No completion comes any more of the queues that were dropped with this CQ.
    static void forget_dropped(std::uint64_t cq_number) noexcept;
    static void reset_after_fork() noexcept;

    /// A request that the driver gets before it is posted. 0: no memory, so it cannot be followed.
    request_token add(const request &) noexcept;
    /// The driver is about to post these requests, in this order, by one call. Returns a number for
    /// end_post(); 0: no memory, so they are not followed. requests: a range of posted_request.
    template <class range>
    std::uint64_t begin_post(range &requests, request_tokens tokens) noexcept {
        const std::lock_guard guard(mutex_);
        const std::uint64_t post_number = begin_post_call();
        for (posted_request &posted : requests) {
            if (tokens == request_tokens::ADD)
                posted.token = add_entry(posted.posted);
            if (post_number != 0)
                append_posted(posted.token);
        }
        return post_number;
    }
    /// That call has returned.
    void end_post(std::uint64_t post_number) noexcept;
    /// The driver refused the request.
    void cancel(request_token) noexcept;
    /// Requests that are posted, or added, and not complete.
    std::size_t num_used() noexcept {
        const std::lock_guard guard(mutex_);
        return num_used_;
    }

    struct completed_request {
        request completed;
        bool is_dropped = false; ///< its QP was reset or destroyed before
    };
    /// The driver has completed the request. Unless it was flushed, adds to silent the unsignaled
    /// ones of the same send queue that were surely posted before it; if it was, these may have
    /// completions that another thread has polled. No value: the wr_id is not a token.
    static std::optional<completed_request> complete(std::uint64_t wr_id, bool is_flushed,
                                                     std::vector<request> &silent) noexcept;

  private:
    using entry_index = std::uint32_t;
    static constexpr entry_index NONE = ~entry_index{0};

    enum class entry_state : unsigned char { FREE, ADDED, POSTED, DROPPED };
    struct entry {
        request posted;
        std::uint64_t post_number = 0; ///< of the call that posted it; they begin at 1
        /// All calls with lower numbers had returned when that call began.
        std::uint64_t first_concurrent_post = 0;
        entry_index previous = NONE, next = NONE; ///< in order of posting; next free, if it is FREE
        std::uint16_t generation = 0;
        entry_state state = entry_state::FREE;
    };

    request_token token_of(entry_index) const noexcept;
    entry *find_entry(request_token) noexcept;
    request_token add_entry(const request &) noexcept;
    std::uint64_t begin_post_call() noexcept;
    void append_posted(request_token) noexcept;
    void remove_from_list(entry_index) noexcept;
    void free_entry(entry_index) noexcept;
    void collect_silent(entry_index completed, std::vector<request> &silent);

    std::uint32_t number_ = 0; ///< its own, in tokens
    std::mutex mutex_;         ///< protects the following
    std::vector<entry> entries_;
    entry_index first_ = NONE, last_ = NONE, first_free_ = NONE;
    std::size_t num_used_ = 0; ///< entries that are not FREE
    std::uint64_t last_post_ = 0;
    std::vector<std::uint64_t> posts_in_progress_; ///< their numbers, in order
    bool is_dropped_ = false;

    friend struct queue_pool;
};

/// From begin_post() to end_post(), also if a signal ends the thread in the driver.
class post_in_progress {
  public:
    /// As request_queue::begin_post(). queue: nullptr: its requests are not followed.
    template <class range>
    post_in_progress(request_queue *queue, range &requests, request_tokens tokens) noexcept
        : queue_(queue)
        , number_(queue != nullptr ? queue->begin_post(requests, tokens) : 0) {}
    ~post_in_progress() {
        if (queue_ != nullptr)
            queue_->end_post(number_);
    }
    post_in_progress(const post_in_progress &) = delete;
    post_in_progress &operator=(const post_in_progress &) = delete;

  private:
    request_queue *const queue_;
    const std::uint64_t number_;
};

} // namespace coherdma::interposer
