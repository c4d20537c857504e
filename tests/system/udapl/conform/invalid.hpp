// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Tables of calls with valid handles and one argument, or one state, that is not valid.

#pragma once

#include "cases.hpp"
#include "every_kind.hpp"

#include <span>

namespace conform {

struct invalid_call {
    const char *function;
    const char *what; ///< the argument and its value
    DAT_RETURN want;
    DAT_RETURN (*with)(const every_kind &);
};

/// The function of a row: all has the objects that the call needs.
#define CALL(...)                                                                                  \
    []([[maybe_unused]] const every_kind &all) -> DAT_RETURN {                                     \
        return __VA_ARGS__;                                                                        \
    }

/// Where calls would write the handle of what they make.
inline DAT_HANDLE made = &made;

enum class needs { nothing, connection, windows, extensions };

/// A case for each function, "invalid.FUNCTION", of rows that follow each other. Each call returns
/// what its row says, and nothing is left: no object, no handle, no work request. With a
/// connection, `pair` is connected.
void add_invalid(case_list &cases, std::span<const invalid_call> rows, needs what = needs::nothing);

} // namespace conform
