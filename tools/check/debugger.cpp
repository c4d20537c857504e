// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "check/debugger.hpp"

#include "run/location.hpp"
#include "run/session.hpp"

#include <array>
#include <fstream>
#include <stdexcept>

namespace tools::check {
namespace {

/// check/debugger.hpp has the function and the variables. The program may be in another language
/// than C++, and libcoherdma-check.so without debug information.
constexpr const char *STOP_COMMANDS = R"(set breakpoint pending on
break coherdma_check_stop
commands
silent
with language c++ -- printf "coherdma check: stopped: %s\n", *(char **) &coherdma_check_message
with language c++ -- set $coherdma_frame = *(unsigned long *) &coherdma_check_frame
frame address $coherdma_frame
end
set breakpoint pending auto
)";

/// Not for gdb itself.
constexpr std::array PROGRAM_VARIABLES = {"LD_PRELOAD", "LD_BIND_NOW"};

/// gdb starts no others.
bool is_elf(const std::string &file) {
    constexpr std::array MAGIC = {'\x7f', 'E', 'L', 'F'};
    std::array<char, MAGIC.size()> begin{};
    std::ifstream stream(file, std::ios::binary);
    return stream.read(begin.data(), begin.size()) && begin == MAGIC;
}

/// Scripts, and what does not exist, are started by env: its exit status says which.
std::vector<std::string> start_arguments(std::vector<std::string> command) {
    const std::string file = run::find_program(command.front());
    if (is_elf(file))
        command.front() = file;
    else
        command.insert(command.begin(), "/usr/bin/env");
    return command;
}

} // namespace

std::vector<std::string> debugger_command(const std::vector<std::string> &command, bool protects,
                                          const std::string &folder,
                                          std::map<std::string, std::string> &env) {
    const std::string gdb = run::find_program("gdb");
    if (gdb.empty())
        throw run::not_available_error(
            "there is no gdb in PATH; next: install it (Debian: apt install gdb)");
    const std::string file = folder + "/gdb-commands";
    std::ofstream script(file);
    script << STOP_COMMANDS;
    for (const char *const name : PROGRAM_VARIABLES)
        if (const auto it = env.find(name); it != env.end()) {
            script << "set environment " << name << " " << it->second << "\n";
            env.erase(it);
        }
    if (protects) // the checker handles the accesses that protected pages refuse
        script << "handle SIGSEGV nostop noprint pass\n";
    script << "run\n";
    if (!script.flush())
        throw std::runtime_error("cannot write " + file);
    std::vector<std::string> args = {gdb, "-q", "--return-child-result", "-x", file, "--args"};
    const std::vector<std::string> started = start_arguments(command);
    args.insert(args.end(), started.begin(), started.end());
    return args;
}

} // namespace tools::check
