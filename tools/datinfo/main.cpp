// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// datinfo: lists the interface adapters (IAs) available to uDAPL programs, and their attributes.

#include "command.hpp"
#include "dat_common/output.hpp"
#include "datinfo/conf.hpp"
#include "datinfo/print.hpp"

#include <algorithm>
#include <fmt/core.h>
#include <functional>

namespace {

using namespace tools::datinfo;

struct options {
    std::vector<std::string> names;
    bool all = false, json = false, conf = false;
};

/// --conf: prints entries for dat.conf. Returns the exit status.
int print_conf(std::FILE *out) {
    const std::string text = format_dat_conf();
    if (text.empty()) {
        fmt::print(stderr,
                   "datinfo: there is no RDMA device; for the reason, type: coherdma doctor\n");
        return tools::NOT_AVAILABLE;
    }
    fmt::print(out,
               "# For dat.conf. Only needed without coherdma's libdat2 and libdat, which find the\n"
               "# devices themselves.\n{}",
               text);
    return tools::SUCCESS;
}

/// Returns FAILED if one of the named IAs cannot be opened.
int print_named(const options &opts, std::FILE *out) {
    const std::vector<ia_info> infos = query_ias(opts.names);
    if (opts.json)
        fmt::print(out, "{}", as_json(infos));
    else
        for (const ia_info &info : infos)
            fmt::print(info.can_open ? out : stderr, "{}", as_details(info));
    const bool all_open = std::all_of(infos.begin(), infos.end(), std::mem_fn(&ia_info::can_open));
    return all_open ? tools::SUCCESS : tools::FAILED;
}

/// All IAs; JSON has those that cannot be opened only with --all.
int print_list(const options &opts, std::FILE *out) {
    std::vector<ia_info> infos = query_ias({});
    if (opts.json && !opts.all)
        std::erase_if(infos, std::not_fn(&ia_info::can_open));
    fmt::print(out, "{}", opts.json ? as_json(infos) : as_table(infos, opts.all));
    return tools::SUCCESS;
}

int print(const options &opts, std::FILE *out) {
    if (opts.conf)
        return print_conf(out);
    return opts.names.empty() ? print_list(opts, out) : print_named(opts, out);
}

/// `out` is standard output for the results; what provider libraries print goes to stderr.
int run(const options &opts) {
    std::FILE *const out = tools::dat::reserve_stdout();
    if (!out) {
        std::perror("datinfo: cannot write the output");
        return tools::FAILED;
    }
    int status = tools::FAILED;
    try {
        status = print(opts, out);
    } catch (const std::exception &e) {
        fmt::print(stderr, "datinfo: {}\n", e.what());
    }
    if (std::fflush(out) != 0 || std::ferror(out) != 0) {
        std::perror("datinfo: cannot write the output");
        return tools::FAILED;
    }
    return status;
}

} // namespace

int main(int argc, char **argv) {
    constexpr std::size_t COLUMN_WIDTH = 22;
    tools::cli::program program("datinfo",
                                "Lists the interface adapters (IAs) that uDAPL programs can open.",
                                "datinfo " COHERDMA_VERSION, COLUMN_WIDTH);
    program.describe("--help", "Print this help");
    program.describe("--version", "Print the version");
    program.footer(
        "Exit status: 0 success, 1 failure, 2 usage error, 77 no RDMA device for --conf.");
    options opts;
    program.add_option("NAME", opts.names, "Print all attributes of these IAs").type_name("");
    const auto all = program.add_flag("-a,--all", opts.all,
                                      "List also the IAs that cannot be opened, with the reasons");
    const auto json = program.add_flag("-j,--json", opts.json, "Print all attributes as JSON");
    const auto conf =
        program.add_flag("--conf", opts.conf, "Print dat.conf entries for the RDMA devices");
    program.callback([&] {
        if (conf.count() > 0 && (all.count() > 0 || json.count() > 0 || !opts.names.empty()))
            throw tools::cli::usage_error("--conf excludes other arguments");
        if (all.count() > 0 && !opts.names.empty())
            throw tools::cli::usage_error("NAME and --all exclude each other");
    });
    if (const auto status = program.parse(argc, argv))
        return *status;
    return run(opts);
}
