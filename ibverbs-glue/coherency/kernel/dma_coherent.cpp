// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// sysfs is a tree of struct kernfs_node. A folder's node has a pointer to its kobject, which is a
// member of the struct device. The way there:
//   1. sysfs has the address of the struct module of ib_core, which is loaded as long as there are
//      RDMA devices. It has a kobject, that of the folder /sys/module/ib_core.
//   2. From the node of that folder, up to the root.
//   3. From the root, down to the device's folder, by names. The children of a node are a tree,
//   too.
// Another process may change the tree meanwhile. So pointers are only followed as far as they lead
// to memory, loops are limited, and the kobject must point back to the node.

#include "dma_coherent.hpp"

#include "../architecture.hpp"
#include "../files.hpp"
#include "btf.hpp"
#include "memory.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

namespace coherdma::coherency {
namespace {

constexpr std::size_t MAX_BTF_SIZE = 64U << 20;
constexpr int MAX_DEPTH_IN_SYSFS = 64;
constexpr int MAX_CHILDREN = 1 << 16;
constexpr int MAX_ATTEMPTS = 3;
constexpr std::uint32_t BITS_PER_BYTE = 8;
constexpr std::uint32_t BITS_PER_LONG = 64;
constexpr const char *BTF_PATH = "/sys/kernel/btf/vmlinux";
constexpr const char *MODULE_PATH = "/sys/module/ib_core/sections/.gnu.linkonce.this_module";

// Where the kernel's structs have the members that are needed.
struct struct_layouts {
    enum index {
        device_kobj,
        device_dma_coherent,
        device_flags,
        flag_dma_coherent,
        module_mkobj,
        module_kobject_kobj,
        kobject_sd,
        node_parent,
        node_parent_rcu,
        node_name,
        node_dir,
        node_rb,
        node_priv,
        dir_children,
        root_rb_node,
        rb_left,
        rb_right,
        num_names
    };
    std::array<btf_name, num_names> names = {{
        {.type = "device", .name = "kobj"},
        // One bit, if the kernel can treat devices as non-coherent.
        {.type = "device", .name = "dma_coherent"},
        // Instead of it in newer kernels: a bit of a bitmap, on each architecture.
        {.type = "device", .name = "flags"},
        {.type = "struct_device_flags", .name = "DEV_FLAG_DMA_COHERENT"},
        {.type = "module", .name = "mkobj"},
        {.type = "module_kobject", .name = "kobj"},
        {.type = "kobject", .name = "sd"},
        {.type = "kernfs_node", .name = "parent"},
        {.type = "kernfs_node", .name = "__parent"}, // in newer kernels
        {.type = "kernfs_node", .name = "name"},
        {.type = "kernfs_node", .name = "dir"},
        {.type = "kernfs_node", .name = "rb"},
        {.type = "kernfs_node", .name = "priv"},
        {.type = "kernfs_elem_dir", .name = "children"},
        {.type = "rb_root", .name = "rb_node"},
        {.type = "rb_node", .name = "rb_left"},
        {.type = "rb_node", .name = "rb_right"},
    }};

    const btf_name &operator[](index i) const { return names[i]; }
    std::uint64_t offset(index i) const { return names[i].value / BITS_PER_BYTE; }

    bool is_at_byte(index i) const {
        return names[i].is_known() && names[i].bitfield_size == 0 &&
               names[i].value % BITS_PER_BYTE == 0;
    }

    bool is_missing(index i) const { return names[i].result == btf_name::search_result::missing; }

    /// Whether struct device is known, and certainly lacks dma_coherent. Some kernels without the
    /// flag have the enum, with other flags.
    bool lacks_dma_coherent() const {
        return names[device_kobj].is_known() && is_missing(device_dma_coherent) &&
               (is_missing(flag_dma_coherent) ||
                names[flag_dma_coherent].result == btf_name::search_result::no_type);
    }

