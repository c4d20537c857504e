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

constexpr std::size_t size = 256;

/// Each message has its number in it, and comes once.
void exchange_messages(const shared_objects &shared, const std::vector<ep_pair> &ep_pairs,
                       bool from_active, const registered_lmr &lmr, std::vector<std::byte> &bytes) {
    const std::size_t count = ep_pairs.size();
    for (std::size_t i = 0; i != count; ++i) {
        std::memset(&bytes[i * size], static_cast<int>((i + from_active) & 0xff), size);
        std::memcpy(&bytes[i * size], &i, sizeof i);
        std::memset(&bytes[(count + i) * size], 0, size);
        post_recv(from_active ? ep_pairs[i].passive : ep_pairs[i].active,
                  lmr.make_triplet((count + i) * size, size), i);
    }
    for (std::size_t i = 0; i != count; ++i)
        post_send(from_active ? ep_pairs[i].active : ep_pairs[i].passive,
                  lmr.make_triplet(i * size, size), i);
    std::vector<bool> sent(count), received(count);
    for (std::size_t i = 0; i != count; ++i) {
        sent[expect_dto(shared.request_evd, size)].flip();
        received[expect_dto(shared.recv_evd, size)].flip();
    }
    for (std::size_t i = 0; i != count; ++i) {
        require(sent[i] && received[i], "each message is sent once and comes once");
        require(std::memcmp(&bytes[i * size], &bytes[(count + i) * size], size) == 0,
                "each message comes as it was sent");
    }
}

void run_round(const scale_ia &ia, std::size_t count) {
    const shared_objects shared(ia, static_cast<DAT_COUNT>(count));
    std::vector<std::byte> bytes(2 * count * size);
    const registered_lmr lmr(ia, bytes);
    std::vector<ep_pair> ep_pairs(count);
    for (ep_pair &eps : ep_pairs) {
        eps.create(shared);
        eps.connect(shared);
    }
    exchange_messages(shared, ep_pairs, true, lmr, bytes); // iWARP: the active side sends first.
    exchange_messages(shared, ep_pairs, false, lmr, bytes);
    for (const ep_pair &eps : ep_pairs)
        eps.disconnect(shared);
    for (const ep_pair &eps : ep_pairs)
        eps.free();
    lmr.free();
}

} // namespace

void test_endpoints(const scale_ia &ia, std::size_t count) {
    run_round(ia, count);
    const usage before = read_usage();
    run_round(ia, count);
    run_round(ia, count);
    require_no_growth("endpoints", before, read_usage());
}

} // namespace scale
