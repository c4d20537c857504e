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

constexpr std::array MODES = {mode::NONE, mode::STALE, mode::POISON, mode::EVICT, mode::THROUGH};

void refuse(settings &all, const std::string &variable, std::string_view value,
            const std::string &what) {
    if (!all.problem.empty())
        return;
    std::string shown(value.substr(0, 40));
    for (char &each : shown)
        if (each < ' ' || each > '~')
            each = '?';
    all.problem = variable + ": '" + shown + (value.size() > 40 ? "...' " : "' ") + what;
}

/// Of the environment; "" if it is not there, or if the program is a setuid one.
std::string variable(const char *name) {
    const char *const value = secure_getenv(name);
    return value != nullptr ? value : "";
}

bool parse_number(std::string_view text, std::size_t &into) {
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), into);
    return error == std::errc{} && rest == text.data() + text.size();
}

void read_numbers(settings &all) {
    if (const std::string value = variable("COHERDMA_EMULATE_LINE"); !value.empty())
        if (!parse_number(value, all.line) ||
            (all.line != 32 && all.line != 64 && all.line != 128 && all.line != 256))
            refuse(all, "COHERDMA_EMULATE_LINE", value, "is not 32, 64, 128 or 256");
    if (const std::string value = variable("COHERDMA_EMULATE_LIMIT"); !value.empty())
        if (!parse_number(value, all.limit))
            refuse(all, "COHERDMA_EMULATE_LIMIT", value, "is not a number of findings");
    if (const std::string value = variable("COHERDMA_EMULATE_EXIT"); !value.empty()) {
        std::size_t status = 0;
        if (!parse_number(value, status) || status < 1 || status > 255)
            refuse(all, "COHERDMA_EMULATE_EXIT", value, "is not a status from 1 to 255");
        else
            all.status = static_cast<int>(status);
    }
}

void read_options(settings &all) {
    const std::string value = variable("COHERDMA_EMULATE_OPTIONS");
    for (std::string_view left = value; !left.empty();) {
        const std::string_view each = left.substr(0, left.find(','));
        left.remove_prefix(std::min(each.size() + 1, left.size()));
        if (each == "redundant")
            all.redundant = true;
        else if (each == "strict")
            all.strict = true;
        else if (each == "nostacks")
            all.stacks = false;
        else if (each == "nomarks")
            all.marks = false;
        else if (each == "linux-pre-7.0-dereg")
            all.discards = true;
        else
            refuse(all, "COHERDMA_EMULATE_OPTIONS", each,
                   "is not redundant, strict, nostacks, nomarks or linux-pre-7.0-dereg");
    }
}

void take(const coherency::play &said, settings &into) {
    for (const mode each : MODES)
        if (said.name == name_of(each))
            into.plays = each;
    into.seed = said.seed;
}

} // namespace

const char *name_of(mode which) noexcept {
    switch (which) {
    case mode::NONE:
        return "off";
    case mode::STALE:
        return "stale";
    case mode::POISON:
        return "poison";
    case mode::EVICT:
        return "evict";
    case mode::THROUGH:
        return "through";
    }
    return "?";
}

bool parse_mode(const std::string &text, settings &into) {
    coherency::play said;
    if (!coherency::understand(text, said))
        return false;
    take(said, into);
    return true;
}

settings read_settings(const std::string &device, const std::string &driver) {
    settings all;
    if (getauxval(AT_SECURE) != 0)
        return all;
    if (const std::string value = variable("COHERDMA_EMULATE"); !value.empty()) {
        if (!parse_mode(value, all))
            refuse(all, "COHERDMA_EMULATE", value,
                   "is not stale, poison, evict:SEED, through or off");
    } else {
        const coherency::settings file = coherency::read_configuration();
        all.problem = file.problem;
        if (const auto *const said =
                coherency::about(file, device, driver, coherency::key::emulate))
            take(said->emulate, all);
    }
    if (all.plays == mode::NONE || !all.problem.empty())
        return all;
    read_numbers(all);
    read_options(all);
    all.log = variable("COHERDMA_EMULATE_LOG");
    all.suppressions = variable("COHERDMA_EMULATE_SUPPRESS");
    return all;
}

} // namespace coherdma::emulation
