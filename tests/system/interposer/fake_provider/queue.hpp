// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Send and receive queues. A request has its slot until its completion is polled, or that of a
// later one of the same send queue, as in mlx5.
#pragma once

#include <cstdint>
#include <deque>
#include <infiniband/verbs.h>

namespace fake {

struct send_request {
    ibv_send_wr wr; ///< its sg_list is not used
    ibv_sge sge;
    bool is_signaled;
    std::uint64_t number;
};

struct receive_request {
    std::uint64_t wr_id;
    ibv_sge sge;
    std::uint64_t number;
};

class slot_queue {
  public:
    /// Of no other queue that exists or existed.
    std::uint64_t id() const noexcept { return id_; }
    std::uint32_t depth() const noexcept { return depth_; }
    /// Powers of 2, as in mlx5; at least 4.
    void set_depth(std::uint32_t depth) noexcept;
    bool is_full(std::size_t num_unposted = 0) const noexcept {
        return posted_ - released_ + num_unposted >= depth_;
    }
    std::uint64_t take_slot() noexcept { return posted_++; }

    /// The completion of the request in this slot was polled. Nothing, if the queue no longer
    /// exists.
    static void release(std::uint64_t queue_id, std::uint64_t slot_number);

  protected:
    explicit slot_queue(bool is_send_queue);
    ~slot_queue();
    slot_queue(const slot_queue &) = delete;
    slot_queue &operator=(const slot_queue &) = delete;
    /// As a queue that was created: completions of earlier requests release nothing.
    void reset();

  private:
    bool is_send_queue_;
    std::uint64_t id_ = 0;
    std::uint32_t depth_ = 0;
    std::uint64_t posted_ = 0, released_ = 0;
};

template <class request, bool IS_SEND_QUEUE>
class request_queue : public slot_queue {
  public:
    request_queue()
        : slot_queue(IS_SEND_QUEUE) {}
    void add(request added) {
        added.number = take_slot();
        pending.push_back(added);
    }
    void reset() {
        slot_queue::reset();
        pending.clear();
    }
    std::deque<request> pending;
};
using send_queue = request_queue<send_request, true>;
using receive_queue = request_queue<receive_request, false>;

} // namespace fake
