// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Small programs that misuse verbs, and the same programs corrected: each is a function with a
// flag.
//
// The call that is wrong has a comment "wrong: KIND" on its line, which check.py compares with the
// place of the finding. A case may have several such lines: each is a place of the same mistake.

#pragma once

#include <span>
#include <string>
#include <string_view>

namespace check_corpus {

/// The soft device that the cases use.
struct target {
    std::string driver; ///< rxe or siw
    std::string device; ///< its name
    std::string address;

    bool is_rxe() const { return driver == "rxe"; }
};

enum need : unsigned {
    rxe = 1,      ///< QPs connected by verbs alone, or an operation that iWARP lacks
    extended = 2, ///< ibv_wr_*, ibv_start_poll(): not of the stock siw
    /// Not a stock provider: ibv_wr_set_inline_data() of rxe makes the request fail, and neither
    /// has thread domains.
    coherdma = 4,
    msan = 16,   ///< the memory sanitizer, which tells the checker what is initialized
    maps = 32,   ///< not with MSan, whose mmap() is in the program: the interposer does not see it
    cancels = 8, ///< not with ASan, which takes the stack of a cancelled thread for poisoned
};

struct corpus_case {
    std::string_view name; ///< of its function
    /// Or "none": correct in both variants; or "asan", "tsan", "msan": only that sanitizer sees it.
    std::string_view kind;
    void (*run)(const target &, bool corrected);
    unsigned needs = 0;
    /// Without the checker the wrong program may crash, for its call uses freed memory.
    bool may_crash = false;
    bool may_crash_checked = false; ///< with the checker, too, after the finding
    /// Other kinds that the wrong program has as well, separated by commas.
    std::string_view also = "";
    std::string_view options = ""; ///< of the checker
};

std::span<const corpus_case> use_after_destroy_cases();
std::span<const corpus_case> destroy_cases();
std::span<const corpus_case> dereg_cases();
std::span<const corpus_case> memory_cases();
std::span<const corpus_case> overflow_cases();
std::span<const corpus_case> send_queue_cases();
std::span<const corpus_case> state_cases();
std::span<const corpus_case> error_cases();
std::span<const corpus_case> poll_cases();
std::span<const corpus_case> wait_cases();
std::span<const corpus_case> event_cases();
std::span<const corpus_case> local_key_cases();
std::span<const corpus_case> local_range_cases();
std::span<const corpus_case> local_access_cases();
std::span<const corpus_case> local_pd_cases();
std::span<const corpus_case> thread_domain_cases();
std::span<const corpus_case> fork_cases();
std::span<const corpus_case> remote_cases();
std::span<const corpus_case> limit_cases();
std::span<const corpus_case> late_cases();
std::span<const corpus_case> leak_cases();
std::span<const corpus_case> ownership_cases();
std::span<const corpus_case> sanitized_cases();
std::span<const corpus_case> correct_cases();
std::span<const corpus_case> correct_wait_cases();

} // namespace check_corpus
