// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Many endpoints at once: all connect, then all transfer in both directions.

#include "modes.hpp"
#include "pair.hpp"
#include "usage.hpp"

#include <cstring>
#include <vector>

namespace scale {

namespace {

constexpr std::size_t size = 256;

/// Each message has its number in it, and comes once.
void all_talk(const station &st, const std::vector<pair> &pairs, bool forth, const region &memory,
              std::vector<std::byte> &bytes) {
    const std::size_t count = pairs.size();
    for (std::size_t i = 0; i != count; ++i) {
        std::memset(&bytes[i * size], static_cast<int>((i + forth) & 0xff), size);
        std::memcpy(&bytes[i * size], &i, sizeof i);
        std::memset(&bytes[(count + i) * size], 0, size);
        receive(forth ? pairs[i].passive : pairs[i].active, memory.part((count + i) * size, size),
                i);
    }
    for (std::size_t i = 0; i != count; ++i)
        send(forth ? pairs[i].active : pairs[i].passive, memory.part(i * size, size), i);
    std::vector<bool> sent(count), came(count);
    for (std::size_t i = 0; i != count; ++i) {
        sent[completed(st.requests, size)].flip();
        came[completed(st.receives, size)].flip();
    }
    for (std::size_t i = 0; i != count; ++i) {
        need(sent[i] && came[i], "each message is sent once and comes once");
        need(std::memcmp(&bytes[i * size], &bytes[(count + i) * size], size) == 0,
             "each message comes as it was sent");
    }
}

void round(const adapter &ia, std::size_t count) {
    const station st(ia, static_cast<DAT_COUNT>(count));
    std::vector<std::byte> bytes(2 * count * size);
    const region memory(ia, bytes);
    std::vector<pair> pairs(count);
    for (pair &each : pairs) {
        each.make(st);
        each.connect(st);
    }
    all_talk(st, pairs, true, memory, bytes); // iWARP: the active side sends first.
    all_talk(st, pairs, false, memory, bytes);
    for (const pair &each : pairs)
        each.disconnect(st);
    for (const pair &each : pairs)
        each.end();
    memory.end();
}

} // namespace

void endpoints(const adapter &ia, std::size_t count) {
    round(ia, count);
    const usage before = now();
    round(ia, count);
    round(ia, count);
    not_more("endpoints", before, now());
}

} // namespace scale
