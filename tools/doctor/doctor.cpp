// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The command coherdma doctor.

#include "doctor/doctor.hpp"
#include "command.hpp"

#include <cstdlib>
#include <memory>
#include <unistd.h>

namespace {

struct doctor_options {
    bool json = false;
    std::vector<std::string> devices;
};

/// See no-color.org.
bool use_color() {
    const char *no_color = std::getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) && (!no_color || !*no_color);
}

} // namespace

void tools::add_doctor(cli::command &program, int &status) {
    const auto opts = std::make_shared<doctor_options>();
    auto command = program.add_subcommand("doctor", "Diagnose RDMA devices and suggest fixes");
    command.add_flag("-j,--json", opts->json, "Print all checks and a summary as JSON");
    command.add_option("DEVICE", opts->devices, "Check only these devices").type_name("");
    command.footer("Exit status: 0 no check failed (warnings are not failures), 1 a check failed.");
    command.callback([opts, &status] {
        const doctor::report rep = doctor::examine(doctor::this_machine(), opts->devices);
        if (opts->json)
            std::puts(doctor::as_json(rep).c_str());
        else
            doctor::print_text(rep, stdout, use_color());
        status = rep.has_any_failed() ? FAILED : SUCCESS;
    });
}
