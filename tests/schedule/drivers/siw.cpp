// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The siw driver under several threads, with the real libibverbs and a fake kernel.

#include "siw_device.hpp"
#include "siw_threads.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

namespace {

using namespace siw_programs;

constexpr std::uint64_t OLD_ID = 1, NEW_ID = 2;

/// The kernel's QPs were never connected.
void have_no_connection(device &device) {
    device.kernel.on_doorbell = [](std::uint32_t) {
        return ENOTCONN;
    };
    device.kernel.max_dest_rd_atomic = 0;
}

/// The kernel gives the number of a destroyed QP to the next one, while the thread that destroys
/// the first discards its completions.
void number_is_used_again() {
    device device;
    ibv_qp *const old_qp = device.create_qp();
    device.complete(*old_qp, OLD_ID);
    std::thread destroyer(destroy, old_qp);
    ibv_qp *const new_qp = device.create_qp();
    device.complete(*new_qp, NEW_ID);
    destroyer.join();
    std::array<ibv_wc, 3> wcs{};
    require(ibv_poll_cq(device.cq, 3, wcs.data()) == 1 && wcs[0].wr_id == NEW_ID,
            "not only the new QP's completion is polled");
    destroy(new_qp);
}

/// As above. Another thread polls a failed completion of the first QP, which must not move the new
/// one to ERR.
void failure_of_destroyed_qp() {
    device device;
    ibv_qp *const old_qp = device.create_qp();
    device.complete(*old_qp, OLD_ID, SIW_WC_LOC_PROT_ERR);
    std::thread destroyer(destroy, old_qp);
    std::thread poller([&] {
        ibv_wc wc{};
        ibv_poll_cq(device.cq, 1, &wc);
    });
    ibv_qp *const new_qp = device.create_qp();
    destroyer.join();
    poller.join();
    require(!device.is_moved_to_err(*new_qp), "the new QP is moved to ERR");
    destroy(new_qp);
}

/// The CQ of the first QP is destroyed, too, while another thread discards that QP's completions in
/// it, to use the number.
void cq_of_destroyed_qp_is_destroyed() {
    device device;
    ibv_cq *const old_cq = ibv_create_cq(device.context, 8, nullptr, nullptr, 0);
    ibv_qp *const old_qp = device.create_qp(old_cq);
    std::thread destroyer([&] {
        require(ibv_destroy_qp(old_qp) == 0 && ibv_destroy_cq(old_cq) == 0,
                "an object is not destroyed");
    });
    ibv_qp *const new_qp = device.create_qp();
    destroyer.join();
    destroy(new_qp);
}

/// A thread that polls, and so holds the CQ's lock, destroys a QP and creates one; another thread
/// creates one meanwhile.
void qp_is_replaced_within_poll() {
    device device;
    ibv_cq_init_attr_ex cq_attr{};
    cq_attr.cqe = 8;
    ibv_cq_ex *const cq_ex = ibv_create_cq_ex(device.context, &cq_attr);
    ibv_cq *const cq = ibv_cq_ex_to_cq(cq_ex);
    ibv_qp *qp = device.create_qp(cq), *other_qp = nullptr;
    device.complete(*qp, OLD_ID, SIW_WC_SUCCESS, CQ_EX_RING);
    ibv_poll_cq_attr poll_attr{};
    require(ibv_start_poll(cq_ex, &poll_attr) == 0, "no completion is polled");
    std::thread other([&] { other_qp = device.create_qp(cq); });
    destroy(qp);
    qp = device.create_qp(cq);
    ibv_end_poll(cq_ex);
    other.join();
    require(ibv_destroy_qp(qp) == 0 && ibv_destroy_qp(other_qp) == 0 && ibv_destroy_cq(cq) == 0,
            "an object is not destroyed");
}

/// Two threads post to a QP while a third one waits for the completions: each request completes
/// once, those of a thread in order, though the kernel refuses a doorbell now and then.
void requests_complete_once_and_in_order() {
    constexpr std::uint64_t NUM_REQUESTS = 2; // of each thread
    device device;
    device.kernel.takes_requests = device.kernel.refuses_doorbells = true;
    const channel_cq events(device, 8);
    ibv_cq *const cq = events.cq;
    ibv_qp *const qp = device.create_qp(cq);
    const auto post = [&](std::uint64_t thread) {
        for (std::uint64_t i = 0; i < NUM_REQUESTS; ++i)
            post_send(qp, thread * NUM_REQUESTS + i, IBV_SEND_SIGNALED);
    };
    std::thread first(post, 0), second(post, 1);
    std::array<std::uint64_t, 2> num_completed{}; // by thread
    for (bool is_complete = false; !is_complete;) {
        const int num_events = device.kernel.num_events();
        require(ibv_req_notify_cq(cq, 0) == 0, "the CQ is not armed");
        std::array<ibv_wc, 3> wcs;
        for (int count = 3; count == 3;) {
            count = ibv_poll_cq(cq, 3, wcs.data());
            for (int i = 0; i < count; ++i) {
                const ibv_wc &wc = wcs[static_cast<std::size_t>(i)];
                require(wc.status == IBV_WC_SUCCESS, "a request fails");
                require(wc.wr_id % NUM_REQUESTS == num_completed[wc.wr_id / NUM_REQUESTS]++,
                        "a request completes twice, or before an earlier one");
            }
        }
        is_complete = num_completed[0] + num_completed[1] == 2 * NUM_REQUESTS;
        if (!is_complete)
            device.kernel.wait_for_event(num_events);
    }
    first.join();
    second.join();
    destroy(qp);
}

/// A thread polls a failed completion, and so has the QP moved to ERR, while another posts a
/// receive, which is flushed. A third one waits for that.
void receive_is_posted_to_failed_qp() {
    device device;
    {
        event_cq cq(device, FLUSHED_ID);
        ibv_qp *const qp = device.create_qp(cq.cq);
        device.complete(*qp, FAILED_ID, SIW_WC_LOC_PROT_ERR, EVENT_CQ_RING);
        std::thread poller([&] { cq.poll(*qp); });
        std::thread poster(post_recv, qp, FLUSHED_ID);
        cq.wait_for_completion(*qp);
        poller.join();
        poster.join();
        destroy(qp);
    }
}

/// The kernel has left a request in the SQ. A thread polls a failed receive on another CQ, so that
/// the request is flushed, and its completion wakes the thread that waits for it.
void failed_receive_flushes_the_sq() {
    device device;
    {
        event_cq send_cq(device, FLUSHED_ID);
        ibv_qp *const qp = device.create_qp(send_cq.cq, device.cq);
        post_send(qp, FLUSHED_ID);
        std::thread poller([&] {
            device.complete(*qp, FAILED_ID, SIW_WC_LOC_PROT_ERR);
            ibv_wc wc{};
            require(ibv_poll_cq(device.cq, 1, &wc) == 1, "a failed receive is not polled");
        });
        send_cq.wait_for_completion(*qp);
        poller.join();
        destroy(qp);
    }
}

// -- errors, their events, and numbers that are used again

/// A thread destroys a QP, whose number the QP of an event gets. Events must go on.
void event_qp_has_number_of_destroyed_qp() {
    device device;
    const channel_cq events(device, 8);
    ibv_cq *const cq = events.cq;
    ibv_qp *const old_qp = device.create_qp(cq), *const qp = device.create_qp(cq);
    move_to_err(qp);
    require(ibv_req_notify_cq(cq, 0) == 0, "the CQ is not armed");
    std::thread destroyer(destroy, old_qp);
    post_recv(qp, 1);
    destroyer.join();
    require(poll_all(cq, *qp) == 1, "not one completion");
    require(ibv_req_notify_cq(cq, 0) == 0, "the CQ is not armed");
    require(poll_all(cq, *qp) == 0, "a completion too many");
    const int num_events = device.kernel.num_events();
    post_recv(qp, 2);
    require(device.kernel.num_events() == num_events + 1, "no event is raised");
    require(poll_all(cq, *qp) == 1, "not one completion");
    destroy(qp);
}

/// As above; the destroyed QP has a failed completion, which another thread may poll.
void failed_completion_and_event_qp_have_a_number() {
    device device;
    const channel_cq events(device, 8);
    ibv_cq *const cq = events.cq;
    ibv_qp *const old_qp = device.create_qp(cq), *const qp = device.create_qp(cq);
    const std::uint32_t old_num = old_qp->qp_num;
    move_to_err(qp);
    device.complete(*old_qp, 7, SIW_WC_WR_FLUSH_ERR, EVENT_CQ_RING);
    require(ibv_req_notify_cq(cq, 0) == 0, "the CQ is not armed");
    std::thread destroyer(destroy, old_qp);
    std::thread poster([&] { post_recv(qp, 1); });
    ibv_wc wc{};
    int num_posted = 0;
    const auto poll = [&] {
        if (ibv_poll_cq(cq, 1, &wc) == 0)
            return false;
        require((wc.qp_num == qp->qp_num && wc.wr_id == 1) ||
                    (wc.qp_num == old_num && wc.wr_id == 7),
                "a completion of no request is polled");
        num_posted += wc.wr_id == 1;
        return true;
    };
    poll();
    destroyer.join();
    poster.join();
    while (poll()) {
    }
    require(num_posted == 1, "a receive is not completed once");
    destroy(qp);
}

/// A CQ is used by one thread, as promised. Another thread, which does not use it, creates a QP.
void single_threaded_cq() {
    device device;
    ibv_cq_init_attr_ex cq_attr{};
    cq_attr.cqe = 8;
    cq_attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    cq_attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
    ibv_cq_ex *const cq_ex = ibv_create_cq_ex(device.context, &cq_attr);
    require(cq_ex != nullptr, "no CQ");
    ibv_cq *const cq = ibv_cq_ex_to_cq(cq_ex);
    ibv_qp *const old_qp = device.create_qp(cq), *const qp = device.create_qp(cq);
    for (std::uint64_t id = 1; id <= 2; ++id)
        device.complete(*qp, id, SIW_WC_SUCCESS, CQ_EX_RING);
    std::thread user([&] {
        destroy(old_qp);
        require(poll_all(cq, *qp) == 2, "not two completions");
    });
    ibv_qp *const other = device.create_qp();
    user.join();
    destroy(other);
    destroy(qp);
    require(ibv_destroy_cq(cq) == 0, "not destroyed");
}

/// A request is posted to a QP that was never connected, and is withdrawn, while another thread
/// moves the QP to ERR.
void unconnected_qp_is_moved_to_err() {
    device device;
    have_no_connection(device);
    ibv_qp *const qp = device.create_qp();
    std::thread mover([&] { move_to_err(qp); });
    std::atomic<int> num_polled = 0;
    std::thread poller([&] { num_polled += poll_all(device.cq, *qp); });
    int num_posted = try_post_send(qp, 1) == 0;
    mover.join();
    poller.join();
    num_posted += try_post_send(qp, 2) == 0;
    num_polled += poll_all(device.cq, *qp);
    require(num_polled == num_posted, "not as many completions as requests");
    destroy(qp);
}

/// Two threads post to a QP that was never connected. No request stays in the SQ.
void two_post_to_unconnected_qp() {
    device device;
    have_no_connection(device);
    ibv_qp *const qp = device.create_qp();
    const auto post = [qp] {
        for (int i = 0; i < 2; ++i)
            require(try_post_send(qp, 1) == EINVAL,
                    "a post does not say that the QP is unconnected");
    };
    std::thread other(post);
    post();
    other.join();
    constexpr std::size_t SQ_RING = CQ_RING + 1;
    for (std::uint32_t i = 0; i < device.kernel.num_entries(SQ_RING); ++i)
        require(device.kernel.sqe(SQ_RING, i).flags == 0, "a request that was refused is posted");
    destroy(qp);
}

/// A thread that polls, with start_poll, posts to a failed QP with an armed CQ; another polls that
/// CQ; a third destroys a CQ that had an event.
void holder_posts_and_cq_is_destroyed() {
    device device;
    ibv_cq_init_attr_ex cq_attr{};
    cq_attr.cqe = 8;
    ibv_cq_ex *const cq_ex = ibv_create_cq_ex(device.context, &cq_attr);
    ibv_comp_channel *const channel = ibv_create_comp_channel(device.context);
    ibv_cq *const cq = ibv_create_cq(device.context, 8, nullptr, channel, 0),
                  *const old_cq = ibv_create_cq(device.context, 8, nullptr, channel, 0);
    ibv_qp *const qp = device.create_qp(cq, ibv_cq_ex_to_cq(cq_ex)), *const old_qp =
                                                                         device.create_qp(old_cq);
    device.complete(*qp, 9, SIW_WC_LOC_PROT_ERR, CQ_EX_RING);
    post_send(qp, 1);
    require(ibv_req_notify_cq(cq, 0) == 0 && ibv_req_notify_cq(old_cq, 0) == 0, "not armed");
    std::thread destroyer([&] {
        move_to_err(old_qp);
        post_recv(old_qp, 1);
        require(poll_all(old_cq, *old_qp) == 1, "not one completion");
        destroy(old_qp);
        require(ibv_destroy_cq(old_cq) == 0, "not destroyed");
    });
    std::thread poller([&] { poll_all(cq, *qp); });
    ibv_poll_cq_attr attr{};
    require(ibv_start_poll(cq_ex, &attr) == 0, "nothing polled");
    post_send(qp, 2);
    post_recv(qp, 3);
    require(ibv_next_poll(cq_ex) == 0 && cq_ex->wr_id == 3, "the receive is not flushed");
    ibv_end_poll(cq_ex);
    destroyer.join();
    poller.join();
    poll_all(cq, *qp);
    destroy(qp);
    require(ibv_destroy_cq(cq) == 0 && ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex)) == 0 &&
                ibv_destroy_comp_channel(channel) == 0,
            "not destroyed");
}

