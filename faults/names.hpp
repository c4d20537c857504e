// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What scenarios call calls, errors and statuses.
#pragma once

#include <infiniband/verbs.h>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace coherdma::faults {

struct failing_call {
    const char *name;
    int usual_error; ///< an errno with which it fails when there is no memory, room or device
};

/// Those that can fail, as the interposer names them.
std::span<const failing_call> all_calls() noexcept;
/// nullptr: there is none of this name.
const failing_call *find_call(std::string_view name) noexcept;

/// Of "ENOMEM"; 0: there is none.
int find_errno(std::string_view name);
std::string name_of_errno(int error);

/// Of "retry_exc", IBV_WC_RETRY_EXC_ERR; 0, which is success: there is none.
int find_status(std::string_view name) noexcept;
std::string name_of_status(int status);
std::vector<std::string> all_status_names();

/// Of "port_err", IBV_EVENT_PORT_ERR; no value: there is none.
std::optional<ibv_event_type> find_event(std::string_view name) noexcept;
std::string name_of_event(ibv_event_type);
std::vector<std::string> all_event_names();

} // namespace coherdma::faults
