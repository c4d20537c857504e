// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// coherdma: a table of commands. Each is a folder beside this file.

#include "command.hpp"

#include <cstdio>
#include <exception>

namespace {

constexpr void (*COMMANDS[])(CLI::App &, int &) = {
    tools::add_show,   tools::add_explain, tools::add_doctor, tools::add_status,
    tools::add_enable, tools::add_disable, tools::add_bench,  tools::add_emulate,
};

} // namespace

int main(int count, char **words) {
    CLI::App program{"Says whether RDMA devices see the CPU's cache, and what is in their way."};
    program.name("coherdma");
    program.set_version_flag("--version", "coherdma " COHERDMA_VERSION);
    program.require_subcommand(0, 1);
    program.get_formatter()->column_width(22); // so that lines have 80 columns at most
    program.footer("Exit status: 0 done, 1 failed, 2 misuse, 77 not possible on this machine.");
    program.failure_message([](const CLI::App *, const CLI::Error &problem) {
        return std::string("coherdma: ") + problem.what() + "; see: coherdma --help\n";
    });
    int status = tools::DONE;
    for (const auto add : COMMANDS)
        add(program, status);
    try {
        program.parse(count, words);
        if (program.get_subcommands().empty())
            program.get_subcommand("show")->parse("", false);
    } catch (const CLI::ParseError &problem) {
        return program.exit(problem) == 0 ? tools::DONE : tools::MISUSE;
    } catch (const std::exception &problem) {
        std::fprintf(stderr, "coherdma: %s\n", problem.what());
        return tools::FAILED;
    }
    if (std::fflush(stdout) != 0) {
        std::perror("coherdma: cannot write the answer");
        return tools::FAILED;
    }
    return status;
}