/// A request that the kernel leaves in the SQ of a QP in error: one thread posts and another arms
/// the CQ, polls and waits.
void closed_qp_is_found() {
    device device;
    {
        event_cq cq(device, FLUSHED_ID);
        ibv_qp *const qp = device.create_qp(cq.cq);
        device.kernel.state = IBV_QPS_ERR;
        std::thread poster([&] { post_send(qp, FLUSHED_ID); });
        cq.wait_for_completion(*qp);
        poster.join();
        destroy(qp);
    }
}

/// As above; two threads post.
void two_post_to_closed_qp() {
    device device;
    {
        event_cq cq(device, FLUSHED_ID);
        ibv_qp *const qp = device.create_qp(cq.cq);
        device.kernel.state = IBV_QPS_ERR;
        std::thread poster([&] { post_send(qp, FLUSHED_ID); });
        std::thread other([&] { post_send(qp, 5); });
        cq.wait_for_completion(*qp);
        poster.join();
        other.join();
        destroy(qp);
    }
}

/// Two QPs fail; each thread polls and destroys its own.
void qps_are_destroyed_while_flushed() {
    device device;
    ibv_qp *const qp = device.create_qp(), *const other = device.create_qp();
    post_send(qp, 1);
    post_send(other, 2);
    move_to_err(qp);
    int count = 0;
    std::thread destroyer([&] { destroy(qp); });
    std::thread mover([&] { move_to_err(other); });
    const auto poll = [&] {
        ibv_wc wc{};
        if (ibv_poll_cq(device.cq, 1, &wc) == 0)
            return false;
        require(wc.wr_id == 1 || wc.wr_id == 2, "wrong");
        count += wc.wr_id == 2;
        return true;
    };
    poll();
    destroyer.join();
    mover.join();
    while (poll()) {
    }
    require(count == 1, "a request is not flushed once");
    destroy(other);
}

