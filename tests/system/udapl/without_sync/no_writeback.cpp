// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// In place of writeback.cpp: nothing is written back before memory is deregistered.

#include "dapl/memory/writeback.hpp"

namespace coherdma::dapl {

void writeback_pages(const dapl_lmr &) noexcept {}

} // namespace coherdma::dapl
