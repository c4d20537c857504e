// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Where ACPI describes the machine, the value _CCA of a device or of one above it says whether it
// is coherent (1) or not (0). Linux refuses DMA to one for which nobody says either, and keeps the
// value to itself. Root can look through the tables for the name and what stands behind it; which
// device it belongs to is not told, so one 0 is enough to be in doubt.

#include "files.hpp"
#include "place.hpp"
#include "verdict.hpp"

namespace coherdma::coherency {
namespace {

constexpr std::size_t LARGEST_TABLE = 16U << 20;

struct count {
    int ones = 0, zeros = 0, others = 0;
    bool readable = false;
};

// In a table, Name (_CCA, n) is the byte 8, the name, and n: the byte 0, the byte 1, or 10 and it.
void look_through(const std::string &table, count &all) {
    for (std::size_t at = table.find("_CCA"); at != std::string::npos;
         at = table.find("_CCA", at + 4)) {
        const auto byte = [&table](std::size_t place) {
            return place < table.size() ? static_cast<unsigned char>(table[place]) : 0xFFU;
        };
        const bool is_name = at > 0 && byte(at - 1) == 8;
        const unsigned value = byte(at + 4) == 10 ? byte(at + 5) : byte(at + 4);
        if (!is_name || value > 1)
            ++all.others;
        else
            ++(value == 1 ? all.ones : all.zeros);
    }
}

count look_everywhere(const std::string &folder) {
    count all;
    for (const std::string &name : names_in(folder)) {
        if (name != "DSDT" && name.rfind("SSDT", 0) != 0)
            continue;
        if (const auto table = read_file(folder + "/" + name, LARGEST_TABLE)) {
            all.readable = true;
            look_through(*table, all);
        }
    }
    return all;
}

} // namespace

finding ask_acpi(const subject &device) {
    finding found;
    const std::string place = hardware(device);
    const std::string bridge = host_bridge(place);
    const std::string node = (bridge.empty() ? place : bridge) + "/firmware_node";
    found.source = "/sys/firmware/acpi/tables";
    if (place.empty() || !exists(node)) {
        found.reason = "ACPI does not describe it";
        return found;
    }
    if (device.machine != "aarch64") {
        found.source = without_root(device, node);
        found.reason = "what ACPI leaves unsaid is known for arm64 only";
        return found;
    }
    const count all = look_everywhere(device.root + found.source);
    if (!all.readable) {
        found.source = without_root(device, node);
        found.value = "the tables are for root only";
        found.verdict = COHERDMA_COHERENT;
        found.reason = "arm64 servers with ACPI are built so; root sees more";
        return found;
    }
    found.value = "_CCA is 1 " + std::to_string(all.ones) + " times, 0 " +
                  std::to_string(all.zeros) + " times, something else " +
                  std::to_string(all.others) + " times";
    if (all.zeros == 0 && all.others == 0 && all.ones > 0) {
        found.verdict = COHERDMA_COHERENT;
        found.reason = "ACPI says so of every device";
    } else {
        found.reason = "ACPI does not say it of every device";
    }
    return found;
}

} // namespace coherdma::coherency