/// Three receives are posted to a QP in error by two threads, while one consumer waits for all.
void all_receives_wake_the_consumer() {
    device device;
    const channel_cq events(device, 4);
    ibv_cq *const cq = events.cq;
    ibv_qp *const qp = device.create_qp(cq), *const other_qp = device.create_qp(cq);
    move_to_err(qp);
    std::thread poster([&] {
        post_recv(qp, 1);
        post_recv(qp, 2);
    });
    std::thread other([&] {
        move_to_err(other_qp);
        post_recv(other_qp, 3);
    });
    std::uint64_t next_id = 1;
    int count = 0;
    for (;;) {
        const int num_events = device.kernel.num_events();
        require(ibv_req_notify_cq(cq, 0) == 0, "not armed");
        ibv_wc wc{};
        for (; ibv_poll_cq(cq, 1, &wc) == 1; ++count) {
            require((wc.wr_id == 3 && wc.qp_num == other_qp->qp_num) ||
                        (wc.wr_id == next_id && wc.qp_num == qp->qp_num),
                    "a wrong completion");
            next_id += wc.wr_id == next_id && wc.wr_id != 3;
        }
        if (count == 3)
            break;
        device.kernel.wait_for_event(num_events);
    }
    poster.join();
    other.join();
    destroy(qp);
    destroy(other_qp);
}

