// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A QP with its PD, CQs and memory. The members are plain handles: a case destroys what it likes,
// sets the member to null, and the destructor destroys the rest in order.

#pragma once

#include "../../lib/verbs.hpp"
#include "corpus.hpp"

#include <cstddef>
#include <cstdint>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

namespace check_corpus {

using verbs_test::check;
using verbs_test::concat;
using verbs_test::failure;

constexpr unsigned full_access =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

constexpr unsigned signaled = IBV_SEND_SIGNALED, unsignaled = 0; ///< flags of a send

struct endpoint_options {
    int cqe = 16;           ///< of each CQ
    bool single_cq = false; ///< for sends and receives
    bool use_srq = false;
    bool extended = false;   ///< ibv_wr_* and ibv_start_poll()
    bool sq_sig_all = false; ///< each send is signaled
    std::uint32_t max_wr = 8;
};

struct endpoint {
    static constexpr std::size_t memory_size = 16384;

    std::byte *memory = nullptr; ///< whole pages
    ibv_context *context = nullptr;
    rdma_cm_id *id = nullptr; ///< if rdma_cm connects
    ibv_pd *pd = nullptr;
    ibv_mr *mr = nullptr; ///< of the whole memory
    ibv_comp_channel *channel = nullptr;
    ibv_cq *send_cq = nullptr, *recv_cq = nullptr;
    ibv_srq *srq = nullptr;
    ibv_qp *qp = nullptr;
    std::uint32_t max_send_wr = 0; ///< as granted
    /// Whether the destructor takes the QP to ERR first: requests of it may be outstanding.
    bool in_doubt = false;

    endpoint() = default;
    endpoint(const endpoint &) = delete;
    endpoint &operator=(const endpoint &) = delete;
    ~endpoint();

    /// In the context, which stays the caller's. With an id, rdma_cm creates the QP.
    void create(ibv_context *device_context, const endpoint_options &options = {});
    void destroy_qp();

    ibv_qp_ex *qp_ex() const { return ibv_qp_to_qp_ex(qp); }
    ibv_cq_ex *recv_cq_ex() const { return reinterpret_cast<ibv_cq_ex *>(recv_cq); }
    ibv_cq_ex *send_cq_ex() const { return reinterpret_cast<ibv_cq_ex *>(send_cq); }
    ibv_sge sge(std::uint32_t length = 64, std::size_t offset = 0) const {
        return {reinterpret_cast<std::uintptr_t>(memory + offset), length, mr->lkey};
    }
    ibv_mr *register_memory(unsigned access = full_access) const {
        return check(ibv_reg_mr(pd, memory, memory_size, access), "register memory");
    }

    void to_init() const;
    void to_state(ibv_qp_state state) const;
    void post_recv(const ibv_sge &sge) const;
    void post_recv() const { post_recv(sge()); }
    void post_send(ibv_wr_opcode opcode, const ibv_sge &sge, const endpoint &peer,
                   unsigned flags = signaled) const;

  private:
    void create_cqs(const endpoint_options &options);
    void create_qp(const endpoint_options &options);
};

/// A send with one SGE. Its remote memory is the beginning of the peer's.
struct send_request {
    ibv_sge sge;
    ibv_send_wr wr{};

    send_request(ibv_wr_opcode opcode, const ibv_sge &local, const endpoint *peer = nullptr,
                 unsigned flags = signaled);
    send_request(const send_request &) = delete;
    send_request &operator=(const send_request &) = delete;
};

struct recv_request {
    ibv_sge sge;
    ibv_recv_wr wr{};

    explicit recv_request(const ibv_sge &local);
    recv_request(const recv_request &) = delete;
    recv_request &operator=(const recv_request &) = delete;
};

/// Polls until there is a completion, and returns it.
ibv_wc wait_any(ibv_cq *cq, const char *operation);
/// The same, and it must be a success.
ibv_wc wait_success(ibv_cq *cq, const char *operation);
/// Waits until a completion is in the CQ, without polling it.
void let_complete();

} // namespace check_corpus
