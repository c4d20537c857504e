// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Many endpoints at once: all connect, then all transfer in both directions.

#include "ep_pair.hpp"
#include "modes.hpp"
#include "usage.hpp"

#include <cstring>
#include <vector>

namespace scale {

namespace {

constexpr std::size_t message_size = 256;

/// Each pair sends one message, from its active EP or to it, all at once. Each has its number in
/// it, and must come once. bytes: registered as lmr; its first half has what is sent, its second
/// what is received.
void send_one_message_per_pair(const shared_objects &shared, const std::vector<ep_pair> &ep_pairs,
                               bool from_active, const registered_lmr &lmr,
                               std::vector<std::byte> &bytes) {
    const std::size_t count = ep_pairs.size();
    for (std::size_t i = 0; i != count; ++i) {
        std::memset(&bytes[i * message_size], static_cast<int>((i + from_active) & 0xff),
                    message_size);
        std::memcpy(&bytes[i * message_size], &i, sizeof i);
        std::memset(&bytes[(count + i) * message_size], 0, message_size);
        post_recv(from_active ? ep_pairs[i].passive : ep_pairs[i].active,
                  lmr.make_triplet((count + i) * message_size, message_size), i);
    }
    for (std::size_t i = 0; i != count; ++i)
        post_send(from_active ? ep_pairs[i].active : ep_pairs[i].passive,
                  lmr.make_triplet(i * message_size, message_size), i);
    std::vector<bool> sent(count), received(count);
    for (std::size_t i = 0; i != count; ++i) {
        sent[expect_dto(shared.request_evd, message_size)].flip();
        received[expect_dto(shared.recv_evd, message_size)].flip();
    }
    for (std::size_t i = 0; i != count; ++i) {
        require(sent[i] && received[i], "each message is sent once and comes once");
        require(std::memcmp(&bytes[i * message_size], &bytes[(count + i) * message_size],
                            message_size) == 0,
                "each message comes as it was sent");
    }
}

/// Creates and connects `count` pairs, sends a message over each in both directions, and frees all.
void connect_and_exchange(const scale_ia &ia, std::size_t count) {
    const shared_objects shared(ia, static_cast<DAT_COUNT>(count));
    std::vector<std::byte> bytes(2 * count * message_size);
    const registered_lmr lmr(ia, bytes);
    std::vector<ep_pair> ep_pairs(count);
    for (ep_pair &eps : ep_pairs) {
        eps.create(shared);
        eps.connect(shared);
    }
    send_one_message_per_pair(shared, ep_pairs, /*from_active=*/true, lmr,
                              bytes); // iWARP: the active side sends first.
    send_one_message_per_pair(shared, ep_pairs, /*from_active=*/false, lmr, bytes);
    for (const ep_pair &eps : ep_pairs)
        eps.disconnect(shared);
    for (const ep_pair &eps : ep_pairs)
        eps.free();
    lmr.free();
}

} // namespace

void test_endpoints(const scale_ia &ia, std::size_t count) {
    connect_and_exchange(ia, count);
    const usage before = read_usage();
    connect_and_exchange(ia, count);
    connect_and_exchange(ia, count);
    require_no_growth("endpoints", before, read_usage());
}

} // namespace scale
