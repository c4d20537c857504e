// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What is written back before the memory of an LMR is deregistered, by dat_lmr_free, dat_ia_close
// or the end of the process, if the device is not coherent.
#pragma once

namespace coherdma::dapl {

struct dapl_lmr;

/// Linux before 7.0 drops dirty lines of the memory's pages at deregistration, if the device is not
/// coherent: writes them back, those beside the LMR too. Only what the program wrote: lines that
/// the device wrote are the consumer's to sync. Memory that the consumer has already unmapped has
/// nothing to write back. The IA needs syncs.
void writeback_pages(const dapl_lmr &lmr) noexcept;

} // namespace coherdma::dapl
