// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "device_path.hpp"
#include "files.hpp"
#include "rules.hpp"

#include <cctype>

namespace coherdma::coherency {
namespace {

// Whether it is the name of a PCI host bridge in sysfs: pciDDDD:BB, domain and bus in hexadecimal.
bool is_host_bridge_name(const std::string &name) {
    const auto is_hex = [&name](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
            if (std::isxdigit(static_cast<unsigned char>(name[i])) == 0)
                return false;
        }
        return true;
    };
    const std::size_t colon = name.find(':');
    return name.rfind("pci", 0) == 0 && colon != std::string::npos && colon > 3 &&
           name.size() == colon + 3 && is_hex(3, colon) && is_hex(colon + 1, name.size());
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

// A PCI function has the file config.
std::string find_pci_function(const std::string &hardware_folder) {
    const std::string bridge = find_host_bridge(hardware_folder);
    for (std::string path = hardware_folder; !bridge.empty() && path.size() > bridge.size();
         path = parent_folder(path)) {
        if (path_exists(path + "/config"))
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
