// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Tables of calls with valid handles and one argument, or one state, that is not valid.

#pragma once

#include "lib/all_objects.hpp"
#include "lib/cases.hpp"

#include <span>

namespace conform {

struct invalid_call {
    const char *function;
    const char *description; ///< the argument and its value
    DAT_RETURN expected;
    DAT_RETURN (*call)(const all_objects &);
};

/// The function of a row: objects has all that the call needs.
#define CALL(...)                                                                                  \
    []([[maybe_unused]] const all_objects &objects) -> DAT_RETURN {                                \
        return __VA_ARGS__;                                                                        \
    }

/// Where calls would write the handle of what they make.
inline DAT_HANDLE unwritten_handle = &unwritten_handle;

enum class requirement { none, connection, memory_windows, extensions };

/// A case for each function, "invalid.FUNCTION", of rows that follow each other. Each call returns
/// what its row says, and nothing is left: no object, no handle, no work request. With a
/// connection, `eps` is connected.
void add_invalid(case_list &cases, std::span<const invalid_call> rows,
                 requirement required = requirement::none);

} // namespace conform
