// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datping/session.hpp"
#include "dat/words.hpp"
#include "datping/pattern.hpp"

#include <fmt/format.h>
#include <utility>

namespace tools::datping {
namespace {

constexpr std::chrono::seconds TO_CLOSE{3};

[[noreturn]] void nonsense(const std::string &what) {
    throw std::runtime_error("sent nonsense: " + what);
}

} // namespace

session::session(const dat::adapter &ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE transfers,
                 DAT_EVD_HANDLE connections, const hello &wanted, std::string address,
                 std::uint64_t number, std::chrono::milliseconds timeout)
    : link(ia, pz, transfers, connections, wanted.size, number)
    , verify(wanted.verify)
    , patience(timeout + std::chrono::milliseconds(wanted.silence_ms)) {
    client.address = std::move(address);
    client.size = wanted.size;
    link.receive();
    alive();
}

void session::alive() {
    until = clock::now() + patience;
}

void session::established() {
    if (now_is == state::ACCEPTED)
        now_is = state::OPEN;
    alive();
    if (const auto length = std::exchange(early, {}))
        received(*length);
}

void session::hang_up(const std::string &problem) {
    if (now_is == state::HANGING_UP)
        return;
    if (client.problem.empty())
        client.problem = problem;
    now_is = state::HANGING_UP;
    until = clock::now() + TO_CLOSE;
    dat_ep_disconnect(endpoint(), DAT_CLOSE_ABRUPT_FLAG); // if it fails, it is overdue
}

std::string session::overdue_words() const {
    if (now_is == state::LEAVING)
        return "said bye, but did not hang up";
    return failed.empty() ? "was silent for too long" : failed;
}

void session::completed(const DAT_DTO_COMPLETION_EVENT_DATA &what) {
    const work which = channel::work_in(what.user_cookie);
    if (now_is == state::HANGING_UP || (now_is == state::LEAVING && what.status != DAT_DTO_SUCCESS))
        return; // flushed
    if (what.status != DAT_DTO_SUCCESS) {
        failed =
            fmt::format("our {} ended with {}", name_of(which), dat::status_words(what.status));
        if (what.status != DAT_DTO_ERR_FLUSHED)
            throw std::runtime_error(failed);
        until = std::min(until, clock::now() + TO_CLOSE);
        return;
    }
    switch (which) {
    case work::RECEIVE:
        // On iWARP it may be here before the event that allows to answer.
        if (now_is == state::ACCEPTED)
            early = what.transfered_length;
        else
            received(what.transfered_length);
        return;
    case work::READ:
        return have_data();
    case work::SEND:
        sending = false;
        if (waiting)
            post_answer();
        return;
    case work::WRITE:
        return; // the Send behind it says as much
    }
}

void session::received(std::size_t length) {
    alive();
    const auto said = link.received(length);
    if (!said)
        nonsense(fmt::format("{} bytes that are no message", length));
    if (said->is == message::kind::BYE) {
        now_is = state::LEAVING;
        until = clock::now() + TO_CLOSE;
        return;
    }
    if (!offered)
        begin(*said);
    else
        go(*said, length);
}

void session::begin(const message &said) {
    if (said.is != message::kind::OFFER)
        nonsense("no offer of memory at the beginning");
    if (said.readable.length < client.size || said.writable.length < client.size)
        nonsense("an offer of less memory than it wants to move");
    there_readable = said.readable;
    there_writable = said.writable;
    offered = true;
    link.around_write_of_in();
    message ours;
    ours.is = message::kind::OFFER;
    ours.readable = ours.writable = link.shown_in();
    answer(ours);
}

void session::go(const message &said, std::size_t length) {
    if (said.is != message::kind::GO)
        nonsense("no round, where one should begin");
    round = said;
    switch (round.mode) {
    case mode::SEND:
        if (length != MESSAGE_BYTES + client.size)
            nonsense(fmt::format("{} bytes of data, not {}", length - MESSAGE_BYTES, client.size));
        return have_data();
    case mode::WRITE:
        link.around_write_of_in();
        return have_data();
    case mode::READ:
    case mode::PINGPONG:
        return link.read(there_readable);
    }
}

void session::have_data() {
    message done;
    done.is = message::kind::DONE;
    done.mode = round.mode;
    done.round = round.round;
    if (verify)
        done.found = compare(link.in(), round.round);
    ++client.rounds;
    if (done.found.count > 0)
        ++client.wrong;
    if (round.mode == mode::WRITE || round.mode == mode::PINGPONG)
        link.write_in(there_writable);
    if (round.mode == mode::READ)
        link.before_read_of_in();
    if (round.mode == mode::WRITE || round.mode == mode::READ)
        link.around_write_of_in(); // the next round's Write may come at once
    answer(done);
}

void session::answer(const message &said) {
    next = said;
    link.receive(); // the client speaks as soon as he has it
    if (sending)
        waiting = true;
    else
        post_answer();
}

void session::post_answer() {
    waiting = false;
    sending = true;
    if (next.is == message::kind::DONE && next.mode == mode::SEND)
        link.send_with_in(next);
    else
        link.send(next);
}

} // namespace tools::datping
