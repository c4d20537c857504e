// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A fake kernel for a siw device. It can return invalid rings. It reads and writes rings only when
// a test calls a function for that.
#pragma once

#include "fake_kernel.hpp"

#include <cstdint>
#include <functional>
#include <rdma/siw-abi.h>

namespace fake {

class siw_kernel : public kernel {
  public:
    /// Alters what the kernel returns of the next rings.
    std::function<void(std::uint64_t &key, std::uint32_t &num_entries)> corrupt;
    std::function<int(std::uint32_t qp_handle)> on_doorbell; ///< returns the doorbell's 0 or errno
    std::function<void()> on_modify_qp, on_query_qp;         ///< called during the command
    ibv_qp_state state = IBV_QPS_RTS;                        ///< reported by query_qp
    std::uint8_t max_rd_atomic = 0, max_dest_rd_atomic = 1;  ///< reported by query_qp

    std::uint32_t num_entries(std::size_t ring_index) const { return num_entries_.at(ring_index); }
    template <class type>
    type &entry(std::size_t ring_index, std::uint32_t number) const {
        return reinterpret_cast<type *>(
            ring_memory(ring_index).addr)[number % num_entries(ring_index)];
    }
    siw_sqe &sqe(std::size_t ring_index, std::uint32_t number) const {
        return entry<siw_sqe>(ring_index, number);
    }
    siw_rqe &rqe(std::size_t ring_index, std::uint32_t number) const {
        return entry<siw_rqe>(ring_index, number);
    }
    siw_cq_ctrl &cq_ctrl(std::size_t ring_index) const {
        return *reinterpret_cast<siw_cq_ctrl *>(
            &entry<siw_cqe>(ring_index, num_entries(ring_index) - 1) + 1);
    }
    /// The next CQE in a CQ's ring, for the kernel to write.
    siw_cqe &next_cqe(std::size_t ring_index) {
        return entry<siw_cqe>(ring_index, num_cqes_added_[ring_index]++);
    }
    /// Writes it.
    void add_cqe(std::size_t ring_index, siw_cqe cqe);

  protected:
    int answer_driver(const command &cmd) override;

  private:
    const coherdma::abi::verbs_device_ops &device_ops() const override;
    int check_mapping(std::uint64_t offset, std::size_t bytes) override;
    std::uint64_t make_ring(std::uint32_t &entries, std::size_t entry_size,
                            std::size_t trailer_size = 0);
    /// Creates the rings of a QP; without a receive ring if max_recv_wr is 0, as for an SRQ.
    siw_uresp_create_qp add_qp(std::uint32_t handle, std::uint32_t max_send_wr,
                               std::uint32_t max_recv_wr);
    /// As siw_create_qp(), by xa_alloc().
    std::uint32_t lowest_free_qp_num();

    std::vector<std::uint32_t> num_entries_;              ///< by ring
    std::map<std::size_t, std::uint32_t> num_cqes_added_; ///< by ring
    std::map<std::uint32_t, std::uint32_t> qp_nums_;      ///< by handle
    std::uint32_t last_stag_index_ = 0;
};

} // namespace fake
