// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The rxe driver under several threads, with the real libibverbs and a fake kernel. Verbs promise:
// each request completes once and in order, none of a destroyed or reset QP; a poll that returns
// fewer than it may leaves the CQ empty; after an armed CQ has a completion, an event comes.

#include "rxe_device.hpp"
#include "schedule.hpp"
#include "verbs.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <thread>

namespace {

using namespace rxe_programs;

// -- posts and polls

/// Two threads post; the kernel completes at each doorbell.
void two_threads_post() {
    device device;
    ibv_qp *const qp = device.create_qp();
    std::thread first(post_sends, qp, 0, 2), second(post_sends, qp, 1, 2);
    device.wait_for(4);
    first.join();
    second.join();
    destroy(qp);
}

/// The peer acknowledges what the kernel has sent: a WQE that no doorbell is for stays.
void peer_acknowledges() {
    device device;
    device.kernel.completes_requests = false;
    ibv_qp *const qp = device.create_qp();
    std::thread first(post_sends, qp, 0, 2), second([&] {
        post_sends(qp, 1, 2);
        device.kernel.acknowledge(*qp);
    });
    first.join();
    second.join();
    device.kernel.acknowledge(*qp);
    device.wait_for(4);
    destroy(qp);
}

/// The SQ has room for seven; two threads post nine.
void sq_is_full() {
    device device;
    device.kernel.completes_requests = false;
    ibv_qp *const qp = device.create_qp();
    post_sends(qp, 0, 3);
    std::atomic<unsigned> num_posted = 3;
    const auto post = [&](unsigned stream) {
        for (unsigned i = 0; i < 3; ++i) {
            const int error = try_post_send(qp, make_id(stream, i));
            require(error == 0 || error == ENOMEM, "a post fails otherwise");
            num_posted += error == 0;
            if (i == 1)
                device.kernel.acknowledge(*qp);
        }
    };
    std::thread first(post, 1), second(post, 2);
    first.join();
    second.join();
    device.kernel.acknowledge(*qp);
    device.wait_for(num_posted);
    destroy(qp);
}

/// Two threads post batches with the ibv_wr_* API.
void two_threads_post_batches() {
    device device;
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = attr.recv_cq = device.cq;
    attr.cap = {.max_send_wr = 6,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    attr.qp_type = IBV_QPT_RC;
    attr.sq_sig_all = 1;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.pd = device.pd;
    attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
    ibv_qp *const qp = ibv_create_qp_ex(device.context, &attr);
    require(qp != nullptr, "a QP is not created");
    modify(qp, IBV_QPS_RTS);
    ibv_qp_ex *const qp_ex = ibv_qp_to_qp_ex(qp);
    const auto post = [&](unsigned stream) {
        ibv_wr_start(qp_ex);
        for (unsigned i = 0; i < 2; ++i) {
            qp_ex->wr_id = make_id(stream, i);
            qp_ex->wr_flags = 0;
            ibv_wr_rdma_write(qp_ex, 0, 0);
            ibv_wr_set_sge(qp_ex, 0, 0, 0);
        }
        require(ibv_wr_complete(qp_ex) == 0, "a batch is not posted");
    };
    std::thread first(post, 0), second(post, 1);
    device.wait_for(4);
    first.join();
    second.join();
    destroy(qp);
}

/// Two threads poll while another posts.
void two_threads_poll() {
    device device;
    ibv_qp *const qp = device.create_qp();
    post_sends(qp, 0, 3);
    std::thread other([&] {
        poller second(device.cq, device.completed);
        second.poll();
        second.poll();
    });
    std::thread posting(post_sends, qp, 1, 2);
    device.cq_poller.poll();
    device.cq_poller.poll();
    other.join();
    posting.join();
    device.wait_for(5);
    destroy(qp);
}

/// Two threads poll with start_poll, while the CQ is resized.
void two_threads_start_poll() {
    device device;
    ibv_cq_ex *const cq_ex = device.create_cq_ex();
    ibv_cq *const cq = ibv_cq_ex_to_cq(cq_ex);
    ibv_qp *const qp = device.create_qp(device.pd, cq);
    post_sends(qp, 0, 4);
    const auto poll = [&] {
        poller checks(cq, device.completed);
        ibv_poll_cq_attr poll_attr{};
        if (ibv_start_poll(cq_ex, &poll_attr) != 0)
            return;
        checks.check(cq_ex->wr_id);
        if (ibv_next_poll(cq_ex) == 0)
            checks.check(cq_ex->wr_id);
        ibv_end_poll(cq_ex);
    };
    std::thread other(poll);
    std::thread resizer([&] { require(ibv_resize_cq(cq, 16) == 0, "the CQ is not resized"); });
    poll();
    other.join();
    resizer.join();
    require(device.completed.count() == 4, "a completion is lost");
    destroy(qp);
    destroy(cq);
}

/// A poll returns what is there, up to what it may.
void poll_leaves_cq_empty() {
    device device;
    ibv_qp *const qp = device.create_qp();
    post_sends(qp, 0, 1);
    std::thread posting(post_sends, qp, 1, 3);
    for (int i = 0; i < 3; ++i) {
        const auto num_cqes = static_cast<int>(device.kernel.num_cqes(*device.cq));
        require(device.cq_poller.poll() >= std::min(num_cqes, poller::MAX_WC),
                "a poll leaves completions");
    }
    posting.join();
    device.wait_for(4);
    destroy(qp);
}

/// The CQ is almost full: what a poll has not read yet must not be overwritten.
void cq_is_almost_full() {
    device device;
    ibv_cq *const small_cq = ibv_create_cq(device.context, 3, nullptr, nullptr, 0);
    ibv_qp *const qp = device.create_qp(device.pd, small_cq);
    post_sends(qp, 0, 2);
    poller small_poller(small_cq, device.completed);
    std::thread posting([&] {
        for (unsigned i = 0; i < 3;) {
            constexpr unsigned CAPACITY = 3;
            if (device.kernel.num_cqes(*small_cq) < CAPACITY)
                post_send(qp, make_id(1, i++));
            else
                std::this_thread::yield();
        }
    });
    small_poller.wait_for(5, device.kernel);
    posting.join();
    destroy(qp);
    destroy(small_cq);
}

// -- resize

/// A CQ is resized while another thread posts and a third one polls.
void cq_is_resized() {
    device device;
    ibv_qp *const qp = device.create_qp();
    post_sends(qp, 0, 2);
    std::thread resizer([&] {
        for (const int cqe : {16, 8})
            require(ibv_resize_cq(device.cq, cqe) == 0, "the CQ is not resized");
    });
    std::thread posting(post_sends, qp, 1, 2);
    device.wait_for(4);
    resizer.join();
    posting.join();
    destroy(qp);
}

/// Two threads post to an SRQ; messages arrive.
void two_threads_post_to_srq() {
    device device;
    ibv_srq *const srq = device.create_srq();
    ibv_qp *const qp = device.create_qp({.srq = srq});
    std::thread first(post_srq_recvs, srq, 0, 1), second(post_srq_recvs, srq, 1, 2);
    receive(device, *qp, 3);
    first.join();
    second.join();
    device.wait_for(3);
    destroy(qp);
    destroy(srq);
}

/// An SRQ is resized while another thread posts to it, and messages arrive.
void srq_is_resized() {
    device device;
    ibv_srq *const srq = device.create_srq();
    ibv_qp *const qp = device.create_qp({.srq = srq});
    post_srq_recvs(srq, 0, 1);
    std::thread posting(post_srq_recvs, srq, 1, 2);
    std::thread resizer([&] {
        ibv_srq_attr attr{};
        attr.max_wr = 7;
        require(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR) == 0, "the SRQ is not resized");
    });
    receive(device, *qp, 3);
    posting.join();
    resizer.join();
    device.wait_for(3);
    destroy(qp);
    destroy(srq);
}

// -- destroyed and reset QPs

constexpr std::uint64_t OLD_ID = make_id(0), NEW_ID = make_id(1);

/// There are two numbers, of which the one of qp is next.
void use_number_again(device &device) {
    device.kernel.num_qp_nums = 2;
    destroy(device.create_qp());
}

/// The kernel gives the number of a destroyed QP to the next one, while the thread that destroys
/// the first discards its completions.
void number_is_used_again() {
    device device;
    ibv_qp *const old_qp = device.create_qp();
    use_number_again(device);
    post_send(old_qp, OLD_ID);
    std::thread destroyer([&] {
        destroy(old_qp);
        poller second(device.cq, device.completed);
        second.poll();
    });
    ibv_qp *const new_qp = device.create_qp();
    post_send(new_qp, NEW_ID);
    destroyer.join();
    device.cq_poller.poll_all();
    require(device.completed.count() == 1 && device.completed.has(NEW_ID),
            "not only the new QP's completion is polled");
    destroy(new_qp);
}

/// As above, and a third thread polls.
void number_is_used_again_beside_polls() {
    device device;
    ibv_qp *const old_qp = device.create_qp();
    use_number_again(device);
    post_send(old_qp, OLD_ID);
    std::atomic<bool> is_destroyed = false;
    std::thread destroyer([&] {
        destroy(old_qp);
        is_destroyed = true;
    });
    std::thread polling([&] {
        poller second(device.cq, device.completed);
        const bool was_destroyed = is_destroyed;
        second.poll();
        require(!was_destroyed || !device.completed.has(OLD_ID),
                "a completion of a destroyed QP is polled");
        second.poll();
    });
    ibv_qp *const new_qp = device.create_qp();
    post_send(new_qp, NEW_ID);
    destroyer.join();
    polling.join();
    device.cq_poller.poll_all();
    require(device.completed.has(NEW_ID), "the new QP's completion is not polled");
    destroy(new_qp);
}

/// As above. Another thread polls a failed completion of the first QP, which must not move the new
/// one to ERR.
void failure_of_destroyed_qp() {
    device device;
    ibv_qp *const old_qp = device.create_qp();
    use_number_again(device);
    post_recv(old_qp, OLD_ID);
    require(device.kernel.receive(*old_qp, IBV_WC_LOC_PROT_ERR), "no receive fails");
    std::thread destroyer([&] { destroy(old_qp); });
    std::thread polling([&] { device.cq_poller.poll(); });
    ibv_qp *const new_qp = device.create_qp();
    destroyer.join();
    polling.join();
    require(!device.is_moved_to_err(*new_qp), "the new QP is moved to ERR");
    destroy(new_qp);
}

/// The CQ of the first QP is destroyed, too, while another thread discards that QP's completions in
/// it, to use the number.
void cq_of_destroyed_qp_is_destroyed() {
    device device;
    ibv_cq *const old_cq = ibv_create_cq(device.context, 8, nullptr, nullptr, 0);
    ibv_qp *const old_qp = device.create_qp(device.pd, old_cq);
    use_number_again(device);
    post_send(old_qp, OLD_ID);
    std::thread destroyer([&] {
        destroy(old_qp);
        destroy(old_cq);
    });
    ibv_qp *const new_qp = device.create_qp();
    destroyer.join();
    destroy(new_qp);
}

/// A thread that polls, and so holds the CQ's lock, destroys a QP and creates one; another thread
/// creates one meanwhile.
void qp_is_replaced_within_poll() {
    device device;
    ibv_cq_ex *const cq_ex = device.create_cq_ex();
    ibv_cq *const cq = ibv_cq_ex_to_cq(cq_ex);
    ibv_qp *qp = device.create_qp(device.pd, cq), *other_qp = nullptr;
    use_number_again(device);
    post_send(qp, OLD_ID);
    ibv_poll_cq_attr poll_attr{};
    require(ibv_start_poll(cq_ex, &poll_attr) == 0, "no completion is polled");
    std::thread other([&] { other_qp = device.create_qp(device.pd, cq); });
    destroy(qp);
    qp = device.create_qp(device.pd, cq);
    other.join(); // it does not wait for this thread
    ibv_end_poll(cq_ex);
    destroy(qp);
    destroy(other_qp);
    destroy(cq);
}

/// One thread polls with start_poll; another destroys a QP whose completion is next.
void qp_is_destroyed_beside_poll() {
    device device;
    ibv_cq_ex *const cq_ex = device.create_cq_ex();
    ibv_cq *const cq = ibv_cq_ex_to_cq(cq_ex);
    ibv_qp *const qp = device.create_qp(device.pd, cq), *const old_qp =
                                                            device.create_qp(device.pd, cq);
    post_send(qp, make_id(1, 0));
    post_send(old_qp, OLD_ID);
    post_send(qp, make_id(1, 1));
    std::atomic<bool> is_destroyed = false;
    std::thread destroyer([&] {
        destroy(old_qp);
        is_destroyed = true;
    });
    poller checks(cq, device.completed);
    for (int error = 0; error == 0;) { // of one start_poll to end_poll each
        const bool was_destroyed = is_destroyed;
        ibv_poll_cq_attr poll_attr{};
        error = ibv_start_poll(cq_ex, &poll_attr);
        if (error != 0)
            break;
        do {
            checks.check(cq_ex->wr_id);
            require(ibv_wc_read_qp_num(cq_ex) == qp->qp_num || !was_destroyed,
                    "a completion of a destroyed QP is polled");
        } while (ibv_next_poll(cq_ex) == 0);
        ibv_end_poll(cq_ex);
    }
    destroyer.join();
    require(device.completed.count() == (device.completed.has(OLD_ID) ? 3U : 2U),
            "a completion of another QP is lost");
    destroy(qp);
    destroy(cq);
}

/// A QP is reset and used again, while another thread polls and a third one posts to another QP.
void qp_is_reset() {
    device device;
    ibv_qp *const qp = device.create_qp(), *const other_qp = device.create_qp();
    post_send(qp, OLD_ID);
    device.kernel.completes_requests = false;
    post_send(qp, make_id(0, 1)); // dropped
    post_recv(qp, make_id(0, 2)); // dropped
    std::thread posting([&] {
        post_send(other_qp, make_id(2));
        device.kernel.acknowledge(*other_qp);
    });
    std::atomic<bool> is_reset = false;
    std::thread polling([&] {
        poller second(device.cq, device.completed);
        const bool was_reset = is_reset;
        second.poll();
        require(!was_reset || !device.completed.has(OLD_ID),
                "a completion from before the reset is polled");
    });
    modify(qp, IBV_QPS_RESET);
    is_reset = true;
    modify(qp, IBV_QPS_RTS);
    post_send(qp, NEW_ID);
    post_recv(qp, make_id(1, 1));
    device.kernel.acknowledge(*qp);
    require(device.kernel.receive(*qp), "no receive is posted");
    posting.join();
    polling.join();
    const bool is_polled = device.completed.has(OLD_ID); // before the reset
    device.cq_poller.poll_all();
    require(device.completed.has(OLD_ID) == is_polled,
            "a completion from before the reset is polled");
    require(!device.completed.has(make_id(0, 1)) && !device.completed.has(make_id(0, 2)),
            "a dropped request completes");
    require(device.completed.count() == (is_polled ? 4U : 3U), "a request does not complete");
    destroy(qp);
    destroy(other_qp);
}

// -- errors

/// A QP is moved to ERR while two threads post.
void qp_is_moved_to_err() {
    device device;
    device.kernel.completes_requests = false;
    ibv_qp *const qp = device.create_qp();
    std::thread sender(post_sends, qp, 0, 2), receiver(post_recvs, qp, 1, 2);
    modify(qp, IBV_QPS_ERR);
    device.wait_for(4);
    sender.join();
    receiver.join();
    destroy(qp);
}

/// As above, with a kernel that flushes in its work queue, also after the command.
void qp_is_flushed_later() {
    device device;
    device.kernel.completes_requests = false;
    device.kernel.flushes_later = true;
    ibv_qp *const qp = device.create_qp();
    post_sends(qp, 0, 1);
    std::thread posting([&] {
        post_recvs(qp, 1, 2);
        post_sends(qp, 2, 1);
    });
    std::atomic<bool> is_complete = false;
    std::thread work_queue([&] {
        while (!is_complete) {
            device.kernel.run_tasks();
            std::this_thread::yield();
        }
    });
    modify(qp, IBV_QPS_ERR);
    device.wait_for(4);
    is_complete = true;
    posting.join();
    work_queue.join();
    destroy(qp);
}

/// A receive fails, so that the kernel moves the QP to ERR, while others are posted.
void receive_is_posted_to_failed_qp() {
    device device;
    ibv_qp *const qp = device.create_qp();
    post_recv(qp, OLD_ID);
    std::thread posting(post_recvs, qp, 1, 2);
    std::thread network(
        [&] { require(device.kernel.receive(*qp, IBV_WC_LOC_PROT_ERR), "no receive fails"); });
    device.wait_for(3);
    posting.join();
    network.join();
    destroy(qp);
}

/// A QP in ERR is reset and used again, while a thread polls its failed completion.
void failed_qp_is_reset() {
    device device;
    ibv_qp *const qp = device.create_qp();
    post_recv(qp, OLD_ID);
    require(device.kernel.receive(*qp, IBV_WC_LOC_PROT_ERR), "no receive fails");
    std::thread polling([&] {
        poller second(device.cq, device.completed);
        second.poll();
    });
    modify(qp, IBV_QPS_RESET);
    modify(qp, IBV_QPS_RTS);
    post_recv(qp, NEW_ID);
    polling.join();
    require(device.kernel.receive(*qp), "the QP that was reset is moved to ERR");
    device.cq_poller.poll_all();
    require(device.completed.has(NEW_ID), "a request does not complete");
    destroy(qp);
}

/// A receive fails just when another thread moves the QP to RTS. A receive that is posted
/// afterwards is flushed.
void receive_fails_at_rts() {
    device device;
    ibv_qp *const qp = device.create_qp();
    modify(qp, IBV_QPS_RESET);
    modify(qp, IBV_QPS_RTR);
    post_recv(qp, OLD_ID);
    std::thread mover([&] {
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_RTS;
        ibv_modify_qp(qp, &attr, IBV_QP_STATE); // fails if the QP is in ERR already
    });
    require(device.kernel.receive(*qp, IBV_WC_LOC_PROT_ERR), "no receive fails");
    device.cq_poller.poll_all();
    mover.join();
    post_recv(qp, NEW_ID);
    device.wait_for(2);
    destroy(qp);
}

// -- other kinds of QPs and PDs

/// Two threads post to a UD QP, one of whose receives fails, which is no error of the QP.
void ud_qp() {
    device device;
    ibv_qp *const qp = device.create_qp({.type = IBV_QPT_UD});
    ibv_ah_attr ah_attr{};
    ah_attr.is_global = 1;
    ah_attr.port_num = 1;
    ibv_ah *const ah = ibv_create_ah(device.pd, &ah_attr);
    require(ah != nullptr, "an AH is not created");
    const auto post = [&](unsigned stream) {
        ibv_sge sge{};
        ibv_send_wr wr{}, *bad_wr = nullptr;
        wr.wr_id = make_id(stream);
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.opcode = IBV_WR_SEND;
        wr.wr.ud = {.ah = ah, .remote_qpn = 1, .remote_qkey = 1};
        require(ibv_post_send(qp, &wr, &bad_wr) == 0, "a request is not posted");
    };
    post_recv(qp, make_id(2, 0));
    std::thread first(post, 0), second([&] {
        post(1);
        post_recv(qp, make_id(2, 1));
        require(device.kernel.receive(*qp, IBV_WC_LOC_LEN_ERR), "no receive fails");
    });
    device.wait_for(3);
    first.join();
    second.join();
    require(!device.is_moved_to_err(*qp) && device.kernel.receive(*qp), "the QP is in ERR");
    device.wait_for(4);
    destroy(qp);
    require(ibv_destroy_ah(ah) == 0, "an AH is not destroyed");
}

/// Each thread has a thread domain with a QP, which takes no locks; they share a CQ, a PD and an
/// SRQ, which do.
void thread_domains() {
    device device;
    ibv_srq *const srq = device.create_srq();
    const auto use = [&](unsigned stream) {
        ibv_td_init_attr td_attr{};
        ibv_td *const td = ibv_alloc_td(device.context, &td_attr);
        ibv_parent_domain_init_attr attr{};
        attr.pd = device.pd;
        attr.td = td;
        ibv_pd *const domain = ibv_alloc_parent_domain(device.context, &attr);
        require(td != nullptr && domain != nullptr, "a parent domain is not created");
        ibv_qp *const qp = device.create_qp(domain, device.cq, {.srq = srq});
        post_sends(qp, stream, 1);
        post_srq_recvs(srq, stream + 2, 1);
        require(device.kernel.receive(*qp), "no receive is posted");
        poller polls(device.cq, device.completed);
        while (!device.completed.has(make_id(stream)))
            polls.poll();
        // A completion of the receive remains, perhaps.
        destroy(qp);
        require(ibv_dealloc_pd(domain) == 0 && ibv_dealloc_td(td) == 0,
                "a parent domain is not deallocated");
    };
    std::thread first(use, 0), second(use, 1);
    first.join();
    second.join();
    destroy(srq);
}

/// A CQ is used by one thread, as promised. Another thread, which does not use it, creates a QP.
void single_threaded_cq() {
    device device;
    ibv_cq *const cq = ibv_cq_ex_to_cq(device.create_cq_ex(IBV_CREATE_CQ_ATTR_SINGLE_THREADED));
    ibv_qp *const old_qp = device.create_qp(device.pd, cq), *const qp =
                                                                device.create_qp(device.pd, cq);
    device.kernel.num_qp_nums = 3;
    destroy(device.create_qp()); // the old QP's number is next
    post_send(old_qp, OLD_ID);
    post_sends(qp, 1, 2);
    std::thread user([&] {
        destroy(old_qp);
        poller polls(cq, device.completed);
        polls.poll_all();
        require(device.completed.count() == 2 && !device.completed.has(OLD_ID),
                "not two completions");
    });
    ibv_qp *const other = device.create_qp();
    user.join();
    destroy(other);
    destroy(qp);
    destroy(cq);
}

constexpr std::array PROGRAMS = {
    schedule::program{"two_threads_post", two_threads_post},
    schedule::program{"peer_acknowledges", peer_acknowledges},
    schedule::program{"sq_is_full", sq_is_full},
    schedule::program{"two_threads_post_batches", two_threads_post_batches},
    schedule::program{"two_threads_poll", two_threads_poll},
    schedule::program{"two_threads_start_poll", two_threads_start_poll},
    schedule::program{"poll_leaves_cq_empty", poll_leaves_cq_empty},
    schedule::program{"cq_is_almost_full", cq_is_almost_full},
    schedule::program{"cq_is_resized", cq_is_resized},
    schedule::program{"two_threads_post_to_srq", two_threads_post_to_srq},
    schedule::program{"srq_is_resized", srq_is_resized},
    schedule::program{"number_is_used_again", number_is_used_again},
    schedule::program{"number_is_used_again_beside_polls", number_is_used_again_beside_polls},
    schedule::program{"failure_of_destroyed_qp", failure_of_destroyed_qp},
    schedule::program{"cq_of_destroyed_qp_is_destroyed", cq_of_destroyed_qp_is_destroyed},
    schedule::program{"qp_is_replaced_within_poll", qp_is_replaced_within_poll},
    schedule::program{"qp_is_destroyed_beside_poll", qp_is_destroyed_beside_poll},
    schedule::program{"qp_is_reset", qp_is_reset},
    schedule::program{"qp_is_moved_to_err", qp_is_moved_to_err},
    schedule::program{"qp_is_flushed_later", qp_is_flushed_later},
    schedule::program{"receive_is_posted_to_failed_qp", receive_is_posted_to_failed_qp},
    schedule::program{"failed_qp_is_reset", failed_qp_is_reset},
    schedule::program{"receive_fails_at_rts", receive_fails_at_rts},
    schedule::program{"ud_qp", ud_qp},
    schedule::program{"thread_domains", thread_domains},
    schedule::program{"single_threaded_cq", single_threaded_cq},
};

} // namespace

int main(int argc, char **argv) {
    return schedule::run_programs(argc, argv, PROGRAMS);
}
