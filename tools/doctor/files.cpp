// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The files of a host.

#include "doctor/host.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>
#include <zlib.h>

namespace tools::doctor {

std::optional<std::string> host::read(const std::string &path) const {
    const gzFile file = gzopen((root + path).c_str(), "rbe"); // passes on what is not compressed
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

std::vector<std::string> host::lines(const std::string &path) const {
    std::vector<std::string> all;
    std::istringstream text(read(path).value_or(""));
    for (std::string line; std::getline(text, line);)
        all.push_back(line);
    return all;
}

bool host::exists(const std::string &path) const {
    std::error_code ignored;
    return std::filesystem::exists(root + path, ignored);
}

std::vector<std::string> host::list(const std::string &path) const {
    std::vector<std::string> names;
    std::error_code problem;
    for (std::filesystem::directory_iterator each(root + path, problem), end;
         !problem && each != end; each.increment(problem))
        names.push_back(each->path().filename());
    std::sort(names.begin(), names.end());
    return names;
}

bool host::in_container() const {
    if (environment.count("SOFTRDMA_HOST")) // a guest of the lab sees its caller's files
        return false;
    for (const char *sign : {"/.dockerenv", "/run/.dockerenv", "/run/.containerenv"}) {
        if (exists(sign))
            return true;
    }
    const std::string groups = read("/proc/1/cgroup").value_or("");
    for (const char *word : {"docker", "kubepods", "containerd", "libpod", "/lxc"}) {
        if (groups.find(word) != std::string::npos)
            return true;
    }
    return false;
}

std::string host::as_root(const std::string &command) const {
    return is_root ? command : "sudo " + command;
}

} // namespace tools::doctor
