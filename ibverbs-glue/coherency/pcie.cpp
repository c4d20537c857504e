// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// PCI Express: if Enable No Snoop, bit 11 of Device Control, is set, as it is after a reset, a
// device may send requests that bypass the cache. That it may does not mean that it does, so this
// rule decides nothing; it informs the user.

#include "device_path.hpp"
#include "files.hpp"
#include "rules.hpp"

namespace coherdma::coherency {
namespace {

constexpr std::size_t STD_HEADER_SIZE = 64; // unprivileged users can read no more
// As in <linux/pci_regs.h>.
constexpr std::size_t CAPABILITY_LIST = 0x34;
constexpr unsigned CAP_ID_EXP = 0x10; // of the PCI Express capability
constexpr std::size_t EXP_DEVCTL = 8; // Device Control, from its beginning
constexpr unsigned EXP_DEVCTL_NOSNOOP_EN = 1U << 11;

// 0 beyond the end.
unsigned byte_at(const std::string &config, std::size_t offset) {
    return offset < config.size() ? static_cast<unsigned char>(config[offset]) : 0;
}

// The offset of a capability, or 0. The list may be damaged and circular.
std::size_t find_capability(const std::string &config, unsigned id) {
    std::size_t offset = byte_at(config, CAPABILITY_LIST) & ~3U;
    constexpr int MAX_CAPABILITIES = 48; // as many as fit into the configuration space
    for (int i = 0; offset >= STD_HEADER_SIZE && i < MAX_CAPABILITIES; ++i) {
        if (byte_at(config, offset) == id)
            return offset;
        offset = byte_at(config, offset + 1) & ~3U;
    }
    return 0;
}

} // namespace

/// The rule "pcie" of rules.cpp. It never has a result, but informs the user.
evidence evaluate_pcie(const rule_input &input) {
    evidence result;
    const std::string device = find_hardware_folder(input);
    const std::string function = find_pci_function(device);
    result.source = function.empty() ? "/sys/class/infiniband/" + input.name + "/device"
                                     : strip_root(input, function) + "/config";
    const auto config = function.empty() ? std::nullopt : read_file(function + "/config", 256);
    if (!config) {
        result.reason = "not a PCI device";
        return result;
    }
    if (config->size() <= STD_HEADER_SIZE) {
        result.value = "readable by root only";
        result.reason = "run as root to see whether the device may bypass the cache";
        return result;
    }
    const std::size_t offset = find_capability(*config, CAP_ID_EXP);
    if (offset == 0 || offset + EXP_DEVCTL + 2 > config->size()) {
        result.value = "no PCI Express capability";
        result.reason = "whether the device may bypass the cache is unknown";
        return result;
    }
    const unsigned devctl =
        byte_at(*config, offset + EXP_DEVCTL) | byte_at(*config, offset + EXP_DEVCTL + 1) << 8;
    const bool is_enabled = (devctl & EXP_DEVCTL_NOSNOOP_EN) != 0;
    result.value = is_enabled ? "No Snoop enabled" : "No Snoop disabled";
    result.reason = is_enabled ? "the device may bypass the cache, but need not"
                               : "the device cannot bypass the cache";
    return result;
}

} // namespace coherdma::coherency
