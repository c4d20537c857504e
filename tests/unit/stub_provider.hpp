// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A provider for tests of the registry: it does nothing, but remembers what was asked of it. Words
// in its instance data make it misbehave:
//
//     silent      it does not register itself            gaps        most functions are NULL
//     keeps       nor does it take itself off the list   noext       as is that for extensions
//     refuses     no IA can be opened                    extensions  its IAs say they have some
//     null, odd   nonsense is called an IA               safe        says it is thread-safe
//     alike, other   what it says of names to ia_ha_related_func: true, false; nothing else: an
//     error nested=NAME while it begins, it opens an IA of that name
#pragma once

#include "registry_version.hpp"

#include <atomic>
#include <cstddef>

namespace stub {

/// What an object of any provider begins with.
struct object {
    const DAT_PROVIDER *provider = nullptr;
    unsigned long words[7] = {};
};

struct state {
    std::atomic<int> inits, finis, opens, closes, queries, extensions;
    std::atomic<DAT_RETURN> close_status, extension_status, nested_status;
    DAT_IA_HANDLE opened_again;
    char opened[300];                  ///< the name of the last IA
    std::atomic<DAT_BOOLEAN> ro_aware; ///< what was said of it; by 1.2 only
    char instance[256];                ///< of the last init
    const char *instance_kept;         ///< where it was

    /// The last of all other calls, if wanted: where its function is in the table, the bytes of its
    /// arguments one after the other, and what it returns.
    std::atomic<bool> recording;
    std::atomic<DAT_RETURN> status;
    std::size_t member, size;
    unsigned char bytes[256];

    /// The provider that was registered last under a name.
    const DAT_PROVIDER *(*provider)(const char *name);
};

/// The library's function of this name gives its state.
constexpr char STATE[] = "stub_state_of_library";

} // namespace stub
