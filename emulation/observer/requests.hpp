// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "devices.hpp"
#include "interposer/observer.hpp"

namespace coherdma::emulation {

/// Before a WR is posted: local memory that it reads or writes is written back; for a sink, so that
/// no later eviction overwrites the received data. If the program has to do that, it is checked.
/// The process that emulates the remote memory checks that.
void prepare_send(emulated_device &, const interposer::request &, const ibv_send_wr &);
/// It was posted, or was not: what its checks have found is reported, or dropped.
void end_checks(const interposer::request &, bool is_posted);
/// The queue is destroyed: those that were begun are not posted.
void drop_checks(const void *queue);
void prepare_receive(emulated_device &, const interposer::request &, const ibv_recv_wr &);

/// Before the program sees the completion: fetches what the device wrote, unless the program has to
/// do that.
void complete_requests(const interposer::completion &);

/// A QP or SRQ is being destroyed, and was, or that failed with this error.
void begin_destroy_queue(emulated_device &, std::uint64_t object_number);
void end_destroy_queue(emulated_device &, const void *queue, std::uint64_t object_number,
                       int error);

/// "RDMA Read of 64 bytes, wr_id 0x7 of QP 17, by process 9 (rping)", with the stack.
mem_access describe_send(const ibv_qp &, ibv_wr_opcode, std::uint64_t wr_id, std::uint64_t length);
mem_access describe_receive(std::uint64_t wr_id, std::uint64_t length);

/// Before a WR that accesses remote memory is posted: checks that memory in the process of this
/// host that emulates it.
void check_remote_access(emulated_device &, const ibv_qp &, ibv_wr_opcode, std::uint64_t wr_id,
                         const remote_memory &, request_checks &);
/// Checks memory of this process for a WR that is about to be posted.
void check_peer_access(addr_range, ibv_wr_opcode, const mem_access &, unposted_checks &);
[[nodiscard]] bool accesses_remote_memory(ibv_wr_opcode) noexcept;
/// What the MR or MW must allow: flags of ibv_access_flags.
[[nodiscard]] int needed_access(ibv_wr_opcode) noexcept;

} // namespace coherdma::emulation
