// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The checks in their order. A check that waits for another says so and is skipped, so one cause
// gives one failure.

#include "doctor/doctor.hpp"

#include <fmt/format.h>

namespace tools::doctor {
namespace {

constexpr void (*BEFORE_DEVICES[])(const host &, report &) = {
    check_kernel,
    check_modules,
    check_soft_drivers,
};
constexpr void (*AFTER_DEVICES[])(const host &, report &) = {
    check_rdma_cm,   check_memlock,      check_netns,       check_library,
    check_providers, check_driver_lines, check_environment, check_selection,
};
constexpr void (*OF_A_DEVICE[])(const host &, report &, const std::string &) = {
    check_node, check_opens, check_served, check_port, check_gids, check_coherency,
};

bool works(const report &all, const std::string &device) {
    for (const check &each : all.checks) {
        if (each.is == state::FAIL && (each.device == device || each.device.empty()) &&
            each.id != "device")
            return false;
    }
    return true;
}

} // namespace

check &report::add(std::string id, std::string title, std::string device) {
    check &added = checks.emplace_back();
    added.id = std::move(id);
    added.title = std::move(title);
    added.device = std::move(device);
    return added;
}

const check *report::find(std::string_view id, std::string_view device) const {
    for (const check &each : checks) {
        if (each.id == id && each.device == device)
            return &each;
    }
    return nullptr;
}

bool report::failed(std::string_view id, std::string_view device) const {
    const check *found = find(id, device);
    return found && found->is == state::FAIL;
}

bool report::any_failed() const {
    for (const check &each : checks) {
        if (each.is == state::FAIL)
            return true;
    }
    return false;
}

report examine(const host &here, const std::vector<std::string> &wanted) {
    report all;
    for (const auto run : BEFORE_DEVICES)
        run(here, all);
    check_devices(here, all, wanted);
    for (const auto run : AFTER_DEVICES)
        run(here, all);
    for (const std::string &device : all.devices) {
        for (const auto run : OF_A_DEVICE)
            run(here, all, device);
        if (works(all, device))
            all.working.push_back(device);
    }
    return all;
}

std::string listed(const std::vector<std::string> &names, std::size_t most) {
    std::string text;
    for (std::size_t index = 0; index < names.size() && index < most; ++index)
        text += (index ? ", " : "") + names[index];
    if (names.size() > most)
        text += fmt::format(" and {} more", names.size() - most);
    return text;
}

} // namespace tools::doctor
