// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// coherdma check: runs a command, and reports how its processes misuse verbs.

#include "check/debugger.hpp"
#include "check/log.hpp"
#include "check/report.hpp"
#include "check/sanitizers.hpp"
#include "command.hpp"
#include "run/location.hpp"
#include "run/run.hpp"
#include "run/session.hpp"

#include <cstdio>
#include <filesystem>
#include <fmt/core.h>
#include <memory>

namespace tools {
namespace check {
namespace {

constexpr int MAX_STATUS = 255, MAX_LIMIT = 1000000;
constexpr const char *OBSERVER_FILE = "libcoherdma-check.so";
constexpr const char *LATE_FILE = "libcoherdma-late.so"; // sees what the checker has changed

constexpr run::device_need NEED = {
    .subcommand = "check", .device = "RDMA device", .is_met = run::has_device};

struct check_options {
    std::string log_file, output_file, html_file, suppressions_file;
    int limit = 1; ///< how often one finding of one place is reported
    int findings_status = FAILED;
    bool leaks = false, ownership = false, protect = false, late = false, no_stacks = false,
         no_fill = false, distinct_keys = false, gdb = false, json = false;
    std::string device_family; ///< whose limits the program is to keep; "": no other's
    run::location_options location;
    std::string explained_kind;
    bool list = false;
    std::string program; ///< COMMAND without its arguments
};

/// COHERDMA_CHECK_OPTIONS
std::string observer_options(const check_options &opts) {
    std::string text;
    for (const auto &[is_set, word] :
         {std::pair(opts.leaks, "leaks"), std::pair(opts.ownership, "ownership"),
          std::pair(opts.protect, "protect"), std::pair(opts.late, "late"),
          std::pair(opts.no_stacks, "nostacks"), std::pair(opts.no_fill, "nofill"),
          std::pair(opts.distinct_keys, "distinctkeys")})
        if (is_set)
            text += std::string(text.empty() ? "" : ",") + word;
    if (!opts.device_family.empty())
        text += std::string(text.empty() ? "" : ",") + "as=" + opts.device_family;
    return text;
}

/// The environment in which each process writes its log to this folder, and keeps its exit status.
std::map<std::string, std::string> observer_environment(const check_options &opts,
                                                        const std::string &log_folder) {
    std::vector<std::string> observers = {OBSERVER_FILE};
    if (opts.late)
        observers.emplace_back(LATE_FILE);
    std::map<std::string, std::string> env = {
        {"RDMAV_DRIVERS", run::make_drivers_variable()},
        {"COHERDMA_OBSERVERS", run::make_observers_variable(observers)},
        {"COHERDMA_CHECK_LOG", log_folder + "/%p.json"},
        {"COHERDMA_CHECK_LIMIT", std::to_string(opts.limit)},
        {"COHERDMA_CHECK_EXIT", ""}, // unset
        {"COHERDMA_CHECK_OPTIONS", observer_options(opts)},
    };
    if (!opts.suppressions_file.empty())
        env["COHERDMA_CHECK_SUPPRESS"] = std::filesystem::absolute(opts.suppressions_file);
    return env;
}

void print_warnings(const run_result &result) {
    if (!result.was_checked())
        fmt::print(stderr, "coherdma: nothing was checked: no process of the command opened an "
                           "RDMA device by the system's libibverbs; see: coherdma status\n");
    for (const process &p : result.processes)
        if (!p.complete)
            fmt::print(stderr,
                       "coherdma: process {} ended without a summary, so findings can be missing; "
                       "have it end by exit\n",
                       p.pid);
}

/// The command's status if it is not 0; else depends on findings, and on whether anything was
/// checked.
int exit_status(const run_result &result, const check_options &opts) {
    if (result.status != SUCCESS)
        return result.status;
    if (!result.was_checked())
        return NOT_AVAILABLE;
    return result.num_errors() + result.num_warnings() != 0 || !result.has_all_summaries()
               ? opts.findings_status
               : SUCCESS;
}

/// Returns the exit status.
int run_checked(const check_options &opts, const std::vector<std::string> &command) {
    const run::temp_folder log_folder("coherdma-check");
    const run::signal_forwarder forwarder;
    auto env = observer_environment(opts, log_folder.path());
    env.merge(sanitizer_environment(command));
    const std::vector<std::string> started =
        opts.gdb ? debugger_command(command, opts.protect, log_folder.path(), env) : command;
    std::vector<std::string> args = run::lab_command_prefix(opts.location, NEED, log_folder.path());
    if (!args.empty())
        args.emplace_back("--");
    args.insert(args.end(), started.begin(), started.end());
    run::output_file log(opts.log_file), output(opts.output_file), html(opts.html_file);

    run_result result;
    result.status = run::run_command(args, env);
    read_logs(log_folder.path(), result);
    print_warnings(result);
    const int status = exit_status(result, opts);
    const std::string text = opts.json ? as_json(result, command, status) : as_table(result);
    if (!output.exists())
        std::fputs(text.c_str(), stdout);
    output.write(text);
    for (const auto &finding : result.findings)
        log.write(finding.json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
                  "\n");
    if (html.exists())
        html.write(as_html(result, command));
    for (run::output_file *file : {&output, &log, &html})
        file->flush();
    return status;
}

std::string check_kind(const std::string &name) {
    return explain_kind(name).empty()
               ? "'" + name + "' is no kind of finding; next: coherdma check --list"
               : "";
}

int run_subcommand(const check_options &opts, const cli::command &command) {
    if (opts.list || !opts.explained_kind.empty()) {
        std::fputs((opts.list ? list_kinds() : explain_kind(opts.explained_kind)).c_str(), stdout);
        return SUCCESS;
    }
    try {
        return run_checked(opts, run::build_arguments("check", opts.program, command.remaining()));
    } catch (const run::not_available_error &e) {
        fmt::print(stderr, "coherdma: {}\n", e.what());
        return NOT_AVAILABLE;
    }
}

} // namespace
} // namespace check

void add_check(cli::command &program, int &status) {
    auto command = program.add_subcommand("check", "Run a program and report its misuse of verbs");
    const auto opts = std::make_shared<check::check_options>();
    command.add_option("--suppress", opts->suppressions_file, "Known findings, not to be reported")
        .check(run::check_readable)
        .type_name("FILE");
    command.add_flag("--leaks", opts->leaks, "Also report objects that are left at exit");
    command.add_flag("--ownership", opts->ownership, "Also check who uses the memory of requests");
    command.add_flag("--protect", opts->protect,
                     "The same, and protect pages of it from the program");
    command.add_flag("--late", opts->late,
                     "As --ownership, over devices that deliver and take data late");
    command.add_flag("--no-stacks", opts->no_stacks, "Faster: no call stacks of posted requests");
    command.add_flag("--no-fill", opts->no_fill,
                     "Leave undefined members of completions as they are");
    command
        .add_option("--as", opts->device_family,
                    "Also report what devices of this driver refuse: mlx5 or efa")
        .is_member({"mlx5", "efa"})
        .type_name("NAME");
    command.add_flag("--distinct-keys", opts->distinct_keys,
                     "Give the program lkeys that differ from the rkeys");
    command.add_flag("--gdb", opts->gdb, "Run it in gdb, which stops at each finding");
    command
        .add_option("--limit", opts->limit, "Reports of one finding at one place; more are counted")
        .range(1, check::MAX_LIMIT)
        .capture_default_str()
        .type_name("N");
    command.add_option("--status", opts->findings_status, "Exit status if there are findings (1)")
        .range(0, check::MAX_STATUS)
        .type_name("N");
    command.add_flag("--json,-j", opts->json, "Print the report as JSON");
    command.add_option("--output", opts->output_file, "Write the report to this file")
        .type_name("FILE");
    command
        .add_option("--html", opts->html_file,
                    "Write the report as a page, with each object's history")
        .type_name("FILE");
    command.add_option("--log", opts->log_file, "Write each finding as a line of JSON")
        .type_name("FILE");
    run::add_location_options(command, opts->location, "Use this machine's devices, never the lab",
                              "Use the lab even if there is a device");
    command.add_option("--explain", opts->explained_kind, "Explain a kind of finding, or all")
        .check(check::check_kind)
        .type_name("KIND");
    command.add_flag("--list", opts->list, "List the kinds of findings");
    command.add_option("COMMAND", opts->program, "Command to run, with its arguments")
        .type_name("[ARGUMENT...]")
        .allow_extra_args(false);
    command.prefix_command();
    command.footer("Exit status: COMMAND's; if that is 0: 0 no findings, 1 findings, 77 nothing\n"
                   "was checked. See coherdma-check(1).");
    command.callback([command, opts, &status] { status = check::run_subcommand(*opts, command); });
}

} // namespace tools
