// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The played cache: the program's copy of all registered memory over the device's. README.md has
// the model. Addresses are the program's; what is not registered is passed over. Safe for threads:
// one at a time moves lines.
#pragma once

#include "findings.hpp"
#include "lines.hpp"
#include "marks.hpp"
#include "settings.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <random>
#include <unordered_map>
#include <vector>

namespace coherdma::emulation {

struct line;
class rows;

class cache {
  public:
    /// by: whom to tell of what is not synced; nullptr: nobody.
    cache(const settings &, findings &, const watcher *by = nullptr);
    ~cache();

    /// A piece of a file that is to be mapped at an address of the program's.
    struct piece {
        std::uintptr_t at;
        std::size_t length;
        int file;
        std::uint64_t place;
    };

    // -- regions

    /// The device gets pages for a region, with what the program has there: map them and register.
    /// The region gets its number. 0, or an errno: EFAULT if the program's cannot be read.
    int add(region &, std::vector<piece> &pages);
    /// It is registered, under these keys.
    void name(std::uint32_t number, std::uint32_t lkey, std::uint32_t rkey);
    /// What peers may do with it, from now on.
    void allow(std::uint32_t number, bool readable, bool writable);
    void remove(std::uint32_t number);
    /// Of the device's pages and of hashes.
    [[nodiscard]] std::size_t bytes();

    // -- the program's syncs

    /// 0, or EFAULT: *where, which is registered, cannot be read.
    int check(const span *ranges, std::size_t count, std::uintptr_t *where);
    void sync_read(const span *ranges, std::size_t count);
    void sync_write(const span *ranges, std::size_t count);

    // -- the provider's own requests

    /// The device is going to read it.
    void source(span);
    /// The device is going to write it,
    void sink(span);
    /// and has written so much of it.
    void arrived(span);

    // -- a peer's requests, just before they are posted

    void peer_reads(span, const deed &);
    void peer_writes(span, const deed &);
    /// An atomic operation: it does both, and sync_rdma_read before it is enough.
    void peer_changes(span, const deed &);

    // -- what happens by itself

    /// At each post and poll.
    void step();
    /// Data have come that may have told the program what its peers have written.
    void heard();
    /// By a thread, from time to time, if there is anything to do for it.
    [[nodiscard]] bool wanders() const noexcept;
    void wander();
    /// What was never fetched is told. When the process ends.
    void finish();
    /// After that: what is left is nobody's.
    void leave() noexcept { store_.leave(); }

  private:
    friend class rows;
    using on_line = std::function<void(line &)>;
    using holding = std::lock_guard<std::mutex>;

    struct written { ///< by a peer, and not fetched since
        span where;
        deed by;
        bool reported; ///< that the program had changed it, too
        bool marked = false;
    };
    struct synced {
        span where;
        bool for_write;
        trace from;
    };

    int walk(span, const on_line &);
    void settle(line &);
    void is_settled(std::uintptr_t line);
    bool tell_left(const line &, rows &);
    [[nodiscard]] bool tells_redundant() const noexcept;
    [[nodiscard]] bool is_dirty(const line &) const;
    void write_back(line &, rows &);
    void fetch(line &);
    void merge(line &, span bytes);
    void poison(line &);
    bool mark(const line &, span within);
    void mark_changed(const line &, span part);
    void mark_old(span);

    void remember(span, bool for_write);
    [[nodiscard]] deed last_sync_of(span) const;
    [[nodiscard]] const written *writer_of(span) const;
    void forget_writes(span);
    [[nodiscard]] region region_of(span) const;
    void peer_comes(span, const deed &, kind if_dirty);

    std::vector<span> news_in(span);
    void poison_news();
    void move_some(int lines);
    [[nodiscard]] span some_line();
    [[nodiscard]] span next_piece();

    const settings asked_;
    findings &to_;
    std::mutex guard_;
    store store_;
    std::map<std::uint32_t, region> regions_;
    std::uint32_t next_number_ = 1;
    std::list<written> written_;
    std::deque<synced> synced_;
    std::unordered_map<std::uintptr_t, std::uint64_t> poisoned_; ///< by line: its hash since
    marks marks_;
    bool marks_told_ = false;
    std::mt19937_64 chance_;
    std::uintptr_t wandered_ = 0; ///< how far wander() has looked, for what nobody told of
    static constexpr std::size_t AT_ONCE = 65536;
    alignas(16) std::array<unsigned char, AT_ONCE> chunk_; ///< of the program's, while it is walked
};

} // namespace coherdma::emulation
