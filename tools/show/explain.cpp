// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// coherdma explain: all that was looked at, for who doubts the verdict.

#include "command.hpp"
#include "show/device.hpp"
#include "wrap.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>

namespace {

constexpr std::size_t WIDTH = 79;
constexpr std::size_t INDENT = 29;

void print_rest(const std::string &text) {
    for (const std::string &line : tools::wrapped(text, WIDTH - INDENT))
        fmt::print("{:{}}{}\n", "", INDENT, line);
}

void print(const coherdma_evidence &each) {
    const char *says =
        each.verdict == COHERDMA_UNKNOWN ? "nothing" : coherdma_verdict_name(each.verdict);
    const auto reason = tools::wrapped(each.reason, WIDTH - INDENT);
    fmt::print("{} {:<13} {:<12} {}\n", each.decided ? '>' : ' ', each.rule, says, reason[0]);
    for (std::size_t place = 1; place < reason.size(); ++place)
        print_rest(reason[place]);
    std::string read = each.source;
    if (*each.value)
        read += std::string(": ") + each.value;
    if (!read.empty())
        print_rest(read);
}

nlohmann::ordered_json as_json(const coherdma_evidence &each) {
    return {{"rule", each.rule},     {"says", coherdma_verdict_name(each.verdict)},
            {"source", each.source}, {"value", each.value},
            {"reason", each.reason}, {"decided", each.decided != 0}};
}

nlohmann::ordered_json as_json(const coherdma_probe_result &tried) {
    return {{"verdict", coherdma_verdict_name(tried.verdict)},
            {"rounds", tried.rounds},
            {"lines", tried.lines},
            {"device_stale", tried.device_stale},
            {"cpu_stale", tried.cpu_stale}};
}

void print(const coherdma_probe_result &tried) {
    std::string text = fmt::format("Tried: {}. ", coherdma_verdict_name(tried.verdict));
    if (tried.verdict == COHERDMA_UNKNOWN)
        text += "The device did not finish copying memory to itself in time.";
    else
        text += fmt::format("The device copied {} lines to itself and saw old data in {}; the CPU "
                            "saw old data in {} of as many.",
                            tried.lines, tried.device_stale, tried.cpu_stale);
    fmt::print("\n");
    for (const std::string &line : tools::wrapped(text, WIDTH))
        fmt::print("{}\n", line);
}

void explain(const std::string &name, bool json, bool probe) {
    const tools::device device(name, true);
    std::optional<coherdma_probe_result> tried;
    if (probe)
        tried = device.probe();
    if (json) {
        nlohmann::ordered_json all = {{"schema", 1},
                                      {"name", device.about().name},
                                      {"verdict", coherdma_verdict_name(device.about().verdict)},
                                      {"explanation", device.about().explanation}};
        for (const coherdma_evidence &each : device.evidence())
            all["rules"].push_back(as_json(each));
        if (tried)
            all["probe"] = as_json(*tried);
        fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
        return;
    }
    for (const std::string &line : tools::wrapped(device.about().explanation, WIDTH))
        fmt::print("{}\n", line);
    fmt::print("\n  {:<13} {:<12} {}\n", "RULE", "SAYS", "BECAUSE, HAVING READ");
    for (const coherdma_evidence &each : device.evidence())
        print(each);
    if (tried)
        print(*tried);
}

} // namespace

void tools::add_explain(CLI::App &program, int &) {
    struct options {
        std::string name;
        bool json = false, probe = false;
    };
    auto given = std::make_shared<options>();
    CLI::App *command =
        program.add_subcommand("explain", "Every rule asked about a device, and what it said");
    command->add_option("DEVICE", given->name, "As in coherdma show")->type_name("")->required();
    command->add_flag("--json,-j", given->json, "For programs");
    command->add_flag("--probe,-p", given->probe,
                      "Try it, too: the device copies memory to itself");
    command->callback([given] { explain(given->name, given->json, given->probe); });
}
