// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the administrator says of devices: coherdma.conf(5), and the environment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace coherdma::coherency {

enum class word { automatic, yes, no };

/// What is to be played of a device: "stale", "poison", "evict", "through", or "off".
struct play {
    std::string name = "off";
    std::uint64_t seed = 0; ///< of evict
};

enum class key { coherent, emulate };

struct statement {
    std::string pattern; ///< of shells, for the device's name; or driver:PATTERN
    key of = key::coherent;
    word coherent = word::automatic;
    play emulate;
    std::string source; ///< "FILE:LINE" or the variable's name
};

/// Later statements win over earlier ones.
struct settings {
    std::vector<statement> said;
    std::string problem; ///< what is wrong, in words; "" if nothing is
    int error = 0;       ///< and its errno
};

/// The text of a configuration file; name is for messages.
void parse_file(std::string_view text, const std::string &name, settings &into);

/// The value of COHERDMA_COHERENT: VALUE, or PATTERN=VALUE with commas between.
void parse_variable(std::string_view text, settings &into);

/// "stale", "poison", "evict", "evict:SEED", "through" or "off"; false: none of these.
bool understand(std::string_view text, play &into);

/// The system's file, or the one that COHERDMA_CONFIG names.
settings read_configuration();

/// The same, and then the environment.
settings read_settings();

/// The last statement of that key that is about the device; nullptr if there is none.
const statement *about(const settings &all, const std::string &device, const std::string &driver,
                       key of = key::coherent);

} // namespace coherdma::coherency
