// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The table of checks. A check that depends on a failed one is skipped, so that one cause gives one
// failure.

#include "doctor/doctor.hpp"

#include <fmt/core.h>

namespace tools::doctor {
namespace {

// In the order of the report: those of the machine before and after check_devices(), then those of
// each device.
constexpr void (*CHECKS_BEFORE_DEVICES[])(const host &, report &) = {
    check_kernel,
    check_modules,
    check_soft_drivers,
};
constexpr void (*CHECKS_AFTER_DEVICES[])(const host &, report &) = {
    check_rdma_cm,   check_memlock,      check_netns,       check_library,
    check_providers, check_driver_lines, check_environment, check_provider_config,
};
constexpr void (*CHECKS_PER_DEVICE[])(const host &, report &, const std::string &) = {
    check_node, check_open, check_served, check_port, check_gids, check_coherency,
};

/// No check of the device or of the machine has failed. The check "device" fails for a name that
/// the user has typed and no device has, which concerns no other device.
bool is_device_working(const report &results, const std::string &device) {
    for (const check &c : results.checks) {
        if (c.status == check_status::FAIL && (c.device == device || c.device.empty()) &&
            c.id != "device")
            return false;
    }
    return true;
}

} // namespace

check &report::add(std::string id, std::string title, std::string device) {
    check &c = checks.emplace_back();
    c.id = std::move(id);
    c.title = std::move(title);
    c.device = std::move(device);
    return c;
}

const check *report::find(std::string_view id, std::string_view device) const {
    for (const check &c : checks) {
        if (c.id == id && c.device == device)
            return &c;
    }
    return nullptr;
}

bool report::has_failed(std::string_view id, std::string_view device) const {
    const check *c = find(id, device);
    return c && c->status == check_status::FAIL;
}

bool report::has_any_failed() const {
    for (const check &c : checks) {
        if (c.status == check_status::FAIL)
            return true;
    }
    return false;
}

/// Runs all checks. names: of the devices to check; empty for all.
report examine(const host &machine, const std::vector<std::string> &names) {
    report results;
    for (const auto run_check : CHECKS_BEFORE_DEVICES)
        run_check(machine, results);
    check_devices(machine, results, names);
    for (const auto run_check : CHECKS_AFTER_DEVICES)
        run_check(machine, results);
    for (const std::string &device : results.checked_devices) {
        for (const auto run_check : CHECKS_PER_DEVICE)
            run_check(machine, results, device);
        if (is_device_working(results, device))
            results.working_devices.push_back(device);
    }
    return results;
}

std::string join_names(const std::vector<std::string> &names, std::size_t max_names) {
    std::string text;
    for (std::size_t i = 0; i < names.size() && i < max_names; ++i)
        text += (i > 0 ? ", " : "") + names[i];
    if (names.size() > max_names)
        text += fmt::format(" and {} more", names.size() - max_names);
    return text;
}

} // namespace tools::doctor
