// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <coherdma/coherdma.h>
#include <infiniband/verbs.h>
#include <memory>
#include <string>
#include <vector>

namespace tools {

/// Which rules libcoherdma evaluates: those up to the first that decides, or all.
enum class rule_scope { UNTIL_DECIDED, ALL };

/// A device opened with libcoherdma, and with libibverbs if possible.
class device {
  public:
    /// Throws std::runtime_error.
    device(const std::string &name, rule_scope scope);

    const coherdma_device_attr &attr() const { return attr_; }
    coherdma_device *handle() const { return device_.get(); }
    /// nullptr if libibverbs cannot open it.
    ibv_context *context() const { return context_.get(); }
    /// Of each evaluated rule, in order.
    std::vector<coherdma_evidence> evidence() const;
    /// Throws std::runtime_error.
    coherdma_probe_result probe() const;

  private:
    struct close_context {
        void operator()(ibv_context *handle) const { ibv_close_device(handle); }
    };
    struct close_device {
        void operator()(coherdma_device *handle) const { coherdma_close_device(handle); }
    };
    std::unique_ptr<ibv_context, close_context> context_; ///< nullptr: libibverbs cannot open it
    std::unique_ptr<coherdma_device, close_device> device_;
    coherdma_device_attr attr_ = {};
};

/// The names of all RDMA devices that this process can access.
std::vector<std::string> device_names();

} // namespace tools
