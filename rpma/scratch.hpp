// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Memory that a flush reads to, if the device has no native flush.
#pragma once

#include "handle.hpp"

struct rpma_peer;

namespace coherdma::rpma {

/// A page of its own: after ibv_fork_init() a child process lacks the pages that are registered.
class flush_scratch {
  public:
    flush_scratch() = default;
    flush_scratch(flush_scratch &&) = delete;
    ~flush_scratch() {
        const errno_guard guard;
        destroy();
    }

    /// 0, or an RPMA_E_* value.
    int create(rpma_peer &peer) noexcept;
    /// 0, or the RPMA_E_* value of the first failure.
    int destroy() noexcept;
    /// Length 0 before create().
    const ibv_sge &sge() const noexcept { return sge_; }

  private:
    void *page_ = nullptr;
    unique_mr mr_;
    ibv_sge sge_ = {};
};

} // namespace coherdma::rpma
