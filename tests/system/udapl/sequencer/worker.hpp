// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A thread of the sequencer: its random numbers, its calls, and how it draws handles.

#pragma once

#include "objects.hpp"
#include "random.hpp"
#include "rules.hpp"
#include "trace.hpp"

#include <atomic>
#include <deque>
#include <map>
#include <shared_mutex>
#include <string>
#include <sys/socket.h>

namespace sequencer {

struct settings {
    std::string ia_name;
    std::string command; ///< the command line, to be printed after a failure
    std::uint64_t seed = 1;
    unsigned num_threads = 4;
    unsigned long calls = 20000; ///< of each thread; 0: `seconds` is the limit
    unsigned seconds = 0;        ///< limit if calls is 0
    bool print_statistics = false, print_calls = false;
};

struct race;

/// What all threads share during a round.
struct shared_state {
    explicit shared_state(const settings &options)
        : config(options) {}

    const settings &config;
    object_table table;
    object *main_ia = nullptr; ///< open during the whole round
    object *datagram_pz = nullptr, *datagram_evd = nullptr, *datagram_ep = nullptr; ///< likewise
    sockaddr_storage address = {};
    DAT_IA_ATTR ia_attr = {};
    std::atomic<std::uint32_t> next_serial = 1;
    /// The registry reuses the index of a closed IA after all others. Opening takes the lock
    /// exclusively, and waits for steps that may still use the index.
    std::shared_mutex ia_lock;
    std::atomic<race *> offered_race = nullptr;
    /// The step of each thread; odd: in progress.
    std::deque<std::atomic<std::uint64_t>> step_numbers;
};

struct step;

/// A handle, drawn at random. obj: what it is the handle of, live or freed; nullptr: it is no
/// handle of the type.
struct object_ref {
    object *obj = nullptr;
    DAT_HANDLE handle = DAT_HANDLE_NULL;
};

/// The highest bits of each cookie: events that bring another one are wrong.
constexpr unsigned cookie_mark_shift = 52;
constexpr std::uint64_t cookie_mark = 0x5e9;

struct worker {
    worker(shared_state &state, std::size_t thread_index)
        : shared(state)
        , table(state.table)
        , index(thread_index)
        , random(state.config.seed + thread_index) {}
    worker(const worker &) = delete;
    worker &operator=(const worker &) = delete;

    /// A handle of the type: of a live object if there is one, sometimes a stale handle or none.
    object_ref draw(DAT_HANDLE_TYPE type);
    /// The same, mostly of this IA; sometimes of another one, which the call must refuse.
    object_ref draw(DAT_HANDLE_TYPE type, const object *ia);
    /// An EVD of this IA with these flags, mostly.
    object_ref draw_evd(const object *ia, DAT_EVD_FLAGS flags);
    object_ref draw_ia(); ///< mostly the main IA
    /// A live object, as far as this thread knows, or nullptr. If prefers_busy_objects: one that a
    /// call in progress uses, if there is one.
    object *find_live(DAT_HANDLE_TYPE type, const object *ia = nullptr,
                      DAT_EVD_FLAGS flags = DAT_EVD_FLAGS{});
    /// The same; busy: only one that a call in progress uses.
    object *find_live(DAT_HANDLE_TYPE type, const object *ia, DAT_EVD_FLAGS flags, bool busy);
    /// A value that is no handle of the type.
    DAT_HANDLE draw_invalid_handle(DAT_HANDLE_TYPE type);
    /// A cookie for a post or software event that names this program, thread and call.
    DAT_CONTEXT draw_cookie();

    /// A new object, which other threads do not see before insert_unless_full().
    object &add_object(DAT_HANDLE_TYPE type, DAT_HANDLE handle, object *ia);
    /// Lets other threads draw it. False: there are enough live objects of this type; the caller
    /// frees it.
    bool insert_unless_full(object &obj);

    shared_state &shared;
    object_table &table;
    const std::size_t index;
    random_source random;
    call_ring ring;
    std::deque<object> objects; ///< that this thread has added in this round, also freed ones
    unsigned long num_calls = 0;
    bool prefers_busy_objects = false; ///< in this step
    std::atomic<const step *> current_step = nullptr;
    struct result_counts {
        unsigned long total = 0, successes = 0, invalid_handles = 0, on_busy_object = 0;
    };
    std::map<std::string, result_counts> statistics;
};

/// Prints what is wrong and the last calls of each thread, and ends the process.
[[noreturn]] void fail(const std::string &message);

/// The memory that all LMRs register, in parts.
constexpr std::size_t memory_size = 1 << 16;
unsigned char *lmr_memory();

} // namespace sequencer
