// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "libibverbs.hpp"

#include "detect.hpp"
#include "log.hpp"

#include <dlfcn.h>

namespace coherdma::abi {
namespace {

// What is known of libibverbs: nothing yet; that its ABI version is unknown, or detected; then,
// that it has all required functions, or lacks some.
enum class state : unsigned char { not_inspected, unknown, detected, supported, incomplete };

/// The libibverbs of this process.
struct {
    detection_functions detection = {find_libibverbs_symbol, ibv_qp_to_qp_ex};
    abi::state state = state::not_inspected;
    const layout *detected_layout = nullptr; // nullptr: not inspected, or unknown
    libibverbs_functions functions = {};
} library;

// Detects the ABI version at the first call; logs it, or why it is unknown.
bool is_version_known() noexcept {
    if (library.state == state::not_inspected) {
        const detection result = detect_abi(find_abi_traits(library.detection), layouts);
        dlerror(); // discards the error of failed look-ups
        library.detected_layout = result.detected;
        library.state = result.detected != nullptr ? state::detected : state::unknown;
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
    return library.detected_layout != nullptr;
}

} // namespace

/// A symbol of libibverbs alone, which is loaded, since the plugin is linked to it. nullptr: not
/// found.
void *find_libibverbs_symbol(const char *symbol, const char *version) noexcept {
    static void *handle = nullptr;
    if (handle == nullptr)
        handle = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
    return handle != nullptr ? dlvsym(handle, symbol, version) : nullptr;
}

/// In the plugin's constructor. False: the ABI version is unknown, and no device will use the
/// driver.
bool register_driver(const verbs_device_ops &ops) noexcept {
    if (!is_version_known())
        return false;
    auto *const verbs_register_driver =
        reinterpret_cast<void (*)(const verbs_device_ops *)>(library.detection.find_symbol(
            library.detected_layout->register_symbol, library.detected_layout->symbol_version));
    verbs_register_driver(&ops);
    return true;
}

/// At the first call, looks up the functions that drivers need; logs why libibverbs is not
/// supported.
bool is_supported() noexcept {
    if (!is_version_known())
        return false;
    if (library.state == state::detected) {
        const char *missing = load_commands(library.functions, *library.detected_layout,
                                            library.detection.find_symbol);
        dlerror(); // discards the error of failed look-ups
        library.state = missing == nullptr ? state::supported : state::incomplete;
        if (missing != nullptr)
            verbs_log(log_level::warning, "libibverbs lacks %s; leaving devices to other providers",
                      missing);
    }
    return library.state == state::supported;
}

const layout &current_layout() noexcept {
    return *library.detected_layout;
}
const libibverbs_functions &libibverbs() noexcept {
    return library.functions;
}

void reset_detection(const detection_functions &functions) noexcept {
    library.detection = functions;
    library.state = state::not_inspected;
    library.detected_layout = nullptr;
}

} // namespace coherdma::abi
