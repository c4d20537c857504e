// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Emulated devices, and the state that all devices of a process share.
#pragma once

#include "core/cache/cache_model.hpp"
#include "page_view.hpp"
#include "pending_requests.hpp"
#include "unposted_requests.hpp"

#include <cstdint>
#include <functional>
#include <infiniband/verbs.h>
#include <memory>
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
    const ibv_mw *mw = nullptr; ///< of an MW's rkey
};

/// What an MW gives access by, if it is bound.
struct bound_mw {
    std::uint32_t rkey = 0;
    const void *qp = nullptr; ///< of type 2: its QP
};

/// An MR whose memory has a second copy.
struct emulated_mr {
    keyed_memory memory;
    std::uint32_t lkey = 0, rkey = 0;
    page_view view; ///< where the driver has registered it, if not at the program's address
};

/// An open device.
struct emulated_device {
    ibv_context *context = nullptr;
    std::string name;
    std::string driver;              ///< of the kernel: "rxe", "mlx5"; "" if it is not known
    std::uint32_t driver_number = 0; ///< not 0; the same for all devices of the driver

    std::shared_mutex mutex; ///< protects the following
    std::unordered_map<std::uint32_t, keyed_memory> by_lkey;
    std::unordered_map<std::uint32_t, keyed_memory> by_rkey; ///< MRs and MWs
    std::unordered_map<const ibv_mr *, emulated_mr> by_mr;
    /// By the number of the object: from the beginning of ibv_dereg_mr() to its end.
    std::unordered_map<std::uint64_t, emulated_mr> ending_mrs;
    std::unordered_map<const ibv_mw *, bound_mw> bound_mws; ///< their rkeys are in by_rkey
    std::unordered_map<const void *, std::unordered_set<const ibv_mw *>> mws_of_qps; ///< of type 2
    /// By the number of the QP or SRQ while it is being destroyed: its last request. Another one
    /// may get its address before the call returns.
    std::unordered_map<std::uint64_t, std::uint64_t> last_requests_of_ending;

    /// The program's memory that an SGE of its own WR names; empty if it is not emulated.
    addr_range find_memory_by_lkey(const ibv_sge &);
    /// This process's memory that a WR of a peer names; empty if not all of it is emulated.
    /// needed_access: the device refuses the WR if the MR or MW does not allow that.
    addr_range find_memory_by_rkey(const remote_memory &, int needed_access);

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
    pending_requests requests;
    unposted_requests unposted;

    explicit shared_state(const settings &);
};

/// Only if has_process_state().
shared_state &process_state() noexcept;
/// Whether this process has opened a device that is emulated.
bool has_process_state() noexcept;
/// nullptr: the device is not emulated.
emulated_device *find_device(const ibv_context *) noexcept;

emulated_device &add_device(std::unique_ptr<emulated_device>, const settings &);
/// Its open fails.
void remove_device(const ibv_context *) noexcept;
/// The device is being closed: find_device() does not return it, since another context may get its
/// address before the call returns.
void begin_close(const ibv_context *, std::uint64_t object_number);
/// It was closed: returns it, if it was emulated. Or that failed with this error.
std::unique_ptr<emulated_device> end_close(std::uint64_t object_number, int error);
void for_each_device(const std::function<void(emulated_device &)> &func);

/// In a child of fork(): there are no devices, and no shared state until it opens one. Threads of
/// the parent may have held any mutex.
void reset_devices_after_fork();

} // namespace coherdma::emulation
