// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Objects without locks that two threads use at the same time.

#include "../../lib/modify_qp.hpp"
#include "loopback.hpp"

#include <array>
#include <mutex>
#include <thread>

namespace check_corpus {

namespace {

/// An endpoint of a thread domain, whose extended CQ has completions: its QP is in ERR.
struct unlocked {
    device dev;
    ibv_td *td = nullptr;
    ibv_pd *pd = nullptr, *parent_domain = nullptr;
    ibv_mr *mr = nullptr;
    ibv_cq_ex *cq = nullptr;
    ibv_qp *qp = nullptr;
    std::array<std::byte, 64> memory{};

    /// has_td: of the QP.
    unlocked(const target &target, bool has_td)
        : dev(target) {
        ibv_td_init_attr td_attr{};
        td = check(ibv_alloc_td(dev.context, &td_attr), "thread domain");
        pd = check(ibv_alloc_pd(dev.context), "protection domain");
        ibv_parent_domain_init_attr domain_attr{};
        domain_attr.pd = pd;
        domain_attr.td = td;
        parent_domain = check(ibv_alloc_parent_domain(dev.context, &domain_attr), "parent domain");
        mr = check(ibv_reg_mr(pd, memory.data(), memory.size(), full_access), "register");
        ibv_cq_init_attr_ex cq_attr{};
        cq_attr.cqe = 16;
        cq_attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
        cq_attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
        cq = check(ibv_create_cq_ex(dev.context, &cq_attr), "extended CQ");
        ibv_qp_init_attr_ex attr{};
        attr.qp_type = IBV_QPT_RC;
        attr.send_cq = attr.recv_cq = ibv_cq_ex_to_cq(cq);
        attr.cap = {8, 8, 1, 1, 0};
        attr.pd = has_td ? parent_domain : pd;
        attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
        qp = check(ibv_create_qp_ex(dev.context, &attr), "QP");
        verbs_test::modify_qp_to_init(qp, full_access);
    }
    unlocked(const unlocked &) = delete;
    unlocked &operator=(const unlocked &) = delete;
    ~unlocked() {
        ibv_destroy_qp(qp);
        ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
        ibv_dereg_mr(mr);
        ibv_dealloc_pd(parent_domain);
        ibv_dealloc_pd(pd);
        ibv_dealloc_td(td);
    }

    recv_request receive() const {
        return recv_request({reinterpret_cast<std::uintptr_t>(memory.data()), 64, mr->lkey});
    }
    void flush_receives(int count) const {
        ibv_recv_wr *bad_wr = nullptr;
        for (int i = 0; i < count; ++i) {
            recv_request recv = receive();
            check(ibv_post_recv(qp, &recv.wr, &bad_wr), "post a receive");
        }
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_ERR;
        check(ibv_modify_qp(qp, &attr, IBV_QP_STATE), "to ERR");
        let_complete();
    }
};

template <class function>
void run_thread(function func) {
    std::thread(func).join();
}

/// A thread fills the receive queue while another one builds a batch of sends.
void receive_while_batch_is_built(const target &target, bool corrected) {
    const unlocked local(target, true);
    ibv_qp_ex *const qp = ibv_qp_to_qp_ex(local.qp);
    const auto fill = [&] {
        recv_request recv = local.receive();
        ibv_recv_wr *bad_wr = nullptr;
        check(ibv_post_recv(local.qp, &recv.wr, &bad_wr), "post"); // wrong: thread-domain
    };
    ibv_wr_start(qp);
    if (!corrected)
        run_thread(fill);
    ibv_wr_abort(qp);
    if (corrected)
        run_thread(fill);
}

/// The QP has locks, and the program counts on them; but its CQ has none.
void poll_while_completion_is_read(const target &target, bool corrected) {
    const unlocked local(target, false);
    local.flush_receives(2);
    const auto poll = [&] {
        ibv_poll_cq_attr attr{};
        if (ibv_start_poll(local.cq, &attr) == 0) // wrong: thread-domain
            ibv_end_poll(local.cq);
    };
    ibv_poll_cq_attr attr{};
    check(ibv_start_poll(local.cq, &attr), "poll");
    if (!corrected)
        run_thread(poll);
    ibv_end_poll(local.cq);
    if (corrected)
        run_thread(poll);
}

/// Correct: two threads use the objects, with a mutex; and one QP has locks of its own.
void threads_with_mutex(const target &target, bool) {
    const unlocked local(target, true), locked(target, false);
    std::mutex mutex;
    constexpr int num_rounds = 100;
    const auto use_both = [&] {
        for (int i = 0; i < num_rounds; ++i) {
            const std::lock_guard guard(mutex);
            ibv_qp_ex *const qp = ibv_qp_to_qp_ex(local.qp);
            ibv_wr_start(qp);
            ibv_wr_abort(qp);
            ibv_poll_cq_attr attr{};
            if (ibv_start_poll(local.cq, &attr) == 0)
                ibv_end_poll(local.cq);
        }
    };
    std::thread other(use_both);
    use_both();
    other.join();
    ibv_wr_start(ibv_qp_to_qp_ex(locked.qp));
    run_thread([&] {
        recv_request recv = locked.receive();
        ibv_recv_wr *bad_wr = nullptr;
        check(ibv_post_recv(locked.qp, &recv.wr, &bad_wr), "post");
    });
    ibv_wr_abort(ibv_qp_to_qp_ex(locked.qp));
}

constexpr std::string_view kind = "thread-domain";
constexpr std::array cases{
    corpus_case{.name = "receive_while_batch_is_built",
                .kind = kind,
                .run = receive_while_batch_is_built,
                .needs = coherdma},
    corpus_case{.name = "poll_while_completion_is_read",
                .kind = kind,
                .run = poll_while_completion_is_read,
                .needs = coherdma},
    corpus_case{
        .name = "threads_with_mutex", .kind = "none", .run = threads_with_mutex, .needs = coherdma},
};

} // namespace

std::span<const corpus_case> thread_domain_cases() {
    return cases;
}

} // namespace check_corpus
