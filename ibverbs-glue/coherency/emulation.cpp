// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A device that coherdma's provider emulates as non-coherent, on the user's request for this
// process. This rule precedes all others.

#include "emulation.hpp"
#include "rules.hpp"

#include <dlfcn.h>

namespace coherdma::coherency {

// The provider loads the module before it opens an emulated device, and never unloads it.
const cache::emulated_cache *find_emulated_cache(const ibv_context *context) noexcept {
    if (context == nullptr)
        return nullptr;
    void *const module = dlopen(cache::emulation_file, RTLD_LAZY | RTLD_NOLOAD);
    if (module == nullptr) {
        dlerror(); // discards the error
        return nullptr;
    }
    const auto *const emulated =
        static_cast<const cache::emulated_cache *>(dlsym(module, cache::emulation_symbol));
    dlclose(module);
    return emulated != nullptr && emulated->size == sizeof *emulated &&
                   emulated->is_emulated(context)
               ? emulated
               : nullptr;
}

finding evaluate_emulation(const rule_input &input) {
    finding result;
    result.source = "COHERDMA_EMULATE";
    const cache::emulated_cache *const emulated = find_emulated_cache(input.context);
    if (emulated == nullptr) {
        result.reason = input.context != nullptr ? "not emulated" : "the device is not open";
        return result;
    }
    result.verdict = COHERDMA_EMULATED;
    result.value = emulated->mode();
    result.reason = "coherdma's provider emulates a non-coherent device";
    return result;
}

} // namespace coherdma::coherency
