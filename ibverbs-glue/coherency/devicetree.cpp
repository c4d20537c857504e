// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Device tree: as Linux does, start at the device's node, or for PCI at the host bridge's, and
// follow the DMA parents until a node has the property dma-coherent or dma-noncoherent. If none
// has, the architecture's default applies.

#include "device_path.hpp"
#include "devicetree/device_tree.hpp"
#include "files.hpp"
#include "kernel_version.hpp"
#include "rules.hpp"

namespace coherdma::coherency {
namespace {

// Hardware for which dma-coherent is not true before a version of the kernel.
struct quirk {
    const char *compatible;
    kernel_version fixed_in;
    const char *reason;
};
constexpr quirk QUIRKS[] = {
    // qcom_pcie_post_init_2_7_0() in drivers/pci/controller/dwc/pcie-qcom.c sets
    // PARF_NO_SNOOP_OVERRIDE for this one (1d648bf79d4d). A version in which it surely does.
    {"qcom,pcie-sa8775p",
     {.major = 6, .minor = 11},
     "the device tree says dma-coherent, but before 6.11 the kernel may let this PCI host bridge "
     "send all requests with No Snoop"},
};

const quirk *find_quirk(device_tree &tree, const std::string &node,
                        const std::string &kernel_release) {
    for (const quirk &quirk : QUIRKS)
        if (tree.has_string(node, "compatible", quirk.compatible) &&
            parse_kernel_release(kernel_release) < quirk.fixed_in)
            return &quirk;
    return nullptr;
}

// For a device of which the tree says nothing: of_dma_is_coherent() with
// CONFIG_ARCH_DMA_DEFAULT_COHERENT (6.1: CONFIG_OF_DMA_DEFAULT_COHERENT). 32-bit POWER (ppc) has it
// except on CPUs of the series 44x and 8xx, which uname -m does not tell apart.
std::uint32_t default_coherency(const std::string &machine) {
    if (machine == "aarch64" || machine.rfind("arm", 0) == 0)
        return COHERDMA_NON_COHERENT;
    if (machine.rfind("riscv", 0) == 0 || machine.rfind("ppc64", 0) == 0)
        return COHERDMA_COHERENT;
    return COHERDMA_UNKNOWN;
}

evidence walk_dma_parents(const rule_input &input, device_tree &tree,
                          const std::string &first_node) {
    evidence result;
    std::string node = first_node;
    int depth = 0;
    for (; !node.empty() && depth < device_tree::MAX_DEPTH; ++depth) {
        const bool is_coherent = tree.has_property(node, "dma-coherent");
        if (is_coherent || tree.has_property(node, "dma-noncoherent")) {
            const quirk *const quirk =
                is_coherent ? find_quirk(tree, first_node, input.kernel_release) : nullptr;
            result.source = strip_root(input, node);
            result.value = is_coherent ? "dma-coherent" : "dma-noncoherent";
            result.coherency = is_coherent && !quirk ? COHERDMA_COHERENT : COHERDMA_NON_COHERENT;
            result.reason = quirk ? quirk->reason : "the device tree has this property";
            return result;
        }
        node = tree.find_dma_parent(node);
    }
    result.source = strip_root(input, first_node);
    if (!node.empty()) {
        result.reason =
            "the node has more than " + std::to_string(device_tree::MAX_DEPTH) + " DMA parents";
        return result;
    }
    result.value = "neither dma-coherent nor dma-noncoherent in the node or its DMA parents";
    result.coherency = default_coherency(input.machine);
    if (result.coherency == COHERDMA_UNKNOWN)
        result.reason = "the default on " + input.machine + " is unknown";
    else
        result.reason = "without these properties Linux treats devices on " + input.machine +
                        " as " + coherdma_coherency_str(result.coherency);
    return result;
}

} // namespace

/// The rule "devicetree" of rules.cpp: the device's node or a DMA parent says it. COHERDMA_UNKNOWN:
/// the rule has no result.
evidence evaluate_devicetree(const rule_input &input) {
    evidence result;
    const std::string device = find_hardware_folder(input);
    const std::string bridge = find_host_bridge(device);
    device_tree tree(input);
    const std::string first_node = tree.find_dma_node(device);
    if (!first_node.empty())
        result = walk_dma_parents(input, tree, first_node);
    else
        result.reason = "not described by a device tree";
    if (!tree.unread().empty()) {
        result.coherency = COHERDMA_UNKNOWN;
        result.value = "unreadable: " + strip_root(input, tree.unread());
        result.reason = "not all of the device tree can be read";
    }
    if (result.source.empty())
        result.source = device.empty()
                            ? "/sys/firmware/devicetree"
                            : strip_root(input, bridge.empty() ? device : parent_folder(bridge));
    return result;
}

} // namespace coherdma::coherency
