// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "device_tree.hpp"
#include "../device_path.hpp"
#include "../files.hpp"
#include "../rules.hpp"

#include <cerrno>

namespace coherdma::coherency {
namespace {

constexpr std::size_t MAX_NODES = 20000;

} // namespace

device_tree::device_tree(const rule_input &input)
    : m_input(input)
    , m_root(real_path(input.root, "/sys/firmware/devicetree/base")) {
    if (m_root.empty())
        check_missing("/sys/firmware/devicetree/base");
}

/// After a failed call, by errno: sets m_unread unless the file does not exist. Returns false.
bool device_tree::check_missing(const std::string &path) {
    if (is_unreadable(errno) && m_unread.empty())
        m_unread = path;
    return false;
}

std::string device_tree::find_node(const std::string &device) {
    if (device.empty())
        return {};
    // Resolved as a path below the root of sysfs: the link leads into the tree.
    const std::string link = strip_root(m_input, device) + "/of_node";
    std::string node = real_path(m_input.root, link);
    if (node.empty() && !check_missing(link) && link_exists(m_input.root + link) &&
        m_unread.empty())
        m_unread = link; // a container hides the tree
    const bool is_in_tree = node == m_root || node.rfind(m_root + "/", 0) == 0;
    return !m_root.empty() && is_in_tree ? node : "";
}

std::string device_tree::find_dma_node(const std::string &device) {
    const std::string bridge = find_host_bridge(device);
    return find_node(bridge.empty() ? device : parent_folder(bridge));
}

// As of_dma_configure_id(): the node of a PCI host bridge is that of the bus.
std::string device_tree::find_dma_bus(const std::string &device) {
    const std::string node = find_dma_node(device);
    return node.empty() || !find_host_bridge(device).empty() ? node : find_dma_parent(node);
}

bool device_tree::has_property(const std::string &node, const char *property) {
    const std::string path = node + "/" + property;
    return path_exists(path) || check_missing(path);
}

std::string device_tree::read(const std::string &node, const char *property) {
    const std::string path = node + "/" + property;
    const auto bytes = read_file(path);
    if (!bytes)
        check_missing(path);
    return bytes.value_or("");
}

std::vector<std::uint32_t> device_tree::read_cells(const std::string &node, const char *property) {
    std::vector<std::uint32_t> cells;
    const std::string bytes = read(node, property);
    for (std::size_t offset = 0; offset + 4 <= bytes.size(); offset += 4) {
        std::uint32_t cell = 0;
        for (std::size_t i = offset; i < offset + 4; ++i)
            cell = cell << 8 | static_cast<unsigned char>(bytes[i]);
        cells.push_back(cell);
    }
    return cells;
}

// The index of a string in a property that is a list of them, or -1.
int device_tree::find_string(const std::string &node, const char *property,
                             const std::string &text) {
    const std::string strings = read(node, property);
    int index = 0;
    for (std::size_t offset = 0; offset < strings.size(); ++index) {
        const std::size_t end = std::min(strings.find('\0', offset), strings.size());
        if (strings.compare(offset, end - offset, text) == 0)
            return index;
        offset = end + 1;
    }
    return -1;
}

bool device_tree::has_string(const std::string &node, const char *property, const char *text) {
    return find_string(node, property, text) >= 0;
}

std::vector<std::string> device_tree::find_children(const std::string &node) {
    const auto names = try_list_subfolders(node);
    if (!names)
        check_missing(node);
    std::vector<std::string> children;
    for (const std::string &name : names.value_or(std::vector<std::string>()))
        children.push_back(node + "/" + name);
    return children;
}

bool device_tree::is_available(const std::string &node) {
    return !has_property(node, "status") || has_string(node, "status", "okay") ||
           has_string(node, "status", "ok");
}

void device_tree::find_phandles() {
    std::vector<std::string> pending = {m_root};
    for (std::size_t i = 0; !pending.empty() && i < MAX_NODES; ++i) {
        const std::string node = pending.back();
        pending.pop_back();
        if (const auto cells = read_cells(node, "phandle"); cells.size() == 1)
            m_phandles.emplace(cells[0], node);
        for (const std::string &child : find_children(node))
            pending.push_back(child);
    }
    if (!pending.empty() && m_unread.empty())
        m_unread = m_root; // too large
}

// "" if there is none.
std::string device_tree::find_node_by_phandle(std::uint32_t phandle) {
    if (m_phandles.empty())
        find_phandles();
    const auto it = m_phandles.find(phandle);
    return it != m_phandles.end() ? it->second : "";
}

std::vector<std::string> device_tree::find_targets(const std::string &node, const char *property) {
    std::vector<std::string> targets;
    for (const std::uint32_t phandle : read_cells(node, property)) {
        if (std::string target = find_node_by_phandle(phandle); !target.empty())
            targets.push_back(std::move(target));
        else if (m_unread.empty())
            m_unread = node + "/" + property;
    }
    return targets;
}

std::string device_tree::find_dma_parent(const std::string &node) {
    // `interconnects` is a list of entries: the phandle of a target, and as many further cells as
    // the target's #interconnect-cells says.
    const auto interconnects = read_cells(node, "interconnects");
    int num_entries_before = find_string(node, "interconnect-names", "dma-mem");
    for (std::size_t i = 0; num_entries_before >= 0 && i < interconnects.size();
         --num_entries_before) {
        const std::string target = find_node_by_phandle(interconnects[i]);
        const auto num_further_cells = target.empty() ? std::vector<std::uint32_t>()
                                                      : read_cells(target, "#interconnect-cells");
        if (num_further_cells.size() != 1)
            break;
        if (num_entries_before == 0)
            return target;
        i += std::size_t{1} + num_further_cells[0];
    }
    return node.size() > m_root.size() ? parent_folder(node) : "";
}

} // namespace coherdma::coherency
