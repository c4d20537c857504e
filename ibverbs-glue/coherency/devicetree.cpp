// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Device tree: as Linux does, start at the device's node, or for PCI at the host bridge's, and
// follow the DMA parents until a node has the property dma-coherent or dma-noncoherent. If none
// has, the architecture's default applies. A node is a folder, a property a file in it, with
// numbers as 32-bit big-endian cells.

#include "device_path.hpp"
#include "files.hpp"
#include "rules.hpp"

namespace coherdma::coherency {
namespace {

constexpr int MAX_DEPTH = 64;
constexpr std::size_t MAX_NODES = 20000;

// The numbers in a property; empty if the node does not have it.
std::vector<std::uint32_t> read_cells(const std::string &property) {
    std::vector<std::uint32_t> cells;
    const std::string bytes = read_file(property).value_or("");
    for (std::size_t offset = 0; offset + 4 <= bytes.size(); offset += 4) {
        std::uint32_t cell = 0;
        for (std::size_t i = offset; i < offset + 4; ++i)
            cell = cell << 8 | static_cast<unsigned char>(bytes[i]);
        cells.push_back(cell);
    }
    return cells;
}

// The node below `tree` that has this phandle, the number by which properties refer to nodes; "" if
// there is none.
std::string find_node_by_phandle(const std::string &tree, std::uint32_t phandle) {
    std::vector<std::string> pending = {tree};
    for (std::size_t visited = 0; !pending.empty() && visited < MAX_NODES; ++visited) {
        const std::string node = pending.back();
        pending.pop_back();
        const auto cells = read_cells(node + "/phandle");
        if (cells.size() == 1 && cells[0] == phandle)
            return node;
        for (const std::string &name : list_folder(node)) {
            // Most entries are properties; for these path_exists() fails at once.
            if (path_exists(node + "/" + name + "/."))
                pending.push_back(node + "/" + name);
        }
    }
    return {};
}

// The index of dma-mem in the list of strings interconnect-names, or -1.
int find_dma_mem_index(const std::string &node) {
    const std::string names = read_file(node + "/interconnect-names").value_or("");
    int index = 0;
    for (std::size_t offset = 0; offset < names.size(); ++index) {
        const std::size_t end = std::min(names.find('\0', offset), names.size());
        if (names.compare(offset, end - offset, "dma-mem") == 0)
            return index;
        offset = end + 1;
    }
    return -1;
}

// The node through which the DMA of a node goes: the target of its interconnect dma-mem, else its
// parent in the tree; "" for the root of the tree.
std::string find_dma_parent(const std::string &tree, const std::string &node) {
    // `interconnects` is a list of entries: the phandle of a target, and as many further cells as
    // the target's #interconnect-cells says.
    const auto interconnects = read_cells(node + "/interconnects");
    int num_entries_before = find_dma_mem_index(node);
    for (std::size_t i = 0; num_entries_before >= 0 && i < interconnects.size();
         --num_entries_before) {
        const std::string target = find_node_by_phandle(tree, interconnects[i]);
        const auto num_further_cells = read_cells(target + "/#interconnect-cells");
        if (target.empty() || num_further_cells.size() != 1)
            break;
        if (num_entries_before == 0)
            return target;
        i += std::size_t{1} + num_further_cells[0];
    }
    return node.size() > tree.size() ? parent_folder(node) : "";
}

} // namespace

/// The rule "devicetree" of rules.cpp: the device's node or a DMA parent says it. COHERDMA_UNKNOWN:
/// the rule has no result.
evidence evaluate_devicetree(const rule_input &input) {
    evidence result;
    const std::string device = find_hardware_folder(input);
    const std::string bridge = find_host_bridge(device);
    // The device in sysfs that has a node in the tree.
    const std::string described = bridge.empty() ? device : parent_folder(bridge);
    const std::string tree = real_path(input.root, "/sys/firmware/devicetree/base");
    // Resolved as a path below root: the link of_node leads into the tree.
    const std::string first_node =
        described.empty() ? "" : real_path(input.root, strip_root(input, described) + "/of_node");
    result.source = described.empty() ? "/sys/firmware/devicetree" : strip_root(input, described);
    if (tree.empty() || first_node.compare(0, tree.size(), tree) != 0) {
        result.reason = "not described by a device tree";
        return result;
    }
    std::string node = first_node;
    for (int depth = 0; !node.empty() && depth < MAX_DEPTH; ++depth) {
        const bool is_coherent = path_exists(node + "/dma-coherent");
        if (is_coherent || path_exists(node + "/dma-noncoherent")) {
            result.source = strip_root(input, node);
            result.value = is_coherent ? "dma-coherent" : "dma-noncoherent";
            result.coherency = is_coherent ? COHERDMA_COHERENT : COHERDMA_NON_COHERENT;
            result.reason = "the device tree has this property";
            return result;
        }
        node = find_dma_parent(tree, node);
    }
    result.source = strip_root(input, first_node);
    result.value = "neither dma-coherent nor dma-noncoherent in the node or its DMA parents";
    const bool is_arm = input.machine == "aarch64" || input.machine.rfind("arm", 0) == 0;
    // of_dma_is_coherent() with CONFIG_OF_DMA_DEFAULT_COHERENT. 32-bit POWER (ppc) has it except on
    // CPUs of the series 44x and 8xx, which uname -m does not tell apart.
    const bool is_coherent_by_default =
        input.machine.rfind("riscv", 0) == 0 || input.machine.rfind("ppc64", 0) == 0;
    if (is_arm || is_coherent_by_default) {
        result.coherency = is_arm ? COHERDMA_NON_COHERENT : COHERDMA_COHERENT;
        result.reason = "without these properties Linux treats devices on " + input.machine +
                        " as " + (is_arm ? "non-coherent" : "coherent");
    } else {
        result.reason = "the default on " + input.machine + " is unknown";
    }
    return result;
}

} // namespace coherdma::coherency
