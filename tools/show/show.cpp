// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// coherdma show: a line for each device.

#include "command.hpp"
#include "show/device.hpp"
#include "wrap.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace {

using tools::device;

coherdma_cpu_attr cpu() {
    coherdma_cpu_attr attr = {};
    if (coherdma_query_cpu(&attr, sizeof attr) != 0)
        throw std::runtime_error(coherdma_error());
    return attr;
}

nlohmann::ordered_json as_json(const coherdma_device_attr &about) {
    return {{"name", about.name},
            {"driver", about.driver},
            {"transport", about.transport},
            {"verdict", coherdma_verdict_name(about.verdict)},
            {"sync_required", about.sync_required != 0},
            {"rule", about.rule},
            {"source", about.source},
            {"value", about.value},
            {"line_size", about.line_size},
            {"alignment", about.alignment},
            {"instructions", about.instructions},
            {"explanation", about.explanation}};
}

nlohmann::ordered_json as_json(const coherdma_cpu_attr &about) {
    nlohmann::ordered_json choices = nlohmann::ordered_json::array();
    std::istringstream words(about.choices);
    for (std::string word; words >> word;)
        choices.push_back(word);
    return {{"line_size", about.line_size},
            {"alignment", about.alignment},
            {"instructions", about.instructions},
            {"choices", choices},
            {"problem", about.problem}};
}

std::string instructions_of(const coherdma_device_attr &about) {
    if (about.sync_required == 0)
        return "none needed";
    return *about.instructions ? about.instructions : "none, so no sync";
}

void print(const std::string &text) {
    for (const std::string &line : tools::wrapped(text, 79))
        fmt::print("{}\n", line);
}

void print_nothing_there() {
    print(access("/sys/class/infiniband", F_OK) == 0
              ? "There is no RDMA device that this process can see."
              : "There is no RDMA device: this kernel has no RDMA, or has not loaded it.");
    const coherdma_cpu_attr here = cpu();
    if (*here.instructions)
        print(fmt::format("If one needed sync, this CPU could do it: {}, lines of {} bytes.",
                          here.instructions, here.line_size));
    else
        print(fmt::format("If one needed sync, it would be refused: {}.", here.problem));
    print("What is in the way of a device: coherdma doctor");
}

void print_table(const std::vector<device> &devices) {
    constexpr const char *ROW = "{:<12} {:<10} {:<12} {:<13} {:>4}  {}\n";
    fmt::print(fmt::runtime(ROW), "DEVICE", "TRANSPORT", "VERDICT", "EVIDENCE", "LINE",
               "INSTRUCTIONS");
    for (const device &each : devices) {
        const coherdma_device_attr &about = each.about();
        fmt::print(fmt::runtime(ROW), about.name, *about.transport ? about.transport : "?",
                   coherdma_verdict_name(about.verdict), about.rule,
                   about.line_size ? std::to_string(about.line_size) : "?", instructions_of(about));
    }
}

void show(std::vector<std::string> names, bool json) {
    if (names.empty())
        names = tools::device_names();
    std::vector<device> devices;
    for (const std::string &name : names)
        devices.emplace_back(name, false);
    if (json) {
        nlohmann::ordered_json all = {{"schema", 1}, {"cpu", as_json(cpu())}};
        all["devices"] = nlohmann::ordered_json::array();
        for (const device &each : devices)
            all["devices"].push_back(as_json(each.about()));
        fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    } else if (devices.empty()) {
        print_nothing_there();
    } else {
        print_table(devices);
    }
}

} // namespace

void tools::add_show(CLI::App &program, int &) {
    struct options {
        std::vector<std::string> names;
        bool json = false;
    };
    auto given = std::make_shared<options>();
    CLI::App *command =
        program.add_subcommand("show", "Which devices see the CPU's cache, and how that is known");
    command->add_option("DEVICE", given->names, "Only these devices")->type_name("");
    command->add_flag("--json,-j", given->json, "For programs");
    command->callback([given] { show(given->names, given->json); });
}
