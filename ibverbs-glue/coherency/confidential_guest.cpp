// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Confidential guests: virtual machines whose memory the host cannot read. Devices that the host
// provides cannot either.

#include "confidential_guest.hpp"
#include "files.hpp"

#include <array>
#include <cerrno>
#include <cstring>

#ifdef __x86_64__
#    include <cpuid.h>
#endif

namespace coherdma::coherency {

#ifdef __x86_64__
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

std::string find_x86_confidential_guest() {
    if ((cpuid(LEAF_FEATURES).ecx & FEATURES_ECX_HYPERVISOR) == 0)
        return {}; // a host, which may have the CPUID bits of SEV too
    if (cpuid(0).eax >= LEAF_TDX) {
        const cpuid_registers tdx = cpuid(LEAF_TDX);
        if (make_signature(tdx.ebx, tdx.edx, tdx.ecx) == "IntelTDX    ")
            return "TDX";
    }
    const cpuid_registers hypervisor = cpuid(LEAF_HYPERVISOR);
    if (make_signature(hypervisor.ebx, hypervisor.ecx, hypervisor.edx) == "Microsoft Hv" &&
        hypervisor.eax >= LEAF_HYPERV_ISOLATION &&
        (cpuid(LEAF_HYPERV_FEATURES).ebx & HYPERV_EBX_ISOLATION) != 0 &&
        (cpuid(LEAF_HYPERV_ISOLATION).ebx & HYPERV_EBX_ISOLATION_TYPE) != 0)
        return "Hyper-V isolation";
    // Hypervisors show this bit to guests with encrypted memory only. The register that decides,
    // MSR_AMD64_SEV, cannot be read by programs.
    if (cpuid(LEAF_MAX_EXTENDED).eax >= LEAF_ENCRYPTION &&
        (cpuid(LEAF_ENCRYPTION).eax & ENCRYPTION_EAX_SEV) != 0)
        return "SEV";
    return {};
}
#else
std::string find_x86_confidential_guest() {
    return {};
}
#endif

std::string find_confidential_guest_in_sysfs(const std::string &root, const std::string &machine,
                                             std::string &unread) {
    // In a realm, arch/arm64/kernel/rsi.c creates the device.
    struct proof {
        const char *path, *value, *technique;
    };
    constexpr proof PROOFS[] = {
        {"/sys/devices/platform/arm-cca-dev/uevent", nullptr, "Arm CCA"},
        {"/sys/firmware/uv/prot_virt_guest", "1", "IBM Secure Execution"},
        {"/sys/devices/system/cpu/svm", "1", "POWER Protected Execution Facility"},
    };
    for (const auto &[path, value, technique] : PROOFS) {
        const auto text = read_line(root + path);
        if (text && (value == nullptr || *text == value))
            return technique;
        if (!text && is_unreadable(errno))
            unread = path;
    }
    // Containers hide what is in this folder, which is never empty on this architecture.
    if (machine == "s390x" && list_folder(root + "/sys/firmware").empty())
        unread = "/sys/firmware";
    return {};
}

} // namespace coherdma::coherency
