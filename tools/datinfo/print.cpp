// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datinfo/print.hpp"
#include "text.hpp"

#include <algorithm>
#include <array>
#include <fmt/core.h>
#include <functional>

namespace tools::datinfo {
namespace {

constexpr std::size_t WIDTH = 79;

using row = std::array<std::string, 6>;

std::string file_name(const std::string &path) {
    return path.substr(path.rfind('/') + 1);
}

std::string value_to_string(const json &value);

/// The cells of an IA that can be opened.
row make_row(const ia_info &info) {
    std::string transport = value_to_string(info.details["transport"]);
    if (const std::string extension = info.details["extension"]; extension != "none")
        transport += "/" + extension;
    return {info.name,
            value_to_string(info.details["device"]),
            transport,
            value_to_string(info.details["address"]),
            value_to_string(info.details["lmr_sync_req"]),
            file_name(value_to_string(info.details["library"]))};
}

struct table_row {
    row cells;
    std::string other_names; ///< of the same device
};

/// Adds a row, or appends the name to the row of the same device: a device has four names by
/// default.
void add_row(std::vector<table_row> &table, row cells) {
    const auto it = std::find_if(table.begin(), table.end(), [&](const table_row &other) {
        return std::equal(cells.begin() + 1, cells.end(), other.cells.begin() + 1);
    });
    if (it == table.end())
        table.push_back({std::move(cells), ""});
    else
        it->other_names += (it->other_names.empty() ? "" : ", ") + cells[0];
}

std::string indent_text(const std::string &text, std::size_t indent) {
    std::string result;
    for (const std::string &line : wrap_text(text, WIDTH - indent))
        result += fmt::format("{:{}}{}\n", "", indent, line);
    return result;
}

std::string format_table(const std::vector<table_row> &table) {
    constexpr std::size_t LAST = std::tuple_size_v<row> - 1;
    std::array<std::size_t, LAST> widths = {};
    for (const auto &[cells, other_names] : table)
        for (std::size_t column = 0; column < LAST; ++column)
            widths[column] = std::max(widths[column], cells[column].size());
    std::string text;
    for (const auto &[cells, other_names] : table) {
        for (std::size_t column = 0; column < LAST; ++column)
            text += fmt::format("{:<{}}  ", cells[column], widths[column]);
        text += cells[LAST] + "\n";
        if (!other_names.empty())
            text += indent_text("also " + other_names, 2);
    }
    return text;
}

std::string describe_failure(const ia_info &info) {
    return info.library_output.empty() ? info.reason
                                       : fmt::format("{}: {}", info.reason, info.library_output);
}

/// The IAs that cannot be opened, grouped by reason.
std::string format_unopened(const std::vector<ia_info> &infos) {
    struct group {
        std::string reason, names;
    };
    std::vector<group> groups;
    for (const ia_info &info : infos) {
        if (info.can_open)
            continue;
        const std::string reason = describe_failure(info);
        auto it = std::find_if(groups.begin(), groups.end(),
                               [&](const group &other) { return other.reason == reason; });
        if (it == groups.end())
            it = groups.insert(it, {reason, ""});
        it->names += (it->names.empty() ? "" : ", ") + info.name;
    }
    std::string text = "Cannot be opened:\n";
    for (const auto &[reason, names] : groups)
        text += indent_text(names, 2) + indent_text(reason, 4);
    return text;
}

std::string value_to_string(const json &value) {
    if (value.is_boolean())
        return value.get<bool>() ? "yes" : "no";
    if (value.is_null() || value == "")
        return "-";
    if (value.is_string())
        return value.get<std::string>();
    if (!value.is_array())
        return value.dump();
    std::string text;
    for (const json &element : value)
        text += (text.empty() ? "" : ", ") + value_to_string(element);
    return text.empty() ? "nothing" : text;
}

std::string format_attribute(const std::string &name, const std::string &value) {
    const auto lines = value.find(' ') == std::string::npos ? std::vector<std::string>{value}
                                                            : wrap_text(value, WIDTH - 38);
    std::string text = fmt::format("  {:<35} {}\n", name, lines[0]);
    for (std::size_t i = 1; i < lines.size(); ++i)
        text += fmt::format("{:38}{}\n", "", lines[i]);
    return text;
}

std::string format_section(const char *title, const json &attributes) {
    if (attributes.empty())
        return {};
    std::string text = fmt::format("{}:\n", title);
    for (const auto &[name, value] : attributes.items()) {
        if (value.is_object()) {
            text += fmt::format("  {}\n", name);
            for (const auto &[inner_name, inner_value] : value.items())
                text += format_attribute("  " + inner_name, value_to_string(inner_value));
        } else {
            text += format_attribute(name, value_to_string(value));
        }
    }
    return text;
}

json entries_to_json(const ia_info &info) {
    json entries = json::array();
    for (const dat::registered_ia &entry : info.entries)
        entries.push_back({{"version", fmt::format("{}.{}", entry.major, entry.minor)},
                           {"thread_safe", entry.thread_safe}});
    return entries;
}

json to_json(const ia_info &info) {
    json object = {
        {"name", info.name}, {"entries", entries_to_json(info)}, {"open", info.can_open}};
    if (info.can_open) {
        object.update(info.details);
        return object;
    }
    object["reason"] = info.reason;
    object["output"] = info.library_output.empty() ? json() : json(info.library_output);
    return object;
}

} // namespace

/// The IAs that can be opened; with_reasons: also the others, with the reasons.
std::string as_table(const std::vector<ia_info> &infos, bool with_reasons) {
    if (infos.empty())
        return indent_text("No IA is registered in dat.conf or " + registry_file() +
                               ". If there should be an RDMA device, type: coherdma doctor. To "
                               "print dat.conf entries for the devices, type: datinfo --conf",
                           0);
    std::vector<table_row> table{{{"IA", "DEVICE", "TRANSPORT", "ADDRESS", "SYNC", "LIBRARY"}, ""}};
    for (const ia_info &info : infos)
        if (info.can_open)
            add_row(table, make_row(info));
    std::string text = table.size() > 1 ? format_table(table) : "No IA can be opened.\n";
    const auto num_unopened =
        std::count_if(infos.begin(), infos.end(), std::not_fn(&ia_info::can_open));
    if (num_unopened == 0)
        return text;
    if (with_reasons)
        return text + format_unopened(infos);
    return text + fmt::format("Cannot be opened: {} name{}; for the reasons, type: datinfo --all\n",
                              num_unopened, num_unopened == 1 ? "" : "s");
}

/// The attributes of one IA, or why it cannot be opened.
std::string as_details(const ia_info &info) {
    if (!info.can_open)
        return indent_text("datinfo: " + info.name + ": " + describe_failure(info), 0);
    std::string text = fmt::format("IA {}\n", info.name);
    for (const char *key : {"device", "transport", "provider", "library"})
        text += format_attribute(key, value_to_string(info.details[key]));
    text += format_attribute("registry", registry_file());
    for (const dat::registered_ia &entry : info.entries)
        text += format_attribute("registered for",
                                 fmt::format("uDAPL {}.{}, {}thread-safe", entry.major, entry.minor,
                                             entry.thread_safe ? "" : "not "));
    return text + format_section("IA attributes", info.details["ia_attributes"]) +
           format_section("Transport's named attributes", info.details["transport_specific"]) +
           format_section("Vendor's named attributes", info.details["vendor_specific"]) +
           format_section("Provider attributes", info.details["provider_attributes"]) +
           format_section("Provider's named attributes", info.details["provider_specific"]);
}

std::string as_json(const std::vector<ia_info> &infos) {
    json document = {{"schema", 1}, {"registry", registry_file()}};
    document["ias"] = json::array();
    for (const ia_info &info : infos)
        document["ias"].push_back(to_json(info));
    return document.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

} // namespace tools::datinfo
