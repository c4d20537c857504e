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

/// The lines that make libibverbs load this plugin.
std::vector<std::string> find_lines_for(const host &machine, const std::string &plugin) {
    std::vector<std::string> lines;
    for (const driver_file &file : driver_files(machine)) {
        for (const driver_line &line : parse_driver_lines(file.text)) {
            if (is_same_file(machine, plugin_file(machine, line.name), plugin))
                lines.push_back(format_location(file.path, line.line_num));
        }
    }
    return lines;
}

/// The name of a plugin in a driver line.
std::string plugin_base_name(const std::string &plugin) {
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
    // The last line wins: libibverbs tries the drivers of a file in reverse order.
    bool is_coherdma_last = false;
    for (const driver_line &line : parse_driver_lines(text)) {
        if (is_coherdma(line.name) || is_soft_driver(line.name))
            is_coherdma_last = is_coherdma(line.name);
    }
    return is_coherdma_last;
}

std::vector<driver_file> driver_files(const host &machine) {
    std::vector<driver_file> files;
    for (const std::string &name : machine.list_folder(FOLDER)) {
        const std::string path = std::string(FOLDER) + "/" + name;
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
    constexpr const char *NAMES[] = {"off", "on", "half", "stale"};
    return NAMES[static_cast<std::size_t>(state)];
}

std::string coherdma_line::location_text() const {
    return format_location(file, line_num);
}

system_setting query_setting(const host &machine) {
    system_setting result;
    std::vector<std::string> locations, missing_plugins, without_coherdma;
    for (const driver_file &file : driver_files(machine)) {
        result.has_soft_driver |= file.has_soft_driver();
        if (file.has_soft_driver() && !file.prefers_coherdma())
            without_coherdma.push_back(file.path);
        for (const driver_line &line : parse_driver_lines(file.text)) {
            if (!is_coherdma(line.name))
                continue;
            const std::string plugin = plugin_file(machine, line.name);
            const coherdma_line line_info = {file.path, line.line_num, plugin,
                                             machine.exists(plugin)};
            locations.push_back(line_info.location_text());
            if (!line_info.exists)
                missing_plugins.push_back(line_info.location_text() + " requires " + plugin);
            result.lines.push_back(line_info);
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

serving_reason find_serving_reason(const host &machine, const doctor::open_result &device) {
    if (device.preloaded)
        return {serving_reason::PRELOADED, "LD_PRELOAD"};
    const driver_variable variable = get_driver_variable(machine);
    for (const std::string &name : variable.names) {
        if (is_same_file(machine, plugin_file(machine, name), device.plugin))
            return {serving_reason::ENVIRONMENT, variable.variable + "=" + variable.value};
    }
    const std::vector<std::string> lines = find_lines_for(machine, device.plugin);
    return lines.empty() ? serving_reason{} : serving_reason{serving_reason::SYSTEM, join(lines)};
}

const char *name_of(decltype(serving_reason::source) source) {
    constexpr const char *NAMES[] = {"unknown", "preloaded", "environment", "system"};
    return NAMES[source];
}

bool is_overridden(const system_setting &system, const doctor::open_result &device,
                   const serving_reason &reason) {
    return system.state == setting_state::ON && is_soft_driver(plugin_base_name(device.plugin)) &&
           (reason.source == serving_reason::PRELOADED ||
            reason.source == serving_reason::ENVIRONMENT);
}

bool is_declined(const system_setting &system, const doctor::open_result &device,
                 const serving_reason &reason) {
    return system.state == setting_state::ON && is_soft_driver(plugin_base_name(device.plugin)) &&
           reason.source == serving_reason::SYSTEM;
}

bool is_coherdma_plugin(const std::string &path) {
    return is_coherdma(plugin_base_name(path));
}

} // namespace tools::provider_config
