// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// coherdma fault: runs a command in which calls and requests fail.

#include "command.hpp"
#include "fault/fail_each.hpp"
#include "fault/log.hpp"
#include "fault/machine_actions.hpp"
#include "fault/report.hpp"
#include "faults/device_limits.hpp"
#include "faults/names.hpp"
#include "faults/scenario.hpp"
#include "run/location.hpp"
#include "run/run.hpp"
#include "run/session.hpp"
#include "text.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fmt/core.h>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <sstream>

namespace tools {
namespace fault {
namespace {

namespace fs = std::filesystem;
using coherdma::faults::parse_scenario;

constexpr const char *OBSERVER_FILE = "libcoherdma-fault.so";
constexpr int DEFAULT_LIMIT = 60, MAX_LIMIT = 86400; // seconds

constexpr run::device_need NEED = {
    .subcommand = "fault", .device = "RDMA device", .is_met = run::has_device};

struct fault_options {
    std::string scenario_file, only_program, output_file;
    std::string errors; ///< of --fail-each, separated by commas
    std::uint64_t seed = 0;
    bool has_seed = false, fail_each = false, json = false, list = false;
    bool acts = false; ///< this process does what a scenario does to the machine
    int limit_seconds = DEFAULT_LIMIT;
    run::location_options location;
    std::string scenario; ///< with --file or --fail-each: COMMAND without its arguments
    std::string program;  ///< COMMAND without its arguments; with those: its first argument
};

std::map<std::string, std::string> observer_environment(const std::string &log_folder) {
    return {
        {"RDMAV_DRIVERS", run::make_drivers_variable()},
        {"COHERDMA_OBSERVERS",
         run::make_observers_variable({OBSERVER_FILE}, run::observer_place::LAST)},
        {"COHERDMA_FAULT_LOG", log_folder + "/%p.json"},
        {"COHERDMA_FAULTS", ""}, // unset, as are the following
        {"COHERDMA_FAULT_SEED", ""},
        {"COHERDMA_FAULT_PROGRAM", ""},
        {"COHERDMA_FAULT_OPTIONS", ""},
    };
}

/// Runs commands at the place that the options say, with a folder for the logs.
class runner {
  public:
    explicit runner(const fault_options &opts)
        : prefix_(run::lab_command_prefix(opts.location, NEED, folder_.path())) {
        if (!prefix_.empty())
            prefix_.emplace_back("--");
    }

    [[nodiscard]] const std::string &folder() const noexcept { return folder_.path(); }

    /// Returns its status, and what its processes have logged. Of the environment, what is given is
    /// added to the observer's.
    int run(const std::vector<std::string> &command, const std::map<std::string, std::string> &env,
            run_log &log) {
        for (const auto &entry : fs::directory_iterator(folder()))
            fs::remove_all(entry);
        auto all_env = observer_environment(folder());
        for (const auto &[name, value] : env)
            all_env[name] = value;
        std::vector<std::string> args = prefix_;
        args.insert(args.end(), command.begin(), command.end());
        const int status = run::run_command(args, all_env);
        log = read_logs(folder());
        return status;
    }

