// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Checks whether the system prefers coherdma's provider, and which one serves a device.

#include "doctor/doctor.hpp"
#include "provider_config/system_setting.hpp"

#include <fmt/core.h>

namespace tools::doctor {

/// Whether libibverbs is set up to load coherdma's provider (coherdma enable).
void check_provider_config(const host &machine, report &results) {
    check &c = results.add("selection", "coherdma's provider");
    const provider_config::system_setting setting = provider_config::query_setting(machine);
    const std::string evidence = fmt::format("{}: {}", name_of(setting.state), setting.description);
    if (results.has_failed("libibverbs"))
        c.skip("requires libibverbs.");
    else if (const char *fix = provider_config::fix_command(setting.state))
        c.warn(evidence, NO_ADVICE, machine.with_sudo(fix));
    else if (const auto exposed = setting.exposed())
        c.warn(fmt::format("{} Users other than root can change the plugin: {}.", evidence,
                           exposed->description()),
               "Programs of all users load it.", machine.with_sudo(exposed->fix));
    else
        c.ok(evidence);
}

/// Which provider serves the device, and whether coherdma's was tried first but declined it.
void check_served(const host &machine, report &results, const std::string &device) {
    check &c = results.add("served", "provider", device);
    const check *open_check = results.find("open", device);
    if (!open_check || open_check->status != check_status::OK) {
        c.skip("requires that libibverbs can open it.");
        return;
    }
    const open_result opened = machine.open_device(device);
    const provider_config::load_reason reason = provider_config::find_load_reason(machine, opened);
    std::string evidence = opened.plugin.empty() ? "its path is unknown" : opened.plugin;
    if (!reason.description.empty())
        evidence += ", by " + reason.description;
    if (has_coherdma_declined(provider_config::query_setting(machine), opened, reason))
        c.warn(evidence + "; coherdma's plugin was tried first, but declined it.",
               "It may log the reason.",
               "VERBS_LOG_LEVEL=3 VERBS_LOG_FILE=/dev/stderr ibv_devinfo -d " + device);
    else
        c.ok(evidence + ".");
}

} // namespace tools::doctor
