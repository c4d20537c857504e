// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Posts to a QP in a state in which they are refused or dropped. Which of both, and by which error,
// differs between drivers.

#include "loopback.hpp"

#include "../../lib/modify_qp.hpp"

#include <array>
#include <pthread.h>

namespace check_corpus {

namespace {

/// Ceph PR #25447: the last request before the QP is destroyed, a beacon, never completes.
void send_after_reset(const target &target, bool corrected) {
    loopback link(target, false);
    endpoint &local = link.requester;
    link.exchange_message();
    local.to_state(corrected ? IBV_QPS_ERR : IBV_QPS_RESET);
    send_request beacon(IBV_WR_SEND, local.sge());
    ibv_send_wr *bad_wr = nullptr;
    ibv_post_send(local.qp, &beacon.wr, &bad_wr); // wrong: post-dropped
    if (corrected)
        wait_any(local.send_cq, "the beacon");
}

/// The first message is posted before the connection is there.
void send_before_connected(const target &target, bool corrected) {
    if (corrected) {
        loopback(target, false).exchange_message();
        return;
    }
    unconnected side(target);
    endpoint &local = side.local;
    local.in_doubt = true; // a driver may have taken the send
    send_request send(IBV_WR_SEND, local.sge());
    ibv_send_wr *bad_wr = nullptr;
    ibv_post_send(local.qp, &send.wr, &bad_wr); // wrong: post-dropped
}

/// A server answers before its QP has come to RTS.
void send_in_rtr(const target &target, bool corrected) {
    device dev(target);
    endpoint local;
    local.create(dev.context);
    local.in_doubt = !corrected; // a driver may have taken the send
    local.to_init();
    const ibv_ah_attr ah_attr = verbs_test::make_loopback_ah_attr(dev.gid, dev.gid_index);
    verbs_test::modify_qp_to_rtr(local.qp, local.qp->qp_num, ah_attr, 1); // to itself
    if (corrected) {
        verbs_test::modify_qp_to_rts(local.qp, 14, 7, 1);
        local.post_recv(local.sge(64, 4096));
    }
    send_request send(IBV_WR_SEND, local.sge());
    ibv_send_wr *bad_wr = nullptr;
    ibv_post_send(local.qp, &send.wr, &bad_wr); // wrong: post-dropped
    if (corrected) {
        wait_success(local.send_cq, "the message");
        wait_success(local.recv_cq, "the receive");
    }
}

/// As Mooncake PR #1803: receives are posted, and then the QP passes through RESET to be connected.
/// An iWARP QP takes them as soon as it exists: siw says that it is in INIT.
void receive_in_reset(const target &target, bool corrected) {
    device dev(target);
    endpoint local;
    local.create(dev.context);
    if (corrected)
        local.to_init();
    recv_request recv(local.sge());
    ibv_recv_wr *bad_wr = nullptr;
    ibv_post_recv(local.qp, &recv.wr, &bad_wr); // wrong: post-dropped
    if (!corrected)
        local.to_init();
}

void wr_send_before_connected(const target &target, bool corrected) {
    const endpoint_options options{.extended = true};
    if (corrected) {
        loopback(target, false, {.requester = options, .responder = options}).exchange_message();
        return;
    }
    unconnected side(target, options);
    endpoint &local = side.local;
    local.in_doubt = true; // a driver may have taken the send
    ibv_qp_ex *const qp = local.qp_ex();
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(qp);
    const auto source = reinterpret_cast<std::uintptr_t>(local.memory);
    ibv_wr_set_sge(qp, local.mr->lkey, source, 64); // wrong: post-dropped
    ibv_wr_complete(qp);                            // wrong: post-dropped
}

/// As a coroutine.
void send_on_small_stack(const target &target, bool corrected) {
    constexpr std::size_t stack_size = 32768;
    struct thread_data {
        endpoint &local;
        bool corrected;
    };
    unconnected side(target);
    thread_data data{side.local, corrected};
    const auto post = [](void *argument) -> void * {
        const auto &[local, is_corrected] = *static_cast<thread_data *>(argument);
        send_request send(IBV_WR_SEND, local.sge());
        ibv_send_wr *bad_wr = nullptr;
        if (!is_corrected)
            ibv_post_send(local.qp, &send.wr, &bad_wr); // wrong: post-dropped
        return nullptr;
    };
    pthread_attr_t attr;
    pthread_t thread{};
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, stack_size);
    if (pthread_create(&thread, &attr, post, &data) != 0)
        throw failure("no thread");
    pthread_attr_destroy(&attr);
    pthread_join(thread, nullptr);
}

constexpr std::string_view kind = "post-dropped";
constexpr std::array cases{
    corpus_case{.name = "send_after_reset", .kind = kind, .run = send_after_reset, .needs = rxe},
    corpus_case{.name = "send_before_connected", .kind = kind, .run = send_before_connected},
    corpus_case{.name = "send_in_rtr", .kind = kind, .run = send_in_rtr, .needs = rxe},
    corpus_case{.name = "receive_in_reset", .kind = kind, .run = receive_in_reset, .needs = rxe},
    corpus_case{.name = "send_on_small_stack", .kind = kind, .run = send_on_small_stack},
    corpus_case{.name = "wr_send_before_connected",
                .kind = kind,
                .run = wr_send_before_connected,
                .needs = extended},
};

} // namespace

std::span<const corpus_case> state_cases() {
    return cases;
}

} // namespace check_corpus
