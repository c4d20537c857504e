// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// In the place of libcoherdma: the ports of this machine are those of PLAYED_PORTS in the
// environment, as DEVICE:PORT:INTERFACE:STATE with a blank between.

#include <coherdma/coherdma.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

struct played {
    char device[64], interface[64];
};

} // namespace

coherdma_port *coherdma_list_ports(std::size_t *count, std::size_t size) {
    constexpr std::size_t MOST = 8;
    if (size != sizeof(coherdma_port))
        return nullptr;
    auto *ports = static_cast<coherdma_port *>(
        std::calloc(1, MOST * (sizeof(coherdma_port) + sizeof(played))));
    auto *names = reinterpret_cast<played *>(ports + MOST);
    const char *all = std::getenv("PLAYED_PORTS");
    for (*count = 0; all && *all && *count < MOST; ++*count) {
        played &name = names[*count];
        coherdma_port &one = ports[*count];
        int used = 0;
        if (std::sscanf(all, "%63[^:]:%u:%63[^:]:%u%n", name.device, &one.port, name.interface,
                        &one.state, &used) != 4 &&
            std::sscanf(all, "%63[^:]:%u::%u%n", name.device, &one.port, &one.state, &used) != 3)
            std::abort();
        one.device = name.device;
        one.interface = name.interface;
        one.transport = "";
        all += used + (all[used] == ' ' ? 1 : 0);
    }
    return ports;
}

void coherdma_free_ports(coherdma_port *list) {
    std::free(list);
}
