// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "emulate/run_location.hpp"

#include "api/plugin.hpp"
#include "devices/devices.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fmt/core.h>
#include <sstream>
#include <unistd.h>

namespace tools::emulate {
namespace {

namespace fs = std::filesystem;

std::string get_env(const char *name) {
    const char *const value = std::getenv(name);
    return value != nullptr ? value : "";
}

bool is_executable(const std::string &file) {
    std::error_code error;
    return fs::is_regular_file(file, error) && access(file.c_str(), X_OK) == 0;
}

} // namespace

// They open no device: that would emulate it in this process, too.

bool has_device() {
    return !coherdma::devices::list_devices().empty();
}

bool has_soft_device() {
    const auto devices = coherdma::devices::list_devices();
    return std::any_of(devices.begin(), devices.end(), [](const auto &device) {
        return device.driver == "rxe" || device.driver == "siw";
    });
}

/// COHERDMA_SOFTRDMA, else beside this program, else in PATH.
std::string find_softrdma() {
    if (const std::string configured = get_env("COHERDMA_SOFTRDMA"); !configured.empty()) {
        if (!is_executable(configured))
            throw not_available_error("COHERDMA_SOFTRDMA=" + configured +
                                      " is not an executable file; next: unset COHERDMA_SOFTRDMA");
        return fs::absolute(configured);
    }
    std::error_code error;
    std::istringstream path(fs::read_symlink("/proc/self/exe", error).parent_path().string() + ":" +
                            get_env("PATH"));
    for (std::string directory; std::getline(path, directory, ':');)
        if (const std::string file = directory + "/softrdma";
            !directory.empty() && is_executable(file))
            return fs::absolute(file);
    throw not_available_error("there is no soft device (rxe, siw), and no softrdma to make one: it "
                              "is neither beside coherdma nor in PATH; next: "
                              "COHERDMA_SOFTRDMA=/path/to/softrdma coherdma emulate ...");
}

/// The value of RDMAV_DRIVERS: what attaches the emulation, then the user's plugins.
std::string make_drivers_variable() {
    const std::string plugin = coherdma::api::find_plugin();
    const std::string driver = plugin.substr(0, plugin.rfind('/') + 1) + "libcoherdma-observers";
    const std::string file = driver + "-rdmav34.so";
    if (file.front() != '/' || file.find_first_of(":;") != std::string::npos)
        throw not_available_error(
            fmt::format("the emulation {} cannot be put in RDMAV_DRIVERS, which requires an "
                        "absolute path without : and ;; next: "
                        "COHERDMA_PROVIDER=/path/to/libcoherdma-rdmav34.so, beside it",
                        file));
    if (access(file.c_str(), R_OK) != 0)
        throw not_available_error(
            fmt::format("cannot read the emulation {}: {}; next: install it, or "
                        "COHERDMA_PROVIDER=/path/to/libcoherdma-rdmav34.so, beside it",
                        file, std::strerror(errno)));
    const char *users = std::getenv("RDMAV_DRIVERS");
    if (users == nullptr)
        users = std::getenv("IBV_DRIVERS");
    return driver + (users != nullptr && *users ? std::string(":") + users : "");
}

temp_folder::temp_folder()
    : path_((fs::temp_directory_path() / "coherdma-emulate.XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr)
        throw std::runtime_error("cannot create the folder " + path_ + ": " + std::strerror(errno) +
                                 "; set TMPDIR to a writable folder");
}

temp_folder::~temp_folder() {
    std::error_code error;
    fs::remove_all(path_, error);
}

} // namespace tools::emulate
