// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a case says about what it saw. A check that finds something wrong notes it with its line and
// goes on; `done` and `need` end the case, because without what they ask for the rest means
// nothing.

#pragma once

#include <dat2/udat.h>

#include <initializer_list>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

namespace conform {

struct spot {
    const char *file;
    unsigned line;
};
/// As a default argument: where the function was called.
constexpr spot here(const char *file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    return {file, line};
}

/// Ends a case.
struct stopped {};
/// Ends one that cannot be tried here, and says why.
struct skipped {
    std::string why;
};

/// What is wrong with the case that runs, a line each.
std::vector<std::string> &wrongs();
void wrong(const std::string &what, spot at = here());

/// While it lives, what is wrong is said with these words before.
class saying {
  public:
    explicit saying(const std::string &words);
    ~saying();
    saying(const saying &) = delete;
    saying &operator=(const saying &) = delete;
};

template <class... Parts>
std::string text(const Parts &...parts) {
    std::ostringstream out;
    (out << ... << parts);
    return out.str();
}

/// "INVALID_PARAMETER/INVALID_ARG4 (0x80060028)"; says so if the class is missing.
std::string name_of(DAT_RETURN value);

std::string shown(DAT_EVENT_NUMBER number);
std::string shown(DAT_EP_STATE state);
std::string shown(DAT_DTO_COMPLETION_STATUS status);
template <class T>
std::string shown(const T &value) {
    if constexpr (std::is_enum_v<T>)
        return text(static_cast<long long>(value));
    else
        return text(value);
}

constexpr DAT_RETURN error(DAT_RETURN_TYPE type, DAT_RETURN subtype = DAT_NO_SUBTYPE) {
    return DAT_CLASS_ERROR | static_cast<DAT_RETURN>(type) | subtype;
}
/// The call's parameter of that number, from 1, is wrong.
constexpr DAT_RETURN bad_argument(DAT_RETURN number) {
    return error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1 + number - 1);
}
constexpr DAT_RETURN bad_handle(DAT_RETURN_SUBTYPE kind) {
    return error(DAT_INVALID_HANDLE, kind);
}
constexpr DAT_RETURN bad_state(DAT_RETURN_SUBTYPE which) {
    return error(DAT_INVALID_STATE, which);
}
constexpr DAT_RETURN too_few(DAT_RETURN_SUBTYPE what) {
    return error(DAT_INSUFFICIENT_RESOURCES, what);
}
inline constexpr DAT_RETURN timed_out = error(DAT_TIMEOUT_EXPIRED);
inline constexpr DAT_RETURN queue_empty = error(DAT_QUEUE_EMPTY);
inline constexpr DAT_RETURN not_supported = error(DAT_MODEL_NOT_SUPPORTED);

/// The call returned this: class, type and subtype.
bool is(DAT_RETURN got, DAT_RETURN want, spot at = here());
/// One of these: where DAT leaves it open.
bool is(DAT_RETURN got, std::initializer_list<DAT_RETURN> wants, spot at = here());
/// It says that there is nothing, in whatever words: for cases about something else.
bool is_nothing(DAT_RETURN got, spot at = here());
/// It is an error of that type with any subtype, but with one.
bool is_some(DAT_RETURN got, DAT_RETURN_TYPE type, spot at = here());
/// It succeeded, or the case ends.
void done(DAT_RETURN got, spot at = here());

bool yes(bool condition, const std::string &what, spot at = here());
void need(bool condition, const std::string &what, spot at = here());

template <class T>
bool same(const T &got, const std::type_identity_t<T> &want, const std::string &what,
          spot at = here()) {
    return yes(got == want, text(what, " is ", shown(got), ", not ", shown(want)), at);
}

} // namespace conform
