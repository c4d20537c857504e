// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// coherdma explain: prints all evidence for a device's coherency.

#include "coherency/device.hpp"
#include "coherency/evidence.hpp"
#include "command.hpp"
#include "text.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <optional>

namespace {

constexpr std::size_t WIDTH = 79;

nlohmann::ordered_json as_json(const coherdma_probe_result &result) {
    return {{"coherency", coherdma_coherency_str(result.coherency)},
            {"strength", coherdma_strength_str(result.coherency == COHERDMA_UNKNOWN
                                                   ? COHERDMA_STRENGTH_NONE
                                                   : COHERDMA_STRENGTH_MEASURED)},
            {"rounds", result.rounds},
            {"lines", result.lines},
            {"device_stale", result.device_stale},
            {"cpu_stale", result.cpu_stale}};
}

void print_probe(const coherdma_probe_result &result) {
    std::string text = fmt::format("Probed: {}. ", coherdma_coherency_str(result.coherency));
    if (result.coherency == COHERDMA_UNKNOWN)
        text += "The device did not finish copying memory to itself in time.";
    else
        text += fmt::format("The device copied {} lines to itself and saw old data in {}; the CPU "
                            "saw old data in {} of as many.",
                            result.lines, result.device_stale, result.cpu_stale);
    fmt::print("\n");
    for (const std::string &line : tools::wrap_text(text, WIDTH))
        fmt::print("{}\n", line);
}

/// probe: also test the device, by coherdma_probe().
void explain(const std::string &name, bool json, bool probe) {
    const tools::device device(name, tools::rule_scope::ALL);
    std::optional<coherdma_probe_result> probe_result;
    if (probe)
        probe_result = device.probe();
    if (json) {
        nlohmann::ordered_json document = {
            {"schema", 1},
            {"name", device.attr().name},
            {"coherency", coherdma_coherency_str(device.attr().coherency)},
            {"strength", coherdma_strength_str(device.attr().strength)},
            {"explanation", device.attr().explanation},
            {"sync_problem", device.attr().sync_problem}};
        for (const coherdma_evidence &evidence : device.evidence())
            document["rules"].push_back(tools::evidence_json(evidence));
        if (probe_result)
            document["probe"] = as_json(*probe_result);
        fmt::print("{}\n", document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
        return;
    }
    for (const std::string &line : tools::wrap_text(device.attr().explanation, WIDTH))
        fmt::print("{}\n", line);
    if (const std::string problem = device.attr().sync_problem; !problem.empty())
        for (const std::string &line :
             tools::wrap_text("Programs cannot use it: " + problem, WIDTH))
            fmt::print("{}\n", line);
    fmt::print("\n{}", tools::evidence_heading());
    for (const coherdma_evidence &evidence : device.evidence())
        fmt::print("{}", tools::evidence_text(evidence));
    if (probe_result)
        print_probe(*probe_result);
}

} // namespace

void tools::add_explain(cli::command &program, int &) {
    struct options {
        std::string name;
        bool json = false, probe = false;
    };
    auto opts = std::make_shared<options>();
    auto command =
        program.add_subcommand("explain", "Print all rules for a device and their evidence");
    command.add_option("DEVICE", opts->name, "A name that coherdma show prints")
        .type_name("")
        .required();
    command.add_flag("--json,-j", opts->json, "Print JSON");
    command.add_flag("--probe,-p", opts->probe, "Also test it: the device copies memory to itself");
    command.callback([opts] { explain(opts->name, opts->json, opts->probe); });
}
