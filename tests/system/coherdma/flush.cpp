// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Tests libcoherdma's flushes on a device: prints "right" or "wrong" for each trial, and the
// result. It compiles with any rdma-core, so the same program runs with different libraries.
//
// flush DEVICE GID_INDEX [TRIAL...]

#include "../lib/connected_qps.hpp"

#include <array>
#include <coherdma/coherdma.h>
#include <coherdma/experimental.h>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace {

using namespace verbs_test;

// Constants of <infiniband/verbs.h> since rdma-core 45.
constexpr unsigned flush_access = 1 << 8;
constexpr std::uint64_t flush_send_op = std::uint64_t{1} << 11; ///< IBV_QP_EX_WITH_FLUSH
constexpr unsigned flush_wc_opcode = 8;                         ///< IBV_WC_FLUSH

constexpr unsigned local_access = IBV_ACCESS_LOCAL_WRITE;
constexpr unsigned remote_write_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
constexpr unsigned remote_flush_access = remote_write_access | flush_access;
constexpr unsigned qp_flush_access = endpoint::qp_access | flush_access;
constexpr std::uint32_t length = sizeof(endpoint::memory);
// An emulated machine on a busy host can be slow.
constexpr std::uint8_t ack_timeout = 17; // half a second
constexpr std::uint64_t signaled_id = 77, unsignaled_id = 78;
constexpr milliseconds long_timeout{20000}, short_timeout{200};

void connect_endpoints(const endpoint &requester, const endpoint &responder,
                       unsigned access = endpoint::qp_access) {
    connect(requester, responder, access, ack_timeout);
}

/// The libcoherdma handle of an endpoint's QP, and the method of its flushes: "native" is RDMA
/// FLUSH, "read back" an RDMA Read of the last bytes.
struct flush_qp {
    unique_handle<coherdma_qp, coherdma_close_qp> qp;
    std::string_view method;
    explicit flush_qp(const endpoint &flusher) {
        qp = check(decltype(qp)(coherdma_open_qp(flusher.qp.get())), "coherdma_open_qp");
        coherdma_qp_attr attr{};
        check(coherdma_query_qp(qp.get(), &attr, sizeof attr), "coherdma_query_qp");
        method = coherdma_method_str(attr.flush);
    }
};

std::uint64_t address_of(const endpoint &ep, std::size_t offset = 0) {
    return reinterpret_cast<std::uintptr_t>(ep.memory.data() + offset);
}

/// With other data in each round.
void fill_memory(endpoint &requester, unsigned round) {
    for (std::size_t offset = 0; offset < length; ++offset)
        requester.memory[offset] = std::byte(offset * 7 + round * 13 + offset / 256);
}

/// An unsignaled RDMA Write of the whole memory.
void post_write_of_memory(const endpoint &requester, const endpoint &responder) {
    ibv_sge data = requester.make_sge(length);
    ibv_send_wr request = requester.make_wr(IBV_WR_RDMA_WRITE, data, responder), *bad = nullptr;
    request.send_flags = 0;
    check(ibv_post_send(requester.qp.get(), &request, &bad), "post a Write");
}

struct completion_info {
    bool has_completion = false;
    unsigned opcode = 0;
    ibv_wc_status status = IBV_WC_SUCCESS;
    std::uint64_t id = 0;
};
/// Without a completion within the timeout, has_completion is false.
completion_info wait_completion(const endpoint &ep, milliseconds timeout) {
    const auto wc = ep.wait_completion(timeout);
    if (!wc)
        return {};
    return {true, static_cast<unsigned>(wc->opcode), wc->status, wc->wr_id};
}

/// Posts a signaled flush of that range of the responder's memory, and waits for its completion.
/// scratch: where a read-back may read to; a native flush needs none.
completion_info flush_range(const endpoint &requester, const flush_qp &flusher,
                            const endpoint &responder, std::uint64_t addr, std::uint64_t bytes,
                            const ibv_sge *scratch) {
    check(coherdma_post_flush(flusher.qp.get(), signaled_id, COHERDMA_POST_COMPLETION_ALWAYS,
                              responder.mr->rkey, addr, bytes, scratch),
          "post a flush");
    return wait_completion(requester, long_timeout);
}

/// Right: the QP flushes by that method, and the signaled flush has completed with this error.
outcome judge_failed_flush(const flush_qp &flusher, std::string_view method,
                           const completion_info &wc, ibv_wc_status status) {
    const char *const status_text =
        wc.has_completion ? ibv_wc_status_str(wc.status) : "no completion";
    return {flusher.method == method && wc.has_completion && wc.status == status &&
                wc.id == signaled_id,
            concat(flusher.method, ", ", status_text)};
}

