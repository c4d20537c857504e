// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The rule "kernel" on files as root has them: /proc/kcore, BTF and the address of ib_core.

#include "../cmocka.hpp"
#include "coherency/rules.hpp"
#include "fake_kernel.hpp"
#include "sysfs_tree.hpp"

#include <cstring>
#include <elf.h>
#include <filesystem>
#include <fstream>
#include <linux/btf.h>
#include <sstream>

using namespace coherdma::coherency;

namespace {

// A machine whose other rules have no result, and the kernel's files.
struct machine {
    fake_sysfs sysfs;
    rule_input input;

    explicit machine(const std::string &tree = "acpi-doubt")
        : sysfs("tests/data/coherency/" + tree + ".tree") {
        input.root = sysfs.root;
        input.name = sysfs["device"];
        input.driver = sysfs["driver"];
        input.machine = sysfs["machine"];
        input.kernel_release = sysfs["release"];
    }

    void write(const std::string &path, const std::string &bytes) const {
        std::filesystem::create_directories(std::filesystem::path(sysfs.root + path).parent_path());
        std::ofstream(sysfs.root + path, std::ios::binary) << bytes;
    }

    void write_module_address(std::uint64_t address) const {
        std::ostringstream text;
        text << "0x" << std::hex << address << "\n";
        write("/sys/module/ib_core/sections/.gnu.linkonce.this_module", text.str());
    }

