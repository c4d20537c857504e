// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// libibverbs tries providers that the process has loaded before it loads others, so it suffices to
// load the plugin before devices are listed.

#include "error.hpp"
#include "plugin.hpp"

#include <algorithm>
#include <cerrno>
#include <coherdma/coherdma.h>
#include <coherdma/experimental.h>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string_view>
#include <unistd.h>

namespace {

using coherdma::api::fail;

struct driver_setting {
    const char *variable = nullptr; ///< the name of the variable; nullptr: none is set
    std::string_view first_driver;  ///< the first in its value: a name, or a path
};

/// Of an entry of RDMAV_DRIVERS, a name or a path.
bool is_driver(std::string_view entry) {
    const std::string_view name = entry.substr(entry.rfind('/') + 1);
    return name != "coherdma-observers" && name != "libcoherdma-observers"; // serves no device
}

/// The driver that the environment makes libibverbs load first. Like libibverbs, reads the second
/// variable only if the first is unset.
driver_setting read_driver_setting() {
    for (const char *variable : {"RDMAV_DRIVERS", "IBV_DRIVERS"}) {
        const char *value = secure_getenv(variable);
        if (value && *value) {
            for (std::string_view list = value; !list.empty();) {
                const std::string_view entry = list.substr(0, list.find_first_of(":;"));
                if (is_driver(entry))
                    return {variable, entry};
                list.remove_prefix(std::min(entry.size() + 1, list.size()));
            }
        }
        if (value)
            break;
    }
    return {};
}

/// Loads a plugin into this process: 0, or an errno value with coherdma_error() set.
int load(const std::string &file) {
    if (access(file.c_str(), R_OK) != 0)
        return fail(errno, "cannot read the provider plugin %s: %s", file.c_str(),
                    std::strerror(errno));
    // Never closed: libibverbs keeps pointers to it.
    if (!dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL))
        return fail(ENOEXEC, "cannot load the provider plugin: %s", dlerror());
    return 0;
}

/// Loads what attaches the emulation, if that is requested, from the folder of the plugin. Without
/// effect if libibverbs has loaded or will load it, too.
int load_observers(const std::string &plugin) {
    const std::string file =
        plugin.substr(0, plugin.rfind('/') + 1) + "libcoherdma-observers-rdmav34.so";
    const char *const mode = secure_getenv("COHERDMA_EMULATE");
    const bool is_requested = mode && *mode && std::string_view(mode) != "off";
    return is_requested || access(file.c_str(), R_OK) == 0 ? load(file) : 0;
}

/// Loads coherdma's plugin into this process: 0, or an errno value with coherdma_error() set.
int load_plugin() {
    const driver_setting setting = read_driver_setting();
    const std::string_view name = setting.first_driver.substr(setting.first_driver.rfind('/') + 1);
    if (setting.variable && name != "coherdma" && name != "libcoherdma")
        return fail(ECANCELED, "%s=%s in the environment selects another provider; unset it first",
                    setting.variable, secure_getenv(setting.variable));
    const std::string file = coherdma::api::find_plugin();
    if (setting.variable) // libibverbs will load the provider from that path
        return load_observers(
            setting.first_driver.front() == '/' ? std::string(setting.first_driver) : file);
    if (file.front() != '/')
        return fail(EINVAL, "COHERDMA_PROVIDER is '%s', not an absolute path", file.c_str());
    if (const int error = load(file))
        return error;
    return load_observers(file);
}

} // namespace

int coherdma_use_provider(void) {
    try {
        return load_plugin();
    } catch (...) {
        return fail(ENOMEM, "out of memory");
    }
}
