// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a program and rdma_rxe share: slots of the rings, what responses carry, and the two commands
// that are written to the kernel without libibverbs. All of it is the kernel's interface, so none
// of it changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

namespace coherdma::provider::rxe {

/// Where a ring can be mapped, once.
struct place {
    std::uint64_t offset;
    std::uint32_t size;
    std::uint32_t unused;
};

struct places_of_pair {
    place receive, send;
};

struct place_of_shared {
    place where;
    std::uint32_t number;
    std::uint32_t unused;
};

/// A ring's beginning; its slots are behind. Both indices are always below the number of slots.
struct ring_head {
    std::uint32_t log2_slot;
    std::uint32_t mask;
    std::uint32_t unused1[30];
    std::uint32_t producer;
    std::uint32_t unused2[31];
    std::uint32_t consumer;
    std::uint32_t unused3[31];
};
static_assert(offsetof(ring_head, producer) == 128 && offsetof(ring_head, consumer) == 256);
static_assert(sizeof(ring_head) == 384);

/// How far the kernel is with a request's memory; behind it are ibv_sge, or the data itself.
struct progress {
    std::uint32_t length;
    std::uint32_t left;
    std::uint32_t piece;
    std::uint32_t pieces;
    std::uint32_t offset;
    std::uint32_t unused;
};
static_assert(sizeof(ibv_sge) == 16);

struct to_memory {
    std::uint64_t address;
    std::uint32_t key;
    std::uint32_t unused;
};
struct to_atomic {
    std::uint64_t address;
    std::uint64_t compare_add;
    std::uint64_t swap;
    std::uint32_t key;
    std::uint32_t unused;
};
struct to_datagram {
    std::uint32_t pair;
    std::uint32_t key;
    std::uint16_t partition;
    std::uint16_t unused;
    std::uint32_t handle; ///< never 0: then the kernel wanted the whole address here
};
struct to_flush {
    std::uint64_t address;
    std::uint32_t length;
    std::uint32_t key;
    std::uint8_t type;
    std::uint8_t level;
    std::uint16_t unused1;
    std::uint32_t unused2;
};
struct to_window {
    std::uint64_t address;
    std::uint64_t length;
    std::uint32_t region_key;
    std::uint32_t window_key;
    std::uint32_t new_key;
    std::uint32_t access;
};

/// A request to send. What is not named is the kernel's own.
struct send_slot {
    std::uint64_t id;
    std::uint32_t unused;
    std::uint32_t opcode; ///< an ibv_wr_opcode; the kernel does not check it
    std::uint32_t flags;  ///< of ibv_send_flags
    std::uint32_t extra;  ///< immediate data, or the key to invalidate
    union {
        to_memory memory;
        to_atomic atomic;
        to_datagram datagram;
        to_flush flush;
        to_window window;
        unsigned char room[120];
    } to;
    std::uint32_t status;
    std::uint32_t state;
    std::uint64_t remote;
    std::uint32_t kernel[5];
    std::uint32_t counts_as_read; ///< 0, or the kernel gives back a credit that it never took
    progress data;
};
static_assert(offsetof(send_slot, to) == 24 && offsetof(send_slot, status) == 144);
static_assert(offsetof(send_slot, remote) == 152 && offsetof(send_slot, counts_as_read) == 180);
static_assert(offsetof(to_datagram, handle) == 36 - 24 && offsetof(to_window, access) == 52 - 24);
static_assert(offsetof(send_slot, data) == 184 && sizeof(send_slot) == 208);

/// Younger than the oldest header of libibverbs: the opcodes, the operations to post them by parts,
/// what a device says that has them (of a flush: to either level), and how many bytes an atomic
/// write has, which are behind the slot.
inline constexpr std::uint32_t flush_opcode = 14;
inline constexpr std::uint32_t atomic_write_opcode = 15;
inline constexpr std::uint64_t flush_operation = std::uint64_t{1} << 11;
inline constexpr std::uint64_t atomic_write_operation = std::uint64_t{1} << 12;
inline constexpr std::uint64_t has_flush = std::uint64_t{3} << 38;
inline constexpr std::uint64_t has_atomic_write = std::uint64_t{1} << 40;
inline constexpr std::uint32_t atomic_write_bytes = 8;

struct receive_slot {
    std::uint64_t id;
    std::uint64_t unused;
    progress data;
};
static_assert(sizeof(receive_slot) == 40);

/// A completion as the kernel writes it is an ibv_wc but for one flag and the port at its end.
using completion_slot = ib_uverbs_wc;
static_assert(sizeof(completion_slot) == 48 && sizeof(ibv_wc) == 48);
static_assert(offsetof(ibv_wc, status) == offsetof(completion_slot, status));
static_assert(offsetof(ibv_wc, imm_data) == offsetof(completion_slot, ex));
static_assert(offsetof(ibv_wc, wc_flags) == offsetof(completion_slot, wc_flags));
static_assert(offsetof(ibv_wc, dlid_path_bits) == offsetof(completion_slot, dlid_path_bits));
inline constexpr unsigned kernel_says_grh = 1, kernel_says_imm = 2, kernel_says_inv = 4;

/// Asks for an event.
struct arming {
    std::uint32_t command = IB_USER_VERBS_CMD_REQ_NOTIFY_CQ;
    std::uint16_t in_words = 4;
    std::uint16_t out_words = 0;
    std::uint32_t queue = 0;
    std::uint32_t solicited_only = 0;
};
static_assert(sizeof(arming) == 16);

} // namespace coherdma::provider::rxe
