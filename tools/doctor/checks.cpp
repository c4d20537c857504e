// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The table of checks. A check that depends on a failed one is skipped, so that one cause gives one
// failure.

#include "doctor/doctor.hpp"

#include <fmt/core.h>

namespace tools::doctor {
namespace {

constexpr void (*BEFORE_DEVICES[])(const host &, report &) = {
    check_kernel,
    check_modules,
    check_soft_drivers,
};
constexpr void (*AFTER_DEVICES[])(const host &, report &) = {
    check_rdma_cm,   check_memlock,      check_netns,       check_library,
    check_providers, check_driver_lines, check_environment, check_provider_config,
};
constexpr void (*PER_DEVICE[])(const host &, report &, const std::string &) = {
    check_node, check_open, check_served, check_port, check_gids, check_coherency,
};

bool has_no_failure(const report &results, const std::string &device) {
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

bool report::failed(std::string_view id, std::string_view device) const {
    const check *c = find(id, device);
    return c && c->status == check_status::FAIL;
}

bool report::any_failed() const {
    for (const check &c : checks) {
        if (c.status == check_status::FAIL)
            return true;
    }
    return false;
}

report examine(const host &machine, const std::vector<std::string> &names) {
    report results;
    for (const auto run_check : BEFORE_DEVICES)
        run_check(machine, results);
    check_devices(machine, results, names);
    for (const auto run_check : AFTER_DEVICES)
        run_check(machine, results);
    for (const std::string &device : results.devices) {
        for (const auto run_check : PER_DEVICE)
            run_check(machine, results, device);
        if (has_no_failure(results, device))
            results.working.push_back(device);
    }
    return results;
}

std::string join_names(const std::vector<std::string> &names, std::size_t max) {
    std::string text;
    for (std::size_t i = 0; i < names.size() && i < max; ++i)
        text += (i ? ", " : "") + names[i];
    if (names.size() > max)
        text += fmt::format(" and {} more", names.size() - max);
    return text;
}

} // namespace tools::doctor
