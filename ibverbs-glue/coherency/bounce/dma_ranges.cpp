// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dma-ranges of the device tree: the memory that devices below a bus can access, as the kernel
// reads it in of_dma_get_range(). Each entry of the property is an address on the bus, an address
// on the parent's bus, and a size.

#include "dma_ranges.hpp"
#include "../devicetree/device_tree.hpp"
#include "../files.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <vector>

namespace coherdma::coherency {
namespace {

constexpr std::size_t MAX_RANGES = 64;

struct address_range {
    std::uint64_t begin = 0, end = 0;
};

/// A range that leaves the address space ends with it.
address_range make_range(std::uint64_t begin, std::uint64_t size) {
    return {.begin = begin, .end = begin + std::min(size, UINT64_MAX - begin)};
}

struct dma_range {
    std::uint64_t bus_addr = 0, parent_addr = 0, size = 0;
};

/// A number of several cells; of three, as of PCI, the first has flags.
std::uint64_t read_number(std::span<const std::uint32_t> cells) {
    std::uint64_t number = 0;
    for (const std::uint32_t cell : cells)
        number = number << 32 | cell;
    return number;
}

std::string parent_node(const std::string &node) {
    return node.substr(0, node.rfind('/'));
}

// #address-cells or #size-cells of a bus, or of the nearest node above it that has the property, as
// of_bus_n_addr_cells(): how many cells its children's addresses or sizes have.
std::size_t read_num_cells(device_tree &tree, const std::string &bus, const char *property) {
    constexpr std::size_t DEFAULT = 1;
    for (std::string node = bus; node.size() >= tree.root().size(); node = parent_node(node))
        if (const auto cells = tree.read_cells(node, property); cells.size() == 1)
            return cells[0];
    return DEFAULT;
}

/// nullopt: the property is not understood.
std::optional<std::vector<dma_range>> read_dma_ranges(device_tree &tree, const std::string &bus) {
    if (bus == tree.root())
        return {};
    // of_n_addr_cells(): the parent in the tree, also if the DMA goes another way.
    const std::size_t parent_cells = read_num_cells(tree, parent_node(bus), "#address-cells");
    const std::size_t bus_cells = read_num_cells(tree, bus, "#address-cells");
    const std::size_t size_cells = read_num_cells(tree, bus, "#size-cells");
    const auto cells = tree.read_cells(bus, "dma-ranges");
    constexpr std::size_t MAX_CELLS = 4; // as OF_MAX_ADDR_CELLS
    if (std::max({parent_cells, bus_cells, size_cells}) > MAX_CELLS)
        return {};
    const std::size_t entry_cells = bus_cells + parent_cells + size_cells;
    if (entry_cells == 0 || cells.size() / entry_cells > MAX_RANGES)
        return {};
    std::vector<dma_range> ranges;
    for (std::span rest(cells); rest.size() >= entry_cells; rest = rest.subspan(entry_cells))
        ranges.push_back({.bus_addr = read_number(rest.first(bus_cells)),
                          .parent_addr = read_number(rest.subspan(bus_cells, parent_cells)),
                          .size = read_number(rest.subspan(bus_cells + parent_cells, size_cells))});
    return ranges;
}

// The nearest bus with entries in dma-ranges, from this node on; "" if there is none.
std::string find_bus_with_ranges(device_tree &tree, const std::string &first_node) {
    std::string node = first_node;
    for (int depth = 0; !node.empty() && depth < device_tree::MAX_DEPTH; ++depth) {
        if (!tree.read_cells(node, "dma-ranges").empty())
            return node;
        // of_dma_get_range(): only the first node may be without the property.
        if (depth > 0 && !tree.has_property(node, "dma-ranges"))
            return {};
        node = tree.find_dma_parent(node);
    }
    return {};
}

/// Translates an address on a node's bus to one of the CPU, as of_translate_dma_address(): a bus
/// without entries in dma-ranges does not change it.
std::optional<std::uint64_t> translate(device_tree &tree, const std::string &first_node,
                                       std::uint64_t addr) {
    std::string node = first_node;
    for (int depth = 0; !node.empty() && depth < device_tree::MAX_DEPTH; ++depth) {
        if (!tree.read_cells(node, "dma-ranges").empty()) {
            const auto ranges = read_dma_ranges(tree, node);
            if (!ranges)
                return {};
            const auto it = std::ranges::find_if(*ranges, [addr](const dma_range &range) {
                return addr >= range.bus_addr && addr - range.bus_addr < range.size;
            });
            if (it == ranges->end())
                return {};
            addr = it->parent_addr + (addr - it->bus_addr);
        }
        node = tree.find_dma_parent(node);
    }
    return addr;
}

/// Adds the ranges of addresses in a property such as reg. Returns false if it is not understood.
bool read_ranges(device_tree &tree, const std::string &node, const char *property,
                 std::vector<address_range> &ranges) {
    const std::size_t address_cells = read_num_cells(tree, parent_node(node), "#address-cells");
    const std::size_t size_cells = read_num_cells(tree, parent_node(node), "#size-cells");
    const auto cells = tree.read_cells(node, property);
    constexpr std::size_t MAX_CELLS = 2;
    const std::size_t entry_cells = address_cells + size_cells;
    if (std::max(address_cells, size_cells) > MAX_CELLS || entry_cells == 0 ||
        cells.size() / entry_cells > MAX_RANGES)
        return false;
    for (std::span rest(cells); rest.size() >= entry_cells; rest = rest.subspan(entry_cells)) {
        const std::uint64_t size = read_number(rest.subspan(address_cells, size_cells));
        if (size != 0)
            ranges.push_back(make_range(read_number(rest.first(address_cells)), size));
    }
    return true;
}

// The memory of a machine whose firmware tells the kernel in another way than by the device tree:
// block N of it has the folder memoryN. Empty if there are none.
std::vector<address_range> read_memory_blocks(const std::string &root) {
    const std::string folder = root + "/sys/devices/system/memory";
    const auto parse = [](const std::string &text, int base, std::uint64_t &number) {
        const char *const end = text.data() + text.size();
        const auto result = std::from_chars(text.data(), end, number, base);
        return result.ec == std::errc() && result.ptr == end;
    };
    std::uint64_t size = 0;
    if (!parse(read_line(folder + "/block_size_bytes").value_or(""), 16, size) || size == 0)
        return {};
    const std::string prefix = "memory";
    std::vector<address_range> memory;
    for (const std::string &name : list_folder(folder)) {
        std::uint64_t number = 0;
        if (name.rfind(prefix, 0) != 0 || !parse(name.substr(prefix.size()), 10, number))
            continue;
        if (number > UINT64_MAX / size - 1)
            return {};
        memory.push_back(make_range(number * size, size));
    }
    return memory;
}

// The memory of the machine, as early_init_dt_scan_memory(); empty if the tree does not tell.
std::vector<address_range> read_memory(device_tree &tree) {
    std::vector<address_range> memory;
    for (const std::string &node : tree.find_children(tree.root())) {
        if (!tree.has_string(node, "device_type", "memory") || !tree.is_available(node))
            continue;
        const char *const property =
            tree.has_property(node, "linux,usable-memory") ? "linux,usable-memory" : "reg";
        if (!read_ranges(tree, node, property, memory))
            return {};
    }
    return memory;
}

/// Adds the memory that the kernel never gives to programs, as __fdt_scan_reserved_mem().
void read_reserved_memory(device_tree &tree, std::vector<address_range> &ranges) {
    const std::string parent = tree.root() + "/reserved-memory";
    if (!tree.has_property(parent, "ranges"))
        return;
    for (const std::string &node : tree.find_children(parent))
        if (tree.is_available(node) && !tree.has_property(node, "reusable"))
            read_ranges(tree, node, "reg", ranges);
}

// The first address of a range of memory that no accessible range has; its end if they have all.
std::uint64_t find_gap(const address_range &memory, const std::vector<address_range> &accessible) {
    std::uint64_t addr = memory.begin;
    for (const address_range &range : accessible) // in order
        if (range.begin <= addr && addr < range.end)
            addr = range.end;
    return std::min(addr, memory.end);
}

} // namespace

std::optional<std::string> find_dma_shortage(device_tree &tree, const std::string &first_bus,
                                             const std::string &root) {
    const std::string bus = find_bus_with_ranges(tree, first_bus);
    if (bus.empty())
        return "";
    const auto ranges = read_dma_ranges(tree, bus);
    std::vector<address_range> memory = read_memory(tree);
    if (memory.empty())
        memory = read_memory_blocks(root);
    if (!ranges || memory.empty())
        return {};
    std::vector<address_range> accessible;
    const std::string parent = tree.find_dma_parent(bus);
    for (const dma_range &range : *ranges) // the kernel ignores one that has no translation
        if (const auto begin = translate(tree, parent, range.parent_addr))
            accessible.push_back(make_range(*begin, range.size));
    if (accessible.empty())
        return {};
    read_reserved_memory(tree, accessible);
    std::ranges::sort(accessible, {}, &address_range::begin);
    for (const address_range &range : memory) {
        const std::uint64_t gap = find_gap(range, accessible);
        if (gap == range.end)
            continue;
        std::array<char, 64> text;
        std::snprintf(text.data(), text.size(), "memory at 0x%" PRIx64 ", outside dma-ranges", gap);
        return text.data();
    }
    return "";
}

} // namespace coherdma::coherency
