// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "provider_config/plugin_path.hpp"

#include <filesystem>

namespace tools::provider_config {

namespace fs = std::filesystem;

/// "34" of the symbol version IBVERBS_PRIVATE_34; "" if libibverbs has none.
std::string private_abi_number(const host &machine) {
    // The symbol version is among the strings of the file.
    const std::string prefix = "IBVERBS_PRIVATE_",
                      bytes = machine.read_file(machine.libibverbs_path).value_or("");
    const std::size_t pos = bytes.find(prefix);
    if (machine.libibverbs_path.empty() || pos == std::string::npos)
        return "";
    const std::size_t begin = pos + prefix.size();
    return bytes.substr(begin, bytes.find_first_not_of("0123456789", begin) - begin);
}

std::string plugin_folder(const host &machine) {
    return fs::path(machine.libibverbs_path).parent_path().string() + "/libibverbs";
}

std::string plugin_path(const host &machine, const std::string &name) {
    const std::string suffix = "-rdmav" + private_abi_number(machine) + ".so";
    const bool is_absolute = name.rfind('/', 0) == 0;
    return is_absolute ? name + suffix : plugin_folder(machine) + "/lib" + name + suffix;
}

bool is_same_file(const host &machine, const std::string &path, const std::string &other_path) {
    std::error_code error;
    return fs::equivalent(machine.root + path, machine.root + other_path, error) && !error;
}

/// As libibverbs: RDMAV_DRIVERS is read first; names are separated by : or ;
driver_variable get_driver_variable(const host &machine) {
    for (const char *variable : {"RDMAV_DRIVERS", "IBV_DRIVERS"}) {
        const auto it = machine.environment.find(variable);
        if (it == machine.environment.end())
            continue;
        driver_variable result = {variable, it->second, {}};
        for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
            end = result.value.find_first_of(":;", begin);
            if (end != begin && begin < result.value.size())
                result.names.push_back(result.value.substr(begin, end - begin));
        }
        return result;
    }
    return {};
}

} // namespace tools::provider_config
