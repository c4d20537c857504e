// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Entries for the RDMA devices that exist, which need no dat.conf. libcoherdma lists them. It is
// loaded on first use, so that a program whose names are in dat.conf does not load it.

#include "dat_entries.hpp"
#include "debug.hpp"
#include "providers/libraries.hpp"
#include "version.hpp"

#include <coherdma/coherdma.h>
#include <coherdma/experimental.h>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <initializer_list>

namespace coherdma::registry {
namespace {

struct port_functions {
    decltype(&coherdma_get_port_list) get_port_list =
        nullptr; ///< NULL: libcoherdma is not available
    decltype(&coherdma_free_port_list) free_port_list = nullptr;
};

/// Loads libcoherdma. If it is not found, the next call searches again.
const port_functions &get_port_functions() noexcept {
    static port_functions functions;
    if (functions.get_port_list)
        return functions;
    if (void *handle = load_libcoherdma()) {
        functions.free_port_list = reinterpret_cast<decltype(functions.free_port_list)>(
            dlsym(handle, "coherdma_free_port_list"));
        functions.get_port_list = reinterpret_cast<decltype(functions.get_port_list)>(
            dlsym(handle, "coherdma_get_port_list"));
        if (!functions.free_port_list || !functions.get_port_list)
            functions = {};
    }
    return functions;
}

bool is_disabled() noexcept {
    const char *value = secure_getenv("COHERDMA_DAT_LIVE");
    return value && std::strcmp(value, "0") == 0;
}

/// Adds two entries, with and without thread safety. The provider gets the same instance data.
void add_name(const char *name, const coherdma_port &port, dat_entries &devices) noexcept {
    char *text = nullptr; // two strings: the name, and "DEVICE PORT"
    const int size = asprintf(&text, "%s%c%s %u", name, '\0', port.device, port.port_num);
    if (size < 0 || !devices.take_text(text))
        return;
    const std::size_t name_length = std::strlen(text);
    if (name_length >= DAT_NAME_MAX_LENGTH)
        return;
    dat_entry entry;
    entry.name = text;
    entry.major = DAT_VERSION_MAJOR;
    entry.minor = DAT_VERSION_MINOR;
    entry.library = COHERDMA_PROVIDER;
    entry.instance = text + name_length + 1;
    for (const bool thread_safe : {false, true}) {
        entry.thread_safe = thread_safe;
        if (!devices.entries.push_back(entry))
            return;
    }
}

/// The port that the name of a device stands for: the first that is active, else the first.
const coherdma_port &find_default_port(const coherdma_port *ports, std::size_t num_ports,
                                       const char *device) noexcept {
    const coherdma_port *first = nullptr;
    for (std::size_t i = 0; i < num_ports; ++i) {
        if (std::strcmp(ports[i].device, device) != 0)
            continue;
        if (ports[i].state == IBV_PORT_ACTIVE)
            return ports[i];
        if (!first)
            first = ports + i;
    }
    return *first;
}

/// Adds the port by its interface and OFED's names, and if is_default by the device's name.
/// interface_index: the number of interfaces before it.
void add_port(const coherdma_port &port, bool is_default, std::size_t interface_index,
              dat_entries &devices) noexcept {
    if (is_default)
        add_name(port.device, port, devices);
    if (*port.netdev)
        add_name(port.netdev, port, devices);
    ofed_names names = {};
    get_ofed_names(port, interface_index, names);
    for (const auto &name : names) {
        if (*name)
            add_name(name, port, devices);
    }
}

} // namespace

/// Adds entries for the RDMA devices that exist now, which no dat.conf needs to name.
void add_live_devices(dat_entries &devices) noexcept {
    if (is_disabled() || !get_port_functions().get_port_list)
        return;
    std::size_t num_ports = 0;
    coherdma_port *ports = get_port_functions().get_port_list(&num_ports, sizeof *ports);
    std::size_t num_interfaces = 0;
    for (std::size_t i = 0; ports && i < num_ports; ++i) {
        const coherdma_port &port = ports[i];
        const bool is_default = &port == &find_default_port(ports, num_ports, port.device);
        add_port(port, is_default, num_interfaces, devices);
        if (*port.netdev)
            ++num_interfaces;
    }
    get_port_functions().free_port_list(ports);
}

} // namespace coherdma::registry
