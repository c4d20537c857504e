// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Faults of a provider for siw, each tried: prints "right" or "wrong" for each, and what it saw.
//
// faults_siw ADDRESS [FAULT...]

#include "conversation.hpp"
#include "writes.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

namespace {

using namespace carry;
using address = std::string;

// A request is refused: with that error, a positive number as of all verbs, and named.
outcome refusal(int error, bool named, int wanted = EINVAL) {
    return {error == wanted && named, text(error == 0 ? "accepted" : text("error ", error),
                                           named ? ", named" : ", not named")};
}

// After a request that was refused, the queue goes on: a write arrives.
bool goes_on(const conversation &talk) {
    const end &from = talk.from;
    ibv_sge piece = from.piece(8);
    ibv_send_wr write = from.request(77, IBV_WR_RDMA_WRITE, piece, talk.to);
    if (from.post(write) != 0)
        return false;
    const auto done = from.sent.completion(milliseconds(1000));
    return done && done->wr_id == 77 && done->status == IBV_WC_SUCCESS;
}

std::string seen_of(const std::optional<ibv_wc> &done) {
    return done ? ibv_wc_status_str(done->status) : "no completion";
}

// A request that this device may lack is refused, or works; in both cases the queue goes on. If it
// fails, the connection is over, and all that is posted later is flushed.
outcome works_or_refused(const conversation &talk, ibv_send_wr &odd) {
    bool named = false;
    const int error = talk.from.post(odd, &named);
    const bool well = error == 0 || (error > 0 && named);
    std::string seen = error != 0 ? refusal(error, named).seen : "";
    bool over = false;
    if (error == 0) {
        const auto done = talk.from.sent.completion(milliseconds(1000));
        seen = seen_of(done);
        over = done && done->status != IBV_WC_SUCCESS;
        if (!done)
            return {false, seen};
    }
    if (over)
        return {true, seen};
    const bool on = goes_on(talk);
    return {well && on, seen + (on ? ", goes on" : ", then stuck")};
}

// A message that invalidates a key: that of the message, and no other.
outcome invalidated_key(const address &where) {
    const conversation talk(where);
    const end &from = talk.from, &to = talk.to;
    alignas(64) std::array<std::byte, 64> doomed{}, kept{};
    const auto dies = to.registered(doomed.data(), doomed.size());
    const auto lives = to.registered(kept.data(), kept.size());
    to.post_receive(1);
    ibv_sge piece = from.piece(8);
    ibv_send_wr send = from.request(1, IBV_WR_SEND_WITH_INV, piece, to);
    send.invalidate_rkey = dies->rkey;
    send.wr.rdma.rkey = lives->rkey; // means nothing here
    check(from.post(send), "post the message");
    from.sent.success("the message");
    to.received.success("the receive");
    const auto readable = [&](const owned<ibv_mr, ibv_dereg_mr> &of) {
        ibv_send_wr read = from.request(2, IBV_WR_RDMA_READ, piece, to);
        read.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(of->addr);
        read.wr.rdma.rkey = of->rkey;
        check(from.post(read), "post a read");
        const auto done = from.sent.completion(milliseconds(1000));
        return done && done->status == IBV_WC_SUCCESS;
    };
    const bool other = readable(lives), meant = readable(dies);
    return {other && !meant, text("the key meant is ", meant ? "valid" : "invalid",
                                  ", the other is ", other ? "valid" : "invalid")};
}

// A read into two pieces of memory is refused, or both are filled.
outcome read_in_pieces(const address &where) {
    conversation talk(where);
    const end &from = talk.from;
    std::fill(talk.to.memory.begin(), talk.to.memory.begin() + 16, std::byte{7});
    std::array<ibv_sge, 2> pieces{from.piece(8, 1000), from.piece(8, 2000)};
    ibv_send_wr read = from.request(1, IBV_WR_RDMA_READ, pieces[0], talk.to);
    read.num_sge = 2;
    bool named = false;
    if (const int error = from.post(read, &named))
        return {refusal(error, named).right && goes_on(talk), refusal(error, named).seen};
    const auto done = from.sent.completion(milliseconds(1000));
    const bool all = from.memory[1007] == std::byte{7} && from.memory[2007] == std::byte{7};
    return {done && done->status == IBV_WC_SUCCESS && all,
            seen_of(done) + (all ? "" : ", not all the data")};
}

// All of those, flushed, in that order, and no more.
outcome flushed(const queue &from, const ibv_qp *of, const std::vector<std::uint64_t> &numbers) {
    for (const std::uint64_t number : numbers) {
        const auto got = from.completion(milliseconds(500));
        if (!got)
            return {false, text("number ", number, " never completes")};
        if (got->wr_id != number || got->status != IBV_WC_WR_FLUSH_ERR || got->qp_num != of->qp_num)
            return {false,
                    text("number ", got->wr_id, " of pair ", got->qp_num, " for number ", number,
                         " of pair ", of->qp_num, ": ", ibv_wc_status_str(got->status))};
    }
    const auto more = from.completion(milliseconds(50));
    return {!more, more ? text("then number ", more->wr_id, ", too") : "all flushed, in order"};
}

// How it came to the end: by who posts, by the other, or by the error state that who posts asks
// for.
enum class end_by { us, them, error };

void come_to_the_end(conversation &talk, end_by who) {
    if (who != end_by::error)
        return talk.hang_up(who == end_by::us ? talk.from : talk.to);
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_ERR;
    check(ibv_modify_qp(talk.from.qp(), &to, IBV_QP_STATE), "to ERR");
}

// A message after the end; its error, if it is refused, which it may not be.
std::string late_send(const conversation &talk, std::uint64_t number, std::uint64_t last) {
    ibv_sge piece = talk.from.piece(8);
    std::vector<ibv_send_wr> list;
    for (; number <= last; ++number)
        list.push_back(talk.from.request(number, IBV_WR_SEND, piece, talk.to));
    for (std::size_t each = 0; each + 1 < list.size(); ++each)
        list.at(each).next = &list.at(each + 1);
    list.front().send_flags = 0; // even so
    bool named = false;
    const int error = talk.from.post(list.front(), &named);
    return error == 0 ? "" : refusal(error, named).seen;
}

// With nothing else outstanding, only the pair's state says that it has ended.
void needs_state(const conversation &talk) {
    ibv_qp_attr is{};
    ibv_qp_init_attr was{};
    check(ibv_query_qp(talk.from.qp(), &is, IBV_QP_STATE, &was), "query the pair");
    if (is.qp_state != IBV_QPS_RTS)
        throw failure("this kernel does not tell the state of a pair");
}

outcome sends_after(const address &where, end_by who) {
    conversation talk(where);
    come_to_the_end(talk, who);
    for (const auto &[first, last] : {std::pair{1U, 1U}, std::pair{2U, 3U}})
        if (const std::string refused = late_send(talk, first, last); !refused.empty())
            return {false, refused};
    return flushed(talk.from.sent, talk.from.qp(), {1, 2, 3});
}
outcome late_sends(const address &where) {
    return sends_after(where, end_by::us);
}
outcome late_sends_to_who_left(const address &where) {
    needs_state(conversation(where));
    return sends_after(where, end_by::them);
}
outcome late_sends_in_error(const address &where) {
    return sends_after(where, end_by::error);
}

outcome receives_around(const address &where, end_by who) {
    conversation talk(where);
    talk.from.post_receive(1);
    talk.from.post_receive(2);
    come_to_the_end(talk, who);
    talk.from.post_receive(3);
    talk.from.post_receive(4);
    return flushed(talk.from.received, talk.from.qp(), {1, 2, 3, 4});
}
outcome late_receives(const address &where) {
    return receives_around(where, end_by::us);
}
outcome late_receives_from_who_left(const address &where) {
    return receives_around(where, end_by::them);
}
outcome late_receives_in_error(const address &where) {
    return receives_around(where, end_by::error);
}

// Who arms a queue and polls it once more before he sleeps has not missed what was posted before.
outcome late_and_armed(const address &where) {
    conversation talk(where);
    talk.hang_up(talk.from);
    if (const std::string refused = late_send(talk, 1, 1); !refused.empty())
        return {false, refused};
    talk.from.post_receive(2);
    for (const queue *each : {&talk.from.sent, &talk.from.received}) {
        each->arm(false);
        const bool found = each->completion(milliseconds(0)) || each->event(milliseconds(500));
        if (!found)
            return {false, each == &talk.from.sent ? "sends: not found" : "receives: not found"};
    }
    return {true, "found"};
}

// Who has armed a queue, found nothing and sleeps is woken by what another posts then.
outcome late_and_asleep(const address &where) {
    conversation talk(where);
    talk.hang_up(talk.from);
    for (const queue *each : {&talk.from.sent, &talk.from.received}) {
        each->arm(false);
        if (each->completion(milliseconds(0)) || each->event(milliseconds(10)))
            return {false, "awake too early"};
        if (each == &talk.from.received)
            talk.from.post_receive(2);
        else if (const std::string refused = late_send(talk, 1, 1); !refused.empty())
            return {false, refused};
        const char *what = each == &talk.from.sent ? "sends" : "receives";
        if (!each->event(milliseconds(500)))
            return {false, text(what, ": not woken")};
        if (!flushed(*each, talk.from.qp(), {each == &talk.from.sent ? 1U : 2U}).right)
            return {false, text(what, ": woken in vain")};
    }
    return {true, "woken"};
}

// The same if the pair was at rest when the peer left it.
outcome left_and_asleep(const address &where) {
    conversation talk(where);
    needs_state(talk);
    talk.hang_up(talk.to);
    talk.from.sent.arm(false);
    if (talk.from.sent.completion(milliseconds(0)) || talk.from.sent.event(milliseconds(10)))
        return {false, "awake too early"};
    if (const std::string refused = late_send(talk, 1, 1); !refused.empty())
        return {false, refused};
    if (!talk.from.sent.event(milliseconds(500)))
        return {false, "not woken"};
    return flushed(talk.from.sent, talk.from.qp(), {1});
}

// After the end a queue takes at least what it should, and whatever it takes completes.
outcome late_and_many(const address &where) {
    conversation talk(where);
    talk.hang_up(talk.from);
    std::vector<std::uint64_t> taken;
    ibv_sge piece = talk.from.piece(8);
    int error = 0;
    for (std::uint64_t number = 1; number <= 100 && error == 0; ++number) {
        ibv_send_wr send = talk.from.request(number, IBV_WR_SEND, piece, talk.to);
        error = talk.from.post(send);
        if (error == 0)
            taken.push_back(number);
    }
    if (error != 0 && error != ENOMEM)
        return {false, text("error ", error)};
    if (taken.size() < end::asked.max_send_wr)
        return {false, text("only ", taken.size(), " accepted")};
    return flushed(talk.from.sent, talk.from.qp(), taken);
}

// What a pair posted after the end is not reported once the pair is no more.
outcome late_and_gone(const address &where) {
    conversation talk(where);
    talk.hang_up(talk.from);
    if (const std::string refused = late_send(talk, 1, 1); !refused.empty())
        return {false, refused};
    talk.from.post_receive(2);
    rdma_destroy_qp(talk.from.id.get());
    const bool sent = talk.from.sent.completion(milliseconds(100)).has_value();
    const bool received = talk.from.received.completion(milliseconds(100)).has_value();
    return {!sent && !received, sent || received ? "reported" : "not reported"};
}

// A message before the connection is refused, named, and never sent.
outcome early_send(const address &where) {
    outcome is{false, "never posted"};
    wish early;
    early.early = [&is](const end &from) {
        ibv_sge piece = from.piece(8);
        ibv_send_wr send = from.request(42, IBV_WR_SEND, piece, from);
        bool named = false;
        const int error = from.post(send, &named);
        is = refusal(error, named);
    };
    try {
        const conversation talk(where, early);
        const bool on = goes_on(talk);
        const bool later = talk.from.sent.completion(milliseconds(50)).has_value();
        return {is.right && on && !later, is.seen + (on && !later ? ", not sent" : ", sent later")};
    } catch (const failure &error) {
        return {false, is.seen + ", then " + error.what()};
    }
}

// A message that asks for attention wakes who waits for such messages alone.
outcome solicited(const address &where) {
    const conversation talk(where);
    talk.to.post_receive(1);
    talk.to.received.arm(true);
    ibv_sge piece = talk.from.piece(8);
    ibv_send_wr send = talk.from.request(1, IBV_WR_SEND, piece, talk.to);
    send.send_flags |= IBV_SEND_SOLICITED;
    check(talk.from.post(send), "post the message");
    talk.from.sent.success("the message");
    const bool woken = talk.to.received.event(milliseconds(1000));
    talk.to.received.success("the receive");
    return {woken, woken ? "an event" : "no event"};
}

outcome fenced_read(const address &where) {
    const conversation talk(where);
    ibv_sge piece = talk.from.piece(8);
    ibv_send_wr read = talk.from.request(1, IBV_WR_RDMA_READ, piece, talk.to);
    read.send_flags |= IBV_SEND_FENCE;
    return works_or_refused(talk, read);
}
outcome inline_with_key(const address &where) {
    const conversation talk(where);
    std::array<std::byte, 64> doomed{};
    const auto dies = talk.to.registered(doomed.data(), doomed.size());
    talk.to.post_receive(1);
    ibv_sge piece = talk.from.piece(8);
    ibv_send_wr send = talk.from.request(1, IBV_WR_SEND_WITH_INV, piece, talk.to);
    send.send_flags |= IBV_SEND_INLINE;
    send.invalidate_rkey = dies->rkey;
    return works_or_refused(talk, send);
}
outcome read_too_many(const address &where) {
    wish none;
    none.reads = 0;
    const conversation talk(where, none, none);
    ibv_sge piece = talk.from.piece(8);
    ibv_send_wr read = talk.from.request(1, IBV_WR_RDMA_READ, piece, talk.to);
    return works_or_refused(talk, read);
}

// Memory that peers shall know by other addresses than ours: refused, or they can read it there.
outcome region_elsewhere(const address &where) {
    conversation talk(where);
    const end &from = talk.from;
    auto *const memory = talk.to.memory.data();
    memory[0] = std::byte{9};
    constexpr std::uint64_t elsewhere = 0x10000;
    const owned<ibv_mr, ibv_dereg_mr> region(
        ibv_reg_mr_iova(talk.to.pd.get(), memory, 4096, elsewhere,
                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
    if (!region)
        return {errno > 0, text("refused: ", std::strerror(errno))};
    ibv_sge piece = from.piece(8, 1000);
    ibv_send_wr read = from.request(1, IBV_WR_RDMA_READ, piece, talk.to);
    read.wr.rdma.remote_addr = elsewhere;
    read.wr.rdma.rkey = region->rkey;
    check(from.post(read), "post a read");
    const auto done = from.sent.completion(milliseconds(1000));
    const bool works = done && done->status == IBV_WC_SUCCESS && from.memory[1000] == std::byte{9};
    return {works, text("accepted, reading it: ", seen_of(done))};
}

// A receive for a message without data.
outcome empty_receive(const address &where) {
    const conversation talk(where);
    ibv_recv_wr request{3, nullptr, nullptr, 0}, *bad = nullptr;
    if (const int error = ibv_post_recv(talk.to.qp(), &request, &bad))
        return refusal(error, bad == &request);
    ibv_sge piece{};
    ibv_send_wr send = talk.from.request(1, IBV_WR_SEND, piece, talk.to);
    send.num_sge = 0;
    check(talk.from.post(send), "post a message without data");
    const ibv_wc got = talk.to.received.success("the receive");
    talk.from.sent.success("the message");
    return {got.wr_id == 3 && got.byte_len == 0, text(got.byte_len, " bytes")};
}

// A list of receives with a bad one: those before it are posted, it is named, none after it.
outcome bad_receive(const address &where) {
    const conversation talk(where);
    std::array<ibv_sge, 64> many{};
    many.fill(talk.to.piece(8));
    std::array<ibv_recv_wr, 3> list{};
    for (std::uint64_t number = 0; number < list.size(); ++number)
        list.at(number) = {number + 1, nullptr, many.data(), 1};
    list[0].next = &list[1];
    list[1].next = &list[2];
    list[1].num_sge = static_cast<int>(many.size());
    ibv_recv_wr *bad = nullptr;
    const int error = ibv_post_recv(talk.to.qp(), &list[0], &bad);
    if (error != EINVAL || bad != &list[1])
        return refusal(error, bad == &list[1]);
    talk.to.post_receive(4);
    for (const std::uint64_t number : {1U, 4U}) {
        ibv_sge piece = talk.from.piece(8);
        ibv_send_wr send = talk.from.request(number, IBV_WR_SEND, piece, talk.to);
        check(talk.from.post(send), "post a message");
        talk.from.sent.success("the message");
        const ibv_wc got = talk.to.received.success("the receive");
        if (got.wr_id != number)
            return {false, text("number ", got.wr_id, " and not ", number)};
    }
    return {true, "refused, named, the others as they should"};
}

// A receive queue that is full says so, of the first one that had no room.
outcome full_receives(const address &where) {
    const conversation talk(where);
    ibv_sge piece = talk.to.piece(8);
    for (std::uint32_t number = 0; number < 1000; ++number) {
        ibv_recv_wr request{number, nullptr, &piece, 1}, *bad = nullptr;
        if (const int error = ibv_post_recv(talk.to.qp(), &request, &bad)) {
            const outcome is = refusal(error, bad == &request, ENOMEM);
            return {is.right && number >= end::asked.max_recv_wr, text(is.seen, " after ", number)};
        }
    }
    return {false, "never full"};
}

// Whatever is in a completion's memory before: all of it is said, except what its flags deny.
outcome whole_completion(const address &where) {
    const conversation talk(where);
    talk.to.post_receive(1);
    ibv_sge piece = talk.from.piece(8);
    ibv_send_wr send = talk.from.request(1, IBV_WR_SEND, piece, talk.to);
    check(talk.from.post(send), "post the message");
    for (const queue *each : {&talk.from.sent, &talk.to.received}) {
        ibv_wc got;
        std::memset(&got, 0xa5, sizeof got);
        const auto until = std::chrono::steady_clock::now() + milliseconds(2000);
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

// A pair with a shared queue takes no receives of its own.
outcome receive_beside_shared(const address &where) {
    wish shared;
    shared.shared = true;
    const conversation talk(where, {}, shared);
    ibv_sge piece = talk.to.piece(8);
    ibv_recv_wr request{1, nullptr, &piece, 1}, *bad = nullptr;
    const int error = ibv_post_recv(talk.to.qp(), &request, &bad);
    return refusal(error, bad == &request);
}

// Opcodes that nobody knows, and those that iWARP lacks.
outcome refused_opcodes(const address &where, std::initializer_list<int> opcodes) {
    const conversation talk(where);
    ibv_sge piece = talk.from.piece(8);
    for (const int opcode : opcodes) {
        ibv_send_wr odd = talk.from.request(1, static_cast<ibv_wr_opcode>(opcode), piece, talk.to);
        bool named = false;
        const int error = talk.from.post(odd, &named);
        const outcome is = refusal(error, named);
        if (!is.right)
            return {false, text("opcode ", opcode, ": ", is.seen)};
    }
    const bool on = goes_on(talk);
    return {on, on ? "all refused" : "refused, then stuck"};
}
outcome opcodes_unknown(const address &where) {
    return refused_opcodes(where, {14, 15, 100, 255, 1 << 30, -1});
}
outcome opcodes_lacking(const address &where) {
    return refused_opcodes(where, {IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND_WITH_IMM,
                                   IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD,
                                   IBV_WR_BIND_MW, IBV_WR_TSO, IBV_WR_DRIVER1});
}

outcome shared_queried(const address &where) {
    wish shared;
    shared.shared = true;
    const conversation talk(where, {}, shared);
    ibv_srq_attr is{};
    if (const int error = ibv_query_srq(talk.to.srq.get(), &is))
        return {false, std::strerror(error > 0 ? error : errno)};
    return {is.max_wr >= 8 && is.max_sge >= 2, text("room for ", is.max_wr)};
}

// Both ways of verbs' second generation: requests and completions by parts.
outcome by_parts(const address &where) {
    wish parts;
    parts.by_parts = true;
    std::optional<conversation> made;
    try {
        made.emplace(where, parts);
    } catch (const failure &error) {
        return {false, error.what()};
    }
    end &from = made->from, &to = made->to;
    ibv_qp_ex *const qp = ibv_qp_to_qp_ex(from.qp());
    if (qp == nullptr)
        return {false, "no functions to post by parts"};
    to.post_receive(1);
    std::fill_n(to.memory.begin() + 4096, 8, std::byte{6});
    std::array<char, 6> words{'i', 'n', 'l', 'i', 'n', 'e'};
    const auto remote = reinterpret_cast<std::uintptr_t>(to.memory.data());
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
    ibv_wr_rdma_read(qp, to.mr->rkey, remote + 4096);
    ibv_wr_set_sge(qp, from.mr->lkey, reinterpret_cast<std::uintptr_t>(&from.memory[512]), 8);
    qp->wr_id = 4;
    ibv_wr_rdma_write(qp, to.mr->rkey, remote + 2048);
    std::array<ibv_sge, 2> pieces{from.piece(8), from.piece(8)};
    ibv_wr_set_sge_list(qp, pieces.size(), pieces.data());
    check(ibv_wr_complete(qp), "post by parts");
    const ibv_wc got = to.received.success("the receive");
    if (got.byte_len != words.size() || std::memcmp(to.memory.data(), words.data(), 6) != 0)
        return {false, "other data than posted"};
    auto *const cq = reinterpret_cast<ibv_cq_ex *>(from.sent.cq.get());
    constexpr std::array<ibv_wc_opcode, 3> opcodes{IBV_WC_SEND, IBV_WC_RDMA_READ,
                                                   IBV_WC_RDMA_WRITE};
    const auto until = std::chrono::steady_clock::now() + milliseconds(2000);
    for (std::uint64_t number = 2; number <= 4;) {
        ibv_poll_cq_attr how{};
        const int error = ibv_start_poll(cq, &how);
        if (error == ENOENT && std::chrono::steady_clock::now() < until)
            continue;
        if (error != 0)
            return {false, text("error ", error, " for number ", number)};
        do {
            if (cq->wr_id != number || cq->status != IBV_WC_SUCCESS ||
                ibv_wc_read_opcode(cq) != opcodes.at(number - 2) ||
                ibv_wc_read_qp_num(cq) != from.qp()->qp_num) {
                const outcome is{false, text("number ", cq->wr_id, " for number ", number)};
                ibv_end_poll(cq);
                return is;
            }
            ++number;
        } while (ibv_next_poll(cq) == 0 && number <= 4);
        ibv_end_poll(cq);
    }
    const bool read = from.memory[519] == std::byte{6};
    return {read, read ? "sent, read and written" : "not read"};
}

// Whatever is posted behind a read completes behind it.
outcome in_order(const address &where) {
    const conversation talk(where);
    const end &from = talk.from;
    constexpr std::uint64_t rounds = 100;
    for (std::uint64_t number = 0; number < 2 * rounds; number += 2) {
        ibv_sge some = from.piece(4096), few = from.piece(8, 4096);
        ibv_send_wr read = from.request(number, IBV_WR_RDMA_READ, some, talk.to);
        ibv_send_wr write = from.request(number + 1, IBV_WR_RDMA_WRITE, few, talk.to);
        read.next = &write;
        check(from.post(read), "post a read and a write");
        for (const std::uint64_t wanted : {number, number + 1}) {
            const ibv_wc is = from.sent.success("a request");
            if (is.wr_id != wanted)
                return {false, text("number ", is.wr_id, " before number ", wanted)};
        }
    }
    return {true, text(rounds, " writes behind reads")};
}

// A list with a bad request: those before it are sent, it is named, none after it is sent.
outcome bad_request(const address &where) {
    const conversation talk(where);
    const end &from = talk.from;
    for (std::uint64_t number = 1; number <= 3; ++number)
        talk.to.post_receive(number);
    std::array<ibv_sge, 64> many{};
    many.fill(from.piece(8));
    std::array<ibv_send_wr, 3> list;
    for (std::uint64_t number = 1; number <= 3; ++number)
        list.at(number - 1) = from.request(number, IBV_WR_SEND, many[0], talk.to);
    list[0].next = &list[1];
    list[1].next = &list[2];
    list[1].num_sge = static_cast<int>(many.size());
    ibv_send_wr *bad = nullptr;
    const int error = ibv_post_send(from.qp(), &list[0], &bad);
    if (error != EINVAL || bad != &list[1])
        return refusal(error, bad == &list[1]);
    const auto first = from.sent.completion(milliseconds(1000));
    const auto second = from.sent.completion(milliseconds(100));
    return {first && first->wr_id == 1 && first->status == IBV_WC_SUCCESS && !second &&
                goes_on(talk),
            text("the first: ", seen_of(first), second ? ", and another one" : "")};
}

// A list that is longer than the queue: the first that has no room is named, those before it go.
outcome full_sends(const address &where) {
    const conversation talk(where);
    ibv_sge piece = talk.from.piece(8);
    std::array<ibv_send_wr, 1000> list;
    for (std::uint64_t number = 0; number < list.size(); ++number) {
        list.at(number) = talk.from.request(number, IBV_WR_RDMA_WRITE, piece, talk.to);
        list.at(number).next = number + 1 < list.size() ? &list.at(number + 1) : nullptr;
    }
    ibv_send_wr *bad = nullptr;
    const int error = ibv_post_send(talk.from.qp(), list.data(), &bad);
    if (error != ENOMEM || bad == nullptr)
        return refusal(error, bad != nullptr, ENOMEM);
    const auto count = static_cast<std::uint64_t>(bad - list.data());
    for (std::uint64_t number = 0; number < count; ++number)
        if (const ibv_wc got = talk.from.sent.success("a write"); got.wr_id != number)
            return {false, text("number ", got.wr_id, " for number ", number)};
    const bool more = talk.from.sent.completion(milliseconds(50)).has_value();
    return {count >= end::asked.max_send_wr && !more && goes_on(talk), text(count, " accepted")};
}

outcome inline_too_long(const address &where) {
    const conversation talk(where);
    // More than granted, and more than siw has room for; the second list is 8 bytes long to who
    // counts with 32 bits.
    const std::uint32_t most = std::max(talk.from.granted.max_inline_data, 80U);
    const std::array<std::array<std::uint32_t, 2>, 3> lengths{
        {{most, 1},
         {std::numeric_limits<std::uint32_t>::max() - 7, 16},
         {most / 2 + 1, most / 2 + 1}}};
    for (const auto &each : lengths) {
        std::array<ibv_sge, 2> pieces{talk.from.piece(each[0]), talk.from.piece(each[1])};
        ibv_send_wr write = talk.from.request(1, IBV_WR_RDMA_WRITE, pieces[0], talk.to);
        write.num_sge = 2;
        write.send_flags |= IBV_SEND_INLINE;
        bool named = false;
        const int error = talk.from.post(write, &named);
        const outcome is = refusal(error, named);
        if (!is.right)
            return {false, text(each[0], " and ", each[1], " bytes: ", is.seen)};
    }
    return {goes_on(talk), "all refused"};
}

// The kernel is called once for a list, and not at all if there is nothing new for it.
outcome doorbells_for_lists(const address &where) {
    const conversation talk(where);
    const end &from = talk.from;
    ibv_sge piece = from.piece(8);
    std::array<ibv_send_wr, 8> list;
    for (std::uint64_t number = 0; number < list.size(); ++number) {
        list.at(number) = from.request(number, IBV_WR_RDMA_WRITE, piece, talk.to);
        list.at(number).next = number + 1 < list.size() ? &list.at(number + 1) : nullptr;
    }
    const unsigned before = doorbells();
    check(from.post(list[0]), "post a list");
    const unsigned good = doorbells() - before;
    for (std::size_t count = 0; count < list.size(); ++count)
        from.sent.success("a write");
    list[0].opcode = IBV_WR_TSO;
    const int error = from.post(list[0]);
    const unsigned vain = doorbells() - before - good;
    return {error != 0 && good == 1 && vain == 0,
            text(good, " for a list, ", vain, " for one that begins with a bad request")};
}

// While one thread is in the kernel for a queue, others can post to it.
outcome held_over_doorbell(const address &where) {
    const conversation talk(where);
    const auto post = [&talk] {
        ibv_sge piece = talk.from.piece(8);
        ibv_send_wr write = talk.from.request(1, IBV_WR_RDMA_WRITE, piece, talk.to);
        check(talk.from.post(write), "post a write");
    };
    const bool free = can_post_amid(post, post);
    talk.from.sent.success("the first");
    talk.from.sent.success("the second");
    return {free, free ? "another thread could post" : "another thread had to wait"};
}

// Without a flag a request is reported if its pair says that all are, else it is not.
outcome signals(const address &where) {
    for (const bool all : {false, true}) {
        wish wanted;
        wanted.all_signaled = all;
        const conversation talk(where, wanted);
        ibv_sge piece = talk.from.piece(8);
        ibv_send_wr write = talk.from.request(1, IBV_WR_RDMA_WRITE, piece, talk.to);
        write.send_flags = 0;
        check(talk.from.post(write), "post a write");
        const bool reported = talk.from.sent.completion(milliseconds(200)).has_value();
        if (reported != all || !goes_on(talk))
            return {false, text(all ? "all: " : "some: ", reported ? "reported" : "not reported")};
    }
    return {true, "as asked for"};
}

constexpr std::array faults{
    fault<address>{"invalidated-key", invalidated_key},
    fault<address>{"read-in-pieces", read_in_pieces},
    fault<address>{"late-sends", late_sends},
    fault<address>{"late-sends-to-who-left", late_sends_to_who_left},
    fault<address>{"late-receives", late_receives},
    fault<address>{"late-receives-from-who-left", late_receives_from_who_left},
    fault<address>{"late-sends-in-error", late_sends_in_error},
    fault<address>{"late-receives-in-error", late_receives_in_error},
    fault<address>{"late-and-armed", late_and_armed},
    fault<address>{"late-and-asleep", late_and_asleep},
    fault<address>{"left-and-asleep", left_and_asleep},
    fault<address>{"late-and-many", late_and_many},
    fault<address>{"late-and-gone", late_and_gone},
    fault<address>{"early-send", early_send},
    fault<address>{"solicited", solicited},
    fault<address>{"fenced-read", fenced_read},
    fault<address>{"inline-with-key", inline_with_key},
    fault<address>{"read-too-many", read_too_many},
    fault<address>{"region-elsewhere", region_elsewhere},
    fault<address>{"empty-receive", empty_receive},
    fault<address>{"bad-receive", bad_receive},
    fault<address>{"full-receives", full_receives},
    fault<address>{"whole-completion", whole_completion},
    fault<address>{"receive-beside-shared", receive_beside_shared},
    fault<address>{"opcodes-unknown", opcodes_unknown},
    fault<address>{"opcodes-lacking", opcodes_lacking},
    fault<address>{"shared-queried", shared_queried},
    fault<address>{"by-parts", by_parts},
    fault<address>{"in-order", in_order},
    fault<address>{"bad-request", bad_request},
    fault<address>{"full-sends", full_sends},
    fault<address>{"inline-too-long", inline_too_long},
    fault<address>{"doorbells", doorbells_for_lists},
    fault<address>{"held-over-doorbell", held_over_doorbell},
    fault<address>{"signals", signals},
};

} // namespace

int main(int count, char **words) try {
    if (count < 2)
        throw failure("faults_siw ADDRESS [FAULT...]");
    const std::span<char *const> names(words + 2, static_cast<std::size_t>(count - 2));
    return try_each(std::span<const fault<address>>(faults), names,
                    [where = address(words[1])] { return where; });
} catch (const std::exception &error) {
    std::fprintf(stderr, "faults_siw: %s\n", error.what());
    return 1;
}
