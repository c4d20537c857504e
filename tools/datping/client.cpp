// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datping/client.hpp"
#include "dat/words.hpp"
#include "datping/pattern.hpp"
#include "datping/stop.hpp"

#include <fmt/format.h>

namespace tools::datping {
namespace {

constexpr DAT_COUNT TRANSFERS = 64, CONNECTIONS = 8;
/// A peer that dies takes a moment to be known as dead after its transfers have failed.
constexpr std::chrono::seconds FUNERAL{2};
/// What a round may still take when the user wants to stop.
constexpr std::chrono::seconds LAST{1};

std::size_t index(work which) {
    return static_cast<std::size_t>(which);
}

template <class Time>
auto microseconds(Time time) {
    return std::chrono::duration_cast<std::chrono::microseconds>(time);
}

} // namespace

client::client(const options &given, const choice &with)
    : asked(given)
    , chosen(with)
    , pz(chosen.ia.make_pz())
    , transfers(chosen.ia.make_evd(TRANSFERS, DAT_EVD_DTO_FLAG))
    , connections(chosen.ia.make_evd(CONNECTIONS, DAT_EVD_CONNECTION_FLAG))
    , link(chosen.ia, pz.get(), transfers.get(), connections.get(), asked.size, 1) {}

void client::note(const DAT_EVENT &event) {
    const auto &data = event.event_data.dto_completion_event_data;
    const work which = channel::work_in(data.user_cookie);
    if (data.status != DAT_DTO_SUCCESS)
        throw std::runtime_error(
            cause(fmt::format("{} {}: our {} ended with {}", chosen.there.text(), where,
                              name_of(which), dat::status_words(data.status))));
    if (which == work::RECEIVE)
        got_bytes = data.transfered_length;
    if (which == work::SEND)
        sending = false;
    else
        ++done[index(which)];
}

std::optional<std::string> client::end_of_connection(std::chrono::microseconds time) const {
    const auto event = time.count() == 0 ? event_now(connections.get())
                                         : event_within(connections.get(), time, how::WAIT);
    if (!event)
        return {};
    const char *what =
        event->event_number == DAT_CONNECTION_EVENT_DISCONNECTED ? "hung up, or died," : "is gone";
    return fmt::format("{} {} {} ({})", chosen.there.text(), what, where,
                       dat::event_words(event->event_number));
}

std::string client::cause(const std::string &otherwise) const {
    return end_of_connection(FUNERAL).value_or(otherwise);
}

void client::look_at_connection() const {
    if (const auto end = end_of_connection({}))
        throw std::runtime_error(*end);
}

void client::await(work wanted) {
    auto until = clock::now() + asked.timeout;
    const auto there = [&] {
        return wanted == work::SEND ? !sending : done[index(wanted)] > 0;
    };
    bool stopping = false;
    while (!there()) {
        if (const auto event = event_within(transfers.get(), SLICE, asked.by)) {
            note(*event);
            continue;
        }
        look_at_connection();
        if (stop_wished() && !stopping) {
            stopping = true;
            until = std::min(until, clock::now() + LAST);
        }
        if (clock::now() > until && stopping)
            throw stopped();
        if (clock::now() > until)
            throw std::runtime_error(fmt::format(
                "{} did not answer {}: nothing came for {} s (our {} is open)", chosen.there.text(),
                where, static_cast<double>(asked.timeout.count()) / 1000, name_of(wanted)));
    }
    if (wanted != work::SEND)
        --done[index(wanted)];
}

void client::rest(std::chrono::milliseconds time) {
    const auto until = clock::now() + time;
    where = "between two rounds";
    while (clock::now() < until && !stop_wished()) {
        const auto left = microseconds(until - clock::now()) + std::chrono::microseconds{1};
        if (const auto event =
                event_within(transfers.get(), std::min(left, microseconds(SLICE)), how::WAIT))
            note(*event);
        look_at_connection();
    }
}

message client::answer(message::kind wanted) {
    await(work::RECEIVE);
    const auto said = link.received(got_bytes);
    if (!said || said->is != wanted)
        throw std::runtime_error(fmt::format(
            "{} sent nonsense {}: is that a datping of this version?", chosen.there.text(), where));
    return *said;
}

void client::offer() {
    link.receive();
    message said;
    said.is = message::kind::OFFER;
    said.readable = link.shown_out();
    said.writable = link.shown_in();
    link.send(said);
    sending = true;
    const message got = answer(message::kind::OFFER);
    there_readable = got.readable;
    there_writable = got.writable;
    if (there_readable.length < asked.size || there_writable.length < asked.size)
        throw std::runtime_error(fmt::format("{} offers too little memory for {} bytes",
                                             chosen.there.text(), asked.size));
}

void client::send(message::kind is, mode which, std::uint64_t number) {
    message said;
    said.is = is;
    said.mode = which;
    said.round = number;
    if (which == mode::SEND)
        link.send_with_out(said);
    else
        link.send(said);
    sending = true;
}

void client::check_answer(const message &said, mode which, std::uint64_t number) const {
    if (said.mode != which || said.round != number)
        throw std::runtime_error(fmt::format("{} answered another round (round {} of {}) {}",
                                             chosen.there.text(), said.round, name_of(said.mode),
                                             where));
    if (which == mode::SEND && got_bytes != MESSAGE_BYTES + asked.size)
        throw std::runtime_error(fmt::format("{} sent back {} bytes, not {}, {}",
                                             chosen.there.text(), got_bytes - MESSAGE_BYTES,
                                             asked.size, where));
}

client::outcome client::round(mode which, std::uint64_t number) {
    where = fmt::format("in round {} ({})", number, name_of(which));
    if (asked.verify)
        fill(link.out(), number);
    await(work::SEND); // the message of the round before is still where it was
    link.receive();

    const auto begin = clock::now();
    link.before_read_of_out();
    link.around_write_of_in();
    if (which == mode::WRITE)
        link.write_out(there_writable);
    send(message::kind::GO, which, number);
    const message said = answer(message::kind::DONE);
    check_answer(said, which, number);
    if (which == mode::READ) {
        link.read(there_readable);
        await(work::READ);
    } else if (which != mode::SEND) {
        link.around_write_of_in();
    }
    const auto end = clock::now();

    if (which == mode::WRITE)
        await(work::WRITE);
    outcome result;
    result.microseconds = std::chrono::duration<double, std::micro>(end - begin).count();
    if (asked.verify) {
        result.at_server = said.found;
        result.here = compare(link.in(), number);
    }
    return result;
}

void client::leave(std::uint64_t wrong) {
    where = "at the end";
    await(work::SEND);
    message said;
    said.is = message::kind::BYE;
    said.found.count = wrong;
    link.send(said);
    sending = true;
    await(work::SEND);
    dat::check(dat_ep_disconnect(link.endpoint(), DAT_CLOSE_GRACEFUL_FLAG), "cannot hang up");
    // The event is of no use, but frees what is bound to the connection in good order.
    event_within(connections.get(), std::chrono::seconds{2}, how::WAIT);
}

} // namespace tools::datping
