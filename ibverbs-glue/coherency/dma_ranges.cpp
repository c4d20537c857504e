// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dma-ranges of the device tree: the memory that devices below a bus can access, as the kernel
// reads it in of_dma_get_range(). Each entry of the property is an address on the bus, an address
// on the parent's bus, and a size.

#include "dma_ranges.hpp"
#include "device_tree.hpp"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <vector>

namespace coherdma::coherency {
namespace {

struct address_range {
    std::uint64_t begin = 0, end = 0;
};

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

constexpr std::size_t UNKNOWN = SIZE_MAX;

// The property of a bus that says how many cells its children's addresses or sizes have, or
// UNKNOWN.
std::size_t read_num_cells(device_tree &tree, const std::string &bus, const char *property) {
    constexpr std::uint32_t MAX_CELLS = 4;
    const auto cells = tree.read_cells(bus, property);
    return cells.size() == 1 && cells[0] <= MAX_CELLS ? cells[0] : UNKNOWN;
}

/// nullopt: the property cannot be understood.
std::optional<std::vector<dma_range>> read_dma_ranges(device_tree &tree, const std::string &bus) {
    if (bus == tree.root())
        return {};
    // of_n_addr_cells(): the parent in the tree, also if the DMA goes another way.
    const std::string parent = bus.substr(0, bus.rfind('/'));
    const std::size_t bus_cells = read_num_cells(tree, bus, "#address-cells");
    const std::size_t parent_cells = read_num_cells(tree, parent, "#address-cells");
    const std::size_t size_cells = read_num_cells(tree, bus, "#size-cells");
    const auto cells = tree.read_cells(bus, "dma-ranges");
    if (bus_cells == UNKNOWN || parent_cells == UNKNOWN || size_cells == UNKNOWN)
        return {};
    const std::size_t entry_cells = bus_cells + parent_cells + size_cells;
    if (entry_cells == 0 || cells.size() % entry_cells != 0)
        return {};
    std::vector<dma_range> ranges;
    for (std::span rest(cells); !rest.empty(); rest = rest.subspan(entry_cells))
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

/// Adds the ranges of addresses in the property reg of a node. Returns false if it cannot be
/// understood.
bool read_reg(device_tree &tree, const std::string &node, std::vector<address_range> &ranges) {
    const std::string parent = node.substr(0, node.rfind('/'));
    const std::size_t address_cells = read_num_cells(tree, parent, "#address-cells");
    const std::size_t size_cells = read_num_cells(tree, parent, "#size-cells");
    const auto cells = tree.read_cells(node, "reg");
    if (address_cells == UNKNOWN || size_cells == UNKNOWN || address_cells + size_cells == 0 ||
        cells.size() % (address_cells + size_cells) != 0)
        return false;
    for (std::span rest(cells); !rest.empty(); rest = rest.subspan(address_cells + size_cells)) {
        const std::uint64_t begin = read_number(rest.first(address_cells));
        const std::uint64_t size = read_number(rest.subspan(address_cells, size_cells));
        if (size != 0)
            ranges.push_back({.begin = begin, .end = begin + size});
    }
    return true;
}

// The memory of the machine; nullopt if the tree does not tell.
std::optional<std::vector<address_range>> read_memory(device_tree &tree) {
    std::vector<address_range> memory;
    for (const std::string &node : tree.find_children(tree.root()))
        if (tree.has_string(node, "device_type", "memory") && !read_reg(tree, node, memory))
            return {};
    return memory;
}

/// Adds the memory that the kernel does not use, so that no program has it.
void read_unused_memory(device_tree &tree, std::vector<address_range> &ranges) {
    const std::string parent = tree.root() + "/reserved-memory";
    if (!tree.has_property(parent, "ranges"))
        return;
    for (const std::string &node : tree.find_children(parent))
        if (tree.has_property(node, "no-map"))
            read_reg(tree, node, ranges);
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

std::string find_dma_shortage(device_tree &tree, const std::string &first_bus) {
    const std::string bus = find_bus_with_ranges(tree, first_bus);
    const auto memory = bus.empty() ? std::nullopt : read_memory(tree);
    const auto ranges = memory ? read_dma_ranges(tree, bus) : std::nullopt;
    if (!ranges)
        return {};
    std::vector<address_range> accessible;
    const std::string parent = tree.find_dma_parent(bus);
    for (const dma_range &range : *ranges) // the kernel ignores one that has no translation
        if (const auto begin = translate(tree, parent, range.parent_addr))
            accessible.push_back({.begin = *begin, .end = *begin + range.size});
    if (accessible.empty())
        return {};
    read_unused_memory(tree, accessible);
    if (!tree.unread().empty())
        return {};
    std::ranges::sort(accessible, {}, &address_range::begin);
    for (const address_range &range : *memory) {
        const std::uint64_t gap = find_gap(range, accessible);
        if (gap == range.end)
            continue;
        std::array<char, 64> text;
        std::snprintf(text.data(), text.size(), "memory at 0x%" PRIx64 ", outside dma-ranges", gap);
        return text.data();
    }
    return {};
}

} // namespace coherdma::coherency
