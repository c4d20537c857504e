// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "cache/lines.hpp"

namespace coherdma::api {

/// Checks that every page of the ranges is readable at this moment. Returns 0 or an errno: EFAULT
/// if a page is not.
int check_mapped(const cache::range *ranges, std::size_t count) noexcept;

} // namespace coherdma::api
