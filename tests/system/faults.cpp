// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Faults of a provider for rdma_rxe, each tried: prints "right" or "wrong" for each, and what it
// saw. Two reliable queue pairs of one process talk to each other.
//
// faults DEVICE GID_INDEX [FAULT...]

#include "verbs.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <infiniband/verbs.h>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using namespace carry;
using std::chrono::milliseconds;

struct device {
    owned<ibv_context, ibv_close_device> context;
    std::uint8_t gid_index = 0;
    union ibv_gid gid {};
};

device open(std::string_view name, int gid_index) {
    int count = 0;
    const owned<ibv_device *, ibv_free_device_list> all(ibv_get_device_list(&count));
    for (int each = 0; each < count; ++each) {
        if (ibv_get_device_name(all.get()[each]) != name)
            continue;
        device found;
        found.context =
            check(decltype(found.context)(ibv_open_device(all.get()[each])), "open the device");
        found.gid_index = static_cast<std::uint8_t>(gid_index);
        check(ibv_query_gid(found.context.get(), 1, gid_index, &found.gid), "its address");
        return found;
    }
    throw failure(text("no device ", name));
}

// One end, with its own completion queue and some memory.
struct end {
    const device *on;
    std::array<std::byte, 4096> memory{};
    owned<ibv_pd, ibv_dealloc_pd> pd;
    owned<ibv_mr, ibv_dereg_mr> mr;
    owned<ibv_cq, ibv_destroy_cq> cq;
    owned<ibv_qp, ibv_destroy_qp> qp;

    explicit end(const device &device, bool by_parts = false, std::uint64_t more = 0)
        : on(&device) {
        ibv_context *const context = device.context.get();
        constexpr int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                               IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND;
        pd = check(decltype(pd)(ibv_alloc_pd(context)), "protection domain");
        mr = check(decltype(mr)(ibv_reg_mr(pd.get(), memory.data(), memory.size(), access)),
                   "register memory");
        cq = check(decltype(cq)(by_parts ? polled_by_parts(context)
                                         : ibv_create_cq(context, 64, nullptr, nullptr, 0)),
                   "completion queue");
        ibv_qp_init_attr_ex attributes{};
        attributes.qp_type = IBV_QPT_RC;
        attributes.send_cq = attributes.recv_cq = cq.get();
        attributes.cap = {8, 8, 2, 2, 64};
        attributes.comp_mask = IBV_QP_INIT_ATTR_PD;
        attributes.pd = pd.get();
        if (by_parts) {
            attributes.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
            attributes.send_ops_flags = IBV_QP_EX_WITH_SEND | more;
        }
        qp = check(decltype(qp)(ibv_create_qp_ex(context, &attributes)), "queue pair");
    }
    static ibv_cq *polled_by_parts(ibv_context *context) {
        ibv_cq_init_attr_ex attributes{};
        attributes.cqe = 64;
        attributes.wc_flags = IBV_WC_STANDARD_FLAGS;
        ibv_cq_ex *const made = ibv_create_cq_ex(context, &attributes);
        return made != nullptr ? ibv_cq_ex_to_cq(made) : nullptr;
    }
    ibv_cq_ex *parts() const { return reinterpret_cast<ibv_cq_ex *>(cq.get()); }
    // A queue pair beside another's, with what is the other's.
    end(const end &other, ibv_qp_init_attr *attributes)
        : on(other.on) {
        qp = check(decltype(qp)(ibv_create_qp(other.pd.get(), attributes)), "queue pair");
    }
    end(const end &) = delete;
    end &operator=(const end &) = delete;

