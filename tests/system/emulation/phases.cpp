// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Each round has other data, and the program's own where a peer is to write, so that neither what
// was there before nor what comes by a later sync is ever right.

#include "phases.hpp"

#include <arpa/inet.h>

namespace synced {
namespace {

// Odd sizes: the last line is there in part.
constexpr std::size_t WRITTEN = 1307, READ = 1101, WORD = 8;
constexpr std::size_t READ_AT = 6 * LINE, LENGTH = talk::OWN;
constexpr std::size_t PIECES = 4; // of what is moved by requests that do not complete

unsigned access_to(const process &in) noexcept {
    const unsigned all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    return in.iwarp ? all : all | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
}

std::byte pattern(std::size_t at, unsigned step) noexcept {
    return static_cast<std::byte>(at * 7 + (at >> 8) * 13 + step * 53); // another in each step
}

void fill(bytes where, unsigned step) {
    for (std::size_t at = 0; at < where.size(); ++at)
        where[at] = pattern(at, step);
}

// A step has two more patterns: of what is written over, and of where something is read to.
constexpr unsigned TOUCHED = 1, EMPTIED = 2;

std::uint64_t number(std::span<const std::byte> word) {
    std::uint64_t is;
    std::memcpy(&is, word.data(), sizeof is);
    return is;
}

// What a word has before an atomic operation, and what that brings.
constexpr std::uint64_t start_of(unsigned step) noexcept {
    return 0x0123456789abcdef * step;
}
constexpr std::uint64_t change_of(unsigned step) noexcept {
    return 0x1f2e3d4c5b6a7989 + step;
}

} // namespace

run_of::run_of(process &in, const phase &what, talk &over, const std::string &name)
    : in_(in)
    , of_(what)
    , over_(over)
    , name_(name)
    , mine_(in.domain, LENGTH, access_to(in)) {
    say(text("region ", name_, ' ', mine_.part(0, 1).data(), ' ', mine_.length(), ' ',
             name_of(in.me)));
    if (is("window"))
        window_ = check(decltype(window_)(ibv_alloc_mw(in.domain, IBV_MW_TYPE_2)), "window");
}

bytes run_of::written() const {
    return mine_.part(0, WRITTEN);
}
bytes run_of::read() const {
    return mine_.part(READ_AT, READ);
}
bytes run_of::word() const {
    return mine_.part(LINE, WORD);
}

void run_of::all_rounds() {
    for (int round = 0; round < in_.rounds; ++round)
        for (const side each : {side::SERVER, side::CLIENT}) {
            const auto step = static_cast<unsigned>(round * 2 + static_cast<int>(each)) * 3 + 1;
            passive_ = each;
            if (of_.does == work::MESSAGES)
                messages(step);
            if (of_.does == work::ATOMIC)
                atomics(step);
            if (of_.does == work::WRITES || of_.does == work::BOTH)
                writes(step);
            if (of_.does == work::READS || of_.does == work::BOTH)
                reads(step);
        }
}

// -- steps. The passive side's memory is written or read; it begins and ends each.

void run_of::messages(unsigned step) {
    std::array<std::byte, talk::LONGEST> data;
    if (in_.me == passive_) {
        fill(data, step);
        over_.tell({}, data);
        over_.hear();
        expect(over_.heard(), step + TOUCHED, "the answer");
    } else {
        over_.hear();
        expect(over_.heard(), step, "the message");
        fill(data, step + TOUCHED);
        over_.tell({}, data);
    }
}

void run_of::writes(unsigned step) {
    if (in_.me != passive_) {
        write_to(offered(), step);
        hear_done();
        return;
    }
    fill(written(), step + TOUCHED);
    in_.sync(of_, kind::WRITE_BEFORE, written().data(), WRITTEN);
    offer(written(), mine_.key()->rkey);
    const note come = over_.hear();
    if (is("write-imm"))
        expect(come.immediate, step, "the immediate data");
    in_.sync(of_, kind::WRITE_AFTER, written().data(), WRITTEN);
    expect(written(), step, "what was written");
    close_window();
    say_done();
}

void run_of::reads(unsigned step) {
    if (in_.me != passive_) {
        read_from(offered(), step);
        say_done();
        return;
    }
    fill(read(), step);
    in_.sync(of_, kind::READ, read().data(), READ);
    offer(read(), mine_.key()->rkey);
    hear_done();
    close_window();
}

void run_of::atomics(unsigned step) {
    if (in_.me != passive_) {
        change(offered(), step);
        hear_done();
        return;
    }
    const std::uint64_t start = start_of(step);
    std::memcpy(word().data(), &start, WORD);
    in_.sync(of_, kind::READ, word().data(), WORD);
    offer(word(), mine_.key()->rkey);
    hear_done();
    in_.sync(of_, kind::WRITE_AFTER, word().data(), WORD);
    expect(number(word()), is("fetch-add") ? start_of(step) + change_of(step) : change_of(step),
           "the word");
    say_done();
}

// -- the active side

void run_of::write_to(place where, unsigned step) {
    const bytes data = over_.own(0, WRITTEN);
    fill(data, step);
    const std::size_t pieces = is("unsignalled") ? PIECES : 1;
    for (std::size_t each = 0; each < pieces; ++each) {
        const std::size_t from = WRITTEN * each / pieces, to = WRITTEN * (each + 1) / pieces;
        ibv_sge piece = over_.piece(data.subspan(from, to - from));
        ibv_send_wr request{};
        request.opcode = is("write-imm") ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
        request.imm_data = htonl(step);
        request.sg_list = &piece;
        request.num_sge = 1;
        request.wr.rdma.remote_addr = where.address + from;
        request.wr.rdma.rkey = where.key;
        if (is("unsignalled")) {
            over_.post(request); // the note that comes next completes it
        } else {
            request.send_flags = IBV_SEND_SIGNALED;
            over_.run(request);
        }
    }
    if (!is("write-imm"))
        say_done();
}

void run_of::read_from(place where, unsigned step) {
    const bytes data = over_.own(READ_AT, READ);
    fill(data, step + EMPTIED);
    const std::size_t pieces = is("unsignalled") ? PIECES : 1;
    for (std::size_t each = 0; each < pieces; ++each) {
        const std::size_t from = READ * each / pieces, to = READ * (each + 1) / pieces;
        const std::size_t half = (to - from) / 2;
        ibv_sge list[] = {over_.piece(data.subspan(from, half)),
                          over_.piece(data.subspan(from + half, to - from - half))};
        ibv_send_wr request{};
        request.opcode = IBV_WR_RDMA_READ;
        request.sg_list = list;
        request.num_sge = 2;
        if (in_.iwarp) { // which has one sink
            list[0].length += list[1].length;
            request.num_sge = 1;
        }
        request.wr.rdma.remote_addr = where.address + from;
        request.wr.rdma.rkey = where.key;
        if (each + 1 < pieces) {
            over_.post(request);
        } else {
            request.send_flags = IBV_SEND_SIGNALED;
            over_.run(request);
        }
    }
    expect(data, step, "what was read");
}

void run_of::change(place where, unsigned step) {
    const bytes before = over_.own(READ_AT, WORD);
    fill(before, step + EMPTIED);
    ibv_sge piece = over_.piece(before);
    ibv_send_wr request{};
    request.sg_list = &piece;
    request.num_sge = 1;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.atomic.remote_addr = where.address;
    request.wr.atomic.rkey = where.key;
    if (is("fetch-add")) {
        request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
        request.wr.atomic.compare_add = change_of(step);
    } else {
        request.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
        request.wr.atomic.compare_add = start_of(step);
        request.wr.atomic.swap = change_of(step);
    }
    over_.run(request);
    expect(number(before), start_of(step), "the word before");
    say_done();
}

// -- notes

void run_of::offer(bytes area, std::uint32_t key) {
    note what;
    what.address = reinterpret_cast<std::uintptr_t>(area.data());
    what.key = key;
    if (window_) {
        open_window(area);
        what.key = window_->rkey;
    }
    over_.tell(what);
}

run_of::place run_of::offered() {
    const note come = over_.hear();
    return {come.address, come.key};
}

void run_of::hear_done() {
    if (over_.hear().address != 0)
        throw failure("the steps are out of order");
}

void run_of::open_window(bytes area) {
    ibv_send_wr request{};
    request.opcode = IBV_WR_BIND_MW;
    request.send_flags = IBV_SEND_SIGNALED;
    request.bind_mw.mw = window_.get();
    request.bind_mw.rkey = ibv_inc_rkey(window_->rkey);
    request.bind_mw.bind_info = {const_cast<ibv_mr *>(mine_.key()),
                                 reinterpret_cast<std::uintptr_t>(area.data()), area.size(),
                                 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};
    over_.run(request);
    window_->rkey = request.bind_mw.rkey;
}

void run_of::close_window() {
    if (!window_)
        return;
    ibv_send_wr request{};
    request.opcode = IBV_WR_LOCAL_INV;
    request.send_flags = IBV_SEND_SIGNALED;
    request.invalidate_rkey = window_->rkey;
    over_.run(request);
}

// -- looking

void run_of::expect(std::span<const std::byte> what, unsigned step, const char *of) {
    for (std::size_t at = 0; at < what.size(); ++at)
        if (what[at] != pattern(at, step)) {
            tell_wrong(of, at, std::to_integer<unsigned>(what[at]),
                       std::to_integer<unsigned>(pattern(at, step)));
            return;
        }
}

void run_of::expect(std::uint64_t is, std::uint64_t wanted, const char *of) {
    if (is != wanted)
        tell_wrong(of, 0, is, wanted);
}

void run_of::tell_wrong(const char *of, std::size_t at, std::uint64_t is, std::uint64_t wanted) {
    in_.wrong = true;
    say(text("wrong: ", name_, ", ", name_of(in_.me), ": ", of, ", byte ", at, " is 0x", std::hex,
             is, ", not 0x", wanted, std::dec, "; the memory is the ", name_of(passive_), "'s"));
}

} // namespace synced
