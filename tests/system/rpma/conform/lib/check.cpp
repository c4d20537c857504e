// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "check.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

namespace conform {

namespace {

bool g_failed = false;
std::vector<std::string> g_traces;

std::string names(std::initializer_list<int> values) {
    std::string text;
    for (const int value : values)
        text += (text.empty() ? "" : " or ") + return_name(value);
    return text;
}

} // namespace

void add_failure(const std::string &message, source_location loc) {
    g_failed = true;
    const char *slash = std::strrchr(loc.file, '/');
    std::string line = concat("# ", slash ? slash + 1 : loc.file, ":", loc.line, ": ");
    for (const std::string &trace : g_traces)
        line += trace + ": ";
    std::printf("%s%s\n", line.c_str(), message.c_str());
    std::fflush(stdout);
}
bool has_failed() {
    return g_failed;
}

scoped_trace::scoped_trace(const std::string &message) {
    g_traces.push_back(message);
}
scoped_trace::~scoped_trace() {
    g_traces.pop_back();
}

std::string return_name(int ret) {
    static constexpr const char *names[] = {
        "RPMA_E_UNKNOWN",        "RPMA_E_NOSUPP",         "RPMA_E_PROVIDER", "RPMA_E_NOMEM",
        "RPMA_E_INVAL",          "RPMA_E_NO_COMPLETION",  "RPMA_E_NO_EVENT", "RPMA_E_AGAIN",
        "RPMA_E_SHARED_CHANNEL", "RPMA_E_NOT_SHARED_CHNL"};
    if (ret <= RPMA_E_UNKNOWN && ret >= RPMA_E_NOT_SHARED_CHNL)
        return names[RPMA_E_UNKNOWN - ret];
    return std::to_string(ret);
}

bool expect_return(int ret, int expected, source_location loc) {
    return expect_return(ret, {expected}, loc);
}
bool expect_return(int ret, std::initializer_list<int> expected, source_location loc) {
    return expect_true(std::find(expected.begin(), expected.end(), ret) != expected.end(),
                       concat("returned ", return_name(ret), ", not ", names(expected)), loc);
}
void require_ok(int ret, source_location loc) {
    if (!expect_return(ret, 0, loc))
        throw case_aborted{};
}

bool expect_true(bool condition, const std::string &message, source_location loc) {
    if (!condition)
        add_failure(message, loc);
    return condition;
}
void require(bool condition, const std::string &message, source_location loc) {
    if (!expect_true(condition, message, loc))
        throw case_aborted{};
}

} // namespace conform
