// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <string>

namespace coherdma::coherency {

/// A virtual machine whose memory is encrypted.
struct confidential_guest {
    std::string technique;  ///< such as "TDX"; "" if it is none
    std::string source;     ///< the instruction or file that says so
    bool is_certain = true; ///< false: the source does not prove whether it is one
};

/// By the CPUID instruction of x86.
confidential_guest find_x86_confidential_guest();

/// By files of other architectures. root: the prefix of /sys.
confidential_guest find_confidential_guest_in_sysfs(const std::string &root,
                                                    const std::string &machine);

} // namespace coherdma::coherency
