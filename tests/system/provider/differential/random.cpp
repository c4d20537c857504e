// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Requests chosen at random, by seed: of each step some, posted one after another.

#include "groups.hpp"
#include "requests.hpp"

#include <random>

namespace differential {
namespace {

using generator = std::mt19937_64;

// The same with every C++ library, which std::uniform_int_distribution is not.
unsigned pick(generator &random, std::size_t count) {
    return static_cast<unsigned>(random() % count);
}

// A request that both providers must execute in the same way.
struct choice {
    int opcode;
    unsigned flags;
    shape data;
};
choice choose(generator &random, bool is_rxe) {
    constexpr std::array rxe_opcodes{IBV_WR_SEND,
                                     IBV_WR_RDMA_WRITE,
                                     IBV_WR_RDMA_READ,
                                     IBV_WR_SEND_WITH_IMM,
                                     IBV_WR_RDMA_WRITE_WITH_IMM,
                                     IBV_WR_ATOMIC_CMP_AND_SWP,
                                     IBV_WR_ATOMIC_FETCH_AND_ADD};
    constexpr std::size_t num_siw_opcodes = 3;
    choice result{
        rxe_opcodes.at(pick(random, is_rxe ? rxe_opcodes.size() : num_siw_opcodes)), 0, {}};
    const int opcode = result.opcode;
    const bool is_read = opcode == IBV_WR_RDMA_READ;
    const bool is_atomic =
        opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    if (pick(random, 2) != 0)
        result.flags |= IBV_SEND_SIGNALED;
    if (pick(random, 4) == 0)
        result.flags |= IBV_SEND_SOLICITED;
    if (pick(random, 4) == 0 && is_rxe && !is_atomic) // stops siw and stalls atomics of rxe
        result.flags |= IBV_SEND_FENCE;
    const bool is_inline = !is_read && !is_atomic && pick(random, 3) == 0;
    if (is_inline)
        result.flags |= IBV_SEND_INLINE;
    const std::size_t num_sge = is_atomic || (is_read && !is_rxe) ? 1 : pick(random, 5);
    std::vector<std::uint32_t> lengths;
    for (std::size_t i = 0; i < num_sge; ++i)
        lengths.push_back(is_atomic ? 8 : is_inline ? 1 + pick(random, 16) : 1 + pick(random, 200));
    if (is_read && !is_rxe)
        lengths = {1 + pick(random, 200)};
    result.data = {lengths};
    return result;
}

void run_step(const environment &env, qp_pair &qps, generator &random, record &record) {
    qps.prepare(pick(random, 100));
    const unsigned count = 1 + pick(random, 6);
    std::string posts;
    for (unsigned i = 0; i < count; ++i) {
        const choice choice = choose(random, env.options.is_rxe());
        // Each request has its own memory, so that their order on the wire does not matter.
        constexpr std::size_t stride = 1000;
        request request = make_request(qps, choice.opcode, choice.flags, choice.data, i);
        for (ibv_sge &sge : request.sg_list)
            sge.addr += i * stride;
        request.wr.sg_list = request.sg_list.data();
        if (choice.opcode > IBV_WR_RDMA_READ)
            request.wr.wr.atomic = {qps.b->addr(128 + i * stride), i, 7, qps.b->mr->rkey};
        else if (choice.opcode != IBV_WR_SEND && choice.opcode != IBV_WR_SEND_WITH_IMM)
            request.wr.wr.rdma.remote_addr += i * stride;
        if (consumes_recv(choice.opcode))
            check(qps.b->post_recv(100 + i), "post a receive");
        ibv_send_wr *bad_wr = nullptr;
        const int error = ibv_post_send(qps.a->qp, &request.wr, &bad_wr);
        posts += concat(',', opcode_name(choice.opcode), ':', flags_name(choice.flags), ':',
                        choice.data.name(), ':', error_name(error));
    }
    record.add("posts", posts.substr(1));
    // On siw the stock provider completes what follows a Read before it.
    qps.finish(record, !env.options.is_rxe());
}

} // namespace

void run_random(const environment &env, runner &runner) {
    qp_pair qps(env, make_options(env));
    for (unsigned step = 0; step < env.options.steps; ++step)
        runner.run(concat("random/", env.options.seed, '/', step), [&](record &record) {
            constexpr std::uint64_t max_steps = 1U << 20;
            generator random(env.options.seed * max_steps + step);
            run_step(env, qps, random, record);
        });
}

} // namespace differential
