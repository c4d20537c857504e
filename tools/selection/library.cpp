// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "selection/library.hpp"

#include <filesystem>

namespace tools::selection {

namespace fs = std::filesystem;

std::string private_abi(const host &here) {
    const std::string name = "IBVERBS_PRIVATE_", bytes = here.read(here.library).value_or("");
    const std::size_t at = bytes.find(name);
    if (here.library.empty() || at == std::string::npos)
        return "";
    const std::size_t begin = at + name.size();
    return bytes.substr(begin, bytes.find_first_not_of("0123456789", begin) - begin);
}

std::string plugin_folder(const host &here) {
    return fs::path(here.library).parent_path().string() + "/libibverbs";
}

std::string file_of(const host &here, const std::string &name) {
    const std::string end = "-rdmav" + private_abi(here) + ".so";
    return name.rfind('/', 0) == 0 ? name + end : plugin_folder(here) + "/lib" + name + end;
}

bool same_file(const host &here, const std::string &one, const std::string &other) {
    std::error_code none;
    return fs::equivalent(here.root + one, here.root + other, none) && !none;
}

wish wish_of(const host &here) {
    for (const char *variable : {"RDMAV_DRIVERS", "IBV_DRIVERS"}) {
        const auto set = here.environment.find(variable);
        if (set == here.environment.end())
            continue;
        wish found = {variable, set->second, {}};
        for (std::size_t at = 0, end = 0; end != std::string::npos; at = end + 1) {
            end = found.value.find_first_of(":;", at);
            if (end != at && at < found.value.size())
                found.names.push_back(found.value.substr(at, end - at));
        }
        return found;
    }
    return {};
}

} // namespace tools::selection
