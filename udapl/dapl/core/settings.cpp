// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "settings.hpp"

#include <cstdlib>

namespace coherdma::dapl {

namespace {

/// A value that is not a number from min to max is ignored.
template <class number>
number get_number(const char *name, number default_value, long min, long max) noexcept {
    const char *const text = secure_getenv(name);
    if (text == nullptr || *text == '\0')
        return default_value;
    char *end = nullptr;
    const long value = std::strtol(text, &end, 0);
    return *end == '\0' && value >= min && value <= max ? static_cast<number>(value)
                                                        : default_value;
}

} // namespace

/// From OFED's environment variables and COHERDMA_COUNTERS, read at the first call. The numbers are
/// the default, the minimum and the maximum.
const settings &get_settings() noexcept {
    static const settings values = {
        .max_inline = get_number<std::uint32_t>("DAPL_MAX_INLINE", 64, 0, 4096),
        .ack_retry = get_number<std::uint8_t>("DAPL_ACK_RETRY", 7, 0, 7),
        .rnr_retry = get_number<std::uint8_t>("DAPL_RNR_RETRY", 7, 0, 7),
        .rnr_timer = get_number<std::uint8_t>("DAPL_RNR_TIMER", 12, 1, 31),
        .arp_timeout_ms = get_number("DAPL_CM_ARP_TIMEOUT_MS", 4000, 1, 3600000),
        .route_timeout_ms = get_number("DAPL_CM_ROUTE_TIMEOUT_MS", 4000, 1, 3600000),
        .arp_retries = get_number("DAPL_CM_ARP_RETRY_COUNT", 15, 0, 1000),
        .route_retries = get_number("DAPL_CM_ROUTE_RETRY_COUNT", 15, 0, 1000),
        .counters = get_number("COHERDMA_COUNTERS", 0, 0, 1) != 0,
    };
    return values;
}

} // namespace coherdma::dapl
