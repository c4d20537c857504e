// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// coherdma bench: what the sync calls cost on this CPU. Needs no device.

#include "command.hpp"
#include "machine.hpp"
#include "measure.hpp"
#include "report.hpp"
#include "watch.hpp"

#include <coherdma/coherdma.h>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>

namespace tools {
namespace {

struct request {
    std::vector<std::string> sizes{"64", "4k", "64k", "1M", "16M"};
    bool quick = false, json = false;
    std::string html, compare;
};

std::vector<std::string> words(const char *text) {
    std::istringstream in(text);
    std::vector<std::string> all;
    for (std::string word; in >> word;)
        all.push_back(word);
    return all;
}

bench::results read_old(const std::string &name) {
    std::ifstream in(name);
    std::ostringstream text;
    text << in.rdbuf();
    if (!in)
        throw std::runtime_error("cannot read " + name);
    try {
        return bench::from_json(text.str());
    } catch (const std::runtime_error &problem) {
        throw std::runtime_error(name + ": " + problem.what());
    }
}

int run(const request &asked) {
    bench::results all, old;
    for (const std::string &size : asked.sizes)
        all.how.sizes.push_back(bench::size_value(size));
    all.how.quick = asked.quick;
    // What could go wrong afterwards goes wrong now.
    if (!asked.compare.empty())
        old = read_old(asked.compare);
    if (!asked.html.empty() && !std::ofstream(asked.html, std::ios::app))
        throw std::runtime_error("cannot write " + asked.html);

    coherdma_cpu_attr cpu{};
    if (coherdma_query_cpu(&cpu, sizeof cpu) != 0)
        throw std::runtime_error(coherdma_error());
    const std::vector<std::string> choices = words(cpu.choices);
    if (choices.empty()) {
        std::fprintf(stderr, "coherdma: there is nothing to measure: %s\n", cpu.problem);
        return CANNOT_HERE;
    }
    all.instructions = *cpu.instructions != '\0' ? cpu.instructions : choices.front();
    all.when = bench::utc_now();
    all.where = bench::this_machine(cpu.line_size);
    {
        const bench::interruption guard;
        bench::measure(all, choices, bench::interruption::wished, bench::show_progress);
        bench::clear_progress();
    }
    const std::string text = asked.json ? bench::as_json(all) : bench::as_table(all);
    std::fputs(text.c_str(), stdout);
    if (!asked.compare.empty())
        std::fputs(bench::as_comparison(all, old).c_str(), stdout);
    if (!asked.html.empty()) {
        std::ofstream out(asked.html);
        if (!(out << bench::as_page(all)).flush())
            throw std::runtime_error("cannot write " + asked.html);
    }
    return all.interrupted ? FAILED : DONE;
}

} // namespace

void add_bench(CLI::App &program, int &status) {
    CLI::App *command = program.add_subcommand("bench", "What a sync costs on this CPU");
    const auto asked = std::make_shared<request>();
    const auto size = [](const std::string &text) {
        try {
            bench::size_value(text);
        } catch (const std::invalid_argument &problem) {
            return std::string(problem.what());
        }
        return std::string();
    };
    command->add_option("--sizes", asked->sizes, "Bytes in a call, with commas between")
        ->delimiter(',')
        ->check(CLI::Validator(size, "SIZE"))
        ->capture_default_str();
    command->add_flag("--quick", asked->quick, "Some seconds, not half a minute; less exact");
    auto *json = command->add_flag("--json,-j", asked->json, "For programs, on standard output");
    command->add_option("--html", asked->html, "A page with plots, in this file")
        ->type_name("FILE");
    command->add_option("--compare", asked->compare, "With what --json once wrote")
        ->type_name("FILE")
        ->excludes(json);
    command->footer("Ctrl-C ends it with what was measured until then, and status 1.");
    command->callback([asked, &status] { status = run(*asked); });
}

} // namespace tools
