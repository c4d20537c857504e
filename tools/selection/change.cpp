// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "selection/change.hpp"
#include "selection/replace.hpp"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <stdexcept>
#include <sys/file.h>
#include <system_error>
#include <unistd.h>

namespace tools::selection {
namespace {

namespace fs = std::filesystem;

std::vector<edit> changed(const host &here, const auto &after) {
    std::vector<edit> all;
    for (const driver_file &file : driver_files(here)) {
        if (std::string text = after(file); text != file.text)
            all.push_back({file, std::move(text)});
    }
    return all;
}

/// What the path leads to, through symbolic links, but not out of the root.
fs::path behind(const host &here, const std::string &path) {
    const fs::path root = fs::canonical(here.root.empty() ? "/" : here.root);
    const fs::path found = fs::canonical(here.root + path);
    if (const fs::path inside = found.lexically_relative(root); *inside.begin() == "..")
        throw std::runtime_error(fmt::format("{} leads out of {}, to {}", here.root + path,
                                             root.string(), found.string()));
    return found;
}

} // namespace

std::string name_of_plugin(const host &here, const std::string &plugin) {
    const std::string base = plugin.substr(0, plugin.rfind("-rdmav"));
    if (private_abi(here).empty())
        throw std::runtime_error("libibverbs.so.1 is not found, so nobody would load a plugin");
    if (base.rfind('/', 0) != 0 || !is_ours(base) || base.find_first_of(" \t\r\n") != base.npos)
        throw std::runtime_error("a line for libibverbs cannot name '" + plugin +
                                 "': that takes a path without blanks to libcoherdma-rdmav*.so");
    if (!here.exists(file_of(here, base)))
        throw std::runtime_error("there is no " + here.root + file_of(here, base) +
                                 "; install coherdma's provider, or name it in COHERDMA_PROVIDER");
    return same_file(here, fs::path(base).parent_path(), plugin_folder(here)) ? "coherdma" : base;
}

std::vector<edit> plan_on(const host &here, const std::string &name) {
    return changed(here, [&name](const driver_file &file) {
        std::string text = without_ours(file.text);
        return file.is_soft() ? with_ours(std::move(text), name) : text;
    });
}

std::vector<edit> plan_off(const host &here) {
    return changed(here, [](const driver_file &file) { return without_ours(file.text); });
}

std::vector<std::string> describe(const edit &one) {
    std::vector<std::string> all;
    const auto add = [&](char sign, const std::string &text) {
        for (const driver_line &line : driver_lines(text)) {
            if (is_ours(line.name))
                all.push_back(fmt::format("{} {}:{}: driver {}", sign, one.before.path, line.number,
                                          line.name));
        }
    };
    add('-', one.before.text);
    add('+', one.after);
    return all;
}

void carry_out(const host &here, const edit &one) {
    replace(behind(here, one.before.path), one.after);
}

folder_lock::folder_lock(const host &here)
    : folder(::open((here.root + FOLDER).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (folder < 0 || flock(folder, LOCK_EX) != 0)
        throw std::system_error(errno, std::generic_category(), here.root + FOLDER);
    remove_leftover(behind(here, FOLDER));
}

folder_lock::~folder_lock() {
    close(folder);
}

} // namespace tools::selection
