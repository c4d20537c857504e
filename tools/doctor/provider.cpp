// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Whether the system prefers coherdma's provider for soft devices, and which one serves a device.

#include "doctor/doctor.hpp"
#include "selection/setting.hpp"

#include <fmt/format.h>

namespace tools::doctor {

void check_selection(const host &here, report &all) {
    check &found = all.add("selection", "coherdma's provider");
    const selection::setting system = selection::look_at_setting(here);
    const std::string seen = fmt::format("{}: {}", name_of(system.is), system.words);
    if (all.failed("libibverbs"))
        found.skip("waits for libibverbs.");
    else if (const char *mend = selection::mends(system.is))
        found.warn(seen, "", here.as_root(mend));
    else
        found.ok(seen);
}

void check_served(const host &here, report &all, const std::string &device) {
    check &found = all.add("served", "provider", device);
    const check *opens = all.find("open", device);
    if (!opens || opens->is != state::OK) {
        found.skip("waits for libibverbs to open it.");
        return;
    }
    const opened is = here.open(device);
    const selection::reason why = selection::why_served(here, is);
    std::string seen = is.plugin.empty() ? "its file is not known" : is.plugin;
    if (!why.words.empty())
        seen += ", by " + why.words;
    if (declined(selection::look_at_setting(here), is, why))
        found.warn(seen + "; coherdma was asked before, but did not take it.",
                   "If it has a reason, it says it in libibverbs' log:",
                   "VERBS_LOG_LEVEL=3 VERBS_LOG_FILE=/dev/stderr ibv_devinfo -d " + device);
    else
        found.ok(seen + ".");
}

} // namespace tools::doctor
