// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "machine.hpp"
#include "measure.hpp"

#include <ctime>
#include <fstream>
#include <sys/utsname.h>
#include <thread>

namespace tools::bench {
namespace {

std::string first_line(const char *file) {
    std::ifstream in(file);
    std::string line;
    std::getline(in, line);
    return line;
}

/// Kinds of CPUs differ in what they call it; some give no name at all.
std::string cpu_model() {
    std::ifstream in("/proc/cpuinfo");
    for (std::string line; std::getline(in, line);)
        for (const char *key : {"model name", "cpu model", "Model Name", "uarch", "cpu\t"})
            if (line.starts_with(key))
                if (const auto colon = line.find(": "); colon != std::string::npos)
                    return line.substr(colon + 2);
    const std::string board = first_line("/sys/firmware/devicetree/base/model");
    return board.empty() ? "unknown" : board.c_str(); // it ends in a NUL
}

} // namespace

machine this_machine(std::uint32_t line_bytes) {
    machine here;
    utsname names{};
    uname(&names);
    here.cpu = cpu_model();
    here.architecture = names.machine;
    here.kernel = std::string(names.sysname) + " " + names.release;
    here.governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    here.library = COHERDMA_VERSION;
    here.time_source = "clock_gettime(CLOCK_MONOTONIC), kernel clock source " +
                       first_line("/sys/devices/system/clocksource/clocksource0/"
                                  "current_clocksource");
    here.cpus = std::thread::hardware_concurrency();
    here.line_bytes = line_bytes;
    here.clock_ns = clock_cost_ns();
    return here;
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
