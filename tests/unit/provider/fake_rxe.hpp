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
    static constexpr std::uint32_t mr_lkey = 0x11, mr_rkey = 0x22, qp_num = 0x123456;

    std::function<void(rxe::mminfo &, rxe::rxe_queue_buf &)> corrupt; ///< alters the next rings
    std::uint64_t device_cap_flags_ex = 0;                            ///< reported by query_device
    ibv_qp_state state = IBV_QPS_RTS;                                 ///< reported by query_qp

    /// The rings in the order of creation.
    rxe::rxe_queue_buf &ring(std::size_t index) const {
        return *reinterpret_cast<rxe::rxe_queue_buf *>(ring_memory(index).addr);
    }

  protected:
    int answer_driver(const command &cmd) override;

  private:
    const coherdma::abi::verbs_device_ops &device_ops() const override;
    int answer_extended(const command &cmd);
    /// A ring that holds min_entries at a time: one of its entries stays unused.
    rxe::mminfo make_ring(std::uint32_t min_entries, std::size_t entry_size);
};

} // namespace fake
