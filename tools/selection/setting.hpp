// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Whether this system prefers our plugin to those of rdma-core for soft devices: whether every file
// of /etc/libibverbs.d that names one of theirs names ours below it.
#pragma once

#include "selection/library.hpp"
#include "selection/lines.hpp"

namespace tools::selection {

inline constexpr char FOLDER[] = "/etc/libibverbs.d";

struct driver_file {
    std::string path; ///< below the root
    std::string text;
    [[nodiscard]] bool is_soft() const; ///< names a plugin of rdma-core for soft devices
    [[nodiscard]] bool prefers() const; ///< and ours below the last of them
};

/// The files that libibverbs reads: all regular ones that this user may read, whatever they are
/// called, sorted by name. Throws std::runtime_error if reading fails.
std::vector<driver_file> driver_files(const host &here);

enum class state {
    OFF,   ///< no line is ours
    ON,    ///< all that is needed is there
    HALF,  ///< some lines are there and some are not, so that the folder's order decides
    STALE, ///< a line names a plugin that is not there
};
const char *name_of(state is);

struct our_line {
    std::string file;
    std::size_t number;
    std::string plugin;                      ///< the file that libibverbs makes of it
    bool there;                              ///< that file
    [[nodiscard]] std::string place() const; ///< "line 2 of /etc/libibverbs.d/rxe.driver"
};

struct setting {
    state is = state::OFF;
    bool soft = false; ///< some file names a soft driver
    std::string words; ///< about it, the end of a sentence
    std::vector<our_line> lines;
};
setting look_at_setting(const host &here);
/// The command that mends it, or NULL if nothing is wrong.
const char *mends(state is);

/// Why a device is served by this plugin: what had libibverbs load it, in words; "" if nobody
/// knows.
struct reason {
    enum { UNKNOWN, PRELOADED, ENVIRONMENT, SYSTEM } by = UNKNOWN;
    std::string words;
};
reason why_served(const host &here, const doctor::opened &device);
const char *name_of(decltype(reason::by) by);

/// The system prefers our plugin, but the device is served by that of rdma-core: because somebody
/// wanted it for this process, or because ours did not take the device.
bool overridden(const setting &system, const doctor::opened &device, const reason &why);
bool declined(const setting &system, const doctor::opened &device, const reason &why);

/// The file of a plugin of ours.
bool is_our_plugin(const std::string &file);

} // namespace tools::selection
