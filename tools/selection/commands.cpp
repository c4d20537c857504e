// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// coherdma enable, coherdma disable: the two commands that change something on this system.

#include "api/plugin.hpp"
#include "command.hpp"
#include "doctor/doctor.hpp"
#include "selection/change.hpp"
#include "selection/serving.hpp"

#include <fmt/format.h>
#include <optional>
#include <stdexcept>
#include <system_error>

namespace {

using namespace tools::selection;

struct options {
    bool dry = false;
    std::string root;
};

[[noreturn]] void no_soft_driver(const host &here) {
    const auto mend = tools::doctor::package_of_providers(here);
    throw std::runtime_error(
        fmt::format("no file of {} names a driver of soft devices (rxe, siw), so there is none to "
                    "go before; first: {}",
                    here.root + FOLDER, mend.command.empty() ? mend.fix : mend.command));
}

void carry_out_all(const host &here, const std::vector<edit> &edits, bool dry) {
    for (const edit &each : edits) {
        if (!dry)
            carry_out(here, each);
        for (const std::string &line : describe(each))
            fmt::print("{}\n", line);
    }
}

std::string hint(const host &here, const std::error_code &problem, const std::string &command) {
    const bool denied =
        problem == std::errc::permission_denied || problem == std::errc::operation_not_permitted;
    if (denied && !here.is_root)
        return "; as root: sudo coherdma " + command;
    if (problem == std::errc::cross_device_link)
        return "; the folder is a mount of its own: change it in the system that it is mounted "
               "from, with --root";
    return "";
}

[[noreturn]] void refused(const host &here, const std::system_error &problem, const char *command) {
    throw std::runtime_error(fmt::format("cannot change {}{}: {}{}", here.root, FOLDER,
                                         problem.what(), hint(here, problem.code(), command)));
}

void change(const char *command, const options &given, const char *done, const char *already) {
    const host here = machine_at(given.root);
    const bool on = std::string(command) == "enable";
    if (on && !look_at_setting(here).soft)
        no_soft_driver(here);
    const std::string name = on ? name_of_plugin(here, coherdma::api::plugin_file()) : "";
    std::optional<folder_lock> lock;
    try {
        if (!given.dry && here.exists(FOLDER))
            lock.emplace(here);
        const std::vector<edit> edits = on ? plan_on(here, name) : plan_off(here);
        carry_out_all(here, edits, given.dry);
        fmt::print("{}\n", edits.empty() ? already : given.dry ? "Nothing was changed." : done);
    } catch (const std::system_error &problem) {
        refused(here, problem, command);
    }
}

void add(CLI::App &program, const char *name, const char *about, const char *done,
         const char *already) {
    auto given = std::make_shared<options>();
    CLI::App *command = program.add_subcommand(name, about);
    command->add_flag("--dry-run,-n", given->dry, "Only say which lines would change");
    command->add_option("--root", given->root, "Of the system in this folder")->type_name("DIR");
    command->callback([=] { change(name, *given, done, already); });
}

} // namespace

void tools::add_enable(CLI::App &program, int &) {
    add(program, "enable", "Have our provider serve soft devices, for all programs",
        "Programs that start from now on get soft devices from coherdma.",
        "On already; see: coherdma status");
}

void tools::add_disable(CLI::App &program, int &) {
    add(program, "disable", "Undo that: the files are again as they were",
        "Programs that start from now on get soft devices from rdma-core.", "Off already.");
}
