// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "selftest/machine.hpp"

#include "text.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <fstream>
#include <set>
#include <stdexcept>
#include <sys/utsname.h>
#include <unistd.h>

namespace tools::selftest {
namespace {

/// "" if the file cannot be read. Without the zero byte that ends texts of the device tree.
std::string read_first_line(const std::string &file) {
    std::ifstream stream(file);
    std::string line;
    std::getline(stream, line);
    std::erase(line, '\0');
    return make_printable(line);
}

/// Values of /proc/cpuinfo, each once.
std::set<std::string> cpuinfo_values(const std::string &root, const std::string &key) {
    std::ifstream cpuinfo(root + "/proc/cpuinfo");
    std::set<std::string> values;
    for (std::string line; std::getline(cpuinfo, line);) {
        const auto colon = line.find(": ");
        if (colon == std::string::npos || !line.starts_with(key))
            continue;
        // The key ends in blanks or tabs.
        if (line.find_first_not_of(" \t", key.size()) == colon)
            values.insert(make_printable(line.substr(colon + 2)));
    }
    return values;
}

/// The keys depend on the architecture. Arm has only numbers, several if the cores differ.
std::string describe_cpu(const std::string &root) {
    for (const char *key : {"model name", "cpu model", "Model Name", "uarch", "cpu"})
        if (const auto values = cpuinfo_values(root, key); !values.empty())
            return fmt::format("{}", fmt::join(values, " and "));
    const auto implementers = cpuinfo_values(root, "CPU implementer");
    const auto parts = cpuinfo_values(root, "CPU part");
    if (implementers.empty() || parts.empty())
        return "unknown";
    return fmt::format("implementer {}, part {}", fmt::join(implementers, " and "),
                       fmt::join(parts, " and "));
}

std::string describe_board(const std::string &root) {
    const std::string model = read_first_line(root + "/proc/device-tree/model");
    if (!model.empty())
        return model;
    const std::string dmi = root + "/sys/class/dmi/id/";
    const std::string vendor = read_first_line(dmi + "sys_vendor");
    const std::string product = read_first_line(dmi + "product_name");
    const std::string text = vendor + (vendor.empty() || product.empty() ? "" : " ") + product;
    return text.empty() ? "unknown" : text;
}

bool exists(const std::string &file) {
    std::error_code error;
    return std::filesystem::exists(file, error);
}

/// Only what is simply known.
std::vector<std::string> describe_environment(const std::string &root) {
    std::vector<std::string> result;
    const auto flags = cpuinfo_values(root, "flags");
    const bool has_flag = std::any_of(flags.begin(), flags.end(), [](const std::string &value) {
        return (" " + value + " ").find(" hypervisor ") != std::string::npos;
    });
    if (has_flag || exists(root + "/sys/hypervisor/type") ||
        exists(root + "/proc/device-tree/hypervisor"))
        result.emplace_back("virtual machine");
    if (cpuinfo_values(root, "vendor_id").contains("User Mode Linux"))
        result.emplace_back("user-mode Linux");
    if (exists(root + "/run/.containerenv") || exists(root + "/.dockerenv") ||
        exists(root + "/run/systemd/container"))
        result.emplace_back("container");
    return result;
}

/// The line sizes of the caches of CPU 0, such as "L1 64, L2 128".
std::string describe_line_sizes(const std::string &root) {
    constexpr int MAX_CACHES = 16;
    std::vector<std::string> sizes;
    for (int i = 0; i < MAX_CACHES; ++i) {
        const std::string folder =
            fmt::format("{}/sys/devices/system/cpu/cpu0/cache/index{}/", root, i);
        const std::string size = read_first_line(folder + "coherency_line_size");
        if (!size.empty() && read_first_line(folder + "type") != "Instruction")
            sizes.push_back("L" + read_first_line(folder + "level") + " " + size);
    }
    return fmt::format("{}", fmt::join(sizes, ", "));
}

} // namespace

machine_facts describe_machine(const std::string &root) {
    coherdma_cpu_attr cpu = {};
    if (coherdma_query_cpu(&cpu, sizeof cpu) != 0)
        throw std::runtime_error(coherdma_error());
    utsname names = {};
    uname(&names);
    return {.cpu = describe_cpu(root),
            .architecture = names.machine,
            .kernel = std::string(names.sysname) + " " + names.release,
            .board = describe_board(root),
            .environment = describe_environment(root),
            .page_size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE)),
            .line_size = cpu.line_size,
            .other_line_sizes = describe_line_sizes(root),
            .instructions = cpu.instructions,
            .instructions_problem = cpu.problem};
}

device_facts describe_device(const device &device) {
    device_facts facts;
    facts.name = device.attr().name;
    facts.driver = device.attr().driver;
    facts.transport = device.attr().transport;
    facts.line_size = device.attr().line_size;
    ibv_device_attr attr = {};
    if (device.context() && ibv_query_device(device.context(), &attr) == 0) {
        attr.fw_ver[sizeof attr.fw_ver - 1] = '\0';
        facts.firmware = attr.fw_ver;
        facts.vendor_and_part = fmt::format("vendor {:#06x}, part {:#06x}, revision {:#x}",
                                            attr.vendor_id, attr.vendor_part_id, attr.hw_ver);
    }
    return facts;
}

} // namespace tools::selftest
