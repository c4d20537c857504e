// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datping/client.hpp"
#include "dat_common/to_string.hpp"
#include "datping/interrupt.hpp"
#include "datping/pattern.hpp"

#include <fmt/core.h>

namespace tools::datping {
namespace {

constexpr DAT_COUNT DTO_EVD_QLEN = 64, CONN_EVD_QLEN = 8;
constexpr std::uint64_t CHANNEL_NUMBER = 1; // a client has one channel
/// The disconnect event of a peer that exits can come after the errors of its DTOs.
constexpr std::chrono::seconds DISCONNECT_TIMEOUT{2};
/// How long a round may still take after an interrupt.
constexpr std::chrono::seconds INTERRUPT_GRACE{1};

std::size_t index(dto_kind kind) {
    return static_cast<std::size_t>(kind);
}

template <class Duration>
auto microseconds(Duration duration) {
    return std::chrono::duration_cast<std::chrono::microseconds>(duration);
}

} // namespace

client::client(const options &opts, const selected_ia &selected)
    : opts_(opts)
    , selected_(selected)
    , pz_(selected_.ia.create_pz())
    , dto_evd_(selected_.ia.create_evd(DTO_EVD_QLEN, DAT_EVD_DTO_FLAG))
    , conn_evd_(selected_.ia.create_evd(CONN_EVD_QLEN, DAT_EVD_CONNECTION_FLAG))
    , channel_(channel::side::CLIENT, selected_.ia, pz_.get(), dto_evd_.get(), conn_evd_.get(),
               opts_.size, CHANNEL_NUMBER) {}

/// Records the completion. Throws if the DTO has failed.
void client::handle_dto_event(const DAT_EVENT &event) {
    const auto &data = event.event_data.dto_completion_event_data;
    const dto_kind kind = channel::kind_of(data.user_cookie);
    if (data.status != DAT_DTO_SUCCESS)
        throw std::runtime_error(failure_reason(
            fmt::format("{} {}: {} completed with {}", selected_.destination.to_string(),
                        phase_text_, dto_kind_name(kind), dat::status_to_string(data.status))));
    if (kind == dto_kind::RECV)
        received_length_ = data.transfered_length;
    if (kind == dto_kind::SEND)
        send_pending_ = false;
    else
        ++num_completed_[index(kind)];
}

/// A timeout of 0 only looks whether it has already ended.
std::optional<std::string>
client::describe_connection_end(std::chrono::microseconds timeout) const {
    const auto event = timeout.count() == 0
                           ? poll_event(conn_evd_.get())
                           : wait_event_for(conn_evd_.get(), timeout, wait_mode::WAIT);
    if (!event)
        return {};
    const char *problem = event->event_number == DAT_CONNECTION_EVENT_DISCONNECTED
                              ? "disconnected or exited"
                              : "lost the connection";
    return fmt::format("{} {} {} ({})", selected_.destination.to_string(), problem, phase_text_,
                       dat::event_to_string(event->event_number));
}

std::string client::failure_reason(const std::string &fallback) const {
    return describe_connection_end(DISCONNECT_TIMEOUT).value_or(fallback);
}

void client::check_connection() const {
    if (const auto reason = describe_connection_end({}))
        throw std::runtime_error(*reason);
}

/// Returns when a DTO of this kind has completed. Throws if it fails or the timeout passes, if the
/// connection ends, and interrupted if a signal arrives and it does not complete soon after.
void client::wait_for_completion(dto_kind kind) {
    auto deadline = clock::now() + opts_.timeout;
    const auto has_completed = [&] {
        return kind == dto_kind::SEND ? !send_pending_ : num_completed_[index(kind)] > 0;
    };
    bool is_stopping = false;
    while (!has_completed()) {
        if (const auto event = wait_event_for(dto_evd_.get(), CHECK_INTERVAL, opts_.event_wait)) {
            handle_dto_event(*event);
            continue;
        }
        check_connection();
        if (is_interrupted() && !is_stopping) {
            is_stopping = true;
            deadline = std::min(deadline, clock::now() + INTERRUPT_GRACE);
        }
        if (clock::now() > deadline && is_stopping)
            throw interrupted();
        if (clock::now() > deadline)
            throw std::runtime_error(
                fmt::format("{} did not answer {}: no {} completed within {} s",
                            selected_.destination.to_string(), phase_text_, dto_kind_name(kind),
                            static_cast<double>(opts_.timeout.count()) / 1000));
    }
    if (kind != dto_kind::SEND)
        --num_completed_[index(kind)];
}

/// Option --interval. Returns early if interrupted.
void client::wait_between_rounds(std::chrono::milliseconds duration) {
    const auto deadline = clock::now() + duration;
    phase_text_ = "between rounds";
    while (clock::now() < deadline && !is_interrupted()) {
        const auto remaining = microseconds(deadline - clock::now()) + std::chrono::microseconds{1};
        if (const auto event = wait_event_for(
                dto_evd_.get(), std::min(remaining, microseconds(CHECK_INTERVAL)), wait_mode::WAIT))
            handle_dto_event(*event);
        check_connection();
    }
}

/// Waits for the server's next message; throws if it is not of this kind.
message client::receive_reply(message::kind expected) {
    wait_for_completion(dto_kind::RECV);
    const auto msg = channel_.decode_received(received_length_);
    if (!msg || msg->type != expected)
        throw std::runtime_error(
            fmt::format("{} sent an invalid message {}; is it a datping of this version?",
                        selected_.destination.to_string(), phase_text_));
    return *msg;
}

/// The server may read the outgoing buffer and write the incoming one.
void client::exchange_buffers() {
    channel_.post_receive();
    message msg;
    msg.type = message::kind::ADVERTISE;
    msg.readable = channel_.outgoing_for_peer();
    msg.writable = channel_.incoming_for_peer();
    channel_.post_send(msg);
    send_pending_ = true;
    const message reply = receive_reply(message::kind::ADVERTISE);
    peer_readable_ = reply.readable;
    peer_writable_ = reply.writable;
    if (peer_readable_.length < opts_.size || peer_writable_.length < opts_.size)
        throw std::runtime_error(fmt::format("{} advertised buffers of less than {} bytes",
                                             selected_.destination.to_string(), opts_.size));
}

/// In mode SEND the message carries the data.
void client::send_start(mode round_mode, std::uint64_t round) {
    message msg;
    msg.type = message::kind::START;
    msg.mode = round_mode;
    msg.round = round;
    if (round_mode == mode::SEND)
        channel_.post_send_with_outgoing(msg);
    else
        channel_.post_send(msg);
    send_pending_ = true;
}

/// Throws if the server's DONE is not that of this round.
void client::check_done(const message &msg, mode round_mode, std::uint64_t round) const {
    if (msg.mode != round_mode || msg.round != round)
        throw std::runtime_error(fmt::format("{} replied to the wrong round (round {}, {}) {}",
                                             selected_.destination.to_string(), msg.round,
                                             mode_name(msg.mode), phase_text_));
    if (round_mode == mode::SEND && received_length_ != MESSAGE_BYTES + opts_.size)
        throw std::runtime_error(
            fmt::format("{} returned {} bytes, not {}, {}", selected_.destination.to_string(),
                        received_length_ - MESSAGE_BYTES, opts_.size, phase_text_));
}

/// START tells the server to fetch or use the outgoing data; with its DONE they are back in the
/// incoming buffer, or in mode READ in the server's, see protocol.hpp.
client::round_result client::run_round(mode round_mode, std::uint64_t round) {
    phase_text_ = fmt::format("in round {} ({})", round, mode_name(round_mode));
    if (opts_.verify)
        fill(channel_.outgoing(), round);
    wait_for_completion(dto_kind::SEND); // the previous message is in the same buffer
    channel_.post_receive();

    const auto start = clock::now();
    channel_.sync_outgoing_for_read();
    channel_.sync_incoming_for_write();
    if (round_mode == mode::WRITE)
        channel_.post_write_outgoing(peer_writable_);
    send_start(round_mode, round);
    const message done = receive_reply(message::kind::DONE);
    check_done(done, round_mode, round);
    if (round_mode == mode::READ) {
        channel_.post_read(peer_readable_);
        wait_for_completion(dto_kind::READ);
    } else if (round_mode != mode::SEND) {
        channel_.sync_incoming_for_write(); // after the server's Write
    }
    const auto end = clock::now();

    if (round_mode == mode::WRITE)
        wait_for_completion(dto_kind::WRITE);
    round_result result;
    result.microseconds = std::chrono::duration<double, std::micro>(end - start).count();
    if (opts_.verify) {
        result.at_server = done.mismatch;
        result.at_client = compare(channel_.incoming(), round);
    }
    return result;
}

/// Tells the server the number of wrong rounds, and disconnects.
void client::finish(std::uint64_t wrong_rounds) {
    phase_text_ = "at the end";
    wait_for_completion(dto_kind::SEND); // the previous message is in the same buffer
    message msg;
    msg.type = message::kind::BYE;
    msg.mismatch.count = wrong_rounds;
    channel_.post_send(msg);
    send_pending_ = true;
    wait_for_completion(dto_kind::SEND);
    dat::check(dat_ep_disconnect(channel_.ep(), DAT_CLOSE_GRACEFUL_FLAG), "cannot disconnect");
    // Waiting for the event lets the provider free the connection's resources in order.
    wait_event_for(conn_evd_.get(), std::chrono::seconds{2}, wait_mode::WAIT);
}

} // namespace tools::datping
