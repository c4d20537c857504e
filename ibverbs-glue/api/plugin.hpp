// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <string>

namespace coherdma::api {

/// The path of the provider plugin: that in COHERDMA_PROVIDER, else relative to this library, so
/// that an installation can be moved. The file may not exist.
std::string find_plugin();

} // namespace coherdma::api
