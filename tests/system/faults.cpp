// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Faults of a provider for rdma_rxe, each tried: prints "right" or "wrong" for each, and what it
// saw. Two reliable queue pairs of one process talk to each other.
//
// faults DEVICE GID_INDEX [FAULT...]

#include "verbs_pair.hpp"
#include "writes.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <thread>

namespace {

using namespace carry;

// A receive that invalidated a key says so, and nothing of checksums. The key is a window's.
outcome invalidation_flag(const device &on) {
    const end from(on), to(on);
    connect(from, to);
    const owned<ibv_mw, ibv_dealloc_mw> window =
        check(owned<ibv_mw, ibv_dealloc_mw>(ibv_alloc_mw(to.pd.get(), IBV_MW_TYPE_2)), "window");
    ibv_send_wr bind = to.request(IBV_WR_BIND_MW), *bad = nullptr;
    bind.bind_mw.mw = window.get();
    bind.bind_mw.rkey = ibv_inc_rkey(window->rkey);
    bind.bind_mw.bind_info = {to.mr.get(), reinterpret_cast<std::uintptr_t>(to.memory.data()), 64,
                              IBV_ACCESS_REMOTE_WRITE};
    check(ibv_post_send(to.qp.get(), &bind, &bad), "post the binding");
    to.success("the binding");
    to.post_receive(1);
    ibv_sge piece = from.piece(8);
    ibv_send_wr send = from.request(IBV_WR_SEND_WITH_INV);
    send.sg_list = &piece;
    send.num_sge = 1;
    send.invalidate_rkey = bind.bind_mw.rkey;
    check(ibv_post_send(from.qp.get(), &send, &bad), "post the message");
    const ibv_wc got = to.success("the receive");
    from.success("the message");
    const bool right = (got.wc_flags & IBV_WC_WITH_INV) != 0 &&
                       (got.wc_flags & IBV_WC_IP_CSUM_OK) == 0 &&
                       got.invalidated_rkey == bind.bind_mw.rkey;
    return {right, text("flags ", got.wc_flags)};
}

// A queue pair that is not connected yet refuses a message, names it, and never sends it.
outcome early_send(const device &on) {
    const end from(on), to(on);
    from.to_init();
    to.to_init();
    from.to_rtr(to);
    to.to_rtr(from);
    to.to_rts();
    to.post_receive(1);
    ibv_sge piece = from.piece(8);
    ibv_send_wr send = from.request(IBV_WR_SEND), *bad = nullptr;
    send.sg_list = &piece;
    send.num_sge = 1;
    const int error = ibv_post_send(from.qp.get(), &send, &bad);
    const bool named = bad == &send;
    from.to_rts();
    // Another message has the kernel look at all that is there.
    send.wr_id = 7;
    check(ibv_post_send(from.qp.get(), &send, &bad), "post a message in RTS");
    const auto first = from.completion(milliseconds(2000));
    const bool alone = first && first->wr_id == 7;
    return {error > 0 && named && alone, text("error ", error, named ? ", named" : ", not named",
                                              alone ? ", not sent" : ", sent later")};
}

// A receive that is posted when the queue pair is in error is flushed.
outcome late_receive(const device &on) {
    const end from(on), to(on);
    connect(from, to);
    to.post_receive(1);
    to.to_error();
    const auto before = to.completion(milliseconds(1000));
    if (!before || before->status != IBV_WC_WR_FLUSH_ERR)
        throw failure("the receive of before is not flushed");
    to.post_receive(2);
    const auto after = to.completion(milliseconds(1000));
    if (!after)
        return {false, "never completes"};
    return {after->wr_id == 2 && after->status == IBV_WC_WR_FLUSH_ERR,
            ibv_wc_status_str(after->status)};
}

// A write that the other side refuses breaks the pair without the program's asking for it; a
// receive that is posted afterwards is flushed.
void write_with_wrong_key(const end &from, const end &to, std::uint64_t number) {
    ibv_sge piece = from.piece(8);
    ibv_send_wr write = from.request(IBV_WR_RDMA_WRITE), *bad = nullptr;
    write.wr_id = number;
    write.sg_list = &piece;
    write.num_sge = 1;
    write.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(to.memory.data());
    write.wr.rdma.rkey = to.mr->rkey ^ 0x5500;
    check(ibv_post_send(from.qp.get(), &write, &bad), "post a write");
}
outcome late_receive_broken(const device &on) {
    const end from(on), to(on);
    connect(from, to);
    write_with_wrong_key(from, to, 1);
    const auto failed = from.completion(milliseconds(2000));
    if (!failed || failed->status == IBV_WC_SUCCESS)
        throw failure("the write does not fail");
    from.post_receive(2);
    const auto after = from.completion(milliseconds(1000));
    if (!after)
        return {false, "never completes"};
    return {after->wr_id == 2 && after->status == IBV_WC_WR_FLUSH_ERR,
            ibv_wc_status_str(after->status)};
}

// A pair that broke, was reset and is connected again has nothing to do with what it was: its
// completions of before are not seen, and do not break it anew.
outcome reset_pair(const device &on) {
    const end from(on), to(on);
    connect(from, to);
    write_with_wrong_key(from, to, 1);
    std::this_thread::sleep_for(milliseconds(500));
    for (const end *each : {&from, &to}) {
        ibv_qp_attr reset{};
        reset.qp_state = IBV_QPS_RESET;
        check(ibv_modify_qp(each->qp.get(), &reset, IBV_QP_STATE), "to RESET");
    }
    connect(from, to);
    to.post_receive(2);
    ibv_sge piece = from.piece(8);
    ibv_send_wr send = from.request(IBV_WR_SEND), *bad = nullptr;
    send.wr_id = 3;
    send.sg_list = &piece;
    send.num_sge = 1;
    check(ibv_post_send(from.qp.get(), &send, &bad), "post a message");
    const auto first = from.completion(milliseconds(1000));
    if (!first || first->wr_id != 3 || first->status != IBV_WC_SUCCESS)
        return {false, first ? text("number ", first->wr_id, ": ", ibv_wc_status_str(first->status))
                             : "the message does not complete"};
    return {to.completion(milliseconds(1000)).has_value(), "goes on"};
}

// An opcode that the device does not know is refused, as is a message with too many pieces; the
// good one in front of it in the list is sent, and the bad one is named.
outcome bad_request(const device &on) {
    const end from(on), to(on);
    connect(from, to);
    to.post_receive(1);
    ibv_sge piece = from.piece(8);
    ibv_send_wr good = from.request(IBV_WR_SEND), evil = from.request(IBV_WR_TSO), *bad = nullptr;
    good.sg_list = &piece;
    good.num_sge = 1;
    good.next = &evil;
    const int error = ibv_post_send(from.qp.get(), &good, &bad);
    const bool named = bad == &evil;
    if (error != EINVAL || !named)
        return {false, text("error ", error, named ? ", named" : ", not named")};
    to.success("the good message");
    from.success("the good message");
    bad = nullptr;
    const std::array<ibv_sge, 64> many{};
    evil = from.request(IBV_WR_SEND);
    evil.sg_list = const_cast<ibv_sge *>(many.data());
    evil.num_sge = static_cast<int>(many.size());
    const int pieces = ibv_post_send(from.qp.get(), &evil, &bad);
    return {pieces == EINVAL && bad == &evil, text("error ", pieces, " for the pieces")};
}

// A queue that was polled by parts to its end is empty, and then has what comes next.
outcome polled_to_its_end(const device &on) {
    const end from(on, true), to(on);
    connect(from, to);
    to.post_receive(1);
    ibv_sge piece = from.piece(8);
    ibv_send_wr send = from.request(IBV_WR_SEND), *bad = nullptr;
    send.sg_list = &piece;
    send.num_sge = 1;
    send.wr_id = 5;
    check(ibv_post_send(from.qp.get(), &send, &bad), "post a message");
    to.success("the receive");
    ibv_cq_ex *const cq = from.parts();
    ibv_poll_cq_attr how{};
    const auto until = std::chrono::steady_clock::now() + milliseconds(2000);
    int first;
    while ((first = ibv_start_poll(cq, &how)) == ENOENT && std::chrono::steady_clock::now() < until)
        continue;
    if (first != 0 || cq->wr_id != 5 || cq->status != IBV_WC_SUCCESS)
        throw failure("the message did not complete");
    const bool sent = ibv_wc_read_opcode(cq) == IBV_WC_SEND;
    const int second = ibv_next_poll(cq);
    ibv_end_poll(cq);
    const int third = ibv_start_poll(cq, &how);
    if (third == 0)
        ibv_end_poll(cq);
    return {sent && second == ENOENT && third == ENOENT, text(second, ", then ", third)};
}

// Data that are given inline to a request made by parts are sent, without a flag besides.
outcome inline_by_parts(const device &on) {
    end from(on, true), to(on);
    connect(from, to);
    to.post_receive(1);
    ibv_qp_ex *const qp = ibv_qp_to_qp_ex(from.qp.get());
    std::array<char, 6> words{'i', 'n', 'l', 'i', 'n', 'e'};
    ibv_wr_start(qp);
    qp->wr_id = 9;
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, words.data(), words.size());
    check(ibv_wr_complete(qp), "post by parts");
    const auto sent = from.completion(milliseconds(2000));
    if (!sent || sent->status != IBV_WC_SUCCESS)
        return {false, sent ? ibv_wc_status_str(sent->status) : "no completion"};
    const ibv_wc got = to.success("the receive");
    const bool same = std::memcmp(to.memory.data(), words.data(), words.size()) == 0;
    return {sent->wr_id == 9 && got.byte_len == words.size() && same, "sent"};
}

