// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The list of ports. It is one allocation: the elements, the last of which is zero, followed by
// their strings.

#include "copy_struct.hpp"
#include "devices/devices.hpp"

#include <cerrno>
#include <coherdma/coherdma.h>
#include <coherdma/experimental.h>
#include <cstdlib>
#include <cstring>

using namespace coherdma;
using api::fail;

namespace {

/// In bytes, with the strings. element_size: of coherdma_port in the program's version.
std::size_t port_list_size(const std::vector<devices::port> &ports, std::size_t element_size) {
    std::size_t bytes = (ports.size() + 1) * element_size;
    for (const auto &port : ports)
        bytes += port.device.size() + port.netdev.size() + port.transport.size() + 3;
    return bytes;
}

/// Fills in the elements and, after the last, which stays zero, their strings. block has
/// port_list_size() bytes, which are zero.
void fill_port_list(char *block, const std::vector<devices::port> &ports,
                    std::size_t element_size) {
    char *text = block + (ports.size() + 1) * element_size;
    const auto append_string = [&text](const std::string &string) {
        const char *copy = text;
        text = stpcpy(text, string.c_str()) + 1;
        return copy;
    };
    for (std::size_t i = 0; i < ports.size(); ++i) {
        coherdma_port element = {};
        element.device = append_string(ports[i].device);
        element.netdev = append_string(ports[i].netdev);
        element.transport = append_string(ports[i].transport);
        element.port_num = ports[i].port_num;
        element.state = ports[i].state;
        api::fill_struct(element, block + i * element_size, element_size);
    }
}

} // namespace

/// size: of coherdma_port in the program's version.
coherdma_port *coherdma_get_port_list(size_t *count, size_t size) {
    if (size < api::size_in_first_version<coherdma_port> || size % alignof(coherdma_port) != 0) {
        errno = fail(EINVAL, "size %zu is invalid", size);
        return nullptr;
    }
    try {
        const auto ports = devices::list_ports();
        if (auto *block = static_cast<char *>(std::calloc(1, port_list_size(ports, size)))) {
            fill_port_list(block, ports, size);
            if (count)
                *count = ports.size();
            return reinterpret_cast<coherdma_port *>(block);
        }
    } catch (...) { // bad_alloc, reported below
    }
    errno = fail(ENOMEM, "out of memory");
    return nullptr;
}

void coherdma_free_port_list(coherdma_port *list) {
    std::free(list);
}
