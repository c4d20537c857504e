// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Queue pairs: how they are made, and how they break. A pair's state is the kernel's: the
// connection manager connects it without asking here, and a peer may end it at any time.

#include "common/creating.hpp"
#include "objects.hpp"

#include <algorithm>
#include <cerrno>

namespace coherdma::provider::siw {
namespace {

void unmap(pair &own) noexcept {
    own.sends.ring.at.unmap();
    own.receives.ring.at.unmap();
}

// It is taken off the list first: then nobody who polls breaks a pair that the kernel does not have
// any more, or another one of its number. Its completions that nobody has polled go with it.
int destroy(ibv_qp *qp) noexcept {
    pair &own = of<pair>(qp);
    pairs<pair> &all = of<context>(qp->context).all;
    all.remove(own);
    if (const int error = library().destroy_qp(qp)) {
        all.add(own);
        return error;
    }
    forget_completions(of<queue>(qp->send_cq), own);
    if (qp->recv_cq != nullptr && qp->recv_cq != qp->send_cq)
        forget_completions(of<queue>(qp->recv_cq), own);
    unmap(own);
    std::free(&own);
    return 0;
}

int map(pair &own, int fd, const siw_uresp_create_qp &made, bool receives) noexcept {
    own.sends.ring.stride = sizeof(siw_sqe);
    own.receives.ring.stride = sizeof(siw_rqe);
    own.receives.receives = true;
    own.sends.pair = own.receives.pair = own.verbs.qp.qp_num;
    if (const int error = own.sends.ring.at.map(fd, made.sq_key, made.num_sqe, sizeof(siw_sqe)))
        return error;
    if (!receives)
        return 0;
    return own.receives.ring.at.map(fd, made.rq_key, made.num_rqe, sizeof(siw_rqe));
}

// The kernel has made it; the rest is ours. If it cannot be, the kernel's is destroyed again. What
// is granted is more than was asked for: the kernel does not say so here, but when it is queried.
template <class attributes>
pair *complete(fresh<pair> &own, attributes &granted, const siw_uresp_create_qp &made,
               bool alone) noexcept {
    ibv_qp *const qp = &own->verbs.qp;
    ibv_qp_cap &cap = granted.cap;
    const bool receives = granted.srq == nullptr && cap.max_recv_wr != 0;
    own->sending.init(alone);
    own->receiving.init(alone);
    own->flags_always = granted.sq_sig_all != 0 ? unsigned{SIW_WQE_SIGNALLED} : 0U;
    if (const int error = map(*own, qp->context->cmd_fd, made, receives)) {
        library().destroy_qp(qp);
        unmap(*own);
        errno = error;
        return nullptr;
    }
    cap.max_send_wr = made.num_sqe;
    if (receives)
        cap.max_recv_wr = made.num_rqe;
    cap.max_inline_data = SIW_MAX_INLINE;
    own->most_inline = SIW_MAX_INLINE;
    own->most_pieces_sent = std::min<std::uint32_t>(cap.max_send_sge, SIW_MAX_SGE);
    own->most_pieces_received = std::min<std::uint32_t>(cap.max_recv_sge, SIW_MAX_SGE);
    of<context>(qp->context).all.add(*own);
    return own.take();
}

std::uint64_t operations_of(ibv_context *, ibv_qp_type, std::uint64_t) noexcept {
    return able_opcodes;
}

bool left_something(half &own) noexcept {
    if (own.ring.at.memory == nullptr)
        return false;
    const std::uint32_t end = std::atomic_ref(own.ring.own).load(std::memory_order_acquire);
    return (flags_of(own.ring.slot(end - 1)) & SIW_WQE_VALID) != 0;
}

int change(pair &own, ibv_qp_attr *attributes, int mask) noexcept {
    abi::message<abi::command::modify_qp> command = {};
    return library().modify_qp(&own.verbs.qp, attributes, mask, &command, command.size);
}

int modify(ibv_qp *qp, ibv_qp_attr *attributes, int mask) noexcept {
    pair &own = of<pair>(qp);
    if (const int error = change(own, attributes, mask))
        return error;
    if ((mask & IBV_QP_STATE) == 0 || attributes->qp_state != IBV_QPS_ERR)
        return 0;
    break_and_wake(own);
    return 0;
}

int query(ibv_qp *qp, ibv_qp_attr *attributes, int mask, ibv_qp_init_attr *initial) noexcept {
    abi::message<abi::command::query_qp> command = {};
    return library().query_qp(qp, attributes, mask, initial, &command, command.size);
}

// The kernel empties a ring in order, so what it has left is the end of what was given to it.
void flush(half &own, queue &to) noexcept {
    std::uint32_t first = std::atomic_ref(own.ring.own).load(std::memory_order_acquire);
    for (std::uint32_t count = 0; count <= own.ring.at.mask; ++count) {
        if ((flags_of(own.ring.slot(first - 1)) & SIW_WQE_VALID) == 0)
            break;
        --first;
    }
    own.flushed = first;
    std::atomic_ref front(to.broken);
    own.next = front.load();
    while (!front.compare_exchange_weak(own.next, &own)) {
    }
}

} // namespace

// When the kernel has said yes, it has flushed what it would, and never looks at the rings again.
void break_pair(pair &own) noexcept {
    if (std::atomic_ref(own.broken).exchange(true))
        return;
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_ERR;
    change(own, &attributes, IBV_QP_STATE);
    flush(own.sends, of<queue>(own.verbs.qp.send_cq));
    if (own.receives.ring.at.memory != nullptr)
        flush(own.receives, of<queue>(own.verbs.qp.recv_cq));
}

void break_and_wake(pair &own) noexcept {
    ibv_qp &qp = own.verbs.qp;
    break_pair(own);
    if (left_something(own.sends))
        wake(of<queue>(qp.send_cq), qp.pd);
    if (left_something(own.receives))
        wake(of<queue>(qp.recv_cq), qp.pd);
}

void break_pair(context &of, std::uint32_t number) noexcept {
    of.all.each([number](pair &one) {
        if (one.verbs.qp.qp_num == number)
            break_pair(one);
    });
}

void look_at(pair &own) noexcept {
    ibv_qp_attr attributes = {};
    ibv_qp_init_attr initial = {};
    const bool told =
        left_something(own.sends) && query(&own.verbs.qp, &attributes, IBV_QP_STATE, &initial) == 0;
    if (told && attributes.qp_state == IBV_QPS_ERR)
        break_pair(own);
    else if (told && attributes.qp_state == IBV_QPS_RTS)
        std::atomic_ref(of<queue>(own.verbs.qp.send_cq).suspects).store(true);
    else
        std::atomic_ref(own.suspect).store(false, std::memory_order_relaxed);
}

// A pair in error is told from a busy one by asking for its state, which takes a system call: not
// for each request, but when the program has nothing else to do. Older kernels (6.1) do not say.
void suspect(pair &own, std::uint32_t number) noexcept {
    if ((flags_of(own.sends.ring.slot(number)) & SIW_WQE_VALID) == 0)
        return;
    queue &to = of<queue>(own.verbs.qp.send_cq);
    std::atomic_ref(own.suspect).store(true, std::memory_order_relaxed);
    std::atomic_ref(to.suspects).store(true);
    if (!to.armed())
        return;
    // Whoever waits for an event does not look himself.
    look_at(own);
    if (std::atomic_ref(own.broken).load())
        wake(to, own.verbs.qp.pd);
}

void look_at_suspects(queue &queue) noexcept {
    std::atomic_ref(queue.suspects).store(false);
    of<context>(queue.verbs.cq.context).all.each([&queue](pair &one) {
        if (one.verbs.qp.send_cq == &queue.verbs.cq &&
            std::atomic_ref(one.suspect).load(std::memory_order_relaxed))
            look_at(one);
    });
}

// Only the kernel can cause an event, and does so when it completes something: a receive of a pair
// that is made for that, and gone before anybody polls it. If the queue is full the kernel cannot
// complete it either; so that nobody is woken for that in turn, the pair is not broken here.
void wake(queue &waiting, ibv_pd *domain) noexcept {
    ibv_cq &cq = waiting.verbs.cq;
    if (cq.channel == nullptr || !waiting.armed())
        return;
    const int saved = errno;
    ibv_qp_init_attr wanted = {};
    wanted.send_cq = wanted.recv_cq = &cq;
    wanted.cap = {1, 1, 1, 1, 0};
    wanted.qp_type = IBV_QPT_RC;
    if (ibv_qp *const qp = ibv_create_qp(domain, &wanted)) {
        ibv_recv_wr receive = {}, *bad;
        ibv_qp_attr attributes = {};
        attributes.qp_state = IBV_QPS_ERR;
        if (ibv_post_recv(qp, &receive, &bad) == 0)
            change(of<pair>(qp), &attributes, IBV_QP_STATE);
        ibv_destroy_qp(qp);
    }
    errno = saved;
}

void fill_pair(abi::operations &able) noexcept {
    able.create_qp = create_qp<pair, siw_uresp_create_qp, complete<ibv_qp_init_attr>>;
    able.create_qp_ex =
        create_qp_ex<pair, siw_uresp_create_qp, complete<ibv_qp_init_attr_ex>, operations_of>;
    able.modify_qp = modify;
    able.query_qp = query;
    able.destroy_qp = destroy;
}

} // namespace coherdma::provider::siw