  private:
    const run::temp_folder folder_{"coherdma-fault"};
    std::vector<std::string> prefix_;
};

/// The scenario may have come from a file; a tab keeps its width.
std::string make_printable_lines(std::string text) {
    for (char &c : text)
        if (c != '\n' && c != '\t' && static_cast<unsigned char>(c) < ' ')
            c = '?';
    return text;
}

[[noreturn]] void refuse_scenario(const coherdma::faults::scenario_error &error,
                                  const std::string &text, const std::string &file) {
    std::fputs(make_printable_lines(coherdma::faults::point_at(error, text)).c_str(), stderr);
    throw cli::usage_error(file.empty() ? fmt::format("fault: {}", make_printable(error.what()))
                                        : fmt::format("fault: {}:{}:{}: {}", file, error.line,
                                                      error.column, make_printable(error.what())));
}

int exit_status(const run_report &report) {
    if (report.status != SUCCESS)
        return report.status;
    return report.log.has_effect() ? SUCCESS : NOT_AVAILABLE;
}

void print_warnings(const run_log &log) {
    if (!log.has_device())
        fmt::print(stderr, "coherdma: no fault was made: no process of the command opened an RDMA "
                           "device by the system's libibverbs; see: coherdma status\n");
    else if (!log.has_effect())
        fmt::print(stderr,
                   "coherdma: no fault was made: the command did not come to what they name\n");
}

void print(run::output_file &output, const std::string &text) {
    if (!output.exists())
        std::fputs(text.c_str(), stdout);
    output.write(text);
    output.flush();
}

/// Throws usage_error: it goes by the environment of the command.
void check_size(const fault_options &opts, const std::string &scenario) {
    constexpr std::size_t MAX_SIZE = 100'000; // execve() takes 128 KiB in one variable
    const std::string name = opts.scenario_file.empty() ? "SCENARIO" : opts.scenario_file;
    if (scenario.size() > MAX_SIZE)
        throw cli::usage_error(
            fmt::format("fault: {}: a scenario may have {} bytes", name, MAX_SIZE));
    if (scenario.find('\0') != std::string::npos)
        throw cli::usage_error(fmt::format("fault: {}: the file has a zero byte", name));
}

/// Exits if the scenario is wrong.
std::vector<coherdma::faults::fault> read_faults(const fault_options &opts,
                                                 const std::string &scenario) {
    try {
        return parse_scenario(scenario);
    } catch (const coherdma::faults::scenario_error &error) {
        refuse_scenario(error, scenario, opts.scenario_file);
    }
}

/// Each once.
std::vector<std::string> texts_of(const std::vector<coherdma::faults::fault> &faults) {
    std::vector<std::string> texts;
    for (const coherdma::faults::fault &each : faults)
        if (std::find(texts.begin(), texts.end(), each.text) == texts.end())
            texts.push_back(each.text);
    return texts;
}

/// The command, started by a process that does what the scenario does to the machine: this one may
/// be outside of the lab.
std::vector<std::string> acting(const std::vector<std::string> &command) {
    // The word for SCENARIO has no meaning: the environment has it.
    std::vector<std::string> args = {fs::read_symlink("/proc/self/exe"), "fault", "--act", "-",
                                     "--"};
    args.insert(args.end(), command.begin(), command.end());
    return args;
}

/// Of the process that does it: the environment has the scenario, and the folder of the logs.
/// Returns the status of the command.
int run_acting(const std::vector<std::string> &command) {
    const char *const scenario = std::getenv("COHERDMA_FAULTS");
    const char *const log_file = std::getenv("COHERDMA_FAULT_LOG");
    if (scenario == nullptr || log_file == nullptr)
        throw cli::usage_error("fault: --act is for coherdma fault itself");
    const run::signal_forwarder forwarder;
    const machine_actions actions(parse_scenario(scenario), fs::path(log_file).parent_path());
    return run::run_command(command, {});
}

/// Returns the exit status.
int run_scenario(const fault_options &opts, const std::string &scenario,
                 const std::vector<std::string> &command) {
    run_report report;
    check_size(opts, scenario);
    const std::vector<coherdma::faults::fault> faults = read_faults(opts, scenario);
    report.faults = texts_of(faults);
    report.seed = opts.has_seed ? opts.seed : std::random_device{}();
    run::output_file output(opts.output_file);
    runner place(opts);
    const run::signal_forwarder forwarder;
    const bool has_acts =
        std::any_of(faults.begin(), faults.end(),
                    [](const coherdma::faults::fault &each) { return each.is_of_machine(); });
    report.status = place.run(has_acts ? acting(command) : command,
                              {{"COHERDMA_FAULTS", scenario},
                               {"COHERDMA_FAULT_SEED", std::to_string(report.seed)},
                               {"COHERDMA_FAULT_PROGRAM", opts.only_program}},
                              report.log);
    print_warnings(report.log);
    report.status = exit_status(report);
    print(output, opts.json ? as_json(report, command) : as_text(report));
    return report.status;
}

/// The command with a limit of its time. The folder gets its output in the file "output", and in
/// "status" its exit status, or "timeout". timeout(1) has a process group of its own, to end all
/// processes of the command: a signal that comes from the terminal does not reach it otherwise. The
/// shell in it stays until the command has ended, so that one which goes on after SIGTERM is
/// killed. The scripts have no variables: the command would see them.
std::vector<std::string> limited(const std::vector<std::string> &command, int seconds,
                                 const std::string &folder) {
    constexpr const char *SCRIPT = R"(
trap 'kill "$!"' HUP INT QUIT TERM
timeout --kill-after=5 "$@" 2>/dev/null &
wait "$!" 2>/dev/null
wait "$!" 2>/dev/null
[ -s "$0/status" ] || echo timeout >"$0/status"
)",
                         *INNER_SCRIPT = R"(
trap exit TERM
"$@" >"$0/output" 2>&1 </dev/null
echo $? >"$0/status"
)";
    std::vector<std::string> args = {"sh", "-c", SCRIPT,       folder, std::to_string(seconds),
                                     "sh", "-c", INNER_SCRIPT, folder};
    args.insert(args.end(), command.begin(), command.end());
    return args;
}

std::string last_line_of(const std::string &folder) {
    std::error_code error;
    if (!fs::exists(folder + "/output", error))
        return "";
    std::string text = run::read_file(folder + "/output");
    while (!text.empty() && text.back() == '\n')
        text.pop_back();
    return make_printable(text.substr(text.rfind('\n') + 1));
}

/// The runs of --fail-each.
class trial_runner {
  public:
    explicit trial_runner(const fault_options &opts, const std::vector<std::string> &command)
        : place_(opts)
        , args_(limited(command, opts.limit_seconds, place_.folder())) {}

