// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// libibverbs and its plugins in this process, found through the dynamic linker.
#pragma once

#include "doctor/host.hpp"

#include <infiniband/verbs.h>
#include <string>
#include <vector>

namespace tools::provider_config {

/// The path of libibverbs, as found by the dynamic linker, or "".
std::string find_libibverbs();

/// This machine, or a system below `root` with libibverbs at the same path. Only what decides about
/// plugins is filled in.
doctor::host host_at_root(const std::string &root);
/// Checks the value of --root. Returns an error message, or "".
std::string check_root(const std::string &root);

/// The paths of all loaded shared objects. Those loaded before the first device list were not
/// loaded by libibverbs.
std::vector<std::string> list_loaded_objects();

/// The plugin that serves an open device: the file with its functions; "" if unknown.
std::string find_serving_plugin(const ibv_context &context);

} // namespace tools::provider_config