// Atomic writes are offered where the device says that it has them, and there alone.
outcome atomic_write_offered(const device &on) {
    constexpr std::uint64_t capable = std::uint64_t{1} << 40;
    ibv_device_attr_ex device{};
    check(ibv_query_device_ex(on.context.get(), nullptr, &device), "query the device");
    const bool has = (device.device_cap_flags_ex & capable) != 0;
    const end to(on);
    std::optional<end> from;
    try {
        from.emplace(on, true, std::uint64_t{1} << 12);
    } catch (const failure &) {
        return {!has, text("refused, the device ", has ? "has it" : "lacks it")};
    }
    if (!has)
        return {false, "accepted, the device lacks it"};
    connect(*from, to);
    const std::uint64_t value = 0x0123456789abcdef;
    ibv_qp_ex *const qp = ibv_qp_to_qp_ex(from->qp.get());
    ibv_wr_start(qp);
    qp->wr_id = 11;
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_atomic_write(qp, to.mr->rkey, reinterpret_cast<std::uintptr_t>(to.memory.data()),
                        &value);
    check(ibv_wr_complete(qp), "post an atomic write");
    const ibv_wc done = from->success("the atomic write");
    const bool there = std::memcmp(to.memory.data(), &value, sizeof value) == 0;
    return {there && done.wr_id == 11, there ? "written" : "not written"};
}

