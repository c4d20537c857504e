// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Posts to QPs in RTS: each opcode with flags and SGEs, by ibv_post_send() and by ibv_wr_*, lists,
// and receives.

#include "groups.hpp"
#include "requests.hpp"

#include <algorithm>
#include <cstdlib>

namespace differential {
namespace {

constexpr std::array types{std::pair{IBV_QPT_RC, "rc"}, std::pair{IBV_QPT_UC, "uc"},
                           std::pair{IBV_QPT_UD, "ud"}};

bool is_atomic(int opcode) {
    return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

// Whether the kernel has a patch of scripts/lab/patches, or may have it.
bool may_have_patch(std::string_view name) {
    const char *const missing = std::getenv("SOFTRDMA_MISSING_PATCHES");
    return missing == nullptr || std::string_view(missing).find(name) == std::string_view::npos;
}

// Requests that stop or crash the kernel, with each provider.
bool stops_kernel(const environment &env, int opcode, unsigned flags, const shape &shape) {
    static const bool completes_fenced_atomics =
        may_have_patch("RDMA-rxe-return-a-request-s-share-of-rd_atomic-when-it-is-sent-again");
    static const bool sends_empty_segments =
        may_have_patch("RDMA-siw-leave-out-empty-segments-of-a-send");
    if (opcode > IBV_WR_SEND_WITH_INV) // beyond the kernel's opcodes
        return true;
    const bool is_fenced = (flags & IBV_SEND_FENCE) != 0,
               is_inline = (flags & IBV_SEND_INLINE) != 0;
    if (env.options.is_rxe())
        return is_fenced && is_atomic(opcode) && !completes_fenced_atomics;
    const bool has_empty =
        shape.lengths.size() > 1 &&
        std::ranges::find(shape.lengths, std::uint32_t{0}) != shape.lengths.end();
    // siw stops the SQ at Reads with other than one SGE or a fence, and at inline data of other
    // requests than Send and Write.
    return (has_empty && !sends_empty_segments) ||
           (opcode == IBV_WR_RDMA_READ && (shape.num_sge != 1 || is_fenced)) ||
           (is_inline && (opcode == IBV_WR_SEND_WITH_INV || opcode == IBV_WR_RDMA_READ));
}

// Whether a program can post this by ibv_wr_*: with valid flags and a valid number of SGEs, by a
// function that a QP of this type was created with.
bool has_function(ibv_qp_type type, int opcode, unsigned flags, const shape &shape) {
    if (shape.num_sge > 4 || flags >> 5 != 0)
        return false;
    const bool is_send = opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM;
    const bool is_write = opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    return is_send || (is_write && type == IBV_QPT_UC) || type == IBV_QPT_RC;
}

const std::vector<shape> &all_shapes() {
    static const std::vector<shape> shapes{
        {{}},
        {{0}},
        {{1}},
        {{8}},
        {{63}},
        {{64}},
        {{65}},
        {{1024}},
        {{1025}},
        {{4096}},
        {{4, 4}},
        {{8, 0}},
        {{0, 8}},
        {{33, 1}},
        {{1000, 500}},
        {{16, 16, 16, 16}},
        {{16, 16, 16, 17}},
        {{4, 4, 4, 4, 4}},
        {{8}, 1, true},
        {{8, 8}, 2, true},
    };
    return shapes;
}
constexpr std::array all_flags{
    0U,
    unsigned{IBV_SEND_SIGNALED},
    unsigned{IBV_SEND_SIGNALED | IBV_SEND_FENCE},
    unsigned{IBV_SEND_SIGNALED | IBV_SEND_SOLICITED},
    unsigned{IBV_SEND_SIGNALED | IBV_SEND_INLINE},
    unsigned{IBV_SEND_INLINE},
    unsigned{IBV_SEND_SIGNALED | IBV_SEND_INLINE | IBV_SEND_FENCE | IBV_SEND_SOLICITED},
    unsigned{IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM},
    unsigned{IBV_SEND_SIGNALED | 1U << 7},
};

// Posts one request, and records the result of the post and how all posted WRs complete.
void post_and_record(qp_pair &qps, int opcode, unsigned flags, const shape &shape, record &record) {
    if (consumes_recv(opcode))
        check(qps.b->post_recv(2), "post the receive");
    request request = make_request(qps, opcode, flags, shape, 1);
    if (qps.a->options.extended) {
        record.add("post", error_name(post_extended(qps, {request})));
    } else {
        request.wr.sg_list = request.sg_list.data();
        ibv_send_wr *bad_wr = nullptr;
        const int error = ibv_post_send(qps.a->qp, &request.wr, &bad_wr);
        record.add("post", error_name(error));
        if (error != 0)
            record.add("bad_wr", bad_wr == &request.wr ? "first" : bad_wr ? "other" : "unset");
    }
    qps.finish(record);
}

void run_posts_of(const environment &env, runner &runner, const qp_options &options,
                  const std::string &prefix) {
    qp_pair qps(env, options);
    for (int opcode = 0; opcode < num_opcodes; ++opcode)
        for (const unsigned flags : all_flags)
            for (const shape &shape : all_shapes()) {
                if (options.extended && !has_function(options.type, opcode, flags, shape))
                    continue;
                const std::string name = concat(prefix, '/', opcode_name(opcode), '/',
                                                flags_name(flags), '/', shape.name());
                runner.run(name, [&](record &record) {
                    if (stops_kernel(env, opcode, flags, shape)) {
                        record.add("left_out", "stops_the_kernel");
                        return;
                    }
                    qps.prepare(static_cast<unsigned>(opcode));
                    post_and_record(qps, opcode, flags, shape, record);
                });
            }
}

} // namespace

void run_posts(const environment &env, runner &runner) {
    qp_options options = make_options(env);
    for (const auto &[type, type_name] : types) {
        if (type != IBV_QPT_RC && !env.options.is_rxe())
            continue;
        options.type = type;
        run_posts_of(env, runner, options, concat("post/", type_name));
    }
}

// The stock provider of siw has no extended QPs.
void run_extended_posts(const environment &env, runner &runner) {
    if (!env.options.is_rxe())
        return;
    qp_options options = make_options(env);
    options.extended = true;
    for (const auto &[type, type_name] : types) {
        options.type = type;
        run_posts_of(env, runner, options, concat("post_ex/", type_name));
    }
}

} // namespace differential
