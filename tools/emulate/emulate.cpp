// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// coherdma emulate: runs a command with its soft devices played as non-coherent ones, once in each
// mode, and tells what was found.

#include "coherency/config.hpp"
#include "command.hpp"
#include "emulate/log.hpp"
#include "emulate/place.hpp"
#include "emulate/report.hpp"
#include "emulate/run.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <memory>
#include <stdexcept>

namespace tools {
namespace {

using namespace emulate;
namespace fs = std::filesystem;

struct request {
    std::vector<std::string> modes{"stale"}, options;
    std::string line, log, output, suppress, driver = "rxe";
    int status = FAILED;
    bool json = false, here = false, lab = false;
    std::string program;
};

/// `all` is what a program that forgets a sync should be run in.
std::vector<std::string> modes_of(const request &asked) {
    std::vector<std::string> all;
    for (const std::string &each : asked.modes) {
        if (each == "all")
            all.insert(all.end(), {"stale", "poison", "evict:1", "evict:2", "evict:3"});
        else
            all.push_back(each);
    }
    return all;
}

std::string joined(const std::vector<std::string> &all) {
    std::string text;
    for (const std::string &each : all)
        text += (text.empty() ? "" : ",") + each;
    return text;
}

/// What there is to be written is begun, so that what cannot be written is known before the runs.
std::ofstream opened(const std::string &name) {
    std::ofstream file;
    if (!name.empty())
        file.open(name, std::ios::trunc);
    if (!file)
        throw std::runtime_error("cannot write " + name + ": " + std::strerror(errno));
    return file;
}

/// What comes before the command; {}: it runs here.
std::vector<std::string> lab_for(const request &asked, const std::string &logs) {
    if (!asked.lab && !soft_device().empty())
        return {};
    if (asked.here)
        throw cannot_here("there is no soft device (rxe, siw) here; next: sudo softrdma up, or "
                          "without --here");
    const std::string program = softrdma();
    fmt::print(stderr, "coherdma: {}; in the lab: softrdma run --driver {}\n",
               asked.lab ? "as --lab wants" : "there is no soft device (rxe, siw) here",
               asked.driver);
    return {program, "run", "--driver", asked.driver, "--write", logs};
}

class session {
  public:
    session(const request &asked, const std::vector<std::string> &command)
        : asked_(asked)
        , command_(command)
        , drivers_(drivers())
        , before_(lab_for(asked, logs_.path()))
        , log_(opened(asked.log))
        , output_(opened(asked.output)) {}

    int all_runs() {
        const std::vector<std::string> modes = modes_of(asked_);
        for (auto next = modes.begin(); next != modes.end() && stopped() == 0; ++next)
            run_in(*next);
        const int status = done_.size() < modes.size() ? BY_SIGNAL + stopped() : verdict();
        const std::string text = asked_.json ? as_json(done_, status) : as_table(done_);
        if (asked_.output.empty())
            std::fputs(text.c_str(), stdout);
        else if (!(output_ << text).flush())
            throw std::runtime_error("cannot write " + asked_.output);
        if (!asked_.log.empty() && !log_.flush())
            throw std::runtime_error("cannot write " + asked_.log);
        return status;
    }

  private:
    /// The signal that ends all runs; 0: none. In the lab a Ctrl-C reaches the command alone.
    int stopped() const {
        if (forwarding::caught() != 0)
            return forwarding::caught();
        return !done_.empty() && done_.back().status == BY_SIGNAL + SIGINT ? SIGINT : 0;
    }

    void run_in(const std::string &mode) {
        const std::string folder = fmt::format("{}/{}", logs_.path(), done_.size());
        fs::create_directory(folder);
        std::map<std::string, std::string> more = {
            {"RDMAV_DRIVERS", drivers_},
            {"COHERDMA_EMULATE", mode},
            {"COHERDMA_EMULATE_LOG", folder + "/%p.json"},
            {"COHERDMA_EMULATE_EXIT", ""}, // the status of each process is its own
        };
        if (!asked_.line.empty())
            more["COHERDMA_EMULATE_LINE"] = asked_.line;
        if (!asked_.options.empty())
            more["COHERDMA_EMULATE_OPTIONS"] = joined(asked_.options);
        if (!asked_.suppress.empty())
            more["COHERDMA_EMULATE_SUPPRESS"] = fs::absolute(asked_.suppress);
        run_result now;
        now.mode = mode;
        now.status = run(words(), more);
        read_logs(folder, now);
        for (nlohmann::ordered_json each : now.findings) {
            each["mode"] = mode;
            log_ << each.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
        }
        done_.push_back(std::move(now));
    }

    /// The lab has its notes for the first run only: they are always the same.
    std::vector<std::string> words() const {
        std::vector<std::string> all = before_;
        if (!before_.empty() && !done_.empty())
            all.emplace_back("-q");
        if (!before_.empty())
            all.emplace_back("--");
        all.insert(all.end(), command_.begin(), command_.end());
        return all;
    }