// What is in a completion queue is there, once and in order, after the queue was made larger, and
// what comes then, too.
outcome resized_queue(const device &on) {
    const end from(on), to(on);
    connect(from, to);
    ibv_sge piece = from.piece(8);
    ibv_send_wr send = from.request(IBV_WR_RDMA_WRITE), *bad = nullptr;
    send.sg_list = &piece;
    send.num_sge = 1;
    send.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(to.memory.data());
    send.wr.rdma.rkey = to.mr->rkey;
    std::uint64_t expected = 0;
    for (std::uint64_t id = 0; id < 12; ++id) {
        send.wr_id = id;
        check(ibv_post_send(from.qp.get(), &send, &bad), "post a write");
        if (id % 4 != 3)
            continue;
        if (from.success("a write").wr_id != expected++)
            return {false, text("not number ", expected - 1)};
        const int entries = 100 << (id / 4);
        check(ibv_resize_cq(from.cq.get(), entries), "resize the queue");
        if (from.cq->cqe < entries)
            return {false, "not larger"};
        while (expected <= id)
            if (from.success("a write").wr_id != expected++)
                return {false, text("not number ", expected - 1)};
    }
    return {!from.completion(milliseconds(50)), text(expected, " writes")};
}

// What was posted to a shared receive queue is taken in order, before and after it was resized.
outcome resized_shared(const device &on) {
    const end from(on), to(on);
    ibv_srq_init_attr wanted{};
    wanted.attr = {4, 2, 0};
    const owned<ibv_srq, ibv_destroy_srq> srq =
        check(owned<ibv_srq, ibv_destroy_srq>(ibv_create_srq(to.pd.get(), &wanted)), "queue");
    ibv_qp_init_attr attributes{};
    attributes.qp_type = IBV_QPT_RC;
    attributes.send_cq = attributes.recv_cq = to.cq.get();
    attributes.srq = srq.get();
    attributes.cap = {8, 0, 2, 0, 64};
    const end taker(to, &attributes);
    connect(from, taker);
    const auto post = [&](std::uint64_t id) {
        ibv_sge where = to.piece(64);
        ibv_recv_wr request{id, nullptr, &where, 1}, *bad = nullptr;
        check(ibv_post_srq_recv(srq.get(), &request, &bad), "post a receive");
    };
    for (std::uint64_t id = 0; id < 4; ++id)
        post(id);
    ibv_srq_attr larger{};
    larger.max_wr = 40;
    check(ibv_modify_srq(srq.get(), &larger, IBV_SRQ_MAX_WR), "resize the queue");
    for (std::uint64_t id = 4; id < 40; ++id)
        post(id);
    ibv_srq_attr is{};
    check(ibv_query_srq(srq.get(), &is), "query the queue");
    if (is.max_wr < 40)
        return {false, text("room for ", is.max_wr)};
    ibv_sge piece = from.piece(8);
    ibv_send_wr send = from.request(IBV_WR_SEND), *bad = nullptr;
    send.sg_list = &piece;
    send.num_sge = 1;
    for (std::uint64_t id = 0; id < 40; ++id) {
        check(ibv_post_send(from.qp.get(), &send, &bad), "post a message");
        from.success("a message");
        const auto got = to.completion(milliseconds(2000));
        if (!got || got->status != IBV_WC_SUCCESS || got->wr_id != id)
            return {false, text("not number ", id)};
    }
    return {true, "40 messages"};
}

