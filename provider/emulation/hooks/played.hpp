// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// An open device that is played, and what all of them in this process have in common.
#pragma once

#include "core/cache.hpp"
#include "interface.hpp"
#include "ledger.hpp"

#include <cstdint>
#include <infiniband/verbs.h>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace coherdma::emulation {

/// Registered memory, by its keys.
struct place {
    std::uint32_t number = 0; ///< of the cache's region
    span where;               ///< in the program
    std::uint64_t iova = 0;   ///< as requests name its begin
    int access = 0;
};

/// The functions of a queue pair's other face, as the driver has them.
struct parts;

struct played {
    ibv_context *verbs = nullptr;
    std::string device;
    rdma_driver_id driver = {};
    abi::operations under = {}; ///< the driver's
    int (*deregister)(abi::verbs_mr *) = nullptr;
    void (*set_operations)(ibv_context *, const abi::operations &) = nullptr;
    int (*start_poll)(ibv_cq_ex *, ibv_poll_cq_attr *) = nullptr;
    int (*next_poll)(ibv_cq_ex *) = nullptr;
    ledger requests;

    std::shared_mutex guard;                         ///< of what follows
    std::unordered_map<std::uint32_t, place> local;  ///< by lkey
    std::unordered_map<std::uint32_t, place> remote; ///< by rkey, of regions and windows
    std::unordered_map<const abi::verbs_mr *, place> regions;
    std::unordered_map<const ibv_qp *, std::unique_ptr<parts>> by_parts;
    std::unordered_set<const ibv_qp *> signalling; ///< all requests of these are signalled

    /// Where a piece is in the program; empty: nothing that is played.
    span where(const ibv_sge &);
    /// Where a peer means; empty: it is not, or not all of it, in anything that is played.
    span where_remote(std::uint32_t key, std::uint64_t remote, std::uint64_t length);
    bool signals_all(const ibv_qp *);

  private:
    span where_of_own(const ibv_sge &);
};

/// All of it in this process. Made with the first device and never destroyed: devices may be used
/// until the process is gone.
struct world {
    settings asked;
    findings told;
    cache memory;

    explicit world(const settings &);
};

/// Once there is a device.
world &here() noexcept;
bool is_begun() noexcept;
/// nullptr: it is not played.
played *find(const ibv_context *) noexcept;

played &add_device(std::unique_ptr<played>, const settings &);
void remove_device(const ibv_context *) noexcept;
void each_device(const std::function<void(played &)> &);

/// In a new process that is a copy of this one: what it has inherited is the driver's alone, and it
/// has no world until it opens a device itself. Threads of the old one may have held any lock.
void begin_anew();
/// What this process has inherited so. nullptr: it has not.
played *inherited(const ibv_context *) noexcept;

/// Puts our functions before the driver's.
void play_regions(abi::operations &able);
void play_posting(abi::operations &able);
void play_polling(abi::operations &able);
void play_pairs(abi::operations &able);

/// A piece of a request that is about to be posted: what it sends goes to the device, where it
/// receives is added to the sinks.
void prepare(played &on, ibv_wr_opcode, const ibv_sge &, std::vector<span> &sinks);
/// Whether it reads or writes a peer's memory.
bool reaches_memory(ibv_wr_opcode) noexcept;
/// A window has a key of its own, from the moment it is bound.
void note_window(played &on, const ibv_mw &, std::uint32_t key, const ibv_mw_bind_info &);

/// A queue pair's other face, if it has one.
void play_parts(played &on, ibv_qp *pair);
void give_back_parts(played &on) noexcept;

/// What a request of ours does with a peer's memory, before it is posted: whoever plays that memory
/// on this host looks at it.
void announce(played &on, const ibv_qp &pair, ibv_wr_opcode, std::uint64_t id, std::uint32_t key,
              std::uint64_t remote, std::uint64_t length);
/// It is this process's memory, there.
void look_at(span, ibv_wr_opcode, const deed &);

} // namespace coherdma::emulation
