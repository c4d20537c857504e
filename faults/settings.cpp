// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "settings.hpp"

#include "reports/text.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace coherdma::faults {
namespace {

std::string get_variable(const char *name) {
    const char *const value = secure_getenv(name);
    return value != nullptr ? value : "";
}

void read_seed(settings &config) {
    const std::string value = get_variable("COHERDMA_FAULT_SEED");
    const char *const end = value.data() + value.size();
    const auto [rest, error] = std::from_chars(value.data(), end, config.seed);
    if (!value.empty() && (error != std::errc{} || rest != end))
        config.problem = "COHERDMA_FAULT_SEED: '" + reports::printable(value) + "' is no number\n";
}

void read_options(settings &config) {
    const std::string value = get_variable("COHERDMA_FAULT_OPTIONS");
    config.records_calls = value == "calls";
    if (!value.empty() && !config.records_calls)
        config.problem =
            "COHERDMA_FAULT_OPTIONS: '" + reports::printable(value) + "' is not calls\n";
}

void read_scenario(settings &config) {
    const std::string text = get_variable("COHERDMA_FAULTS");
    if (text.empty())
        return;
    try {
        config.faults = parse_scenario(text);
        const auto of_machine =
            std::find_if(config.faults.begin(), config.faults.end(),
                         [](const fault &each) { return each.is_of_machine(); });
        if (of_machine != config.faults.end() && get_variable("COHERDMA_FAULT_LOG").empty())
            config.problem = "COHERDMA_FAULTS: only coherdma fault can do this: '" +
                             reports::printable(of_machine->text) + "'\n";
    } catch (const scenario_error &error) {
        config.problem =
            "COHERDMA_FAULTS: " + std::string(error.what()) + "\n" + point_at(error, text);
    }
}

} // namespace

settings read_settings() {
    settings config;
    read_seed(config);
    read_options(config);
    read_scenario(config);
    config.program = get_variable("COHERDMA_FAULT_PROGRAM");
    config.log_file = get_variable("COHERDMA_FAULT_LOG");
    return config;
}

} // namespace coherdma::faults
