// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "settings.hpp"

#include "reports/text.hpp"

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace coherdma::check {
namespace {

constexpr std::size_t MAX_SHOWN = 40; ///< characters of an invalid value

std::string get_variable(const char *name) {
    const char *const value = secure_getenv(name);
    return value != nullptr ? value : "";
}

/// Keeps the first problem.
void set_problem(settings &config, const char *variable, std::string_view value,
                 const char *reason) {
    if (config.problem.empty())
        config.problem = std::string(variable) + ": '" +
                         reports::printable(value.substr(0, MAX_SHOWN)) + "' " + reason;
}

bool parse_number(std::string_view text, std::size_t &number) {
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc{} && rest == text.data() + text.size();
}

void read_limit(settings &config) {
    constexpr const char *NAME = "COHERDMA_CHECK_LIMIT";
    const std::string value = get_variable(NAME);
    if (!value.empty() && (!parse_number(value, config.max_reports) || config.max_reports == 0))
        set_problem(config, NAME, value, "is not a number of findings, 1 or more");
}

void read_exit_status(settings &config) {
    constexpr const char *NAME = "COHERDMA_CHECK_EXIT";
    constexpr std::size_t MAX_STATUS = 255;
    const std::string value = get_variable(NAME);
    std::size_t status = 0;
    if (value.empty())
        return;
    if (!parse_number(value, status) || status < 1 || status > MAX_STATUS)
        set_problem(config, NAME, value, "is not a status from 1 to 255");
    else
        config.exit_status = static_cast<int>(status);
}

/// "as=efa"; nullptr: it is something else.
const device_limits *find_device(std::string_view option) noexcept {
    constexpr std::string_view PREFIX = "as=";
    return option.starts_with(PREFIX) ? find_limits(option.substr(PREFIX.size())) : nullptr;
}

/// A list separated by commas.
void read_options(settings &config) {
    constexpr const char *NAME = "COHERDMA_CHECK_OPTIONS";
    const std::string value = get_variable(NAME);
    for (std::string_view rest = value; !rest.empty();) {
        const std::string_view option = rest.substr(0, rest.find(','));
        rest.remove_prefix(std::min(option.size() + 1, rest.size()));
        if (option == "leaks")
            config.report_leaks = true;
        else if (option == "ownership")
            config.ownership = true;
        else if (option == "protect")
            config.ownership = config.protect = true;
        else if (option == "late")
            config.ownership = config.late = true;
        else if (option == "nostacks")
            config.post_stacks = false;
        else if (option == "nofill")
            config.fill = false;
        else if (option == "distinctkeys")
            config.distinct_keys = true;
        else if (const device_limits *const limits = find_device(option))
            config.other_devices.push_back(limits);
        else if (!option.empty())
            set_problem(config, NAME, option,
                        "is not leaks, ownership, protect, late, nostacks, nofill, "
                        "distinctkeys, as=mlx5 or as=efa");
    }
}

} // namespace

settings read_settings() {
    settings config;
    read_limit(config);
    read_exit_status(config);
    read_options(config);
    config.log_file = get_variable("COHERDMA_CHECK_LOG");
    config.suppressions_file = get_variable("COHERDMA_CHECK_SUPPRESS");
    return config;
}

} // namespace coherdma::check
