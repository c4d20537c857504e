// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The emulated cache: the program's copy of registered memory stands for the cache, the device's
// copy for the memory below it; README.md has the model. Addresses are the program's; memory that
// is not registered is skipped. Thread-safe: a mutex protects all.
#pragma once

#include "checker_marks.hpp"
#include "core/findings/event_history.hpp"
#include "core/findings/last_syncs.hpp"
#include "core/findings/reporting_mutex.hpp"
#include "core/memory/range_set.hpp"
#include "core/memory/recent_ranges.hpp"
#include "core/settings.hpp"
#include "line_hash.hpp"
#include "mr_table.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace coherdma::emulation {

struct cache_line;
class line_reporter;

/// A write of a request that the program has not fetched.
struct recorded_write {
    addr_range range;
    mem_access request;
    bool reported;                ///< as a finding: the program had changed the memory, too
    bool was_in_conflict = false; ///< a line of it: a finding, when the program synced it
    bool marked = false;          ///< for a memory checker
    bool is_local = false;        ///< of a request of the program; else of a peer
    std::uint64_t number = 0;     ///< of a request that may not be posted; else 0
    /// Of the first completion since by which the program may know of the write.
    std::optional<stack_trace> completion{};
    std::chrono::steady_clock::time_point completion_time{};
};

/// What checks of a request leave that counts only if it is posted: findings and recorded writes.
class unposted_checks {
  public:
    [[nodiscard]] bool has_findings() const noexcept { return !findings_.empty(); }
    [[nodiscard]] bool is_empty() const noexcept { return findings_.empty() && writes_.empty(); }

  private:
    friend class cache_model;
    friend class line_reporter;
    struct unposted_write {
        std::uint64_t number;
        std::optional<recorded_write> replaced;
    };
    static constexpr std::size_t MAX_FINDINGS = 256; ///< more are reported at once

    std::vector<kept_finding> findings_;
    std::vector<unposted_write> writes_;
};

class cache_model {
  public:
    /// checker: gets marks for bytes that are not synced; nullptr: none.
    cache_model(const settings &, finding_log &, const memory_checker *checker = nullptr);
    ~cache_model();

    /// A part of a file to be mapped at an address of the program.
    struct page_mapping {
        std::uintptr_t addr;
        std::size_t length;
        int fd;
        std::uint64_t file_offset;
    };

    // -- registration

    /// Makes the device's pages, with a copy of the program's. Sets mr.number, and pages to what
    /// must be mapped and registered. Returns 0 or an errno: EFAULT if the memory is unreadable.
    int add_mr(memory_region &mr, std::vector<page_mapping> &pages);
    void set_keys(std::uint32_t mr_number, std::uint32_t lkey, std::uint32_t rkey);
    void set_remote_access(std::uint32_t mr_number, bool can_read, bool can_write);
    void remove_mr(std::uint32_t mr_number);
    /// The memory used for the device's pages and hashes.
    [[nodiscard]] std::size_t memory_bytes();

    // -- syncs of the program

    /// 0, or EFAULT: *bad_addr is registered but cannot be read.
    int check_readable(const addr_range *ranges, std::size_t count, std::uintptr_t *bad_addr);
    void sync_writeback(const addr_range *ranges, std::size_t count);
    void sync_invalidate(const addr_range *ranges, std::size_t count);

    /// Syncs of this thread need not have an effect between these calls: for a request on dirty
    /// lines, they are missing. If another thread syncs the same lines, the first one that ends its
    /// syncs counts.
    void begin_sync(addr_range);
    void end_syncs();

    /// Of local memory: before the device reads it, before it writes it, and after that.
    void sync_source_for_device(const addr_range *ranges, std::size_t count);
    void sync_sink_for_device(const addr_range *ranges, std::size_t count);
    void sync_sink_for_cpu(const addr_range *ranges, std::size_t count);

    // -- local memory of the program's own work requests, if the provider syncs it

