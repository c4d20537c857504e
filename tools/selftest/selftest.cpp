// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// coherdma selftest: a report on a device that can be sent to others: what libcoherdma and the
// kernel say about its coherency, and what experiments show.

#include "bench/interrupt.hpp"
#include "bench/machine.hpp"
#include "command.hpp"
#include "probe/buffers.hpp"
#include "probe/loopback.hpp"
#include "probe/verbs_objects.hpp"
#include "selftest/machine.hpp"
#include "selftest/peer.hpp"
#include "selftest/syncs.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <unistd.h>

namespace tools {
namespace {

using namespace selftest;

struct selftest_options {
    std::string device, peer;
    bool listen = false, once = false, json = false;
    int num_rounds = 8;
};

constexpr int MAX_ROUNDS = 1000000;
constexpr std::uint32_t DEFAULT_LINE_SIZE = 64; ///< to count stale data where the CPU's is unknown
constexpr std::chrono::milliseconds TRANSFER_TIMEOUT{5000};

library_result query_library(const device &device) {
    const coherdma_device_attr &attr = device.attr();
    return {.coherency = attr.coherency,
            .strength = attr.strength,
            .is_emulated = (attr.flags & COHERDMA_DEVICE_EMULATED) != 0,
            .rule = attr.rule,
            .explanation = attr.explanation,
            .sync_problem = attr.sync_problem,
            .rules = device.evidence()};
}

/// error: of the experiments.
std::string describe_error(int error, bool has_peer) {
    switch (error) {
    case EINTR:
        return "interrupted";
    case ETIMEDOUT:
        return "a transfer did not complete in time. A device that is not coherent may write its "
               "completions to memory that the CPU has cached.";
    case ENODEV:
        return "the device was removed";
    case ECONNRESET:
        if (!has_peer)
            return "the connection of the device to itself has ended";
        return "the peer has ended the connection. It may have ended itself, its memory may not be "
               "what it offered, or its limit of 10 minutes was reached; then try fewer --rounds.";
    default:
        return std::string("a transfer failed: ") + std::strerror(error) +
               (has_peer ? "; the peer's memory may not be what it offered" : "");
    }
}

/// Sets the transfers, which use the connection.
struct connection {
    std::unique_ptr<coherdma::probe::loopback> loopback;
    std::unique_ptr<peer_connection> peer;

