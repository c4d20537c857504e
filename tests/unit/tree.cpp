// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "tree.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <stdlib.h>

namespace fs = std::filesystem;

namespace {

void write(const fs::path &path, const std::string &bytes) {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
}

std::string bytes_of(std::istringstream &rest) {
    std::string kind, bytes;
    rest >> kind;
    if (kind == "text") {
        std::getline(rest >> std::ws, bytes);
        bytes += '\n';
    } else if (kind == "hex") {
        for (unsigned each = 0; rest >> std::hex >> each;)
            bytes += static_cast<char>(each);
    } else if (!kind.empty()) {
        throw std::runtime_error("neither text nor hex: " + kind);
    }
    return bytes;
}

std::string space_of(std::istringstream &rest) {
    std::string bytes(256, '\0');
    unsigned at = 0, value = 0;
    for (char equals = 0; rest >> std::hex >> at >> equals >> value;)
        bytes.at(at) = static_cast<char>(value);
    return bytes;
}

} // namespace

tree::made::made(const std::string &description) {
    char name[] = "/tmp/coherdma-tree.XXXXXX";
    if (!mkdtemp(name))
        throw std::runtime_error("no temporary folder");
    root = name;
    std::ifstream lines(description);
    if (!lines)
        throw std::runtime_error("cannot read " + description);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream rest(line);
        std::string first, path, target;
        rest >> first;
        if (first.empty() || first[0] == '#')
            continue;
        if (first == "link") {
            rest >> path >> target;
            fs::create_directories(fs::path(root + path).parent_path());
            fs::create_directories((fs::path(root + path).parent_path() / target).parent_path());
            fs::create_symlink(target, root + path);
        } else if (first == "folder") {
            rest >> path;
            fs::create_directories(root + path);
        } else if (first == "file") {
            rest >> path;
            write(root + path, bytes_of(rest));
        } else if (first == "space") {
            rest >> path;
            write(root + path, space_of(rest));
        } else {
            std::getline(rest >> std::ws, target);
            words.emplace_back(first, target);
        }
    }
}

tree::made::~made() {
    std::error_code ignored;
    fs::remove_all(root, ignored);
}

std::string tree::made::operator[](const std::string &first) const {
    for (const auto &[word, rest] : words) {
        if (word == first)
            return rest;
    }
    return {};
}