    void write_kernel(const fake_kernel &kernel, const btf_builder &btf) const {
        write("/proc/kcore", kernel.kcore());
        write("/sys/kernel/btf/vmlinux", btf.bytes());
        write_module_address(kernel.module);
    }
};

btf_builder btf_with_bit() {
    btf_builder btf;
    add_common_types(btf);
    add_device_with_bit(btf);
    return btf;
}

void check(const evidence &evidence, std::uint32_t coherency, const char *source,
           const char *value) {
    assert_string_equal(evidence.value.c_str(), value);
    assert_string_equal(evidence.source.c_str(), source);
    assert_int_equal(evidence.coherency, coherency);
    assert_false(evidence.reason.empty());
}

// Whatever is wrong with a file, no device is called coherent, and the reader ends.
void check_unknown(const machine &machine) {
    const evidence evidence = evaluate_kernel(machine.input);
    assert_int_equal(evidence.coherency, COHERDMA_UNKNOWN);
    assert_false(evidence.reason.empty());
    assert_false(evidence.source.empty());
}

void flag_of_pci_function_decides(void **) {
    for (const bool is_coherent : {true, false}) {
        const machine machine;
        machine.write_kernel(fake_kernel(is_coherent), btf_with_bit());
        const decision result = decide(machine.input, rule_scope::until_decided);
        assert_string_equal(result.deciding_rule().rule->name, "kernel");
        check(result.deciding_rule().evidence,
              is_coherent ? COHERDMA_COHERENT : COHERDMA_NON_COHERENT, "/proc/kcore",
              is_coherent ? "dma_coherent = 1" : "dma_coherent = 0");
    }
}

// The PCI function does the DMA of a subfunction, which has a struct device of its own.
void function_above_subfunction_decides(void **) {
    const machine machine("pcie-subfunction");
    fake_kernel kernel(false);
    const std::uint64_t subfunction = kernel.allocate(fake_kernel::DEVICE_KOBJ + 64);
    kernel.store(subfunction + fake_kernel::DEVICE_FLAGS, ~std::uint64_t{0});
    kernel.add_node("mlx5_core.sf.2", kernel.function, subfunction + fake_kernel::DEVICE_KOBJ);
    machine.write_kernel(kernel, btf_with_bit());
    check(evaluate_kernel(machine.input), COHERDMA_NON_COHERENT, "/proc/kcore", "dma_coherent = 0");
}

void flag_in_bitmap_read(void **) {
    for (const bool is_coherent : {true, false}) {
        const machine machine;
        btf_builder btf;
        add_common_types(btf, "__parent");
        add_device_with_bitmap(btf);
        machine.write_kernel(fake_kernel(is_coherent), btf);
        check(evaluate_kernel(machine.input),
              is_coherent ? COHERDMA_COHERENT : COHERDMA_NON_COHERENT, "/proc/kcore",
              is_coherent ? "dma_coherent = 1" : "dma_coherent = 0");
    }
}

// A kernel without the flag treats every device as coherent, but only some machines have no others.
void missing_flag_proves_coherency_of_some_machines(void **) {
    for (const bool has_enum : {false, true}) {
        machine machine;
        btf_builder btf;
        add_common_types(btf);
        btf.add_struct("device", {{"kobj", 8 * fake_kernel::DEVICE_KOBJ}});
        if (has_enum)
            btf.add_enum("struct_device_flags", "DEV_FLAG_READY_TO_PROBE", 0);
        machine.write_kernel(fake_kernel(true), btf);
        for (const char *name : {"x86_64", "s390x", "ppc64le", "ppc"}) {
            machine.input.machine = name;
            check(evaluate_kernel(machine.input), COHERDMA_COHERENT, "/sys/kernel/btf/vmlinux",
                  "no struct device.dma_coherent");
        }
        for (const char *name : {"aarch64", "armv7l", "riscv64", "mips64", ""}) {
            machine.input.machine = name;
            check_unknown(machine);
        }
    }
}

// Where each kernel has the flag, one that does not maintain the cache sets it for each device.
void bitmap_trusted_on_arm64_only(void **) {
    machine machine;
    btf_builder btf;
    add_common_types(btf);
    add_device_with_bitmap(btf);
    machine.write_kernel(fake_kernel(true), btf);
    machine.input.machine = "riscv64";
    check_unknown(machine);
    machine.input.machine = "x86_64";
    assert_int_equal(evaluate_kernel(machine.input).coherency, COHERDMA_COHERENT);
}

// Reading the kernel's types takes longer than the devicetree.
void devicetree_precedes_kernel(void **) {
    const machine machine("arm64-rk3588");
    machine.write_kernel(fake_kernel(true), btf_with_bit());
    const decision result = decide(machine.input, rule_scope::until_decided);
    assert_string_equal(result.deciding_rule().rule->name, "devicetree");
}

void software_device_has_no_result(void **) {
    const machine machine("rxe");
    machine.write_kernel(fake_kernel(true), btf_with_bit());
    check_unknown(machine);
}

void missing_files_have_no_result(void **) {
    const machine machine;
    check(evaluate_kernel(machine.input), COHERDMA_UNKNOWN, "/proc/kcore", std::strerror(ENOENT));
    const fake_kernel kernel(true);
    machine.write("/proc/kcore", kernel.kcore());
    check(evaluate_kernel(machine.input), COHERDMA_UNKNOWN, "/sys/kernel/btf/vmlinux",
          std::strerror(ENOENT));
    machine.write("/sys/kernel/btf/vmlinux", btf_with_bit().bytes());
    const char *const path = "/sys/module/ib_core/sections/.gnu.linkonce.this_module";
    check(evaluate_kernel(machine.input), COHERDMA_UNKNOWN, path, std::strerror(ENOENT));
    machine.write_module_address(0); // as the kernel shows it to who may not see addresses
    check(evaluate_kernel(machine.input), COHERDMA_UNKNOWN, path, "0x0");
    machine.write_module_address(kernel.module);
    assert_int_equal(evaluate_kernel(machine.input).coherency, COHERDMA_COHERENT);
}

void truncated_btf_has_no_result(void **) {
    const machine machine;
    machine.write_kernel(fake_kernel(true), btf_with_bit());
    for (std::size_t size = btf_with_bit().bytes().size(); size-- > 0;) {
        std::filesystem::resize_file(machine.sysfs.root + "/sys/kernel/btf/vmlinux", size);
        check_unknown(machine);
    }
}

void truncated_kcore_has_no_result(void **) {
    const machine machine;
    const fake_kernel kernel(true);
    machine.write_kernel(kernel, btf_with_bit());
    // Without the node of the device, or more.
    const std::size_t size_behind = kernel.memory.size() - (kernel.function - fake_kernel::BASE);
    for (std::size_t size = kernel.kcore().size() - size_behind; size-- > 0;) {
        std::filesystem::resize_file(machine.sysfs.root + "/proc/kcore", size);
        check_unknown(machine);
    }
}

void other_files_are_no_kcore(void **) {
    const machine machine;
    const fake_kernel kernel(true);
    machine.write_kernel(kernel, btf_with_bit());
    const auto check_header = [&](auto change) {
        std::string bytes = kernel.kcore();
        Elf64_Ehdr header;
        std::memcpy(&header, bytes.data(), sizeof header);
        change(header);
        std::memcpy(bytes.data(), &header, sizeof header);
        machine.write("/proc/kcore", bytes);
        check(evaluate_kernel(machine.input), COHERDMA_UNKNOWN, "/proc/kcore",
              std::strerror(ENOEXEC));
    };
    check_header([](Elf64_Ehdr &header) { header.e_ident[0] = 0; });
    check_header([](Elf64_Ehdr &header) { header.e_ident[EI_CLASS] = ELFCLASS32; });
    check_header([](Elf64_Ehdr &header) { header.e_type = ET_EXEC; });
    check_header([](Elf64_Ehdr &header) { header.e_phentsize = sizeof(Elf32_Phdr); });
    check_header([](Elf64_Ehdr &header) { header.e_phnum = PN_XNUM; });
    check_header([](Elf64_Ehdr &header) { header.e_phoff = ~Elf64_Off{0}; });
    machine.write("/proc/kcore", ""); // as /dev/null in a container
    check_unknown(machine);
}

void segments_are_limits_of_memory(void **) {
    const machine machine;
    const fake_kernel kernel(true);
    machine.write_kernel(kernel, btf_with_bit());
    const auto check_segment = [&](auto change) {
        std::string bytes = kernel.kcore();
        const std::size_t offset = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr);
        Elf64_Phdr segment;
        std::memcpy(&segment, bytes.data() + offset, sizeof segment);
        change(segment);
        std::memcpy(bytes.data() + offset, &segment, sizeof segment);
        machine.write("/proc/kcore", bytes);
        check_unknown(machine);
    };
    check_segment([](Elf64_Phdr &segment) { segment.p_type = PT_NOTE; });
    check_segment([](Elf64_Phdr &segment) { segment.p_filesz = 0; });
    check_segment([](Elf64_Phdr &segment) { // ends in the link from the last node to the device's
        segment.p_filesz -= fake_kernel::NODE_PRIV + 8;
        segment.p_filesz += fake_kernel::NODE_RB + fake_kernel::RB_LEFT + 4;
    });
    check_segment([](Elf64_Phdr &segment) { segment.p_vaddr += 1; });
    check_segment([](Elf64_Phdr &segment) { segment.p_vaddr = 0; });
    check_segment([](Elf64_Phdr &segment) { segment.p_offset = ~Elf64_Off{0}; });
    check_segment([](Elf64_Phdr &segment) { segment.p_offset = Elf64_Off{1} << 63; });
    check_segment([](Elf64_Phdr &segment) { // begins before the file
        segment.p_vaddr -= 4096;
        segment.p_offset -= 4096;
        segment.p_filesz += 4096;
    });
}

