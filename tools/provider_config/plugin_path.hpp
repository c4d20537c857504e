// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Where libibverbs looks for plugins, and their names.
#pragma once

#include "doctor/host.hpp"

namespace tools::provider_config {

using doctor::host;

/// The number of libibverbs' private ABI, which is part of plugin names, from its symbol version
/// IBVERBS_PRIVATE_<number>; "" if there is none.
std::string private_abi_number(const host &machine);
/// The folder of libibverbs' plugins.
std::string plugin_folder(const host &machine);
/// The plugin's path, as libibverbs forms it from a NAME in a line "driver NAME" or in
/// RDMAV_DRIVERS.
std::string plugin_path(const host &machine, const std::string &name);

/// True if both paths lead to the same existing file.
bool is_same_file(const host &machine, const std::string &path, const std::string &other_path);

/// The environment variable with plugins to load first.
struct driver_variable {
    std::string variable; ///< RDMAV_DRIVERS or IBV_DRIVERS; "" if none is set
    std::string value;
    std::vector<std::string> names; ///< of plugins, in the value
};
driver_variable get_driver_variable(const host &machine);

} // namespace tools::provider_config
