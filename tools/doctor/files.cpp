// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Functions of host that access files.

#include "doctor/host.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>
#include <zlib.h>

namespace tools::doctor {

std::optional<std::string> host::read_file(const std::string &path) const {
    const gzFile file = gzopen((root + path).c_str(), "rbe"); // also reads uncompressed files
    if (!file)
        return std::nullopt;
    std::string text;
    std::array<char, 4096> part;
    int length = 0;
    while ((length = gzread(file, part.data(), part.size())) > 0)
        text.append(part.data(), static_cast<std::size_t>(length));
    gzclose(file);
    if (length < 0)
        return std::nullopt;
    text.erase(text.find_last_not_of(" \t\n") + 1);
    return text;
}

std::vector<std::string> host::read_lines(const std::string &path) const {
    std::vector<std::string> lines;
    std::istringstream text(read_file(path).value_or(""));
    for (std::string line; std::getline(text, line);)
        lines.push_back(line);
    return lines;
}

bool host::exists(const std::string &path) const {
    std::error_code ignored;
    return std::filesystem::exists(root + path, ignored);
}

std::vector<std::string> host::list_folder(const std::string &path) const {
    std::vector<std::string> names;
    std::error_code error;
    for (std::filesystem::directory_iterator it(root + path, error), end; !error && it != end;
         it.increment(error))
        names.push_back(it->path().filename());
    std::sort(names.begin(), names.end());
    return names;
}

bool host::is_container() const {
    if (environment.count("SOFTRDMA_HOST")) // a guest of softrdma's lab shares its caller's files
        return false;
    for (const char *path : {"/.dockerenv", "/run/.dockerenv", "/run/.containerenv"}) {
        if (exists(path))
            return true;
    }
    const std::string groups = read_file("/proc/1/cgroup").value_or("");
    for (const char *name : {"docker", "kubepods", "containerd", "libpod", "/lxc"}) {
        if (groups.find(name) != std::string::npos)
            return true;
    }
    return false;
}

std::string host::with_sudo(const std::string &command) const {
    return is_root ? command : "sudo " + command;
}

} // namespace tools::doctor
