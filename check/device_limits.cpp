// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "device_limits.hpp"

#include <algorithm>
#include <array>

namespace coherdma::check {
namespace {

constexpr const char *EFA_PROVIDER = "rdma-core, providers/efa/verbs.c";
constexpr const char *EFA_DESCRIPTOR = "rdma-core, providers/efa/efa_io_defs.h";

constexpr std::array<device_limits, 2> ALL_LIMITS = {{
    {.name = "mlx5",
     .connected_qps = {},
     .srqs = {},
     .unsignaled_sends = {},
     // A send WQE of 512 bytes: without a control segment of 16 and a remote address of 16.
     .send_sges = {30, "max_send_sge, Linux, drivers/infiniband/hw/mlx5/main.c"},
     .inline_bytes = {},
     .rd_atomics = {16, "max_qp_rd_atom, ibv_devinfo -v of ConnectX-4 to ConnectX-7"}},
    {.name = "efa",
     .connected_qps = {0, EFA_PROVIDER},
     .srqs = {0, EFA_PROVIDER},
     .unsignaled_sends = {0, EFA_PROVIDER},
     .send_sges = {2, EFA_DESCRIPTOR},
     .inline_bytes = {32, EFA_DESCRIPTOR}, // 80 with the larger descriptors of some devices
     .rd_atomics = {}},
}};

} // namespace

const device_limits *find_limits(std::string_view name) noexcept {
    const auto *const it =
        std::find_if(ALL_LIMITS.begin(), ALL_LIMITS.end(),
                     [name](const device_limits &limits) { return name == limits.name; });
    return it != ALL_LIMITS.end() ? &*it : nullptr;
}

} // namespace coherdma::check
