// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// coherdma status: which plugin serves each device, and why.

#include "command.hpp"
#include "provider_config/serving_provider.hpp"
#include "provider_config/system_setting.hpp"
#include "text.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace {

using namespace tools::provider_config;

/// A device and the plugin that serves it.
struct served_device {
    std::string name;
    tools::doctor::open_result opened;
    load_reason reason;
};

/// Opens each RDMA device to find the plugin that serves it, and why libibverbs loaded that.
std::vector<served_device> query_devices(const host &machine) {
    std::vector<served_device> devices;
    for (const std::string &name : machine.list_folder("/sys/class/infiniband")) {
        served_device device = {name, tools::doctor::open_device(name), {}};
        device.reason = find_load_reason(machine, device.opened);
        devices.push_back(std::move(device));
    }
    return devices;
}

void print_indented(const std::string &text, std::size_t indent = 0) {
    for (const std::string &line : tools::wrap_text(text, 79 - indent))
        fmt::print("{:{}}{}\n", "", indent, line);
}

/// Which plugin serves the device and why, and whether coherdma's should but does not.
void print_device(const served_device &device, const system_setting &setting) {
    if (device.opened.is_open)
        fmt::print("{}: {}\n", device.name,
                   device.opened.plugin.empty() ? "(unknown)" : device.opened.plugin);
    else
        print_indented(
            fmt::format("{}: cannot be opened{}; see: coherdma doctor", device.name,
                        device.opened.message.empty() ? "" : " (" + device.opened.message + ")"));
    if (!device.reason.description.empty())
        print_indented("by " + device.reason.description, 2);
    if (is_setting_overridden(setting, device.opened, device.reason))
        print_indented("this overrides the system setting", 2);
    if (has_coherdma_declined(setting, device.opened, device.reason))
        print_indented("coherdma's plugin, tried first, declined the device", 2);
}

/// The device's plugin and why libibverbs loaded that; overridden: although the setting names
/// another.
nlohmann::ordered_json as_json(const served_device &device, const system_setting &setting) {
    return {
        {"name", device.name},
        {"open", device.opened.is_open},
        {"plugin", device.opened.plugin},
        {"coherdma", is_coherdma_plugin(device.opened.plugin)},
        {"reason", name_of(device.reason.source)},
        {"overridden", is_setting_overridden(setting, device.opened, device.reason)},
        {"explanation", device.opened.is_open ? device.reason.description : device.opened.message}};
}

nlohmann::ordered_json as_json(const coherdma_line &line) {
    return {{"file", line.file},
            {"line", line.line_num},
            {"plugin", line.plugin},
            {"exists", line.exists},
            {"exposed", line.exposed ? nlohmann::ordered_json(line.exposed->description())
                                     : nlohmann::ordered_json()}};
}

void print_json(const system_setting &setting, const std::vector<served_device> &devices) {
    nlohmann::ordered_json document = {
        {"schema", 1},
        {"system", {{"state", name_of(setting.state)}, {"explanation", setting.description}}}};
    document["system"]["lines"] = nlohmann::ordered_json::array();
    for (const coherdma_line &line : setting.lines)
        document["system"]["lines"].push_back(as_json(line));
    document["devices"] = nlohmann::ordered_json::array();
    for (const served_device &device : devices)
        document["devices"].push_back(as_json(device, setting));
    fmt::print("{}\n", document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void print_text(const host &machine, const system_setting &setting,
                const std::vector<served_device> &devices) {
    for (const served_device &device : devices)
        print_device(device, setting);
    if (devices.empty() && machine.root.empty())
        fmt::print("There is no RDMA device.\n");
    print_indented(
        fmt::format("System setting: {}: {}", name_of(setting.state), setting.description));
    if (const char *command = fix_command(setting.state))
        fmt::print("fix: {}\n", command);
    if (const auto exposed = setting.exposed()) {
        print_indented("Users other than root can change the plugin: " + exposed->description());
        fmt::print("fix: {}\n", exposed->fix);
    }
}

} // namespace

void tools::add_status(cli::command &program, int &status) {
    struct options {
        bool json = false;
        std::string root;
    };
    auto opts = std::make_shared<options>();
    auto command =
        program.add_subcommand("status", "Print which provider serves each device, and why");
    command.add_flag("--json,-j", opts->json, "Print JSON");
    command.add_option("--root", opts->root, "Only print the setting of the system in this folder")
        .type_name("DIR")
        .check(check_root);
    command.footer("Exit status: 0 if the setting is on or off, 1 if it is partial or stale, "
                   "or users other than root can change the plugin.");
    command.callback([opts, &status] {
        const host machine = host_at_root(opts->root);
        const system_setting setting = query_setting(machine);
        const auto devices =
            opts->root.empty() ? query_devices(machine) : std::vector<served_device>();
        if (opts->json)
            print_json(setting, devices);
        else
            print_text(machine, setting, devices);
        status = fix_command(setting.state) || setting.exposed() ? FAILED : SUCCESS;
    });
}
