// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "loading.hpp"
#include "debug.hpp"

namespace coherdma::registry {
namespace {

const record *first_for(const records &in, const DAT_PROVIDER_INFO &wanted) noexcept {
    for (const record &each : in.all) {
        if (is_of_this_version(each) && is_for(each, wanted))
            return &each;
    }
    return nullptr;
}

void look_at_all(const records &in, nearest &why) noexcept {
    for (const record &each : in.all)
        why.look_at(each.name, each.major, each.minor);
}

} // namespace

candidate find_candidate(const DAT_PROVIDER_INFO &wanted, records &live, nearest &why,
                         DAT_RETURN &status) noexcept {
    const records &conf = of_dat_conf();
    for (const record &each : conf.all) {
        if (!is_of_this_version(each) || !is_for(each, wanted))
            continue;
        if (const library found = load_provider(each.library); found.handle)
            return {found, each.instance};
    }
    // Ours serves every device that there is, and what was served by libraries that are gone.
    const record *chosen = first_for(conf, wanted);
    if (chosen) {
        say(kind::records, "%s: none of its libraries can be loaded; %s is tried", wanted.ia_name,
            OUR_PROVIDER);
    } else {
        add_live_devices(live);
        chosen = first_for(live, wanted);
    }
    if (!chosen) {
        look_at_all(conf, why);
        look_at_all(live, why);
        status = why.status();
        return {};
    }
    const library found = load_our_provider();
    status = error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
    return {found, chosen->instance};
}

} // namespace coherdma::registry
