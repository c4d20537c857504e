// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Where a sync is missing: between which calls of the program.
#pragma once

#include "last_syncs.hpp"

namespace coherdma::emulation {

/// Sets after, before and missing_before of a finding that has all else; without effect if no sync
/// is missing. A sync before a request is missing between the last call of this process on these
/// lines and the request. A sync after a Write is missing between the completion by which the
/// program may know of the Write and its next call on these lines.
/// last_sync: of the lines. completion: the first one with data after the write that the finding
/// names. nullptr: not known. Both help if the history has forgotten them.
void find_missing_place(finding &, const last_syncs::sync *last_sync,
                        const stack_trace *completion);

} // namespace coherdma::emulation
