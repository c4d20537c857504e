// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// libibverbs, asked as any program would.

#include "doctor/host.hpp"
#include "doctor/kept.hpp"
#include "selection/serving.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <infiniband/verbs.h>

namespace tools::doctor {

opened open_device(const std::string &name) {
    static const std::vector<std::string> preloaded = selection::loaded_files();
    opened result;
    const kept_stderr kept;
    int count = 0;
    ibv_device **all = ibv_get_device_list(&count);
    const int problem = errno;
    for (int index = 0; all && index < count; ++index) {
        if (name != ibv_get_device_name(all[index]))
            continue;
        result.listed = true;
        errno = 0;
        ibv_context *context = ibv_open_device(all[index]);
        result.open = context != nullptr;
        result.words = context ? "" : std::strerror(errno);
        if (!context)
            continue;
        result.plugin = selection::serving_file(*context);
        result.preloaded = std::count(preloaded.begin(), preloaded.end(), result.plugin) > 0;
        ibv_close_device(context);
    }
    if (all)
        ibv_free_device_list(all);
    if (!result.listed)
        result.words = all ? kept.words() : std::strerror(problem);
    return result;
}

} // namespace tools::doctor
