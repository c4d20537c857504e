// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// data_integrity: moves patterned data between two processes and verifies every byte.
//
// Both sides walk the same plan of transfers, which follows from the client's seed and number of
// rounds: each size by Send, Write and Read, led by the client and then by the server. After each
// one, both compare their memory with what it must hold then (see transfer.hpp).
//
// Messages strictly alternate between the sides, beginning with the client. A side posts the
// receive for the answer before it sends, so exactly one receive is posted, of the right length, as
// iWARP demands. A transfer is two messages: "ready" from the follower and "done" from the leader
// (in a Send, the data itself). Where the wrong side has the turn, it passes it.

#include "connection.hpp"
#include "transfer.hpp"

#include <charconv>
#include <iostream>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using namespace verbs_test;

// After the data, one message coming in and one going out.
constexpr std::size_t control_offset = data_size;

struct message {
    enum class kind : std::uint32_t { pass, ready, done, finished };
    kind content;
    std::uint32_t number;
};

class worker {
  public:
    worker(role side, connection::seconds timeout)
        : side_(side)
        , may_send_(side == role::client)
        , pages_(control_offset / sizeof(page) + 1)
        , memory_(pages_.front().bytes.data(), pages_.size() * sizeof(page))
        , conn_(memory_, timeout) {}

    connection &conn() { return conn_; }
    bytes inbox() { return memory_.subspan(control_offset, sizeof(message)); }

    void run() {
        const hello plan = conn_.peer();
        std::uint32_t number = 0;
        for (std::uint32_t round = 0; round < plan.rounds; ++round)
            for (const std::size_t size : sizes)
                for (const auto operation : {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ})
                    for (const role leader : {role::client, role::server})
                        run_transfer({plan.seed, round, number++, size, operation, leader});
        // The receiver of the last message disconnects: none of its own WRs is outstanding then.
        // The sender does not wait for its completion: rxe does not acknowledge a message whose
        // receiver has disconnected (do_complete() of rxe_resp.c). The disconnection proves as
        // much.
        if (may_send_) {
            post_message(message::kind::finished, number);
        } else {
            receive_message(message::kind::finished, number);
            conn_.disconnect();
        }
        conn_.wait_disconnected();
        std::cout << concat("data_integrity: ", number, " transfers, ", verified_,
                            " bytes verified\n");
    }

  private:
    struct alignas(4096) page {
        std::array<std::byte, 4096> bytes;
    };

    void run_transfer(const transfer &t) {
        const end held = t.end_held_by(side_);
        const auto expected = make_image(t, held);
        const bytes guarded = memory_.subspan(payload_offset(t, held) - guard, expected.size());
        const bytes payload = guarded.subspan(guard, t.size);
        std::ranges::copy(expected, guarded.begin());
        if (held == end::sink)
            for (std::byte &b : payload)
                b = ~b;

        if (side_ == t.leader)
            lead_transfer(t, payload);
        else
            follow_transfer(t, payload);

        verify_memory(t, held, guarded, expected);
        if (side_ == t.leader && t.operation == IBV_WR_RDMA_READ)
            send_message(message::kind::done,
                         t.number); // only now, so that a failure is not followed by it
        may_send_ = side_ != t.leader;
    }

    void lead_transfer(const transfer &t, bytes payload) {
        if (may_send_)
            send_message(message::kind::pass, t.number);
        receive_message(message::kind::ready, t.number);
        if (t.operation == IBV_WR_SEND)
            conn_.post_recv(inbox());
        const end peer_end = t.operation == IBV_WR_RDMA_READ ? end::source : end::sink;
        conn_.post_send(work::transfer, t.operation, payload, payload_offset(t, peer_end));
        // A Write is not waited for: the message behind it must not arrive before the data.
        if (t.operation == IBV_WR_RDMA_WRITE)
            send_message(message::kind::done, t.number);
        conn_.wait_completion(work::transfer, concat("a ", t.name(), " of ", t.size, " bytes"));
    }

