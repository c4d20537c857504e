// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <dat2/udat.h>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tools::dat {

/// What a call returned, by its names: "DAT_INVALID_STATE (DAT_INVALID_STATE_EP_CONNECTED)".
std::string words(DAT_RETURN code);

/// "DAT_CONNECTION_EVENT_DISCONNECTED"
std::string event_words(DAT_EVENT_NUMBER number);

/// How a transfer ended: "DAT_DTO_ERR_FLUSHED".
std::string status_words(DAT_DTO_COMPLETION_STATUS status);

/// A call of DAT failed: what was wanted, what DAT said, and what may be tried next.
class error : public std::runtime_error {
  public:
    error(std::string_view wanted, DAT_RETURN returned, std::string_view advice);
    const DAT_RETURN code;
};

/// Throws an error unless the call succeeded.
void check(DAT_RETURN returned, std::string_view wanted, std::string_view advice = {});

} // namespace tools::dat