    /// Whether all is known that reading the flag needs.
    bool are_complete() const {
        for (const index i :
             {device_kobj, module_mkobj, module_kobject_kobj, kobject_sd, node_name, node_dir,
              node_rb, node_priv, dir_children, root_rb_node, rb_left, rb_right}) {
            if (!is_at_byte(i))
                return false;
        }
        if (!is_at_byte(parent_index()))
            return false;
        if (names[device_dma_coherent].is_known())
            return names[device_dma_coherent].bitfield_size == 1 &&
                   std::endian::native == std::endian::little;
        return is_missing(device_dma_coherent) && names[flag_dma_coherent].is_known() &&
               names[flag_dma_coherent].value < BITS_PER_LONG && is_at_byte(device_flags);
    }

    index parent_index() const {
        return names[node_parent].is_known() ? node_parent : node_parent_rcu;
    }
};

using enum struct_layouts::index;

// The addresses of objects in the kernel's memory; 0 if one is not found.
struct sysfs_nodes {
    const kernel_memory &memory;
    const struct_layouts &layouts;

    /// The root of the tree that has the folder of a struct module.
    std::uint64_t find_root(std::uint64_t module) const {
        std::uint64_t node =
            pointer_at(module + layouts.offset(module_mkobj) + layouts.offset(module_kobject_kobj) +
                       layouts.offset(kobject_sd));
        for (int i = 0; i < MAX_DEPTH_IN_SYSFS && node != 0; ++i) {
            std::uint64_t parent = 0;
            if (!memory.read(node + layouts.offset(layouts.parent_index()), parent))
                return 0;
            if (parent == 0)
                return node;
            node = parent;
        }
        return 0;
    }

    /// The struct device of a folder, whose path begins with the root's.
    std::uint64_t find_device(std::uint64_t node, std::string_view path) const {
        while (node != 0 && !path.empty()) {
            path.remove_prefix(1); // the slash
            const std::string_view name = path.substr(0, path.find('/'));
            node = find_child(node, name);
            path.remove_prefix(name.size());
        }
        const std::uint64_t kobject = pointer_at(node + layouts.offset(node_priv));
        if (node == 0 || kobject == 0 || pointer_at(kobject + layouts.offset(kobject_sd)) != node)
            return 0;
        return kobject - layouts.offset(device_kobj);
    }

    std::uint64_t pointer_at(std::uint64_t address) const {
        std::uint64_t pointer = 0;
        return memory.read(address, pointer) ? pointer : 0;
    }

    bool has_name(std::uint64_t node, std::string_view name) const {
        std::string bytes(name.size() + 1, '\0');
        return memory.read(pointer_at(node + layouts.offset(node_name)), bytes.data(),
                           bytes.size()) &&
               bytes.back() == '\0' && bytes.compare(0, name.size(), name) == 0;
    }

