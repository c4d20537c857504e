// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// coherdma enable, coherdma disable.

#include "api/plugin.hpp"
#include "command.hpp"
#include "doctor/doctor.hpp"
#include "provider_config/change.hpp"
#include "provider_config/serving_provider.hpp"

#include <fmt/core.h>
#include <optional>
#include <stdexcept>
#include <system_error>

namespace {

using namespace tools::provider_config;

struct options {
    bool dry_run = false;
    std::string root; ///< prefix of all paths; "" for this system
};

[[noreturn]] void throw_no_soft_driver(const host &machine) {
    const auto hint = tools::doctor::install_providers_hint(machine);
    throw std::runtime_error(fmt::format("no file in {} names a soft driver (rxe, siw); fix: {}",
                                         machine.root + DRIVER_FOLDER,
                                         hint.fix.empty() ? hint.explanation : hint.fix));
}

/// Throws if users other than root can change the plugin that all programs, and root's, would load.
/// The configuration of an ordinary user, in the folder of --root, is not checked.
void require_root_plugin(const host &machine, const std::string &driver_name) {
    if (!machine.is_root)
        return;
    const std::string plugin = plugin_path(machine, driver_name);
    if (const auto exposed = find_exposed_plugin(machine, plugin))
        throw std::runtime_error(fmt::format(
            "all programs would load {}, which users other than root can change: {}; install "
            "coherdma's package, or type: {}",
            machine.root + plugin, exposed->description(), exposed->fix));
}

/// Prints the edits. dry_run: does not make them.
void apply_edits(const host &machine, const std::vector<file_edit> &edits, bool dry_run) {
    for (const file_edit &edit : edits) {
        if (!dry_run)
            apply_edit(machine, edit);
        for (const std::string &line : describe_edit(edit))
            fmt::print("{}\n", line);
    }
}

/// The end of an error message: what to do, or "". command: enable or disable.
std::string format_hint(const host &machine, const std::error_code &error,
                        const std::string &command) {
    const bool is_denied =
        error == std::errc::permission_denied || error == std::errc::operation_not_permitted;
    if (is_denied && !machine.is_root)
        return "; as root: sudo coherdma " + command;
    if (error == std::errc::cross_device_link)
        return "; the folder is a mount point: change it in the system that it is mounted from, "
               "with --root";
    return "";
}

[[noreturn]] void throw_change_failed(const host &machine, const std::system_error &e,
                                      const char *command) {
    throw std::runtime_error(fmt::format("cannot change {}{}: {}{}", machine.root, DRIVER_FOLDER,
                                         e.what(), format_hint(machine, e.code(), command)));
}

/// What the commands enable and disable print.
struct command_texts {
    const char *name, *description;
    const char *changed;   ///< after a change
    const char *unchanged; ///< if there was nothing to change
};
constexpr command_texts ENABLE = {"enable",
                                  "Use coherdma's provider for soft devices in all programs",
                                  "Programs started from now on get soft devices from coherdma.",
                                  "Already enabled; see: coherdma status"};
constexpr command_texts DISABLE = {"disable", "Undo enable: restore the files of libibverbs.d",
                                   "Programs started from now on get soft devices from rdma-core.",
                                   "Already disabled."};

/// The command enable, or disable: edits the files in DRIVER_FOLDER (libibverbs.d) so that
/// libibverbs loads coherdma's provider for soft devices, or restores them. enable fails if no file
/// names rdma-core's provider for one, whose place coherdma's would take.
void run_command(bool enable, const options &opts) {
    const command_texts &texts = enable ? ENABLE : DISABLE;
    const host machine = host_at_root(opts.root);
    if (enable && !query_setting(machine).has_soft_driver)
        throw_no_soft_driver(machine);
    const std::string driver_name =
        enable ? driver_name_for(machine, coherdma::api::find_plugin()) : "";
    if (enable)
        require_root_plugin(machine, driver_name);
    std::optional<folder_lock> lock;
    try {
        if (!opts.dry_run && machine.exists(DRIVER_FOLDER))
            lock.emplace(machine);
        const std::vector<file_edit> edits =
            enable ? plan_enable(machine, driver_name) : plan_disable(machine);
        apply_edits(machine, edits, opts.dry_run);
        fmt::print("{}\n", edits.empty()  ? texts.unchanged
                           : opts.dry_run ? "Nothing was changed."
                                          : texts.changed);
    } catch (const std::system_error &e) {
        throw_change_failed(machine, e, texts.name);
    }
}

/// Adds enable, or disable.
void add_command(tools::cli::command &program, bool enable) {
    const command_texts &texts = enable ? ENABLE : DISABLE;
    auto opts = std::make_shared<options>();
    auto command = program.add_subcommand(texts.name, texts.description);
    command.add_flag("--dry-run,-n", opts->dry_run, "Print the changes, but do not make them");
    command.add_option("--root", opts->root, "Change the system in this folder")
        .type_name("DIR")
        .check(check_root);
    command.callback([=] { run_command(enable, *opts); });
}

} // namespace

void tools::add_enable(cli::command &program, int &) {
    add_command(program, true);
}

void tools::add_disable(cli::command &program, int &) {
    add_command(program, false);
}
