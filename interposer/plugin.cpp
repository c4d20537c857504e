// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// libibverbs loads this file with the drivers, before a program can open a device. It registers no
// driver: it attaches the interposer to a program that was not started with it, if observers are
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

constexpr const char *INTERPOSER_FILE = "libcoherdma-interposer.so"; ///< and its soname
constexpr const char *EMULATION_FILE = "libcoherdma-emulation.so";
constexpr const char *ATTACH_NAME = "coherdma_interposer_attach";

bool is_set(const char *variable) noexcept {
    const char *const value = secure_getenv(variable);
    return value != nullptr && *value != '\0';
}

/// Whether the configuration file has the word: it need not be a setting.
bool is_in_configuration(const char *word) noexcept {
    const char *const path = is_set("COHERDMA_CONFIG") ? secure_getenv("COHERDMA_CONFIG")
                                                       : COHERDMA_SYSCONFDIR "/coherdma.conf";
    std::FILE *const file = std::fopen(path, "re");
    if (file == nullptr)
        return false;
    bool is_found = false;
    char line[1024];
    while (!is_found && std::fgets(line, sizeof line, file) != nullptr)
        is_found = std::strstr(line, word) != nullptr;
    std::fclose(file);
    return is_found;
}

/// COHERDMA_EMULATE decides; if it is not set, the configuration file does.
bool may_emulate() noexcept {
    return is_set("COHERDMA_EMULATE") ? std::strcmp(secure_getenv("COHERDMA_EMULATE"), "off") != 0
                                      : is_in_configuration("emulate");
}

/// The path of a file in the plugin's folder. False: it is too long.
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
    // The program may have been started with it, or a copy of this plugin has attached it.
    void *interposer = dlopen(INTERPOSER_FILE, RTLD_NOW | RTLD_NOLOAD);
    char path[PATH_MAX];
    if (interposer == nullptr && find_sibling(INTERPOSER_FILE, path))
        interposer = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    return interposer != nullptr
               ? reinterpret_cast<attach_function *>(dlsym(interposer, ATTACH_NAME))
               : nullptr;
}

[[gnu::constructor]] void attach_requested_observers() noexcept {
    if (getauxval(AT_SECURE) != 0)
        return; // a setuid program: its environment is another user's
    const bool emulates = may_emulate();
    if (!emulates && !is_set("COHERDMA_OBSERVERS"))
        return;
    attach_function *const attach = find_attach_function();
    if (attach == nullptr) {
        const char *const reason = dlerror();
        dprintf(STDERR_FILENO,
                "coherdma: cannot observe this program, as COHERDMA_EMULATE, COHERDMA_OBSERVERS or "
                "coherdma.conf asks for: %s\n",
                reason != nullptr ? reason : "the path of the interposer is too long");
        _exit(EXIT_FAILURE);
    }
    char emulation[PATH_MAX];
    attach(emulates && find_sibling(EMULATION_FILE, emulation) ? emulation : nullptr);
}

} // namespace
