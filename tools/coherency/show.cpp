// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// coherdma show: prints a line for each device.

#include "coherency/device.hpp"
#include "command.hpp"
#include "text.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace {

using tools::device;

coherdma_cpu_attr query_cpu() {
    coherdma_cpu_attr attr = {};
    if (coherdma_query_cpu(&attr, sizeof attr) != 0)
        throw std::runtime_error(coherdma_error());
    return attr;
}

/// rule: which of libcoherdma's rules decided the coherency; source, value: what this rule read.
nlohmann::ordered_json as_json(const coherdma_device_attr &attr) {
    return {{"name", attr.name},
            {"driver", attr.driver},
            {"transport", attr.transport},
            {"coherency", coherdma_coherency_str(attr.coherency)},
            {"strength", coherdma_strength_str(attr.strength)},
            {"sync_required", attr.sync_required != 0},
            {"emulated", (attr.flags & COHERDMA_DEVICE_EMULATED) != 0},
            {"rule", attr.rule},
            {"source", attr.source},
            {"value", attr.value},
            {"line_size", attr.line_size},
            {"buffer_alignment", attr.buffer_alignment},
            {"instructions", attr.instructions},
            {"explanation", attr.explanation},
            {"sync_problem", attr.sync_problem}};
}

nlohmann::ordered_json as_json(const coherdma_cpu_attr &attr) {
    nlohmann::ordered_json choices = nlohmann::ordered_json::array();
    std::istringstream stream(attr.choices); // names of sets of instructions
    for (std::string word; stream >> word;)
        choices.push_back(word);
    return {{"line_size", attr.line_size},
            {"buffer_alignment", attr.buffer_alignment},
            {"instructions", attr.instructions},
            {"choices", choices},
            {"problem", attr.problem}};
}

/// The column INSTRUCTIONS.
std::string format_instructions(const coherdma_device_attr &attr) {
    if (attr.sync_required == 0)
        return "none needed";
    return *attr.instructions ? attr.instructions : "none, so no sync";
}

void print_wrapped(const std::string &text) {
    for (const std::string &line : tools::wrap_text(text, 79))
        fmt::print("{}\n", line);
}

/// For coherdma show, if there is no device.
void print_hints_without_device() {
    print_wrapped(access("/sys/class/infiniband", F_OK) == 0
                      ? "There is no RDMA device that this process can access."
                      : "There is no RDMA device: the kernel has no RDMA, or has not loaded it.");
    const coherdma_cpu_attr cpu = query_cpu();
    if (*cpu.instructions)
        print_wrapped(
            fmt::format("For a non-coherent device, this CPU can sync: {}, lines of {} bytes.",
                        cpu.instructions, cpu.line_size));
    else
        print_wrapped(
            fmt::format("For a non-coherent device, this CPU cannot sync: {}.", cpu.problem));
    print_wrapped("For a diagnosis, type: coherdma doctor");
}

void print_table(const std::vector<device> &devices) {
    constexpr const char *ROW = "{:<11} {:<10} {:<12} {:<12} {:<8} {:>4}  {}\n";
    fmt::print(fmt::runtime(ROW), "DEVICE", "TRANSPORT", "COHERENCY", "EVIDENCE", "STRENGTH",
               "LINE", "INSTRUCTIONS");
    for (const device &d : devices) {
        const coherdma_device_attr &attr = d.attr();
        fmt::print(
            fmt::runtime(ROW), attr.name, *attr.transport ? attr.transport : "?",
            coherdma_coherency_str(attr.coherency), attr.rule, coherdma_strength_str(attr.strength),
            attr.line_size ? std::to_string(attr.line_size) : "?", format_instructions(attr));
    }
}

/// names: empty for all devices.
void show(std::vector<std::string> names, bool json) {
    if (names.empty())
        names = tools::device_names();
    std::vector<device> devices;
    for (const std::string &name : names)
        devices.emplace_back(name, tools::rule_scope::UNTIL_DECIDED); // of the coherency rules
    if (json) {
        nlohmann::ordered_json document = {{"schema", 1}, {"cpu", as_json(query_cpu())}};
        document["devices"] = nlohmann::ordered_json::array();
        for (const device &d : devices)
            document["devices"].push_back(as_json(d.attr()));
        fmt::print("{}\n", document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    } else if (devices.empty()) {
        print_hints_without_device();
    } else {
        print_table(devices);
    }
}

} // namespace

void tools::add_show(cli::command &program, int &) {
    struct options {
        std::vector<std::string> names;
        bool json = false;
    };
    auto opts = std::make_shared<options>();
    auto command =
        program.add_subcommand("show", "Print which devices are cache-coherent, and why");
    command.add_option("DEVICE", opts->names, "Print only these devices").type_name("");
    command.add_flag("--json,-j", opts->json, "Print JSON");
    command.callback([opts] { show(opts->names, opts->json); });
}