void unknown_btf_has_no_result(void **) {
    const machine machine;
    machine.write_kernel(fake_kernel(true), btf_with_bit());
    const auto check_bytes = [&](const std::string &bytes) {
        machine.write("/sys/kernel/btf/vmlinux", bytes);
        check_unknown(machine);
        assert_string_equal(evaluate_kernel(machine.input).source.c_str(),
                            "/sys/kernel/btf/vmlinux");
    };
    const auto check_btf = [&](const btf_builder &btf) {
        check_bytes(btf.bytes());
    };
    std::string unterminated = btf_with_bit().bytes();
    unterminated.back() = '+';
    check_bytes(unterminated);
    assert_string_equal(evaluate_kernel(machine.input).value.c_str(), "not known as BTF");
    btf_builder unknown_kind = btf_with_bit();
    unknown_kind.add_type(30, "later", 0, {});
    check_btf(unknown_kind);
    btf_builder many_members = btf_with_bit();
    many_members.add_type(BTF_KIND_STRUCT, "large", 0xffffff, {});
    check_btf(many_members);
    btf_builder two_devices = btf_with_bit();
    two_devices.add_struct("device", {{"dma_coherent", 0, 1}});
    check_btf(two_devices);
    btf_builder two_nodes = btf_with_bit();
    two_nodes.add_struct("kernfs_node", {{"name", 0}});
    check_btf(two_nodes);
    btf_builder missing_type;
    add_common_types(missing_type);
    missing_type.add_struct("device", {{"", 0, 0, 1U << 20}, {"kobj", 0}});
    check_btf(missing_type);
    btf_builder no_device;
    add_common_types(no_device);
    check_btf(no_device);
    for (const std::uint32_t bitfield_size : {0U, 2U}) {
        btf_builder btf;
        add_common_types(btf);
        add_device_with_bit(btf, bitfield_size);
        check_btf(btf);
    }
    btf_builder large_flag;
    add_common_types(large_flag);
    add_device_with_bitmap(large_flag, 64);
    check_btf(large_flag);
    for (const char *parent_name : {"above", ""}) {
        btf_builder btf;
        add_common_types(btf, parent_name);
        add_device_with_bit(btf);
        check_btf(btf);
    }
    // A struct that has itself as a member, many times.
    btf_builder nested;
    add_common_types(nested);
    const std::uint32_t next_type = nested.add_type(BTF_KIND_PTR, "", 0, {}) + 1;
    nested.add_struct("device", std::vector<btf_builder::member>(1000, {"", 0, 0, next_type}));
    check_btf(nested);
    // Two structs of the same form are no contradiction: each module may have its copy.
    btf_builder same = btf_with_bit();
    add_device_with_bit(same);
    machine.write("/sys/kernel/btf/vmlinux", same.bytes());
    assert_int_equal(evaluate_kernel(machine.input).coherency, COHERDMA_COHERENT);
}

