// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "kernel_version.hpp"

#include <charconv>

namespace coherdma::coherency {

kernel_version parse_kernel_release(const std::string &release) {
    kernel_version version;
    const char *const end = release.data() + release.size();
    const auto major = std::from_chars(release.data(), end, version.major);
    if (major.ec != std::errc() || major.ptr == end || *major.ptr != '.')
        return {};
    const auto minor = std::from_chars(major.ptr + 1, end, version.minor);
    return minor.ec == std::errc() ? version : kernel_version{};
}

} // namespace coherdma::coherency
