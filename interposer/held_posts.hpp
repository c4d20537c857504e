// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Sends that the driver gets some time after the program has posted them, if an observer asks for
// that (observer::delay_of_sends()).
//
// - The calls of ibv_post_send() of a QP are held in their order. One thread, which the first of
//   them starts, posts each when its time has come.
// - A call that must come after them releases them: they are posted by the thread that makes it.
// - Two kinds of locks, of which none is taken while another is held. That of a QP is held while
//   the driver's function posts its held sends: nothing else keeps them in order. That of the
//   schedule is held by no call of a driver. Events of observers come without either.
// - fork() and exit() release all; _exit() and quick_exit() do not. In a child of fork() nothing is
//   held.
#pragma once

#include "observer.hpp"
#include "request_books.hpp"

#include <chrono>
#include <cstddef>
#include <list>
#include <mutex>
#include <string>
#include <vector>

namespace coherdma::interposer {

struct schedule;

/// A WR with copies of all that it points to, but for its AH.
struct held_wr : posted_request {
    held_wr(const request &, const ibv_send_wr &);

    ibv_send_wr wr;
    std::vector<ibv_sge> sges;
    std::vector<std::byte> inline_data;
};

/// The held sends of one QP.
class held_posts {
  public:
    using post_function = int(ibv_qp *, ibv_send_wr *, ibv_send_wr **);
    using time_point = std::chrono::steady_clock::time_point;

    /// The WRs of one call of ibv_post_send().
    struct held_post {
        std::vector<held_wr> wrs;
        request_queue *sends = nullptr;
        time_point due;
        std::size_t num_accepted = 0; ///< by the driver, once it is posted
        int error = 0;
    };

    using post_list = std::list<held_post>;

    /// cap: as the driver has returned it. nullptr: there is no memory.
    static held_posts *create(ibv_qp &, const ibv_qp_cap &, post_function *driver,
                              const std::vector<observer *> &,
                              std::chrono::microseconds delay) noexcept;

    /// The QP no longer exists. Nothing of it is held.
    static void destroy(held_posts *) noexcept;
    held_posts(const held_posts &) = delete;
    held_posts &operator=(const held_posts &) = delete;

    /// Whether the driver surely accepts the WR, if the QP is ready to send and has room.
    bool is_accepted(const ibv_send_wr &) const noexcept;
    /// Holds the WRs of one call. sends: the QP's requests. False: they cannot be held now, and the
    /// driver is to get them. Throws std::bad_alloc, and then has done nothing.
    bool hold(std::vector<held_wr> wrs, request_queue &sends);

    /// The driver gets what is held of the QP.
    void release() noexcept;
    /// That of all QPs of the context, unless an observer makes the call.
    static void release_all(const ibv_context *) noexcept;

    /// From begin to end, which may be on different threads, nothing is held of the QP: what was
    /// held before is released by begin_direct_use(). As an object: direct_use.
    void begin_direct_use() noexcept;
    void end_direct_use() noexcept;

    /// Posts what is due by then, and adds it to the list. Returns when the next is due, max() if
    /// there is none.
    time_point post_until(time_point due, post_list &posted) noexcept;
    /// Says what the driver has refused of these.
    void report_refused(const post_list &posted) const;
    const ibv_context *context() const noexcept { return &context_; }

  private:
    held_posts(ibv_qp &, const ibv_qp_cap &, post_function *driver, const std::vector<observer *> &,
               std::chrono::microseconds delay);
    ~held_posts() = default;

    bool is_ready_to_send() const noexcept;
    void post(held_post &) noexcept;

    ibv_qp &qp_; ///< exists while something is held
    const ibv_context &context_;
    const std::string device_name_;
    const std::uint32_t qp_num_;
    const ibv_qp_cap cap_;
    post_function *const driver_post_send_;
    const std::vector<observer *> observers_;
    const std::chrono::microseconds delay_;
    std::mutex mutex_; ///< protects the following, and their order at the driver
    post_list posts_;
    unsigned num_direct_uses_ = 0;

    friend struct schedule;
    unsigned num_users_ = 0; ///< that schedule::for_each_queue() has; with the schedule's mutex
};

/// While it exists, the QP is used directly; nullptr: nothing of it is held.
class direct_use {
  public:
    explicit direct_use(held_posts *held) noexcept
        : held_(held) {
        if (held_ != nullptr)
            held_->begin_direct_use();
    }
    ~direct_use() {
        if (held_ != nullptr)
            held_->end_direct_use();
    }
    direct_use(const direct_use &) = delete;
    direct_use &operator=(const direct_use &) = delete;

  private:
    held_posts *const held_;
};

} // namespace coherdma::interposer
