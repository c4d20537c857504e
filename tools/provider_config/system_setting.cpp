// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "provider_config/system_setting.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/core.h>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace tools::provider_config {
namespace {

std::string format_location(const std::string &file, std::size_t line_num) {
    return fmt::format("line {} of {}", line_num, file);
}

std::string join(const std::vector<std::string> &parts) {
    std::string text;
    for (const std::string &part : parts)
        text += (text.empty() ? "" : ", ") + part;
    return text;
}

/// Where the lines are that make libibverbs load the plugin at this path.
std::vector<std::string> find_lines_for(const host &machine, const std::string &plugin) {
    std::vector<std::string> lines;
    for (const driver_file &file : read_driver_files(machine)) {
        for (const driver_line &line : parse_driver_lines(file.text)) {
            if (is_same_file(machine, plugin_path(machine, line.name), plugin))
                lines.push_back(format_location(file.path, line.line_num));
        }
    }
    return lines;
}

/// Nothing also if this user cannot read the owners.
std::optional<exposed_path> query_exposure(const host &machine, const std::string &plugin) {
    try {
        return find_exposed_plugin(machine, plugin);
    } catch (const std::runtime_error &) {
        return {};
    }
}

/// The NAME in a line "driver NAME" that makes libibverbs load the plugin at this path.
std::string driver_name(const std::string &plugin) {
    return plugin.substr(0, plugin.rfind("-rdmav"));
}

} // namespace

bool driver_file::has_soft_driver() const {
    for (const driver_line &line : parse_driver_lines(text)) {
        if (is_soft_driver(line.name))
            return true;
    }
    return false;
}

bool driver_file::prefers_coherdma() const {
    bool is_coherdma_last = false; // libibverbs tries the last line of a file first
    for (const driver_line &line : parse_driver_lines(text)) {
        if (is_coherdma_driver(line.name) || is_soft_driver(line.name))
            is_coherdma_last = is_coherdma_driver(line.name);
    }
    return is_coherdma_last;
}

/// The files with driver lines that libibverbs reads.
std::vector<driver_file> read_driver_files(const host &machine) {
    std::vector<driver_file> files;
    for (const std::string &name : machine.list_folder(DRIVER_FOLDER)) {
        const std::string path = std::string(DRIVER_FOLDER) + "/" + name;
        std::error_code error;
        if (!std::filesystem::is_regular_file(machine.root + path, error))
            continue;
        std::ifstream file(machine.root + path, std::ios::binary);
        std::ostringstream text;
        if (!file.is_open())
            continue; // libibverbs skips it, too
        if (file.peek() != std::ifstream::traits_type::eof())
            text << file.rdbuf();
        if (file.bad() || !text)
            throw std::runtime_error("cannot read " + machine.root + path);
        files.push_back({path, text.str()});
    }
    return files;
}

const char *name_of(setting_state state) {
    constexpr const char *NAMES[] = {"off", "on", "partial", "stale"};
    return NAMES[static_cast<std::size_t>(state)];
}

std::string coherdma_line::location_text() const {
    return format_location(file, line_num);
}

std::optional<exposed_path> system_setting::exposed() const {
    for (const coherdma_line &line : lines) {
        if (line.exposed)
            return line.exposed;
    }
    return {};
}

/// Whether libibverbs is set up to try coherdma's plugin before those of the soft drivers.
system_setting query_setting(const host &machine) {
    system_setting result;
    std::vector<std::string> locations;        // of the lines that name coherdma
    std::vector<std::string> missing_plugins;  // of such lines
    std::vector<std::string> without_coherdma; // files that do not prefer it to a soft driver
    for (const driver_file &file : read_driver_files(machine)) {
        result.has_soft_driver |= file.has_soft_driver();
        if (file.has_soft_driver() && !file.prefers_coherdma())
            without_coherdma.push_back(file.path);
        for (const driver_line &line : parse_driver_lines(file.text)) {
            if (!is_coherdma_driver(line.name))
                continue;
            const std::string plugin = plugin_path(machine, line.name);
            coherdma_line coherdma_line = {
                file.path, line.line_num, plugin, machine.exists(plugin), {}};
            if (coherdma_line.exists && is_owned_by_root(machine, file.path))
                coherdma_line.exposed = query_exposure(machine, plugin);
            locations.push_back(coherdma_line.location_text());
            if (!coherdma_line.exists)
                missing_plugins.push_back(coherdma_line.location_text() + " requires " + plugin);
            result.lines.push_back(coherdma_line);
        }
    }
    if (locations.empty()) {
        result.description = result.has_soft_driver
                                 ? "no file of /etc/libibverbs.d names coherdma."
                                 : "no file of /etc/libibverbs.d names a soft driver.";
    } else if (!missing_plugins.empty()) {
        result.state = setting_state::STALE;
        result.description = "the plugin does not exist: " + join(missing_plugins) + ".";
    } else if (!without_coherdma.empty()) {
        result.state = setting_state::PARTIAL;
        result.description = "the order of the files decides, because coherdma is not named below "
                             "the soft driver in " +
                             join(without_coherdma) + ".";
    } else {
        result.state = setting_state::ON;
        result.description = "by " + join(locations) + ".";
    }
    return result;
}

const char *fix_command(setting_state state) {
    if (state == setting_state::PARTIAL)
        return "coherdma enable";
    return state == setting_state::STALE ? "coherdma disable" : nullptr;
}

/// Why libibverbs loaded the plugin that serves the opened device.
load_reason find_load_reason(const host &machine, const doctor::open_result &opened) {
    if (opened.is_preloaded)
        return {load_source::PRELOADED, "LD_PRELOAD"};
    const driver_variable variable = get_driver_variable(machine);
    for (const std::string &name : variable.names) {
        if (is_same_file(machine, plugin_path(machine, name), opened.plugin))
            return {load_source::ENVIRONMENT, variable.variable + "=" + variable.value};
    }
    const std::vector<std::string> lines = find_lines_for(machine, opened.plugin);
    return lines.empty() ? load_reason{} : load_reason{load_source::SYSTEM, join(lines)};
}

const char *name_of(load_source source) {
    constexpr const char *NAMES[] = {"unknown", "preloaded", "environment", "system"};
    return NAMES[static_cast<std::size_t>(source)];
}

bool is_setting_overridden(const system_setting &setting, const doctor::open_result &opened,
                           const load_reason &reason) {
    return setting.state == setting_state::ON && is_soft_driver(driver_name(opened.plugin)) &&
           (reason.source == load_source::PRELOADED || reason.source == load_source::ENVIRONMENT);
}

bool has_coherdma_declined(const system_setting &setting, const doctor::open_result &opened,
                           const load_reason &reason) {
    // With this setting, libibverbs has tried coherdma's plugin before that of the soft driver.
    return setting.state == setting_state::ON && is_soft_driver(driver_name(opened.plugin)) &&
           reason.source == load_source::SYSTEM;
}

bool is_coherdma_plugin(const std::string &path) {
    return is_coherdma_driver(driver_name(path));
}

} // namespace tools::provider_config
