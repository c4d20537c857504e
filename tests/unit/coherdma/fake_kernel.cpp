// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "fake_kernel.hpp"

#include <cstddef>
#include <cstring>
#include <elf.h>
#include <linux/btf.h>

namespace {

constexpr std::uint32_t BITS_PER_BYTE = 8;

template <typename T>
std::string bytes_of(const T &value, std::size_t size = sizeof(T)) {
    return {reinterpret_cast<const char *>(&value), size};
}

std::uint32_t bits(std::uint64_t bytes) {
    return static_cast<std::uint32_t>(bytes * BITS_PER_BYTE);
}

std::vector<std::uint32_t> elements_of(btf_builder &btf,
                                       const std::vector<btf_builder::member> &members) {
    std::vector<std::uint32_t> elements;
    for (const auto &member : members) {
        elements.push_back(btf.add_string(member.name));
        elements.push_back(member.type);
        elements.push_back(member.bitfield_size << 24 | member.bit_offset);
    }
    return elements;
}

} // namespace

std::uint32_t btf_builder::add_string(const char *text) {
    const auto offset = static_cast<std::uint32_t>(strings.size());
    strings.append(text, std::strlen(text) + 1);
    return offset;
}

std::uint32_t btf_builder::add_type(std::uint32_t kind, const char *name, std::uint32_t vlen,
                                    const std::vector<std::uint32_t> &elements) {
    constexpr std::uint32_t KIND_FLAG = 1U << 31;
    types.push_back(add_string(name));
    types.push_back(KIND_FLAG | kind << 24 | vlen);
    types.push_back(0);
    types.insert(types.end(), elements.begin(), elements.end());
    return ++num_types;
}

std::uint32_t btf_builder::add_struct(const char *name, const std::vector<member> &members) {
    return add_type(BTF_KIND_STRUCT, name, static_cast<std::uint32_t>(members.size()),
                    elements_of(*this, members));
}

std::uint32_t btf_builder::add_union(const char *name, const std::vector<member> &members) {
    return add_type(BTF_KIND_UNION, name, static_cast<std::uint32_t>(members.size()),
                    elements_of(*this, members));
}

std::uint32_t btf_builder::add_enum(const char *name, const char *enumerator, std::uint32_t value) {
    return add_type(BTF_KIND_ENUM, name, 1, {add_string(enumerator), value});
}

std::string btf_builder::bytes() const {
    constexpr std::size_t HEADER_SIZE = offsetof(btf_header, str_len) + sizeof(__u32);
    btf_header header = {};
    header.magic = BTF_MAGIC;
    header.version = BTF_VERSION;
    header.hdr_len = HEADER_SIZE;
    header.type_len = static_cast<__u32>(types.size() * sizeof(std::uint32_t));
    header.str_off = header.type_len;
    header.str_len = static_cast<__u32>(strings.size());
    return bytes_of(header, HEADER_SIZE) +
           std::string(reinterpret_cast<const char *>(types.data()), header.type_len) + strings;
}

void add_common_types(btf_builder &btf, const char *parent_name) {
    using kernel = fake_kernel;
    // One of each kind of type that is only skipped.
    btf.add_type(BTF_KIND_INT, "int", 0, {32});
    for (const std::uint32_t kind :
         {BTF_KIND_PTR, BTF_KIND_FWD, BTF_KIND_TYPEDEF, BTF_KIND_VOLATILE, BTF_KIND_CONST,
          BTF_KIND_RESTRICT, BTF_KIND_FUNC, BTF_KIND_FLOAT, BTF_KIND_TYPE_TAG})
        btf.add_type(kind, "device", 0, {});
    btf.add_type(BTF_KIND_ARRAY, "", 0, {1, 1, 2});
    btf.add_type(BTF_KIND_FUNC_PROTO, "", 2, {0, 1, 0, 1});
    btf.add_type(BTF_KIND_VAR, "device", 0, {1});
    btf.add_type(BTF_KIND_DATASEC, "device", 1, {1, 0, 4});
    btf.add_type(BTF_KIND_DECL_TAG, "device", 0, {0});
    btf.add_type(BTF_KIND_ENUM64, "device", 1, {0, 0, 0});

    btf.add_struct("module", {{"mkobj", bits(kernel::MODULE_MKOBJ)}});
    btf.add_struct("module_kobject", {{"kobj", bits(kernel::MKOBJ_KOBJ)}});
    btf.add_struct("kobject", {{"sd", bits(kernel::KOBJECT_SD)}});
    const std::uint32_t anonymous = btf.add_union("", {{"dir", 0}, {"symlink", 0}});
    btf.add_struct("kernfs_node", {{parent_name, bits(kernel::NODE_PARENT)},
                                   {"name", bits(kernel::NODE_NAME)},
                                   {"rb", bits(kernel::NODE_RB)},
                                   {"", bits(kernel::NODE_UNION), 0, anonymous},
                                   {"priv", bits(kernel::NODE_PRIV)}});
    btf.add_struct("kernfs_elem_dir", {{"children", bits(kernel::DIR_CHILDREN)}});
    btf.add_struct("rb_root", {{"rb_node", 0}});
    btf.add_struct("rb_node",
                   {{"rb_right", bits(kernel::RB_RIGHT)}, {"rb_left", bits(kernel::RB_LEFT)}});
}

