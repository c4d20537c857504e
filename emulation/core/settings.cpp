// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "settings.hpp"

#include "coherency/config.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <sys/auxv.h>

namespace coherdma::emulation {
namespace {

constexpr std::array ALL_MODES = {cache_mode::OFF, cache_mode::STALE, cache_mode::POISON,
                                  cache_mode::EVICT, cache_mode::PASSTHROUGH};

/// Keeps the first problem: why the value of a variable is invalid.
void set_problem(settings &config, const std::string &variable, std::string_view value,
                 const std::string &reason) {
    if (!config.problem.empty())
        return;
    std::string printable(value.substr(0, 40));
    for (char &c : printable)
        if (c < ' ' || c > '~')
            c = '?';
    config.problem = variable + ": '" + printable + (value.size() > 40 ? "...' " : "' ") + reason;
}

/// "" if it is not set, or in a setuid program.
std::string get_variable(const char *name) {
    const char *const value = secure_getenv(name);
    return value != nullptr ? value : "";
}

bool parse_number(std::string_view text, std::size_t &number) {
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc{} && rest == text.data() + text.size();
}

/// The variables that are numbers.
void read_numbers(settings &config) {
    if (const std::string value = get_variable("COHERDMA_EMULATE_LINE"); !value.empty())
        if (!parse_number(value, config.line_size) ||
            (config.line_size != 32 && config.line_size != 64 && config.line_size != 128 &&
             config.line_size != 256))
            set_problem(config, "COHERDMA_EMULATE_LINE", value, "is not 32, 64, 128 or 256");
    if (const std::string value = get_variable("COHERDMA_EMULATE_LIMIT"); !value.empty())
        if (!parse_number(value, config.max_reports))
            set_problem(config, "COHERDMA_EMULATE_LIMIT", value, "is not a number of findings");
    if (const std::string value = get_variable("COHERDMA_EMULATE_EXIT"); !value.empty()) {
        std::size_t status = 0;
        if (!parse_number(value, status) || status < 1 || status > 255)
            set_problem(config, "COHERDMA_EMULATE_EXIT", value, "is not a status from 1 to 255");
        else
            config.exit_status = static_cast<int>(status);
    }
}

/// COHERDMA_EMULATE_OPTIONS: a list separated by commas.
void read_options(settings &config) {
    const std::string value = get_variable("COHERDMA_EMULATE_OPTIONS");
    for (std::string_view rest = value; !rest.empty();) {
        const std::string_view option = rest.substr(0, rest.find(','));
        rest.remove_prefix(std::min(option.size() + 1, rest.size()));
        if (option == "redundant")
            config.report_redundant = true;
        else if (option == "strict")
            config.strict = true;
        else if (option == "certain")
            config.only_certain = true;
        else if (option == "nostacks")
            config.stack_traces = false;
        else if (option == "nomarks")
            config.checker_marks = false;
        else if (option == "linux-pre-7.0-dereg")
            config.dereg_discards = true;
        else
            set_problem(config, "COHERDMA_EMULATE_OPTIONS", option,
                        "is not redundant, strict, certain, nostacks, nomarks or "
                        "linux-pre-7.0-dereg");
    }
}

void read_local_buffers(settings &config) {
    const std::string value = get_variable("COHERDMA_EMULATE_LOCAL_BUFFERS");
    config.program_syncs_local = value == "program";
    if (!value.empty() && value != "program" && value != "provider")
        set_problem(config, "COHERDMA_EMULATE_LOCAL_BUFFERS", value, "is not provider or program");
}

void set_mode(settings &config, const coherency::emulation_mode &parsed) {
    for (const cache_mode mode : ALL_MODES)
        if (parsed.name == mode_name(mode))
            config.mode = mode;
    config.seed = parsed.seed;
}

} // namespace

const char *mode_name(cache_mode mode) noexcept {
    switch (mode) {
    case cache_mode::OFF:
        return "off";
    case cache_mode::STALE:
        return "stale";
    case cache_mode::POISON:
        return "poison";
    case cache_mode::EVICT:
        return "evict";
    case cache_mode::PASSTHROUGH:
        return "passthrough";
    }
    return "?";
}

std::string mode_text(const settings &config) {
    const std::string name = mode_name(config.mode);
    return config.mode == cache_mode::EVICT ? name + ":" + std::to_string(config.seed) : name;
}

bool parse_mode(const std::string &text, settings &config) {
    coherency::emulation_mode parsed;
    if (!coherency::parse_emulation_mode(text, parsed))
        return false;
    set_mode(config, parsed);
    return true;
}

bool may_be_requested() {
    if (getauxval(AT_SECURE) != 0)
        return false;
    if (const std::string value = get_variable("COHERDMA_EMULATE"); !value.empty())
        return value != mode_name(cache_mode::OFF);
    const coherency::settings file = coherency::read_configuration();
    return !file.problem.empty() ||
           std::any_of(file.statements.begin(), file.statements.end(), [](const auto &statement) {
               return statement.key == coherency::key::emulate;
           });
}

/// Of a device: the mode from the environment, else from coherdma.conf; all else from the
/// environment.
settings read_settings(const std::string &device_name, const std::string &driver) {
    settings config;
    if (getauxval(AT_SECURE) != 0)
        return config;
    if (const std::string value = get_variable("COHERDMA_EMULATE"); !value.empty()) {
        if (!parse_mode(value, config))
            set_problem(config, "COHERDMA_EMULATE", value,
                        "is not stale, poison, evict:SEED, passthrough or off");
    } else {
        const coherency::settings file = coherency::read_configuration();
        config.problem = file.problem;
        if (const auto *const statement =
                coherency::find_statement(file, device_name, driver, coherency::key::emulate))
            set_mode(config, statement->emulate);
    }
    if (config.mode == cache_mode::OFF || !config.problem.empty())
        return config;
    read_numbers(config);
    read_options(config);
    read_local_buffers(config);
    config.log_file = get_variable("COHERDMA_EMULATE_LOG");
    config.suppressions_file = get_variable("COHERDMA_EMULATE_SUPPRESS");
    return config;
}

} // namespace coherdma::emulation
