// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Many connections in turn: connect, transfer, disconnect. Two of three reuse endpoints after
// dat_ep_reset, one has new endpoints.

#include "ep_pair.hpp"
#include "modes.hpp"
#include "usage.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace scale {

namespace {

constexpr std::size_t message_size = 1024;

struct connection_test {
    explicit connection_test(const scale_ia &ia)
        : shared(ia, 4) {
        eps.create(shared);
    }
    ~connection_test() {
        eps.free();
        lmr.free();
    }
    connection_test(const connection_test &) = delete;
    connection_test &operator=(const connection_test &) = delete;

    /// Sends a message, which is told by its number, to the receive that has the same number as
    /// cookie. Leaves the receiver with another receive, which the disconnect flushes.
    void verify_message(DAT_EP_HANDLE sender, DAT_EP_HANDLE receiver, std::size_t number) {
        std::memset(bytes.data(), static_cast<int>(number & 0xff), message_size);
        std::memcpy(bytes.data(), &number, sizeof number);
        std::memset(&bytes[message_size], 0, message_size);
        post_send(sender, lmr.make_triplet(0, message_size), number);
        require(expect_dto(shared.recv_evd, message_size) == number, "the message comes");
        require(expect_dto(shared.request_evd, message_size) == number, "the message is sent");
        require(std::memcmp(bytes.data(), &bytes[message_size], message_size) == 0,
                "it comes as it was sent");
        post_recv(receiver, lmr.make_triplet(message_size, message_size), number + 1);
    }

    /// Connects, sends a message each way, and disconnects; then resets both EPs, or, every third
    /// time, replaces them.
    void run_cycle(std::size_t number) {
        post_recv(eps.passive, lmr.make_triplet(message_size, message_size), 2 * number);
        post_recv(eps.active, lmr.make_triplet(message_size, message_size), 2 * number + 1);
        eps.connect(shared);
        verify_message(eps.active, eps.passive, 2 * number);
        verify_message(eps.passive, eps.active, 2 * number + 1);
        eps.disconnect(shared);
        expect_flushed_receives();
        if (number % 3 != 0)
            return eps.reset();
        eps.free();
        eps.create(shared);
    }

    /// The receives that verify_message has left at both ends.
    void expect_flushed_receives() {
        for (int i = 0; i != 2; ++i) {
            const DAT_EVENT event = wait_event(shared.recv_evd, DAT_DTO_COMPLETION_EVENT);
            require(event.event_data.dto_completion_event_data.status == DAT_DTO_ERR_FLUSHED,
                    "what was not used is flushed");
        }
    }

    shared_objects shared;
    ep_pair eps;
    std::vector<std::byte> bytes = std::vector<std::byte>(2 * message_size);
    registered_lmr lmr{shared.ia, bytes};
};

} // namespace

void test_cycles(const scale_ia &ia, std::size_t count) {
    connection_test test(ia);
    const std::size_t num_warmup = std::max<std::size_t>(count / 10, 30);
    for (std::size_t i = 0; i != num_warmup; ++i)
        test.run_cycle(i);
    const usage before = read_usage();
    for (std::size_t i = num_warmup; i != num_warmup + count; ++i)
        test.run_cycle(i);
    require_no_growth("cycles", before, read_usage());
}

} // namespace scale