    void set_transfers(experiment_plan &plan) const {
        const auto set = [&](data_path path, std::function<int()> transfer) {
            plan.transfers[static_cast<std::size_t>(path)] = std::move(transfer);
        };
        if (peer) {
            set(data_path::OWN_WRITE, [this] { return peer->copy(); });
            set(data_path::OWN_READ, [this] { return peer->copy(); });
            return;
        }
        // The device is its own peer: what it reads or writes as the peer's memory is ours, too.
        set(data_path::PEER_READ, [this] { return loopback->copy(); });
        set(data_path::PEER_WRITE, [this] { return loopback->copy_by_write(); });
        set(data_path::OWN_WRITE, [this] { return loopback->copy_by_write(); });
        set(data_path::OWN_READ, [this] { return loopback->copy(); });
    }
};

constexpr const char *CANNOT_OPEN = "libibverbs cannot open the device; see: coherdma doctor";

/// Connects the device; throws std::runtime_error.
connection connect(const device &device, const selftest_options &opts,
                   const coherdma::probe::buffers &buffers) {
    connection connection;
    if (!opts.peer.empty()) {
        try {
            connection.peer = connect_to_peer(
                opts.device, parse_peer_address(opts.peer), buffers.source.words(),
                buffers.sink.words(), TRANSFER_TIMEOUT, bench::sigint_guard::is_interrupted);
        } catch (const std::exception &error) {
            // Without the address, as the report has none.
            throw std::runtime_error(std::string("cannot connect to the peer: ") + error.what());
        }
        return connection;
    }
    coherdma::probe::loopback_attr attr = {};
    attr.context = device.context();
    attr.source = buffers.source.words();
    attr.sink = buffers.sink.words();
    attr.timeout = TRANSFER_TIMEOUT;
    try {
        connection.loopback = coherdma::probe::connect_to_itself(attr);
    } catch (const std::exception &error) {
        throw std::runtime_error(std::string("cannot connect the device to itself: ") +
                                 error.what() + "; with a second machine, see --listen and --peer");
    }
    return connection;
}

/// Whether the device is removed or, after the failure of a transfer, will be: without its network
/// interface it fails first.
bool is_removal_the_cause(const coherdma::probe::removal_watch &watch) {
    constexpr int MAX_CHECKS = 20;
    constexpr std::chrono::milliseconds INTERVAL{50};
    for (int i = 0; i < MAX_CHECKS && !watch.is_removed(); ++i)
        std::this_thread::sleep_for(INTERVAL);
    return watch.is_removed();
}

/// device: with a context.
test_run run_test(const device &device, const selftest_options &opts) {
    test_run run;
    run.has_peer = !opts.peer.empty();
    const coherdma::probe::removal_watch watch(device.context());
    const coherdma::probe::buffers buffers;
    const std::unique_ptr<memory_sync> syncs = make_syncs(device);
    run.is_sync_possible = syncs->problem(sync_part::ALL).empty();
    experiment_plan plan = {};
    plan.source = buffers.source.words();
    plan.sink = buffers.sink.words();
    plan.line_size = device.attr().line_size != 0 ? device.attr().line_size : DEFAULT_LINE_SIZE;
    plan.rounds = static_cast<std::uint32_t>(opts.num_rounds);
    plan.check_interruption = [&](const experiment &experiment) {
        if (experiment.variant == sync_variant::NONE)
            bench::show_progress(experiment.rounds, plan.rounds, "round of experiments");
        if (bench::sigint_guard::is_interrupted())
            return EINTR;
        return watch.is_removed() ? ENODEV : 0;
    };
    run.rounds = plan.rounds;
    run.lines_per_round =
        static_cast<std::uint32_t>(buffers.sink.words().size_bytes() / plan.line_size);
    const bench::sigint_guard guard;
    try {
        const connection connection = connect(device, opts, buffers);
        connection.set_transfers(plan);
        experiment_results results = run_experiments(plan, *syncs);
        run.experiments = std::move(results.experiments);
        if (results.error != 0 && results.error != EINTR && is_removal_the_cause(watch))
            results.error = ENODEV;
        if (results.error != 0)
            run.problem = describe_error(results.error, run.has_peer);
        // The memory is deregistered with no line that is modified or stale.
        syncs->writeback_invalidate(buffers.source.words());
        syncs->writeback_invalidate(buffers.sink.words());
    } catch (const std::exception &error) {
        // A signal ends the wait for an event of the connection.
        run.problem = bench::sigint_guard::is_interrupted() ? describe_error(EINTR, run.has_peer)
                      : watch.is_removed()                  ? describe_error(ENODEV, run.has_peer)
                                                            : error.what();
    }
    bench::clear_progress();
    return run;
}

/// Returns the exit status.
int run(const selftest_options &opts) {
    if (device_names().empty()) {
        std::fputs("coherdma: there is no RDMA device; for a diagnosis, type: coherdma doctor\n",
                   stderr);
        return NOT_AVAILABLE;
    }
    const device device(opts.device, rule_scope::ALL);
    if (opts.listen) {
        if (!device.context())
            throw std::runtime_error(CANNOT_OPEN);
        const bench::sigint_guard guard;
        return listen_for_peers(opts.device, opts.once, bench::sigint_guard::is_interrupted);
    }
    report report;
    report.time = bench::utc_now();
    report.version = coherdma_version();
    report.machine = describe_machine("");
    report.device = describe_device(device);
    report.library = query_library(device);
    report.is_root = geteuid() == 0;
    if (device.context())
        report.test = run_test(device, opts);
    else
        report.test = {.has_peer = !opts.peer.empty(), .experiments = {}, .problem = CANNOT_OPEN};
    hide_private_texts(report, device.attr().name);
    const conclusion conclusion = conclude(report);
    std::fputs(
        (opts.json ? report_json(report, conclusion) : report_text(report, conclusion)).c_str(),
        stdout);
    std::fflush(stdout); // before the message below; main() reports an error
    if (!report.test.problem.empty())
        std::fprintf(stderr, "coherdma: %s: %s\n", opts.device.c_str(),
                     report.test.problem.c_str());
    return conclusion.result == agreement::CONTRADICTS || !report.test.problem.empty() ? FAILED
                                                                                       : SUCCESS;
}

} // namespace

void add_selftest(cli::command &program, int &status) {
    auto command = program.add_subcommand("selftest", "Test a device, for a report to send");
    const auto opts = std::make_shared<selftest_options>();
    const auto check_address = [](const std::string &text) { // returns the problem, or ""
        try {
            parse_peer_address(text);
        } catch (const std::invalid_argument &error) {
            return std::string(error.what());
        }
        return std::string();
    };
    command.add_option("DEVICE", opts->device, "A name that coherdma show prints")
        .type_name("")
        .required();
    const auto peer = command
                          .add_option("--peer", opts->peer,
                                      "Connect to coherdma selftest --listen on another machine")
                          .type_name("ADDRESS")
                          .check(check_address);
    const auto json = command.add_flag("--json,-j", opts->json, "Print JSON");
    command.add_flag("--listen", opts->listen, "Wait for --peer of other machines, until Ctrl-C")
        .excludes(peer)
        .excludes(json);
    command.add_option("--rounds", opts->num_rounds, "How often to repeat the experiments")
        .range(1, MAX_ROUNDS)
        .capture_default_str();
    command.add_flag("--once", opts->once, "With --listen: end after a peer");
    command.callback([opts, &status] {
        if (opts->once && !opts->listen)
            throw cli::usage_error("--once requires --listen");
        status = run(*opts);
    });
}

} // namespace tools
