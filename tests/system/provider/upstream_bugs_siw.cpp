// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Trials of faults of a provider for siw: prints "right" or "wrong" for each, and what was seen.
//
// upstream_bugs_siw ADDRESS [TRIAL...]

#include "../lib/rdmacm_loopback.hpp"
#include "../lib/writes.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

namespace {

using namespace verbs_test;
using address = std::string;

// A request is refused: with that error, a positive number as of all verbs, and named.
outcome refusal(int error, bool named, int expected = EINVAL) {
    return {error == expected && named, text(error == 0 ? "accepted" : text("error ", error),
                                             named ? ", named" : ", not named")};
}

// After a request that was refused, the queue goes on: a write arrives.
bool goes_on(const rdmacm_loopback &loop) {
    const endpoint &requester = loop.requester;
    ibv_sge sge = requester.make_sge(8);
    ibv_send_wr write = requester.request(77, IBV_WR_RDMA_WRITE, sge, loop.responder);
    if (requester.post(write) != 0)
        return false;
    const auto done = requester.sent.completion(limit());
    return done && done->wr_id == 77 && done->status == IBV_WC_SUCCESS;
}

std::string seen_of(const std::optional<ibv_wc> &done) {
    return done ? ibv_wc_status_str(done->status) : "no completion";
}

// A request that this device may lack is refused, or works; in both cases the queue goes on. If it
// fails, the connection is over, and all that is posted later is flushed.
outcome works_or_refused(const rdmacm_loopback &loop, ibv_send_wr &odd) {
    bool named = false;
    const int error = loop.requester.post(odd, &named);
    const bool well = error == 0 || (error > 0 && named);
    std::string seen = error != 0 ? refusal(error, named).seen : "";
    bool over = false;
    if (error == 0) {
        const auto done = loop.requester.sent.completion(limit());
        seen = seen_of(done);
        over = done && done->status != IBV_WC_SUCCESS;
        if (!done)
            return {false, seen};
    }
    if (over)
        return {true, seen};
    const bool works = goes_on(loop);
    return {well && works, seen + (works ? ", goes on" : ", then stuck")};
}

// A message that invalidates a key: that of the message, and no other.
outcome invalidated_key(const address &addr) {
    const rdmacm_loopback loop(addr);
    const endpoint &requester = loop.requester, &responder = loop.responder;
    alignas(64) std::array<std::byte, 64> doomed{}, kept{};
    const auto dies = responder.registered(doomed.data(), doomed.size());
    const auto lives = responder.registered(kept.data(), kept.size());
    responder.post_recv(1);
    ibv_sge sge = requester.make_sge(8);
    ibv_send_wr send = requester.request(1, IBV_WR_SEND_WITH_INV, sge, responder);
    send.invalidate_rkey = dies->rkey;
    send.wr.rdma.rkey = lives->rkey; // means nothing here
    check(requester.post(send), "post the message");
    requester.sent.expect_success("the message");
    responder.received.expect_success("the receive");
    const auto readable = [&](const owned<ibv_mr, ibv_dereg_mr> &mr) {
        ibv_send_wr read = requester.request(2, IBV_WR_RDMA_READ, sge, responder);
        read.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(mr->addr);
        read.wr.rdma.rkey = mr->rkey;
        check(requester.post(read), "post a read");
        const auto done = requester.sent.completion(limit());
        return done && done->status == IBV_WC_SUCCESS;
    };
    const bool other = readable(lives), meant = readable(dies);
    return {other && !meant, text("the key meant is ", meant ? "valid" : "invalid",
                                  ", the other is ", other ? "valid" : "invalid")};
}

// An RDMA Read with two SGEs is refused, or both are filled.
outcome read_with_two_sges(const address &addr) {
    rdmacm_loopback loop(addr);
    const endpoint &requester = loop.requester;
    std::fill(loop.responder.memory.begin(), loop.responder.memory.begin() + 16, std::byte{7});
    std::array<ibv_sge, 2> sges{requester.make_sge(8, 1000), requester.make_sge(8, 2000)};
    ibv_send_wr read = requester.request(1, IBV_WR_RDMA_READ, sges[0], loop.responder);
    read.num_sge = 2;
    bool named = false;
    if (const int error = requester.post(read, &named))
        return {refusal(error, named).right && goes_on(loop), refusal(error, named).seen};
    const auto done = requester.sent.completion(limit());
    const bool all =
        requester.memory[1007] == std::byte{7} && requester.memory[2007] == std::byte{7};
    return {done && done->status == IBV_WC_SUCCESS && all,
            seen_of(done) + (all ? "" : ", not all the data")};
}

// All of those, flushed, in that order, and no more.
outcome flushed(const completion_queue &cq, const ibv_qp *qp,
                const std::vector<std::uint64_t> &numbers) {
    for (const std::uint64_t number : numbers) {
        const auto got = cq.completion(limit());
        if (!got)
            return {false, text("number ", number, " never completes")};
        if (got->wr_id != number || got->status != IBV_WC_WR_FLUSH_ERR || got->qp_num != qp->qp_num)
            return {false,
                    text("number ", got->wr_id, " of QP ", got->qp_num, " for number ", number,
                         " of QP ", qp->qp_num, ": ", ibv_wc_status_str(got->status))};
    }
    const auto more = cq.completion(milliseconds(50));
    return {!more, more ? text("then number ", more->wr_id, ", too") : "all flushed, in order"};
}

// What ends the connection: a disconnection by the requester, one by the responder, or the
// requester's transition to the error state.
enum class end_by { requester, responder, error };

void end_connection(rdmacm_loopback &loop, end_by reason) {
    if (reason != end_by::error)
        return loop.disconnect(reason == end_by::requester ? loop.requester : loop.responder);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    check(ibv_modify_qp(loop.requester.qp(), &attr, IBV_QP_STATE), "to ERR");
}

// A message after the end; its error, if it is refused, which it may not be.
std::string late_send(const rdmacm_loopback &loop, std::uint64_t number, std::uint64_t last) {
    ibv_sge sge = loop.requester.make_sge(8);
    std::vector<ibv_send_wr> list;
    for (; number <= last; ++number)
        list.push_back(loop.requester.request(number, IBV_WR_SEND, sge, loop.responder));
    for (std::size_t each = 0; each + 1 < list.size(); ++each)
        list.at(each).next = &list.at(each + 1);
    list.front().send_flags = 0; // even so
    bool named = false;
    const int error = loop.requester.post(list.front(), &named);
    return error == 0 ? "" : refusal(error, named).seen;
}

// With nothing else outstanding, only the QP's state shows that the connection has ended.
ibv_qp_state state_of_requester(const rdmacm_loopback &loop) {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init_attr{};
    check(ibv_query_qp(loop.requester.qp(), &attr, IBV_QP_STATE, &init_attr), "ibv_query_qp");
    return attr.qp_state;
}
void needs_state(const rdmacm_loopback &loop) {
    if (state_of_requester(loop) != IBV_QPS_RTS)
        throw failure("this kernel does not report the state of a QP");
}

outcome sends_after(const address &addr, end_by reason) {
    rdmacm_loopback loop(addr);
    end_connection(loop, reason);
    // What is posted before the kernel has handled the peer's disconnection, the kernel flushes.
    for (const auto deadline = std::chrono::steady_clock::now() + limit();
         reason == end_by::responder && state_of_requester(loop) == IBV_QPS_RTS;)
        if (std::chrono::steady_clock::now() > deadline)
            return {false, "the QP stays in RTS"};
    for (const auto &[first, last] : {std::pair{1U, 1U}, std::pair{2U, 3U}})
        if (const std::string refused = late_send(loop, first, last); !refused.empty())
            return {false, refused};
    return flushed(loop.requester.sent, loop.requester.qp(), {1, 2, 3});
}
outcome send_after_disconnect(const address &addr) {
    return sends_after(addr, end_by::requester);
}
outcome send_after_peer_disconnect(const address &addr) {
    needs_state(rdmacm_loopback(addr));
    return sends_after(addr, end_by::responder);
}
outcome send_in_error(const address &addr) {
    return sends_after(addr, end_by::error);
}

outcome receives_around(const address &addr, end_by reason) {
    rdmacm_loopback loop(addr);
    loop.requester.post_recv(1);
    loop.requester.post_recv(2);
    end_connection(loop, reason);
    loop.requester.post_recv(3);
    loop.requester.post_recv(4);
    return flushed(loop.requester.received, loop.requester.qp(), {1, 2, 3, 4});
}
outcome recv_after_disconnect(const address &addr) {
    return receives_around(addr, end_by::requester);
}
outcome recv_after_peer_disconnect(const address &addr) {
    return receives_around(addr, end_by::responder);
}
outcome recv_in_error(const address &addr) {
    return receives_around(addr, end_by::error);
}

// A consumer that arms a CQ and polls it once more before it sleeps misses nothing that was posted
// before.
outcome flush_found_after_arming(const address &addr) {
    rdmacm_loopback loop(addr);
    loop.disconnect(loop.requester);
    if (const std::string refused = late_send(loop, 1, 1); !refused.empty())
        return {false, refused};
    loop.requester.post_recv(2);
    for (const completion_queue *each : {&loop.requester.sent, &loop.requester.received}) {
        each->arm(false);
        const bool found = each->completion(milliseconds(0)) || each->event(limit());
        if (!found)
            return {false,
                    each == &loop.requester.sent ? "sends: not found" : "receives: not found"};
    }
    return {true, "found"};
}

// A consumer that has armed a CQ, found nothing and sleeps is woken by what another thread posts
// then.
outcome flush_wakes_waiter(const address &addr) {
    rdmacm_loopback loop(addr);
    loop.disconnect(loop.requester);
    for (const completion_queue *each : {&loop.requester.sent, &loop.requester.received}) {
        each->arm(false);
        if (each->completion(milliseconds(0)) || each->event(milliseconds(10)))
            return {false, "awake too early"};
        if (each == &loop.requester.received)
            loop.requester.post_recv(2);
        else if (const std::string refused = late_send(loop, 1, 1); !refused.empty())
            return {false, refused};
        const char *what = each == &loop.requester.sent ? "sends" : "receives";
        if (!each->event(limit()))
            return {false, text(what, ": not woken")};
        if (!flushed(*each, loop.requester.qp(), {each == &loop.requester.sent ? 1U : 2U}).right)
            return {false, text(what, ": woken in vain")};
    }
    return {true, "woken"};
}

// The same if nothing was outstanding when the peer disconnected.
outcome flush_wakes_waiter_of_peer_disconnect(const address &addr) {
    rdmacm_loopback loop(addr);
    needs_state(loop);
    loop.disconnect(loop.responder);
    loop.requester.sent.arm(false);
    if (loop.requester.sent.completion(milliseconds(0)) ||
        loop.requester.sent.event(milliseconds(10)))
        return {false, "awake too early"};
    if (const std::string refused = late_send(loop, 1, 1); !refused.empty())
        return {false, refused};
    if (!loop.requester.sent.event(limit()))
        return {false, "not woken"};
    return flushed(loop.requester.sent, loop.requester.qp(), {1});
}

// After the end a queue takes at least what it should, and whatever it takes completes.
outcome flush_of_full_queue(const address &addr) {
    rdmacm_loopback loop(addr);
    loop.disconnect(loop.requester);
    std::vector<std::uint64_t> taken;
    ibv_sge sge = loop.requester.make_sge(8);
    int error = 0;
    for (std::uint64_t number = 1; number <= 100 && error == 0; ++number) {
        ibv_send_wr send = loop.requester.request(number, IBV_WR_SEND, sge, loop.responder);
        error = loop.requester.post(send);
        if (error == 0)
            taken.push_back(number);
    }
    if (error != 0 && error != ENOMEM)
        return {false, text("error ", error)};
    if (taken.size() < endpoint::asked.max_send_wr)
        return {false, text("only ", taken.size(), " accepted")};
    return flushed(loop.requester.sent, loop.requester.qp(), taken);
}

// A WR posted after the disconnection is not reported once the QP is destroyed.
outcome no_flush_after_destroy(const address &addr) {
    rdmacm_loopback loop(addr);
    loop.disconnect(loop.requester);
    if (const std::string refused = late_send(loop, 1, 1); !refused.empty())
        return {false, refused};
    loop.requester.post_recv(2);
    rdma_destroy_qp(loop.requester.id.get());
    const bool sent = loop.requester.sent.completion(milliseconds(100)).has_value();
    const bool received = loop.requester.received.completion(milliseconds(100)).has_value();
    return {!sent && !received, sent || received ? "reported" : "not reported"};
}

// A message before the connection is refused, named, and never sent.
outcome send_before_connect(const address &addr) {
    outcome is{false, "never posted"};
    qp_options options;
    options.before_connect = [&is](const endpoint &requester) {
        ibv_sge sge = requester.make_sge(8);
        ibv_send_wr send = requester.request(42, IBV_WR_SEND, sge, requester);
        bool named = false;
        const int error = requester.post(send, &named);
        is = refusal(error, named);
        // With the stock provider the first message never completes.
        alarm(static_cast<unsigned>(limit().count() / 1000));
    };
    try {
        const rdmacm_loopback loop(addr, options);
        const bool works = goes_on(loop);
        const bool later = loop.requester.sent.completion(milliseconds(50)).has_value();
        return {is.right && works && !later,
                is.seen + (works && !later ? ", not sent" : ", sent later")};
    } catch (const failure &error) {
        return {false, is.seen + ", then " + error.what()};
    }
}

// A solicited Send wakes a consumer that waits for solicited events only.
outcome solicited(const address &addr) {
    const rdmacm_loopback loop(addr);
    loop.responder.post_recv(1);
    loop.responder.received.arm(true);
    ibv_sge sge = loop.requester.make_sge(8);
    ibv_send_wr send = loop.requester.request(1, IBV_WR_SEND, sge, loop.responder);
    send.send_flags |= IBV_SEND_SOLICITED;
    check(loop.requester.post(send), "post the message");
    loop.requester.sent.expect_success("the message");
    const bool woken = loop.responder.received.event(limit());
    loop.responder.received.expect_success("the receive");
    return {woken, woken ? "an event" : "no event"};
}

outcome fenced_read(const address &addr) {
    const rdmacm_loopback loop(addr);
    ibv_sge sge = loop.requester.make_sge(8);
    ibv_send_wr read = loop.requester.request(1, IBV_WR_RDMA_READ, sge, loop.responder);
    read.send_flags |= IBV_SEND_FENCE;
    return works_or_refused(loop, read);
}
outcome inline_with_key(const address &addr) {
    const rdmacm_loopback loop(addr);
    std::array<std::byte, 64> doomed{};
    const auto dies = loop.responder.registered(doomed.data(), doomed.size());
    loop.responder.post_recv(1);
    ibv_sge sge = loop.requester.make_sge(8);
    ibv_send_wr send = loop.requester.request(1, IBV_WR_SEND_WITH_INV, sge, loop.responder);
    send.send_flags |= IBV_SEND_INLINE;
    send.invalidate_rkey = dies->rkey;
    return works_or_refused(loop, send);
}
outcome read_too_many(const address &addr) {
    qp_options none;
    none.rd_atomic = 0;
    const rdmacm_loopback loop(addr, none, none);
    ibv_sge sge = loop.requester.make_sge(8);
    ibv_send_wr read = loop.requester.request(1, IBV_WR_RDMA_READ, sge, loop.responder);
    return works_or_refused(loop, read);
}

// An MR whose iova is not its address: refused, or the peer can read it there.
outcome mr_with_iova(const address &addr) {
    rdmacm_loopback loop(addr);
    const endpoint &requester = loop.requester;
    auto *const memory = loop.responder.memory.data();
    memory[0] = std::byte{9};
    constexpr std::uint64_t elsewhere = 0x10000;
    const owned<ibv_mr, ibv_dereg_mr> region(
        ibv_reg_mr_iova(loop.responder.pd.get(), memory, 4096, elsewhere,
                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
    if (!region)
        return {errno > 0, text("refused: ", std::strerror(errno))};
    ibv_sge sge = requester.make_sge(8, 1000);
    ibv_send_wr read = requester.request(1, IBV_WR_RDMA_READ, sge, loop.responder);
    read.wr.rdma.remote_addr = elsewhere;
    read.wr.rdma.rkey = region->rkey;
    check(requester.post(read), "post a read");
    const auto done = requester.sent.completion(limit());
    const bool works =
        done && done->status == IBV_WC_SUCCESS && requester.memory[1000] == std::byte{9};
    return {works, text("accepted, reading it: ", seen_of(done))};
}

// A receive for a message without data.
outcome recv_without_sge(const address &addr) {
    const rdmacm_loopback loop(addr);
    ibv_recv_wr request{3, nullptr, nullptr, 0}, *bad = nullptr;
    if (const int error = ibv_post_recv(loop.responder.qp(), &request, &bad))
        return refusal(error, bad == &request);
    ibv_sge sge{};
    ibv_send_wr send = loop.requester.request(1, IBV_WR_SEND, sge, loop.responder);
    send.num_sge = 0;
    check(loop.requester.post(send), "post a message without data");
    const ibv_wc got = loop.responder.received.expect_success("the receive");
    loop.requester.sent.expect_success("the message");
    return {got.wr_id == 3 && got.byte_len == 0, text(got.byte_len, " bytes")};
}

// A list of receives with a bad one: those before it are posted, it is named, none after it.
outcome bad_recv_wr(const address &addr) {
    const rdmacm_loopback loop(addr);
    std::array<ibv_sge, 64> many{};
    many.fill(loop.responder.make_sge(8));
    std::array<ibv_recv_wr, 3> list{};
    for (std::uint64_t number = 0; number < list.size(); ++number)
        list.at(number) = {number + 1, nullptr, many.data(), 1};
    list[0].next = &list[1];
    list[1].next = &list[2];
    list[1].num_sge = static_cast<int>(many.size());
    ibv_recv_wr *bad = nullptr;
    const int error = ibv_post_recv(loop.responder.qp(), &list[0], &bad);
    if (error != EINVAL || bad != &list[1])
        return refusal(error, bad == &list[1]);
    loop.responder.post_recv(4);
    for (const std::uint64_t number : {1U, 4U}) {
        ibv_sge sge = loop.requester.make_sge(8);
        ibv_send_wr send = loop.requester.request(number, IBV_WR_SEND, sge, loop.responder);
        check(loop.requester.post(send), "post a message");
        loop.requester.sent.expect_success("the message");
        const ibv_wc got = loop.responder.received.expect_success("the receive");
        if (got.wr_id != number)
            return {false, text("number ", got.wr_id, " and not ", number)};
    }
    return {true, "refused, named, the others as they should"};
}

// A receive queue that is full says so, of the first one that had no room.
outcome recv_queue_full(const address &addr) {
    const rdmacm_loopback loop(addr);
    ibv_sge sge = loop.responder.make_sge(8);
    for (std::uint32_t number = 0; number < 1000; ++number) {
        ibv_recv_wr request{number, nullptr, &sge, 1}, *bad = nullptr;
        if (const int error = ibv_post_recv(loop.responder.qp(), &request, &bad)) {
            const outcome is = refusal(error, bad == &request, ENOMEM);
            return {is.right && number >= endpoint::asked.max_recv_wr,
                    text(is.seen, " after ", number)};
        }
    }
    return {false, "never full"};
}

// Every field of an ibv_wc is written, whatever its memory held.
outcome wc_fully_defined(const address &addr) {
    const rdmacm_loopback loop(addr);
    loop.responder.post_recv(1);
    ibv_sge sge = loop.requester.make_sge(8);
    ibv_send_wr send = loop.requester.request(1, IBV_WR_SEND, sge, loop.responder);
    check(loop.requester.post(send), "post the message");
    for (const completion_queue *each : {&loop.requester.sent, &loop.responder.received}) {
        ibv_wc got;
        std::memset(&got, 0xa5, sizeof got);
        const auto until = std::chrono::steady_clock::now() + limit();
        int count = 0;
        while ((count = ibv_poll_cq(each->cq.get(), 1, &got)) == 0 &&
               std::chrono::steady_clock::now() < until)
            continue;
        if (count != 1)
            throw failure("no completion");
        std::string left;
        const auto look = [&left](auto value, const char *name) {
            decltype(value) filled;
            std::memset(&filled, 0xa5, sizeof filled);
            if (value == filled)
                left += text(' ', name);
        };
        look(got.vendor_err, "vendor_err");
        look(got.byte_len, "byte_len");
        look(got.qp_num, "qp_num");
        look(got.src_qp, "src_qp");
        look(got.wc_flags, "wc_flags");
        look(got.pkey_index, "pkey_index");
        look(got.slid, "slid");
        look(got.sl, "sl");
        look(got.dlid_path_bits, "dlid_path_bits");
        if (!left.empty())
            return {false, "undefined:" + left};
        if (got.wr_id != 1 || got.status != IBV_WC_SUCCESS || got.wc_flags != 0)
            return {false, "not as posted"};
    }
    return {true, "all defined"};
}

// A QP with an SRQ refuses receives of its own.
outcome recv_beside_srq(const address &addr) {
    qp_options use_srq;
    use_srq.use_srq = true;
    const rdmacm_loopback loop(addr, {}, use_srq);
    ibv_sge sge = loop.responder.make_sge(8);
    ibv_recv_wr request{1, nullptr, &sge, 1}, *bad = nullptr;
    const int error = ibv_post_recv(loop.responder.qp(), &request, &bad);
    return refusal(error, bad == &request);
}

// Unknown opcodes, and those that iWARP lacks.
outcome refused_opcodes(const address &addr, std::initializer_list<int> opcodes) {
    const rdmacm_loopback loop(addr);
    ibv_sge sge = loop.requester.make_sge(8);
    for (const int opcode : opcodes) {
        ibv_send_wr odd =
            loop.requester.request(1, static_cast<ibv_wr_opcode>(opcode), sge, loop.responder);
        bool named = false;
        const int error = loop.requester.post(odd, &named);
        const outcome is = refusal(error, named);
        if (!is.right)
            return {false, text("opcode ", opcode, ": ", is.seen)};
    }
    const bool works = goes_on(loop);
    return {works, works ? "all refused" : "refused, then stuck"};
}
outcome unknown_opcodes(const address &addr) {
    return refused_opcodes(addr, {14, 15, 100, 255, 1 << 30, -1});
}
outcome unsupported_opcodes(const address &addr) {
    return refused_opcodes(addr, {IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND_WITH_IMM,
                                  IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD,
                                  IBV_WR_BIND_MW, IBV_WR_TSO, IBV_WR_DRIVER1});
}

outcome srq_query(const address &addr) {
    qp_options use_srq;
    use_srq.use_srq = true;
    const rdmacm_loopback loop(addr, {}, use_srq);
    ibv_srq_attr is{};
    if (const int error = ibv_query_srq(loop.responder.srq.get(), &is))
        return {false, std::strerror(error > 0 ? error : errno)};
    return {is.max_wr >= 8 && is.max_sge >= 2, text("room for ", is.max_wr)};
}

// The ibv_wr_* and ibv_start_poll APIs.
outcome extended(const address &addr) {
    qp_options cq_ex;
    cq_ex.extended = true;
    std::optional<rdmacm_loopback> made;
    try {
        made.emplace(addr, cq_ex);
    } catch (const failure &error) {
        return {false, error.what()};
    }
    endpoint &requester = made->requester, &responder = made->responder;
    ibv_qp_ex *const qp = ibv_qp_to_qp_ex(requester.qp());
    if (qp == nullptr)
        return {false, "no functions to post by ibv_wr_*"};
    responder.post_recv(1);
    std::fill_n(responder.memory.begin() + 4096, 8, std::byte{6});
    std::array<char, 6> words{'i', 'n', 'l', 'i', 'n', 'e'};
    const auto remote = reinterpret_cast<std::uintptr_t>(responder.memory.data());
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    qp->wr_id = 1;
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, words.data(), words.size());
    ibv_wr_abort(qp); // never sent
    ibv_wr_start(qp);
    qp->wr_id = 2;
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, words.data(), words.size());
    qp->wr_id = 3;
    ibv_wr_rdma_read(qp, responder.mr->rkey, remote + 4096);
    ibv_wr_set_sge(qp, requester.mr->lkey, reinterpret_cast<std::uintptr_t>(&requester.memory[512]),
                   8);
    qp->wr_id = 4;
    ibv_wr_rdma_write(qp, responder.mr->rkey, remote + 2048);
    std::array<ibv_sge, 2> sges{requester.make_sge(8), requester.make_sge(8)};
    ibv_wr_set_sge_list(qp, sges.size(), sges.data());
    check(ibv_wr_complete(qp), "post by ibv_wr_*");
    const ibv_wc got = responder.received.expect_success("the receive");
    if (got.byte_len != words.size() || std::memcmp(responder.memory.data(), words.data(), 6) != 0)
        return {false, "other data than posted"};
    auto *const cq = reinterpret_cast<ibv_cq_ex *>(requester.sent.cq.get());
    constexpr std::array<ibv_wc_opcode, 3> opcodes{IBV_WC_SEND, IBV_WC_RDMA_READ,
                                                   IBV_WC_RDMA_WRITE};
    const auto until = std::chrono::steady_clock::now() + limit();
    for (std::uint64_t number = 2; number <= 4;) {
        ibv_poll_cq_attr parameters_{};
        const int error = ibv_start_poll(cq, &parameters_);
        if (error == ENOENT && std::chrono::steady_clock::now() < until)
            continue;
        if (error != 0)
            return {false, text("error ", error, " for number ", number)};
        do {
            if (cq->wr_id != number || cq->status != IBV_WC_SUCCESS ||
                ibv_wc_read_opcode(cq) != opcodes.at(number - 2) ||
                ibv_wc_read_qp_num(cq) != requester.qp()->qp_num) {
                const outcome is{false, text("number ", cq->wr_id, " for number ", number)};
                ibv_end_poll(cq);
                return is;
            }
            ++number;
        } while (ibv_next_poll(cq) == 0 && number <= 4);
        ibv_end_poll(cq);
    }
    const bool read = requester.memory[519] == std::byte{6};
    return {read, read ? "sent, read and written" : "not read"};
}

// A WR posted behind an RDMA Read completes behind it.
outcome write_behind_read(const address &addr) {
    const rdmacm_loopback loop(addr);
    const endpoint &requester = loop.requester;
    constexpr std::uint64_t rounds = 100;
    for (std::uint64_t number = 0; number < 2 * rounds; number += 2) {
        ibv_sge some = requester.make_sge(4096), few = requester.make_sge(8, 4096);
        ibv_send_wr read = requester.request(number, IBV_WR_RDMA_READ, some, loop.responder);
        ibv_send_wr write = requester.request(number + 1, IBV_WR_RDMA_WRITE, few, loop.responder);
        read.next = &write;
        check(requester.post(read), "post a read and a write");
        for (const std::uint64_t options : {number, number + 1}) {
            const ibv_wc is = requester.sent.expect_success("a request");
            if (is.wr_id != options)
                return {false, text("number ", is.wr_id, " before number ", options)};
        }
    }
    return {true, text(rounds, " writes behind reads")};
}

// A list with a bad request: those before it are sent, it is named, none after it is sent.
outcome bad_send_wr(const address &addr) {
    const rdmacm_loopback loop(addr);
    const endpoint &requester = loop.requester;
    for (std::uint64_t number = 1; number <= 3; ++number)
        loop.responder.post_recv(number);
    std::array<ibv_sge, 64> many{};
    many.fill(requester.make_sge(8));
    std::array<ibv_send_wr, 3> list;
    for (std::uint64_t number = 1; number <= 3; ++number)
        list.at(number - 1) = requester.request(number, IBV_WR_SEND, many[0], loop.responder);
    list[0].next = &list[1];
    list[1].next = &list[2];
    list[1].num_sge = static_cast<int>(many.size());
    ibv_send_wr *bad = nullptr;
    const int error = ibv_post_send(requester.qp(), &list[0], &bad);
    if (error != EINVAL || bad != &list[1])
        return refusal(error, bad == &list[1]);
    const auto first = requester.sent.completion(limit());
    const auto second = requester.sent.completion(milliseconds(100));
    return {first && first->wr_id == 1 && first->status == IBV_WC_SUCCESS && !second &&
                goes_on(loop),
            text("the first: ", seen_of(first), second ? ", and another one" : "")};
}

// A list that is longer than the queue: the first that has no room is named, those before it go.
outcome send_queue_full(const address &addr) {
    const rdmacm_loopback loop(addr);
    ibv_sge sge = loop.requester.make_sge(8);
    std::array<ibv_send_wr, 1000> list;
    for (std::uint64_t number = 0; number < list.size(); ++number) {
        list.at(number) = loop.requester.request(number, IBV_WR_RDMA_WRITE, sge, loop.responder);
        list.at(number).next = number + 1 < list.size() ? &list.at(number + 1) : nullptr;
    }
    ibv_send_wr *bad = nullptr;
    const int error = ibv_post_send(loop.requester.qp(), list.data(), &bad);
    if (error != ENOMEM || bad == nullptr)
        return refusal(error, bad != nullptr, ENOMEM);
    const auto count = static_cast<std::uint64_t>(bad - list.data());
    for (std::uint64_t number = 0; number < count; ++number)
        if (const ibv_wc got = loop.requester.sent.expect_success("a write"); got.wr_id != number)
            return {false, text("number ", got.wr_id, " for number ", number)};
    const bool more = loop.requester.sent.completion(milliseconds(50)).has_value();
    return {count >= endpoint::asked.max_send_wr && !more && goes_on(loop),
            text(count, " accepted")};
}

outcome inline_too_long(const address &addr) {
    const rdmacm_loopback loop(addr);
    // More than granted, and more than siw has room for; the second list is 8 bytes long in
    // 32-bit arithmetic.
    const std::uint32_t most = std::max(loop.requester.granted.max_inline_data, 80U);
    const std::array<std::array<std::uint32_t, 2>, 3> lengths{
        {{most, 1},
         {std::numeric_limits<std::uint32_t>::max() - 7, 16},
         {most / 2 + 1, most / 2 + 1}}};
    for (const auto &each : lengths) {
        std::array<ibv_sge, 2> sges{loop.requester.make_sge(each[0]),
                                    loop.requester.make_sge(each[1])};
        ibv_send_wr write = loop.requester.request(1, IBV_WR_RDMA_WRITE, sges[0], loop.responder);
        write.num_sge = 2;
        write.send_flags |= IBV_SEND_INLINE;
        bool named = false;
        const int error = loop.requester.post(write, &named);
        const outcome is = refusal(error, named);
        if (!is.right)
            return {false, text(each[0], " and ", each[1], " bytes: ", is.seen)};
    }
    return {goes_on(loop), "all refused"};
}

// The kernel is called once for a list, and not at all if there is nothing new for it.
outcome doorbells_for_lists(const address &addr) {
    const rdmacm_loopback loop(addr);
    const endpoint &requester = loop.requester;
    ibv_sge sge = requester.make_sge(8);
    std::array<ibv_send_wr, 8> list;
    for (std::uint64_t number = 0; number < list.size(); ++number) {
        list.at(number) = requester.request(number, IBV_WR_RDMA_WRITE, sge, loop.responder);
        list.at(number).next = number + 1 < list.size() ? &list.at(number + 1) : nullptr;
    }
    const unsigned before = doorbells();
    check(requester.post(list[0]), "post a list");
    const unsigned good = doorbells() - before;
    for (std::size_t count = 0; count < list.size(); ++count)
        requester.sent.expect_success("a write");
    list[0].opcode = IBV_WR_TSO;
    const int error = requester.post(list[0]);
    const unsigned vain = doorbells() - before - good;
    return {error != 0 && good == 1 && vain == 0,
            text(good, " for a list, ", vain, " for one that begins with a bad request")};
}

// While one thread is in the kernel for a queue, others can post to it.
outcome post_during_doorbell(const address &addr) {
    const rdmacm_loopback loop(addr);
    const auto post = [&loop] {
        ibv_sge sge = loop.requester.make_sge(8);
        ibv_send_wr write = loop.requester.request(1, IBV_WR_RDMA_WRITE, sge, loop.responder);
        check(loop.requester.post(write), "post a write");
    };
    const bool free = can_post_during_doorbell(post, post);
    loop.requester.sent.expect_success("the first");
    loop.requester.sent.expect_success("the second");
    return {free, free ? "another thread could post" : "another thread had to wait"};
}

// Without a flag a request is reported if its pair says that all are, else it is not.
outcome signaling(const address &addr) {
    for (const bool all : {false, true}) {
        qp_options options;
        options.sq_sig_all = all;
        const rdmacm_loopback loop(addr, options);
        ibv_sge sge = loop.requester.make_sge(8);
        ibv_send_wr write = loop.requester.request(1, IBV_WR_RDMA_WRITE, sge, loop.responder);
        write.send_flags = 0;
        check(loop.requester.post(write), "post a write");
        const bool reported =
            loop.requester.sent.completion(all ? limit() : milliseconds(200)).has_value();
        if (reported != all || !goes_on(loop))
            return {false, text(all ? "all: " : "some: ", reported ? "reported" : "not reported")};
    }
    return {true, "as asked for"};
}

constexpr std::array trials{
    trial<address>{"invalidated-key", invalidated_key},
    trial<address>{"read-with-two-sges", read_with_two_sges},
    trial<address>{"send-after-disconnect", send_after_disconnect},
    trial<address>{"send-after-peer-disconnect", send_after_peer_disconnect},
    trial<address>{"recv-after-disconnect", recv_after_disconnect},
    trial<address>{"recv-after-peer-disconnect", recv_after_peer_disconnect},
    trial<address>{"send-in-error", send_in_error},
    trial<address>{"recv-in-error", recv_in_error},
    trial<address>{"flush-found-after-arming", flush_found_after_arming},
    trial<address>{"flush-wakes-waiter", flush_wakes_waiter},
    trial<address>{"flush-wakes-waiter-of-peer-disconnect", flush_wakes_waiter_of_peer_disconnect},
    trial<address>{"flush-of-full-queue", flush_of_full_queue},
    trial<address>{"no-flush-after-destroy", no_flush_after_destroy},
    trial<address>{"send-before-connect", send_before_connect},
    trial<address>{"solicited", solicited},
    trial<address>{"fenced-read", fenced_read},
    trial<address>{"inline-with-key", inline_with_key},
    trial<address>{"read-too-many", read_too_many},
    trial<address>{"mr-with-iova", mr_with_iova},
    trial<address>{"recv-without-sge", recv_without_sge},
    trial<address>{"bad-recv-wr", bad_recv_wr},
    trial<address>{"recv-queue-full", recv_queue_full},
    trial<address>{"wc-fully-defined", wc_fully_defined},
    trial<address>{"recv-beside-srq", recv_beside_srq},
    trial<address>{"unknown-opcodes", unknown_opcodes},
    trial<address>{"unsupported-opcodes", unsupported_opcodes},
    trial<address>{"srq-query", srq_query},
    trial<address>{"extended-api", extended},
    trial<address>{"write-behind-read", write_behind_read},
    trial<address>{"bad-send-wr", bad_send_wr},
    trial<address>{"send-queue-full", send_queue_full},
    trial<address>{"inline-too-long", inline_too_long},
    trial<address>{"doorbells", doorbells_for_lists},
    trial<address>{"post-during-doorbell", post_during_doorbell},
    trial<address>{"signaling", signaling},
};

} // namespace

int main(int argc, char **argv) {
    return run_program(argc, argv, "upstream_bugs_siw ADDRESS", trials,
                       [](auto words) { return address(words[1]); });
}
