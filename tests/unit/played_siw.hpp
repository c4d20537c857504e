// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The kernel's side of a siw device, played. It can lie about its rings, and does with them only
// what a test has it do.
#pragma once

#include "played_kernel.hpp"

#include <cstdint>
#include <functional>
#include <rdma/siw-abi.h>

namespace played {

class siw_kernel : public kernel {
  public:
    /// About the next rings: the key to map it, and how many slots it has.
    std::function<void(std::uint64_t &key, std::uint32_t &slots)> lie;
    std::function<int(std::uint32_t pair)> rung; ///< by the doorbell; 0 or an errno
    std::function<void()> modified, queried;     ///< a pair is just being
    ibv_qp_state state = IBV_QPS_RTS;            ///< of pairs that are asked for
    std::uint8_t peer_allows_reads = 1;          ///< of them, too

    /// How many slots a ring has.
    std::uint32_t slots(std::size_t ring) const { return slots_.at(ring); }
    template <class type>
    type &slot(std::size_t ring, std::uint32_t number) const {
        return reinterpret_cast<type *>(ring_memory(ring).at)[number % slots(ring)];
    }
    siw_sqe &send(std::size_t ring, std::uint32_t number) const {
        return slot<siw_sqe>(ring, number);
    }
    siw_rqe &receive(std::size_t ring, std::uint32_t number) const {
        return slot<siw_rqe>(ring, number);
    }
    siw_cq_ctrl &control(std::size_t ring) const {
        return *reinterpret_cast<siw_cq_ctrl *>(&slot<siw_cqe>(ring, slots(ring) - 1) + 1);
    }
    /// Puts the next completion into a queue's ring.
    void complete(std::size_t ring, siw_cqe what);

  private:
    verbs_context *open_own(ibv_device *device) override;
    int answer_own(const command &to) override;
    int may_map(std::uint64_t offset, std::size_t bytes) override;
    std::uint64_t make_ring(std::uint32_t &entries, std::size_t slot, std::size_t behind = 0);
    siw_uresp_create_qp make_pair(std::uint32_t sends, std::uint32_t receives);

    std::vector<std::uint32_t> slots_;
    std::map<std::size_t, std::uint32_t> completed_; ///< by ring
    std::uint32_t pairs_ = 0x12;
    std::uint32_t stags_ = 0;
};

} // namespace played
