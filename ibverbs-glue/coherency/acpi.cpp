// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// ACPI: the object _CCA of a device, or of one above it, is 1 if it is coherent, else 0. For PCI
// the host bridge's counts. Linux does not export the value, but root can read it in the tables.
//
// Linux takes the topmost (acpi_init_coherency()). Firmware can mean the nearest, and Linux may
// have loaded only some of them, so the rule has a result only if all are equal. If there is none,
// Linux treats the device as coherent on RISC-V; on arm64 (CONFIG_ACPI_CCA_REQUIRED) it refuses DMA
// (acpi_get_dma_attr()), except below the VMBus of Hyper-V (vmbus_acpi_add()).
//
// A host bridge that ACPI does not describe, as on Hyper-V before 5.18 and behind Intel's VMD, has
// no firmware_node: no result.

#include "acpi/aml.hpp"
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

struct table_search {
    std::string device;              // its path, as cca_object::device
    std::vector<cca_object> objects; // of it and of the devices above it
    std::string failed_table;        // "" if all tables were searched; else a table or folder
    int error = 0;                   // of reading it; 0: it cannot be interpreted
};

/// Whether Linux loads the table as code at the boot, at the root.
bool is_loaded_at_boot(const std::string &table_name) {
    return std::ranges::any_of(std::array{"DSDT", "SSDT", "PSDT", "OSDT"},
                               [&](const char *type) { return table_name.rfind(type, 0) == 0; });
}

/// Whether another table can load it as code (LoadTable), anywhere. The rest is data.
bool is_loadable(const std::string &table_name) {
    return table_name.rfind("OEM", 0) == 0;
}

/// Adds the objects of a table. Returns false if it cannot be interpreted.
bool search_table(const std::string &name, const std::string &table, table_search &search) {
    if (may_have_alias(table, search.device))
        return false;
    if (!is_loaded_at_boot(name))
        return table.find("_CCA") == std::string::npos;
    const auto objects = find_cca_objects(table, search.device);
    if (!objects)
        return false;
    search.objects.insert(search.objects.end(), objects->begin(), objects->end());
    return true;
}

/// Searches the tables in a folder. On failure sets failed_table and error.
void search_folder(const std::string &folder, table_search &search) {
    const auto names = try_list_folder(folder);
    if (!names) {
        search.error = errno;
        search.failed_table = folder.substr(folder.rfind('/') + 1);
        return;
    }
    for (const std::string &name : *names) {
        if (!is_loaded_at_boot(name) && !is_loadable(name))
            continue;
        const auto table = read_file(folder + "/" + name, MAX_TABLE_SIZE);
        search.error = table ? 0 : errno;
        if (!table || !search_table(name, *table, search)) {
            search.failed_table = name;
            return;
        }
    }
}

/// folder: that of the tables in sysfs. Those in dynamic were loaded after the boot.
table_search search_tables(const std::string &folder, const std::string &device) {
    table_search search;
    search.device = device;
    if (!path_exists(folder + "/DSDT")) { // each machine has this one
        search.error = errno;
        search.failed_table = "DSDT";
        return search;
    }
    search_folder(folder, search);
    if (!search.failed_table.empty())
        return search;
    search_folder(folder + "/dynamic", search);
    if (search.failed_table == "dynamic" && search.error == ENOENT)
        search.failed_table.clear(); // an old kernel
    return search;
}

/// For messages: "\_SB_.PCI0._CCA = 1", one for each object.
std::string format_objects(const std::vector<cca_object> &objects) {
    std::string text;
    for (const auto &[device, is_coherent] : objects) {
        text += text.empty() ? "" : ", ";
        text += format_acpi_path(device + "_CCA");
        text += is_coherent ? (*is_coherent ? " = 1" : " = 0") : " is neither 0 nor 1";
    }
    return text;
}

/// The device in ACPI of the device in sysfs or of its PCI host bridge, as firmware_node of it;
/// "" if there is none.
std::string find_firmware_node(const rule_input &input) {
    const std::string device = find_hardware_folder(input);
    const std::string bridge = find_host_bridge(device);
    const std::string described = bridge.empty() ? device : bridge;
    if (described.empty())
        return {};
    // Of other buses, only the platform bus asks ACPI (platform_dma_configure()).
    const std::string bus = real_path(input.root, strip_root(input, described) + "/subsystem");
    if (bridge.empty() && !bus.ends_with("/bus/platform"))
        return {};
    const std::string node = described + "/firmware_node";
    return path_exists(node) ? node : "";
}

} // namespace

/// The rule "acpi" of rules.cpp: what ACPI says of the device. COHERDMA_UNKNOWN: the rule has no
/// result.
evidence evaluate_acpi(const rule_input &input) {
    evidence result;
    const std::string firmware_node = find_firmware_node(input);
    result.source = "/sys/firmware/acpi/tables";
    if (firmware_node.empty()) {
        result.reason = "not described by ACPI";
        return result;
    }
    const bool is_cca_required = input.machine == "aarch64";
    if (!is_cca_required && input.machine != "riscv64") {
        result.source = strip_root(input, firmware_node);
        result.reason = "this rule is for arm64 and RISC-V only";
        return result;
    }
    const std::string path = read_line(firmware_node + "/path").value_or("");
    const auto device = parse_acpi_path(path);
    if (!device) {
        result.source = strip_root(input, firmware_node) + "/path";
        result.value = path;
        result.reason = "the device's path in ACPI cannot be read";
        return result;
    }
    const table_search search = search_tables(input.root + result.source, *device);
    if (!search.failed_table.empty()) {
        result.value = search.failed_table + ": " +
                       (search.error == 0 ? "cannot be interpreted" : std::strerror(search.error));
        if (search.error == EACCES || search.error == EPERM)
            result.reason = "run as root to see whether ACPI describes the device as coherent";
        else if (search.error != 0)
            result.reason = "not all tables can be read, so one may describe the device as not "
                            "coherent";
        else
            result.reason = "the table is damaged or has code that decides when it runs";
        return result;
    }
    const auto all_are = [&search](bool is_coherent) {
        return std::ranges::all_of(search.objects, [is_coherent](const cca_object &object) {
            return object.is_coherent == is_coherent;
        });
    };
    result.value = format_objects(search.objects);
    if (search.objects.empty()) {
        const std::string hid = read_line(firmware_node + "/hid").value_or("");
        const bool is_vmbus = hid == "VMBUS" || hid == "VMBus";
        const bool is_refused = is_cca_required && !is_vmbus;
        result.value = "no _CCA of " + path + " or above";
        result.coherency = is_refused ? COHERDMA_UNKNOWN : COHERDMA_COHERENT;
        result.reason = is_refused ? "without _CCA Linux refuses DMA to the device"
                        : is_vmbus ? "without _CCA Linux treats devices on Hyper-V as coherent"
                                   : "without _CCA Linux treats devices on RISC-V as coherent";
    } else if (all_are(true) || all_are(false)) {
        const bool is_coherent = all_are(true);
        result.coherency = is_coherent ? COHERDMA_COHERENT : COHERDMA_NON_COHERENT;
        result.reason = is_coherent ? "ACPI describes the device as coherent"
                                    : "ACPI describes the device as not coherent";
    } else {
        result.reason = "ACPI does not say clearly whether the device is coherent";
    }
    return result;
}

} // namespace coherdma::coherency
