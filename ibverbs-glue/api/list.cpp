// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Lists of what there is. Each is one block: the elements, and behind them their strings.

#include "devices/devices.hpp"
#include "error.hpp"

#include <algorithm>
#include <cerrno>
#include <coherdma/coherdma.h>
#include <cstdlib>
#include <cstring>

using coherdma::api::fail;

namespace {

/// Into a block that ports_size is the size of.
void fill(char *block, const std::vector<coherdma::devices::port> &from, std::size_t size) {
    char *text = block + from.size() * size;
    const auto keep = [&text](const std::string &which) {
        const char *kept = text;
        text = stpcpy(text, which.c_str()) + 1;
        return kept;
    };
    for (std::size_t place = 0; place < from.size(); ++place) {
        const auto &each = from[place];
        coherdma_port one = {};
        one.device = keep(each.device);
        one.interface = keep(each.interface);
        one.transport = keep(each.transport);
        one.port = each.number;
        one.state = each.state;
        std::memcpy(block + place * size, &one, std::min(size, sizeof one));
    }
}

std::size_t ports_size(const std::vector<coherdma::devices::port> &of, std::size_t size) {
    std::size_t bytes = of.size() * size + 1; // never nothing
    for (const auto &each : of)
        bytes += each.device.size() + each.interface.size() + each.transport.size() + 3;
    return bytes;
}

} // namespace

char **coherdma_list_devices(size_t *count) {
    try {
        const auto found = coherdma::devices::all();
        std::size_t bytes = (found.size() + 1) * sizeof(char *);
        for (const auto &each : found)
            bytes += each.name.size() + 1;
        auto **list = static_cast<char **>(std::calloc(1, bytes));
        if (list) {
            char *next = reinterpret_cast<char *>(list + found.size() + 1);
            for (std::size_t place = 0; place < found.size(); ++place) {
                list[place] = next;
                next = stpcpy(next, found[place].name.c_str()) + 1;
            }
            if (count)
                *count = found.size();
            return list;
        }
    } catch (...) { // bad_alloc; said below
    }
    errno = fail(ENOMEM, "no memory left");
    return nullptr;
}

void coherdma_free_list(char **list) {
    std::free(list);
}

coherdma_port *coherdma_list_ports(size_t *count, size_t size) {
    if (!count || size < sizeof(coherdma_port::comp_mask) || size % alignof(coherdma_port) != 0) {
        errno = fail(EINVAL, "the place for the number of ports is missing, or the size is wrong");
        return nullptr;
    }
    try {
        const auto found = coherdma::devices::all_ports();
        if (auto *block = static_cast<char *>(std::calloc(1, ports_size(found, size)))) {
            fill(block, found, size);
            *count = found.size();
            return reinterpret_cast<coherdma_port *>(block);
        }
    } catch (...) { // bad_alloc; said below
    }
    errno = fail(ENOMEM, "no memory left");
    return nullptr;
}

void coherdma_free_ports(coherdma_port *list) {
    std::free(list);
}
