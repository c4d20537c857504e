// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a finding advises, with names and source lines: which call to insert, and where; what the
// memory is; how to suppress the finding. Looks symbols up: not to be called with a mutex that the
// program's calls need.
#pragma once

#include "finding_log.hpp"
#include "reports/described_call.hpp"

#include <string>
#include <vector>

namespace coherdma::emulation {

using reports::described_call;
using reports::source_files;
using reports::source_frame;

struct advice {
    /// "coherdma_sync_after_write(device, &range, 1)"; "": no call is missing.
    std::string call;
    std::string path;     ///< where to insert it: "examples/mailbox.c:160"; "": not known
    source_frame frame;   ///< the same
    std::string interval; ///< "between the completion polled at mailbox.c:160 and the sync at ..."
    described_call after, before;
    std::string region_name; ///< "inbox", "inbox = reg_letter(pd, size) (mailbox.c:139)"; or ""
    std::string suppression; ///< "stale:rxe0:transfer"

    /// "mailbox.c:160: insert coherdma_sync_after_write(device, &range, 1);"; "": no call is
    /// missing
    [[nodiscard]] std::string first_line() const;
};

/// Indices of the frames that name two places.
struct naming_frames {
    std::size_t after = 0, before = 0;
};
/// The outermost frames of a common function whose lines differ, from which the calls of both
/// stacks come; else the innermost ones with a source line.
naming_frames find_naming_frames(const std::vector<std::string> &after,
                                 const std::vector<std::string> &before);

/// The stack of the call beside which a sync is to be inserted; empty: not known.
const stack_trace &insertion_stack(const finding &) noexcept;

advice make_advice(const finding &, source_files &);

} // namespace coherdma::emulation
