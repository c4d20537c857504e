// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Whether the system prefers coherdma's plugin for soft devices: each file of /etc/libibverbs.d
// that names rdma-core's plugin names coherdma below it.
#pragma once

#include "provider_config/driver_lines.hpp"
#include "provider_config/exposure.hpp"
#include "provider_config/plugin_path.hpp"

namespace tools::provider_config {

inline constexpr char DRIVER_FOLDER[] = "/etc/libibverbs.d";

/// A file in DRIVER_FOLDER.
struct driver_file {
    std::string path; ///< below the root
    std::string text;
    [[nodiscard]] bool has_soft_driver() const;  ///< names rdma-core's plugin for rxe or siw
    [[nodiscard]] bool prefers_coherdma() const; ///< names coherdma below the last soft driver
};

/// The files that libibverbs reads: all regular files that this user can read, whatever their
/// names, sorted by name. Throws std::runtime_error if reading fails.
std::vector<driver_file> read_driver_files(const host &machine);

enum class setting_state {
    OFF,     ///< no coherdma line
    ON,      ///< each file that names a soft driver names coherdma below it
    PARTIAL, ///< some of these files do not: the order of the files decides
    STALE,   ///< a line names a plugin that does not exist
};
const char *name_of(setting_state state);

/// A line "driver NAME" that names coherdma's plugin.
struct coherdma_line {
    std::string file;
    std::size_t line_num; ///< from 1
    std::string plugin;   ///< the plugin's path that libibverbs forms from NAME
    bool exists;          ///< the plugin exists
    /// By which users other than root can change the plugin, if the line's file is root's.
    std::optional<exposed_path> exposed;
    [[nodiscard]] std::string location_text() const; ///< "line 2 of /etc/libibverbs.d/rxe.driver"
};

struct system_setting {
    setting_state state = setting_state::OFF;
    bool has_soft_driver = false; ///< a file names a soft driver
    std::string description;      ///< the reason for the state, as the end of a sentence
    std::vector<coherdma_line> lines;
    /// That of the first line that has one.
    [[nodiscard]] std::optional<exposed_path> exposed() const;
};
system_setting query_setting(const host &machine);
/// The command that makes the state ON or OFF; nullptr if it is.
const char *fix_command(setting_state state);

/// What made libibverbs load the plugin that serves a device. SYSTEM: a line in DRIVER_FOLDER.
enum class load_source { UNKNOWN, PRELOADED, ENVIRONMENT, SYSTEM };
const char *name_of(load_source source);

struct load_reason {
    load_source source = load_source::UNKNOWN;
    std::string description; ///< the variable, or the lines; "" if unknown
};
load_reason find_load_reason(const host &machine, const doctor::open_result &opened);

/// Whether the system setting is ON, but rdma-core's plugin serves the device, since the
/// environment names it or the program has preloaded it.
bool is_setting_overridden(const system_setting &setting, const doctor::open_result &opened,
                           const load_reason &reason);
/// The same, since coherdma's plugin, which libibverbs tried first, has declined the device.
bool has_coherdma_declined(const system_setting &setting, const doctor::open_result &opened,
                           const load_reason &reason);

/// Whether the path is that of coherdma's plugin.
bool is_coherdma_plugin(const std::string &path);

} // namespace tools::provider_config
