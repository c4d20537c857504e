// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "place.hpp"
#include "files.hpp"
#include "verdict.hpp"

#include <cctype>

namespace coherdma::coherency {
namespace {

// pciDDDD:BB, in which D and B are hexadecimal.
bool is_bridge(const std::string &name) {
    const auto is_hex = [&name](std::size_t from, std::size_t to) {
        for (; from < to; ++from) {
            if (std::isxdigit(static_cast<unsigned char>(name[from])) == 0)
                return false;
        }
        return true;
    };
    const std::size_t colon = name.find(':');
    return name.rfind("pci", 0) == 0 && colon != std::string::npos && colon > 3 &&
           name.size() == colon + 3 && is_hex(3, colon) && is_hex(colon + 1, name.size());
}

} // namespace

std::string hardware(const subject &device) {
    return real_path(device.root, "/sys/class/infiniband/" + device.name + "/device");
}

std::string host_bridge(const std::string &hardware) {
    for (std::string at = hardware; !at.empty(); at = parent(at)) {
        if (is_bridge(at.substr(at.rfind('/') + 1)))
            return at;
    }
    return {};
}

std::string without_root(const subject &device, const std::string &path) {
    const std::string sys = real_path(device.root, "/sys");
    const std::size_t top = sys.size() - std::min(sys.size(), std::string("/sys").size());
    return path.size() > top ? path.substr(top) : path;
}

} // namespace coherdma::coherency
