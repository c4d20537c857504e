// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "machine.hpp"
#include "measure.hpp"

#include <ctime>
#include <fstream>
#include <sys/utsname.h>
#include <thread>

namespace tools::bench {
namespace {

/// "" if the file cannot be read.
std::string read_first_line(const char *file) {
    std::ifstream stream(file);
    std::string line;
    std::getline(stream, line);
    return line;
}

/// The key in /proc/cpuinfo depends on the architecture; where there is none, the board's name.
std::string read_cpu_model() {
    std::ifstream cpuinfo("/proc/cpuinfo");
    for (std::string line; std::getline(cpuinfo, line);)
        for (const char *key : {"model name", "cpu model", "Model Name", "uarch", "cpu\t"})
            if (line.starts_with(key))
                if (const auto colon = line.find(": "); colon != std::string::npos)
                    return line.substr(colon + 2);
    const std::string board = read_first_line("/sys/firmware/devicetree/base/model");
    return board.empty() ? "unknown" : board.c_str(); // strips the NUL at its end
}

} // namespace

machine_info describe_machine(std::uint32_t line_size) {
    machine_info m;
    utsname names{};
    uname(&names);
    m.cpu_model = read_cpu_model();
    m.architecture = names.machine;
    m.kernel = std::string(names.sysname) + " " + names.release;
    m.governor = read_first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    m.library_version = COHERDMA_VERSION;
    m.time_source = "clock_gettime(CLOCK_MONOTONIC), kernel clock source " +
                    read_first_line("/sys/devices/system/clocksource/clocksource0/"
                                    "current_clocksource");
    m.cpus_online = std::thread::hardware_concurrency();
    m.line_size = line_size;
    m.clock_read_ns = measure_clock_read_ns();
    return m;
}

std::string utc_now() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    gmtime_r(&now, &parts);
    char text[32];
    const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return {text, length};
}

} // namespace tools::bench
