// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// libibverbs, asked as any program would.

#include "host.hpp"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

namespace tools::doctor {
namespace {

/// While it lives, what is printed on stderr is kept instead.
class kept_stderr {
    int file = memfd_create("stderr", MFD_CLOEXEC);
    int before = file < 0 ? -1 : dup(STDERR_FILENO);

  public:
    kept_stderr() {
        if (before >= 0)
            dup2(file, STDERR_FILENO);
    }
    ~kept_stderr() {
        restore();
        close(file);
    }
    kept_stderr(const kept_stderr &) = delete;
    kept_stderr &operator=(const kept_stderr &) = delete;

    void restore() {
        if (before < 0)
            return;
        dup2(before, STDERR_FILENO);
        close(before);
        before = -1;
    }
    std::string words() {
        restore();
        char text[512];
        const ssize_t length = pread(file, text, sizeof text, 0);
        std::string line(text, length > 0 ? static_cast<std::size_t>(length) : 0);
        return line.substr(0, line.find('\n'));
    }
};

} // namespace

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
    kept_stderr kept;
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
