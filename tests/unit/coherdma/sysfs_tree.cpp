// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "sysfs_tree.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <stdlib.h>
#include <unistd.h>

namespace fs = std::filesystem;

namespace {

void write(const fs::path &path, const std::string &bytes) {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
}

std::string read_bytes(std::istringstream &fields) {
    std::string kind, bytes;
    fields >> kind;
    if (kind == "text") {
        std::getline(fields >> std::ws, bytes);
        bytes += '\n';
    } else if (kind == "hex") {
        for (unsigned byte = 0; fields >> std::hex >> byte;)
            bytes += static_cast<char>(byte);
    } else if (!kind.empty()) {
        throw std::runtime_error("neither text nor hex: " + kind);
    }
    return bytes;
}

std::string read_config_space(std::istringstream &fields) {
    std::string bytes(256, '\0');
    unsigned offset = 0, value = 0;
    for (char equals = 0; fields >> std::hex >> offset >> equals >> value;)
        bytes.at(offset) = static_cast<char>(value);
    return bytes;
}

} // namespace

fake_sysfs::fake_sysfs(const std::string &description) {
    // In memory if possible: tests change thousands of files.
    root = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    root += "/coherdma-tree.XXXXXX";
    if (!mkdtemp(root.data()))
        throw std::runtime_error("no temporary folder");
    write(root + "/proc/cmdline", "quiet\n");
    fs::create_directories(root + "/sys/kernel");
    std::ifstream lines(description);
    if (!lines)
        throw std::runtime_error("cannot read " + description);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream fields(line);
        std::string first, path, target;
        fields >> first;
        if (first.empty() || first[0] == '#')
            continue;
        if (first == "link") {
            fields >> path >> target;
            fs::create_directories(fs::path(root + path).parent_path());
            fs::create_directories((fs::path(root + path).parent_path() / target).parent_path());
            fs::create_symlink(target, root + path);
        } else if (first == "folder") {
            fields >> path;
            fs::create_directories(root + path);
        } else if (first == "file") {
            fields >> path;
            write(root + path, read_bytes(fields));
        } else if (first == "space") {
            fields >> path;
            write(root + path, read_config_space(fields));
        } else {
            std::getline(fields >> std::ws, target);
            other_lines.push_back({first, target});
        }
    }
}

fake_sysfs::~fake_sysfs() {
    std::error_code ignored;
    fs::remove_all(root, ignored);
}

std::string fake_sysfs::operator[](const std::string &first) const {
    for (const auto &[first_word, text] : other_lines) {
        if (first_word == first)
            return text;
    }
    return {};
}
