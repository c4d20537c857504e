// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Where libibverbs looks for plugins, and their names.
#pragma once

#include "doctor/host.hpp"

namespace tools::provider_config {

using doctor::host;

/// The number of libibverbs' private ABI, which is part of plugin names, from its symbol version
/// IBVERBS_PRIVATE_<number>; "" if there is none.
std::string private_abi(const host &machine);
std::string plugin_folder(const host &machine);
/// The plugin's path, as libibverbs forms it from a line "driver NAME" or from RDMAV_DRIVERS.
std::string plugin_file(const host &machine, const std::string &name);

/// True if both paths lead to the same existing file.
bool is_same_file(const host &machine, const std::string &path, const std::string &other_path);

/// The environment variable with drivers to load first; `variable` is "" if none is set.
struct driver_variable {
    std::string variable;
    std::string value;
    std::vector<std::string> names;
};
driver_variable get_driver_variable(const host &machine);

} // namespace tools::provider_config
