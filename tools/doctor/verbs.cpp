// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// libibverbs, asked as any program would.

#include "doctor/host.hpp"
#include "doctor/kept.hpp"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <link.h>

namespace tools::doctor {

std::string find_libibverbs() {
    void *library = dlopen("libibverbs.so.1", RTLD_LAZY);
    link_map *facts = nullptr;
    std::string path;
    if (library && dlinfo(library, RTLD_DI_LINKMAP, &facts) == 0)
        path = facts->l_name;
    if (library)
        dlclose(library);
    return path;
}

opened open_device(const std::string &name) {
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
        if (context)
            ibv_close_device(context);
    }
    if (all)
        ibv_free_device_list(all);
    if (!result.listed)
        result.words = all ? kept.words() : std::strerror(problem);
    return result;
}

} // namespace tools::doctor
