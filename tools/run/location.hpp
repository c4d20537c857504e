// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Where a command runs: on this machine if that has the devices which a subcommand needs, or the
// user says so; else in softrdma's lab.
#pragma once

#include "cli.hpp"

#include <stdexcept>
#include <string>
#include <vector>

namespace tools::run {

/// Not possible on this machine; what() says what to type next.
struct not_available_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// An RDMA device of any driver.
bool has_device();
/// One of rxe or siw.
bool has_soft_device();

/// The devices without which a subcommand runs its command in the lab.
struct device_need {
    const char *subcommand; ///< "emulate"
    const char *device;     ///< "soft device (rxe, siw)"
    bool (*is_met)();
};

struct location_options {
    bool forbid_lab = false, force_lab = false;
    std::string lab_driver = "rxe";
};

/// Adds --here, --lab and --driver.
void add_location_options(cli::command &, location_options &, const char *here_description,
                          const char *lab_description);

/// The command line prefix to run in the lab, where log_folder is writable; empty to run on this
/// machine. Says on stderr that it is the lab. Throws not_available_error.
std::vector<std::string> lab_command_prefix(const location_options &, const device_need &,
                                            const std::string &log_folder);

/// The value of RDMAV_DRIVERS that puts the plugin which attaches observers before the user's.
/// Throws not_available_error if it does not exist.
std::string make_drivers_variable();
/// LAST: after the user's, which then learn of a request before it is changed.
enum class observer_place : unsigned char { FIRST, LAST };
/// The value of COHERDMA_OBSERVERS that adds these files, which lie beside that plugin, to the
/// user's. Throws not_available_error if one cannot be read.
std::string make_observers_variable(const std::vector<std::string> &file_names,
                                    observer_place = observer_place::FIRST);
/// The same of LD_PRELOAD.
std::string make_preload_variable(const std::string &file_name);

} // namespace tools::run