// Messages of many pieces, as memory and inline, have the length of all, and what is too long for
// 32 bits is refused.
outcome lengths_by_parts(const device &on) {
    end from(on, true), to(on);
    connect(from, to);
    to.post_receive(1);
    to.post_receive(2);
    for (std::size_t at = 0; at < from.memory.size(); ++at)
        from.memory.at(at) = static_cast<std::byte>(at * 7);
    ibv_qp_ex *const qp = ibv_qp_to_qp_ex(from.qp.get());
    const auto at = [&from](std::size_t place) {
        return &from.memory.at(place);
    };
    const std::array<ibv_sge, 2> pieces{
        {{reinterpret_cast<std::uintptr_t>(at(100)), 5, from.mr->lkey},
         {reinterpret_cast<std::uintptr_t>(at(200)), 11, from.mr->lkey}}};
    const std::array<ibv_data_buf, 3> words{{{at(300), 3}, {at(400), 7}, {at(500), 2}}};
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(qp);
    ibv_wr_set_sge_list(qp, pieces.size(), pieces.data());
    check(ibv_wr_complete(qp), "post two pieces");
    from.success("the pieces");
    const ibv_wc first = to.success("their receive");
    const bool joined = std::memcmp(to.memory.data(), at(100), 5) == 0 &&
                        std::memcmp(&to.memory.at(5), at(200), 11) == 0;
    if (first.byte_len != 16 || !joined)
        return {false, text("two pieces of 16 bytes arrive as ", first.byte_len)};
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE; // for those who forget that it is
    ibv_wr_send(qp);
    ibv_wr_set_inline_data_list(qp, words.size(), words.data());
    check(ibv_wr_complete(qp), "post three words");
    from.success("the words");
    const ibv_wc second = to.success("their receive");
    if (second.byte_len != 12 || std::memcmp(&to.memory.at(10), at(500), 2) != 0)
        return {false, text("three words of 12 bytes arrive as ", second.byte_len)};
    return {true, "16 and 12 bytes"};
}

