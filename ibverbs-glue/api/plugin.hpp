// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <string>

namespace coherdma::api {

/// The provider plugin that belongs to this libcoherdma: the file COHERDMA_PROVIDER names, else the
/// one beside the library, wherever the whole was moved to. It need not be there.
std::string plugin_file();

} // namespace coherdma::api
