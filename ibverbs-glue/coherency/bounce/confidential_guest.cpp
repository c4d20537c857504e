// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Confidential guests: virtual machines whose memory the host cannot read. Devices that the host
// provides cannot either.

#include "confidential_guest.hpp"
#include "../files.hpp"

#include <array>
#include <cerrno>
#include <cstring>

#if defined __x86_64__ || defined __i386__
#    include <cpuid.h>
#endif

namespace coherdma::coherency {

#if defined __x86_64__ || defined __i386__
namespace {

struct cpuid_registers {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

cpuid_registers cpuid(unsigned leaf) {
    cpuid_registers registers;
    __cpuid_count(leaf, 0, registers.eax, registers.ebx, registers.ecx, registers.edx);
    return registers;
}

// The twelve characters in three registers.
std::string make_signature(unsigned first, unsigned second, unsigned third) {
    const std::array<unsigned, 3> words = {first, second, third};
    std::string text(sizeof words, '\0');
    std::memcpy(text.data(), words.data(), sizeof words);
    return text;
}

constexpr unsigned LEAF_FEATURES = 1;
constexpr unsigned FEATURES_ECX_HYPERVISOR = 1U << 31;
constexpr unsigned LEAF_TDX = 0x21; // Intel TDX module specification: signature in EBX, EDX, ECX
constexpr unsigned LEAF_HYPERVISOR = 0x40000000; // signature in EBX, ECX, EDX
// Hyper-V's Top-Level Functional Specification: features, and isolation.
constexpr unsigned LEAF_HYPERV_FEATURES = 0x40000003;
constexpr unsigned HYPERV_EBX_ISOLATION = 1U << 22;
constexpr unsigned LEAF_HYPERV_ISOLATION = 0x4000000C;
constexpr unsigned HYPERV_EBX_ISOLATION_TYPE = 0xF;
// AMD's manual, volume 3, appendix E.4.17: encrypted memory.
constexpr unsigned LEAF_MAX_EXTENDED = 0x80000000;
constexpr unsigned LEAF_ENCRYPTION = 0x8000001F;
constexpr unsigned ENCRYPTION_EAX_SEV = 1U << 1;

} // namespace

confidential_guest find_x86_confidential_guest() {
    confidential_guest guest = {.technique = "", .source = "CPUID", .is_certain = true};
    if ((cpuid(LEAF_FEATURES).ecx & FEATURES_ECX_HYPERVISOR) == 0)
        return guest; // a host, which may have the CPUID bits of SEV too
    if (cpuid(0).eax >= LEAF_TDX) {
        const cpuid_registers tdx = cpuid(LEAF_TDX);
        if (make_signature(tdx.ebx, tdx.edx, tdx.ecx) == "IntelTDX    ")
            guest.technique = "TDX";
    }
    const cpuid_registers hypervisor = cpuid(LEAF_HYPERVISOR);
    if (make_signature(hypervisor.ebx, hypervisor.ecx, hypervisor.edx) == "Microsoft Hv" &&
        hypervisor.eax >= LEAF_HYPERV_ISOLATION &&
        (cpuid(LEAF_HYPERV_FEATURES).ebx & HYPERV_EBX_ISOLATION) != 0 &&
        (cpuid(LEAF_HYPERV_ISOLATION).ebx & HYPERV_EBX_ISOLATION_TYPE) != 0)
        guest.technique = "Hyper-V isolation";
    // Programs cannot read the register that decides, MSR_AMD64_SEV. A hypervisor can show this bit
    // to other guests, too.
    if (guest.technique.empty() && cpuid(LEAF_MAX_EXTENDED).eax >= LEAF_ENCRYPTION &&
        (cpuid(LEAF_ENCRYPTION).eax & ENCRYPTION_EAX_SEV) != 0) {
        guest.technique = "SEV";
        guest.is_certain = false;
    }
    return guest;
}
#else
confidential_guest find_x86_confidential_guest() {
    return {};
}
#endif

confidential_guest find_confidential_guest_in_sysfs(const std::string &root,
                                                    const std::string &machine) {
    struct proof {
        const char *path, *value, *technique;
    };
    constexpr proof PROOFS[] = {
        // In a realm, arch/arm64/kernel/rsi.c creates the device.
        {.path = "/sys/devices/platform/arm-cca-dev/uevent", .value = "", .technique = "Arm CCA"},
        // With SEV-SNP, arch/x86/coco/sev/core.c does.
        {.path = "/sys/devices/platform/sev-guest/uevent", .value = "", .technique = "SEV-SNP"},
        {.path = "/sys/firmware/uv/prot_virt_guest",
         .value = "1",
         .technique = "IBM Secure Execution"},
        {.path = "/sys/devices/system/cpu/svm",
         .value = "1",
         .technique = "POWER Protected Execution Facility"},
    };
    confidential_guest guest;
    for (const auto &[path, value, technique] : PROOFS) {
        const auto text = read_line(root + path);
        if (text && (*value == '\0' || *text == value))
            return {.technique = technique, .source = path, .is_certain = true};
        if (!text && is_unreadable(errno))
            guest = {.technique = "", .source = path, .is_certain = false};
    }
    // Containers hide what is in this folder, which is never empty on this architecture.
    if (machine == "s390x" && list_folder(root + "/sys/firmware").empty())
        guest = {.technique = "", .source = "/sys/firmware", .is_certain = false};
    return guest;
}

} // namespace coherdma::coherency
