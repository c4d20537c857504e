// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Copies structs between the library and a program, which may be compiled with an older or newer
// header and passes the size of its struct. Structs grow at their end.
#pragma once

#include "error.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <type_traits>

namespace coherdma::api {

/// The size of a struct in the first version of the header. A struct that has grown has a
/// specialization.
template <typename Struct>
inline constexpr std::size_t size_in_first_version = sizeof(Struct);

/// Checks a program's output struct, which is written later. Returns 0 or EINVAL.
template <typename Struct>
int check_out(const Struct *destination, std::size_t size) noexcept {
    // Without padding, so that a new member cannot be in bytes that older programs have not set.
    static_assert(std::has_unique_object_representations_v<Struct>);
    if (destination != nullptr && size >= size_in_first_version<Struct>)
        return 0;
    return fail(EINVAL, "the output struct is NULL, or its size %zu is less than %zu", size,
                size_in_first_version<Struct>);
}

/// Fills a struct of that size, which check_out() has accepted. Members that only the program has
/// are zeroed.
template <typename Struct>
void fill_struct(const Struct &source, void *destination, std::size_t size) noexcept {
    const std::size_t common_size = std::min(size, sizeof source);
    std::memcpy(destination, &source, common_size);
    std::memset(static_cast<char *>(destination) + common_size, 0, size - common_size);
}

/// Returns an output struct of the program, of that size. 0 or EINVAL.
template <typename Struct>
int copy_out(const Struct &source, Struct *destination, std::size_t size) noexcept {
    if (const int error = check_out(destination, size))
        return error;
    fill_struct(source, destination, size);
    return 0;
}

/// Copies a program's struct to one of zeros. Members that only the program has must be zero.
template <typename Struct>
int copy_in(const Struct *source, std::size_t size, Struct &destination) noexcept {
    static_assert(std::has_unique_object_representations_v<Struct>);
    if (source == nullptr || size < size_in_first_version<Struct>)
        return fail(EINVAL, "the attributes are NULL, or their size %zu is less than %zu", size,
                    size_in_first_version<Struct>);
    const auto *const bytes = reinterpret_cast<const unsigned char *>(source);
    const auto is_zero = [](unsigned char byte) {
        return byte == 0;
    };
    if (size > sizeof destination &&
        !std::all_of(bytes + sizeof destination, bytes + size, is_zero))
        return fail(E2BIG, "attributes unknown to this version of libcoherdma are not zero");
    std::memcpy(&destination, source, std::min(size, sizeof destination));
    return 0;
}

} // namespace coherdma::api
