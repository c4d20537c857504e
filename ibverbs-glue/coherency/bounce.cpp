// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Bounce buffers (swiotlb): if a device cannot access the program's memory, the kernel gives it a
// copy. Before Linux 7.0 the RDMA core registers such a copy, too. It is written when the memory is
// registered and read back when it is deregistered; between both the program and the device never
// see each other's data, and no instruction of the CPU changes that. Since 7.0 the kernel refuses
// to register the memory, except in a paravirtualized guest of Xen (xen_swiotlb_map_phys()).
//
// The functions below follow is_swiotlb_force_bounce() and dma_capable() in dma_direct_map_phys(),
// which serves devices that are not behind an IOMMU.

#include "bounce/confidential_guest.hpp"
#include "bounce/dma_ranges.hpp"
#include "device_path.hpp"
#include "devicetree/device_tree.hpp"
#include "files.hpp"
#include "kernel_version.hpp"
#include "rules.hpp"

#include <cerrno>
#include <optional>
#include <sstream>

namespace coherdma::coherency {
namespace {

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

// Whether the kernel's command line has this parameter with this value in its list of values, such
// as swiotlb=65536,force. What follows "--" is for the init process.
bool has_parameter(const std::string &command_line, const std::string &name,
                   const std::string &value) {
    std::istringstream parameters(command_line);
    for (std::string parameter; parameters >> parameter && parameter != "--";) {
        if (parameter.rfind(name + "=", 0) != 0)
            continue;
        std::istringstream values(parameter.substr(name.size() + 1));
        for (std::string word; std::getline(values, word, ',');)
            if (value.empty() || word == value)
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
            tree.is_available(region))
            return region;
    return {};
}

// Evaluates the rule for one device. What cannot be read and may be a reason for bounce buffers is
// m_unread.
class bounce_rule {
  public:
    explicit bounce_rule(const rule_input &input)
        : m_input(input) {}

    evidence evaluate();

  private:
    std::string read(const std::string &path);
    std::optional<evidence> find_xen();
    std::optional<evidence> ask_kernel();
    std::optional<evidence> find_iommu();
    std::optional<evidence> find_guest();
    std::optional<evidence> find_parameter();
    std::optional<evidence> find_in_device_tree();