void hostile_memory_has_no_result(void **) {
    const machine machine;
    const auto check_kernel = [&](auto change) {
        fake_kernel kernel(true);
        change(kernel);
        machine.write_kernel(kernel, btf_with_bit());
        check(evaluate_kernel(machine.input), COHERDMA_UNKNOWN, "/proc/kcore",
              "/sys/devices/pci0000:00/0000:00:01.0");
    };
    using kernel = fake_kernel;
    constexpr std::uint64_t OUTSIDE = 0xdead000000000100;
    // The root is its own parent.
    check_kernel([](kernel &k) { k.store(k.root + kernel::NODE_PARENT, k.root); });
    check_kernel([](kernel &k) { k.store(k.root + kernel::NODE_PARENT, OUTSIDE); });
    // Children that have themselves as children.
    check_kernel([](kernel &k) {
        const std::uint64_t children = k.root + kernel::NODE_UNION + kernel::DIR_CHILDREN;
        const std::uint64_t node = k.add_node("loop", k.root, 0) + kernel::NODE_RB;
        k.store(node + kernel::RB_LEFT, node);
        k.store(node + kernel::RB_RIGHT, node);
        k.store(children, node);
    });
    check_kernel(
        [](kernel &k) { k.store(k.root + kernel::NODE_UNION + kernel::DIR_CHILDREN, OUTSIDE); });
    // Names: outside, and without an end in the memory.
    check_kernel([](kernel &k) { k.store(k.function + kernel::NODE_NAME, OUTSIDE); });
    check_kernel([](kernel &k) {
        k.memory += "0000:00:01.0";
        k.store(k.function + kernel::NODE_NAME,
                kernel::BASE + k.memory.size() - std::strlen("0000:00:01.0"));
    });
    check_kernel([](kernel &k) {
        k.memory += "0000:00:01.0+";
        k.store(k.function + kernel::NODE_NAME,
                kernel::BASE + k.memory.size() - std::strlen("0000:00:01.0+"));
    });
    // A node that is being removed, and a kobject of another node.
    check_kernel([](kernel &k) { k.store(k.function + kernel::NODE_PRIV, 0); });
    check_kernel([](kernel &k) { k.store(k.function + kernel::NODE_PRIV, OUTSIDE); });
    check_kernel(
        [](kernel &k) { k.store(k.device + kernel::DEVICE_KOBJ + kernel::KOBJECT_SD, k.root); });
    check_kernel([](kernel &k) { k.module = OUTSIDE; });
    check_kernel([](kernel &k) { k.module = ~std::uint64_t{0}; });
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(flag_of_pci_function_decides),
        cmocka_unit_test(function_above_subfunction_decides),
        cmocka_unit_test(flag_in_bitmap_read),
        cmocka_unit_test(missing_flag_proves_coherency_of_some_machines),
        cmocka_unit_test(bitmap_trusted_on_arm64_only),
        cmocka_unit_test(devicetree_precedes_kernel),
        cmocka_unit_test(software_device_has_no_result),
        cmocka_unit_test(missing_files_have_no_result),
        cmocka_unit_test(truncated_btf_has_no_result),
        cmocka_unit_test(truncated_kcore_has_no_result),
        cmocka_unit_test(other_files_are_no_kcore),
        cmocka_unit_test(segments_are_limits_of_memory),
        cmocka_unit_test(unknown_btf_has_no_result),
        cmocka_unit_test(hostile_memory_has_no_result),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
