// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "provider_config/change.hpp"
#include "provider_config/replace_file.hpp"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fmt/core.h>
#include <stdexcept>
#include <sys/file.h>
#include <system_error>
#include <unistd.h>

namespace tools::provider_config {
namespace {

namespace fs = std::filesystem;

std::vector<edit> collect_edits(const host &machine, const auto &change_text) {
    std::vector<edit> edits;
    for (const driver_file &file : driver_files(machine)) {
        if (std::string text = change_text(file); text != file.text)
            edits.push_back({file, std::move(text)});
    }
    return edits;
}

/// Resolves symbolic links; throws if the path leaves the root.
fs::path resolve_path(const host &machine, const std::string &path) {
    const fs::path root = fs::canonical(machine.root.empty() ? "/" : machine.root);
    const fs::path resolved = fs::canonical(machine.root + path);
    if (const fs::path relative = resolved.lexically_relative(root); *relative.begin() == "..")
        throw std::runtime_error(fmt::format("{} leads out of {}, to {}", machine.root + path,
                                             root.string(), resolved.string()));
    return resolved;
}

} // namespace

std::string driver_name_for(const host &machine, const std::string &plugin) {
    const std::string base = plugin.substr(0, plugin.rfind("-rdmav"));
    if (private_abi(machine).empty())
        throw std::runtime_error("libibverbs.so.1 is not found");
    if (base.rfind('/', 0) != 0 || !is_coherdma(base) || base.find_first_of(" \t\r\n") != base.npos)
        throw std::runtime_error(
            "a driver line cannot name '" + plugin +
            "': it needs an absolute path without blanks to libcoherdma-rdmav*.so");
    if (!machine.exists(plugin_file(machine, base)))
        throw std::runtime_error("there is no " + machine.root + plugin_file(machine, base) +
                                 "; install coherdma's provider or set COHERDMA_PROVIDER");
    return is_same_file(machine, fs::path(base).parent_path(), plugin_folder(machine)) ? "coherdma"
                                                                                       : base;
}

std::vector<edit> plan_enable(const host &machine, const std::string &name) {
    return collect_edits(machine, [&name](const driver_file &file) {
        std::string text = remove_coherdma_lines(file.text);
        return file.has_soft_driver() ? add_coherdma_line(std::move(text), name) : text;
    });
}

std::vector<edit> plan_disable(const host &machine) {
    return collect_edits(machine,
                         [](const driver_file &file) { return remove_coherdma_lines(file.text); });
}

std::vector<std::string> describe_edit(const edit &change) {
    std::vector<std::string> lines;
    const auto add = [&](char sign, const std::string &text) {
        for (const driver_line &line : parse_driver_lines(text)) {
            if (is_coherdma(line.name))
                lines.push_back(fmt::format("{} {}:{}: driver {}", sign, change.file.path,
                                            line.line_num, line.name));
        }
    };
    add('-', change.file.text);
    add('+', change.new_text);
    return lines;
}

void apply_edit(const host &machine, const edit &change) {
    replace_file(resolve_path(machine, change.file.path), change.new_text);
}

folder_lock::folder_lock(const host &machine)
    : fd_(::open((machine.root + FOLDER).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (fd_ < 0 || flock(fd_, LOCK_EX) != 0)
        throw std::system_error(errno, std::generic_category(), machine.root + FOLDER);
    remove_temp_file(resolve_path(machine, FOLDER));
}

folder_lock::~folder_lock() {
    close(fd_);
}

} // namespace tools::provider_config