    /// The status of the command; no value: it did not end in time, or a signal came. Throws
    /// not_available_error if it did not begin.
    std::optional<int> run(const std::string &scenario, const std::string &program, run_log &log) {
        const int status = place_.run(args_,
                                      {{"COHERDMA_FAULTS", scenario},
                                       {"COHERDMA_FAULT_PROGRAM", program},
                                       {"COHERDMA_FAULT_OPTIONS", "calls"}},
                                      log);
        if (run::signal_forwarder::last_signal() != 0)
            return std::nullopt;
        const std::string file = place_.folder() + "/status";
        std::error_code error;
        if (!fs::exists(file, error))
            throw run::not_available_error(
                fmt::format("the command did not run to its end (status {})", status));
        const std::string text = run::read_file(file);
        int ended_with = 0;
        const auto [end, problem] =
            std::from_chars(text.data(), text.data() + text.size(), ended_with);
        return problem == std::errc{} ? std::optional<int>(ended_with) : std::nullopt;
    }
    [[nodiscard]] std::string last_line() const { return last_line_of(place_.folder()); }

  private:
    runner place_;
    std::vector<std::string> args_;
};

/// Throws usage_error.
std::vector<std::string> parse_errors(const std::string &list) {
    std::vector<std::string> errors;
    std::istringstream words(list);
    for (std::string error; std::getline(words, error, ',');) {
        if (coherdma::faults::find_errno(error) == 0)
            throw cli::usage_error(
                fmt::format("fault: --errors: '{}' is no error number such as ENOMEM", error));
        errors.push_back(error);
    }
    return errors;
}

/// Returns the trials that were made: not all, if a signal comes or the lab cannot start.
std::vector<trial> run_trials(std::vector<trial> planned, trial_runner &runs,
                              const run_log &without_fault) {
    std::vector<trial> made;
    for (trial &tried : planned) {
        fmt::print(stderr, "coherdma: {} of {}: {}\n", made.size() + 1, planned.size(),
                   tried.scenario());
        run_log log;
        std::optional<int> status;
        try {
            status = runs.run(tried.scenario(), tried.program, log);
        } catch (const run::not_available_error &e) {
            fmt::print(stderr, "coherdma: {}; the other calls are not tried\n", e.what());
            break;
        }
        if (run::signal_forwarder::last_signal() != 0)
            break;
        tried.last_line = runs.last_line();
        classify(tried, status, log, without_fault);
        made.push_back(std::move(tried));
    }
    return made;
}

/// Returns the exit status.
int fail_each_call(const fault_options &opts, const std::vector<std::string> &command) {
    const std::vector<std::string> errors = parse_errors(opts.errors);
    run::output_file output(opts.output_file);
    trial_runner runs(opts, command);
    const run::signal_forwarder forwarder;
    const auto status_of_signal = [] {
        const int signal = run::signal_forwarder::last_signal();
        return signal != 0 ? run::SIGNAL_STATUS_BASE + signal : SUCCESS;
    };
    run_log without_fault;
    const std::optional<int> status_without_fault = runs.run("", opts.only_program, without_fault);
    if (const int status = status_of_signal(); status != SUCCESS)
        return status;
    if (status_without_fault != SUCCESS) {
        fmt::print(stderr, "coherdma: without a fault the command {}: {}\n",
                   status_without_fault
                       ? fmt::format("ends with status {}", *status_without_fault)
                       : fmt::format("does not end in {} s (--limit)", opts.limit_seconds),
                   runs.last_line());
        return FAILED;
    }
    const std::vector<trial> planned = plan_trials(without_fault, errors);
    if (planned.empty()) {
        print_warnings(without_fault);
        return NOT_AVAILABLE;
    }
    const std::vector<trial> trials = run_trials(planned, runs, without_fault);
    const bool has_bad = std::any_of(trials.begin(), trials.end(),
                                     [](const trial &tried) { return tried.is_bad(); });
    const int signal = status_of_signal();
    const bool has_all = trials.size() == planned.size();
    const int status = signal != SUCCESS ? signal : has_bad || !has_all ? FAILED : SUCCESS;
    print(output, opts.json ? as_json(trials, command, status) : as_text(trials));
    return status;
}

std::string list_names() {
    const std::string requests = "request, send, write, read, atomic, receive";
    std::string statuses, calls, events, limits;
    for (const std::string &name : coherdma::faults::all_limit_names())
        limits += (limits.empty() ? "" : ", ") + name;
    for (const std::string &name : coherdma::faults::all_event_names())
        events += (events.empty() ? "" : ", ") + name;
    for (const std::string &name : coherdma::faults::all_status_names())
        statuses += (statuses.empty() ? "" : ", ") + name;
    for (const coherdma::faults::failing_call &call : coherdma::faults::all_calls())
        calls += (calls.empty() ? "" : ", ") + std::string(call.name);
    return format_entry("Requests", {requests}) + format_entry("Statuses", {statuses}) +
           format_entry("Calls", {calls}) + format_entry("Events", {events}) +
           format_entry("Limits", {limits});
}

/// Of a command line that has COMMAND in the place of SCENARIO.
std::vector<std::string> command_without_scenario(const fault_options &opts,
                                                  const cli::command &command) {
    if (opts.program.empty())
        return run::build_arguments("fault", opts.scenario, command.remaining());
    std::vector<std::string> args =
        run::build_arguments("fault", opts.program, command.remaining());
    args.insert(args.begin(), opts.scenario);
    return args;
}

int run_subcommand(const fault_options &opts, const cli::command &command) {
    if (opts.list) {
        std::fputs(list_names().c_str(), stdout);
        return SUCCESS;
    }
    try {
        if (opts.fail_each && !opts.scenario_file.empty())
            throw cli::usage_error("fault: --fail-each has no scenario");
        if (!opts.fail_each && !opts.errors.empty())
            throw cli::usage_error("fault: --errors is for --fail-each");
        if (opts.acts)
            return run_acting(run::build_arguments("fault", opts.program, command.remaining()));
        if (opts.fail_each)
            return fail_each_call(opts, command_without_scenario(opts, command));
        if (!opts.scenario_file.empty())
            return run_scenario(opts, run::read_file(opts.scenario_file),
                                command_without_scenario(opts, command));
        return run_scenario(opts, opts.scenario,
                            run::build_arguments("fault", opts.program, command.remaining()));
    } catch (const run::not_available_error &e) {
        fmt::print(stderr, "coherdma: {}\n", e.what());
        return NOT_AVAILABLE;
    }
}

} // namespace
} // namespace fault

