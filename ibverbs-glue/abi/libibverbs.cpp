// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "libibverbs.hpp"

#include "detect.hpp"
#include "log.hpp"

#include <dlfcn.h>

namespace coherdma::abi {
namespace {

enum class state : unsigned char { not_probed, unknown, detected, supported, incomplete };

struct {
    abi_probe probe = {find_libibverbs_symbol, ibv_qp_to_qp_ex};
    abi::state state = state::not_probed;
    const layout *detected = nullptr;
    libibverbs_functions functions = {};
} loaded;

bool is_version_known() noexcept {
    if (loaded.state == state::not_probed) {
        const detection result = detect_abi(probe_abi(loaded.probe), layouts);
        dlerror(); // discards the error of failed look-ups
        loaded.detected = result.detected;
        loaded.state = result.detected != nullptr ? state::detected : state::unknown;
        if (result.detected != nullptr)
            verbs_log(log_level::debug, "detected libibverbs of rdma-core %s",
                      result.detected->releases);
        else if (result.closest == nullptr)
            verbs_log(log_level::warning,
                      "unknown libibverbs: no verbs_register_driver symbol of rdma-core 36 to 65; "
                      "leaving devices to other providers");
        else
            verbs_log(
                log_level::warning,
                "unknown libibverbs: closest to rdma-core %s, but %s differs; leaving devices "
                "to other providers",
                result.closest->releases, result.mismatch);
    }
    return loaded.detected != nullptr;
}

} // namespace

// The plugin is linked to libibverbs, so it is loaded and stays loaded.
void *find_libibverbs_symbol(const char *symbol, const char *version) noexcept {
    static void *handle = nullptr;
    if (handle == nullptr)
        handle = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
    return handle != nullptr ? dlvsym(handle, symbol, version) : nullptr;
}

bool register_driver(const verbs_device_ops &ops) noexcept {
    if (!is_version_known())
        return false;
    auto *const verbs_register_driver =
        reinterpret_cast<void (*)(const verbs_device_ops *)>(loaded.probe.find_symbol(
            loaded.detected->register_symbol, loaded.detected->symbol_version));
    verbs_register_driver(&ops);
    return true;
}

bool is_supported() noexcept {
    if (!is_version_known())
        return false;
    if (loaded.state == state::detected) {
        const char *missing =
            load_commands(loaded.functions, *loaded.detected, loaded.probe.find_symbol);
        dlerror();
        loaded.state = missing == nullptr ? state::supported : state::incomplete;
        if (missing != nullptr)
            verbs_log(log_level::warning, "libibverbs lacks %s; leaving devices to other providers",
                      missing);
    }
    return loaded.state == state::supported;
}

const layout &current_layout() noexcept {
    return *loaded.detected;
}
const libibverbs_functions &libibverbs() noexcept {
    return loaded.functions;
}

void reset_detection(const abi_probe &probe) noexcept {
    loaded.probe = probe;
    loaded.state = state::not_probed;
    loaded.detected = nullptr;
}

} // namespace coherdma::abi