    /// Before a WR is posted that has the device read it.
    void writeback_source(addr_range);
    /// Before a WR is posted that has the device write it,
    void writeback_sink(addr_range);
    /// and when the program polls its completion: the device has written these bytes.
    void fetch_sink(addr_range bytes);

    // -- checks of requests before they are posted. With unposted: that gets what counts only then;
    // without: all is reported and recorded now.

    /// The request was posted, or was not. Empties it.
    void report_posted(unposted_checks &);
    void drop_unposted(unposted_checks &);

    // -- local memory if the program syncs it: lines that are not synced become findings

    void check_local_source(addr_range, const mem_access &, unposted_checks *unposted = nullptr);
    /// Returns whether there was a finding.
    bool check_local_sink(addr_range, const mem_access &, unposted_checks *unposted = nullptr);
    /// The program polls the completion. is_reported: by check_local_sink().
    void record_local_write(addr_range bytes, const mem_access &, bool is_reported);

    // -- work requests of peers on memory of this process, just before they are posted: dirty lines
    // become findings

    void check_peer_rdma_read(addr_range, const mem_access &, unposted_checks *unposted = nullptr);
    void check_peer_rdma_write(addr_range, const mem_access &, unposted_checks *unposted = nullptr);
    /// Reads and writes the memory; sync before it is sufficient.
    void check_peer_atomic(addr_range, const mem_access &, unposted_checks *unposted = nullptr);

    // -- without a request for that memory

    /// At each post and poll: moves or poisons lines if the mode does so. found_completions: it was
    /// a poll that did, so that the program may know of more writes.
    void on_post_or_poll(bool found_completions = false);
    /// After a completion with data, which may be a message that a peer has written: marks what it
    /// wrote.
    void on_data_received();
    /// Whether a thread must call run_background_step() from time to time.
    [[nodiscard]] bool needs_thread() const noexcept;
    void run_background_step();
    /// When the process begins to end: finds lines that the device wrote and the program never
    /// fetched, and discards changes of shared memory. Returns whether there are findings; they are
    /// reported by report_process_end(), as destructors may still sync or deregister the memory.
    /// SIGNAL: it comes at any moment, perhaps just before a sync: lines count only if the program
    /// has known of the write for a second.
    enum class process_end : std::uint8_t { EXIT, SIGNAL };
    bool on_process_end(process_end = process_end::EXIT);
    void report_process_end();
    /// After on_process_end().
    void unlink_shm() noexcept { page_store_.unlink_shm(); }

  private:
    friend class line_reporter;
    using line_visitor = std::function<void(cache_line &)>;
    using lock_guard = std::lock_guard<reporting_mutex>;

    // All these are called with mutex_.

    /// Calls the visitor for each registered line that has a byte in the range, with a snapshot of
    /// it; first adds its state to the event. Returns 0, or EFAULT if the program's copy of a line
    /// cannot be read.
    int visit_lines(addr_range, const line_visitor &, history_event *event = nullptr);
    int visit_lines_as_event(event_kind, addr_range, const mem_access &, const line_visitor &);
    [[nodiscard]] line_state state_of(const cache_line &) const;
    void update_if_equal(cache_line &);
    void drop_poison_and_marks(std::uintptr_t line_addr);
    bool report_if_stale(const cache_line &, const range_set &known_writes, line_reporter &);
    void discard_changes(cache_line &, bool is_reported, line_reporter &);
    [[nodiscard]] bool reports_redundant() const noexcept;
    [[nodiscard]] bool is_dirty(const cache_line &) const;
    void writeback(cache_line &, line_reporter &conflicts);
    void fetch(cache_line &);
    void fetch_bytes(cache_line &, addr_range bytes);
    void poison_line(cache_line &);
    bool mark_line(const cache_line &, addr_range bytes);
    void mark_changed_bytes(const cache_line &, addr_range bytes);
    void mark_long_stale(addr_range);

