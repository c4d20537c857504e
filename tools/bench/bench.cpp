// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// coherdma bench: measures the sync calls on this CPU. Needs no device.

#include "command.hpp"
#include "interrupt.hpp"
#include "machine.hpp"
#include "measure.hpp"
#include "report.hpp"

#include <coherdma/coherdma.h>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>

namespace tools {
namespace {

struct bench_options {
    std::vector<std::string> sizes{"64", "4k", "64k", "1M", "16M"};
    bool quick = false, json = false;
    std::string html_file;     ///< "": write no page
    std::string baseline_file; ///< "": compare with nothing
};

std::vector<std::string> split_words(const char *text) {
    std::istringstream stream(text);
    std::vector<std::string> words;
    for (std::string word; stream >> word;)
        words.push_back(word);
    return words;
}

/// Reads a file that --json wrote.
bench::measurements read_results(const std::string &name) {
    std::ifstream file(name);
    std::ostringstream text;
    text << file.rdbuf();
    if (!file)
        throw std::runtime_error("cannot read " + name);
    try {
        return bench::from_json(text.str());
    } catch (const std::runtime_error &e) {
        throw std::runtime_error(name + ": " + e.what());
    }
}

/// Returns the exit status.
int run(const bench_options &opts) {
    bench::measurements results, baseline;
    for (const std::string &size : opts.sizes)
        results.options.sizes.push_back(bench::parse_size(size));
    results.options.quick = opts.quick;
    // Check the files before the measurement, not after it.
    if (!opts.baseline_file.empty())
        baseline = read_results(opts.baseline_file);
    if (!opts.html_file.empty() && !std::ofstream(opts.html_file, std::ios::app))
        throw std::runtime_error("cannot write " + opts.html_file);

    coherdma_cpu_attr cpu{};
    if (coherdma_query_cpu(&cpu, sizeof cpu) != 0)
        throw std::runtime_error(coherdma_error());
    const std::vector<std::string> instruction_sets = split_words(cpu.choices); // best first
    if (instruction_sets.empty()) {
        std::fprintf(stderr, "coherdma: no sync instructions on this CPU: %s\n", cpu.problem);
        return NOT_AVAILABLE;
    }
    results.default_instructions =
        *cpu.instructions != '\0' ? cpu.instructions : instruction_sets.front();
    results.utc_time = bench::utc_now();
    results.machine = bench::describe_machine(cpu.line_size);
    {
        const bench::sigint_guard guard;
        bench::measure(results, instruction_sets, bench::sigint_guard::is_interrupted,
                       bench::show_progress);
        bench::clear_progress();
    }
    const std::string text = opts.json ? bench::as_json(results) : bench::as_table(results);
    std::fputs(text.c_str(), stdout);
    if (!opts.baseline_file.empty())
        std::fputs(bench::as_comparison(results, baseline).c_str(), stdout);
    if (!opts.html_file.empty()) {
        std::ofstream out(opts.html_file);
        if (!(out << bench::as_html(results)).flush())
            throw std::runtime_error("cannot write " + opts.html_file);
    }
    return results.interrupted ? FAILED : SUCCESS;
}

} // namespace

void add_bench(cli::command &program, int &status) {
    auto command = program.add_subcommand("bench", "Measure the sync calls on this CPU");
    const auto opts = std::make_shared<bench_options>();
    const auto check_size = [](const std::string &text) { // returns the problem, or ""
        try {
            bench::parse_size(text);
        } catch (const std::invalid_argument &e) {
            return std::string(e.what());
        }
        return std::string();
    };
    command.add_option("--sizes", opts->sizes, "Bytes per call, separated by commas")
        .delimiter(',')
        .check(check_size, "SIZE")
        .capture_default_str();
    command.add_flag("--quick", opts->quick, "Take seconds, not a minute; less exact");
    const auto json = command.add_flag("--json,-j", opts->json, "Print JSON");
    command.add_option("--html", opts->html_file, "Write an HTML page with plots to this file")
        .type_name("FILE");
    command.add_option("--compare", opts->baseline_file, "Compare with a file that --json wrote")
        .type_name("FILE")
        .excludes(json);
    command.footer("Ctrl-C stops, prints the results so far, and exits with status 1.");
    command.callback([opts, &status] { status = run(*opts); });
}

} // namespace tools
