// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// datping: sends data to a peer and back over uDAPL, verifies them and measures the round trip.

#include "bench/report.hpp"
#include "command.hpp"
#include "dat_common/output.hpp"
#include "datping/client.hpp"
#include "datping/interrupt.hpp"
#include "datping/limits.hpp"
#include "datping/server.hpp"

#include <fmt/core.h>

namespace {

using namespace tools::datping;

std::vector<mode> parse_modes(const std::string &name) {
    const std::vector<mode> modes{mode::SEND, mode::WRITE, mode::READ, mode::PINGPONG};
    if (name == "all")
        return modes;
    for (const mode m : modes)
        if (name == mode_name(m))
            return {m};
    return {};
}

std::chrono::milliseconds milliseconds(double seconds) {
    return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

/// Replaces a size such as 4k by its number of bytes; returns an error message, or "".
std::string size_to_bytes(std::string &text) {
    try {
        text = std::to_string(tools::bench::parse_size(text));
    } catch (const std::invalid_argument &e) {
        return e.what();
    }
    return "";
}

/// Option values before validation.
struct raw_options {
    std::string mode = "pingpong";
    std::uint64_t qualifier = 7175;
    std::int64_t count = 100;
    double interval = 0, timeout = 10;
    bool poll = false, wait = false, verify = false, no_verify = false;
};

void add_options(tools::cli::command &program, options &opts, raw_options &raw) {
    program.add_option("HOST", opts.host, "Address or name of the server").type_name("");
    program.add_flag("-s,--server", opts.server, "Serve clients until interrupted");
    program.add_option("-I,--ia", opts.ia, "IA to use; see datinfo [chosen by address]")
        .type_name("NAME");
    program.add_option("-p,--qualifier", raw.qualifier, "Connection qualifier (port) [7175]")
        .type_name("QUAL");
    program.add_option("-c,--count", raw.count, "Rounds per mode; 0: until Ctrl-C [100]")
        .type_name("N");
    program.add_option("-S,--size", opts.size, "Bytes per round [64]; of a server: limit [64M]")
        .type_name("SIZE")
        .transform(size_to_bytes);
    program.add_option("-m,--mode", raw.mode, "send, write, read, pingpong or all [pingpong]")
        .type_name("MODE");
    program
        .add_option("-i,--interval", raw.interval,
                    "Seconds between rounds [0]; of a server: limit [60]")
        .type_name("S");
    program.add_option("-t,--timeout", raw.timeout, "Seconds to wait for the peer [10]")
        .type_name("S");
    program.add_flag("-V,--verify", raw.verify, "Compare every byte (default)");
    program.add_flag("--no-verify", raw.no_verify, "Do not compare; only measure");
    program.add_flag("--wait", raw.wait, "Block in dat_evd_wait (default)");
    program.add_flag("--poll", raw.poll, "Poll with dat_evd_dequeue");
    program.add_flag("--once", opts.once, "Exit after one client");
    program.add_flag("-v,--verbose", opts.verbose, "Print each round");
    program.add_flag("-q,--quiet", opts.quiet, "Print errors only");
    program.add_flag("-j,--json", opts.json, "Print the result as JSON");
}

[[noreturn]] void usage_error(const std::string &message) {
    throw tools::cli::usage_error(message);
}

/// Checks ranges and combinations of options, and converts them.
void validate(const tools::cli::command &program, options &opts, const raw_options &raw) {
    if (opts.server == !opts.host.empty())
        usage_error(opts.server ? "HOST and -s exclude each other" : "HOST or -s is required");
    for (const char *option : {"--count", "--mode", "--verify", "--no-verify"})
        if (opts.server && program.count(option) > 0)
            usage_error(std::string(option) + " is an option of the client");
    if (opts.once && !opts.server)
        usage_error("--once is an option of the server; for a client use -c 1");
    if (raw.poll && raw.wait)
        usage_error("--poll excludes --wait");
    if (raw.verify && raw.no_verify)
        usage_error("--no-verify excludes --verify");
    if (opts.quiet && opts.verbose)
        usage_error("--quiet excludes --verbose");
    if (raw.qualifier < 1)
        usage_error("--qualifier: must be at least 1");
    if (raw.count < 0)
        usage_error("--count: must be 0 (unlimited) or more");
    if (!(raw.interval >= 0 && raw.interval <= 86400))
        usage_error("--interval: must be 0 to 86400 seconds");
    if (!(raw.timeout >= 0.1 && raw.timeout <= 3600))
        usage_error("--timeout: must be 0.1 to 3600 seconds");
    opts.modes = parse_modes(raw.mode);
    if (opts.modes.empty())
        usage_error("--mode: must be send, write, read, pingpong or all, not " + raw.mode);
    if (opts.server && program.count("--size") == 0)
        opts.size = std::uint64_t{64} << 20;
    opts.qualifier = raw.qualifier;
    opts.count = static_cast<std::uint64_t>(raw.count);
    opts.interval = milliseconds(raw.interval);
    if (opts.server && program.count("--interval") == 0)
        opts.interval = DEFAULT_MAX_INTERVAL;
    opts.timeout = milliseconds(raw.timeout);
    opts.verify = !raw.no_verify;
    opts.event_wait = raw.poll ? wait_mode::POLL : wait_mode::WAIT;
}

int run_server(const options &opts, std::FILE *out) {
    server_result result;
    server listener(opts, result, out);
    listener.run();
    if (opts.json)
        fmt::print(out, "{}", as_json(opts, result));
    return result.is_good() ? tools::SUCCESS : tools::FAILED;
}

/// Runs the client and prints its result.
int ping(const options &opts, std::FILE *out) {
    client_result result;
    result.host = opts.host;
    int status = tools::FAILED;
    bool is_closed = true;
    try {
        is_closed = run_client(opts, result, out);
        status = result.is_good() ? tools::SUCCESS : tools::FAILED;
    } catch (const not_available_error &e) {
        result.problem = e.what();
        status = tools::NOT_AVAILABLE;
    } catch (const std::exception &e) {
        result.problem = e.what();
    }
    if (opts.json)
        fmt::print(out, "{}", as_json(opts, result));
    else if (result.connected && !opts.quiet)
        fmt::print(out, "{}", format_summary(opts, result));
    if (!result.problem.empty())
        fmt::print(stderr, "datping: {}\n", result.problem);
    // Without destructors, which could block, see run_client().
    if (!is_closed && std::fflush(nullptr) == 0 && std::ferror(out) == 0)
        std::_Exit(status);
    return status;
}

/// `out` is standard output for the results; what provider libraries print goes to stderr.
int run(const options &opts) {
    std::FILE *const out = tools::dat::reserve_stdout();
    if (!out) {
        std::perror("datping: cannot write the output");
        return tools::FAILED;
    }
    install_signal_handlers();
    int status = tools::FAILED;
    try {
        status = opts.server ? run_server(opts, out) : ping(opts, out);
    } catch (const not_available_error &e) {
        fmt::print(stderr, "datping: {}\n", e.what());
        status = tools::NOT_AVAILABLE;
    } catch (const std::exception &e) {
        fmt::print(stderr, "datping: {}\n", e.what());
    }
    if (std::fflush(out) != 0 || std::ferror(out) != 0) {
        std::perror("datping: cannot write the output");
        status = tools::FAILED;
    }
    return status;
}

} // namespace

int main(int argc, char **argv) {
    constexpr std::size_t COLUMN_WIDTH = 25;
    tools::cli::program program(
        "datping", "Sends data to a server and back over uDAPL, verifies them and measures times.",
        "datping " COHERDMA_VERSION, COLUMN_WIDTH);
    program.footer("Exit status: 0 all data right, 1 failure, 2 usage error, 77 no usable IA.");
    program.describe("--help", "Print this help");
    program.describe("--version", "Print the version");
    options opts;
    raw_options raw;
    add_options(program, opts, raw);
    program.callback([&] { validate(program, opts, raw); });
    if (const auto status = program.parse(argc, argv))
        return *status;
    return run(opts);
}
