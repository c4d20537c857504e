// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The device tree in sysfs: a node is a folder, and a property a file in it, with numbers as 32-bit
// big-endian cells.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace coherdma::coherency {

struct rule_input;

/// Reads nodes and properties. What cannot be read is not taken for missing: `unread` is then its
/// path, and no result may rest on what was found.
class device_tree {
  public:
    static constexpr int MAX_DEPTH = 64; ///< of a chain of DMA parents, which may be circular

    explicit device_tree(const rule_input &input);

    /// The folder of a device's node, by its folder in sysfs; "" if it has none.
    std::string find_node(const std::string &device);

    /// The node by which Linux configures the DMA of a device: its own, or for PCI that of the
    /// parent of the host bridge. "" if there is none.
    std::string find_dma_node(const std::string &device);

    /// The first node whose dma-ranges concern the device: that of the bus that it is on.
    std::string find_dma_bus(const std::string &device);

    /// The node through which the DMA of a node goes: the target of its interconnect dma-mem, else
    /// its parent in the tree; "" for the root of the tree.
    std::string find_dma_parent(const std::string &node);

    /// The nodes to which the property, a list of phandles, refers. One that is not in the tree
    /// counts as unread.
    std::vector<std::string> find_targets(const std::string &node, const char *property);

    std::vector<std::string> find_children(const std::string &node);

    /// As of_device_is_available(): not disabled by the property status.
    bool is_available(const std::string &node);

    bool has_property(const std::string &node, const char *property);

    /// Empty if the node does not have it.
    std::vector<std::uint32_t> read_cells(const std::string &node, const char *property);

    /// Whether the property, a list of strings, has this string.
    bool has_string(const std::string &node, const char *property, const char *text);

    const std::string &root() const noexcept { return m_root; } ///< "" without a device tree
    const std::string &unread() const noexcept { return m_unread; }

  private:
    bool check_missing(const std::string &path);
    std::string read(const std::string &node, const char *property);
    int find_string(const std::string &node, const char *property, const std::string &text);
    void find_phandles();
    std::string find_node_by_phandle(std::uint32_t phandle);

    const rule_input &m_input;
    std::string m_root, m_unread;
    /// Nodes by phandle, the number by which properties refer to them; empty until it is needed.
    std::unordered_map<std::uint32_t, std::string> m_phandles;
};

} // namespace coherdma::coherency
