// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Programs over the siw driver, each of which checks what verbs promise of completions: each
// request completes once, those of a queue in order, none of a destroyed QP; a short poll says that
// the CQ is empty; and a consumer that has armed the CQ and polled it gets an event.

#include "siw_threads.hpp"

#include "siw_device.hpp"

#include <algorithm>
#include <cerrno>
#include <map>
#include <thread>

namespace siw_programs {
namespace {

constexpr std::size_t SQ_RING = 1; ///< of the first QP, if the device has no other CQ
/// A wr_id is that of its series, of which a thread posts the numbers 0, 1, 2 ... to a queue.
constexpr std::uint64_t SERIES = 100, SECOND_SERIES = 2 * SERIES, THIRD_SERIES = 3 * SERIES;

/// The completions that a consumer has polled: each series in order, without a gap.
class completions {
  public:
    /// Polls once. Returns how many completions.
    int poll(ibv_cq *cq) {
        std::array<ibv_wc, BATCH> wcs{};
        const int num_polled = ibv_poll_cq(cq, BATCH, wcs.data());
        for (int i = 0; i < num_polled; ++i)
            add(wcs.at(static_cast<std::size_t>(i)).wr_id);
        return num_polled;
    }
    /// Polls all. No other thread uses the CQ.
    void drain(ibv_cq *cq) {
        while (poll(cq) == BATCH) {
        }
        require(poll(cq) == 0, "a short poll has left a completion");
    }
    void add(std::uint64_t wr_id) {
        require(wr_id % SERIES == num_polled_[wr_id / SERIES]++,
                "a request completes twice, or not in order");
        ++count_;
    }
    int count() const { return count_; }

  private:
    static constexpr int BATCH = 3;
    std::map<std::uint64_t, std::uint64_t> num_polled_; ///< by series
    int count_ = 0;
};

/// A CQ that is armed.
class armed_cq : public channel_cq {
  public:
    armed_cq(device &device, int num_cqe)
        : channel_cq(device, num_cqe)
        , kernel_(device.kernel) {
        arm();
    }
    /// Polls and waits for events until there were so many completions.
    void wait_for(completions &polled, int count) {
        for (;;) {
            const int num_events = kernel_.num_events();
            arm();
            while (polled.poll(cq) != 0) {
            }
            if (polled.count() >= count)
                return;
            kernel_.wait_for_event(num_events);
        }
    }

  private:
    schedule::live_siw_kernel &kernel_;
};

ibv_srq *create_srq(ibv_pd *pd, std::uint32_t max_wr) {
    ibv_srq_init_attr attr{};
    attr.attr = {.max_wr = max_wr, .max_sge = 1, .srq_limit = 0};
    ibv_srq *const srq = ibv_create_srq(pd, &attr);
    require(srq != nullptr, "an SRQ is not created");
    return srq;
}
ibv_qp *create_qp(device &device, ibv_srq *srq) {
    ibv_qp_init_attr attr = device::make_attr(device.cq, device.cq);
    attr.srq = srq;
    attr.cap.max_recv_wr = 0;
    return device.create_qp(attr);
}
int try_post_srq_recv(ibv_srq *srq, std::uint64_t wr_id) {
    ibv_sge sge{};
    ibv_recv_wr wr{}, *bad_wr = nullptr;
    wr.wr_id = wr_id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    return ibv_post_srq_recv(srq, &wr, &bad_wr);
}

/// The kernel takes receives of an SRQ for a QP, and completes them.
class srq_consumer {
  public:
    explicit srq_consumer(device &device)
        : device_(device) {}
    void take_all(const ibv_qp &qp) {
        constexpr std::size_t SRQ_RING = 1; // created after the CQ
        while (const auto wr_id = device_.kernel.take_receive(SRQ_RING, num_taken_)) {
            ++num_taken_;
            device_.complete(qp, *wr_id);
        }
    }

