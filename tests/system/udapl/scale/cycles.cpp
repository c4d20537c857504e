// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Many connections in turn: connect, transfer, disconnect. Two of three reuse endpoints after
// dat_ep_reset, one has new endpoints.

#include "modes.hpp"
#include "pair.hpp"
#include "usage.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace scale {

namespace {

constexpr std::size_t size = 1024;

struct conversation {
    explicit conversation(const adapter &ia)
        : st(ia, 4) {
        both.make(st);
    }
    ~conversation() {
        both.end();
        memory.end();
    }
    conversation(const conversation &) = delete;
    conversation &operator=(const conversation &) = delete;

    void verify_message(DAT_EP_HANDLE active, DAT_EP_HANDLE passive, std::size_t number) {
        std::memset(bytes.data(), static_cast<int>(number & 0xff), size);
        std::memcpy(bytes.data(), &number, sizeof number);
        std::memset(&bytes[size], 0, size);
        send(active, memory.part(0, size), number);
        need(completed(st.receives, size) == number, "the message comes");
        need(completed(st.requests, size) == number, "the message is sent");
        need(std::memcmp(bytes.data(), &bytes[size], size) == 0, "it comes as it was sent");
        receive(passive, memory.part(size, size),
                number + 1); // It will be flushed, or not be seen.
    }

    void cycle(std::size_t number) {
        receive(both.passive, memory.part(size, size), 2 * number);
        receive(both.active, memory.part(size, size), 2 * number + 1);
        both.connect(st);
        verify_message(both.active, both.passive, 2 * number);
        verify_message(both.passive, both.active, 2 * number + 1);
        both.disconnect(st);
        flushed();
        if (number % 3 != 0)
            return both.reset();
        both.end();
        both.make(st);
    }

    /// Both ends' last receives.
    void flushed() {
        for (int i = 0; i != 2; ++i) {
            const DAT_EVENT event = next(st.receives, DAT_DTO_COMPLETION_EVENT);
            need(event.event_data.dto_completion_event_data.status == DAT_DTO_ERR_FLUSHED,
                 "what was not used is flushed");
        }
    }

    station st;
    pair both;
    std::vector<std::byte> bytes = std::vector<std::byte>(2 * size);
    region memory{st.ia, bytes};
};

} // namespace

void cycles(const adapter &ia, std::size_t count) {
    conversation test(ia);
    const std::size_t first = std::max<std::size_t>(count / 10, 30);
    for (std::size_t i = 0; i != first; ++i)
        test.cycle(i);
    const usage before = now();
    for (std::size_t i = first; i != first + count; ++i)
        test.cycle(i);
    not_more("cycles", before, now());
}

} // namespace scale
