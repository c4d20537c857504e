// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datinfo/conf.hpp"

#include <coherdma/coherdma.h>
#include <coherdma/experimental.h>
#include <fmt/core.h>
#include <memory>
#include <stdexcept>

namespace tools::datinfo {

/// The entries of dat.conf. The IA name is the device name, with the port number appended from port
/// 2 on.
std::string format_dat_conf() {
    std::size_t count = 0;
    const std::unique_ptr<coherdma_port, void (*)(coherdma_port *)> ports(
        coherdma_get_port_list(&count, sizeof(coherdma_port)), coherdma_free_port_list);
    if (!ports)
        throw std::runtime_error(coherdma_error());
    std::string text;
    for (const coherdma_port *port = ports.get(); port != ports.get() + count; ++port) {
        const std::string suffix = port->port_num == 1 ? "" : fmt::format("-{}", port->port_num);
        for (const char *version : {"2.0", "1.2"})
            for (const char *thread_safety : {"nonthreadsafe", "threadsafe"})
                text += fmt::format("{0}{1} u{2} {3} default libdaplcoherdma.so.2 coherdma.{2} "
                                    "\"{0} {4}\" \"\"\n",
                                    port->device, suffix, version, thread_safety, port->port_num);
    }
    return text;
}

} // namespace tools::datinfo
