// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A PCI Express device may ask not to be looked up in the cache if bit 11 of its Device Control
// (Enable No Snoop) is set, as it is after a reset. That is a permission, not a fact, so this rule
// decides nothing; it tells a person whether there is a doubt left.

#include "files.hpp"
#include "place.hpp"
#include "verdict.hpp"

namespace coherdma::coherency {
namespace {

constexpr std::size_t COMMON_PART = 64; // of the configuration space: all that non-root sees
constexpr std::size_t FIRST_CAPABILITY = 0x34;
constexpr unsigned PCI_EXPRESS = 0x10;
constexpr std::size_t DEVICE_CONTROL = 8;
constexpr unsigned ENABLE_NO_SNOOP = 1U << 11;

unsigned byte(const std::string &space, std::size_t at) {
    return at < space.size() ? static_cast<unsigned char>(space[at]) : 0;
}

// Where the capability begins, 0 if there is none. Each names the next; a broken chain may turn.
std::size_t capability(const std::string &space, unsigned wanted) {
    std::size_t at = byte(space, FIRST_CAPABILITY) & ~3U;
    for (int step = 0; at >= COMMON_PART && step < 48; ++step) {
        if (byte(space, at) == wanted)
            return at;
        at = byte(space, at + 1) & ~3U;
    }
    return 0;
}

} // namespace

finding ask_pcie(const subject &device) {
    finding found;
    const std::string place = hardware(device);
    found.source = place.empty() ? "/sys/class/infiniband/" + device.name + "/device"
                                 : without_root(device, place) + "/config";
    const auto space = place.empty() ? std::nullopt : read_file(place + "/config", 256);
    if (!space || host_bridge(place).empty()) {
        found.reason = "it is not a PCI device";
        return found;
    }
    if (space->size() <= COMMON_PART) {
        found.value = "readable by root only";
        found.reason = "whether it may bypass the cache cannot be seen";
        return found;
    }
    const std::size_t at = capability(*space, PCI_EXPRESS);
    if (at == 0 || at + DEVICE_CONTROL + 2 > space->size()) {
        found.value = "no PCI Express capability";
        found.reason = "whether it may bypass the cache is not said";
        return found;
    }
    const unsigned control =
        byte(*space, at + DEVICE_CONTROL) | byte(*space, at + DEVICE_CONTROL + 1) << 8;
    const bool may = (control & ENABLE_NO_SNOOP) != 0;
    found.value = may ? "No Snoop enabled" : "No Snoop disabled";
    found.reason = may ? "it may bypass the cache, which is not to say that it does"
                       : "it cannot bypass the cache, so what the rules above say holds";
    return found;
}

} // namespace coherdma::coherency
