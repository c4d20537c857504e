// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Lists of devices and ports. Each is one allocation: the elements, followed by their strings.

#include "devices/devices.hpp"
#include "error.hpp"

#include <algorithm>
#include <cerrno>
#include <coherdma/coherdma.h>
#include <cstdlib>
#include <cstring>

using coherdma::api::fail;

namespace {

std::size_t port_list_size(const std::vector<coherdma::devices::port> &ports,
                           std::size_t element_size) {
    std::size_t bytes = ports.size() * element_size + 1; // never 0
    for (const auto &port : ports)
        bytes += port.device.size() + port.interface.size() + port.transport.size() + 3;
    return bytes;
}

/// block has port_list_size() bytes.
void fill_port_list(char *block, const std::vector<coherdma::devices::port> &ports,
                    std::size_t element_size) {
    char *text = block + ports.size() * element_size;
    const auto append_string = [&text](const std::string &string) {
        const char *copy = text;
        text = stpcpy(text, string.c_str()) + 1;
        return copy;
    };
    for (std::size_t i = 0; i < ports.size(); ++i) {
        coherdma_port element = {};
        element.device = append_string(ports[i].device);
        element.interface = append_string(ports[i].interface);
        element.transport = append_string(ports[i].transport);
        element.port = ports[i].port_num;
        element.state = ports[i].state;
        std::memcpy(block + i * element_size, &element, std::min(element_size, sizeof element));
    }
}

} // namespace

char **coherdma_list_devices(size_t *count) {
    try {
        const auto devices = coherdma::devices::list_devices();
        std::size_t bytes = (devices.size() + 1) * sizeof(char *);
        for (const auto &device : devices)
            bytes += device.name.size() + 1;
        auto **list = static_cast<char **>(std::calloc(1, bytes));
        if (list) {
            char *text = reinterpret_cast<char *>(list + devices.size() + 1);
            for (std::size_t i = 0; i < devices.size(); ++i) {
                list[i] = text;
                text = stpcpy(text, devices[i].name.c_str()) + 1;
            }
            if (count)
                *count = devices.size();
            return list;
        }
    } catch (...) { // bad_alloc, reported below
    }
    errno = fail(ENOMEM, "out of memory");
    return nullptr;
}

void coherdma_free_list(char **list) {
    std::free(list);
}

coherdma_port *coherdma_list_ports(size_t *count, size_t size) {
    if (!count || size < sizeof(coherdma_port::comp_mask) || size % alignof(coherdma_port) != 0) {
        errno = fail(EINVAL, "count is NULL, or size %zu is invalid", size);
        return nullptr;
    }
    try {
        const auto ports = coherdma::devices::list_ports();
        if (auto *block = static_cast<char *>(std::calloc(1, port_list_size(ports, size)))) {
            fill_port_list(block, ports, size);
            *count = ports.size();
            return reinterpret_cast<coherdma_port *>(block);
        }
    } catch (...) { // bad_alloc, reported below
    }
    errno = fail(ENOMEM, "out of memory");
    return nullptr;
}

void coherdma_free_ports(coherdma_port *list) {
    std::free(list);
}
