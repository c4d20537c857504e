// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a case says about what it saw. A check that finds something wrong notes it with its line and
// goes on; `require_success` and `require` end the case: without what they ask for the rest means
// nothing.

#pragma once

#include <dat2/udat.h>

#include <initializer_list>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

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

/// What is wrong with the case that runs, a line each.
std::vector<std::string> &failures();
void add_failure(const std::string &message, source_location loc = current_location());

/// While it lives, each failure has this message before it.
class scoped_trace {
  public:
    explicit scoped_trace(const std::string &message);
    ~scoped_trace();
    scoped_trace(const scoped_trace &) = delete;
    scoped_trace &operator=(const scoped_trace &) = delete;
};

template <class... Parts>
std::string concat(const Parts &...parts) {
    std::ostringstream out;
    (out << ... << parts);
    return out.str();
}

/// "INVALID_PARAMETER/INVALID_ARG4 (0x80060028)"; says so if the class is missing.
std::string return_name(DAT_RETURN value);

std::string to_string(DAT_EVENT_NUMBER number);
std::string to_string(DAT_EP_STATE state);
std::string to_string(DAT_DTO_COMPLETION_STATUS status);
template <class T>
std::string to_string(const T &value) {
    if constexpr (std::is_enum_v<T>)
        return concat(static_cast<long long>(value));
    else
        return concat(value);
}

constexpr DAT_RETURN dat_error(DAT_RETURN_TYPE type, DAT_RETURN subtype = DAT_NO_SUBTYPE) {
    return DAT_CLASS_ERROR | static_cast<DAT_RETURN>(type) | subtype;
}
/// The parameter of that number, counted from 1, is not valid.
constexpr DAT_RETURN invalid_parameter(DAT_RETURN number) {
    return dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1 + number - 1);
}
constexpr DAT_RETURN invalid_handle(DAT_RETURN_SUBTYPE subtype) {
    return dat_error(DAT_INVALID_HANDLE, subtype);
}
constexpr DAT_RETURN invalid_state(DAT_RETURN_SUBTYPE subtype) {
    return dat_error(DAT_INVALID_STATE, subtype);
}
constexpr DAT_RETURN insufficient_resources(DAT_RETURN_SUBTYPE subtype) {
    return dat_error(DAT_INSUFFICIENT_RESOURCES, subtype);
}
inline constexpr DAT_RETURN timeout_expired = dat_error(DAT_TIMEOUT_EXPIRED);
inline constexpr DAT_RETURN queue_empty = dat_error(DAT_QUEUE_EMPTY);
inline constexpr DAT_RETURN not_supported = dat_error(DAT_MODEL_NOT_SUPPORTED);

/// The call returned this: class, type and subtype.
bool expect_return(DAT_RETURN ret, DAT_RETURN expected, source_location loc = current_location());
/// One of these: where DAT leaves it open.
bool expect_return(DAT_RETURN ret, std::initializer_list<DAT_RETURN> expected,
                   source_location loc = current_location());
/// No event: QUEUE_EMPTY or TIMEOUT_EXPIRED, for cases that do not test which of them.
bool expect_empty(DAT_RETURN ret, source_location loc = current_location());
/// It is an error of that type, with any subtype except DAT_NO_SUBTYPE.
bool expect_error_type(DAT_RETURN ret, DAT_RETURN_TYPE type,
                       source_location loc = current_location());
/// It succeeded, or the case ends.
void require_success(DAT_RETURN ret, source_location loc = current_location());

bool expect_true(bool condition, const std::string &message,
                 source_location loc = current_location());
void require(bool condition, const std::string &message, source_location loc = current_location());

template <class T>
bool expect_eq(const T &actual, const std::type_identity_t<T> &expected, const std::string &name,
               source_location loc = current_location()) {
    return expect_true(actual == expected,
                       concat(name, " is ", to_string(actual), ", not ", to_string(expected)), loc);
}

} // namespace conform
