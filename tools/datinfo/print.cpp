// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datinfo/print.hpp"
#include "wrap.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace tools::datinfo {
namespace {

constexpr std::size_t WIDTH = 79, FEW = 8;

using row = std::array<std::string, 6>;

std::string base(const std::string &file) {
    return file.substr(file.rfind('/') + 1);
}

std::string value_text(const json &value);

row row_of(const looked &one) {
    std::string transport = value_text(one.facts["transport"]);
    if (const std::string extension = one.facts["extension"]; extension != "none")
        transport += "/" + extension;
    return {one.name,
            value_text(one.facts["device"]),
            transport,
            value_text(one.facts["address"]),
            value_text(one.facts["lmr_sync_req"]),
            base(value_text(one.facts["library"]))};
}

struct entry {
    row cells;
    std::string also; ///< other names of the same
};

/// A device has four names by itself: the first gets the line.
void add(std::vector<entry> &to, row cells) {
    const auto same = std::find_if(to.begin(), to.end(), [&](const entry &one) {
        return std::equal(cells.begin() + 1, cells.end(), one.cells.begin() + 1);
    });
    if (same == to.end())
        to.push_back({std::move(cells), ""});
    else
        same->also += (same->also.empty() ? "" : ", ") + cells[0];
}

std::string indented(const std::string &words, std::size_t indent) {
    std::string text;
    for (const std::string &line : wrapped(words, WIDTH - indent))
        text += fmt::format("{:{}}{}\n", "", indent, line);
    return text;
}

std::string lines(const std::vector<entry> &entries) {
    constexpr std::size_t LAST = std::tuple_size_v<row> - 1;
    std::array<std::size_t, LAST> widths = {};
    for (const auto &[cells, also] : entries)
        for (std::size_t column = 0; column < LAST; ++column)
            widths[column] = std::max(widths[column], cells[column].size());
    std::string text;
    for (const auto &[cells, also] : entries) {
        for (std::size_t column = 0; column < LAST; ++column)
            text += fmt::format("{:<{}}  ", cells[column], widths[column]);
        text += cells[LAST] + "\n";
        if (!also.empty())
            text += indented("also " + also, 2);
    }
    return text;
}

std::string full_reason(const looked &one) {
    return one.said.empty() ? one.reason : fmt::format("{}: {}", one.reason, one.said);
}

/// OFED's dat.conf has 62 names, most of devices that a machine has not. Who has so many is not
/// told each reason; and of few each only once.
std::string not_opened(const std::vector<looked> &all) {
    std::string names_of_all;
    std::ptrdiff_t count = 0;
    for (const looked &each : all) {
        if (!each.open)
            names_of_all += (count++ == 0 ? "" : ", ") + each.name;
    }
    if (count > static_cast<std::ptrdiff_t>(FEW))
        return "Cannot be opened; datinfo NAME tells why:\n" + indented(names_of_all, 2);
    std::vector<std::pair<std::string, std::string>> names_by_reason;
    for (const looked &each : all) {
        if (each.open)
            continue;
        const std::string why = full_reason(each);
        auto place = std::find_if(names_by_reason.begin(), names_by_reason.end(),
                                  [&](const auto &one) { return one.first == why; });
        if (place == names_by_reason.end())
            place = names_by_reason.insert(place, {why, ""});
        place->second += (place->second.empty() ? "" : ", ") + each.name;
    }
    if (names_by_reason.empty())
        return {};
    std::string text = "Cannot be opened:\n";
    for (const auto &[why, names] : names_by_reason)
        text += indented(names, 2) + indented(why, 4);
    return text;
}

std::string value_text(const json &value) {
    if (value.is_boolean())
        return value.get<bool>() ? "yes" : "no";
    if (value.is_null() || value == "")
        return "-";
    if (value.is_string())
        return value.get<std::string>();
    if (!value.is_array())
        return value.dump();
    std::string all;
    for (const json &each : value)
        all += (all.empty() ? "" : ", ") + value_text(each);
    return all.empty() ? "nothing" : all;
}

std::string pair(const std::string &name, const std::string &value) {
    const auto parts = value.find(' ') == std::string::npos ? std::vector<std::string>{value}
                                                            : wrapped(value, WIDTH - 38);
    std::string text = fmt::format("  {:<35} {}\n", name, parts[0]);
    for (std::size_t next = 1; next < parts.size(); ++next)
        text += fmt::format("{:38}{}\n", "", parts[next]);
    return text;
}

std::string section(const char *title, const json &attributes) {
    if (attributes.empty())
        return {};
    std::string text = fmt::format("{}:\n", title);
    for (const auto &[name, value] : attributes.items()) {
        if (value.is_object()) {
            text += fmt::format("  {}\n", name);
            for (const auto &[inner, with] : value.items())
                text += pair("  " + inner, value_text(with));
        } else {
            text += pair(name, value_text(value));
        }
    }
    return text;
}

json records(const looked &one) {
    json all = json::array();
    for (const dat::registered &each : one.records)
        all.push_back({{"version", fmt::format("{}.{}", each.major, each.minor)},
                       {"thread_safe", each.thread_safe}});
    return all;
}

json object(const looked &one) {
    json all = {{"name", one.name}, {"records", records(one)}, {"open", one.open}};
    if (one.open) {
        all.update(one.facts);
        return all;
    }
    all["reason"] = one.reason;
    all["said"] = one.said.empty() ? json() : json(one.said);
    return all;
}

} // namespace

std::string as_table(const std::vector<looked> &all) {
    if (all.empty())
        return indented("No IA is registered: dat.conf has none, and " + registry_file() +
                            " knows no other. What is in the way of an RDMA device: coherdma "
                            "doctor. For dat.conf, where there are devices: datinfo --conf",
                        0);
    std::vector<entry> entries{{{"IA", "DEVICE", "TRANSPORT", "ADDRESS", "SYNC", "LIBRARY"}, ""}};
    for (const looked &each : all)
        if (each.open)
            add(entries, row_of(each));
    return (entries.size() > 1 ? lines(entries) : "No IA can be opened.\n") + not_opened(all);
}

std::string as_details(const looked &one) {
    if (!one.open)
        return indented("datinfo: " + one.name + ": " + full_reason(one), 0);
    std::string text = fmt::format("IA {}\n", one.name);
    for (const char *each : {"device", "transport", "provider", "library"})
        text += pair(each, value_text(one.facts[each]));
    text += pair("registry", registry_file());
    for (const dat::registered &each : one.records)
        text += pair("registered for", fmt::format("uDAPL {}.{}, {}thread-safe", each.major,
                                                   each.minor, each.thread_safe ? "" : "not "));
    return text + section("IA attributes", one.facts["ia_attributes"]) +
           section("Transport's named attributes", one.facts["transport_specific"]) +
           section("Vendor's named attributes", one.facts["vendor_specific"]) +
           section("Provider attributes", one.facts["provider_attributes"]) +
           section("Provider's named attributes", one.facts["provider_specific"]);
}

std::string as_json(const std::vector<looked> &all) {
    json document = {{"schema", 1}, {"registry", registry_file()}};
    document["ias"] = json::array();
    for (const looked &each : all)
        document["ias"].push_back(object(each));
    return document.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

} // namespace tools::datinfo
