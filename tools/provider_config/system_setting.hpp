// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Whether the system prefers coherdma's plugin for soft devices: each file of /etc/libibverbs.d
// that names rdma-core's plugin names coherdma below it.
#pragma once

#include "provider_config/driver_lines.hpp"
#include "provider_config/plugin_path.hpp"

namespace tools::provider_config {

inline constexpr char FOLDER[] = "/etc/libibverbs.d";

struct driver_file {
    std::string path; ///< below the root
    std::string text;
    [[nodiscard]] bool has_soft_driver() const;  ///< names rdma-core's plugin for rxe or siw
    [[nodiscard]] bool prefers_coherdma() const; ///< names coherdma below the last soft driver
};

/// The files that libibverbs reads: all regular files that this user can read, whatever their
/// names, sorted by name. Throws std::runtime_error if reading fails.
std::vector<driver_file> driver_files(const host &machine);

enum class setting_state {
    OFF,     ///< no coherdma line
    ON,      ///< all needed lines exist
    PARTIAL, ///< some needed lines are missing: the order of the files decides
    STALE,   ///< a line names a plugin that does not exist
};
const char *name_of(setting_state state);

struct coherdma_line {
    std::string file;
    std::size_t line_num;
    std::string plugin; ///< the plugin's path that libibverbs forms from the line
    bool exists;        ///< the plugin exists
    [[nodiscard]] std::string location_text() const; ///< "line 2 of /etc/libibverbs.d/rxe.driver"
};

struct system_setting {
    setting_state state = setting_state::OFF;
    bool has_soft_driver = false; ///< a file names a soft driver
    std::string description;      ///< explanation, without the subject
    std::vector<coherdma_line> lines;
};
system_setting query_setting(const host &machine);
/// The command that fixes it, or NULL if nothing is wrong.
const char *fix_command(setting_state state);

/// Why libibverbs loaded the plugin that serves a device; description is "" if unknown.
struct serving_reason {
    enum { UNKNOWN, PRELOADED, ENVIRONMENT, SYSTEM } source = UNKNOWN;
    std::string description;
};
serving_reason find_serving_reason(const host &machine, const doctor::open_result &device);
const char *name_of(decltype(serving_reason::source) source);

/// The system prefers coherdma, but rdma-core's plugin serves the device: because of the
/// environment or a preloaded plugin, or because coherdma's plugin declined the device.
bool is_overridden(const system_setting &system, const doctor::open_result &device,
                   const serving_reason &reason);
bool is_declined(const system_setting &system, const doctor::open_result &device,
                 const serving_reason &reason);

/// True if the path is that of coherdma's plugin.
bool is_coherdma_plugin(const std::string &path);

} // namespace tools::provider_config