    void to_init() const {
        ibv_qp_attr to{};
        to.qp_state = IBV_QPS_INIT;
        to.port_num = 1;
        to.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
        check(ibv_modify_qp(qp.get(), &to,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
              "to INIT");
    }
    void to_rtr(const end &peer) const {
        ibv_qp_attr to{};
        to.qp_state = IBV_QPS_RTR;
        to.path_mtu = IBV_MTU_1024;
        to.dest_qp_num = peer.qp->qp_num;
        to.max_dest_rd_atomic = 1;
        to.min_rnr_timer = 1;
        to.ah_attr.is_global = 1;
        to.ah_attr.port_num = 1;
        to.ah_attr.grh.dgid = on->gid;
        to.ah_attr.grh.sgid_index = on->gid_index;
        to.ah_attr.grh.hop_limit = 1;
        check(ibv_modify_qp(qp.get(), &to,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
              "to RTR");
    }
    void to_rts() const {
        ibv_qp_attr to{};
        to.qp_state = IBV_QPS_RTS;
        to.timeout = 11; // 8 ms
        to.retry_cnt = 7;
        to.rnr_retry = 7;
        to.max_rd_atomic = 1;
        check(ibv_modify_qp(qp.get(), &to,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
              "to RTS");
    }
    void to_error() const {
        ibv_qp_attr to{};
        to.qp_state = IBV_QPS_ERR;
        check(ibv_modify_qp(qp.get(), &to, IBV_QP_STATE), "to ERR");
    }

    ibv_sge piece(std::uint32_t length) const {
        return {reinterpret_cast<std::uintptr_t>(memory.data()), length, mr->lkey};
    }
    void post_receive(std::uint64_t id) const {
        ibv_sge where = piece(64);
        ibv_recv_wr request{id, nullptr, &where, 1}, *bad = nullptr;
        check(ibv_post_recv(qp.get(), &request, &bad), "post a receive");
    }
    ibv_send_wr request(ibv_wr_opcode opcode) const {
        ibv_send_wr made{};
        made.opcode = opcode;
        made.send_flags = IBV_SEND_SIGNALED;
        return made;
    }

    // The next completion, or none in that time.
    std::optional<ibv_wc> completion(milliseconds within) const {
        const auto until = std::chrono::steady_clock::now() + within;
        do {
            ibv_wc found{};
            const int count = ibv_poll_cq(cq.get(), 1, &found);
            check(count < 0 ? -1 : 0, "poll");
            if (count == 1)
                return found;
        } while (std::chrono::steady_clock::now() < until);
        return {};
    }
    ibv_wc success(const char *of) const {
        const auto found = completion(milliseconds(2000));
        if (!found)
            throw failure(text("no completion of ", of));
        if (found->status != IBV_WC_SUCCESS)
            throw failure(text(of, ": ", ibv_wc_status_str(found->status)));
        return *found;
    }
};

void connect(const end &a, const end &b) {
    for (const end *each : {&a, &b})
        each->to_init();
    a.to_rtr(b);
    b.to_rtr(a);
    a.to_rts();
    b.to_rts();
}

struct outcome {
    bool right;
    std::string seen;
};

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

// Threads that post on one queue pair and poll one queue: every request completes, once.
outcome crowded(const device &on) {
    constexpr std::uint64_t each = 500, posters = 4, pollers = 2, room = 60; // of the queue's 64
    const end from(on), to(on);
    connect(from, to);
    std::array<std::atomic<int>, each * posters> completed{};
    std::atomic<std::uint64_t> posted{0}, count{0};
    std::atomic<bool> failed{false};
    const auto until = std::chrono::steady_clock::now() + milliseconds(20000);
    const auto over = [&] {
        return failed || std::chrono::steady_clock::now() > until;
    };
    const auto post = [&](std::uint64_t poster) {
        ibv_sge piece = from.piece(8);
        ibv_send_wr send = from.request(IBV_WR_RDMA_WRITE), *bad = nullptr;
        send.sg_list = &piece;
        send.num_sge = 1;
        send.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(to.memory.data());
        send.wr.rdma.rkey = to.mr->rkey;
        for (std::uint64_t id = 0; id < each; ++id) {
            send.wr_id = poster * each + id;
            // Completions that do not fit are lost.
            const std::uint64_t turn = posted++;
            while (turn >= count + room && !over())
                std::this_thread::sleep_for(std::chrono::microseconds(100));
            int error;
            while ((error = ibv_post_send(from.qp.get(), &send, &bad)) == ENOMEM && !over())
                std::this_thread::sleep_for(std::chrono::microseconds(100));
            if (error != 0)
                failed = true;
        }
    };
    const auto poll = [&] {
        std::array<ibv_wc, 5> some{};
        while (count < completed.size() && !over()) {
            const int got = ibv_poll_cq(from.cq.get(), static_cast<int>(some.size()), some.data());
            for (int place = 0; place < got; ++place) {
                const ibv_wc &is = some.at(static_cast<std::size_t>(place));
                if (is.status != IBV_WC_SUCCESS || is.wr_id >= completed.size())
                    failed = true;
                else
                    ++completed.at(is.wr_id), ++count;
            }
            if (got <= 0)
                std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
    };
    std::vector<std::thread> threads;
    for (std::uint64_t poster = 0; poster < posters; ++poster)
        threads.emplace_back(post, poster);
    for (std::uint64_t poller = 0; poller < pollers; ++poller)
        threads.emplace_back(poll);
    for (std::thread &thread : threads)
        thread.join();
    bool once = !failed;
    for (const auto &times : completed)
        once = once && times == 1;
    return {once, text(count, " writes", failed ? ", one failed" : "")};
}

struct fault {
    std::string_view name;
    outcome (*tried)(const device &);
};
constexpr std::array faults{
    fault{"invalidation-flag", invalidation_flag},
    fault{"early-send", early_send},
    fault{"late-receive", late_receive},
    fault{"bad-request", bad_request},
    fault{"polled-to-its-end", polled_to_its_end},
    fault{"inline-by-parts", inline_by_parts},
    fault{"atomic-write-offered", atomic_write_offered},
    fault{"resized-queue", resized_queue},
    fault{"resized-shared", resized_shared},
    fault{"crowded", crowded},
};

} // namespace

int main(int count, char **words) try {
    if (count < 3)
        throw failure("faults DEVICE GID_INDEX [FAULT...]");
    const device on = open(words[1], std::atoi(words[2]));
    const std::vector<std::string_view> wanted(words + 3, words + count);
    for (const fault &each : faults) {
        bool chosen = wanted.empty();
        for (const std::string_view &name : wanted)
            chosen = chosen || name == each.name;
        if (!chosen)
            continue;
        const outcome is = each.tried(on);
        std::printf("%s: %s (%s)\n", each.name.data(), is.right ? "right" : "wrong",
                    is.seen.c_str());
        std::fflush(stdout);
    }
    return 0;
} catch (const std::exception &error) {
    std::fprintf(stderr, "faults: %s\n", error.what());
    return 1;
}
