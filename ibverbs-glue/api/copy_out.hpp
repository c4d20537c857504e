// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Copies structs between the library and a program, which may be compiled with an older or newer
// header.
#pragma once

#include "error.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace coherdma::api {

/// Copies the members that both have; zeros members that only the caller has.
template <typename Struct>
int copy_out(const Struct &source, Struct *destination, std::size_t size) {
    if (!destination || size < sizeof source.comp_mask)
        return fail(EINVAL, "the output struct is NULL, or its size is invalid");
    const std::size_t common_size = std::min(size, sizeof source);
    std::memcpy(destination, &source, common_size);
    std::memset(reinterpret_cast<char *>(destination) + common_size, 0, size - common_size);
    return 0;
}

/// Copies the members that both have. Members that only the caller has must be zero.
template <typename Struct>
int copy_in(const Struct *source, std::size_t size, Struct &destination) {
    if (!source || size < sizeof destination.comp_mask)
        return fail(EINVAL, "the attributes are NULL, or their size is invalid");
    std::memcpy(&destination, source, std::min(size, sizeof destination));
    const auto *bytes = reinterpret_cast<const unsigned char *>(source);
    for (std::size_t i = sizeof destination; i < size; ++i) {
        if (bytes[i] != 0)
            return fail(EINVAL, "attributes unknown to this version of libcoherdma are not zero");
    }
    if (destination.comp_mask != 0)
        return fail(EINVAL, "comp_mask has bits unknown to this version of libcoherdma");
    return 0;
}

} // namespace coherdma::api
