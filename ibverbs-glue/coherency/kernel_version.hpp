// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <compare>
#include <string>

namespace coherdma::coherency {

struct kernel_version {
    unsigned major = 0, minor = 0;

    auto operator<=>(const kernel_version &) const = default;
};

/// release: as uname -r. 0.0 if it is no version.
kernel_version parse_kernel_release(const std::string &release);

} // namespace coherdma::coherency
