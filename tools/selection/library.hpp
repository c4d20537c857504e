// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Where libibverbs looks for plugins, and under which names.
#pragma once

#include "doctor/host.hpp"

namespace tools::selection {

using doctor::host;

/// The number in the names of its plugins: it defines a version IBVERBS_PRIVATE_<number>. "" if
/// not.
std::string private_abi(const host &here);
std::string plugin_folder(const host &here);
/// The plugin's file, as libibverbs makes it from a line "driver NAME" or from RDMAV_DRIVERS.
std::string file_of(const host &here, const std::string &name);

/// The same file, by whatever path; both have to be there.
bool same_file(const host &here, const std::string &one, const std::string &other);

/// What the environment wants to be loaded first; the variable is "" if it wants nothing.
struct wish {
    std::string variable;
    std::string value;
    std::vector<std::string> names;
};
wish wish_of(const host &here);

} // namespace tools::selection
