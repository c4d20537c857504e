// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Opens devices through libibverbs, as any program does.

#include "doctor/capture_stderr.hpp"
#include "doctor/host.hpp"
#include "provider_config/serving_provider.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <infiniband/verbs.h>

namespace tools::doctor {

/// Opens the device and closes it again.
open_result open_device(const std::string &name) {
    // Before the first device list, for which libibverbs loads plugins.
    static const std::vector<std::string> preloaded = provider_config::list_loaded_objects();
    open_result result;
    const capture_stderr capture;
    int count = 0;
    ibv_device **devices = ibv_get_device_list(&count);
    const int list_error = errno;
    for (int i = 0; devices && i < count; ++i) {
        if (name != ibv_get_device_name(devices[i]))
            continue;
        result.is_listed = true;
        errno = 0;
        ibv_context *context = ibv_open_device(devices[i]);
        result.is_open = context != nullptr;
        result.message = context ? "" : std::strerror(errno);
        if (!context)
            continue;
        result.plugin = provider_config::find_serving_plugin(*context);
        result.is_preloaded = std::count(preloaded.begin(), preloaded.end(), result.plugin) > 0;
        ibv_close_device(context);
    }
    if (devices)
        ibv_free_device_list(devices);
    if (!result.is_listed)
        result.message = devices ? capture.first_line() : std::strerror(list_error);
    return result;
}

} // namespace tools::doctor
