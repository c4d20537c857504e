// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Which package has what is missing, by distribution.

#include "doctor/doctor.hpp"

#include <fmt/format.h>

namespace tools::doctor {
namespace {

bool is_like(const host &here, const std::string &distribution) {
    for (const std::string &line : here.lines("/etc/os-release")) {
        if (line.rfind("ID=", 0) != 0 && line.rfind("ID_LIKE=", 0) != 0)
            continue;
        std::string words = line.substr(line.find('=') + 1);
        for (char &each : words) {
            if (each == '"' || each == '\'')
                each = ' ';
        }
        if ((" " + words + " ").find(" " + distribution + " ") != std::string::npos)
            return true;
    }
    return false;
}

bool has_dnf(const host &here) {
    return is_like(here, "fedora") || is_like(here, "rhel");
}

/// Debian's kernels are named for their architecture at the end: 6.1.0-56-cloud-amd64.
remedy debian(const host &here, const std::string &module) {
    const std::string arch = here.kernel.substr(here.kernel.rfind('-') + 1);
    if (arch != "amd64" && arch != "arm64" && arch != "armmp" && arch != "s390x")
        return {"This kernel is not Debian's; whoever built it has to add the module.", ""};
    if (here.kernel.find("-cloud-") != std::string::npos)
        return {fmt::format("Debian's cloud kernels leave {} out; the ordinary kernel has it "
                            "(none has siw). Install that and boot it. Without a reboot: {}",
                            module, LAB),
                here.as_root("apt install linux-image-" + arch)};
    return {fmt::format("The files of the running kernel are not all there. Without installing: {}",
                        LAB),
            here.as_root("apt install --reinstall linux-image-" + here.kernel)};
}

} // namespace

remedy package_with(const host &here, const std::string &module) {
    if (here.in_container())
        return {fmt::format("This is a container: {} has to be in the host's kernel. softrdma "
                            "brings a kernel of its own that has it.",
                            module),
                LAB};
    if (is_like(here, "ubuntu"))
        return {fmt::format("It is in the package with the less used modules. If there is none for "
                            "this kernel: {}",
                            LAB),
                here.as_root("apt install linux-modules-extra-" + here.kernel)};
    if (is_like(here, "debian"))
        return debian(here, module);
    if (has_dnf(here))
        return {fmt::format("It is in the package with the less used modules. If there is none for "
                            "this kernel: {}",
                            LAB),
                here.as_root("dnf install kernel-modules-extra-" + here.kernel)};
    return {fmt::format("Install the package of your distribution that has the module {} for this "
                        "kernel, or use softrdma, which brings a kernel that has it.",
                        module),
            ""};
}

remedy package_of_providers(const host &here) {
    if (is_like(here, "debian") || is_like(here, "ubuntu"))
        return {"", here.as_root("apt install ibverbs-providers")};
    if (has_dnf(here))
        return {"", here.as_root("dnf install libibverbs")};
    return {"Install the package of your distribution with rdma-core's providers.", ""};
}

remedy matched_providers(const host &here) {
    const char *words =
        here.in_container()
            ? "In a container both are the image's: a provider of its host's, or of another "
              "image, is made for another library. (For soft devices the host can give one that "
              "fits all: softrdma cdi --with-provider.) In the image:"
            : "Library and providers have to come from the same rdma-core:";
    if (is_like(here, "debian") || is_like(here, "ubuntu"))
        return {words, here.as_root("apt install --reinstall libibverbs1 ibverbs-providers")};
    if (has_dnf(here))
        return {words, here.as_root("dnf reinstall libibverbs")};
    return {"Install library and providers from the same rdma-core.", ""};
}

} // namespace tools::doctor