void add_device_with_bit(btf_builder &btf, std::uint32_t bitfield_size) {
    btf.add_struct(
        "device",
        {{"kobj", bits(fake_kernel::DEVICE_KOBJ)},
         {"dma_coherent", bits(fake_kernel::DEVICE_FLAGS) + fake_kernel::FLAG_BIT, bitfield_size}});
}

void add_device_with_bitmap(btf_builder &btf, std::uint32_t flag_bit) {
    btf.add_struct("device", {{"flags", bits(fake_kernel::DEVICE_FLAGS)},
                              {"kobj", bits(fake_kernel::DEVICE_KOBJ)}});
    btf.add_enum("struct_device_flags", "DEV_FLAG_DMA_COHERENT", flag_bit);
}

fake_kernel::fake_kernel(bool is_coherent) {
    constexpr std::uint64_t ALL_FLAGS = ~std::uint64_t{0}, FLAG = std::uint64_t{1} << FLAG_BIT;
    root = add_node("", 0, 0);
    const std::uint64_t modules = add_node("module", root, 0);
    const std::uint64_t devices = add_node("devices", root, 0);
    add_node("block", root, 0);

    module = allocate(MODULE_MKOBJ + MKOBJ_KOBJ + 64);
    const std::uint64_t module_kobject = module + MODULE_MKOBJ + MKOBJ_KOBJ;
    add_node("ib_core", modules, module_kobject);

    const std::uint64_t bridge = add_node("pci0000:00", devices, 0);
    for (const char *name : {"0000:00:01.1", "power", "0000:00:01"})
        add_node(name, bridge, 0);
    device = allocate(DEVICE_KOBJ + 64);
    store(device + DEVICE_FLAGS, is_coherent ? FLAG : ALL_FLAGS & ~FLAG);
    function = add_node("0000:00:01.0", bridge, device + DEVICE_KOBJ);
    add_node("uevent", bridge, 0);
}

std::uint64_t fake_kernel::allocate(std::uint64_t size) {
    memory.resize((memory.size() + 7) / 8 * 8);
    const std::uint64_t address = BASE + memory.size();
    memory.resize(memory.size() + size);
    return address;
}

std::uint64_t fake_kernel::load(std::uint64_t address) const {
    std::uint64_t value = 0;
    std::memcpy(&value, memory.data() + (address - BASE), sizeof value);
    return value;
}

void fake_kernel::store(std::uint64_t address, std::uint64_t value) {
    std::memcpy(memory.data() + (address - BASE), &value, sizeof value);
}

// The last child becomes the root of the tree of children, and the former root its left or right.
std::uint64_t fake_kernel::add_node(const std::string &name, std::uint64_t parent,
                                    std::uint64_t kobject) {
    const std::uint64_t text = allocate(name.size() + 1);
    memory.replace(text - BASE, name.size(), name);
    const std::uint64_t node = allocate(NODE_PRIV + 8);
    store(node + NODE_PARENT, parent);
    store(node + NODE_NAME, text);
    store(node + NODE_PRIV, kobject);
    if (kobject != 0)
        store(kobject + KOBJECT_SD, node);
    if (parent != 0) {
        const std::uint64_t children = parent + NODE_UNION + DIR_CHILDREN;
        const std::uint64_t link = name.size() % 2 == 0 ? RB_LEFT : RB_RIGHT;
        store(node + NODE_RB + link, load(children));
        store(children, node + NODE_RB);
    }
    return node;
}

std::string fake_kernel::kcore() const {
    Elf64_Ehdr header = {};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_type = ET_CORE;
    header.e_phoff = sizeof header;
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = 2;
    Elf64_Phdr note = {}, segment = {};
    note.p_type = PT_NOTE;
    note.p_vaddr = BASE; // is not memory
    note.p_filesz = memory.size();
    segment.p_type = PT_LOAD;
    segment.p_vaddr = BASE;
    segment.p_offset = sizeof header + sizeof note + sizeof segment;
    segment.p_filesz = memory.size();
    return bytes_of(header) + bytes_of(note) + bytes_of(segment) + memory;
}