// In each round a Write, an unsignaled flush of it, and a signaled flush of all but the first and
// last byte: the signaled one completes as a flush, and the data have arrived. The responder
// permits flushes but no Reads, so a success cannot be a read-back.
outcome native(const device &dev) {
    constexpr unsigned rounds = 200;
    endpoint requester(dev, {.extended = true, .extra_send_ops = flush_send_op});
    const endpoint responder(dev, {.mr_access = remote_flush_access});
    connect_endpoints(requester, responder, remote_flush_access);
    const flush_qp flusher(requester);
    if (flusher.method != "native")
        return {false, std::string(flusher.method)};
    for (unsigned round = 0; round < rounds; ++round) {
        fill_memory(requester, round);
        post_write_of_memory(requester, responder);
        check(coherdma_post_flush(flusher.qp.get(), unsignaled_id,
                                  COHERDMA_POST_COMPLETION_ON_ERROR, responder.mr->rkey,
                                  address_of(responder), length, nullptr),
              "post a flush");
        const completion_info wc = flush_range(requester, flusher, responder,
                                               address_of(responder, 1), length - 2, nullptr);
        if (!wc.has_completion || wc.status != IBV_WC_SUCCESS || wc.id != signaled_id ||
            wc.opcode != flush_wc_opcode)
            return {false,
                    concat("in round ", round, ": ",
                           wc.has_completion ? ibv_wc_status_str(wc.status) : "no completion",
                           ", opcode ", wc.opcode, ", id ", wc.id)};
        if (responder.memory != requester.memory)
            return {false, concat("in round ", round, " the written data are missing")};
    }
    if (wait_completion(requester, short_timeout).has_completion)
        return {false, "a completion of no request"};
    return {true, concat(flusher.method, ", ", rounds, " times")};
}

// A native flush of an MR that does not permit flushes fails. Reads are permitted, so a read-back
// would succeed.
outcome native_without_permission(const device &dev) {
    const endpoint requester(dev, {.extended = true, .extra_send_ops = flush_send_op}),
        responder(dev);
    connect_endpoints(requester, responder, qp_flush_access);
    const flush_qp flusher(requester);
    return judge_failed_flush(
        flusher, "native",
        flush_range(requester, flusher, responder, address_of(responder), length, nullptr),
        IBV_WC_REM_ACCESS_ERR);
}

// A native flush through a QP whose peer permits none fails, although the MR permits it.
outcome native_without_qp_permission(const device &dev) {
    const endpoint requester(dev, {.extended = true, .extra_send_ops = flush_send_op}),
        responder(dev, {.mr_access = default_mr_access | flush_access});
    connect_endpoints(requester, responder);
    const flush_qp flusher(requester);
    return judge_failed_flush(
        flusher, "native",
        flush_range(requester, flusher, responder, address_of(responder), length, nullptr),
        IBV_WC_REM_INV_REQ_ERR);
}

// A native flush that ends 8 bytes behind the MR fails.
outcome native_out_of_bounds(const device &dev) {
    const endpoint requester(dev, {.extended = true, .extra_send_ops = flush_send_op}),
        responder(dev, {.mr_access = remote_flush_access});
    connect_endpoints(requester, responder, qp_flush_access);
    const flush_qp flusher(requester);
    return judge_failed_flush(
        flusher, "native",
        flush_range(requester, flusher, responder, address_of(responder, 8), length, nullptr),
        IBV_WC_REM_ACCESS_ERR);
}

// A QP that was created without flush support flushes by an RDMA Read: the data of the Write before
// it have arrived, and the last bytes of the range are in the scratch memory.
outcome read_back(const device &dev) {
    constexpr std::size_t num_read = 8;
    endpoint requester(dev);
    const endpoint responder(dev);
    connect_endpoints(requester, responder);
    const flush_qp flusher(requester);
    std::array<std::byte, 64> scratch{};
    const unique_handle<ibv_mr, ibv_dereg_mr> scratch_mr =
        check(unique_handle<ibv_mr, ibv_dereg_mr>(
                  ibv_reg_mr(requester.pd.get(), scratch.data(), scratch.size(), local_access)),
              "register memory");
    const ibv_sge scratch_sge = {reinterpret_cast<std::uintptr_t>(scratch.data()), scratch.size(),
                                 scratch_mr->lkey};
    fill_memory(requester, 1);
    post_write_of_memory(requester, responder);
    const completion_info wc =
        flush_range(requester, flusher, responder, address_of(responder), length, &scratch_sge);
    const bool has_written_data = responder.memory == requester.memory;
    const bool has_read_end =
        std::memcmp(scratch.data(), requester.memory.data() + length - num_read, num_read) == 0;
    return {flusher.method == "read back" && wc.has_completion && wc.status == IBV_WC_SUCCESS &&
                wc.opcode == IBV_WC_RDMA_READ && wc.id == signaled_id && has_written_data &&
                has_read_end,
            concat(flusher.method, ", ",
                   wc.has_completion ? ibv_wc_status_str(wc.status) : "no completion",
                   has_written_data ? "" : ", the written data are missing",
                   has_read_end ? "" : ", the end was not read")};
}

// A read-back of memory that permits no Reads fails.
outcome read_back_without_permission(const device &dev) {
    const endpoint requester(dev), responder(dev, {.mr_access = remote_write_access});
    connect_endpoints(requester, responder);
    const flush_qp flusher(requester);
    const ibv_sge scratch_sge = requester.make_sge(8);
    return judge_failed_flush(
        flusher, "read back",
        flush_range(requester, flusher, responder, address_of(responder), length, &scratch_sge),
        IBV_WC_REM_ACCESS_ERR);
}

constexpr std::array trials{
    trial<device>{"native", native},
    trial<device>{"native-without-permission", native_without_permission},
    trial<device>{"native-without-qp-permission", native_without_qp_permission},
    trial<device>{"native-out-of-bounds", native_out_of_bounds},
    trial<device>{"read-back", read_back},
    trial<device>{"read-back-without-permission", read_back_without_permission},
};

} // namespace

int main(int argc, char **argv) {
    return run_program(argc, argv, "flush DEVICE GID_INDEX", trials,
                       [](auto words) { return open_device(words[1], std::atoi(words[2])); });
}
