// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// ACPI: the object _CCA of a device or of one above it is 1 if it is coherent, else 0. Linux
// refuses DMA to a device without _CCA and does not export the value. Root can search the tables
// for the object. The search does not find the device that it belongs to, so a single 0 makes the
// result unknown. So does a table that cannot be read: firmware of arm64 boards (Raspberry Pi 4,
// RK3588) has devices with _CCA 0.

#include "device_path.hpp"
#include "files.hpp"
#include "rules.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace coherdma::coherency {
namespace {

constexpr std::size_t MAX_TABLE_SIZE = 16U << 20;

// How often the tables have _CCA with each value; others: in a form that this file cannot read.
struct cca_counts {
    int ones = 0, zeros = 0, others = 0;
    std::string unread; // "" if all tables were read; else a table or folder that was not
    int error = 0;      // of reading it
};

/// Counts the objects _CCA of a table by value.
// In AML, the code of the tables, Name (_CCA, n) is NameOp (8), the name, and n: ZeroOp (0), OneOp
// (1), or BytePrefix (10) and a byte.
void count_cca(const std::string &table, cca_counts &counts) {
    for (std::size_t offset = table.find("_CCA"); offset != std::string::npos;
         offset = table.find("_CCA", offset + 4)) {
        const auto byte = [&table](std::size_t i) {
            return i < table.size() ? static_cast<unsigned char>(table[i]) : 0xFFU;
        };
        const bool is_name_op = offset > 0 && byte(offset - 1) == 8;
        const unsigned value = byte(offset + 4) == 10 ? byte(offset + 5) : byte(offset + 4);
        if (!is_name_op || value > 1)
            ++counts.others;
        else
            ++(value == 1 ? counts.ones : counts.zeros);
    }
}

/// Whether ACPI loads the table as code, which can have objects. Others are data.
bool has_code(const std::string &table_name) {
    return std::ranges::any_of(std::array{"DSDT", "SSDT", "PSDT", "OSDT", "OEM"},
                               [&](const char *type) { return table_name.rfind(type, 0) == 0; });
}

/// Counts the objects _CCA of the tables in a folder. On failure sets unread and error.
void count_cca_in_folder(const std::string &folder, cca_counts &counts) {
    const auto names = try_list_folder(folder);
    if (!names) {
        counts.error = errno;
        counts.unread = folder.substr(folder.rfind('/') + 1);
        return;
    }
    for (const std::string &name : *names) {
        if (!has_code(name))
            continue;
        const auto table = read_file(folder + "/" + name, MAX_TABLE_SIZE);
        if (table && table->size() < MAX_TABLE_SIZE) {
            count_cca(*table, counts);
        } else {
            counts.error = table ? EFBIG : errno;
            counts.unread = name;
            return;
        }
    }
}

/// folder: that of the tables in sysfs. Those in dynamic were loaded after the boot.
cca_counts count_cca_in_tables(const std::string &folder) {
    cca_counts counts;
    if (!path_exists(folder + "/DSDT")) { // each machine has this one
        counts.error = errno;
        counts.unread = "DSDT";
        return counts;
    }
    count_cca_in_folder(folder, counts);
    if (!counts.unread.empty())
        return counts;
    count_cca_in_folder(folder + "/dynamic", counts);
    if (counts.unread == "dynamic" && counts.error == ENOENT)
        counts.unread.clear(); // an old kernel
    return counts;
}

} // namespace

/// The rule "acpi" of rules.cpp: what ACPI says of all devices. COHERDMA_UNKNOWN: the rule has no
/// result.
evidence evaluate_acpi(const rule_input &input) {
    evidence result;
    const std::string device = find_hardware_folder(input);
    const std::string bridge = find_host_bridge(device);
    // sysfs has this link if ACPI describes the device.
    const std::string firmware_node = (bridge.empty() ? device : bridge) + "/firmware_node";
    result.source = "/sys/firmware/acpi/tables";
    if (device.empty() || !path_exists(firmware_node)) {
        result.reason = "not described by ACPI";
        return result;
    }
    if (input.machine != "aarch64") {
        result.source = strip_root(input, firmware_node);
        result.reason = "this rule is for arm64 only: elsewhere the meaning of a missing _CCA is "
                        "unknown";
        return result;
    }
    const cca_counts counts = count_cca_in_tables(input.root + result.source);
    if (!counts.unread.empty()) {
        result.value = counts.unread + ": " + std::strerror(counts.error);
        result.reason = counts.error == EACCES || counts.error == EPERM
                            ? "run as root to see whether ACPI describes all devices as coherent"
                            : "not all tables can be read, so one may describe a device as not "
                              "coherent";
        return result;
    }
    result.value = "_CCA = 1: " + std::to_string(counts.ones) +
                   ", _CCA = 0: " + std::to_string(counts.zeros) +
                   ", other: " + std::to_string(counts.others);
    if (counts.zeros == 0 && counts.others == 0 && counts.ones > 0) {
        result.coherency = COHERDMA_COHERENT;
        result.reason = "ACPI describes all devices as coherent";
    } else {
        result.reason = "ACPI does not describe all devices as coherent";
    }
    return result;
}

} // namespace coherdma::coherency
