// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Bounce buffers (swiotlb): if a device cannot access the program's memory, the kernel gives it a
// copy. Before Linux 7.0 the RDMA core registers such a copy, too. It is written when the memory is
// registered and read back when it is deregistered; between both the program and the device never
// see each other's data, and no instruction of the CPU changes that. Since 7.0 the kernel refuses
// to register the memory.
//
// The functions below follow is_swiotlb_force_bounce() and dma_capable() in dma_direct_map_phys(),
// which serves devices that are not behind an IOMMU.

#include "confidential_guest.hpp"
#include "device_path.hpp"
#include "device_tree.hpp"
#include "dma_ranges.hpp"
#include "files.hpp"
#include "rules.hpp"

#include <cerrno>
#include <sstream>

namespace coherdma::coherency {
namespace {

constexpr std::size_t MAX_COMMAND_LINE = 65536;

evidence bounced(std::string source, std::string value, std::string reason) {
    return {.coherency = COHERDMA_BOUNCED,
            .source = std::move(source),
            .value = std::move(value),
            .reason = std::move(reason)};
}

evidence not_bounced(std::string source, std::string value, std::string reason) {
    return {.coherency = COHERDMA_UNKNOWN,
            .source = std::move(source),
            .value = std::move(value),
            .reason = std::move(reason)};
}

// Whether the kernel's parameter swiotlb, such as swiotlb=65536,force, has this word.
bool has_swiotlb_parameter(const std::string &command_line, const std::string &word) {
    std::istringstream parameters(command_line);
    for (std::string parameter; parameters >> parameter;) {
        if (parameter.rfind("swiotlb=", 0) != 0)
            continue;
        std::istringstream values(parameter.substr(parameter.find('=') + 1));
        for (std::string value; std::getline(values, value, ',');)
            if (value == word)
                return true;
    }
    return false;
}

// of_dma_set_restricted_buffer(): the device's own node, or that by which its DMA is configured,
// has a memory-region that is a restricted-dma-pool. Returns its path; "" if it has none.
std::string find_restricted_pool(const std::string &device, device_tree &tree) {
    std::string node = tree.find_node(device);
    if (node.empty() || !tree.has_property(node, "memory-region"))
        node = tree.find_dma_node(device);
    if (node.empty())
        return {};
    for (const std::string &region : tree.find_targets(node, "memory-region"))
        if (tree.has_string(region, "compatible", "restricted-dma-pool") &&
            (!tree.has_property(region, "status") || tree.has_string(region, "status", "okay") ||
             tree.has_string(region, "status", "ok")))
            return region;
    return {};
}

} // namespace

/// The rule "bounce" of rules.cpp: the kernel gives the device copies of the program's memory.
/// COHERDMA_UNKNOWN: the rule has no result.
evidence evaluate_bounce(const rule_input &input) {
    if (input.context && input.has_dma_bounce_flag && input.has_dma_bounce_flag(input.context))
        return bounced("ibv_query_device_ex", "IB_UVERBS_DEVICE_CC_DMA_BOUNCE",
                       "the kernel copies the data of this device through bounce buffers");
    std::string unread;
    std::string guest = input.x86_confidential_guest;
    const char *const source = guest.empty() ? "/sys" : "CPUID";
    if (guest.empty())
        guest = find_confidential_guest_in_sysfs(input.root, input.machine, unread);
    if (!guest.empty())
        return bounced(source, guest,
                       "in this confidential guest the kernel copies the data of all devices "
                       "through bounce buffers");
    const std::string device = find_hardware_folder(input);
    const std::string function = find_pci_function(device);
    const std::string domain_type = (function.empty() ? device : function) + "/iommu_group/type";
    const std::string type = device.empty() ? "" : read_line(domain_type).value_or("");
    if (unread.empty() && type.rfind("DMA", 0) == 0)
        return not_bounced(strip_root(input, domain_type), type,
                           "the IOMMU gives the device access to the program's memory");
    const auto read = [&](const char *path) {
        auto text = read_line(input.root + path, MAX_COMMAND_LINE);
        if (!text && is_unreadable(errno))
            unread = path;
        return text.value_or("");
    };
    if (!path_exists(input.root + "/proc/cmdline")) // each machine has this one
        unread = "/proc/cmdline";
    if (has_swiotlb_parameter(read("/proc/cmdline"), "force"))
        return bounced("/proc/cmdline", "swiotlb=force",
                       "the kernel copies the data of all devices through bounce buffers");
    if (read("/sys/hypervisor/guest_type") == "PV")
        return bounced("/sys/hypervisor/guest_type", "PV",
                       "in a paravirtualized guest of Xen, pages that follow each other may not do "
                       "so for the device, and the kernel copies these through bounce buffers");
    device_tree tree(input);
    const std::string bus = tree.find_dma_bus(device);
    if (const std::string pool = find_restricted_pool(device, tree); !pool.empty())
        return bounced(strip_root(input, pool), "restricted-dma-pool",
                       "the kernel copies the data of this device through this pool");
    if (const std::string shortage = find_dma_shortage(tree, bus); !shortage.empty())
        return bounced(strip_root(input, bus), shortage,
                       "the device cannot access all memory, and the kernel copies the rest "
                       "through bounce buffers");
    if (!tree.unread().empty())
        unread = strip_root(input, tree.unread());
    evidence result = not_bounced(unread.empty() ? "/proc/cmdline" : unread, "",
                                  unread.empty() ? "nothing shows that the kernel uses bounce "
                                                   "buffers for the device"
                                                 : "the file may say that the kernel uses bounce "
                                                   "buffers, but cannot be read");
    result.forbids_coherent = !unread.empty();
    return result;
}

} // namespace coherdma::coherency