    void follow_transfer(const transfer &t, bytes payload) {
        if (!may_send_)
            receive_message(message::kind::pass, t.number);
        if (t.operation != IBV_WR_SEND) {
            send_message(message::kind::ready, t.number);
            receive_message(message::kind::done, t.number);
            return;
        }
        send_message(message::kind::ready, t.number, payload);
        const auto wc =
            conn_.wait_completion(work::receive, concat("a Send of ", t.size, " bytes"));
        if (wc.byte_len != t.size)
            throw failure(concat("Send of ", t.size, " bytes: the receive says ", wc.byte_len));
    }

    void verify_memory(const transfer &t, end held, bytes guarded,
                       const std::vector<std::byte> &expected) {
        verified_ += t.size;
        if (std::memcmp(guarded.data(), expected.data(), guarded.size()) == 0)
            return;
        const auto [actual_it, expected_it] = std::ranges::mismatch(guarded, expected);
        const auto offset = actual_it - guarded.begin() - static_cast<std::ptrdiff_t>(guard);
        const bool in_payload = offset >= 0 && offset < static_cast<std::ptrdiff_t>(t.size);
        throw failure(concat(
            t.name(), " of ", t.size, " bytes, led by the ",
            t.leader == role::client ? "client" : "server", ", round ", t.round, ", ",
            held == end::source ? "source" : "sink", " at offset ", payload_offset(t, held) - guard,
            ": ", in_payload ? "byte " : "guard byte ", offset, std::hex, ", expected 0x",
            std::to_integer<int>(*expected_it), ", found 0x", std::to_integer<int>(*actual_it)));
    }

    void send_message(message::kind content, std::uint32_t number) {
        send_message(content, number, inbox());
    }

    // answer_buffer receives the next message or Send of the peer.
    void send_message(message::kind content, std::uint32_t number, bytes answer_buffer) {
        conn_.post_recv(answer_buffer);
        post_message(content, number);
        conn_.wait_completion(work::message, "a message to go out");
    }

    void post_message(message::kind content, std::uint32_t number) {
        const bytes outbox = memory_.subspan(control_offset + sizeof(message), sizeof(message));
        const message message_out{content, number};
        std::memcpy(outbox.data(), &message_out, sizeof message_out);
        conn_.post_send(work::message, IBV_WR_SEND, outbox);
    }

    void receive_message(message::kind content, std::uint32_t number) {
        conn_.wait_completion(work::receive, concat("the peer's message about transfer ", number));
        message message_in{};
        std::memcpy(&message_in, inbox().data(), sizeof message_in);
        if (message_in.content != content || message_in.number != number)
            throw failure(concat("expected message ", static_cast<int>(content), " about transfer ",
                                 number, ", got ", static_cast<int>(message_in.content), " about ",
                                 message_in.number));
    }

    role side_;
    bool may_send_;
    std::uint64_t verified_ = 0;
    std::vector<page> pages_;
    bytes memory_;
    connection conn_;
};

constexpr std::string_view usage =
    "usage: data_integrity server ADDR [--port P] [--timeout S] [--clients N]\n"
    "       data_integrity client ADDR [--port P] [--timeout S] [--rounds N] [--seed S]\n"
    "\n"
    "Moves data over RDMA by Send, Write and Read between two processes and verifies\n"
    "every byte. ADDR is the server's address, on an interface with an RDMA device.\n"
    "\n"
    "  --port P      port (default 7471)\n"
    "  --timeout S   seconds that any one wait may last (default 120)\n"
    "  --clients N   how many to serve; those before the last may fail (default 1)\n"
    "  --rounds N    how often to go through all sizes (default 1)\n"
    "  --seed S      what the pattern is drawn from (default 1)\n"
    "\n"
    "Exit status: 0 all verified, 1 mismatch or failure, 2 misuse, 77 no RDMA device.\n";

struct misuse : failure {
    using failure::failure;
};

struct options {
    role side{};
    std::string address, port = "7471";
    std::uint32_t rounds = 1, timeout = 120, clients = 1;
    std::uint64_t seed = 1;
};

