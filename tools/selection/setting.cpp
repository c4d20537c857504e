// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "selection/setting.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace tools::selection {
namespace {

std::string place_of(const std::string &file, std::size_t number) {
    return fmt::format("line {} of {}", number, file);
}

std::string joined(const std::vector<std::string> &all) {
    std::string text;
    for (const std::string &each : all)
        text += (text.empty() ? "" : ", ") + each;
    return text;
}

/// Lines that have libibverbs load this plugin.
std::vector<std::string> lines_for(const host &here, const std::string &plugin) {
    std::vector<std::string> all;
    for (const driver_file &file : driver_files(here)) {
        for (const driver_line &line : driver_lines(file.text)) {
            if (same_file(here, file_of(here, line.name), plugin))
                all.push_back(place_of(file.path, line.number));
        }
    }
    return all;
}

/// What a line would say to name it.
std::string name_of_file(const std::string &plugin) {
    return plugin.substr(0, plugin.rfind("-rdmav"));
}

} // namespace

bool driver_file::is_soft() const {
    for (const driver_line &each : driver_lines(text)) {
        if (selection::is_soft(each.name))
            return true;
    }
    return false;
}

bool driver_file::prefers() const {
    bool ours_last = false;
    for (const driver_line &each : driver_lines(text)) {
        if (is_ours(each.name) || selection::is_soft(each.name))
            ours_last = is_ours(each.name);
    }
    return ours_last;
}

std::vector<driver_file> driver_files(const host &here) {
    std::vector<driver_file> all;
    for (const std::string &name : here.list(FOLDER)) {
        const std::string path = std::string(FOLDER) + "/" + name;
        std::error_code none;
        if (!std::filesystem::is_regular_file(here.root + path, none))
            continue;
        std::ifstream file(here.root + path, std::ios::binary);
        std::ostringstream text;
        if (!file.is_open())
            continue; // nor would libibverbs, for this user
        if (file.peek() != std::ifstream::traits_type::eof())
            text << file.rdbuf();
        if (file.bad() || !text)
            throw std::runtime_error("cannot read " + here.root + path);
        all.push_back({path, text.str()});
    }
    return all;
}

const char *name_of(state is) {
    constexpr const char *NAMES[] = {"off", "on", "half", "stale"};
    return NAMES[static_cast<std::size_t>(is)];
}

std::string our_line::place() const {
    return place_of(file, number);
}

setting look_at_setting(const host &here) {
    setting found;
    std::vector<std::string> all, missing, lacking;
    for (const driver_file &file : driver_files(here)) {
        found.soft |= file.is_soft();
        if (file.is_soft() && !file.prefers())
            lacking.push_back(file.path);
        for (const driver_line &line : driver_lines(file.text)) {
            if (!is_ours(line.name))
                continue;
            const std::string plugin = file_of(here, line.name);
            const our_line one = {file.path, line.number, plugin, here.exists(plugin)};
            all.push_back(one.place());
            if (!one.there)
                missing.push_back(one.place() + " wants " + plugin);
            found.lines.push_back(one);
        }
    }
    if (all.empty()) {
        found.words = found.soft ? "no file of /etc/libibverbs.d names coherdma."
                                 : "no file of /etc/libibverbs.d names a driver of soft devices.";
    } else if (!missing.empty()) {
        found.is = state::STALE;
        found.words = "there is no such plugin: " + joined(missing) + ".";
    } else if (!lacking.empty()) {
        found.is = state::HALF;
        found.words = "the order of the folder decides, because coherdma is not named below the "
                      "soft driver in " +
                      joined(lacking) + ".";
    } else {
        found.is = state::ON;
        found.words = "by " + joined(all) + ".";
    }
    return found;
}

const char *mends(state is) {
    if (is == state::HALF)
        return "coherdma enable";
    return is == state::STALE ? "coherdma disable" : nullptr;
}

reason why_served(const host &here, const doctor::opened &device) {
    if (device.preloaded)
        return {reason::PRELOADED, "having been loaded first (LD_PRELOAD)"};
    const wish wanted = wish_of(here);
    for (const std::string &name : wanted.names) {
        if (same_file(here, file_of(here, name), device.plugin))
            return {reason::ENVIRONMENT, wanted.variable + "=" + wanted.value};
    }
    const std::vector<std::string> lines = lines_for(here, device.plugin);
    return lines.empty() ? reason{} : reason{reason::SYSTEM, joined(lines)};
}

const char *name_of(decltype(reason::by) by) {
    constexpr const char *NAMES[] = {"unknown", "preloaded", "environment", "system"};
    return NAMES[by];
}

bool overridden(const setting &system, const doctor::opened &device, const reason &why) {
    return system.is == state::ON && is_soft(name_of_file(device.plugin)) &&
           (why.by == reason::PRELOADED || why.by == reason::ENVIRONMENT);
}

bool declined(const setting &system, const doctor::opened &device, const reason &why) {
    return system.is == state::ON && is_soft(name_of_file(device.plugin)) &&
           why.by == reason::SYSTEM;
}

bool is_our_plugin(const std::string &file) {
    return is_ours(name_of_file(file));
}

} // namespace tools::selection
