// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// datinfo: which interface adapters (IAs) uDAPL programs find here, and what they can do.

#include "command.hpp"
#include "dat/output.hpp"
#include "datinfo/print.hpp"

#include <fmt/format.h>

namespace {

using namespace tools::datinfo;

struct request {
    std::vector<std::string> names;
    bool json = false, conf = false;
};

int print_conf(std::FILE *out) {
    const std::string text = as_conf();
    if (text.empty()) {
        fmt::print(stderr, "datinfo: there is no RDMA device, so no record for it; "
                           "coherdma doctor says why\n");
        return tools::CANNOT_HERE;
    }
    fmt::print(out, "# For dat.conf, where libdat2 is not coherdma's, which needs no records.\n{}",
               text);
    return tools::DONE;
}

int print_ias(const request &asked, std::FILE *out) {
    const std::vector<looked> all = look(asked.names);
    int status = tools::DONE;
    for (const looked &each : all)
        if (!each.open && !asked.names.empty())
            status = tools::FAILED;
    if (asked.json) {
        fmt::print(out, "{}", as_json(all));
    } else if (asked.names.empty()) {
        fmt::print(out, "{}", as_table(all));
    } else {
        for (const looked &each : all)
            fmt::print(each.open ? out : stderr, "{}", as_details(each));
    }
    return status;
}

int run(const request &asked) {
    std::FILE *const out = tools::dat::own_output();
    if (!out) {
        std::perror("datinfo: cannot write the answer");
        return tools::FAILED;
    }
    int status = tools::FAILED;
    try {
        status = asked.conf ? print_conf(out) : print_ias(asked, out);
    } catch (const std::exception &problem) {
        fmt::print(stderr, "datinfo: {}\n", problem.what());
    }
    if (std::fflush(out) != 0 || std::ferror(out) != 0) {
        std::perror("datinfo: cannot write the answer");
        return tools::FAILED;
    }
    return status;
}

} // namespace

int main(int count, char **words) {
    CLI::App program{"The interface adapters (IAs) that uDAPL programs find on this machine."};
    program.name("datinfo");
    program.set_version_flag("--version", "datinfo " COHERDMA_VERSION);
    program.get_formatter()->column_width(22);
    program.get_option("--help")->description("This help");
    program.get_option("--version")->description("The version");
    program.footer("Exit status: 0 done, 1 failed, 2 misuse, 77 no RDMA device for --conf.");
    program.failure_message([](const CLI::App *, const CLI::Error &problem) {
        return std::string("datinfo: ") + problem.what() + "; see: datinfo --help\n";
    });
    request asked;
    program.add_option("NAME", asked.names, "All attributes of these IAs")->type_name("");
    auto *json = program.add_flag("-j,--json", asked.json, "For programs: all attributes");
    auto *conf = program.add_flag("--conf", asked.conf, "Records of the RDMA devices for dat.conf");
    program.callback([&] {
        if (conf->count() > 0 && (json->count() > 0 || !asked.names.empty()))
            throw CLI::ValidationError("--conf stands alone", CLI::ExitCodes::ValidationError);
    });
    try {
        program.parse(count, words);
    } catch (const CLI::ParseError &problem) {
        return program.exit(problem) == 0 ? tools::DONE : tools::MISUSE;
    }
    return run(asked);
}
