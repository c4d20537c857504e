// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

namespace coherdma::registry {

/// An IA has extensions, or a provider was opened for one: dat_extension_op no longer refuses.
void allow_extensions() noexcept;

} // namespace coherdma::registry
