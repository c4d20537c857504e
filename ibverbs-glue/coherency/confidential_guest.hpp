// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <string>

namespace coherdma::coherency {

/// The technique that encrypts the memory of this virtual machine, such as "TDX", by the CPUID
/// instruction of x86; "" if none.
std::string find_x86_confidential_guest();

/// The same by files of other architectures. root: the prefix of /sys. unread: a file that cannot
/// be read, so that "" means nothing.
std::string find_confidential_guest_in_sysfs(const std::string &root, const std::string &machine,
                                             std::string &unread);

} // namespace coherdma::coherency
