// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A fake libcoherdma: the ports of this machine are those in the environment variable FAKE_PORTS,
// DEVICE:PORT:NETDEV:STATE separated by blanks.

#include <coherdma/coherdma.h>
#include <coherdma/experimental.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

struct port_names {
    char device[64], netdev[64];
};

} // namespace

coherdma_port *coherdma_get_port_list(std::size_t *count, std::size_t size) {
    constexpr std::size_t MAX_PORTS = 8;
    if (size != sizeof(coherdma_port))
        return nullptr;
    auto *ports = static_cast<coherdma_port *>(
        std::calloc(1, MAX_PORTS * (sizeof(coherdma_port) + sizeof(port_names))));
    auto *names = reinterpret_cast<port_names *>(ports + MAX_PORTS);
    const char *list = std::getenv("FAKE_PORTS");
    for (*count = 0; list && *list && *count < MAX_PORTS; ++*count) {
        port_names &name = names[*count];
        coherdma_port &port = ports[*count];
        int num_read = 0;
        if (std::sscanf(list, "%63[^:]:%u:%63[^:]:%u%n", name.device, &port.port_num, name.netdev,
                        &port.state, &num_read) != 4 &&
            std::sscanf(list, "%63[^:]:%u::%u%n", name.device, &port.port_num, &port.state,
                        &num_read) != 3)
            std::abort();
        port.device = name.device;
        port.netdev = name.netdev;
        port.transport = "";
        list += num_read + (list[num_read] == ' ' ? 1 : 0);
    }
    return ports;
}

void coherdma_free_port_list(coherdma_port *list) {
    std::free(list);
}
