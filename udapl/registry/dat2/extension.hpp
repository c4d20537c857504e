// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

namespace coherdma::registry {

/// Called when an IA with extensions, or a query, is opened. Until then dat_extension_op returns
/// DAT_NOT_IMPLEMENTED.
void enable_extensions() noexcept;

} // namespace coherdma::registry