  private:
    device &device_;
    std::uint32_t num_taken_ = 0;
};

/// A QP whose SQ has max_send_wr entries. The kernel has taken all but one of max_send_wr requests.
ibv_qp *create_qp_with_request(device &device, std::uint32_t max_send_wr) {
    ibv_qp_init_attr_ex attr{};
    const ibv_qp_init_attr base = device::make_attr(device.cq, device.cq);
    attr.send_cq = base.send_cq;
    attr.recv_cq = base.recv_cq;
    attr.cap = base.cap;
    attr.cap.max_send_wr = max_send_wr;
    attr.qp_type = base.qp_type;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.pd = device.pd;
    attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
    ibv_qp *const qp = ibv_create_qp_ex(device.context, &attr);
    require(qp != nullptr, "a QP is not created");
    for (std::uint32_t i = 1; i < max_send_wr; ++i)
        post_send(qp, 0);
    post_send(qp, SERIES);
    for (std::uint32_t i = 0; i + 1 < max_send_wr; ++i)
        device.kernel.take_request(SQ_RING, i);
    return qp;
}

} // namespace

// -- QPs in error

/// A CQ is provided to the last entry: the consumer that has polled a flushed request posts others.
/// The completion that raises an event for the flushed one must not take their place.
void event_leaves_room_in_the_cq() {
    constexpr int NUM_CQE = 2;
    device device;
    {
        const armed_cq cq(device, NUM_CQE);
        ibv_qp *const qp = device.create_qp(cq.cq), *const other = device.create_qp(cq.cq);
        move_to_err(qp);
        std::thread poster(post_recv, qp, SERIES);
        completions polled;
        polled.poll(cq.cq);
        const int num_free = polled.count() == 1 ? NUM_CQE : NUM_CQE - 1;
        for (int i = 0; i < num_free; ++i)
            device.complete(*other, SECOND_SERIES + static_cast<std::uint64_t>(i), SIW_WC_SUCCESS,
                            EVENT_CQ_RING);
        poster.join();
        polled.drain(cq.cq);
        require(polled.count() == 1 + num_free, "a completion is missing, or one too many");
        destroy(qp);
        destroy(other);
    }
}

/// The kernel has left a request of a full SQ, but has taken the one before it. A thread posts,
/// while another moves the QP to ERR and polls.
void flush_is_in_order() {
    device device;
    ibv_qp *const qp = create_qp_with_request(device, 2);
    std::thread poster([&] { post_send(qp, SERIES + 1); });
    move_to_err(qp);
    completions polled;
    polled.poll(device.cq);
    poster.join();
    polled.drain(device.cq);
    require(polled.count() == 2, "not two completions");
    destroy(qp);
}

/// As above; the requests are a batch of the ibv_wr_* API, and fill the SQ. A third thread polls.
void batch_is_flushed_in_order() {
    constexpr std::uint32_t MAX_SEND_WR = 4;
    device device;
    ibv_qp *const qp = create_qp_with_request(device, MAX_SEND_WR);
    std::thread mover(move_to_err, qp);
    std::thread poster([&] {
        ibv_qp_ex *const qp_ex = ibv_qp_to_qp_ex(qp);
        ibv_wr_start(qp_ex);
        for (std::uint64_t i = 1; i < MAX_SEND_WR; ++i) {
            qp_ex->wr_id = SERIES + i;
            ibv_wr_rdma_write(qp_ex, 0, 0);
        }
        require(ibv_wr_complete(qp_ex) == 0, "a batch is not posted");
    });
    completions polled;
    polled.poll(device.cq);
    mover.join();
    poster.join();
    polled.drain(device.cq);
    require(polled.count() == MAX_SEND_WR, "a completion is missing, or one too many");
    destroy(qp);
}

/// Two threads move a QP to ERR, of which one posts then; a third waits for the completions.
void two_threads_move_a_qp_to_err() {
    device device;
    {
        armed_cq cq(device, 8);
        ibv_qp *const qp = device.create_qp(cq.cq);
        post_send(qp, SERIES);
        post_recv(qp, SECOND_SERIES);
        std::thread mover(move_to_err, qp);
        std::thread poster([&] {
            move_to_err(qp);
            post_send(qp, SERIES + 1);
            post_recv(qp, SECOND_SERIES + 1);
        });
        completions polled;
        cq.wait_for(polled, 4);
        mover.join();
        poster.join();
        polled.drain(cq.cq);
        require(polled.count() == 4, "a completion too many");
        destroy(qp);
    }
}

/// A thread moves a QP to ERR, whose receive the kernel flushes, and posts another receive. A
/// second one polls, and flushes a WQE of another QP.
void flush_follows_completions_of_the_kernel() {
    device device;
    ibv_qp *const failed_qp = device.create_qp(), *const qp = device.create_qp();
    move_to_err(failed_qp);
    post_recv(failed_qp, SERIES);
    post_recv(qp, SECOND_SERIES);
    std::thread mover([&] {
        move_to_err(qp);
        post_recv(qp, SECOND_SERIES + 1);
    });
    completions polled;
    polled.poll(device.cq);
    mover.join();
    polled.drain(device.cq);
    require(polled.count() == 3, "a completion is missing, or one too many");
    destroy(qp);
    destroy(failed_qp);
}

/// The kernel flushes receives that were posted to a QP in ERR, since the connection ends, while a
/// thread polls: the order remains. A completion may come twice; see flush_wqe().
void late_close_keeps_the_order() {
    constexpr std::uint64_t NUM_RECEIVES = 2;
    device device;
    device.kernel.closes_after_err = true;
    ibv_qp *const qp = device.create_qp();
    move_to_err(qp);
    for (std::uint64_t i = 0; i < NUM_RECEIVES; ++i)
        post_recv(qp, SERIES + i);
    std::thread closer([&] { device.kernel.close_connection(*qp); });
    std::uint64_t next_id = SERIES;
    const auto poll = [&] {
        ibv_wc wc{};
        if (ibv_poll_cq(device.cq, 1, &wc) == 0)
            return false;
        require(wc.wr_id <= next_id, "a receive completes before an earlier one");
        next_id = std::max(next_id, wc.wr_id + 1);
        return true;
    };
    poll();
    closer.join();
    while (poll()) {
    }
    require(next_id == SERIES + NUM_RECEIVES, "a completion is missing");
    destroy(qp);
}

/// The peer ends the connection while two threads post and a third waits for the completions. The
/// last call of each thread is a send: the driver looks at the QP's state after no other.
void peer_closes_the_connection() {
    device device;
    device.kernel.takes_requests = true;
    {
        armed_cq cq(device, 8);
        ibv_qp *const qp = device.create_qp(cq.cq);
        std::thread poster([&] {
            for (std::uint64_t i = 0; i < 2; ++i) {
                post_recv(qp, SECOND_SERIES + i);
                post_send(qp, SERIES + i, IBV_SEND_SIGNALED);
            }
        });
        std::thread other([&] {
            device.kernel.close_connection(*qp);
            post_send(qp, THIRD_SERIES, IBV_SEND_SIGNALED);
        });
        completions polled;
        cq.wait_for(polled, 5);
        poster.join();
        other.join();
        polled.drain(cq.cq);
        require(polled.count() == 5, "a completion too many");
        destroy(qp);
    }
}

/// Two threads arm a CQ, poll it and wait, until one of them has polled the completion.
void two_threads_arm_a_cq() {
    device device;
    {
        event_cq cq(device, FLUSHED_ID);
        ibv_qp *const qp = device.create_qp(cq.cq);
        move_to_err(qp);
        std::thread poster(post_recv, qp, FLUSHED_ID);
        std::thread consumer([&] { cq.wait_for_completion(*qp); });
        cq.wait_for_completion(*qp);
        poster.join();
        consumer.join();
        destroy(qp);
    }
}

/// A failed QP is destroyed, while requests of another are flushed and completed.
void qp_is_destroyed_beside_completions_of_another() {
    device device;
    ibv_qp *const old_qp = device.create_qp(), *const qp = device.create_qp();
    const std::uint32_t old_num = old_qp->qp_num;
    device.complete(*old_qp, THIRD_SERIES);
    device.complete(*qp, SERIES);
    post_send(old_qp, THIRD_SERIES);
    post_recv(old_qp, THIRD_SERIES);
    move_to_err(old_qp);
    post_send(qp, SECOND_SERIES);
    std::atomic<bool> is_destroyed = false;
    std::thread destroyer([&] {
        destroy(old_qp);
        is_destroyed = true;
    });
    std::thread mover([&] {
        move_to_err(qp);
        post_send(qp, SECOND_SERIES + 1);
    });
    completions polled;
    ibv_wc wc{};
    const auto poll = [&] {
        const bool was_destroyed = is_destroyed;
        if (ibv_poll_cq(device.cq, 1, &wc) == 0)
            return false;
        require(wc.qp_num != old_num || !was_destroyed, "a completion of a destroyed QP is polled");
        if (wc.qp_num != old_num)
            polled.add(wc.wr_id);
        return true;
    };
    poll();
    poll();
    destroyer.join();
    mover.join();
    while (poll()) {
    }
    require(polled.count() == 3, "a completion is missing, or one too many");
    destroy(qp);
}

/// A QP with completions in a full CQ is destroyed, while another thread polls. Then those of
/// another QP have room.
void completions_of_destroyed_qp_leave_room() {
    constexpr int NUM_CQE = 2;
    constexpr std::size_t RING = 1;
    device device;
    ibv_cq *const cq = ibv_create_cq(device.context, NUM_CQE, nullptr, nullptr, 0);
    ibv_qp *const old_qp = device.create_qp(cq), *const qp = device.create_qp(cq);
    device.complete(*old_qp, SECOND_SERIES, SIW_WC_SUCCESS, RING);
    device.complete(*qp, SERIES, SIW_WC_SUCCESS, RING);
    std::thread destroyer([&] {
        destroy(old_qp);
        device.complete(*qp, SERIES + 1, SIW_WC_SUCCESS, RING);
    });
    completions polled;
    polled.poll(cq);
    destroyer.join();
    polled.drain(cq);
    require(polled.count() == NUM_CQE || polled.count() == NUM_CQE + 1,
            "a completion is missing, or one too many");
    destroy(qp);
    require(ibv_destroy_cq(cq) == 0, "a CQ is not destroyed");
}

// -- other objects

/// Two threads post to an SRQ, which may become full, while the kernel takes its receives.
void srq_is_posted_to_by_two_threads() {
    device device;
    ibv_srq *const srq = create_srq(device.pd, 2);
    ibv_qp *const qp = create_qp(device, srq);
    std::atomic<int> num_posted = 0;
    const auto post = [&](std::uint64_t series) {
        for (std::uint64_t i = 0; i < 2 && try_post_srq_recv(srq, series + i) == 0; ++i)
            ++num_posted;
    };
    std::thread first(post, SERIES), second(post, SECOND_SERIES);
    srq_consumer consumer(device);
    completions polled;
    consumer.take_all(*qp);
    polled.poll(device.cq);
    first.join();
    second.join();
    consumer.take_all(*qp);
    polled.drain(device.cq);
    require(polled.count() == num_posted && num_posted >= 2, "not as many completions as receives");
    destroy(qp);
    require(ibv_destroy_srq(srq) == 0, "an SRQ is not destroyed");
}

/// A QP with an SRQ fails and is destroyed, while another thread posts to the SRQ: another QP gets
/// the receives.
void failed_qp_leaves_the_srq_alone() {
    device device;
    ibv_srq *const srq = create_srq(device.pd, 2);
    ibv_qp *const failed_qp = create_qp(device, srq), *const qp = create_qp(device, srq);
    std::thread destroyer([&] {
        post_send(failed_qp, SECOND_SERIES);
        move_to_err(failed_qp);
        ibv_recv_wr wr{}, *bad_wr = nullptr;
        require(ibv_post_recv(failed_qp, &wr, &bad_wr) == EINVAL && bad_wr == &wr,
                "a receive is posted to a QP with an SRQ");
        destroy(failed_qp);
    });
    std::thread poster([&] {
        for (std::uint64_t i = 0; i < 2; ++i)
            require(try_post_srq_recv(srq, SERIES + i) == 0, "a receive is not posted");
    });
    completions polled;
    const int num_flushed = polled.poll(device.cq);
    destroyer.join();
    poster.join();
    polled.drain(device.cq);
    require(polled.count() == num_flushed && num_flushed <= 1, "a receive of an SRQ is flushed");
    srq_consumer consumer(device);
    consumer.take_all(*qp);
    polled.drain(device.cq);
    require(polled.count() == num_flushed + 2, "a receive is lost");
    destroy(qp);
    require(ibv_destroy_srq(srq) == 0, "an SRQ is not destroyed");
}

/// A thread uses the start_poll API, while another destroys a QP and a third posts to another one.
void cq_ex_is_polled_beside_destroy_and_post() {
    device device;
    device.kernel.takes_requests = true;
    ibv_cq_init_attr_ex cq_attr{};
    cq_attr.cqe = 8;
    ibv_cq_ex *const cq_ex = ibv_create_cq_ex(device.context, &cq_attr);
    ibv_cq *const cq = ibv_cq_ex_to_cq(cq_ex);
    ibv_qp *const old_qp = device.create_qp(cq), *const qp = device.create_qp(cq);
    const std::uint32_t old_num = old_qp->qp_num;
    for (std::uint64_t i = 0; i < 2; ++i)
        device.complete(*old_qp, SECOND_SERIES + i, SIW_WC_SUCCESS, CQ_EX_RING);
    std::atomic<bool> is_destroyed = false;
    std::thread destroyer([&] {
        destroy(old_qp);
        is_destroyed = true;
    });
    std::thread poster([&] {
        for (std::uint64_t i = 0; i < 2; ++i)
            post_send(qp, SERIES + i, IBV_SEND_SIGNALED);
    });
    completions polled;
    const auto poll = [&] {
        ibv_poll_cq_attr attr{};
        bool was_destroyed = is_destroyed;
        if (ibv_start_poll(cq_ex, &attr) != 0)
            return;
        do {
            require(ibv_wc_read_qp_num(cq_ex) != old_num || !was_destroyed,
                    "a completion of a destroyed QP is polled");
            polled.add(cq_ex->wr_id);
            was_destroyed = is_destroyed;
        } while (ibv_next_poll(cq_ex) == 0);
        ibv_end_poll(cq_ex);
    };
    poll();
    destroyer.join();
    poster.join();
    const int num_polled = polled.count();
    poll();
    require(polled.count() <= 4 && polled.count() >= 2 && polled.count() - num_polled <= 2,
            "a completion is missing, or one too many");
    destroy(qp);
    require(ibv_destroy_cq(cq) == 0, "a CQ is not destroyed");
}

/// One thread uses a QP, as it has promised by its thread domain. Another polls the QP's failed
/// completion.
void qp_of_a_thread_domain_fails() {
    device device;
    ibv_td_init_attr td_attr{};
    ibv_td *const td = ibv_alloc_td(device.context, &td_attr);
    ibv_parent_domain_init_attr domain_attr{};
    domain_attr.pd = device.pd;
    domain_attr.td = td;
    ibv_pd *const domain = ibv_alloc_parent_domain(device.context, &domain_attr);
    ibv_qp_init_attr attr = device::make_attr(device.cq, device.cq);
    ibv_qp *const qp = ibv_create_qp(domain, &attr);
    require(qp != nullptr, "a QP is not created");
    device.complete(*qp, THIRD_SERIES, SIW_WC_LOC_PROT_ERR);
    std::thread user([&] {
        for (std::uint64_t i = 0; i < 2; ++i) {
            post_send(qp, SERIES + i);
            post_recv(qp, SECOND_SERIES + i);
        }
    });
    completions polled;
    polled.poll(device.cq);
    polled.poll(device.cq);
    user.join();
    polled.drain(device.cq);
    require(polled.count() == 5, "a completion is missing, or one too many");
    destroy(qp);
    require(ibv_dealloc_pd(domain) == 0 && ibv_dealloc_td(td) == 0, "an object is not destroyed");
}

/// Two threads have parent domains of a PD and a TD, which cannot be deallocated meanwhile.
void parent_domains_are_counted() {
    device device;
    ibv_td_init_attr td_attr{};
    ibv_td *const td = ibv_alloc_td(device.context, &td_attr);
    const auto use_domain = [&] {
        ibv_parent_domain_init_attr attr{};
        attr.pd = device.pd;
        attr.td = td;
        ibv_pd *const domain = ibv_alloc_parent_domain(device.context, &attr);
        require(domain != nullptr, "a parent domain is not allocated");
        require(ibv_dealloc_pd(device.pd) == EBUSY && ibv_dealloc_td(td) == EBUSY,
                "an object that is used is deallocated");
        require(ibv_dealloc_pd(domain) == 0, "a parent domain is not deallocated");
    };
    std::thread other(use_domain);
    use_domain();
    other.join();
    require(ibv_dealloc_td(td) == 0, "a TD is not deallocated");
}

} // namespace siw_programs