    /// The command's own status; else whether there were findings; else whether anything was looked
    /// at: what nobody has looked at is not right.
    int verdict() const {
        int own = DONE;
        bool found = false, unseen = false;
        for (const run_result &each : done_) {
            own = own == DONE ? each.status : own;
            found = found || each.count() != 0 || !each.complete();
            unseen = unseen || !each.played();
            warn(each);
        }
        if (own != DONE)
            return own;
        if (found)
            return asked_.status;
        return unseen ? CANNOT_HERE : DONE;
    }

    static void warn(const run_result &run) {
        if (!run.played())
            fmt::print(stderr,
                       "coherdma: {}: nothing was emulated: no process of the command has opened "
                       "an rxe or siw device by coherdma's provider; see: coherdma status\n",
                       run.mode);
        for (const process &each : run.processes)
            if (!each.complete)
                fmt::print(stderr,
                           "coherdma: {}: process {} was ended before it could tell all: let it "
                           "end by exit\n",
                           run.mode, each.pid);
    }

    const forwarding to_the_command_;
    const request &asked_;
    const std::vector<std::string> &command_;
    const std::string drivers_;
    const folder logs_;
    const std::vector<std::string> before_;
    std::ofstream log_, output_;
    std::vector<run_result> done_;
};

std::string why_no_mode(const std::string &text) {
    coherdma::coherency::play said;
    if (text == "all" || (coherdma::coherency::understand(text, said) && said.name != "off"))
        return "";
    return "'" + text + "' is not stale, poison, evict:SEED, through or all";
}

std::string why_no_suppressions(const std::string &name) {
    std::ifstream file(name);
    std::error_code none;
    return file && fs::is_regular_file(name, none) ? "" : "cannot read the file " + name;
}

/// The arguments as they are: to values of its own CLI11 would do more. It leaves them after the
/// --, and what it does not know before that.
std::vector<std::string> words_of(const std::string &program,
                                  const std::vector<std::string> &rest) {
    if (program.empty())
        throw CLI::RequiredError("emulate: COMMAND");
    if (!rest.empty() && rest.front() != "--")
        throw CLI::ParseError("emulate: " + rest.front() +
                                  " is none of its options; before COMMAND "
                                  "write --",
                              CLI::ExitCodes::ExtrasError);
    std::vector<std::string> words = {program};
    if (!rest.empty())
        words.insert(words.end(), rest.begin() + 1, rest.end());
    return words;
}

int emulated(const request &asked, const std::vector<std::string> &words) {
    try {
        return session(asked, words).all_runs();
    } catch (const cannot_here &problem) {
        fmt::print(stderr, "coherdma: {}\n", problem.what());
        return CANNOT_HERE;
    }
}

} // namespace

void add_emulate(CLI::App &program, int &status) {
    CLI::App *command = program.add_subcommand(
        "emulate", "Run a program as if its device did not see the CPU's cache");
    const auto asked = std::make_shared<request>();
    const auto words = [&](const char *name, std::vector<std::string> &into, const char *about) {
        return command->add_option(name, into, about)->delimiter(',')->allow_extra_args(false);
    };
    words("--mode,-m", asked->modes, "stale, poison, evict:SEED, through; all: all but the last")
        ->check(CLI::Validator(why_no_mode, ""))
        ->type_name("MODE");
    command->add_option("--line", asked->line, "Bytes of a line: 32, 64, 128 or 256")
        ->check(CLI::IsMember({"32", "64", "128", "256"}))
        ->type_name("N");
    words("--option,-o", asked->options, "redundant, strict, nostacks, linux-pre-7.0-dereg")
        ->check(CLI::IsMember({"redundant", "strict", "nostacks", "linux-pre-7.0-dereg"}))
        ->type_name("WORD");
    command->add_option("--suppress", asked->suppress, "What is known and not to be told")
        ->check(CLI::Validator(why_no_suppressions, ""))
        ->type_name("FILE");
    command->add_option("--status", asked->status, "Exit status if there are findings (1)")
        ->check(CLI::Range(0, 255))
        ->type_name("N");
    command->add_flag("--json,-j", asked->json, "The report for programs");
    command->add_option("--output", asked->output, "The report, instead of standard output")
        ->type_name("FILE");
    command->add_option("--log", asked->log, "Every finding, as a line of JSON")->type_name("FILE");
    auto *here = command->add_flag("--here", asked->here, "Not in softrdma's lab");
    command->add_flag("--lab", asked->lab, "In the lab, even if there is a soft device")
        ->excludes(here);
    command->add_option("--driver", asked->driver, "Of the lab: rxe, siw or both")
        ->check(CLI::IsMember({"rxe", "siw", "both"}))
        ->type_name("NAME");
    command->add_option("COMMAND", asked->program, "What is run, and with which arguments")
        ->required()
        ->type_name("[ARGUMENT...]")
        ->allow_extra_args(false);
    command->prefix_command();
    command->footer("Exit status: COMMAND's; if that is 0: 0 nothing was found, 1 something was,\n"
                    "77 nothing was emulated. coherdma-emulate(7) tells what it is about.");
    command->callback([command, asked, &status] {
        status = emulated(*asked, words_of(asked->program, command->remaining()));
    });
}

} // namespace tools
