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
constexpr const char *COHERENT_VARIABLE = "COHERDMA_COHERENT";
constexpr std::size_t MAX_FILE_SIZE = 65536;
constexpr std::size_t MAX_PATTERN_LENGTH = 128;
constexpr std::string_view BLANKS = " \t\r";

std::string_view trim(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(BLANKS);
    if (begin == std::string_view::npos)
        return {};
    return text.substr(begin, text.find_last_not_of(BLANKS) - begin + 1);
}

// For messages: without control characters, and shortened.
std::string quote(std::string_view text) {
    std::string printable(text.substr(0, 40));
    for (char &c : printable) {
        if (c < ' ' || c > '~')
            c = '?';
    }
    return "'" + printable + (text.size() > 40 ? "...'" : "'");
}

/// Keeps the first problem. source: the file and line, or the variable.
void set_problem(settings &settings, const std::string &source, const std::string &problem) {
    if (!settings.problem.empty())
        return;
    settings.problem = source + ": " + problem;
    settings.error = EINVAL;
}

// Whether coherdma.conf allows it in brackets: mlx5_*, driver:mlx5.
bool is_valid_pattern(std::string_view text) {
    if (text.empty() || text.size() > MAX_PATTERN_LENGTH || text == "driver:")
        return false;
    for (const char c : text) {
        if (c <= ' ' || c > '~' || c == '/')
            return false;
    }
    return true;
}

bool parse_coherent_setting(std::string_view text, coherent_setting &value) {
    if (text == "auto")
        value = coherent_setting::automatic;
    else if (text == "yes")
        value = coherent_setting::yes;
    else if (text == "no")
        value = coherent_setting::no;
    else
        return false;
    return true;
}

/// Checks the pattern and the value and adds a statement, or sets the problem. source: for
/// messages.
void add_statement(settings &settings, std::string_view pattern, key key, std::string_view value,
                   const std::string &source) {
    statement statement;
    statement.pattern = pattern;
    statement.key = key;
    statement.source = source;
    if (!is_valid_pattern(pattern))
        set_problem(settings, source, quote(pattern) + " is not a device name pattern");
    else if (key == key::coherent && !parse_coherent_setting(value, statement.coherent))
        set_problem(settings, source, quote(value) + " is not yes, no or auto");
    else if (key == key::emulate && !parse_emulation_mode(value, statement.emulate))
        set_problem(settings, source,
                    quote(value) + " is not stale, poison, evict:SEED, passthrough or off");
    else
        settings.statements.push_back(statement);
}

// section: the pattern of the last line [PATTERN]; "" if there was none. The line is not empty.
void parse_line(std::string_view line, const std::string &source, std::string &section,
                settings &settings) {
    if (line.front() == '[') {
        section = line.back() == ']' ? trim(line.substr(1, line.size() - 2)) : "";
        if (!is_valid_pattern(section))
            set_problem(settings, source,
                        quote(line) + " should be a device name pattern in brackets, as [mlx5_*]");
        return;
    }
    const std::size_t equals = line.find('=');
    const std::string_view name =
        equals == std::string_view::npos ? "" : trim(line.substr(0, equals));
    if (name != "coherent" && name != "emulate")
        set_problem(settings, source,
                    quote(line) +
                        " should be [PATTERN], coherent = yes, no or auto, or emulate = MODE");
    else if (section.empty())
        set_problem(settings, source, "no device pattern; put a line like [mlx5_*] above");
    else
        add_statement(settings, section, name == "coherent" ? key::coherent : key::emulate,
                      trim(line.substr(equals + 1)), source);
}

} // namespace

/// text: "stale", "poison", "evict", "evict:SEED", "passthrough" or "off". Returns false for
/// others.
bool parse_emulation_mode(std::string_view text, emulation_mode &mode) {
    constexpr std::string_view EVICT_PREFIX = "evict:";
    emulation_mode parsed;
    if (text.substr(0, EVICT_PREFIX.size()) == EVICT_PREFIX) {
        const char *const end = text.data() + text.size();
        const auto [parsed_end, error] =
            std::from_chars(text.data() + EVICT_PREFIX.size(), end, parsed.seed);
        if (error != std::errc{} || parsed_end != end)
            return false;
        text = "evict";
    } else if (text == "evict") {
        parsed.seed = 1;
    } else if (text != "stale" && text != "poison" && text != "passthrough" && text != "off") {
        return false;
    }
    parsed.name = text;
    mode = parsed;
    return true;
}

/// Appends the statements of a configuration file, up to the first error. name is for messages.
void parse_file(std::string_view text, const std::string &name, settings &settings) {
    std::string section;
    for (std::size_t number = 1; !text.empty() && settings.problem.empty(); ++number) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        line = trim(line.substr(0, line.find('#')));
        if (!line.empty())
            parse_line(line, name + ":" + std::to_string(number), section, settings);
    }
}

/// text: the value of COHERDMA_COHERENT: VALUE, or PATTERN=VALUE, separated by commas. Each becomes
/// a statement of the settings.
void parse_variable(std::string_view text, settings &settings) {
    text = trim(text);
    while (!text.empty() && settings.problem.empty()) {
        const std::size_t end = std::min(text.find(','), text.size());
        const std::string_view item = trim(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
        const std::size_t equals = item.find('=');
        if (equals == std::string_view::npos)
            add_statement(settings, "*", key::coherent, item, COHERENT_VARIABLE);
        else
            add_statement(settings, trim(item.substr(0, equals)), key::coherent,
                          trim(item.substr(equals + 1)), COHERENT_VARIABLE);
    }
}

/// Reads the system's coherdma.conf, which may be missing, or the file that COHERDMA_CONFIG names.
settings read_configuration() {
    settings settings;
    const char *user_file = secure_getenv("COHERDMA_CONFIG");
    const bool is_user_file = user_file && *user_file;
    const std::string file = is_user_file ? user_file : SYSTEM_FILE;
    if (const auto text = read_file(file, MAX_FILE_SIZE + 1)) {
        if (text->size() > MAX_FILE_SIZE)
            set_problem(settings, file, "larger than 64 KiB");
        else
            parse_file(*text, file, settings);
    } else if (is_user_file ||
               (errno != ENOENT && errno != ENOTDIR)) { // the system's may be missing
        settings.error = errno;
        settings.problem = "cannot read " + file + ": " + std::strerror(errno);
    }
    return settings;
}

settings read_settings() {
    settings settings = read_configuration();
    if (const char *variable = secure_getenv(COHERENT_VARIABLE))
        parse_variable(variable, settings);
    return settings;
}

/// The last statement with that key whose pattern matches the device or, after "driver:", its
/// driver.
const statement *find_statement(const settings &settings, const std::string &device,
                                const std::string &driver, key key) {
    constexpr std::string_view DRIVER_PREFIX = "driver:";
    const statement *last_match = nullptr;
    for (const statement &statement : settings.statements) {
        if (statement.key != key)
            continue;
        const bool has_prefix =
            statement.pattern.compare(0, DRIVER_PREFIX.size(), DRIVER_PREFIX) == 0;
        const char *pattern = statement.pattern.c_str() + (has_prefix ? DRIVER_PREFIX.size() : 0);
        if (fnmatch(pattern, (has_prefix ? driver : device).c_str(), 0) == 0)
            last_match = &statement;
    }
    return last_match;
}

} // namespace coherdma::coherency
