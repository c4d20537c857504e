// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "check.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

namespace conform {

namespace {

struct failure_log {
    std::mutex mutex; // an agent or a second thread may note something, too
    std::vector<std::string> failures;
    std::vector<std::string> traces;
};
failure_log &log() {
    static failure_log log;
    return log;
}

const char *base_name(const char *path) {
    const char *slash = std::strrchr(path, '/');
    return slash ? slash + 1 : path;
}

} // namespace

std::vector<std::string> &failures() {
    return log().failures;
}

void add_failure(const std::string &message, source_location loc) {
    const std::lock_guard guard(log().mutex);
    std::string line = concat(base_name(loc.file), ':', loc.line, ": ");
    for (const std::string &trace : log().traces)
        line += trace + ": ";
    log().failures.push_back(line + message);
}

scoped_trace::scoped_trace(const std::string &message) {
    const std::lock_guard guard(log().mutex);
    log().traces.push_back(message);
}
scoped_trace::~scoped_trace() {
    const std::lock_guard guard(log().mutex);
    log().traces.pop_back();
}

bool expect_return(DAT_RETURN ret, std::initializer_list<DAT_RETURN> expected,
                   source_location loc) {
    if (std::find(expected.begin(), expected.end(), ret) != expected.end())
        return true;
    std::string expected_names;
    for (const DAT_RETURN value : expected)
        expected_names += (expected_names.empty() ? "" : " or ") + return_name(value);
    add_failure(concat("returned ", return_name(ret), ", not ", expected_names), loc);
    return false;
}
bool expect_return(DAT_RETURN ret, DAT_RETURN expected, source_location loc) {
    return expect_return(ret, {expected}, loc);
}

void require_success(DAT_RETURN ret, source_location loc) {
    if (!expect_return(ret, DAT_SUCCESS, loc))
        throw case_aborted();
}

bool expect_empty(DAT_RETURN ret, source_location loc) {
    const DAT_RETURN type = DAT_GET_TYPE(ret);
    return expect_true(type == DAT_QUEUE_EMPTY || type == DAT_TIMEOUT_EXPIRED,
                       "returned " + return_name(ret) + ", not that there is nothing", loc);
}
bool expect_error_type(DAT_RETURN ret, DAT_RETURN_TYPE type, source_location loc) {
    return expect_true(DAT_GET_TYPE(ret) == type && (ret & DAT_CLASS_ERROR) &&
                           DAT_GET_SUBTYPE(ret) != DAT_NO_SUBTYPE,
                       "returned " + return_name(ret) + ", not " + return_name(dat_error(type)) +
                           " with a subtype",
                       loc);
}

bool expect_true(bool condition, const std::string &message, source_location loc) {
    if (!condition)
        add_failure(message, loc);
    return condition;
}
void require(bool condition, const std::string &message, source_location loc) {
    if (!expect_true(condition, message, loc))
        throw case_aborted();
}

} // namespace conform
