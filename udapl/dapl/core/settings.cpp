// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "settings.hpp"

#include "log.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <string_view>
#include <unistd.h>

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

struct ignored_variable {
    std::string_view begin; ///< of its name
    const char *reason;
};
constexpr std::array IGNORED_VARIABLES = {
    ignored_variable{"DAPL_GLOBAL_ROUTING", "rdma_cm decides by the address"},
    ignored_variable{"DAPL_IB_PKEY", "the interface with the IA's address decides"},
    ignored_variable{"DAPL_IB_SL", "the subnet manager decides"},
    ignored_variable{"DAPL_WR_MAX", "the device decides"},
    ignored_variable{"DAPL_DBG_LEVEL", "DAPL_DBG_TYPE selects messages"},
    ignored_variable{"DAPL_MAX_CM_", "the kernel's connection manager decides"},
    ignored_variable{"DAPL_UCM_", "rdma_cm connects"},
    ignored_variable{"DAPL_SCM_", "rdma_cm connects"},
    ignored_variable{"DAPL_MCM_", "rdma_cm connects"},
    ignored_variable{"DAPL_NETWORK_", "rdma_cm connects"},
};

/// Names OFED's variables that are set without an effect.
void log_ignored_variables() noexcept {
    for (char *const *variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
        const std::string_view text = *variable;
        const auto has_begin = [text](const ignored_variable &each) {
            return text.starts_with(each.begin);
        };
        const auto ignored = std::ranges::find_if(IGNORED_VARIABLES, has_begin);
        if (ignored != IGNORED_VARIABLES.end())
            log(log_type::warnings, "%.*s has no effect: %s", static_cast<int>(text.find('=')),
                *variable, ignored->reason);
    }
}

/// The largest MTU that is not greater.
ibv_mtu to_mtu(unsigned bytes) noexcept {
    constexpr int WIDTH_OF_256 = std::bit_width(256U);
    return static_cast<ibv_mtu>(std::bit_width(bytes) - WIDTH_OF_256 + IBV_MTU_256);
}

/// From OFED's environment variables. The numbers are the default, the minimum and the maximum.
settings read_settings() noexcept {
    log_ignored_variables();
    return {
        .max_inline = get_number<std::uint32_t>("DAPL_MAX_INLINE", 64, 0, 4096),
        .ack_retry = get_number<std::uint8_t>("DAPL_ACK_RETRY", 7, 0, 7),
        .rnr_retry = get_number<std::uint8_t>("DAPL_RNR_RETRY", 7, 0, 7),
        .rnr_timer = get_number<std::uint8_t>("DAPL_RNR_TIMER", 12, 1, 31),
        .ack_timer = get_number("DAPL_ACK_TIMER", AS_ROUTE, 0, 31),
        .hop_limit = get_number("DAPL_HOP_LIMIT", AS_ROUTE, 0, 255),
        .traffic_class =
            get_number("DAPL_CM_TOS", get_number("DAPL_TCLASS", AS_ROUTE, 0, 255), 0, 255),
        .max_path_mtu = to_mtu(get_number("DAPL_IB_MTU", 4096U, 256, 4096)),
        .arp_timeout_ms = get_number("DAPL_CM_ARP_TIMEOUT_MS", 4000, 1, 3600000),
        .route_timeout_ms = get_number("DAPL_CM_ROUTE_TIMEOUT_MS", 4000, 1, 3600000),
        .arp_retries = get_number("DAPL_CM_ARP_RETRY_COUNT", 15, 0, 1000),
        .route_retries = get_number("DAPL_CM_ROUTE_RETRY_COUNT", 15, 0, 1000),
    };
}

} // namespace

const settings &get_settings() noexcept {
    static const settings values = read_settings();
    return values;
}

} // namespace coherdma::dapl
