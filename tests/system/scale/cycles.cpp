// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Many connections, one after the other: connect, talk, disconnect. Of three, two are of endpoints
// that were reset, and one is of new ones.

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
        : at(ia, 4) {
        both.make(at);
    }
    ~conversation() {
        both.end();
        memory.end();
    }
    conversation(const conversation &) = delete;
    conversation &operator=(const conversation &) = delete;

    void said(DAT_EP_HANDLE from, DAT_EP_HANDLE to, std::size_t number) {
        std::memset(bytes.data(), static_cast<int>(number & 0xff), size);
        std::memcpy(bytes.data(), &number, sizeof number);
        std::memset(&bytes[size], 0, size);
        send(from, memory.part(0, size), number);
        need(completed(at.receives, size) == number, "the message comes");
        need(completed(at.requests, size) == number, "the message is sent");
        need(std::memcmp(bytes.data(), &bytes[size], size) == 0, "it comes as it was sent");
        receive(to, memory.part(size, size), number + 1); // It will be flushed, or not be seen.
    }

    void cycle(std::size_t number) {
        receive(both.passive, memory.part(size, size), 2 * number);
        receive(both.active, memory.part(size, size), 2 * number + 1);
        both.connect(at);
        said(both.active, both.passive, 2 * number);
        said(both.passive, both.active, 2 * number + 1);
        both.disconnect(at);
        flushed();
        if (number % 3 != 0)
            return both.reset();
        both.end();
        both.make(at);
    }

    /// Both ends' last receives.
    void flushed() {
        for (int i = 0; i != 2; ++i) {
            const DAT_EVENT event = next(at.receives, DAT_DTO_COMPLETION_EVENT);
            need(event.event_data.dto_completion_event_data.status == DAT_DTO_ERR_FLUSHED,
                 "what was not used is flushed");
        }
    }

    station at;
    pair both;
    std::vector<std::byte> bytes = std::vector<std::byte>(2 * size);
    region memory{at.ia, bytes};
};

} // namespace

void cycles(const adapter &ia, std::size_t count) {
    conversation one(ia);
    const std::size_t first = std::max<std::size_t>(count / 10, 30);
    for (std::size_t i = 0; i != first; ++i)
        one.cycle(i);
    const usage before = now();
    for (std::size_t i = first; i != first + count; ++i)
        one.cycle(i);
    not_more("cycles", before, now());
}

} // namespace scale
