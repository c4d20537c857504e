// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datping/client.hpp"
#include "dat_common/to_string.hpp"
#include "datping/interrupt.hpp"
#include "datping/pattern.hpp"

#include <fmt/core.h>

namespace tools::datping {
namespace {

constexpr DAT_COUNT DTO_EVD_QLEN = 64, CONN_EVD_QLEN = 8;
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
    , channel_(selected_.ia, pz_.get(), dto_evd_.get(), conn_evd_.get(), opts_.size, 1) {}

void client::handle_dto_event(const DAT_EVENT &event) {
    const auto &data = event.event_data.dto_completion_event_data;
    const dto_kind kind = channel::kind_of(data.user_cookie);
    if (data.status != DAT_DTO_SUCCESS)
        throw std::runtime_error(failure_reason(
            fmt::format("{} {}: {} completed with {}", selected_.destination.to_string(), phase_,
                        dto_kind_name(kind), dat::status_to_string(data.status))));
    if (kind == dto_kind::RECV)
        received_length_ = data.transfered_length;
    if (kind == dto_kind::SEND)
        send_pending_ = false;
    else
        ++completed_[index(kind)];
}

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
    return fmt::format("{} {} {} ({})", selected_.destination.to_string(), problem, phase_,
                       dat::event_to_string(event->event_number));
}

std::string client::failure_reason(const std::string &fallback) const {
    return describe_connection_end(DISCONNECT_TIMEOUT).value_or(fallback);
}

void client::check_connection() const {
    if (const auto reason = describe_connection_end({}))
        throw std::runtime_error(*reason);
}

void client::wait_for(dto_kind kind) {
    auto deadline = clock::now() + opts_.timeout;
    const auto has_completed = [&] {
        return kind == dto_kind::SEND ? !send_pending_ : completed_[index(kind)] > 0;
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
                            selected_.destination.to_string(), phase_, dto_kind_name(kind),
                            static_cast<double>(opts_.timeout.count()) / 1000));
    }
    if (kind != dto_kind::SEND)
        --completed_[index(kind)];
}

void client::idle(std::chrono::milliseconds duration) {
    const auto deadline = clock::now() + duration;
    phase_ = "between rounds";
    while (clock::now() < deadline && !is_interrupted()) {
        const auto remaining = microseconds(deadline - clock::now()) + std::chrono::microseconds{1};
        if (const auto event = wait_event_for(
                dto_evd_.get(), std::min(remaining, microseconds(CHECK_INTERVAL)), wait_mode::WAIT))
            handle_dto_event(*event);
        check_connection();
    }
}

message client::receive_reply(message::kind expected) {
    wait_for(dto_kind::RECV);
    const auto msg = channel_.decode_received(received_length_);
    if (!msg || msg->type != expected)
        throw std::runtime_error(
            fmt::format("{} sent an invalid message {}; is it a datping of this version?",
                        selected_.destination.to_string(), phase_));
    return *msg;
}

void client::exchange_buffers() {
    channel_.post_receive();
    message msg;
    msg.type = message::kind::ADVERTISE;
    msg.readable = channel_.remote_outgoing();
    msg.writable = channel_.remote_incoming();
    channel_.post_send(msg);
    send_pending_ = true;
    const message reply = receive_reply(message::kind::ADVERTISE);
    peer_readable_ = reply.readable;
    peer_writable_ = reply.writable;
    if (peer_readable_.length < opts_.size || peer_writable_.length < opts_.size)
        throw std::runtime_error(fmt::format("{} advertised buffers of less than {} bytes",
                                             selected_.destination.to_string(), opts_.size));
}

void client::send(message::kind type, mode round_mode, std::uint64_t number) {
    message msg;
    msg.type = type;
    msg.mode = round_mode;
    msg.round = number;
    if (round_mode == mode::SEND)
        channel_.post_send_with_outgoing(msg);
    else
        channel_.post_send(msg);
    send_pending_ = true;
}

void client::check_reply(const message &msg, mode round_mode, std::uint64_t number) const {
    if (msg.mode != round_mode || msg.round != number)
        throw std::runtime_error(fmt::format("{} replied to the wrong round (round {}, {}) {}",
                                             selected_.destination.to_string(), msg.round,
                                             mode_name(msg.mode), phase_));
    if (round_mode == mode::SEND && received_length_ != MESSAGE_BYTES + opts_.size)
        throw std::runtime_error(fmt::format("{} returned {} bytes, not {}, {}",
                                             selected_.destination.to_string(),
                                             received_length_ - MESSAGE_BYTES, opts_.size, phase_));
}

client::round_result client::run_round(mode round_mode, std::uint64_t number) {
    phase_ = fmt::format("in round {} ({})", number, mode_name(round_mode));
    if (opts_.verify)
        fill(channel_.outgoing(), number);
    wait_for(dto_kind::SEND); // the previous message is in the same buffer
    channel_.post_receive();

    const auto start = clock::now();
    channel_.sync_outgoing_for_read();
    channel_.sync_incoming_for_write();
    if (round_mode == mode::WRITE)
        channel_.post_write_outgoing(peer_writable_);
    send(message::kind::START, round_mode, number);
    const message reply = receive_reply(message::kind::DONE);
    check_reply(reply, round_mode, number);
    if (round_mode == mode::READ) {
        channel_.post_read(peer_readable_);
        wait_for(dto_kind::READ);
    } else if (round_mode != mode::SEND) {
        channel_.sync_incoming_for_write();
    }
    const auto end = clock::now();

    if (round_mode == mode::WRITE)
        wait_for(dto_kind::WRITE);
    round_result result;
    result.microseconds = std::chrono::duration<double, std::micro>(end - start).count();
    if (opts_.verify) {
        result.at_server = reply.mismatch;
        result.at_client = compare(channel_.incoming(), number);
    }
    return result;
}

void client::finish(std::uint64_t wrong_rounds) {
    phase_ = "at the end";
    wait_for(dto_kind::SEND);
    message msg;
    msg.type = message::kind::BYE;
    msg.mismatch.count = wrong_rounds;
    channel_.post_send(msg);
    send_pending_ = true;
    wait_for(dto_kind::SEND);
    dat::check(dat_ep_disconnect(channel_.ep(), DAT_CLOSE_GRACEFUL_FLAG), "cannot disconnect");
    // Waiting for the event lets the provider free the connection's resources in order.
    wait_event_for(conn_evd_.get(), std::chrono::seconds{2}, wait_mode::WAIT);
}

} // namespace tools::datping
