// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datping/choose.hpp"
#include "dat/apart.hpp"
#include "dat/words.hpp"
#include "datping/options.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

namespace tools::datping {
namespace {

constexpr std::chrono::seconds LIMIT{20};

/// How well an IA fits an address; more is better.
enum fit : int { NOT = 0, SOME_ADDRESS, SAME_FAMILY, SAME_INTERFACE, SAME_ADDRESS };

fit fit_of(const dat::address &own, const dat::address &there) {
    if (!own)
        return NOT;
    if (!there)
        return SOME_ADDRESS;
    const dat::address source = dat::source_for(there);
    if (source.same_host(own))
        return SAME_ADDRESS;
    const std::string interface = dat::interface_of(source);
    if (!interface.empty() && interface == dat::interface_of(own))
        return SAME_INTERFACE;
    return own.family() == there.family() ? SAME_FAMILY : SOME_ADDRESS;
}

/// OFED's dat.conf has 66 names.
std::string joined(const std::vector<std::string> &names) {
    constexpr std::size_t SHOWN = 5;
    std::string all;
    for (std::size_t place = 0; place < std::min(SHOWN, names.size()); ++place)
        all += (place > 0 ? ", " : "") + names[place];
    if (names.size() > SHOWN)
        all += fmt::format(" and {} more", names.size() - SHOWN);
    return all.empty() ? "none" : all;
}

/// The address of the host that suits the IA best, and how well.
std::pair<fit, dat::address> best_of(const dat::address &own,
                                     const std::vector<dat::address> &host) {
    if (host.empty())
        return {fit_of(own, {}), {}};
    std::pair<fit, dat::address> best = {NOT, host.front()};
    for (const dat::address &there : host)
        if (const fit how_well = fit_of(own, there); how_well > best.first)
            best = {how_well, there};
    return best;
}

choice open_named(const std::string &name, const std::vector<dat::address> &host) {
    try {
        dat::adapter ia(name);
        const dat::address there = best_of(ia.own_address(), host).second;
        return {std::move(ia), there};
    } catch (const dat::error &problem) {
        const auto names = dat::openable_names();
        if (std::find(names.begin(), names.end(), name) != names.end())
            throw std::runtime_error(fmt::format("{}; type: datinfo", problem.what()));
        throw std::runtime_error(
            fmt::format("no IA is named {}; there are: {}; type: datinfo", name, joined(names)));
    }
}

choice open_only(const std::string &name, const std::vector<dat::address> &host) {
    try {
        return open_named(name, host);
    } catch (const std::runtime_error &problem) {
        throw cannot_here(problem.what());
    }
}

/// Of an IA that is opened in a process of its own: what is registered for devices that this
/// machine has not complains, and some of OFED's crash.
std::optional<dat::address> address_of(const std::string &name) {
    const dat::apart tried =
        dat::call_apart([&] { return dat::adapter(name).own_address().text(); }, LIMIT);
    if (!tried.fate.empty())
        return {};
    return tried.answer == "none" ? dat::address() : dat::resolve(tried.answer).front();
}

} // namespace

choice choose(const std::string &name, const std::vector<dat::address> &host) {
    if (!name.empty())
        return open_named(name, host);
    const auto names = dat::openable_names();
    if (names.empty())
        throw cannot_here("there is no IA on this machine; type: datinfo");
    if (names.size() == 1)
        return open_only(names[0], host);
    std::string best;
    std::optional<fit> best_fit;
    for (const std::string &each : names) {
        const auto own = address_of(each);
        if (!own)
            continue;
        const fit how_well = best_of(*own, host).first;
        if (best_fit && how_well <= *best_fit)
            continue;
        best_fit = how_well;
        best = each;
    }
    if (!best_fit)
        throw cannot_here(
            fmt::format("no IA can be opened: {}; why, says: datinfo", joined(names)));
    return open_named(best, host);
}

} // namespace tools::datping