void add_fault(cli::command &program, int &status) {
    auto command =
        program.add_subcommand("fault", "Run a program in which verbs calls and requests fail");
    const auto opts = std::make_shared<fault::fault_options>();
    command.add_option("--file", opts->scenario_file, "Read the scenario from this file")
        .check(run::check_readable)
        .type_name("FILE");
    command.add_option("--seed", opts->seed, "Repeat the random faults of the run with this seed")
        .type_name("N");
    command
        .add_option("--only", opts->only_program, "Only in processes of the program with this name")
        .type_name("NAME");
    command.add_flag("--fail-each", opts->fail_each,
                     "Run COMMAND once for each call that it makes, which fails");
    command
        .add_option("--errors", opts->errors,
                    "With --fail-each: once with each of these, such as ENOMEM,EINTR")
        .type_name("LIST");
    command
        .add_option("--limit", opts->limit_seconds,
                    "With --fail-each: a run that takes longer hangs")
        .range(1, fault::MAX_LIMIT)
        .capture_default_str()
        .type_name("SECONDS");
    command.add_flag("--json,-j", opts->json, "Print the report as JSON");
    command.add_option("--output", opts->output_file, "Write the report to this file")
        .type_name("FILE");
    command.add_flag("--act", opts->acts, "Of coherdma fault itself").hide();
    run::add_location_options(command, opts->location, "Use this machine's devices, never the lab",
                              "Use the lab even if there is a device");
    command.add_flag("--list", opts->list, "List what a scenario can name");
    command
        .add_option("SCENARIO", opts->scenario,
                    "Such as \"every 100th write fails retry_exc\"; none with --file or\n"
                    "--fail-each")
        .allow_extra_args(false);
    command.add_option("COMMAND", opts->program, "After --: command to run, with its arguments")
        .type_name("[ARGUMENT...]")
        .allow_extra_args(false);
    command.prefix_command();
    command.footer("Exit status: COMMAND's; if that is 0: 0 a fault was made, 77 none was.\n"
                   "With --fail-each: 0, or 1 for a crash or a hang. See coherdma-fault(1).");
    command.callback([command, opts, &status] {
        opts->has_seed = command.count("--seed") != 0;
        status = fault::run_subcommand(*opts, command);
    });
}

} // namespace tools