template <class Number>
Number parse_number(std::string_view name, std::string_view value, Number min, Number max) {
    Number result{};
    const auto [stop, error] = std::from_chars(value.begin(), value.end(), result);
    if (error != std::errc{} || stop != value.end() || result < min || result > max)
        throw misuse(concat(name, ": not a number from ", min, " to ", max, ": ", value));
    return result;
}

options parse_options(std::span<char *> arguments) {
    if (arguments.size() < 2)
        throw misuse("which side, and which address?");
    const std::string_view side = arguments[0];
    if (side != "server" && side != "client")
        throw misuse(concat("neither server nor client: ", side));
    options o;
    o.side = side == "server" ? role::server : role::client;
    o.address = arguments[1];
    for (auto rest = arguments.subspan(2); !rest.empty(); rest = rest.subspan(2)) {
        const std::string_view name = rest[0];
        if (rest.size() < 2)
            throw misuse(concat("no value, or no such option: ", name));
        const std::string_view value = rest[1];
        if (name == "--port")
            o.port = std::to_string(parse_number<std::uint16_t>(name, value, 1, 65535));
        else if (name == "--timeout")
            o.timeout = parse_number<std::uint32_t>(name, value, 1, 86400);
        else if (name == "--clients" && o.side == role::server)
            o.clients = parse_number<std::uint32_t>(name, value, 1, 1000000);
        else if (o.side == role::server || name == "--clients")
            throw misuse(concat("not an option of the ", side, ": ", name));
        else if (name == "--rounds")
            o.rounds = parse_number<std::uint32_t>(name, value, 1, 1000000);
        else if (name == "--seed")
            o.seed = parse_number<std::uint64_t>(name, value, 0, UINT64_MAX);
        else
            throw misuse(concat("no such option: ", name));
    }
    return o;
}

bool has_device() {
    int count = 0;
    const unique_handle<ibv_device *, ibv_free_device_list> list(ibv_get_device_list(&count));
    return list && count > 0;
}

/// Serves one client, or is the client. Either side may be started first: a client that is refused
/// tries again. may_fail: the peer may die; then all outstanding WRs must still complete.
void run_side(const options &o, bool may_fail) {
    const connection::seconds timeout(o.timeout);
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    for (;;) {
        worker side_worker(o.side, timeout);
        try {
            if (o.side == role::server)
                side_worker.conn().accept_client(o.address, o.port, side_worker.inbox());
            else
                side_worker.conn().connect(o.address, o.port, o.seed, o.rounds);
            return side_worker.run();
        } catch (const refused &error) {
            if (std::chrono::steady_clock::now() > deadline)
                throw failure(concat(error.what(), " at ", o.address, " port ", o.port, ", after ",
                                     o.timeout, " s"));
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
        } catch (const failure &error) {
            if (!may_fail)
                throw;
            const unsigned failed = side_worker.conn().drain();
            std::cout << concat("data_integrity: ", error.what(), "; ", failed,
                                " requests failed\n")
                      << std::flush;
            return;
        }
    }
}

} // namespace

int main(int argc, char **argv) try {
    const std::span<char *> arguments(argv + 1, static_cast<std::size_t>(argc - 1));
    for (const std::string_view argument : arguments)
        if (argument == "--help") {
            std::cout << usage;
            return 0;
        }
    const options o = parse_options(arguments);
    if (!has_device()) {
        std::cerr << "data_integrity: no RDMA device here (softrdma makes one)\n";
        return 77;
    }
    for (std::uint32_t client = 1; client <= o.clients; ++client)
        run_side(o, client < o.clients);
    return 0;
} catch (const misuse &error) {
    std::cerr << concat("data_integrity: ", error.what(),
                        " (see data_integrity --help)\n"); // at once, not in pieces
    return 2;
} catch (const std::exception &error) {
    std::cerr << concat("data_integrity: ", error.what(), '\n');
    return 1;
}
