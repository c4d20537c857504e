// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "cache/lines.hpp"

namespace coherdma::api {

/// Whether every page that the ranges touch can be read, as far as the kernel says now. 0 or the
/// error, EFAULT for memory that is not there.
int check_mapped(const cache::range *ranges, std::size_t count) noexcept;

} // namespace coherdma::api
