// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "dat.hpp"

namespace scale {

/// So many pairs at once, three times.
void test_endpoints(const scale_ia &ia, std::size_t count);
/// So many connections, one after the other, each with a message forth and back.
void test_cycles(const scale_ia &ia, std::size_t count);
/// So many LMRs at once, three times.
void test_regions(const scale_ia &ia, std::size_t count);

/// It is opened and closed so many times.
void test_opens(const char *name, std::size_t count);

} // namespace scale
