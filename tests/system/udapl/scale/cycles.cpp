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

constexpr std::size_t size = 1024;

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

    void verify_message(DAT_EP_HANDLE active, DAT_EP_HANDLE passive, std::size_t number) {
        std::memset(bytes.data(), static_cast<int>(number & 0xff), size);
        std::memcpy(bytes.data(), &number, sizeof number);
        std::memset(&bytes[size], 0, size);
        post_send(active, lmr.make_triplet(0, size), number);
        require(expect_dto(shared.recv_evd, size) == number, "the message comes");
        require(expect_dto(shared.request_evd, size) == number, "the message is sent");
        require(std::memcmp(bytes.data(), &bytes[size], size) == 0, "it comes as it was sent");
        post_recv(passive, lmr.make_triplet(size, size),
                  number + 1); // It will be flushed, or not be seen.
    }

    void run_cycle(std::size_t number) {
        post_recv(eps.passive, lmr.make_triplet(size, size), 2 * number);
        post_recv(eps.active, lmr.make_triplet(size, size), 2 * number + 1);
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

    /// Both ends' last receives.
    void expect_flushed_receives() {
        for (int i = 0; i != 2; ++i) {
            const DAT_EVENT event = wait_event(shared.recv_evd, DAT_DTO_COMPLETION_EVENT);
            require(event.event_data.dto_completion_event_data.status == DAT_DTO_ERR_FLUSHED,
                    "what was not used is flushed");
        }
    }

    shared_objects shared;
    ep_pair eps;
    std::vector<std::byte> bytes = std::vector<std::byte>(2 * size);
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
