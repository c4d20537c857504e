// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "locations.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <memory>
#include <string_view>
#include <vector>

namespace schedule {
namespace {

struct close_pipe {
    void operator()(std::FILE *pipe) const { pclose(pipe); }
};

std::string read_line(std::FILE *pipe) {
    std::string line;
    for (int c = std::fgetc(pipe); c != EOF && c != '\n'; c = std::fgetc(pipe))
        line += static_cast<char>(c);
    return line;
}

/// "/a/b/file.cpp:12 (discriminator 3)": "file.cpp:12".
std::string short_position(std::string position) {
    position = position.substr(0, position.find(" ("));
    return position.substr(position.rfind('/') + 1);
}

void erase_all(std::string &text, std::string_view part) {
    for (std::size_t pos; (pos = text.find(part)) != std::string::npos;)
        text.erase(pos, part.size());
}

/// "a::b<c>::d(int)": "d"; of a lambda: "d, lambda".
std::string short_function(std::string function) {
    erase_all(function, "(anonymous namespace)::");
    const std::size_t lambda = function.find("::{lambda");
    function = function.substr(0, std::min(lambda, function.find_first_of("(<")));
    if (lambda != std::string::npos)
        function = function.substr(0, function.find_first_of("(<"));
    const std::size_t last = function.rfind("::");
    if (last != std::string::npos)
        function = function.substr(last + 2);
    return lambda == std::string::npos ? function : function + ", lambda";
}

/// One address of addr2line's output: the innermost function that is not the C++ library's, of
/// those that the compiler has inlined there. next_line: the first line; afterwards that of the
/// next address.
std::string read_location(std::FILE *pipe, std::string &next_line) {
    std::string location;
    bool is_library = true;
    next_line = read_line(pipe);
    while (!next_line.empty() && !next_line.starts_with("0x")) {
        const std::string function = next_line, position = read_line(pipe);
        if (is_library) {
            is_library = position.starts_with("/usr/include/") || position.starts_with("?");
            location = fmt::format("{} ({})", short_function(function), short_position(position));
        }
        next_line = read_line(pipe);
    }
    return location;
}

} // namespace

std::map<const void *, std::string> find_locations(const std::set<const void *> &addrs) {
    std::map<const void *, std::string> locations;
    std::map<std::string, std::vector<const void *>> by_file;
    std::map<std::string, std::uintptr_t> bases;
    for (const void *addr : addrs) {
        Dl_info info = {};
        link_map *map = nullptr;
        if (addr == nullptr ||
            dladdr1(addr, &info, reinterpret_cast<void **>(&map), RTLD_DL_LINKMAP) == 0)
            continue;
        by_file[info.dli_fname].push_back(addr);
        bases[info.dli_fname] = map->l_addr;
    }
    for (const auto &[file, in_file] : by_file) {
        std::string command = fmt::format("addr2line -a -i -f -C -e '{}'", file);
        for (const void *addr : in_file)
            command +=
                fmt::format(" {:#x}", reinterpret_cast<std::uintptr_t>(addr) - bases[file] - 1);
        const std::unique_ptr<std::FILE, close_pipe> pipe(popen(command.c_str(), "re"));
        if (!pipe)
            continue;
        std::string line = read_line(pipe.get()); // the first address
        for (const void *addr : in_file)
            locations[addr] = read_location(pipe.get(), line);
    }
    return locations;
}

} // namespace schedule
