// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A stub provider for tests of the registry: records its calls. Options in its instance data change
// its behavior:
//
//     silent       does not register itself          gaps         most functions are NULL
//     keeps        does not unregister itself        noext        handle_extendedop_func is NULL
//     refuses      ia_open fails                     extensions   ia_query reports extensions
//     null, odd    ia_open returns a bad handle      safe         ia_query reports thread safety
//     slow         init takes 250 ms                 nested=NAME  init opens the IA of that name
//     alike, other ia_ha_related_func answers true, false; an error without either
//     again        ia_close opens the IA again at the same address
#pragma once

#include "version.hpp"

#include <atomic>
#include <cstddef>

namespace stub {

/// The beginning of each object of the provider.
struct object {
    const DAT_PROVIDER *provider = nullptr;
    unsigned long words[7] = {};
};

struct state {
    /// Calls of dat_provider_init, dat_provider_fini, ia_open, ia_close, ia_query, extension_op.
    std::atomic<int> inits, finis, opens, closes, queries, extensions;
    std::atomic<DAT_RETURN> close_status, extension_status, nested_status;
    DAT_IA_HANDLE reopened_ia;         ///< opened by ia_close with the option "again"
    char opened_name[300];             ///< the name of the last opened IA
    std::atomic<DAT_BOOLEAN> ro_aware; ///< of the last opened IA; 1.2 only
    char instance[256];                ///< instance data of the last init
    const char *instance_pointer;      ///< the argument of the last init

    /// With recording, of the last other call: its offset in the table, the bytes of its arguments,
    /// and the status that it returns.
    std::atomic<bool> recording;
    std::atomic<DAT_RETURN> status;
    std::size_t member, size;
    unsigned char bytes[256];

    /// The table that was registered last with this name.
    const DAT_PROVIDER *(*find_table)(const char *name);
};

/// The library's function that returns its state.
constexpr char GET_STATE[] = "get_stub_state";

} // namespace stub
