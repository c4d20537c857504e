// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <coherdma/coherdma.h>
#include <infiniband/verbs.h>
#include <memory>
#include <string>
#include <vector>

namespace tools {

/// A device as libcoherdma sees it, opened by verbs, too, where that is possible.
class device {
  public:
    /// Throws std::runtime_error with words for people.
    device(const std::string &name, bool all_rules);

    const coherdma_device_attr &about() const { return attr; }
    std::vector<coherdma_evidence> evidence() const;
    coherdma_probe_result probe() const;

  private:
    struct close_context {
        void operator()(ibv_context *which) const { ibv_close_device(which); }
    };
    struct close_device {
        void operator()(coherdma_device *which) const { coherdma_close(which); }
    };
    std::unique_ptr<ibv_context, close_context> context;
    std::unique_ptr<coherdma_device, close_device> opened;
    coherdma_device_attr attr = {};
};

/// Names of all RDMA devices that this process could use.
std::vector<std::string> device_names();

} // namespace tools
