// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A device that our provider plays as one that does not see the cache, because somebody wanted that
// for this process: then nothing else counts.

#include "emulation.hpp"
#include "verdict.hpp"

#include <dlfcn.h>

namespace coherdma::coherency {

// The provider has loaded it, or it is not there. It is never unloaded.
const cache::emulated *emulation_of(const ibv_context *context) noexcept {
    if (context == nullptr)
        return nullptr;
    void *const module = dlopen(cache::emulation_file, RTLD_LAZY | RTLD_NOLOAD);
    if (module == nullptr) {
        dlerror(); // nobody else should meet the error of a search in vain
        return nullptr;
    }
    const auto *const all =
        static_cast<const cache::emulated *>(dlsym(module, cache::emulation_name));
    dlclose(module);
    return all != nullptr && all->size == sizeof *all && all->plays(context) ? all : nullptr;
}

finding ask_emulation(const subject &device) {
    finding found;
    found.source = "COHERDMA_EMULATE";
    const cache::emulated *const by = emulation_of(device.context);
    if (by == nullptr) {
        found.reason = device.context != nullptr ? "it is not emulated" : "it is not open";
        return found;
    }
    found.verdict = COHERDMA_EMULATED;
    found.value = by->mode();
    found.reason = "our provider plays it as one that does not see the CPU's cache";
    return found;
}

} // namespace coherdma::coherency