outcome too_long_by_parts(const device &on) {
    const end from(on, true), to(on);
    connect(from, to);
    ibv_qp_ex *const qp = ibv_qp_to_qp_ex(from.qp.get());
    const ibv_sge all = from.piece(0xffffffff), more = from.piece(9);
    const std::array<ibv_sge, 2> pieces{all, more}; // 8 bytes, to who counts with 32 bits
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(qp);
    ibv_wr_set_sge_list(qp, pieces.size(), pieces.data());
    const int error = ibv_wr_complete(qp);
    return {error == EINVAL, error == 0 ? "accepted" : text("error ", error)};
}

// The kernel is called once for a list, and not at all if there is nothing new for it.
outcome doorbells_for_lists(const device &on) {
    const end from(on), to(on);
    connect(from, to);
    ibv_sge piece = from.piece(8);
    std::array<ibv_send_wr, 8> list;
    for (ibv_send_wr &each : list) {
        each = from.request(IBV_WR_RDMA_WRITE);
        each.sg_list = &piece;
        each.num_sge = 1;
        each.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(to.memory.data());
        each.wr.rdma.rkey = to.mr->rkey;
        each.next = &each == &list.back() ? nullptr : &each + 1;
    }
    ibv_send_wr *bad = nullptr;
    const unsigned before = doorbells();
    check(ibv_post_send(from.qp.get(), list.data(), &bad), "post a list");
    const unsigned good = doorbells() - before;
    for (std::size_t count = 0; count < list.size(); ++count)
        from.success("a write");
    list[0].opcode = IBV_WR_TSO;
    const int error = ibv_post_send(from.qp.get(), list.data(), &bad);
    const unsigned vain = doorbells() - before - good;
    return {error != 0 && good == 1 && vain == 0,
            text(good, " for a list, ", vain, " for one that begins with a bad request")};
}

// While one thread is in the kernel for a queue, others can post to it.
outcome held(const end &from, const end &to, bool by_parts) {
    const auto post = [&] {
        ibv_sge piece = from.piece(8);
        ibv_send_wr write = from.request(IBV_WR_RDMA_WRITE), *bad = nullptr;
        write.sg_list = &piece;
        write.num_sge = 1;
        write.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(to.memory.data());
        write.wr.rdma.rkey = to.mr->rkey;
        if (!by_parts) {
            check(ibv_post_send(from.qp.get(), &write, &bad), "post a write");
            return;
        }
        ibv_qp_ex *const qp = ibv_qp_to_qp_ex(from.qp.get());
        ibv_wr_start(qp);
        qp->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_send_imm(qp, 0);
        ibv_wr_set_sge(qp, piece.lkey, piece.addr, 8);
        check(ibv_wr_complete(qp), "post by parts");
    };
    const bool free = can_post_amid(post, post);
    from.success("the first");
    from.success("the second");
    return {free, free ? "another thread could post" : "another thread had to wait"};
}
outcome held_over_doorbell(const device &on) {
    const end from(on), to(on);
    connect(from, to);
    return held(from, to, false);
}
outcome held_over_doorbell_by_parts(const device &on) {
    const end from(on, true, IBV_QP_EX_WITH_SEND_WITH_IMM), to(on);
    connect(from, to);
    to.post_receive(1);
    to.post_receive(2);
    return held(from, to, true);
}

