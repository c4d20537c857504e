// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Devices that need no dat.conf. libcoherdma knows them; it is loaded when the first is asked for,
// so that programs which name their own provider are spared the libraries that it needs.

#include "debug.hpp"
#include "libraries.hpp"
#include "records.hpp"
#include "version.hpp"

#include <coherdma/coherdma.h>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <initializer_list>

namespace coherdma::registry {
namespace {

struct finder {
    decltype(&coherdma_list_ports) list = nullptr;
    decltype(&coherdma_free_ports) free = nullptr;
};

const finder &libcoherdma() noexcept {
    static finder found;
    if (found.list)
        return found;
    if (void *handle = load_libcoherdma()) {
        found.free = reinterpret_cast<decltype(found.free)>(dlsym(handle, "coherdma_free_ports"));
        found.list = reinterpret_cast<decltype(found.list)>(dlsym(handle, "coherdma_list_ports"));
        if (!found.free || !found.list)
            found = {};
    }
    return found;
}

bool is_off() noexcept {
    const char *setting = secure_getenv("COHERDMA_DAT_LIVE");
    return setting && std::strcmp(setting, "0") == 0;
}

/// Adds the port under one name, for either kind of thread safety. The provider is told the same.
void add(const char *name, const coherdma_port &port, records &into) noexcept {
    char *text = nullptr;
    const int size = asprintf(&text, "%s%c%s %u", name, '\0', port.device, port.port);
    if (size < 0 || !into.keep(text))
        return;
    const std::size_t end = std::strlen(text);
    record one;
    one.name = text;
    one.major = DAT_VERSION_MAJOR;
    one.minor = DAT_VERSION_MINOR;
    one.library = OUR_PROVIDER;
    one.instance = text + end + 1;
    if (end >= DAT_NAME_MAX_LENGTH)
        return;
    for (const bool thread_safe : {false, true}) {
        one.thread_safe = thread_safe;
        if (!into.all.add(one))
            return;
    }
}

/// The port that a device's own name stands for: its first that is up, else its first.
const coherdma_port &main_port(const coherdma_port *ports, std::size_t count,
                               const char *device) noexcept {
    const coherdma_port *found = nullptr;
    for (std::size_t place = 0; place < count; ++place) {
        if (std::strcmp(ports[place].device, device) != 0)
            continue;
        if (ports[place].state == IBV_PORT_ACTIVE)
            return ports[place];
        if (!found)
            found = ports + place;
    }
    return *found;
}

void add_all_names(const coherdma_port &port, bool is_main, std::size_t before,
                   records &into) noexcept {
    if (is_main)
        add(port.device, port, into);
    if (*port.interface)
        add(port.interface, port, into);
    old_name older[2];
    old_names(port, before, older);
    for (const old_name &each : older) {
        if (*each)
            add(each, port, into);
    }
}

} // namespace

void add_live_devices(records &into) noexcept {
    if (is_off() || !libcoherdma().list)
        return;
    std::size_t count = 0;
    coherdma_port *ports = libcoherdma().list(&count, sizeof *ports);
    std::size_t with_interface = 0;
    for (std::size_t place = 0; ports && place < count; ++place) {
        const coherdma_port &port = ports[place];
        add_all_names(port, &port == &main_port(ports, count, port.device), with_interface, into);
        if (*port.interface)
            ++with_interface;
    }
    libcoherdma().free(ports);
}

} // namespace coherdma::registry
