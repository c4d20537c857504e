// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// BTF of types that a test declares.
class btf_builder {
  public:
    struct member {
        const char *name;
        std::uint32_t bit_offset, bitfield_size = 0, type = 0;
    };

    /// Each returns the number of the type. kind: BTF_KIND_...
    std::uint32_t add_type(std::uint32_t kind, const char *name, std::uint32_t vlen,
                           const std::vector<std::uint32_t> &elements);
    std::uint32_t add_struct(const char *name, const std::vector<member> &members);
    std::uint32_t add_union(const char *name, const std::vector<member> &members);
    std::uint32_t add_enum(const char *name, const char *enumerator, std::uint32_t value);

    std::uint32_t add_string(const char *text);
    std::string bytes() const;

  private:
    std::vector<std::uint32_t> types;
    std::uint32_t num_types = 0;
    std::string strings = std::string(1, '\0');
};

/// The memory of a kernel with a sysfs, whose structs are not those of any real kernel.
struct fake_kernel {
    static constexpr std::uint64_t BASE = 0xffff800012340000;
    // Offsets of members, in bytes.
    static constexpr std::uint64_t DEVICE_KOBJ = 16, DEVICE_FLAGS = 8, MODULE_MKOBJ = 24,
                                   MKOBJ_KOBJ = 8, KOBJECT_SD = 40, NODE_PARENT = 8, NODE_NAME = 16,
                                   NODE_RB = 24, NODE_UNION = 64, NODE_PRIV = 96, DIR_CHILDREN = 8,
                                   RB_LEFT = 16, RB_RIGHT = 8;
    static constexpr std::uint32_t FLAG_BIT = 6;

    std::string memory;         ///< at BASE
    std::uint64_t module = 0;   ///< the struct module of ib_core
    std::uint64_t root = 0;     ///< the node of /sys
    std::uint64_t function = 0; ///< the node of the PCI function
    std::uint64_t device = 0;   ///< its struct device

    /// With the PCI function /sys/devices/pci0000:00/0000:00:01.0.
    explicit fake_kernel(bool is_coherent);

    std::uint64_t allocate(std::uint64_t size);
    std::uint64_t load(std::uint64_t address) const;
    void store(std::uint64_t address, std::uint64_t value);
    std::uint64_t add_node(const std::string &name, std::uint64_t parent, std::uint64_t kobject);

    /// The file /proc/kcore.
    std::string kcore() const;
};

/// Declares all types but struct device.
void add_common_types(btf_builder &btf, const char *parent_name = "parent");
/// Declares a struct device with the bit dma_coherent.
void add_device_with_bit(btf_builder &btf, std::uint32_t bitfield_size = 1);
/// Declares a struct device with a bitmap of flags, and the enum of their numbers.
void add_device_with_bitmap(btf_builder &btf, std::uint32_t flag_bit = fake_kernel::FLAG_BIT);
