// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// ACPI: the object _CCA of a device or of one above it is 1 if it is coherent, else 0. Linux
// refuses DMA to a device without _CCA and does not export the value. Root can search the tables
// for the object. The search does not find the device that it belongs to, so a single 0 makes the
// result unknown.

#include "device_path.hpp"
#include "files.hpp"
#include "rules.hpp"

namespace coherdma::coherency {
namespace {

constexpr std::size_t MAX_TABLE_SIZE = 16U << 20;

// How often the tables have _CCA with each value; others: in a form that this file cannot read.
struct cca_counts {
    int ones = 0, zeros = 0, others = 0;
    bool is_readable = false; // any table is
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

/// folder: that of the tables in sysfs.
cca_counts count_cca_in_tables(const std::string &folder) {
    cca_counts counts;
    for (const std::string &name : list_folder(folder)) {
        if (name != "DSDT" && name.rfind("SSDT", 0) != 0)
            continue;
        if (const auto table = read_file(folder + "/" + name, MAX_TABLE_SIZE)) {
            counts.is_readable = true;
            count_cca(*table, counts);
        }
    }
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
    if (!counts.is_readable) {
        result.source = strip_root(input, firmware_node);
        result.value = "tables readable by root only";
        result.coherency = COHERDMA_COHERENT;
        result.reason =
            "arm64 servers with ACPI are built coherent; run as root to read the tables";
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
