// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// datping_peer: a datping peer with one fault; datping.bats checks what datping reports.
//
//     datping_peer server FAULT IA QUALIFIER       serves one client
//     datping_peer client FAULT IA HOST QUALIFIER  connects to a server
//
// Exit status: 0 if datping reacts to the fault as expected.

#include "dat_common/to_string.hpp"
#include "datping/channel.hpp"
#include "datping/events.hpp"
#include "datping/pattern.hpp"
#include "datping/select_ia.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <utility>

namespace {

using namespace tools::datping;
namespace dat = tools::dat;

constexpr std::chrono::seconds TIMEOUT{120};
constexpr std::size_t flipped_offset =
    5; ///< of the byte that the fault flipped-bit changes in a client's data

struct failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

void print_line(const char *line) {
    std::puts(line);
    std::fflush(stdout);
}

class peer {
  public:
    peer(selected_ia selected, std::string fault)
        : selected_(std::move(selected))
        , fault_(std::move(fault))
        , pz_(selected_.ia.create_pz())
        , dto_evd_(selected_.ia.create_evd(64, DAT_EVD_DTO_FLAG))
        , conn_evd_(selected_.ia.create_evd(
              16, static_cast<DAT_EVD_FLAGS>(DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG))) {}

    void run_server(DAT_CONN_QUAL qualifier);
    void run_client(DAT_CONN_QUAL qualifier);

  private:
    bool has_fault(const char *fault) const { return fault_ == fault; }
    /// A client that announces a pause of an hour between rounds, and completes none.
    bool is_holding() const { return fault_.rfind("holds-", 0) == 0; }

    /// Waits for a completion of that kind, and keeps those of other kinds for later calls. False:
    /// one failed.
    bool wait_completion(dto_kind kind) {
        const auto deadline = clock::now() + TIMEOUT;
        const auto index = [](dto_kind k) {
            return static_cast<std::size_t>(k);
        };
        while (clock::now() < deadline) {
            if (std::exchange(completed_[index(kind)], false))
                return true;
            const auto event = wait_event_for(dto_evd_.get(), CHECK_INTERVAL, wait_mode::WAIT);
            if (!event)
                continue;
            const auto &data = event->event_data.dto_completion_event_data;
            if (data.status != DAT_DTO_SUCCESS)
                return false;
            const dto_kind completed_kind = channel::kind_of(data.user_cookie);
            if (completed_kind == dto_kind::RECV)
                received_length_ = data.transfered_length;
            completed_[index(completed_kind)] = true;
        }
        throw failure("no completion");
    }

    DAT_EVENT wait_conn_event() {
        const auto event = wait_event_for(conn_evd_.get(), TIMEOUT, wait_mode::WAIT);
        if (!event)
            throw failure("no connection event");
        return *event;
    }

    void wait_established() {
        const DAT_EVENT event = wait_conn_event();
        if (event.event_number != DAT_CONNECTION_EVENT_ESTABLISHED)
            throw failure(dat::event_to_string(event.event_number));
    }

    void create_channel(channel::side side, std::size_t size) {
        size_ = size;
        channel_.reset(
            new channel(side, selected_.ia, pz_.get(), dto_evd_.get(), conn_evd_.get(), size_, 1));
        channel_->post_receive();
    }

    message receive_message() {
        if (!wait_completion(dto_kind::RECV))
            throw failure("the Receive failed");
        const auto msg = channel_->decode_received(received_length_);
        if (!msg)
            throw failure("datping sent an invalid message");
        return *msg;
    }

    void send_message(const message &msg) {
        channel_->post_send(msg);
        wait_completion(dto_kind::SEND);
    }

    /// Sends bytes of a message's length that are not a valid message.
    void send_garbage() {
        message invalid;
        invalid.type = static_cast<message::kind>(77);
        channel_->post_send(invalid);
        wait_completion(dto_kind::SEND);
    }

    hello make_hello(hello::kind kind) const {
        hello msg;
        msg.type = kind;
        msg.size = size_;
        if (has_fault("other-version"))
            msg.version = 2;
        if (is_holding())
            msg.max_silence_ms = 3'600'000;
        if (has_fault("endless-silence"))
            msg.max_silence_ms = 0xffffffff;
        return msg;
    }

    void accept(DAT_CR_HANDLE cr); ///< with the faults of a server's hello
    void serve_rounds();           ///< as a server, until datping disconnects
    void answer_round(const message &start);
    void run_faulty_client();
    void send_until_disconnected(message); ///< without a Receive for the replies
    void wait_disconnected();
    void expect_no_reply(); ///< of datping, for three seconds