// A pair that is no more has no completions: its number may be another's soon.
outcome gone_pair(const device &on) {
    const end to(on);
    std::optional<end> own(std::in_place, on);
    ibv_qp_init_attr attributes{};
    attributes.qp_type = IBV_QPT_RC;
    attributes.send_cq = attributes.recv_cq = own->cq.get();
    attributes.cap = {8, 8, 2, 2, 64};
    const end stays(*own, &attributes), stays_too(on);
    connect(*own, to);
    connect(stays, stays_too);
    const auto write = [](const end &from, const end &where, std::uint64_t number, const ibv_mr *mr,
                          const void *memory) {
        ibv_sge piece{reinterpret_cast<std::uintptr_t>(memory), 8, mr->lkey};
        ibv_send_wr request = from.request(IBV_WR_RDMA_WRITE), *bad = nullptr;
        request.wr_id = number;
        request.sg_list = &piece;
        request.num_sge = 1;
        request.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(where.memory.data());
        request.wr.rdma.rkey = where.mr->rkey;
        check(ibv_post_send(from.qp.get(), &request, &bad), "post a write");
    };
    for (std::uint64_t number = 1; number <= 6; ++number)
        number % 2 == 1 ? write(*own, to, number, own->mr.get(), own->memory.data())
                        : write(stays, stays_too, number, own->mr.get(), own->memory.data());
    std::this_thread::sleep_for(milliseconds(500)); // all have completed
    own->qp.reset();
    std::string seen;
    bool right = true;
    for (std::uint64_t number = 2; number <= 6; number += 2) {
        const auto got = own->completion(milliseconds(200));
        right = right && got && got->wr_id == number;
        seen += got ? text(' ', got->wr_id) : " none";
    }
    if (own->completion(milliseconds(50))) {
        right = false;
        seen += " and more";
    }
    return {right, "2 4 6 are left, seen:" + seen};
}

constexpr std::array faults{
    fault<device>{"invalidation-flag", invalidation_flag},
    fault<device>{"early-send", early_send},
    fault<device>{"late-receive", late_receive},
    fault<device>{"late-receive-broken", late_receive_broken},
    fault<device>{"reset-pair", reset_pair},
    fault<device>{"bad-request", bad_request},
    fault<device>{"polled-to-its-end", polled_to_its_end},
    fault<device>{"inline-by-parts", inline_by_parts},
    fault<device>{"atomic-write-offered", atomic_write_offered},
    fault<device>{"resized-queue", resized_queue},
    fault<device>{"resized-shared", resized_shared},
    fault<device>{"lengths-by-parts", lengths_by_parts},
    fault<device>{"too-long-by-parts", too_long_by_parts},
    fault<device>{"doorbells", doorbells_for_lists},
    fault<device>{"held-over-doorbell", held_over_doorbell},
    fault<device>{"held-over-doorbell-by-parts", held_over_doorbell_by_parts},
    fault<device>{"gone-pair", gone_pair},
};

} // namespace

int main(int count, char **words) try {
    if (count < 3)
        throw failure("faults DEVICE GID_INDEX [FAULT...]");
    const std::span<char *const> names(words + 3, static_cast<std::size_t>(count - 3));
    return try_each(std::span<const fault<device>>(faults), names,
                    [=] { return open(words[1], std::atoi(words[2])); });
} catch (const std::exception &error) {
    std::fprintf(stderr, "faults: %s\n", error.what());
    return 1;
}
