// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The administrator's settings for devices: coherdma.conf(5) and the environment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace coherdma::coherency {

/// The value of the key coherent: auto, yes or no.
enum class coherent_setting { automatic, yes, no };

/// The value of the key emulate.
struct emulation_mode {
    std::string name = "off"; ///< "stale", "poison", "evict", "passthrough" or "off"
    std::uint64_t seed = 0;   ///< of evict
};

enum class key { coherent, emulate };

/// A setting for the devices that match a pattern.
struct statement {
    std::string pattern; ///< a shell pattern for device names, or driver:PATTERN
    coherency::key key = key::coherent;
    coherent_setting coherent = coherent_setting::automatic;
    emulation_mode emulate;
    std::string source; ///< "FILE:LINE" or the variable's name
};

struct settings {
    std::vector<statement> statements; ///< later ones override earlier ones
    std::string problem;               ///< the first error as text; "" if none
    int error = 0;                     ///< its errno value
};

/// Appends the statements of a configuration file, up to the first error. name is for messages.
void parse_file(std::string_view text, const std::string &name, settings &settings);

/// The same for the value of COHERDMA_COHERENT: VALUE, or PATTERN=VALUE, separated by commas.
void parse_variable(std::string_view text, settings &settings);

/// Parses "stale", "poison", "evict", "evict:SEED", "passthrough" or "off". Returns false for
/// others.
bool parse_emulation_mode(std::string_view text, emulation_mode &mode);

/// Reads the system's file, or the one that COHERDMA_CONFIG names.
settings read_configuration();

/// read_configuration(), then COHERDMA_COHERENT.
settings read_settings();

/// The last statement with that key that matches the device, or nullptr.
const statement *find_statement(const settings &settings, const std::string &device,
                                const std::string &driver, key key = key::coherent);

} // namespace coherdma::coherency
