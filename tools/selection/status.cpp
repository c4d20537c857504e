// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// coherdma status: which plugin serves each device, and why.

#include "command.hpp"
#include "selection/serving.hpp"
#include "selection/setting.hpp"
#include "wrap.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace {

using namespace tools::selection;

struct served {
    std::string device;
    tools::doctor::opened is;
    reason why;
};

std::vector<served> look_at_devices(const host &here) {
    std::vector<served> all;
    for (const std::string &name : here.list("/sys/class/infiniband")) {
        served one = {name, tools::doctor::open_device(name), {}};
        one.why = why_served(here, one.is);
        all.push_back(std::move(one));
    }
    return all;
}

void print(const std::string &text, std::size_t indent = 0) {
    for (const std::string &line : tools::wrapped(text, 79 - indent))
        fmt::print("{:{}}{}\n", "", indent, line);
}

void print_device(const served &one, const setting &system) {
    if (one.is.open)
        fmt::print("{}: {}\n", one.device, one.is.plugin.empty() ? "(unknown)" : one.is.plugin);
    else
        print(fmt::format("{}: cannot be opened{}; see: coherdma doctor", one.device,
                          one.is.words.empty() ? "" : " (" + one.is.words + ")"));
    if (!one.why.words.empty())
        print("by " + one.why.words, 2);
    if (overridden(system, one.is, one.why))
        print("which goes before the system's setting", 2);
    if (declined(system, one.is, one.why))
        print("as coherdma, asked before, did not take it", 2);
}

nlohmann::ordered_json as_json(const served &one, const setting &system) {
    return {{"name", one.device},
            {"open", one.is.open},
            {"plugin", one.is.plugin},
            {"coherdma", is_our_plugin(one.is.plugin)},
            {"because", name_of(one.why.by)},
            {"overridden", overridden(system, one.is, one.why)},
            {"words", one.is.open ? one.why.words : one.is.words}};
}

nlohmann::ordered_json as_json(const our_line &one) {
    return {{"file", one.file}, {"line", one.number}, {"plugin", one.plugin}, {"there", one.there}};
}

void print_json(const setting &system, const std::vector<served> &devices) {
    nlohmann::ordered_json all = {
        {"schema", 1}, {"system", {{"state", name_of(system.is)}, {"words", system.words}}}};
    all["system"]["lines"] = nlohmann::ordered_json::array();
    for (const our_line &each : system.lines)
        all["system"]["lines"].push_back(as_json(each));
    all["devices"] = nlohmann::ordered_json::array();
    for (const served &each : devices)
        all["devices"].push_back(as_json(each, system));
    fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void print_text(const host &here, const setting &system, const std::vector<served> &devices) {
    for (const served &each : devices)
        print_device(each, system);
    if (devices.empty() && here.root.empty())
        fmt::print("There is no RDMA device.\n");
    print(fmt::format("System setting: {}: {}", name_of(system.is), system.words));
    if (const char *mend = mends(system.is))
        fmt::print("To mend it: {}\n", mend);
}

} // namespace

void tools::add_status(CLI::App &program, int &status) {
    struct options {
        bool json = false;
        std::string root;
    };
    auto given = std::make_shared<options>();
    CLI::App *command =
        program.add_subcommand("status", "Which provider serves each device, and why");
    command->add_flag("--json,-j", given->json, "For programs");
    command->add_option("--root", given->root, "Only the setting of the system in this folder")
        ->type_name("DIR");
    command->footer("Exit status: 0 also if it is off; 1 if it is on by half, or stale.");
    command->callback([given, &status] {
        const host here = machine_at(given->root);
        const setting system = look_at_setting(here);
        const auto devices = given->root.empty() ? look_at_devices(here) : std::vector<served>();
        if (given->json)
            print_json(system, devices);
        else
            print_text(here, system, devices);
        status = mends(system.is) ? FAILED : DONE;
    });
}
