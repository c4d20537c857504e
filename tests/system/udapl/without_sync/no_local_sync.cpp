// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// In place of local_sync.cpp: posts and completions sync nothing.

#include "dapl/memory/local_sync.hpp"

namespace coherdma::dapl {

void sync_for_device(const dapl_ia &, const DAT_LMR_TRIPLET *, std::size_t, bool) noexcept {}
void sync_for_cpu(const dapl_ia &, const DAT_LMR_TRIPLET *, std::size_t, std::uint64_t) noexcept {}

} // namespace coherdma::dapl
