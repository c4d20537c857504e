// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "device_path.hpp"
#include "files.hpp"
#include "rules.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>

namespace coherdma::coherency {
namespace {

bool is_hex(const std::string &text) {
    return !text.empty() && std::ranges::all_of(text, [](unsigned char character) {
        return std::isxdigit(character) != 0;
    });
}

// Whether it is the name of a PCI host bridge in sysfs: pciDDDD:BB, domain and bus in hexadecimal.
bool is_host_bridge_name(const std::string &name) {
    const std::size_t colon = name.find(':');
    return name.rfind("pci", 0) == 0 && colon != std::string::npos && name.size() == colon + 3 &&
           is_hex(name.substr(3, colon - 3)) && is_hex(name.substr(colon + 1));
}

// Whether it is the name of a PCI function in sysfs: DDDD:BB:SS.F, domain, bus, slot and function.
bool is_function_name(const std::string &name) {
    const std::size_t domain_end = name.find(':');
    if (domain_end == std::string::npos || name.size() != domain_end + std::strlen(":BB:SS.F"))
        return false;
    return is_hex(name.substr(0, domain_end)) && is_hex(name.substr(domain_end + 1, 2)) &&
           name[domain_end + 3] == ':' && is_hex(name.substr(domain_end + 4, 2)) &&
           name[domain_end + 6] == '.' && is_hex(name.substr(domain_end + 7));
}

} // namespace

std::string find_hardware_folder(const rule_input &input) {
    return real_path(input.root, "/sys/class/infiniband/" + input.name + "/device");
}

std::string find_host_bridge(const std::string &hardware_folder) {
    for (std::string path = hardware_folder; !path.empty(); path = parent_folder(path)) {
        if (is_host_bridge_name(path.substr(path.rfind('/') + 1)))
            return path;
    }
    return {};
}

std::string find_pci_function(const std::string &hardware_folder) {
    const std::string bridge = find_host_bridge(hardware_folder);
    for (std::string path = hardware_folder; !bridge.empty() && path.size() > bridge.size();
         path = parent_folder(path)) {
        if (is_function_name(path.substr(path.rfind('/') + 1)))
            return path;
    }
    return {};
}

/// The path without input.root, for messages.
std::string strip_root(const rule_input &input, const std::string &path) {
    const std::string sys = real_path(input.root, "/sys"); // the root with its links resolved
    const std::size_t root_length = sys.size() - std::min(sys.size(), std::string("/sys").size());
    return path.size() > root_length ? path.substr(root_length) : path;
}

} // namespace coherdma::coherency
