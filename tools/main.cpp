// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The coherdma program. Each subcommand is in a folder of its own.

#include "command.hpp"

#include <cstdio>
#include <exception>

namespace {

constexpr void (*COMMANDS[])(tools::cli::command &, int &) = {
    tools::add_show,   tools::add_explain, tools::add_doctor,   tools::add_status,
    tools::add_enable, tools::add_disable, tools::add_bench,    tools::add_emulate,
    tools::add_check,  tools::add_fault,   tools::add_selftest,
};

} // namespace

int main(int argc, char **argv) {
    constexpr std::size_t COLUMN_WIDTH = 22; // keeps the lines within 80 columns
    tools::cli::program program(
        "coherdma", "Reports whether RDMA devices are cache-coherent and diagnoses their setup.",
        "coherdma " COHERDMA_VERSION, COLUMN_WIDTH);
    program.footer(
        "Exit status: 0 success, 1 failure, 2 usage error, 77 not possible on this host.");
    int status = tools::SUCCESS;
    for (const auto add_command : COMMANDS)
        add_command(program, status);
    try {
        if (const auto exit_code = program.parse(argc, argv, "show"))
            return *exit_code;
    } catch (const std::exception &e) {
        std::fprintf(stderr, "coherdma: %s\n", e.what());
        return tools::FAILED;
    }
    if (std::fflush(stdout) != 0) {
        std::perror("coherdma: cannot write the output");
        return tools::FAILED;
    }
    if (std::ferror(stdout) != 0) { // earlier, as output longer than the buffer was written
        std::fputs("coherdma: cannot write the output\n", stderr);
        return tools::FAILED;
    }
    return status;
}