    selected_ia selected_;
    std::string fault_;
    dat::pz_handle pz_;
    dat::evd_handle dto_evd_, conn_evd_;
    std::unique_ptr<channel> channel_;
    std::size_t size_ = 64;           ///< of a round's data; the server has the client's
    std::size_t received_length_ = 0; ///< of the last completed receive
    bool completed_[4] = {}; ///< by dto_kind: completed, and wait_completion() has not returned it
    remote_buffer peer_writable_; ///< where datping wants the data written
};

/// Checks datping's hello in the request, and accepts with a hello of this side.
void peer::accept(DAT_CR_HANDLE cr) {
    DAT_CR_PARAM cr_param = {};
    dat::check(dat_cr_query(cr, DAT_CR_FIELD_ALL, &cr_param), "dat_cr_query");
    hello peer_hello;
    if (decode({static_cast<const std::byte *>(cr_param.private_data),
                static_cast<std::size_t>(cr_param.private_data_size)},
               peer_hello) != decode_error::NONE)
        throw failure("invalid hello");
    create_channel(channel::side::SERVER, peer_hello.size);
    auto bytes = encode(make_hello(hello::kind::ACCEPT));
    dat::check(dat_cr_accept(cr, channel_->ep(),
                             has_fault("not-datping") ? 0 : static_cast<DAT_COUNT>(bytes.size()),
                             has_fault("not-datping") ? nullptr : bytes.data()),
               "dat_cr_accept");
    wait_established();
}

void peer::run_server(DAT_CONN_QUAL qualifier) {
    dat::psp_handle psp;
    dat::check(dat_psp_create(selected_.ia.get(), qualifier, conn_evd_.get(), DAT_PSP_CONSUMER_FLAG,
                              psp.out_handle()),
               "dat_psp_create");
    print_line("ready");
    const DAT_EVENT event = wait_conn_event();
    if (event.event_number != DAT_CONNECTION_REQUEST_EVENT)
        throw failure(dat::event_to_string(event.event_number));
    accept(event.event_data.cr_arrival_event_data.cr_handle);
    serve_rounds();
}

void peer::wait_disconnected() {
    const DAT_EVENT event = wait_conn_event();
    if (event.event_number != DAT_CONNECTION_EVENT_DISCONNECTED)
        throw failure(dat::event_to_string(event.event_number));
}

/// Sends the message again and again, without a Receive for the replies. The server must end that.
void peer::send_until_disconnected(message msg) {
    const auto deadline = clock::now() + TIMEOUT;
    do {
        channel_->post_send_with_outgoing(msg);
        ++msg.round;
    } while (wait_completion(dto_kind::SEND) && clock::now() < deadline);
    wait_disconnected();
}

/// datping was told to read invalid memory: it must not reply. Whether the connection ends instead
/// depends on the device.
void peer::expect_no_reply() {
    const auto deadline = clock::now() + std::chrono::seconds{3};
    while (clock::now() < deadline)
        if (const auto event = wait_event_for(dto_evd_.get(), CHECK_INTERVAL, wait_mode::WAIT)) {
            const auto &data = event->event_data.dto_completion_event_data;
            if (channel::kind_of(data.user_cookie) == dto_kind::RECV &&
                data.status == DAT_DTO_SUCCESS)
                throw failure("datping replied");
        }
}

/// The server's side of datping's protocol, with the selected fault: advertisements are exchanged,
/// then each START of datping is answered.
void peer::serve_rounds() {
    if (has_fault("other-version") || has_fault("not-datping") || has_fault("silent"))
        return wait_disconnected();
    const message advertisement = receive_message();
    peer_writable_ = advertisement.writable;
    const remote_buffer readable = advertisement.readable;
    if (has_fault("invalid-message")) {
        send_garbage();
        return wait_disconnected();
    }
    channel_->post_receive();
    message reply;
    reply.readable = reply.writable = channel_->incoming_for_peer();
    send_message(reply);
    for (message start = receive_message(); start.type == message::kind::START;
         start = receive_message()) {
        if (has_fault("exits"))
            _exit(0);
        if (has_fault("disconnects")) {
            dat_ep_disconnect(channel_->ep(), DAT_CLOSE_ABRUPT_FLAG);
            return;
        }
        if (start.mode == mode::SEND)
            channel_->use_received_data();
        else
            channel_->use_transferred_data();
        if (start.mode == mode::READ || start.mode == mode::PINGPONG) {
            channel_->post_read(readable);
            wait_completion(dto_kind::READ);
        }
        answer_round(start);
    }
    wait_disconnected();
}

/// As a server: sends the round's data back in the round's mode, with the selected fault, and
/// reports the round as done.
void peer::answer_round(const message &start) {
    message reply = start;
    reply.type = message::kind::DONE;
    if (has_fault("flipped-bit"))
        channel_->incoming()[size_ / 2] ^= std::byte{0x40};
    if (has_fault("reports-errors"))
        reply.mismatch = {3, 7, 1, 2};
    if (has_fault("wrong-round"))
        ++reply.round;
    channel_->post_receive();
    if (!(has_fault("stale-data") && start.round > 1) &&
        (start.mode == mode::WRITE || start.mode == mode::PINGPONG)) {
        channel_->post_write_incoming(peer_writable_);
        wait_completion(dto_kind::WRITE);
    }
    if (start.mode == mode::SEND)
        channel_->post_send_with_incoming(reply);
    else
        channel_->post_send(reply);
    wait_completion(dto_kind::SEND);
}

/// Connects to a datping server. For a fault of the hello the server must reject; the others show
/// after that.
void peer::run_client(DAT_CONN_QUAL qualifier) {
    create_channel(channel::side::CLIENT, size_);
    hello request = make_hello(hello::kind::REQUEST);
    if (has_fault("zero-size"))
        request.size = 0;
    auto bytes = encode(request);
    if (has_fault("not-datping"))
        std::memset(bytes.data(), 'x', bytes.size());
    if (has_fault("byte-order"))
        std::reverse(bytes.begin(), bytes.begin() + 8); // the first eight bytes
    dat::check(dat_ep_connect(channel_->ep(), const_cast<sockaddr *>(selected_.destination.get()),
                              qualifier, 10'000'000, static_cast<DAT_COUNT>(bytes.size()),
                              bytes.data(), DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
               "dat_ep_connect");
    const DAT_EVENT event = wait_conn_event();
    if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED)
        return run_faulty_client();
    print_line(dat::event_to_string(event.event_number).c_str());
    if (event.event_number != DAT_CONNECTION_EVENT_PEER_REJECTED &&
        event.event_number != DAT_CONNECTION_EVENT_NON_PEER_REJECTED)
        throw failure("not rejected");
}

/// As a client, once connected: shows the selected fault at its step of the protocol, and expects
/// datping's reaction.
void peer::run_faulty_client() {
    if (has_fault("not-datping") || has_fault("other-version") || has_fault("byte-order") ||
        has_fault("zero-size") || has_fault("endless-silence"))
        throw failure("the server accepted");
    if (has_fault("exits"))
        _exit(0);
    if (has_fault("silent") || has_fault("holds-silently"))
        return wait_disconnected();
    if (has_fault("invalid-message")) {
        send_garbage();
        return wait_disconnected();
    }
    message msg;
    msg.readable = channel_->outgoing_for_peer();
    msg.writable = channel_->incoming_for_peer();
    if (has_fault("small-buffer"))
        msg.readable.length = size_ - 1;
    if (has_fault("bad-rkey"))
        msg.readable.rmr_context ^= 0x5a5a5a;
    send_message(msg);
    if (has_fault("small-buffer"))
        return wait_disconnected();
    receive_message();
    if (has_fault("holds-advertised"))
        return wait_disconnected();
    if (has_fault("holds-started") || has_fault("sends-on")) {
        msg.type = message::kind::START;
        msg.mode = mode::SEND;
        msg.round = 1;
        if (has_fault("sends-on"))
            return send_until_disconnected(msg);
        channel_->post_send_with_outgoing(msg);
        wait_completion(dto_kind::SEND);
        return wait_disconnected();
    }
    if (has_fault("no-disconnect")) {
        msg.type = message::kind::BYE;
        send_message(msg);
        return wait_disconnected();
    }
    fill(channel_->outgoing(), 1);
    if (has_fault("flipped-bit"))
        channel_->outgoing()[flipped_offset] ^= std::byte{1};
    channel_->post_receive();
    msg.type = message::kind::START;
    msg.round = 1;
    send_message(msg);
    if (has_fault("bad-rkey"))
        return expect_no_reply();
    const message reply = receive_message();
    if (has_fault("flipped-bit") &&
        (reply.mismatch.count != 1 || reply.mismatch.first_offset != flipped_offset))
        throw failure("the server did not report the wrong byte");
    msg.type = message::kind::BYE;
    send_message(msg);
    dat_ep_disconnect(channel_->ep(), DAT_CLOSE_GRACEFUL_FLAG);
    wait_disconnected();
}

int run(const std::vector<std::string> &args) {
    if (args.size() == 5 && args[1] == "server") {
        peer(select_ia(args[3], {}), args[2]).run_server(std::stoull(args[4]));
        return 0;
    }
    if (args.size() == 6 && args[1] == "client") {
        peer(select_ia(args[3], dat::resolve(args[4])), args[2]).run_client(std::stoull(args[5]));
        return 0;
    }
    std::fprintf(stderr, "datping_peer: see its source\n");
    return 2;
}

} // namespace

int main(int argc, char **argv) {
    try {
        return run({argv, argv + argc});
    } catch (const std::exception &e) {
        std::fprintf(stderr, "datping_peer: %s\n", e.what());
        std::fflush(nullptr);
        _exit(1); // a provider library may block while a connection is open
    }
}
