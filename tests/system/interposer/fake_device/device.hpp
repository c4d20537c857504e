// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The fake device, as a program uses it. What the program does is counted, by the names that the
// observer counts by.
#pragma once

#include "cmocka.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <infiniband/verbs.h>
#include <memory>
#include <vector>

struct tally {
    std::atomic<unsigned long> sends = 0, send_bytes = 0, receives = 0, refused = 0,
                               completions = 0, failed = 0, unknown = 0, silent = 0, pds = 0,
                               mrs = 0, mws = 0, cqs = 0, srqs = 0, qps = 0, ahs = 0, contexts = 0;
};
inline tally counted;

/// No other one of this process.
std::uint64_t next_wr_id() noexcept;

template <class object>
object *counted_object(object *created, std::atomic<unsigned long> &count) {
    assert_non_null(created);
    ++count;
    return created;
}

template <auto destroy>
struct destroyer {
    template <class object>
    void operator()(object *destroyed) const noexcept {
        destroy(destroyed);
    }
};
template <class object, auto destroy>
using owner = std::unique_ptr<object, destroyer<destroy>>;
using qp_owner = owner<ibv_qp, ibv_destroy_qp>;
using cq_owner = owner<ibv_cq, ibv_destroy_cq>;
using srq_owner = owner<ibv_srq, ibv_destroy_srq>;
using mw_owner = owner<ibv_mw, ibv_dealloc_mw>;
using ah_owner = owner<ibv_ah, ibv_destroy_ah>;

inline constexpr std::uint64_t ALL_SEND_OPS =
    IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_SEND_WITH_INV |
    IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
    IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_BIND_MW;

/// Of a QP that is to be created.
struct qp_options {
    ibv_cq *cq = nullptr; ///< nullptr: the device's
    ibv_srq *srq = nullptr;
    std::uint32_t depth = 16;
    std::uint64_t send_ops_flags = 0;
    ibv_qp_type type = IBV_QPT_RC;
    bool is_sig_all = false;
    bool uses_driver = false; ///< created by a function of the driver
};

/// An open device with a PD, one MR and a CQ.
class device {
  public:
    static constexpr std::size_t NUM_WORDS = 1024;

    device();
    ~device();
    device(const device &) = delete;
    device &operator=(const device &) = delete;

    cq_owner create_cq() const;
    /// single_threaded: the other variant of start_poll.
    cq_owner create_cq_ex(bool single_threaded) const;
    srq_owner create_srq(std::uint32_t max_wr) const;
    mw_owner alloc_mw(ibv_mw_type) const;
    ah_owner create_ah() const;
    /// In INIT.
    qp_owner create_qp(const qp_options & = {}) const;
    /// Connected to itself, in RTS.
    qp_owner create_connected_qp(const qp_options & = {}) const;

    /// Of words in memory.
    ibv_sge sge(std::size_t first, std::size_t count = 1) const noexcept;
    std::uint64_t addr(std::size_t word) const noexcept;

    ibv_context *context = nullptr;
    ibv_pd *pd = nullptr;
    ibv_mr *mr = nullptr;
    ibv_cq *cq = nullptr;
    std::array<std::uint64_t, NUM_WORDS> memory{};
};

void set_state(ibv_qp *, ibv_qp_state);
/// From RESET or INIT to RTS.
void connect(ibv_qp *, std::uint32_t dest_qp_num);

/// A list of WRs.
template <class wr_type>
class wr_list {
  public:
    /// With a wr_id of its own. The SGE has its data; an empty one: no data.
    wr_type &add(const ibv_sge &sge = {}) {
        sges_.push_back(std::make_unique<ibv_sge>(sge));
        wrs_.push_back(std::make_unique<wr_type>());
        wr_type &wr = *wrs_.back();
        wr.wr_id = next_wr_id();
        wr.sg_list = sges_.back().get();
        wr.num_sge = sge.length != 0 ? 1 : 0;
        if (wrs_.size() > 1)
            wrs_[wrs_.size() - 2]->next = &wr;
        return wr;
    }
    wr_type &operator[](std::size_t index) noexcept { return *wrs_[index]; }
    std::size_t size() const noexcept { return wrs_.size(); }
    wr_type *first() noexcept { return wrs_.front().get(); }

  private:
    std::vector<std::unique_ptr<ibv_sge>> sges_;
    std::vector<std::unique_ptr<wr_type>> wrs_;
};
using send_list = wr_list<ibv_send_wr>;
using receive_list = wr_list<ibv_recv_wr>;

/// Adds a signaled send of the SGE.
ibv_send_wr &add_send(send_list &, const ibv_sge &, ibv_wr_opcode = IBV_WR_SEND);

/// What ibv_post_*() returns. bad_wr: nullptr as long as the call does not set it.
int post(ibv_qp *, send_list &, ibv_send_wr **bad_wr = nullptr);
int post(ibv_qp *, receive_list &, ibv_recv_wr **bad_wr = nullptr);
int post(ibv_srq *, receive_list &, ibv_recv_wr **bad_wr = nullptr);
/// One request, which is accepted. Returns its wr_id.
std::uint64_t post_send(ibv_qp *, const ibv_sge &, ibv_wr_opcode = IBV_WR_SEND);
std::uint64_t post_receive(ibv_qp *, const ibv_sge &);

/// Counts a request that was begun by an ibv_wr_* function.
void count_wr(std::size_t length) noexcept;

/// All completions of the CQ, by ibv_poll_cq().
std::vector<ibv_wc> poll_all(ibv_cq *);
/// By start_poll and next_poll.
std::vector<ibv_wc> poll_all_ex(ibv_cq *);

/// The CQ has these and no others, of this status.
void expect_wr_ids(const std::vector<ibv_wc> &, const std::vector<std::uint64_t> &,
                   ibv_wc_status = IBV_WC_SUCCESS);