/// A thread polls, and so checks a QP that may be in error, while another posts a request that the
/// kernel leaves. A third arms the CQ and waits.
void post_during_a_check() {
    device device;
    {
        event_cq cq(device, FLUSHED_ID);
        ibv_qp *const qp = device.create_qp(cq.cq);
        post_send(qp, 5);
        constexpr std::size_t SQ_RING = EVENT_CQ_RING + 1;
        device.kernel.take_request(SQ_RING, 0);
        std::this_thread::sleep_for(std::chrono::milliseconds(100)); // a poll may check
        device.kernel.state = IBV_QPS_ERR;
        std::thread poller([&] { cq.poll(*qp); });
        std::thread poster([&] { post_send(qp, FLUSHED_ID); });
        cq.wait_for_completion(*qp);
        poller.join();
        poster.join();
        destroy(qp);
    }
}

/// A request is withdrawn from a QP that another thread has moved to ERR; then polls go on.
void poll_after_a_withdrawal() {
    device device;
    have_no_connection(device);
    ibv_qp *const qp = device.create_qp();
    std::thread mover([&] { move_to_err(qp); });
    const int num_posted = try_post_send(qp, 1) == 0;
    mover.join();
    require(poll_all(device.cq, *qp) <= num_posted, "a request that failed is completed");
    destroy(qp);
}

