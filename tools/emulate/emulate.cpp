// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// coherdma emulate: runs a command in each mode with its soft devices emulated as non-coherent
// ones, and reports the findings.

#include "coherency/config.hpp"
#include "command.hpp"
#include "emulate/log.hpp"
#include "emulate/report.hpp"
#include "run/location.hpp"
#include "run/run.hpp"
#include "run/session.hpp"

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fmt/core.h>
#include <memory>
#include <stdexcept>

namespace tools {
namespace {

using namespace emulate;
using namespace run;
namespace fs = std::filesystem;

struct emulate_options {
    std::vector<std::string> modes{"stale"}, options;
    std::string line_size, local_buffers, log_file, output_file, html_file, suppressions_file;
    location_options location;
    int findings_status = FAILED; ///< exit status if there are findings
    bool only_certain = false;
    bool json = false;
    std::string program; ///< COMMAND without its arguments
};

/// "all" stands for the modes that find a missing sync.
std::vector<std::string> expand_modes(const emulate_options &opts) {
    std::vector<std::string> modes;
    for (const std::string &mode : opts.modes) {
        if (mode == "all")
            modes.insert(modes.end(), {"stale", "poison", "evict:1", "evict:2", "evict:3"});
        else
            modes.push_back(mode);
    }
    return modes;
}

std::string join(const std::vector<std::string> &parts) {
    std::string text;
    for (const std::string &part : parts)
        text += (text.empty() ? "" : ",") + part;
    return text;
}

constexpr device_need NEED = {
    .subcommand = "emulate", .device = "soft device (rxe, siw)", .is_met = has_soft_device};

/// Runs the command once in each mode and writes the reports.
class session {
  public:
    session(const emulate_options &opts, const std::vector<std::string> &command)
        : opts_(opts)
        , command_(command)
        , drivers_(make_drivers_variable())
        , prefix_(lab_command_prefix(opts.location, NEED, log_folder_.path()))
        , log_(opts.log_file)
        , output_(opts.output_file)
        , html_(opts.html_file) {}

    /// Returns the exit status.
    int run_all() {
        const std::vector<std::string> modes = expand_modes(opts_);
        for (auto mode = modes.begin(); mode != modes.end() && stop_signal() == 0; ++mode)
            run_mode(*mode);
        const int status =
            runs_.size() < modes.size() ? SIGNAL_STATUS_BASE + stop_signal() : exit_status();
        const std::string text = opts_.json ? as_json(runs_, status) : as_table(runs_);
        if (!output_.exists())
            std::fputs(text.c_str(), stdout);
        output_.write(text);
        if (html_.exists())
            html_.write(as_html(runs_, command_));
        for (output_file *file : {&output_, &log_, &html_})
            file->flush();
        return status;
    }

  private:
    /// The signal that ends all runs, or 0. In the lab only the command receives a Ctrl-C.
    int stop_signal() const {
        if (signal_forwarder::last_signal() != 0)
            return signal_forwarder::last_signal();
        return !runs_.empty() && runs_.back().status == SIGNAL_STATUS_BASE + SIGINT ? SIGINT : 0;
    }

    void run_mode(const std::string &mode) {
        const std::string run_folder = fmt::format("{}/{}", log_folder_.path(), runs_.size());
        fs::create_directory(run_folder);
        std::map<std::string, std::string> env = {
            {"RDMAV_DRIVERS", drivers_},
            {"COHERDMA_EMULATE", mode},
            {"COHERDMA_EMULATE_LOG", run_folder + "/%p.json"},
            {"COHERDMA_EMULATE_EXIT", ""}, // keeps the exit status of each process
        };
        if (!opts_.line_size.empty())
            env["COHERDMA_EMULATE_LINE"] = opts_.line_size;
        if (!opts_.local_buffers.empty())
            env["COHERDMA_EMULATE_LOCAL_BUFFERS"] = opts_.local_buffers;
        std::vector<std::string> options = opts_.options;
        if (opts_.only_certain)
            options.emplace_back("certain");
        if (!options.empty())
            env["COHERDMA_EMULATE_OPTIONS"] = join(options);
        if (!opts_.suppressions_file.empty())
            env["COHERDMA_EMULATE_SUPPRESS"] = fs::absolute(opts_.suppressions_file);
        run_result result;
        result.emulation_mode = mode;
        result.status = run_command(build_command(), env);
        read_logs(run_folder, result);
        for (nlohmann::ordered_json finding : result.findings) {
            finding["mode"] = mode;
            log_.write(finding.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
                       "\n");
        }
        runs_.push_back(std::move(result));
    }

    /// softrdma's notes are the same for each run: print them once.
    std::vector<std::string> build_command() const {
        std::vector<std::string> command = prefix_;
        if (!prefix_.empty() && !runs_.empty())
            command.emplace_back("-q");
        if (!prefix_.empty())
            command.emplace_back("--");
        command.insert(command.end(), command_.begin(), command_.end());
        return command;
    }

