// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The kinds of findings, for the observer and for the coherdma command. The names are stable: logs
// and suppressions have them.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace coherdma::check {

enum class finding_level : unsigned char {
    ERROR,   ///< breaks the rules of verbs, or loses data on some device
    WARNING, ///< may do so
};

enum class finding_kind : unsigned char {
    USE_AFTER_DESTROY,
    DESTROY_WHILE_OUTSTANDING,
    DEREG_WHILE_OUTSTANDING,
    MEMORY_FREED,
    CQ_OVERFLOW,
    SEND_QUEUE_STUCK,
    POST_DROPPED,
    ERROR_IGNORED,
    SHORT_POLL,
    ENDLESS_WAIT,
    MISSED_COMPLETION,
    UNACKNOWLEDGED_EVENT,
    LOCAL_KEY,
    LOCAL_RANGE,
    LOCAL_ACCESS,
    LOCAL_PD,
    SOURCE_CHANGED,
    EARLY_ACCESS,
    OVERLAP,
    REMOTE_KEY,
    REMOTE_RANGE,
    REMOTE_ACCESS,
    REMOTE_PD,
    THREAD_DOMAIN,
    USED_AFTER_FORK,
    FORK_UNSAFE,
    DEVICE_LIMIT,
    UNINITIALIZED_SOURCE,
    LEAKED,
};
inline constexpr std::size_t NUM_KINDS = 29;

inline constexpr std::array<finding_kind, NUM_KINDS> ALL_KINDS = [] {
    std::array<finding_kind, NUM_KINDS> kinds{};
    for (std::size_t i = 0; i < NUM_KINDS; ++i)
        kinds[i] = static_cast<finding_kind>(i);
    return kinds;
}();

/// Plain text, without line breaks.
struct kind_description {
    const char *name; ///< "cq-overflow"
    finding_level level;
    const char *summary; ///< part of a sentence, without a full stop
    const char *why;     ///< why it is wrong, with the source of the rule
    const char *fix;     ///< what to do
};

const kind_description &describe(finding_kind) noexcept;

/// By its name.
std::optional<finding_kind> parse_kind(std::string_view name) noexcept;

/// "error", "warning"
const char *level_name(finding_level) noexcept;

} // namespace coherdma::check
