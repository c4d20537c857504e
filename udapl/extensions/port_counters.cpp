// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "counters.hpp"

#include "dapl/ia/device.hpp"

#include <cstdio>
#include <iterator>
#include <memory>

namespace coherdma::dapl::extensions {

namespace {

// In the order of DAT_IA_COUNTERS; relative to /sys/class/infiniband/DEVICE/ports/PORT.
constexpr const char *counter_files[] = {
    "counters/port_rcv_errors",
    "counters/port_rcv_remote_physical_errors",
    "counters/port_rcv_constraint_errors",
    "counters/port_xmit_discards",
    "counters/port_xmit_constraint_errors",
    "counters/local_link_integrity_errors",
    "counters/excessive_buffer_overrun_errors",
    "counters/port_rcv_switch_relay_errors",
    "counters/port_xmit_wait",
    "hw_counters/rq_num_rae",
    "hw_counters/rq_num_oos",
    "hw_counters/rq_num_rire",
    "hw_counters/rq_num_udsdprd",
    "hw_counters/sq_num_rae",
    "hw_counters/sq_num_oos",
    "hw_counters/sq_num_rire",
    "hw_counters/sq_num_rree",
    "hw_counters/sq_num_tree",
};
static_assert(first_port_counter + std::size(counter_files) == DCNT_IA_ALL_COUNTERS);

struct file_closer {
    void operator()(std::FILE *file) const noexcept { std::fclose(file); }
};

} // namespace

/// From sysfs; 0 if the device does not have the counter.
DAT_UINT64 read_port_counter(const device &dev, unsigned counter) noexcept {
    char path[256];
    std::snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/%u/%s",
                  ibv_get_device_name(dev.ctx->device), unsigned{dev.port},
                  counter_files[counter - first_port_counter]);
    const std::unique_ptr<std::FILE, file_closer> file(std::fopen(path, "re"));
    unsigned long long value = 0;
    return file != nullptr && std::fscanf(file.get(), "%llu", &value) == 1 ? value : 0;
}

} // namespace coherdma::dapl::extensions
