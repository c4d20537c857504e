// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A fake kernel for an rxe device. It can return invalid rings.
#pragma once

#include "fake_kernel.hpp"
#include "rxe/rxe_abi.hpp"

#include <cstdint>
#include <functional>

namespace fake {

namespace rxe = coherdma::provider::rxe;

class rxe_kernel : public kernel {
  public:
    /// What the kernel returns for each created object.
    static constexpr std::uint32_t mr_lkey = 0x11, mr_rkey = 0x22;
    static constexpr std::uint32_t qp_num = 0x123456; ///< of the first QP

    /// How many numbers QPs have, in a circle: more than there are QPs at a time.
    std::uint32_t num_qp_nums = 1U << 16;

    std::function<void(rxe::mminfo &, rxe::rxe_queue_buf &)> corrupt; ///< alters the next rings
    std::uint64_t device_cap_flags_ex = 0;                            ///< reported by query_device
    ibv_qp_state state = IBV_QPS_RTS;                                 ///< reported by query_qp

    /// The rings in the order of creation.
    rxe::rxe_queue_buf &ring(std::size_t index) const {
        return *reinterpret_cast<rxe::rxe_queue_buf *>(ring_memory(index).addr);
    }

  protected:
    int answer_driver(const command &cmd) override;
    /// Of a QP that exists.
    std::uint32_t find_qp_num(std::uint32_t handle) const { return qp_nums_.at(handle); }

  private:
    const coherdma::abi::verbs_device_ops &device_ops() const override;
    int answer_extended(const command &cmd);
    /// The next one that is free, as __rxe_add_to_pool() takes it with xa_alloc_cyclic().
    std::uint32_t add_qp_num(std::uint32_t handle);
    /// A ring that holds min_entries at a time: one of its entries stays unused.
    rxe::mminfo make_ring(std::uint32_t min_entries, std::size_t entry_size);

    std::map<std::uint32_t, std::uint32_t> qp_nums_; ///< by handle
    std::uint32_t num_qps_added_ = 0;                ///< with the numbers that were not free
};

} // namespace fake
