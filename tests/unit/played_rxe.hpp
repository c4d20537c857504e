// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The kernel's side of an rxe device, played. It can lie about its rings.
#pragma once

#include "played_kernel.hpp"
#include "rxe/kernel.hpp"

#include <cstdint>
#include <functional>

namespace played {

namespace rxe = coherdma::provider::rxe;

class rxe_kernel : public kernel {
  public:
    std::function<void(rxe::place &, rxe::ring_head &)> lie; ///< about the next rings

    /// The rings, in the order in which they were made.
    rxe::ring_head &ring(std::size_t number) const {
        return *reinterpret_cast<rxe::ring_head *>(ring_memory(number).at);
    }

  private:
    verbs_context *open_own(ibv_device *device) override;
    int answer_own(const command &to) override;
    int answer_extended(const command &to);
    rxe::place make_ring(std::uint32_t entries, std::size_t slot);
};

} // namespace played
