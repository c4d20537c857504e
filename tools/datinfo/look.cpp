// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datinfo/look.hpp"
#include "dat/apart.hpp"
#include "dat/words.hpp"

#include <algorithm>
#include <coherdma/coherdma.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <memory>
#include <regex>

namespace tools::datinfo {
namespace {

constexpr std::chrono::seconds LIMIT{20};

std::string transport_of(const std::string &device) {
    coherdma_open_attr wanted = {};
    wanted.flags = COHERDMA_OPEN_QUERY_ONLY;
    wanted.name = device.c_str();
    const std::unique_ptr<coherdma_device, void (*)(coherdma_device *)> opened(
        coherdma_open(&wanted, sizeof wanted), coherdma_close);
    coherdma_device_attr about = {};
    if (!opened || coherdma_query_device(opened.get(), &about, sizeof about) != 0)
        return {};
    return about.transport;
}

/// Without what OFED's libraries put before each line: host, provider, process, thread, times.
std::string plain(const std::string &said) {
    static const std::regex before(R"(^\S+:[A-Z]+:\w+:\w+: \d+ us\(\d+ us!*\): *)");
    std::istringstream in(said);
    std::string all;
    for (std::string line; std::getline(in, line);) {
        line = std::regex_replace(line, before, "");
        if (!line.empty())
            all += (all.empty() ? "" : "; ") + line;
    }
    return all;
}

json or_null(const std::string &text) {
    return text.empty() ? json() : json(text);
}

json facts_of(const dat::adapter &ia) {
    const DAT_PROVIDER_ATTR &provider = ia.provider();
    const DAT_IA_ATTR &all = ia.attr();
    const std::string device = ia.device();
    return {
        {"device", or_null(device)},
        {"transport", or_null(transport_of(device))},
        {"extension", extension_name(all.extension_supported)},
        {"address", ia.own_address() ? json(ia.own_address().text()) : json()},
        {"lmr_sync_req", ia.sync_required()},
        {"provider", fmt::format("{} {}.{}", provider.provider_name,
                                 provider.provider_version_major, provider.provider_version_minor)},
        {"library", or_null(ia.library())},
        {"ia_attributes", ia_attributes(ia)},
        {"transport_specific", named(all.transport_attr, all.num_transport_attr)},
        {"vendor_specific", named(all.vendor_attr, all.num_vendor_attr)},
        {"provider_attributes", provider_attributes(ia)},
        {"provider_specific",
         named(provider.provider_specific_attr, provider.num_provider_specific_attr)},
    };
}

/// In a process of its own.
std::string facts_or_reason(const std::string &name) {
    json answer;
    try {
        answer["facts"] = facts_of(dat::adapter(name));
    } catch (const dat::error &problem) {
        std::string reason = dat::words(problem.code);
        if (DAT_GET_TYPE(problem.code) == DAT_PROVIDER_NOT_FOUND)
            reason +=
                ": its library was not found, or did not want it; DAT_DBG_TYPE=0xff says more";
        answer["reason"] = reason;
    }
    return answer.dump(-1, ' ', false, json::error_handler_t::replace);
}

void open(looked &one) {
    const auto openable = [](const dat::registered &each) {
        return each.openable();
    };
    if (std::none_of(one.records.begin(), one.records.end(), openable)) {
        one.reason = fmt::format("is of uDAPL {}.{}", one.records[0].major, one.records[0].minor);
        return;
    }
    const dat::apart tried = dat::call_apart([&] { return facts_or_reason(one.name); }, LIMIT);
    one.said = plain(tried.said);
    if (!tried.fate.empty()) {
        one.reason = "its library " + tried.fate + " when it was opened";
        return;
    }
    const json answer = json::parse(tried.answer);
    one.open = answer.contains("facts");
    if (one.open)
        one.facts = answer["facts"];
    else
        one.reason = answer["reason"];
}

} // namespace

std::vector<looked> look(const std::vector<std::string> &names) {
    std::vector<looked> all;
    const auto called = [&](const std::string &name) {
        return std::find_if(all.begin(), all.end(),
                            [&](const looked &each) { return each.name == name; });
    };
    for (const std::string &name : names)
        if (called(name) == all.end())
            all.emplace_back().name = name;
    for (const dat::registered &each : dat::registry()) {
        auto place = called(each.name);
        if (place == all.end() && !names.empty())
            continue;
        if (place == all.end()) {
            all.emplace_back().name = each.name;
            place = all.end() - 1;
        }
        place->records.push_back(each);
    }
    for (looked &each : all) {
        if (each.records.empty())
            throw std::runtime_error(
                fmt::format("no IA is named {}; type  datinfo  to see which there are", each.name));
        open(each);
    }
    return all;
}

std::string registry_file() {
    Dl_info where = {};
    if (dladdr(reinterpret_cast<const void *>(dat_ia_openv), &where) == 0 || !where.dli_fname)
        return "?";
    return where.dli_fname;
}

} // namespace tools::datinfo