    std::uint64_t find_child(std::uint64_t node, std::string_view name) const {
        std::vector<std::uint64_t> pending = {pointer_at(node + layouts.offset(node_dir) +
                                                         layouts.offset(dir_children) +
                                                         layouts.offset(root_rb_node))};
        for (int i = 0; i < MAX_CHILDREN && !pending.empty(); ++i) {
            const std::uint64_t rb_node = pending.back();
            pending.pop_back();
            if (rb_node == 0)
                continue;
            const std::uint64_t child = rb_node - layouts.offset(node_rb);
            if (has_name(child, name))
                return child;
            pending.push_back(pointer_at(rb_node + layouts.offset(rb_left)));
            pending.push_back(pointer_at(rb_node + layouts.offset(rb_right)));
        }
        return 0;
    }
};

std::optional<bool> read_flag(const kernel_memory &memory, const struct_layouts &layouts,
                              std::uint64_t device) {
    const btf_name &bit = layouts[device_dma_coherent];
    if (std::uint8_t byte = 0; bit.is_known()) {
        if (!memory.read(device + bit.value / BITS_PER_BYTE, byte))
            return {};
        return (byte >> bit.value % BITS_PER_BYTE & 1) != 0;
    }
    std::uint64_t flags = 0;
    if (!memory.read(device + layouts.offset(device_flags), flags))
        return {};
    return (flags >> layouts[flag_dma_coherent].value & 1) != 0;
}

// The result of a kernel that has no dma_coherent, or may not use it.
evidence result_without_flag(const rule_input &input, const char *value) {
    evidence result;
    result.source = BTF_PATH;
    result.value = value;
    // Elsewhere the kernel may keep the flag in another place, as on 32-bit ARM before 6.0, or may
    // be built without support for the non-coherent devices of a machine, as on RISC-V. On 32-bit
    // POWER it has the flag if it is built for CPUs with non-coherent devices.
    if (has_only_coherent_devices(input.machine) || input.machine == "ppc") {
        result.coherency = COHERDMA_COHERENT;
        result.reason = "this kernel treats every device as coherent";
    } else {
        result.reason = "on " + input.machine + " a device may nevertheless be non-coherent";
    }
    return result;
}

} // namespace

evidence read_dma_coherent(const rule_input &input, const std::string &device_folder) {
    evidence result;
    result.source = "/proc/kcore";
    const kernel_memory memory(input.root + result.source); // first: fails at once for most users
    if (!memory.is_open()) {
        const int error = memory.open_error();
        result.value = std::strerror(error);
        result.reason = error == EACCES || error == EPERM
                            ? "run as root, and without lockdown of the kernel, to see how the "
                              "kernel treats the device"
                            : "the kernel's memory cannot be read";
        return result;
    }
    const auto btf = read_file(input.root + BTF_PATH, MAX_BTF_SIZE);
    struct_layouts layouts;
    if (!btf || !find_in_btf(*btf, layouts.names)) {
        result.source = BTF_PATH;
        result.value = btf ? "not known as BTF" : std::strerror(errno);
        result.reason = "the kernel's types cannot be read";
        return result;
    }
    if (layouts.lacks_dma_coherent())
        return result_without_flag(input, "no struct device.dma_coherent");
    if (!layouts.are_complete()) {
        result.source = BTF_PATH;
        result.value = "a type is missing or differs";
        result.reason = "the kernel's types are not known";
        return result;
    }
    // Where each kernel has the flag, it is known to be used on arm64.
    if (!layouts[device_dma_coherent].is_known() && input.machine != "aarch64")
        return result_without_flag(input, "DEV_FLAG_DMA_COHERENT, which may not be used");
    const std::string address = read_line(input.root + MODULE_PATH).value_or("");
    const std::uint64_t module = std::strtoull(address.c_str(), nullptr, 16);
    if (module == 0) {
        result.source = MODULE_PATH;
        result.value = address.empty() ? std::strerror(errno) : address;
        result.reason = "the address of the module is not known";
        return result;
    }
    const sysfs_nodes nodes{memory, layouts};
    const std::string_view path =
        std::string_view(device_folder).substr(std::min(device_folder.size(), std::strlen("/sys")));
    std::optional<bool> flag;
    for (int i = 0; i < MAX_ATTEMPTS && !flag; ++i) {
        const std::uint64_t device = nodes.find_device(nodes.find_root(module), path);
        if (device != 0)
            flag = read_flag(memory, layouts, device);
        // A device that is removed meanwhile may have left its memory to others.
        if (flag && nodes.find_device(nodes.find_root(module), path) != device)
            flag.reset();
    }
    if (!flag) {
        result.value = device_folder;
        result.reason = "not found in the kernel's memory";
        return result;
    }
    result.coherency = *flag ? COHERDMA_COHERENT : COHERDMA_NON_COHERENT;
    result.value = *flag ? "dma_coherent = 1" : "dma_coherent = 0";
    result.reason = *flag ? "the kernel treats the device as coherent"
                          : "the kernel treats the device as non-coherent";
    return result;
}

} // namespace coherdma::coherency
