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

/// The edits of the files that make_text changes; make_text(file) returns a file's new text.
std::vector<file_edit> collect_edits(const host &machine, const auto &make_text) {
    std::vector<file_edit> edits;
    for (const driver_file &file : read_driver_files(machine)) {
        if (std::string new_text = make_text(file); new_text != file.text)
            edits.push_back({file, std::move(new_text)});
    }
    return edits;
}

/// The path with the root in front and symbolic links resolved; throws if a link leads out of the
/// root.
fs::path resolve_path(const host &machine, const std::string &path) {
    const fs::path root = fs::canonical(machine.root.empty() ? "/" : machine.root);
    const fs::path resolved = fs::canonical(machine.root + path);
    if (const fs::path relative = resolved.lexically_relative(root); *relative.begin() == "..")
        throw std::runtime_error(fmt::format("{} leads out of {}, to {}", machine.root + path,
                                             root.string(), resolved.string()));
    return resolved;
}

} // namespace

/// The NAME of a line "driver NAME" for the plugin at this path: "coherdma" if libibverbs searches
/// its folder, else the path without the suffix. Throws std::runtime_error.
std::string driver_name_for(const host &machine, const std::string &path) {
    const std::string name = path.substr(0, path.rfind("-rdmav")); // libibverbs appends the rest
    if (private_abi_number(machine).empty())
        throw std::runtime_error("libibverbs.so.1 is not found");
    const bool is_absolute = name.rfind('/', 0) == 0;
    const bool has_blanks = name.find_first_of(" \t\r\n") != name.npos;
    if (!is_absolute || !is_coherdma_driver(name) || has_blanks)
        throw std::runtime_error(
            "a driver line cannot name '" + path +
            "': it needs an absolute path without blanks to libcoherdma-rdmav*.so");
    const std::string loaded_path = plugin_path(machine, name); // for this libibverbs
    if (!machine.exists(loaded_path))
        throw std::runtime_error("there is no " + machine.root + loaded_path +
                                 "; install coherdma's provider or set COHERDMA_PROVIDER");
    const bool is_in_plugin_folder =
        is_same_file(machine, fs::path(name).parent_path(), plugin_folder(machine));
    return is_in_plugin_folder ? "coherdma" : name;
}

/// coherdma's line goes below that of the soft driver: libibverbs tries the last line first.
std::vector<file_edit> plan_enable(const host &machine, const std::string &name) {
    return collect_edits(machine, [&name](const driver_file &file) {
        std::string text = remove_coherdma_lines(file.text);
        return file.has_soft_driver() ? add_driver_line(std::move(text), name) : text;
    });
}

std::vector<file_edit> plan_disable(const host &machine) {
    return collect_edits(machine,
                         [](const driver_file &file) { return remove_coherdma_lines(file.text); });
}

/// "+ FILE:LINE: driver NAME" for each added line, "-" for each removed one.
std::vector<std::string> describe_edit(const file_edit &edit) {
    std::vector<std::string> lines;
    const auto add_coherdma_lines = [&](char sign, const std::string &text) {
        for (const driver_line &line : parse_driver_lines(text)) {
            if (is_coherdma_driver(line.name))
                lines.push_back(fmt::format("{} {}:{}: driver {}", sign, edit.file.path,
                                            line.line_num, line.name));
        }
    };
    add_coherdma_lines('-', edit.file.text);
    add_coherdma_lines('+', edit.new_text);
    return lines;
}

void apply_edit(const host &machine, const file_edit &edit) {
    replace_file(resolve_path(machine, edit.file.path), edit.new_text);
}

folder_lock::folder_lock(const host &machine)
    : fd_(::open((machine.root + DRIVER_FOLDER).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (fd_ < 0 || flock(fd_, LOCK_EX) != 0)
        throw std::system_error(errno, std::generic_category(), machine.root + DRIVER_FOLDER);
    remove_temp_file(resolve_path(machine, DRIVER_FOLDER));
}

folder_lock::~folder_lock() {
    close(fd_);
}

} // namespace tools::provider_config
