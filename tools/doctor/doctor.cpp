// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// coherdma doctor: the command.

#include "doctor/doctor.hpp"
#include "command.hpp"

#include <cstdlib>
#include <memory>
#include <unistd.h>

namespace {

struct options {
    bool json = false;
    std::vector<std::string> devices;
};

bool wants_colour() {
    const char *no = std::getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) && (!no || !*no);
}

} // namespace

void tools::add_doctor(CLI::App &program, int &status) {
    const auto given = std::make_shared<options>();
    CLI::App *command =
        program.add_subcommand("doctor", "Why there is no working RDMA device, and what to type");
    command->add_flag("-j,--json", given->json, "For programs: all checks, and a summary");
    command->add_option("DEVICE", given->devices, "Only these devices")->type_name("");
    command->footer("Exit status: 0 nothing failed (warnings are no failures), 1 a check failed.");
    command->callback([given, &status] {
        const doctor::report all = doctor::examine(doctor::this_machine(), given->devices);
        if (given->json)
            std::puts(doctor::as_json(all).c_str());
        else
            doctor::print_text(all, stdout, wants_colour());
        status = all.any_failed() ? FAILED : DONE;
    });
}