    /// The command's status if it is not 0; else depends on findings, and on whether anything was
    /// emulated.
    int exit_status() const {
        int command_status = SUCCESS;
        bool has_findings = false, is_unemulated = false;
        for (const run_result &result : runs_) {
            command_status = command_status == SUCCESS ? result.status : command_status;
            has_findings =
                has_findings || result.num_findings() != 0 || !result.has_all_summaries();
            is_unemulated = is_unemulated || !result.was_emulated();
            print_warnings(result);
        }
        if (command_status != SUCCESS)
            return command_status;
        if (has_findings)
            return opts_.findings_status;
        return is_unemulated ? NOT_AVAILABLE : SUCCESS;
    }

    static void print_warnings(const run_result &result) {
        if (!result.was_emulated())
            fmt::print(stderr,
                       "coherdma: {}: nothing was emulated: no process of the command opened an "
                       "RDMA device by the system's libibverbs; see: coherdma status\n",
                       result.emulation_mode);
        for (const process &p : result.processes)
            if (!p.complete)
                fmt::print(stderr,
                           "coherdma: {}: process {} ended without a summary, so findings can be "
                           "missing; have it end by exit\n",
                           result.emulation_mode, p.pid);
    }

    const signal_forwarder forwarder_;
    const emulate_options &opts_;
    const std::vector<std::string> &command_;
    const std::string drivers_;
    const temp_folder log_folder_{"coherdma-emulate"};
    const std::vector<std::string> prefix_;
    output_file log_, output_, html_;
    std::vector<run_result> runs_;
};

std::string check_mode(const std::string &text) {
    coherdma::coherency::emulation_mode parsed;
    if (text == "all" ||
        (coherdma::coherency::parse_emulation_mode(text, parsed) && parsed.name != "off"))
        return "";
    return "'" + text + "' is not stale, poison, evict:SEED, passthrough or all";
}

int run_session(const emulate_options &opts, const std::vector<std::string> &args) {
    try {
        return session(opts, args).run_all();
    } catch (const not_available_error &e) {
        fmt::print(stderr, "coherdma: {}\n", e.what());
        return NOT_AVAILABLE;
    }
}

} // namespace

void add_emulate(cli::command &program, int &status) {
    auto command = program.add_subcommand(
        "emulate", "Run a program with its RDMA devices emulated as non-coherent");
    const auto opts = std::make_shared<emulate_options>();
    auto add_list = [&](const char *name, std::vector<std::string> &values,
                        const char *description) {
        return command.add_option(name, values, description).delimiter(',').allow_extra_args(false);
    };
    add_list("--mode,-m", opts->modes, "stale, poison, evict:SEED, passthrough, all (but the last)")
        .check(check_mode)
        .type_name("MODE");
    command.add_option("--line", opts->line_size, "Cache line size: 32, 64, 128 or 256")
        .is_member({"32", "64", "128", "256"})
        .type_name("N");
    command
        .add_option("--local-buffers", opts->local_buffers,
                    "Who syncs local buffers: provider (default), program")
        .is_member({"provider", "program"})
        .type_name("WORD");
    add_list("--option,-o", opts->options,
             "redundant, strict, certain, nostacks, linux-pre-7.0-dereg")
        .is_member({"redundant", "strict", "certain", "nostacks", "linux-pre-7.0-dereg"})
        .type_name("WORD");
    command.add_flag("--only-certain", opts->only_certain, "The same as --option certain");
    command.add_option("--suppress", opts->suppressions_file, "Known findings, not to be reported")
        .check(check_readable)
        .type_name("FILE");
    command.add_option("--status", opts->findings_status, "Exit status if there are findings (1)")
        .range(0, 255)
        .type_name("N");
    command.add_flag("--json,-j", opts->json, "Print the report as JSON");
    command.add_option("--output", opts->output_file, "Write the report to this file")
        .type_name("FILE");
    command
        .add_option("--html", opts->html_file,
                    "Write the report as a page, with each line's history")
        .type_name("FILE");
    command.add_option("--log", opts->log_file, "Write each finding as a line of JSON")
        .type_name("FILE");
    add_location_options(command, opts->location, "Use this machine's devices, also real ones",
                         "Use the lab even if there is a soft device");
    command.add_option("COMMAND", opts->program, "Command to run, with its arguments")
        .required()
        .type_name("[ARGUMENT...]")
        .allow_extra_args(false);
    command.prefix_command();
    command.footer("Exit status: COMMAND's; if that is 0: 0 no findings, 1 findings, 77 nothing\n"
                   "was emulated. See coherdma-emulate(7).");
    command.callback([command, opts, &status] {
        status = run_session(*opts, build_arguments("emulate", opts->program, command.remaining()));
    });
}

} // namespace tools
