// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "dat/adapter.hpp"

#include <nlohmann/json.hpp>

namespace tools::datinfo {

using json = nlohmann::ordered_json;

/// What is known of a registered name.
struct looked {
    std::string name;
    std::vector<dat::registered> records; ///< of the name, in their order
    bool open = false;
    std::string reason; ///< why it could not be opened
    std::string said;   ///< what its library printed meanwhile
    json facts;         ///< of one that could be: device, transport, ... and all attributes
};

/// Opens each of the names, or of all, and closes it again. Names that nobody registered throw
/// std::runtime_error.
std::vector<looked> look(const std::vector<std::string> &names);

/// The file of the registry that this program uses.
std::string registry_file();

/// Attributes by name: numbers, booleans, and enumerations in words.
json ia_attributes(const dat::adapter &ia);
json provider_attributes(const dat::adapter &ia);
json named(const DAT_NAMED_ATTR *list, DAT_COUNT count);
std::string extension_name(DAT_EXTENSION which);

} // namespace tools::datinfo
