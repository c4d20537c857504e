// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "config.hpp"
#include "files.hpp"

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fnmatch.h>

#ifndef COHERDMA_SYSCONFDIR
#    define COHERDMA_SYSCONFDIR "/etc"
#endif

namespace coherdma::coherency {
namespace {

constexpr const char *SYSTEM_FILE = COHERDMA_SYSCONFDIR "/coherdma.conf";
constexpr const char *VARIABLE = "COHERDMA_COHERENT";
constexpr std::size_t LARGEST_FILE = 65536;
constexpr std::size_t LONGEST_PATTERN = 128;
constexpr std::string_view BLANKS = " \t\r";

std::string_view trimmed(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(BLANKS);
    if (begin == std::string_view::npos)
        return {};
    return text.substr(begin, text.find_last_not_of(BLANKS) - begin + 1);
}

// For messages: nothing that moves a terminal's cursor, and not a page of it.
std::string shown(std::string_view text) {
    std::string safe(text.substr(0, 40));
    for (char &each : safe) {
        if (each < ' ' || each > '~')
            each = '?';
    }
    return "'" + safe + (text.size() > 40 ? "...'" : "'");
}

void refuse(settings &all, const std::string &where, const std::string &what) {
    if (!all.problem.empty())
        return;
    all.problem = where + ": " + what;
    all.error = EINVAL;
}

bool is_pattern(std::string_view text) {
    if (text.empty() || text.size() > LONGEST_PATTERN || text == "driver:")
        return false;
    for (const char each : text) {
        if (each <= ' ' || each > '~' || each == '/')
            return false;
    }
    return true;
}

bool understand(std::string_view text, word &value) {
    if (text == "auto")
        value = word::automatic;
    else if (text == "yes")
        value = word::yes;
    else if (text == "no")
        value = word::no;
    else
        return false;
    return true;
}

void state(settings &all, std::string_view pattern, key of, std::string_view value,
           const std::string &where) {
    statement next;
    next.pattern = pattern;
    next.of = of;
    next.source = where;
    if (!is_pattern(pattern))
        refuse(all, where, shown(pattern) + " is no pattern for device names");
    else if (of == key::coherent && !understand(value, next.coherent))
        refuse(all, where, shown(value) + " is not yes, no or auto");
    else if (of == key::emulate && !understand(value, next.emulate))
        refuse(all, where, shown(value) + " is not stale, poison, evict:SEED, through or off");
    else
        all.said.push_back(next);
}

void understand_line(std::string_view line, const std::string &where, std::string &section,
                     settings &all) {
    if (line.front() == '[') {
        section = line.back() == ']' ? trimmed(line.substr(1, line.size() - 2)) : "";
        if (!is_pattern(section))
            refuse(all, where, shown(line) + " should be a pattern for device names, as [mlx5_*]");
        return;
    }
    const std::size_t equals = line.find('=');
    const std::string_view name =
        equals == std::string_view::npos ? "" : trimmed(line.substr(0, equals));
    if (name != "coherent" && name != "emulate")
        refuse(all, where,
               shown(line) + " should be [PATTERN], coherent = yes, no or auto, or emulate = MODE");
    else if (section.empty())
        refuse(all, where, "it is not said of which device; put a line like [mlx5_*] above");
    else
        state(all, section, name == "coherent" ? key::coherent : key::emulate,
              trimmed(line.substr(equals + 1)), where);
}

} // namespace

bool understand(std::string_view text, play &into) {
    constexpr std::string_view SEEDED = "evict:";
    play next;
    if (text.substr(0, SEEDED.size()) == SEEDED) {
        const char *const end = text.data() + text.size();
        const auto [rest, error] = std::from_chars(text.data() + SEEDED.size(), end, next.seed);
        if (error != std::errc{} || rest != end)
            return false;
        text = "evict";
    } else if (text == "evict") {
        next.seed = 1;
    } else if (text != "stale" && text != "poison" && text != "through" && text != "off") {
        return false;
    }
    next.name = text;
    into = next;
    return true;
}

void parse_file(std::string_view text, const std::string &name, settings &into) {
    std::string section;
    for (std::size_t number = 1; !text.empty() && into.problem.empty(); ++number) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        line = trimmed(line.substr(0, line.find('#')));
        if (!line.empty())
            understand_line(line, name + ":" + std::to_string(number), section, into);
    }
}

void parse_variable(std::string_view text, settings &into) {
    text = trimmed(text);
    while (!text.empty() && into.problem.empty()) {
        const std::size_t end = std::min(text.find(','), text.size());
        const std::string_view part = trimmed(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
        const std::size_t equals = part.find('=');
        if (equals == std::string_view::npos)
            state(into, "*", key::coherent, part, VARIABLE);
        else
            state(into, trimmed(part.substr(0, equals)), key::coherent,
                  trimmed(part.substr(equals + 1)), VARIABLE);
    }
}

settings read_configuration() {
    settings all;
    const char *named = secure_getenv("COHERDMA_CONFIG");
    const std::string file = named && *named ? named : SYSTEM_FILE;
    if (const auto text = read_file(file, LARGEST_FILE + 1)) {
        if (text->size() > LARGEST_FILE)
            refuse(all, file, "larger than a configuration file may be (64 KiB)");
        else
            parse_file(*text, file, all);
    } else if ((named && *named) || (errno != ENOENT && errno != ENOTDIR)) {
        all.error = errno;
        all.problem = "cannot read " + file + ": " + std::strerror(errno);
    }
    return all;
}

settings read_settings() {
    settings all = read_configuration();
    if (const char *variable = secure_getenv(VARIABLE))
        parse_variable(variable, all);
    return all;
}

const statement *about(const settings &all, const std::string &device, const std::string &driver,
                       key of) {
    constexpr std::string_view BY_DRIVER = "driver:";
    const statement *last = nullptr;
    for (const statement &each : all.said) {
        if (each.of != of)
            continue;
        const bool by_driver = each.pattern.compare(0, BY_DRIVER.size(), BY_DRIVER) == 0;
        const char *pattern = each.pattern.c_str() + (by_driver ? BY_DRIVER.size() : 0);
        if (fnmatch(pattern, (by_driver ? driver : device).c_str(), 0) == 0)
            last = &each;
    }
    return last;
}

} // namespace coherdma::coherency
