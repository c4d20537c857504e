// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Limits that are lower than the device's: the program learns them from ibv_query_device(), and
// what exceeds them fails, as on a device that has them.
#pragma once

#include "interposer/observer.hpp"
#include "scenario.hpp"

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace coherdma::faults {

/// The names of the members of ibv_device_attr that a scenario can lower.
std::vector<std::string> all_limit_names();
bool is_limit(std::string_view name) noexcept;

/// Thread-safe.
class device_limits {
  public:
    /// A call that exceeds a limit: why, and the errno that it fails with.
    struct refusal {
        const fault *cause = nullptr; ///< nullptr: no limit is exceeded
        int error = 0;
        std::uint64_t asked = 0;
    };

    /// Faults of another kind are left out.
    explicit device_limits(const std::vector<fault> &scenario);

    /// Lowers what the device has told. Returns the faults by which it does.
    std::vector<const fault *> lower(ibv_device_attr &) const;
    /// A queue, or memory, is to be created.
    refusal check(const interposer::queue_request &);
    refusal check(const interposer::registration &);
    /// One exists, or no longer.
    void add(interposer::object_kind);
    void remove(interposer::object_kind);

  private:
    refusal check_count(interposer::object_kind);
    [[nodiscard]] refusal check_value(std::string_view limit, std::uint64_t asked) const;

    std::vector<const fault *> limits_;
    std::mutex mutex_;
    std::map<interposer::object_kind, std::uint64_t> counts_;
};

} // namespace coherdma::faults
