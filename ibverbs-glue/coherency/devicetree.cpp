// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Where a device tree describes the machine, Linux goes up from the device's node, or for PCI from
// the host bridge's, by way of the nodes through which it does DMA, until one has the property
// dma-coherent or dma-noncoherent. If none has, the machine's kind decides. We go the same way:
// a node is a folder, a property a file in it, numbers in them big-endian words of 32 bits.

#include "files.hpp"
#include "place.hpp"
#include "verdict.hpp"

namespace coherdma::coherency {
namespace {

constexpr int DEEPEST = 64;
constexpr std::size_t MOST_NODES = 20000;

std::vector<std::uint32_t> words(const std::string &property) {
    std::vector<std::uint32_t> all;
    const std::string bytes = read_file(property).value_or("");
    for (std::size_t at = 0; at + 4 <= bytes.size(); at += 4) {
        std::uint32_t each = 0;
        for (std::size_t place = at; place < at + 4; ++place)
            each = each << 8 | static_cast<unsigned char>(bytes[place]);
        all.push_back(each);
    }
    return all;
}

std::string node_of_handle(const std::string &top, std::uint32_t handle) {
    std::vector<std::string> left = {top};
    for (std::size_t seen = 0; !left.empty() && seen < MOST_NODES; ++seen) {
        const std::string node = left.back();
        left.pop_back();
        const auto own = words(node + "/phandle");
        if (own.size() == 1 && own[0] == handle)
            return node;
        for (const std::string &name : names_in(node)) {
            // Properties far outnumber nodes, and opening one as a folder fails at once.
            if (exists(node + "/" + name + "/."))
                left.push_back(node + "/" + name);
        }
    }
    return {};
}

// Which of the node's interconnects is named dma-mem, from 0; -1 if none is.
int memory_interconnect(const std::string &node) {
    const std::string names = read_file(node + "/interconnect-names").value_or("");
    int place = 0;
    for (std::size_t at = 0; at < names.size(); ++place) {
        const std::size_t end = std::min(names.find('\0', at), names.size());
        if (names.compare(at, end - at, "dma-mem") == 0)
            return place;
        at = end + 1;
    }
    return -1;
}

std::string dma_parent(const std::string &top, const std::string &node) {
    int wanted = memory_interconnect(node);
    const auto list = words(node + "/interconnects");
    for (std::size_t at = 0; wanted >= 0 && at < list.size(); --wanted) {
        const std::string target = node_of_handle(top, list[at]);
        const auto cells = words(target + "/#interconnect-cells");
        if (target.empty() || cells.size() != 1)
            break;
        if (wanted == 0)
            return target;
        at += std::size_t{1} + cells[0];
    }
    return node.size() > top.size() ? parent(node) : "";
}

} // namespace

finding ask_devicetree(const subject &device) {
    finding found;
    const std::string place = hardware(device);
    const std::string bridge = host_bridge(place);
    const std::string owner = bridge.empty() ? place : parent(bridge);
    const std::string top = real_path(device.root, "/sys/firmware/devicetree/base");
    // of_node leads into the tree; root has been looked after by the path to it.
    const std::string node =
        owner.empty() ? "" : real_path(device.root, without_root(device, owner) + "/of_node");
    found.source = owner.empty() ? "/sys/firmware/devicetree" : without_root(device, owner);
    if (top.empty() || node.compare(0, top.size(), top) != 0) {
        found.reason = "no device tree describes it";
        return found;
    }
    std::string at = node;
    for (int step = 0; !at.empty() && step < DEEPEST; ++step) {
        const bool yes = exists(at + "/dma-coherent");
        if (yes || exists(at + "/dma-noncoherent")) {
            found.source = without_root(device, at);
            found.value = yes ? "dma-coherent" : "dma-noncoherent";
            found.verdict = yes ? COHERDMA_COHERENT : COHERDMA_NON_COHERENT;
            found.reason = "the device tree says so";
            return found;
        }
        at = dma_parent(top, at);
    }
    found.source = without_root(device, node);
    found.value = "neither dma-coherent nor dma-noncoherent, in no node above either";
    const bool arm = device.machine == "aarch64" || device.machine.rfind("arm", 0) == 0;
    const bool others =
        device.machine.rfind("riscv", 0) == 0 || device.machine.rfind("ppc", 0) == 0;
    if (arm || others) {
        found.verdict = arm ? COHERDMA_NON_COHERENT : COHERDMA_COHERENT;
        found.reason = "without a word in the device tree Linux takes a device on " +
                       device.machine + " for " + (arm ? "non-coherent" : "coherent");
    } else {
        found.reason = "what that means on " + device.machine + " is not known";
    }
    return found;
}

} // namespace coherdma::coherency
