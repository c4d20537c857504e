// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// datping: whether data go there and back over uDAPL, whole, and how fast.

#include "bench/report.hpp"
#include "command.hpp"
#include "dat/output.hpp"
#include "datping/client.hpp"
#include "datping/server.hpp"
#include "datping/stop.hpp"

#include <fmt/format.h>

namespace {

using namespace tools::datping;

std::vector<mode> modes_of(const std::string &name) {
    const std::vector<mode> all{mode::SEND, mode::WRITE, mode::READ, mode::PINGPONG};
    if (name == "all")
        return all;
    for (const mode each : all)
        if (name == name_of(each))
            return {each};
    return {};
}

std::chrono::milliseconds milliseconds(double seconds) {
    return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

CLI::Validator size_check() {
    return CLI::Validator(
        [](std::string &text) {
            try {
                text = std::to_string(tools::bench::size_value(text));
            } catch (const std::invalid_argument &problem) {
                return std::string(problem.what());
            }
            return std::string();
        },
        "");
}

/// What CLI11 puts in words of its own first.
struct raw {
    std::string mode = "pingpong";
    std::int64_t qualifier = 7175, count = 100;
    double interval = 0, timeout = 10;
    bool poll = false, wait = false, verify = false, no_verify = false;
};

void add_options(CLI::App &program, options &asked, raw &given) {
    program.add_option("HOST", asked.host, "The server's address or name")->type_name("");
    program.add_flag("-s,--server", asked.server, "Serve all clients that come");
    program.add_option("-I,--ia", asked.ia, "The IA to use; see datinfo [the one that fits]")
        ->type_name("NAME");
    program.add_option("-p,--qualifier", given.qualifier, "Connection qualifier (port) [7175]")
        ->type_name("QUAL");
    program.add_option("-c,--count", given.count, "Rounds of each mode, 0: until Ctrl-C [100]")
        ->type_name("N");
    program.add_option("-S,--size", asked.size, "Bytes in a round [64]; a server's limit [64M]")
        ->type_name("SIZE")
        ->transform(size_check());
    program.add_option("-m,--mode", given.mode, "send, write, read, pingpong or all [pingpong]")
        ->type_name("MODE");
    program.add_option("-i,--interval", given.interval, "Seconds between rounds [0]")
        ->type_name("S");
    program.add_option("-t,--timeout", given.timeout, "Seconds to wait for the peer [10]")
        ->type_name("S");
    program.add_flag("-V,--verify", given.verify, "Look at every byte [so it does]");
    program.add_flag("--no-verify", given.no_verify, "Only times");
    program.add_flag("--wait", given.wait, "Sleep until an event comes [so it does]");
    program.add_flag("--poll", given.poll, "Ask for events again and again");
    program.add_flag("--once", asked.once, "Serve one client, then end");
    program.add_flag("-v,--verbose", asked.verbose, "A line for each round");
    program.add_flag("-q,--quiet", asked.quiet, "Only what goes wrong");
    program.add_flag("-j,--json", asked.json, "For programs, at the end");
}

[[noreturn]] void misuse(const std::string &words) {
    throw CLI::ValidationError(words, CLI::ExitCodes::ValidationError);
}

/// What depends on more than one word of the command line, or has a range.
void settle(const CLI::App &program, options &asked, const raw &given) {
    if (asked.server == !asked.host.empty())
        misuse(asked.server ? "HOST is for a client, -s for a server" : "HOST is missing, or -s");
    for (const char *each : {"--count", "--mode", "--interval", "--verify", "--no-verify"})
        if (asked.server && program.count(each) > 0)
            misuse(std::string(each) + " is for a client; its server goes by it");
    if (asked.once && !asked.server)
        misuse("--once is for a server; -c 1 is a client's single round");
    if (given.poll && given.wait)
        misuse("--poll excludes --wait");
    if (given.verify && given.no_verify)
        misuse("--no-verify excludes --verify");
    if (given.qualifier < 1)
        misuse("--qualifier: from 1");
    if (given.count < 0)
        misuse("--count: from 0, which is without end");
    if (!(given.interval >= 0 && given.interval <= 86400))
        misuse("--interval: from 0 to 86400 seconds");
    if (!(given.timeout >= 0.1 && given.timeout <= 3600))
        misuse("--timeout: from 0.1 to 3600 seconds");
    asked.modes = modes_of(given.mode);
    if (asked.modes.empty())
        misuse("--mode: send, write, read, pingpong or all, not " + given.mode);
    if (asked.server && program.count("--size") == 0)
        asked.size = std::uint64_t{64} << 20;
    asked.qualifier = static_cast<std::uint64_t>(given.qualifier);
    asked.count = static_cast<std::uint64_t>(given.count);
    asked.interval = milliseconds(given.interval);
    asked.timeout = milliseconds(given.timeout);
    asked.verify = !given.no_verify;
    asked.by = given.poll ? how::POLL : how::WAIT;
}

int serve(const options &asked, std::FILE *out) {
    server_result all;
    server here(asked, all, out);
    here.run();
    if (asked.json)
        fmt::print(out, "{}", as_json(asked, all));
    return all.good() ? tools::DONE : tools::FAILED;
}

int ping(const options &asked, std::FILE *out) {
    client_result all;
    all.host = asked.host;
    int status = tools::FAILED;
    bool tidy = true;
    try {
        tidy = run_client(asked, all, out);
        status = all.good() ? tools::DONE : tools::FAILED;
    } catch (const cannot_here &problem) {
        all.problem = problem.what();
        status = tools::CANNOT_HERE;
    } catch (const std::exception &problem) {
        all.problem = problem.what();
    }
    if (asked.json)
        fmt::print(out, "{}", as_json(asked, all));
    else if (all.connected && !asked.quiet)
        fmt::print(out, "{}", summary(asked, all));
    if (!all.problem.empty())
        fmt::print(stderr, "datping: {}\n", all.problem);
    if (!tidy && std::fflush(nullptr) == 0 && std::ferror(out) == 0)
        std::_Exit(status);
    return status;
}

int run(const options &asked) {
    std::FILE *const out = tools::dat::own_output();
    if (!out) {
        std::perror("datping: cannot write the answer");
        return tools::FAILED;
    }
    listen_for_stop();
    int status = tools::FAILED;
    try {
        status = asked.server ? serve(asked, out) : ping(asked, out);
    } catch (const cannot_here &problem) {
        fmt::print(stderr, "datping: {}\n", problem.what());
        status = tools::CANNOT_HERE;
    } catch (const std::exception &problem) {
        fmt::print(stderr, "datping: {}\n", problem.what());
    }
    if (std::fflush(out) != 0 || std::ferror(out) != 0) {
        std::perror("datping: cannot write the answer");
        status = tools::FAILED;
    }
    return status;
}

} // namespace

int main(int count, char **words) {
    CLI::App program{"Data there and back over uDAPL: are they whole, and how long does it take?"};
    program.name("datping");
    program.set_version_flag("--version", "datping " COHERDMA_VERSION);
    program.get_formatter()->column_width(25);
    program.footer("Exit status: 0 all data were right, 1 failed, 2 misuse, 77 no IA here.");
    program.get_option("--help")->description("This help");
    program.get_option("--version")->description("The version");
    program.failure_message([](const CLI::App *, const CLI::Error &problem) {
        return std::string("datping: ") + problem.what() + "; see: datping --help\n";
    });
    options asked;
    raw given;
    add_options(program, asked, given);
    program.callback([&] { settle(program, asked, given); });
    try {
        program.parse(count, words);
    } catch (const CLI::ParseError &problem) {
        return program.exit(problem) == 0 ? tools::DONE : tools::MISUSE;
    }
    return run(asked);
}
