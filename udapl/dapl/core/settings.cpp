// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "settings.hpp"

#include <cstdlib>

namespace coherdma::dapl::settings {

namespace {

/// A value that is not a number from min to max is ignored.
long get_number(const char *name, long default_value, long min, long max) noexcept {
    const char *const text = secure_getenv(name);
    if (text == nullptr || *text == '\0')
        return default_value;
    char *end = nullptr;
    const long value = std::strtol(text, &end, 0);
    return *end == '\0' && value >= min && value <= max ? value : default_value;
}

} // namespace

std::uint32_t max_inline() noexcept {
    static const auto value =
        static_cast<std::uint32_t>(get_number("DAPL_MAX_INLINE", 64, 0, 4096));
    return value;
}
std::uint8_t ack_retry() noexcept {
    static const auto value = static_cast<std::uint8_t>(get_number("DAPL_ACK_RETRY", 7, 0, 7));
    return value;
}
std::uint8_t rnr_retry() noexcept {
    static const auto value = static_cast<std::uint8_t>(get_number("DAPL_RNR_RETRY", 7, 0, 7));
    return value;
}
std::uint8_t rnr_timer() noexcept {
    static const auto value = static_cast<std::uint8_t>(get_number("DAPL_RNR_TIMER", 12, 1, 31));
    return value;
}
int arp_timeout_ms() noexcept {
    static const auto value =
        static_cast<int>(get_number("DAPL_CM_ARP_TIMEOUT_MS", 4000, 1, 3600000));
    return value;
}
int route_timeout_ms() noexcept {
    static const auto value =
        static_cast<int>(get_number("DAPL_CM_ROUTE_TIMEOUT_MS", 4000, 1, 3600000));
    return value;
}
int arp_retries() noexcept {
    static const auto value = static_cast<int>(get_number("DAPL_CM_ARP_RETRY_COUNT", 15, 0, 1000));
    return value;
}
int route_retries() noexcept {
    static const auto value =
        static_cast<int>(get_number("DAPL_CM_ROUTE_RETRY_COUNT", 15, 0, 1000));
    return value;
}
bool counters() noexcept {
    static const bool value = get_number("COHERDMA_COUNTERS", 0, 0, 1) != 0;
    return value;
}

} // namespace coherdma::dapl::settings
