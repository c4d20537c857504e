// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datinfo/print.hpp"

#include <coherdma/coherdma.h>
#include <fmt/format.h>
#include <memory>

namespace tools::datinfo {

// A record for each port, under the name of its device, and with its number from the second on.
std::string as_conf() {
    std::size_t count = 0;
    const std::unique_ptr<coherdma_port, void (*)(coherdma_port *)> ports(
        coherdma_list_ports(&count, sizeof(coherdma_port)), coherdma_free_ports);
    if (!ports)
        throw std::runtime_error(coherdma_error());
    std::string text;
    for (const coherdma_port *each = ports.get(); each != ports.get() + count; ++each) {
        const std::string number = each->port == 1 ? "" : fmt::format("-{}", each->port);
        for (const char *safety : {"nonthreadsafe", "threadsafe"})
            text += fmt::format(
                "{0}{1} u2.0 {2} default libdaplcoherdma.so.2 coherdma.2.0 \"{0} {3}\" \"\"\n",
                each->device, number, safety, each->port);
    }
    return text;
}

} // namespace tools::datinfo
