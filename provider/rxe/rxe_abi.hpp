// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The user interface of rdma_rxe, with the names of <rdma/rdma_user_rxe.h>: WQEs, CQEs, queues, the
// driver's parts of commands and responses, and a command that is written without libibverbs. It is
// declared here because in Debian 12's header flexible arrays have size 1 in C++, and flush is
// missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

namespace coherdma::provider::rxe {

/// Offset and size for mmap() of a queue, which the kernel permits once.
struct mminfo {
    std::uint64_t offset;
    std::uint32_t size;
    std::uint32_t pad;
};

struct rxe_create_ah_resp {
    std::uint32_t ah_num;
    std::uint32_t reserved;
};

struct rxe_create_cq_resp {
    mminfo mi;
};

struct rxe_resize_cq_resp {
    mminfo mi;
};

struct rxe_create_qp_resp {
    mminfo rq_mi;
    mminfo sq_mi;
};

struct rxe_create_srq_resp {
    mminfo mi;
    std::uint32_t srq_num;
    std::uint32_t reserved;
};

struct rxe_modify_srq_cmd {
    std::uint64_t mmap_info_addr;
};

/// The header of a queue; the entries follow. Both indices are less than the number of entries.
struct rxe_queue_buf {
    std::uint32_t log2_elem_size;
    std::uint32_t index_mask;
    std::uint32_t pad_1[30];
    std::uint32_t producer_index;
    std::uint32_t pad_2[31];
    std::uint32_t consumer_index;
    std::uint32_t pad_3[31];
};
static_assert(offsetof(rxe_queue_buf, producer_index) == 128);
static_assert(offsetof(rxe_queue_buf, consumer_index) == 256);
static_assert(sizeof(rxe_queue_buf) == 384);

/// The kernel's progress through the data of a WQE. The SGEs or inline data follow.
struct rxe_dma_info {
    std::uint32_t length;
    std::uint32_t resid;
    std::uint32_t cur_sge;
    std::uint32_t num_sge;
    std::uint32_t sge_offset;
    std::uint32_t reserved;
};
static_assert(sizeof(ibv_sge) == 16);

struct rxe_rdma_wr {
    std::uint64_t remote_addr;
    std::uint32_t rkey;
    std::uint32_t reserved;
};
struct rxe_atomic_wr {
    std::uint64_t remote_addr;
    std::uint64_t compare_add;
    std::uint64_t swap;
    std::uint32_t rkey;
    std::uint32_t reserved;
};
struct rxe_ud_wr {
    std::uint32_t remote_qpn;
    std::uint32_t remote_qkey;
    std::uint16_t pkey_index;
    std::uint16_t reserved;
    std::uint32_t ah_num; ///< if 0, the kernel uses the address vector in the WQE
};
struct rxe_flush_wr {
    std::uint64_t remote_addr;
    std::uint32_t length;
    std::uint32_t rkey;
    std::uint8_t type;
    std::uint8_t level;
    std::uint16_t reserved_1;
    std::uint32_t reserved_2;
};
struct rxe_mw_wr {
    std::uint64_t addr;
    std::uint64_t length;
    std::uint32_t mr_lkey;
    std::uint32_t mw_rkey;
    std::uint32_t rkey;
    std::uint32_t access;
};

struct rxe_send_wr {
    std::uint64_t wr_id;
    std::uint32_t reserved;
    std::uint32_t opcode;     ///< an ibv_wr_opcode; the kernel does not check it
    std::uint32_t send_flags; ///< ibv_send_flags
    union {
        std::uint32_t imm_data;
        std::uint32_t invalidate_rkey;
    } ex;
    union {
        rxe_rdma_wr rdma;
        rxe_atomic_wr atomic;
        rxe_ud_wr ud;
        rxe_flush_wr flush;
        rxe_mw_wr mw;
        unsigned char pad[120];
    } wr;
};

struct rxe_send_wqe {
    rxe_send_wr wr;
    std::uint32_t status;
    std::uint32_t state;
    std::uint64_t iova;
    std::uint32_t mask;
    std::uint32_t first_psn;
    std::uint32_t last_psn;
    std::uint32_t ack_length;
    std::uint32_t ssn;
    std::uint32_t has_rd_atomic; ///< if not 0, the kernel releases a read credit it did not take
    rxe_dma_info dma;
};
static_assert(offsetof(rxe_send_wr, wr) == 24 && offsetof(rxe_send_wqe, status) == 144);
static_assert(offsetof(rxe_send_wqe, iova) == 152 && offsetof(rxe_send_wqe, has_rd_atomic) == 180);
static_assert(offsetof(rxe_ud_wr, ah_num) == 36 - 24 && offsetof(rxe_mw_wr, access) == 52 - 24);
static_assert(offsetof(rxe_send_wqe, dma) == 184 && sizeof(rxe_send_wqe) == 208);

struct rxe_recv_wqe {
    std::uint64_t wr_id;
    std::uint32_t reserved;
    std::uint32_t padding;
    rxe_dma_info dma;
};
static_assert(sizeof(rxe_recv_wqe) == 40);

/// A CQE is an ibv_wc except for wc_flags and, at its end, the port number.
using rxe_cqe = ib_uverbs_wc;
static_assert(sizeof(rxe_cqe) == 48 && sizeof(ibv_wc) == 48);
static_assert(offsetof(ibv_wc, status) == offsetof(rxe_cqe, status));
static_assert(offsetof(ibv_wc, imm_data) == offsetof(rxe_cqe, ex));
static_assert(offsetof(ibv_wc, wc_flags) == offsetof(rxe_cqe, wc_flags));
static_assert(offsetof(ibv_wc, dlid_path_bits) == offsetof(rxe_cqe, dlid_path_bits));
/// The kernel's ib_wc_flags.
inline constexpr unsigned IB_WC_GRH = 1, IB_WC_WITH_IMM = 2, IB_WC_WITH_INVALIDATE = 4;

/// Opcodes, send operations and device capabilities that the oldest supported libibverbs headers
/// lack.
inline constexpr std::uint32_t WR_FLUSH = 14;
inline constexpr std::uint32_t WR_ATOMIC_WRITE = 15;
inline constexpr std::uint64_t QP_EX_WITH_FLUSH = std::uint64_t{1} << 11;
inline constexpr std::uint64_t QP_EX_WITH_ATOMIC_WRITE = std::uint64_t{1} << 12;
inline constexpr std::uint64_t DEVICE_FLUSH_GLOBAL_AND_PERSISTENT = std::uint64_t{3} << 38;
inline constexpr std::uint64_t DEVICE_ATOMIC_WRITE = std::uint64_t{1} << 40;
/// The size of an atomic's operand.
inline constexpr std::uint32_t ATOMIC_SIZE = 8;
/// The size of an atomic write's data, which follow the WQE.
inline constexpr std::uint32_t ATOMIC_WRITE_SIZE = 8;

/// ib_uverbs_cmd_hdr and ib_uverbs_req_notify_cq.
struct req_notify_cq_cmd {
    std::uint32_t command = IB_USER_VERBS_CMD_REQ_NOTIFY_CQ;
    std::uint16_t in_words = 4;
    std::uint16_t out_words = 0;
    std::uint32_t cq_handle = 0;
    std::uint32_t solicited_only = 0;
};
static_assert(sizeof(req_notify_cq_cmd) == 16);

} // namespace coherdma::provider::rxe
