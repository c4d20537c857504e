// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "run/location.hpp"

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

namespace tools::run {
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

/// COHERDMA_SOFTRDMA, else beside this program, else in PATH.
std::string find_softrdma(const device_need &need) {
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
    throw not_available_error(
        fmt::format("there is no {}, and no softrdma to make one: it is neither beside coherdma "
                    "nor in PATH; next: COHERDMA_SOFTRDMA=/path/to/softrdma coherdma {} ...",
                    need.device, need.subcommand));
}

/// The folder of our plugins, with a slash at its end.
std::string plugin_folder() {
    const std::string plugin = coherdma::api::find_plugin();
    return plugin.substr(0, plugin.rfind('/') + 1);
}

/// Throws unless the file can be named in this variable, a list, and read.
void check_listed_file(const std::string &file, const char *variable) {
    if (file.front() != '/' || file.find_first_of(":;") != std::string::npos)
        throw not_available_error(
            fmt::format("{} cannot be put in {}, which requires an absolute path without : and ;; "
                        "next: COHERDMA_PROVIDER=/path/to/libcoherdma-rdmav34.so, beside it",
                        file, variable));
    if (access(file.c_str(), R_OK) != 0)
        throw not_available_error(
            fmt::format("cannot read {}: {}; next: install it, or "
                        "COHERDMA_PROVIDER=/path/to/libcoherdma-rdmav34.so, beside it",
                        file, std::strerror(errno)));
}

} // namespace

// They open no device: that would attach observers to this process, too.

bool has_device() {
    return !coherdma::devices::list_devices().empty();
}

bool has_soft_device() {
    const auto devices = coherdma::devices::list_devices();
    return std::any_of(devices.begin(), devices.end(), [](const auto &device) {
        return device.driver == "rxe" || device.driver == "siw";
    });
}

void add_location_options(cli::command &command, location_options &opts,
                          const char *here_description, const char *lab_description) {
    const auto here_flag = command.add_flag("--here", opts.forbid_lab, here_description);
    command.add_flag("--lab", opts.force_lab, lab_description).excludes(here_flag);
    command.add_option("--driver", opts.lab_driver, "Devices in the lab: rxe, siw or both")
        .is_member({"rxe", "siw", "both"})
        .type_name("NAME");
}

std::vector<std::string> lab_command_prefix(const location_options &opts, const device_need &need,
                                            const std::string &log_folder) {
    if (opts.forbid_lab) {
        if (!has_device())
            throw not_available_error(
                "there is no RDMA device; next: sudo softrdma up, or without --here");
        return {};
    }
    if (!opts.force_lab && need.is_met())
        return {};
    const std::string path = find_softrdma(need);
    fmt::print(stderr, "coherdma: {}; running in the lab: softrdma run --driver {}\n",
               opts.force_lab ? "--lab is set" : fmt::format("there is no {}", need.device),
               opts.lab_driver);
    return {path, "run", "--driver", opts.lab_driver, "--write", log_folder};
}

std::string make_drivers_variable() {
    const std::string driver = plugin_folder() + "libcoherdma-observers";
    check_listed_file(driver + "-rdmav34.so", "RDMAV_DRIVERS");
    const std::string users =
        std::getenv("RDMAV_DRIVERS") != nullptr ? get_env("RDMAV_DRIVERS") : get_env("IBV_DRIVERS");
    return driver + (users.empty() ? "" : ":" + users);
}

std::string make_observers_variable(const std::vector<std::string> &file_names,
                                    observer_place place) {
    std::string value;
    for (const std::string &name : file_names) {
        const std::string file = plugin_folder() + name;
        check_listed_file(file, "COHERDMA_OBSERVERS");
        value += (value.empty() ? "" : ":") + file;
    }
    const std::string users = get_env("COHERDMA_OBSERVERS");
    if (users.empty())
        return value;
    return place == observer_place::FIRST ? value + ":" + users : users + ":" + value;
}

std::string make_preload_variable(const std::string &file_name) {
    const std::string file = plugin_folder() + file_name, users = get_env("LD_PRELOAD");
    check_listed_file(file, "LD_PRELOAD");
    return file + (users.empty() ? "" : ":" + users);
}

} // namespace tools::run