    [[nodiscard]] mem_access capture_caller() const;
    mem_access record_sync(event_kind, addr_range);
    void remember_synced_range(addr_range);
    [[nodiscard]] const recorded_write *find_last_write(addr_range) const;
    [[nodiscard]] recorded_write *find_last_write(addr_range range) {
        return const_cast<recorded_write *>(std::as_const(*this).find_last_write(range));
    }
    std::optional<recorded_write> record_write(recorded_write);
    void record_data_received();
    void forget_writes(addr_range);
    [[nodiscard]] bool knows_of_write(const cache_line &) const;
    [[nodiscard]] range_set find_known_writes(addr_range lines) const;
    void forget_never_synced(addr_range bytes);
    [[nodiscard]] bool was_filled_before_registration(const cache_line &, addr_range bytes) const;
    [[nodiscard]] bool needs_sync_by_order(const cache_line &, addr_range bytes) const;
    void remember_synced_line(std::uintptr_t line_addr, std::uint64_t program_hash);
    void remember_unregistered_lines(addr_range);
    bool was_synced_line(std::uintptr_t line_addr, std::uint64_t hash);
    [[nodiscard]] finding_kind stale_kind(const cache_line &) const;
    [[nodiscard]] finding_kind conflict_kind(const cache_line &) const;
    [[nodiscard]] bool is_changed_beside_writes(const cache_line &) const;
    [[nodiscard]] std::optional<finding_doubt> unsynced_sink_doubt(const cache_line &,
                                                                   addr_range bytes) const;
    [[nodiscard]] memory_region find_mr(addr_range lines) const;
    void writeback_range(event_kind, addr_range, bool report_redundant);
    void writeback_invalidate_range(event_kind, addr_range, bool report_redundant);
    void writeback_local(event_kind, addr_range);
    void end_all_mrs(process_end);
    [[nodiscard]] bool is_judged_at_signal(const cache_line &) const;
    void check_and_record_write(event_kind, addr_range, const mem_access &,
                                finding_kind kind_if_dirty, unposted_checks *unposted);

    std::vector<addr_range> find_device_changes(addr_range);
    void poison_recorded_writes(std::size_t max_bytes);
    bool poison_part(addr_range);
    void evict_random_lines(int count);
    [[nodiscard]] addr_range random_line();
    [[nodiscard]] addr_range next_scan_range();

    const settings config_;
    finding_log &log_;
    reporting_mutex mutex_{log_};
    page_store page_store_;
    mr_table mrs_;
    recent_ranges<recorded_write> writes_;            ///< pending: those that are not poisoned
    std::atomic<bool> has_unpoisoned_writes_ = false; ///< of these; changed with mutex_
    unposted_checks at_process_end_;                  ///< findings that are not reported yet
    /// Lines of syncs that have not ended, of each thread and of all.
    std::unordered_map<std::thread::id, std::vector<addr_range>> begun_syncs_;
    range_set incomplete_syncs_;
    /// Hashes of lines that needed no sync when they were deregistered, by address. Bounded.
    std::unordered_map<std::uintptr_t, std::uint64_t> synced_lines_;
    bool has_forgotten_synced_lines_ = false;
    std::unordered_set<std::uint64_t> refused_writes_; ///< the last ones
    range_set never_synced_; ///< lines that no sync has had since their pages were registered
    std::uint64_t next_write_number_ = 1;
    event_history history_;
    last_syncs last_syncs_;
    std::deque<addr_range> synced_ranges_; ///< by the program, latest first
    std::unordered_map<std::uintptr_t, std::uint64_t>
        poisoned_; ///< hash of the program's copy with poison, by line address
    checker_marks marks_;
    bool has_noted_marks_ = false; ///< the user was told of the marks
    std::mt19937_64 rng_;
    std::uintptr_t scan_pos_ = 0; ///< next_scan_range() continues here
    static constexpr unsigned char POISON = 0xdb;
    static constexpr std::size_t CHUNK = 65536;
    alignas(16) std::array<unsigned char, CHUNK> chunk_; ///< program's bytes, in visit_lines()
};

} // namespace coherdma::emulation
