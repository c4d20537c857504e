// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The first process of a guest: prints what read_dma_coherent() says of each PCI device that has a
// driver, as root and as another user, and ends the guest: the kernel panics.

#include "coherency/files.hpp"
#include "coherency/kernel/dma_coherent.hpp"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

using namespace coherdma::coherency;

namespace {

constexpr const char *coherency_name(std::uint32_t coherency) {
    switch (coherency) {
    case COHERDMA_COHERENT:
        return "coherent";
    case COHERDMA_NON_COHERENT:
        return "non-coherent";
    default:
        return "unknown";
    }
}

void print_evidence(const char *user, const rule_input &input, const std::string &folder) {
    const evidence evidence = read_dma_coherent(input, folder);
    std::printf("RESULT %s %s: %s (%s: %s): %s\n", user, folder.c_str(),
                coherency_name(evidence.coherency), evidence.source.c_str(), evidence.value.c_str(),
                evidence.reason.c_str());
}

} // namespace

int main() {
    mount("proc", "/proc", "proc", 0, nullptr);
    mount("sysfs", "/sys", "sysfs", 0, nullptr);
    const int fd = open("/ib_core.ko", O_RDONLY | O_CLOEXEC);
    if (syscall(SYS_finit_module, fd, "", 0) != 0)
        std::perror("ib_core.ko");
    utsname system = {};
    uname(&system);
    rule_input input;
    // The kernel passes what it does not know, such as machine=aarch64, to this process.
    const char *const machine = std::getenv("machine");
    input.machine = machine != nullptr ? machine : system.machine;
    std::printf("\nRESULT kernel %s\n", system.release);
    std::string device;
    for (const std::string &name : list_folder("/sys/bus/pci/devices")) {
        const std::string folder = real_path("", "/sys/bus/pci/devices/" + name);
        if (!path_exists(folder + "/driver"))
            continue;
        device = folder;
        print_evidence("root", input, folder);
    }
    print_evidence("root", input, parent_folder(device) + "/0000:00:1f.7"); // does not exist
    if (setuid(1) == 0)
        print_evidence("user", input, device);
    std::printf("RESULT end\n");
    std::fflush(stdout);
    return 0;
}