constexpr std::array PROGRAMS = {
    schedule::program{"post_during_a_check", post_during_a_check},
    schedule::program{"poll_after_a_withdrawal", poll_after_a_withdrawal},
    schedule::program{"event_qp_has_number_of_destroyed_qp", event_qp_has_number_of_destroyed_qp},
    schedule::program{"failed_completion_and_event_qp_have_a_number",
                      failed_completion_and_event_qp_have_a_number},
    schedule::program{"single_threaded_cq", single_threaded_cq},
    schedule::program{"unconnected_qp_is_moved_to_err", unconnected_qp_is_moved_to_err},
    schedule::program{"two_post_to_unconnected_qp", two_post_to_unconnected_qp},
    schedule::program{"holder_posts_and_cq_is_destroyed", holder_posts_and_cq_is_destroyed},
    schedule::program{"closed_qp_is_found", closed_qp_is_found},
    schedule::program{"two_post_to_closed_qp", two_post_to_closed_qp},
    schedule::program{"qps_are_destroyed_while_flushed", qps_are_destroyed_while_flushed},
    schedule::program{"all_receives_wake_the_consumer", all_receives_wake_the_consumer},
    schedule::program{"number_is_used_again", number_is_used_again},
    schedule::program{"failure_of_destroyed_qp", failure_of_destroyed_qp},
    schedule::program{"cq_of_destroyed_qp_is_destroyed", cq_of_destroyed_qp_is_destroyed},
    schedule::program{"qp_is_replaced_within_poll", qp_is_replaced_within_poll},
    schedule::program{"requests_complete_once_and_in_order", requests_complete_once_and_in_order},
    schedule::program{"receive_is_posted_to_failed_qp", receive_is_posted_to_failed_qp},
    schedule::program{"failed_receive_flushes_the_sq", failed_receive_flushes_the_sq},
    schedule::program{"event_leaves_room_in_the_cq", event_leaves_room_in_the_cq},
    schedule::program{"flush_is_in_order", flush_is_in_order},
    schedule::program{"batch_is_flushed_in_order", batch_is_flushed_in_order},
    schedule::program{"srq_is_posted_to_by_two_threads", srq_is_posted_to_by_two_threads},
    schedule::program{"failed_qp_leaves_the_srq_alone", failed_qp_leaves_the_srq_alone},
    schedule::program{"cq_ex_is_polled_beside_destroy_and_post",
                      cq_ex_is_polled_beside_destroy_and_post},
    schedule::program{"qp_of_a_thread_domain_fails", qp_of_a_thread_domain_fails},
    schedule::program{"parent_domains_are_counted", parent_domains_are_counted},
    schedule::program{"two_threads_move_a_qp_to_err", two_threads_move_a_qp_to_err},
    schedule::program{"flush_follows_completions_of_the_kernel",
                      flush_follows_completions_of_the_kernel},
    schedule::program{"late_close_keeps_the_order", late_close_keeps_the_order},
    schedule::program{"peer_closes_the_connection", peer_closes_the_connection},
    schedule::program{"qp_is_destroyed_beside_completions_of_another",
                      qp_is_destroyed_beside_completions_of_another},
    schedule::program{"two_threads_arm_a_cq", two_threads_arm_a_cq},
    schedule::program{"completions_of_destroyed_qp_leave_room",
                      completions_of_destroyed_qp_leave_room},
};

} // namespace

int main(int argc, char **argv) {
    return schedule::run_programs(argc, argv, PROGRAMS);
}
