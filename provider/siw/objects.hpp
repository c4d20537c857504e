// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The objects of a siw device and the functions that several files use.
#pragma once

#include "common/create.hpp"
#include "common/doorbell.hpp"
#include "common/objects.hpp"
#include "common/qp_table.hpp"
#include "ring.hpp"

#include <cstdint>
#include <ctime>
#include <rdma/ib_user_ioctl_verbs.h>

namespace coherdma::provider::siw {

struct siw_cq;
struct siw_qp;

struct siw_context {
    ibv_context verbs;
    qp_table<siw_qp, siw_cq> qps;
    mutex event_mutex;
    ibv_pd *event_pd; ///< of cq_event.cpp, which holds event_mutex; nullptr: not needed yet
    std::uint8_t next_stag_key;
};

struct siw_cq {
    abi::verbs_cq verbs;
    cq_spinlock lock;
    cq_ring ring;
    bool has_qp_to_check;        ///< a QP with this send CQ may be in error
    std::uint64_t last_check_ns; ///< when check_qps_for_error() was last called by a poll
    siw_wq *flush_list;          ///< the SQs and RQs whose WQEs are flushed to this CQ
    siw_wq *next_to_flush;       ///< of the list: where a poll continues; nullptr: at its head
    bool may_have_wqe_to_flush;  ///< set by announce_wqe_to_flush()
    siw_qp *event_qp;            ///< of cq_event.cpp, which holds event_mutex
    std::uint32_t event_qp_num;
    bool has_event_cqe; ///< the next failed CQE of event_qp_num is no completion of the consumer
    ibv_wc cur_wc;      ///< between start_poll and end_poll

    /// Whether the kernel raises an event for the next completion.
    bool is_armed() noexcept { return std::atomic_ref(ring.ctrl->flags).load() != 0; }

    /// Whether a poll may have WQEs to flush or QPs to check for an error.
    bool needs_slow_poll() noexcept {
        return std::atomic_ref(may_have_wqe_to_flush).load(std::memory_order_relaxed) ||
               std::atomic_ref(has_qp_to_check).load(std::memory_order_relaxed);
    }

