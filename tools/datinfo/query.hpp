// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "dat_common/adapter.hpp"

#include <nlohmann/json.hpp>

namespace tools::datinfo {

using json = nlohmann::ordered_json;

/// An IA name and what opening it showed.
struct ia_info {
    std::string name;
    std::vector<dat::registered_ia> entries; ///< of the registry, in its order
    bool can_open = false;
    std::string reason;         ///< why it cannot be opened
    std::string library_output; ///< what its provider library printed
    json details;               ///< if can_open: device, transport, ... and all attributes
};

/// Opens, queries and closes the named IAs, or all if names is empty. Throws std::runtime_error for
/// a name that is not registered.
std::vector<ia_info> query_ias(const std::vector<std::string> &names);

/// The path of the registry library (libdat2) in use.
std::string registry_file();

/// Attributes by name: numbers, booleans, and enumerators as text.
json ia_attributes(const dat::adapter &ia);
json provider_attributes(const dat::adapter &ia);
json named_attributes(const DAT_NAMED_ATTR *list, DAT_COUNT count);
std::string extension_name(DAT_EXTENSION extension);

} // namespace tools::datinfo
