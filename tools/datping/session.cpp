// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datping/session.hpp"
#include "dat_common/to_string.hpp"
#include "datping/pattern.hpp"

#include <fmt/core.h>
#include <utility>

namespace tools::datping {
namespace {

/// How long the disconnect event may take.
constexpr std::chrono::seconds CLOSE_TIMEOUT{3};

[[noreturn]] void protocol_error(const std::string &problem) {
    throw std::runtime_error("sent an invalid message: " + problem);
}

} // namespace

/// The client's hello is `request`; `number` is in the cookies of the DTOs. The client may be
/// silent for the timeout, and after each completed round for the pause that it announced besides.
session::session(const dat::adapter &ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE dto_evd,
                 DAT_EVD_HANDLE conn_evd, const hello &request, std::string address,
                 std::uint64_t number, std::chrono::milliseconds timeout)
    : channel_(channel::side::SERVER, ia, pz, dto_evd, conn_evd, request.size, number)
    , verify_(request.verify)
    , timeout_(timeout)
    , max_pause_(request.max_silence_ms) {
    client_.address = std::move(address);
    client_.size = request.size;
    channel_.post_receive();
    reset_deadline();
}

void session::reset_deadline() {
    deadline_ = clock::now() + timeout_;
}

/// A reply may be posted from this event on; on iWARP the client's message can be there already. A
/// client that was disconnected before the event keeps its deadline.
void session::handle_established() {
    if (state_ != state::ACCEPTED)
        return;
    state_ = state::CONNECTED;
    reset_deadline();
    if (const auto length = std::exchange(early_length_, {}))
        handle_message(*length);
}

/// problem: the reason, to be reported unless there was an earlier one.
void session::disconnect(const std::string &problem) {
    if (state_ == state::DISCONNECTING)
        return;
    if (client_.problem.empty())
        client_.problem = problem;
    state_ = state::DISCONNECTING;
    deadline_ = clock::now() + CLOSE_TIMEOUT;
    dat_ep_disconnect(ep(), DAT_CLOSE_ABRUPT_FLAG); // if it fails, the deadline ends the session
}

std::string session::overdue_reason() const {
    if (state_ == state::BYE_RECEIVED)
        return "sent a BYE, but did not disconnect";
    return dto_failure_.empty() ? "sent nothing for too long" : dto_failure_;
}

/// Whether the client has the DONE of a round, and may pause before the next START.
bool session::is_paused() const {
    return state_ == state::CONNECTED && dto_failure_.empty() && client_.rounds > 0 && !in_round_ &&
           !send_pending_;
}

std::chrono::milliseconds session::pause(clock::time_point time) const {
    if (!is_paused() || time < reply_time_)
        return {};
    return std::chrono::duration_cast<std::chrono::milliseconds>(time - reply_time_);
}

/// Called by the server for each completion on the client's EP.
void session::handle_completion(const DAT_DTO_COMPLETION_EVENT_DATA &dto) {
    const dto_kind kind = channel::kind_of(dto.user_cookie);
    if (state_ == state::DISCONNECTING ||
        (state_ == state::BYE_RECEIVED && dto.status != DAT_DTO_SUCCESS))
        return; // flushed with the connection
    // A flushed DTO is not the first failure: the disconnect event, due soon, gives the reason.
    if (dto.status != DAT_DTO_SUCCESS) {
        dto_failure_ = fmt::format("{} completed with {}", dto_kind_name(kind),
                                   dat::status_to_string(dto.status));
        if (dto.status != DAT_DTO_ERR_FLUSHED)
            throw std::runtime_error(dto_failure_);
        deadline_ = std::min(deadline_, clock::now() + CLOSE_TIMEOUT);
        return;
    }
    switch (kind) {
    case dto_kind::RECV:
        // On iWARP a message can arrive before the ESTABLISHED event, which allows to post a reply.
        if (state_ == state::ACCEPTED)
            early_length_ = dto.transfered_length;
        else
            handle_message(dto.transfered_length);
        return;
    case dto_kind::READ:
        return complete_round(); // posted by handle_start()
    case dto_kind::SEND:
        send_pending_ = false;
        if (reply_queued_)
            post_reply();
        else if (is_paused())
            deadline_ = clock::now() + timeout_ + max_pause_;
        return;
    case dto_kind::WRITE:
        return; // the Send posted after it confirms its completion
    }
}

/// Called for the message in the receive buffer; `length` is that of the message and its data.
void session::handle_message(std::size_t length) {
    reset_deadline();
    const auto msg = channel_.decode_received(length);
    if (!msg)
        protocol_error(fmt::format("{} bytes that are not a datping message", length));
    if (msg->type == message::kind::BYE) {
        state_ = state::BYE_RECEIVED;
        deadline_ = clock::now() + CLOSE_TIMEOUT;
        return;
    }
    if (!has_peer_buffers_)
        handle_advertise(*msg);
    else
        handle_start(*msg, length);
}

/// Replies with the server's buffer: the client reads and writes the same one.
void session::handle_advertise(const message &msg) {
    if (msg.type != message::kind::ADVERTISE)
        protocol_error("ADVERTISE expected");
    if (msg.readable.length < client_.size || msg.writable.length < client_.size)
        protocol_error("buffers smaller than the requested size");
    peer_readable_ = msg.readable;
    peer_writable_ = msg.writable;
    has_peer_buffers_ = true;
    channel_.sync_incoming_for_write();
    message reply;
    reply.type = message::kind::ADVERTISE;
    reply.readable = reply.writable = channel_.incoming_for_peer();
    send_reply(reply);
}

/// In modes SEND and WRITE the client's data are already in the incoming buffer; in the others the
/// completion of the RDMA Read completes the round.
void session::handle_start(const message &msg, std::size_t length) {
    if (msg.type != message::kind::START)
        protocol_error("START expected");
    if (reply_queued_)
        protocol_error("START before DONE of the round before");
    in_round_ = true;
    start_ = msg;
    switch (start_.mode) {
    case mode::SEND:
        if (length != MESSAGE_BYTES + client_.size)
            protocol_error(
                fmt::format("{} bytes of data, not {}", length - MESSAGE_BYTES, client_.size));
        channel_.use_received_data();
        return complete_round();
    case mode::WRITE:
        channel_.use_transferred_data();
        channel_.sync_incoming_for_write(); // after the client's Write
        return complete_round();
    case mode::READ:
    case mode::PINGPONG:
        channel_.use_transferred_data();
        return channel_.post_read(peer_readable_);
    }
}

/// The client's data are in the incoming buffer: compares them, and returns them with or before
/// DONE, or in mode READ lets the client read them.
void session::complete_round() {
    message reply;
    reply.type = message::kind::DONE;
    reply.mode = start_.mode;
    reply.round = start_.round;
    if (verify_)
        reply.mismatch = compare(channel_.incoming(), start_.round);
    in_round_ = false;
    ++client_.rounds;
    if (reply.mismatch.count > 0)
        ++client_.wrong_rounds;
    if (start_.mode == mode::WRITE || start_.mode == mode::PINGPONG)
        channel_.post_write_incoming(peer_writable_);
    if (start_.mode == mode::READ)
        channel_.sync_incoming_for_read(); // the client reads after DONE
    // Before the next round's Write, which precedes START.
    channel_.sync_incoming_for_write();
    send_reply(reply);
}

/// Posts the reply, or queues it while the previous message is in the only send buffer.
void session::send_reply(const message &msg) {
    reply_ = msg;
    if (send_pending_)
        reply_queued_ = true;
    else
        post_reply();
}

/// A DONE in mode SEND carries the client's data.
void session::post_reply() {
    reply_queued_ = false;
    channel_.post_receive(); // the client may send as soon as it has the reply
    send_pending_ = true;
    reply_time_ = clock::now();
    if (reply_.type == message::kind::DONE && reply_.mode == mode::SEND)
        channel_.post_send_with_incoming(reply_);
    else
        channel_.post_send(reply_);
}

} // namespace tools::datping