    const rule_input &m_input;
    std::string m_device; ///< the folder of what does the DMA: of a subfunction, its PCI function
    std::string m_unread;
};

std::string bounce_rule::read(const std::string &path) {
    auto text = read_file(m_input.root + path);
    if (!text && is_unreadable(errno))
        m_unread = path;
    return text.value_or("");
}

// A guest whose pages follow each other for the CPU, but not for the device.
std::optional<evidence> bounce_rule::find_xen() {
    if (read("/sys/hypervisor/guest_type") != "PV\n")
        return {};
    return bounced("/sys/hypervisor/guest_type", "PV",
                   "in a paravirtualized guest of Xen the kernel copies some memory through bounce "
                   "buffers");
}

// What the kernel says of this device itself. A registration proves nothing in a guest of Xen.
std::optional<evidence> bounce_rule::ask_kernel() {
    if (!m_input.context)
        return {};
    if (m_input.has_dma_bounce_flag && m_input.has_dma_bounce_flag(m_input.context))
        return bounced("ibv_query_device_ex", "IB_UVERBS_DEVICE_CC_DMA_BOUNCE",
                       "the kernel copies the data of this device through bounce buffers");
    if (!m_unread.empty() ||
        parse_kernel_release(m_input.kernel_release) < kernel_version{.major = 7, .minor = 0} ||
        !m_input.try_reg_mr || m_input.try_reg_mr(m_input.context) != 0)
        return {};
    return not_bounced("ibv_reg_mr", "success",
                       "this kernel registers only memory that the device can access");
}

std::optional<evidence> bounce_rule::find_iommu() {
    const std::string domain_type = m_device + "/iommu_group/type";
    const std::string type = m_device.empty() ? "" : read_line(domain_type).value_or("");
    if (type.rfind("DMA", 0) != 0) // DMA or DMA-FQ; "identity" does not translate
        return {};
    return not_bounced(strip_root(m_input, domain_type), type,
                       "the IOMMU gives the device access to the program's memory");
}

std::optional<evidence> bounce_rule::find_guest() {
    confidential_guest guest = m_input.x86_guest;
    if (guest.technique.empty() || !guest.is_certain)
        if (auto in_sysfs = find_confidential_guest_in_sysfs(m_input.root, m_input.machine);
            guest.technique.empty() || !in_sysfs.technique.empty())
            guest = std::move(in_sysfs);
    if (!guest.is_certain)
        m_unread = guest.source;
    if (!guest.is_certain || guest.technique.empty())
        return {};
    return bounced(guest.source, guest.technique,
                   "in this confidential guest the kernel copies the data of all devices through "
                   "bounce buffers");
}

std::optional<evidence> bounce_rule::find_parameter() {
    const std::string command_line = read("/proc/cmdline");
    if (command_line.empty()) // each machine has this one, and it ends with a newline
        m_unread = "/proc/cmdline";
    if (has_parameter(command_line, "swiotlb", "force"))
        return bounced("/proc/cmdline", "swiotlb=force",
                       "the kernel copies the data of all devices through bounce buffers");
    return {};
}

std::optional<evidence> bounce_rule::find_in_device_tree() {
    device_tree tree(m_input);
    // The kernel uses the pool for a device without an IOMMU only.
    const bool has_iommu = !m_device.empty() && path_exists(m_device + "/iommu_group");
    if (const std::string pool = has_iommu ? "" : find_restricted_pool(m_device, tree);
        !pool.empty())
        return bounced(strip_root(m_input, pool), "restricted-dma-pool",
                       "the kernel copies the data of this device through this pool");
    const std::string bus = tree.find_dma_bus(m_device);
    const auto shortage = find_dma_shortage(tree, bus, m_input.root);
    const bool is_limited = has_parameter(read("/proc/cmdline"), "mem", ""); // less than all memory
    if (!tree.unread().empty())
        m_unread = strip_root(m_input, tree.unread());
    else if (!shortage || (is_limited && !shortage->empty()))
        m_unread = strip_root(m_input, bus) + "/dma-ranges";
    else if (!shortage->empty())
        return bounced(strip_root(m_input, bus), *shortage,
                       "the device cannot access all memory, and the kernel copies the rest "
                       "through bounce buffers");
    return {};
}

evidence bounce_rule::evaluate() {
    const std::string device = find_hardware_folder(m_input);
    const std::string function = find_pci_function(device);
    m_device = function.empty() ? device : function;
    if (!path_exists(m_input.root + "/sys/kernel")) // each machine has this one
        m_unread = "/sys";
    for (const auto find : {&bounce_rule::find_xen, &bounce_rule::ask_kernel,
                            &bounce_rule::find_iommu, &bounce_rule::find_guest,
                            &bounce_rule::find_parameter, &bounce_rule::find_in_device_tree})
        if (auto evidence = (this->*find)())
            return *std::move(evidence);
    if (m_unread.empty())
        return not_bounced("/proc/cmdline", "",
                           "nothing shows that the kernel uses bounce buffers for the device");
    evidence doubt = not_bounced(m_unread, "",
                                 "whether the kernel uses bounce buffers for the device cannot be "
                                 "told");
    doubt.forbids_coherent = true;
    return doubt;
}

} // namespace

/// The rule "bounce" of rules.cpp: the kernel gives the device copies of the program's memory.
/// COHERDMA_UNKNOWN: the rule has no result.
evidence evaluate_bounce(const rule_input &input) {
    return bounce_rule(input).evaluate();
}

} // namespace coherdma::coherency
