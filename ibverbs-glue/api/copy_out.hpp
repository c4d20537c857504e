// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "error.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace coherdma::api {

/// Fills a caller's struct, which may be of an older or newer header than ours: what both know,
/// and zeros in what only the caller knows.
template <typename Struct>
int copy_out(const Struct &ours, Struct *theirs, std::size_t size) {
    if (!theirs || size < sizeof ours.comp_mask)
        return fail(EINVAL, "the struct to fill is missing, or its size is wrong");
    const std::size_t common = std::min(size, sizeof ours);
    std::memcpy(theirs, &ours, common);
    std::memset(reinterpret_cast<char *>(theirs) + common, 0, size - common);
    return 0;
}

/// Takes in a caller's struct: what it does not know is zero, what we do not know must be.
template <typename Struct>
int copy_in(const Struct *theirs, std::size_t size, Struct &ours) {
    if (!theirs || size < sizeof ours.comp_mask)
        return fail(EINVAL, "the struct that says what is wanted is missing, or its size is wrong");
    std::memcpy(&ours, theirs, std::min(size, sizeof ours));
    const auto *bytes = reinterpret_cast<const unsigned char *>(theirs);
    for (std::size_t place = sizeof ours; place < size; ++place) {
        if (bytes[place] != 0)
            return fail(EINVAL, "the struct that says what is wanted asks for something that this "
                                "libcoherdma is too old to know");
    }
    if (ours.comp_mask != 0)
        return fail(EINVAL, "comp_mask has bits that this libcoherdma does not know");
    return 0;
}

} // namespace coherdma::api
