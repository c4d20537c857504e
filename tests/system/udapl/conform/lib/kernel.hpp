// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the kernel has of an RDMA device.

#pragma once

#include <map>
#include <string>

namespace conform {

/// Objects of the device that the kernel counts, by kind: "qp" and so on. Empty: there is no such
/// device.
using kernel_counts = std::map<std::string, long>;
kernel_counts count_kernel_objects(const std::string &device);

/// How many work requests were posted to all devices, where that is counted; else 0.
long count_posted_requests();

} // namespace conform
