// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Runs cases, and prints a line for each: "NAME FIELD=VALUE...". A child process runs the cases of
// a group. If it crashes or hangs, that is the result of the case, and the next child goes on after
// it.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <infiniband/verbs.h>
#include <map>
#include <regex>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace differential {

/// What a case has observed. A value has no spaces.
class record {
    std::ostringstream line_;

  public:
    template <class T>
    void add(std::string_view field, const T &value) {
        line_ << ' ' << field << '=' << value;
    }
    std::string line() const { return line_.str(); }
};

struct settings {
    std::string driver, device, address;
    int gid_index = 0;
    unsigned num_parts = 1; ///< runs one of so many parts of the cases: runner::is_selected()
    std::regex name_filter;
    std::uint64_t seed = 1;
    unsigned steps = 0;

    bool is_rxe() const { return driver == "rxe"; }
};

using case_function = std::function<void(record &)>;

/// Given to a group, which calls run() for each of its cases, in the same order in each child.
class runner {
    const settings &settings_;
    std::uint32_t &next_; ///< shared with the parent: the case to run
    std::uint32_t index_ = 0;
    std::map<std::string, unsigned, std::less<>> num_cases_; ///< so far, of each kind

    bool is_selected(const std::string &name);

  public:
    runner(const settings &settings, std::uint32_t &next)
        : settings_(settings)
        , next_(next) {}
    void run(const std::string &name, const case_function &function);
};

struct environment {
    const settings &options;
    ibv_context *context;
    union ibv_gid gid {};
};

struct group {
    std::string_view name;
    void (*run)(const environment &, runner &);
};

/// Runs the groups. Returns the exit status.
int run_groups(const settings &options, const std::vector<group> &groups);

std::uint64_t hash_of(std::span<const std::byte> data);

/// The name of an errno; 0 for none.
std::string error_name(int error);

} // namespace differential
