// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The conformance cases with libdat2, the provider and the fake fabric in one process. No case may
// leak a verbs object. Arguments are those of conform, see
// tests/system/udapl/conform/README.md; none: all cases.

#include "fake/fabric.hpp"
#include "lib/cases.hpp"
#include "lib/check.hpp"
#include "lib/kernel.hpp"
#include "lib/process.hpp"

#include <cstdlib>
#include <cstring>
#include <dat2/dat_registry.h>
#include <dat2/udat.h>
#include <map>

extern "C" void dat_provider_init(const DAT_PROVIDER_INFO *info, const char *args);

namespace {

constexpr const char *ia_name = CONFORM_DEVICE;

void register_provider(DAT_BOOLEAN thread_safe) {
    DAT_PROVIDER_INFO info = {};
    std::strcpy(info.ia_name, ia_name);
    info.dapl_version_major = DAT_VERSION_MAJOR;
    info.dapl_version_minor = DAT_VERSION_MINOR;
    info.is_thread_safe = thread_safe;
    dat_provider_init(&info, CONFORM_DEVICE " 0");
}

/// Cases that the fake fabric does not support, and why.
std::map<std::string, std::string> skip_reasons = {
    {"lmr.memlock", "the fake fabric pins no memory"},
};

bool runs_under_valgrind() {
    const char *const preload = std::getenv("LD_PRELOAD");
    return preload != nullptr && std::strstr(preload, "vgpreload") != nullptr;
}

/// The case with a fabric that was reset, and a check for objects that it leaks; or a skipped case.
conform::test_case wrap_for_fabric(const conform::test_case &test) {
    if (const auto it = skip_reasons.find(test.name); it != skip_reasons.end())
        return {test.name, [why = it->second] {
                    throw conform::case_skipped{why};
                }};
    return {test.name, [body = test.body] {
                fake::get_fabric().reset();
                body();
                if (!conform::failures().empty())
                    return;
                // A thread that ends an attempt for a freed EP (iWARP) still has the event channel.
                conform::wait_until([] { return fake::get_fabric().count_objects().empty(); });
                for (const auto &[kind, count] : fake::get_fabric().count_objects())
                    conform::add_failure(conform::concat(count, " ", kind, " leaked"));
            }};
}

} // namespace

/// In a guest of the lab the kernel counts its objects; here the fake fabric does.
conform::kernel_counts conform::count_kernel_objects(const std::string &) {
    kernel_counts counts{{"ibv_qp", 0}, {"ibv_cq", 0},  {"ibv_mr", 0}, {"ibv_mw", 0},
                         {"ibv_pd", 0}, {"ibv_srq", 0}, {"ibv_ah", 0}, {"cm_id", 0}};
    for (const auto &[kind, count] : fake::get_fabric().count_objects()) {
        const std::string name = kind == "rdma_cm_id" ? "cm_id" : kind;
        if (counts.contains(name))
            counts[name] = count;
    }
    return counts;
}

long conform::count_posted_requests() {
    const fake::library_call_guard call;
    return static_cast<long>(fake::get_fabric().posts.size());
}

int main(int argc, char **argv) {
    setenv("DAT_OVERRIDE", "/dev/null", 1); // no dat.conf
    for (const DAT_BOOLEAN thread_safe : {DAT_FALSE, DAT_TRUE})
        register_provider(thread_safe);
    if (runs_under_valgrind())
        skip_reasons["ia.reopened"] = "valgrind delays the reuse of freed memory";
    conform::case_list cases;
    for (const conform::test_case &test : conform::all_cases())
        cases.push_back(wrap_for_fabric(test));
    const bool is_roce = std::strcmp(ia_name, "roce0") == 0;
    std::vector<std::string> options = {argv[0],
                                        "--ia",
                                        ia_name,
                                        "--device",
                                        is_roce ? "fake0" : "fake1",
                                        "--silence",
                                        "10", // the fake fabric delivers events at once
                                        "--unused-address",
                                        "192.0.2.77",
                                        "--ipv6",
                                        is_roce ? "2001:db8::1" : "2001:db8::2"};
    std::vector<char *> args;
    for (std::string &option : options)
        args.push_back(option.data());
    args.insert(args.end(), argv + 1, argv + argc);
    const int count = static_cast<int>(args.size());
    args.push_back(nullptr);
    return conform::run_program(count, args.data(), std::move(cases));
}