    /// After a WQE of a QP in error was published, or its queue was added to flush_list.
    // Ordering: a poll that reads the flag with acquire sees the WQE and the list. Sequentially
    // consistent, since the caller then loads whether the CQ is armed, and req_notify_cq() arms it
    // before polls load the flag: either a poll finds the WQE or the caller raises an event.
    void announce_wqe_to_flush() noexcept { std::atomic_ref(may_have_wqe_to_flush).exchange(true); }
};

struct siw_srq {
    abi::verbs_srq verbs;
    spinlock lock;
    wq_ring ring;
    std::uint32_t max_sge;
};

struct siw_qp {
    abi::verbs_qp verbs;
    qp_table_entry<siw_qp> entry;
    spinlock sq_lock, rq_lock;
    siw_wq sq, rq; ///< rq is not mapped if the QP has an SRQ
    doorbell sq_doorbell;
    std::uint32_t max_send_sge, max_recv_sge, max_inline_data;
    unsigned default_wqe_flags; ///< SIW_WQE_SIGNALLED if sq_sig_all
    bool connected_once;        ///< a doorbell has succeeded
    bool read_allowed;          ///< the peer accepts RDMA Reads
    bool may_be_in_error;       ///< a WQE is left after a doorbell: kernel busy, or QP in error
    bool in_error;              ///< this provider flushes the WQEs that the kernel has not taken
    // Between wr_start and wr_complete:
    std::uint32_t wr_end_index; ///< the index after the batch's last WQE
    siw_sqe *cur_wqe;           ///< the WQE that wr_set_* changes, or nullptr
    int wr_err;                 ///< the first error of the batch, or 0
};

inline siw_context &to_siw_context(ibv_context *context) noexcept {
    return container_of<siw_context>(context);
}
inline siw_cq &to_siw_cq(ibv_cq *ibcq) noexcept {
    return container_of<siw_cq>(ibcq);
}
inline siw_cq &to_siw_cq(ibv_cq_ex *ibcq) noexcept {
    return container_of<siw_cq>(ibcq);
}
inline siw_srq &to_siw_srq(ibv_srq *ibsrq) noexcept {
    return container_of<siw_srq>(ibsrq);
}
inline siw_qp &to_siw_qp(ibv_qp *ibqp) noexcept {
    return container_of<siw_qp>(ibqp);
}
inline siw_qp &to_siw_qp(ibv_qp_ex *ibqp) noexcept {
    return container_of<siw_qp>(ibqp);
}

inline constexpr std::uint64_t NS_PER_S = 1'000'000'000;
/// For intervals; a system call is not needed.
inline std::uint64_t get_time_ns() noexcept {
    timespec now = {};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * NS_PER_S +
           static_cast<std::uint64_t>(now.tv_nsec);
}

verbs_context *alloc_context(ibv_device *device, int cmd_fd, void *) noexcept;
verbs_context *import_context(ibv_device *device, int cmd_fd) noexcept;

/// All operations of the driver.
abi::verbs_context_ops make_context_ops() noexcept;

void fill_cq_ops(abi::verbs_context_ops &ops) noexcept;
void fill_mr_ops(abi::verbs_context_ops &ops) noexcept;
void fill_post_ops(abi::verbs_context_ops &ops) noexcept;
void fill_qp_ops(abi::verbs_context_ops &ops) noexcept;
void fill_srq_ops(abi::verbs_context_ops &ops) noexcept;

/// Sets the CQ's functions of the start_poll API.
void set_poll_ops(siw_cq &cq) noexcept;

/// Reads the next completion. Returns false if there is none.
bool poll_one(siw_cq &cq, ibv_wc &wc) noexcept;
/// The same; if there is none, checks the QPs for an error, at most every 50 ms, and reads again.
bool poll_first(siw_cq &cq, ibv_wc &wc) noexcept;

/// Discards a QP's CQEs that have not been polled, and the WQEs that were to be flushed to the CQ.
/// The caller holds the CQ's lock.
void discard_cqes(siw_cq &cq, const siw_qp &qp) noexcept;

/// Sets the QP's functions of the ibv_wr_* API that are in send_ops.
void set_wr_ops(siw_qp &qp, std::uint64_t send_ops) noexcept;

/// The send operations that every QP supports: bits of ibv_wr_opcodes.
inline constexpr std::uint64_t SEND_OPS = 1U << IBV_WR_RDMA_WRITE | 1U << IBV_WR_RDMA_READ |
                                          1U << IBV_WR_SEND | 1U << IBV_WR_SEND_WITH_INV;

/// Writes a WQE for each receive WR of the list. Returns 0 or an errno and sets *bad_wr.
int post_recvs(wq_ring &ring, spinlock &lock, std::uint32_t max_sge, ibv_recv_wr *wr,
               ibv_recv_wr **bad_wr) noexcept;

/// Moves a QP to ERR. From then on a poll of its CQs flushes the WQEs that the kernel has not
/// taken. Raises an event on each CQ that is armed and has such WQEs.
void move_qp_to_err(siw_qp &qp) noexcept;

/// move_qp_to_err() for the QP with that number, if it still exists.
void move_qp_num_to_err(siw_context &context, std::uint32_t qp_num) noexcept;

/// After a doorbell: sets may_be_in_error if the kernel has not taken the WQE.
void check_wqe_taken(siw_qp &qp, std::uint32_t index) noexcept;

/// Queries the QPs with this send CQ that may be in error, and moves those that are to ERR.
void check_qps_for_error(siw_cq &cq) noexcept;

/// Has the kernel raise an event on the CQ if it is armed. Called after announce_wqe_to_flush().
void force_cq_event(siw_cq &cq) noexcept;
/// Whether a failed completion is that of a QP that force_cq_event() made. The caller holds the
/// CQ's lock.
bool take_event_cqe(siw_cq &cq, std::uint32_t qp_num, std::uint64_t wr_id) noexcept;
/// Destroys the QP that force_cq_event() made, before the CQ.
void destroy_event_qp(siw_cq &cq) noexcept;

/// A QP that is not in the context's table. nullptr: errno is set.
siw_qp *create_unlisted_qp(ibv_pd *pd, ibv_qp_init_attr &attr) noexcept;
/// Returns 0 or an errno.
int destroy_unlisted_qp(siw_qp &qp) noexcept;

} // namespace coherdma::provider::siw
