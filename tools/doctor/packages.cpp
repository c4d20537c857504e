// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The packages with missing modules and providers, by distribution.

#include "doctor/doctor.hpp"

#include <fmt/core.h>

namespace tools::doctor {
namespace {

bool is_distribution(const host &machine, const std::string &distribution) {
    for (const std::string &line : machine.read_lines("/etc/os-release")) {
        if (line.rfind("ID=", 0) != 0 && line.rfind("ID_LIKE=", 0) != 0)
            continue;
        std::string ids = line.substr(line.find('=') + 1);
        for (char &ch : ids) {
            if (ch == '"' || ch == '\'')
                ch = ' ';
        }
        if ((" " + ids + " ").find(" " + distribution + " ") != std::string::npos)
            return true;
    }
    return false;
}

/// Fedora, RHEL and their relatives.
bool has_dnf(const host &machine) {
    return is_distribution(machine, "fedora") || is_distribution(machine, "rhel");
}

/// How to get a missing module on Debian, whose kernels have the architecture at the end of their
/// release: 6.1.0-56-cloud-amd64.
fix_hint install_debian_module_hint(const host &machine, const std::string &module) {
    const std::string arch = machine.kernel.substr(machine.kernel.rfind('-') + 1);
    if (arch != "amd64" && arch != "arm64" && arch != "armmp" && arch != "s390x")
        return {"This kernel is not Debian's: add the module to its build, or use softrdma, which "
                "runs a kernel that has it.",
                RUN_IN_SOFTRDMA};
    if (machine.kernel.find("-cloud-") != std::string::npos)
        return {fmt::format("Debian's cloud kernels lack {}; the standard kernel has it (but no "
                            "Debian kernel has siw). Install and boot that, or without a reboot: "
                            "{}",
                            module, RUN_IN_SOFTRDMA),
                machine.with_sudo("apt install linux-image-" + arch)};
    return {fmt::format("Files of the running kernel are missing. Without an installation: {}",
                        RUN_IN_SOFTRDMA),
            machine.with_sudo("apt install --reinstall linux-image-" + machine.kernel)};
}

} // namespace

fix_hint install_module_hint(const host &machine, const std::string &module) {
    if (machine.is_container())
        return {fmt::format("This is a container: {} must be in the host's kernel. softrdma runs a "
                            "kernel that has it.",
                            module),
                RUN_IN_SOFTRDMA};
    if (is_distribution(machine, "ubuntu"))
        return {
            fmt::format(
                "The module is in the extra modules package. If there is none for this kernel: {}",
                RUN_IN_SOFTRDMA),
            machine.with_sudo("apt install linux-modules-extra-" + machine.kernel)};
    if (is_distribution(machine, "debian"))
        return install_debian_module_hint(machine, module);
    if (has_dnf(machine))
        return {
            fmt::format(
                "The module is in the extra modules package. If there is none for this kernel: {}",
                RUN_IN_SOFTRDMA),
            machine.with_sudo("dnf install kernel-modules-extra-" + machine.kernel)};
    return {fmt::format("Install your distribution's package with the module {} for this kernel, "
                        "or use softrdma, which runs a kernel that has it.",
                        module),
            RUN_IN_SOFTRDMA};
}

fix_hint install_providers_hint(const host &machine) {
    if (is_distribution(machine, "debian") || is_distribution(machine, "ubuntu"))
        return {"", machine.with_sudo("apt install ibverbs-providers")};
    if (has_dnf(machine))
        return {"", machine.with_sudo("dnf install libibverbs")};
    return {
        "Install your distribution's package with rdma-core's providers, or use softrdma, which "
        "runs a guest that has them.",
        RUN_IN_SOFTRDMA_GUEST};
}

fix_hint reinstall_rdma_core_hint(const host &machine) {
    const char *description =
        machine.is_container()
            ? "In a container both must come from the image: a provider of the host or of another "
              "image is built for another library. (For soft devices the host can pass one that "
              "fits all: softrdma cdi --with-provider.) In the image, use the command below."
            : "Library and providers must come from the same rdma-core.";
    if (is_distribution(machine, "debian") || is_distribution(machine, "ubuntu"))
        return {description,
                machine.with_sudo("apt install --reinstall libibverbs1 ibverbs-providers")};
    if (has_dnf(machine))
        return {description, machine.with_sudo("dnf reinstall libibverbs")};
    return {"Install library and providers from the same rdma-core, or use softrdma, which runs a "
            "guest that has them.",
            RUN_IN_SOFTRDMA_GUEST};
}

std::string query_package_command(const host &machine, const std::string &path) {
    if (is_distribution(machine, "debian") || is_distribution(machine, "ubuntu"))
        return "dpkg -S " + path;
    return has_dnf(machine) ? "rpm -qf " + path : "ls -l " + path;
}

} // namespace tools::doctor
