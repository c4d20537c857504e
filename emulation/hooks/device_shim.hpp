// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Emulated devices: the functions of the emulation are called in place of the driver's, which they
// call in turn. And the state that all devices of a process share.
#pragma once

#include "core/cache/cache_model.hpp"
#include "interface.hpp"
#include "pending_wr.hpp"

#include <cstdint>
#include <infiniband/verbs.h>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace coherdma::emulation {

/// Memory that a key gives access to.
struct keyed_memory {
    std::uint32_t mr_number = 0; ///< in the cache
    addr_range range;            ///< in the program
    std::uint64_t iova = 0;      ///< of range.begin, in work requests
    int access_flags = 0;
};

struct qp_ex_state;

/// An open device.
struct emulated_device {
    ibv_context *ctx = nullptr;
    std::string name;
    rdma_driver_id driver_id = {};
    abi::verbs_context_ops driver_ops = {};
    int (*kernel_dereg_mr)(abi::verbs_mr *) = nullptr;
    void (*set_ops)(ibv_context *, const abi::verbs_context_ops &) = nullptr;
    int (*driver_start_poll)(ibv_cq_ex *, ibv_poll_cq_attr *) = nullptr;
    int (*driver_next_poll)(ibv_cq_ex *) = nullptr;
    pending_wr_table pending_wrs;

    std::shared_mutex mutex; ///< protects the following
    std::unordered_map<std::uint32_t, keyed_memory> by_lkey;
    std::unordered_map<std::uint32_t, keyed_memory> by_rkey; ///< MRs and MWs
    std::unordered_map<const abi::verbs_mr *, keyed_memory> by_mr;
    std::unordered_map<const ibv_qp *, std::unique_ptr<qp_ex_state>> qp_ex_states;
    std::unordered_set<const ibv_qp *> sig_all_qps; ///< created with sq_sig_all

    /// The program's memory that an SGE of its own WR names; empty if it is not emulated.
    addr_range find_memory_by_lkey(const ibv_sge &);
    /// This process's memory that a WR of a peer names; empty if not all of it is emulated.
    addr_range find_memory_by_rkey(std::uint32_t rkey, std::uint64_t remote_addr,
                                   std::uint64_t length);
    bool is_sig_all(const ibv_qp *);

  private:
    addr_range find_own_memory_by_lkey(const ibv_sge &);
};

/// Created with the first device and never destroyed: threads may use devices until the process
/// ends.
struct shared_state {
    settings config;
    std::string mode; ///< mode_text() of config
    finding_log log;
    cache_model cache;

    explicit shared_state(const settings &);
};

/// Only if has_process_state().
shared_state &process_state() noexcept;
/// Whether this process has opened a device that is emulated.
bool has_process_state() noexcept;
/// nullptr: the device is not emulated.
emulated_device *find_device(const ibv_context *) noexcept;

emulated_device &add_device(std::unique_ptr<emulated_device>, const settings &);
void remove_device(const ibv_context *) noexcept;
void for_each_device(const std::function<void(emulated_device &)> &func);

/// In a child of fork(): inherited devices get the driver's functions back, and there is no shared
/// state until the child opens a device. Threads of the parent may have held any mutex.
void reset_devices_after_fork();
/// A device inherited from the parent; nullptr: it was not inherited.
emulated_device *find_inherited_device(const ibv_context *) noexcept;

/// Replace functions of the driver's table.
void hook_mr_ops(abi::verbs_context_ops &);
void hook_post_ops(abi::verbs_context_ops &);
void hook_poll_ops(abi::verbs_context_ops &);
void hook_qp_ops(abi::verbs_context_ops &);

/// Before a WR is posted, for each of its SGEs: writes the memory back, or checks that the program
/// did so; adds it to the sinks if the device will write it.
void prepare_sge(emulated_device &, ibv_wr_opcode, const ibv_sge &, pending_wr &);
/// "RDMA Read of 64 bytes, wr_id 0x7 of QP 17, by process 9 (rping)", with the stack.
mem_access describe_wr(const ibv_qp &, ibv_wr_opcode, std::uint64_t wr_id, std::uint64_t length);
mem_access describe_recv(std::uint64_t wr_id, std::uint64_t length);
/// Whether the WR reads or writes memory of the peer.
bool accesses_remote_memory(ibv_wr_opcode) noexcept;
/// The MW gets a new rkey when it is bound.
void record_mw_bind(emulated_device &, const ibv_mw &, std::uint32_t rkey,
                    const ibv_mw_bind_info &);

/// The ibv_wr_* functions of a QP.
void hook_wr_api(emulated_device &, ibv_qp *qp);
void unhook_wr_api(emulated_device &) noexcept;

/// Before a WR that accesses remote memory is posted: checks that memory in the process of this
/// host that emulates it.
void check_remote_access(emulated_device &, const ibv_qp &qp, ibv_wr_opcode, std::uint64_t wr_id,
                         std::uint32_t rkey, std::uint64_t remote_addr, std::uint64_t length);
/// Checks memory of this process for a WR that a peer is about to post.
void check_peer_access(addr_range, ibv_wr_opcode, const mem_access &);

} // namespace coherdma::emulation
