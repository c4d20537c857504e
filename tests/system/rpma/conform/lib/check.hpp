// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a case says about what it saw. A check that finds something wrong notes it with its line and
// goes on; `require_ok` and `require` end the case: without what they ask for the rest means
// nothing.

#pragma once

#include <librpma.h>

#include <initializer_list>
#include <sstream>
#include <string>
#include <type_traits>

namespace conform {

struct source_location {
    const char *file;
    unsigned line;
};
/// As a default argument: where the function was called.
constexpr source_location current_location(const char *file = __builtin_FILE(),
                                           unsigned line = __builtin_LINE()) {
    return {file, line};
}

/// Ends a case.
struct case_aborted {};
/// Ends a case that cannot run here, with the reason.
struct case_skipped {
    std::string reason;
};

template <class... Parts>
std::string concat(const Parts &...parts) {
    std::ostringstream out;
    (out << ... << parts);
    return out.str();
}

/// Writes it as a TAP comment; the case has failed.
void add_failure(const std::string &message, source_location loc = current_location());
bool has_failed();

/// While it lives, each failure has this message before it.
class scoped_trace {
  public:
    explicit scoped_trace(const std::string &message);
    ~scoped_trace();
    scoped_trace(const scoped_trace &) = delete;
    scoped_trace &operator=(const scoped_trace &) = delete;
};

/// "RPMA_E_INVAL"
std::string return_name(int ret);

/// The call returned this.
bool expect_return(int ret, int expected, source_location loc = current_location());
/// One of these: where the page leaves it open.
bool expect_return(int ret, std::initializer_list<int> expected,
                   source_location loc = current_location());
/// It returned 0, or the case ends.
void require_ok(int ret, source_location loc = current_location());

bool expect_true(bool condition, const std::string &message,
                 source_location loc = current_location());
void require(bool condition, const std::string &message, source_location loc = current_location());

template <class T>
bool expect_eq(const T &actual, const std::type_identity_t<T> &expected, const std::string &name,
               source_location loc = current_location()) {
    if constexpr (std::is_enum_v<T> || std::is_same_v<T, unsigned char>)
        return expect_true(actual == expected,
                           concat(name, " is ", static_cast<long long>(actual), ", not ",
                                  static_cast<long long>(expected)),
                           loc);
    else
        return expect_true(actual == expected, concat(name, " is ", actual, ", not ", expected),
                           loc);
}

} // namespace conform
