// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A file that libibverbs loads with the drivers, before a program can open a device, and that is
// none: it attaches the interposer to a program that was not started with it, if observers are
// asked for. Linked without the C++ library, which the program may bring.

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <sys/auxv.h>
#include <unistd.h>

#ifndef COHERDMA_SYSCONFDIR
#    define COHERDMA_SYSCONFDIR "/etc"
#endif

namespace {

using attach_function = void(const char *module);

constexpr const char *ATTACH_NAME = "coherdma_interposer_attach";

bool is_set(const char *variable) noexcept {
    const char *const value = secure_getenv(variable);
    return value != nullptr && *value != '\0';
}

/// The path of a file in the folder of this one. False: it is too long.
bool find_sibling(const char *file_name, char (&path)[PATH_MAX]) noexcept {
    Dl_info info = {};
    if (dladdr(ATTACH_NAME, &info) == 0)
        return false;
    const char *const slash = std::strrchr(info.dli_fname, '/');
    const int folder_length = slash != nullptr ? static_cast<int>(slash - info.dli_fname) + 1 : 0;
    const int length =
        std::snprintf(path, sizeof path, "%.*s%s", folder_length, info.dli_fname, file_name);
    return length > 0 && static_cast<std::size_t>(length) < sizeof path;
}

/// nullptr: the interposer cannot be loaded; dlerror() says why.
attach_function *find_attach_function() noexcept {
    // The program may have been started with it.
    void *function = dlsym(RTLD_DEFAULT, ATTACH_NAME);
    char path[PATH_MAX];
    if (function == nullptr && find_sibling("libcoherdma-interposer.so", path)) {
        void *const interposer = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        function = interposer != nullptr ? dlsym(interposer, ATTACH_NAME) : nullptr;
    }
    return reinterpret_cast<attach_function *>(function);
}

[[gnu::constructor]] void attach_requested_observers() noexcept {
    if (getauxval(AT_SECURE) != 0)
        return; // a setuid program: its environment is another user's
    const bool is_asked = is_set("COHERDMA_EMULATE") || is_set("COHERDMA_OBSERVERS");
    const char *const config = is_set("COHERDMA_CONFIG") ? secure_getenv("COHERDMA_CONFIG")
                                                         : COHERDMA_SYSCONFDIR "/coherdma.conf";
    const bool is_configured = access(config, R_OK) == 0; // it need not ask for the emulation
    if (!is_asked && !is_configured)
        return;
    attach_function *const attach = find_attach_function();
    if (attach == nullptr && !is_asked)
        return;
    if (attach == nullptr) {
        const char *const reason = dlerror();
        dprintf(STDERR_FILENO,
                "coherdma: cannot observe this program, as COHERDMA_EMULATE or "
                "COHERDMA_OBSERVERS asks for: %s\n",
                reason != nullptr ? reason : "the path of the interposer is too long");
        _exit(EXIT_FAILURE);
    }
    char emulation[PATH_MAX];
    const bool may_emulate = is_set("COHERDMA_EMULATE") || is_configured;
    attach(may_emulate && find_sibling("libcoherdma-emulation.so", emulation) ? emulation
                                                                              : nullptr);
}

} // namespace
