// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Finds the objects _CCA of an ACPI table: of a DSDT or SSDT, whose code (AML) declares devices and
// other objects in a tree of names.
//
// The code is not executed, so what it says can be uncertain. The functions err on one side: they
// find each _CCA that Linux may find, perhaps more than Linux does, or fail. They do not consider
// that Linux replaces characters that ACPI forbids in a name by '_' (acpi_ut_repair_name()).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace coherdma::coherency {

struct cca_object {
    std::string device;              ///< its path: names of four characters each; "" is the root
    std::optional<bool> is_coherent; ///< nullopt: other than 0 and 1, as the result of a method

    bool operator==(const cca_object &) const = default;
};

/// Finds the objects _CCA of a device and of those above it in a table that is loaded at the root;
/// equal ones once. On failure returns nullopt: the table is damaged, or its code uses _CCA in a
/// way that would have to be executed.
/// device: a path of parse_acpi_path(), as cca_object::device.
std::optional<std::vector<cca_object>> find_cca_objects(std::string_view table,
                                                        std::string_view device);

/// Whether the table may have an alias, a second name, for the device or for one above it. The
/// paths of find_cca_objects() do not tell such a name from that of another device.
bool may_have_alias(std::string_view table, std::string_view device);

/// The path of cca_object::device for one as sysfs has it: \_SB_.PCI0. On failure nullopt.
std::optional<std::string> parse_acpi_path(std::string_view text);

/// The path as sysfs has it.
std::string format_acpi_path(std::string_view path);

} // namespace coherdma::coherency
