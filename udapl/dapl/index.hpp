// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// From a 32-bit key (an lkey, an rkey, a queue pair's number) to an object, in a probe or two at
// any number. Who changes it holds its owner's lock; readers take none, and who finds something
// never waits. What is found may be gone a moment later: its slot stays, and the finder looks again
// at what matters to it.
//
// A table that has grown too small is left to its readers until the index ends; all of them
// together are smaller than the one in use.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

namespace coherdma::dapl {

template <class object>
class index {
  public:
    index() noexcept = default;
    index(const index &) = delete;
    index &operator=(const index &) = delete;
    ~index() {
        for (table *each = current.load(std::memory_order_relaxed); each != nullptr;) {
            table *const older = each->older;
            delete each;
            each = older;
        }
    }

    object *find(std::uint32_t key) const noexcept {
        for (;;) {
            // acquire, here and below: what was written before is seen after.
            const table *const in = current.load(std::memory_order_acquire);
            if (in == nullptr)
                return nullptr;
            const std::uint32_t before = in->version.load(std::memory_order_acquire);
            if (object *const found = in->find(key))
                return found;
            // Nothing, unless it was being moved: then the version was odd, or has changed. The
            // loads of cells were acquires, so this one is not made before them.
            if (before % 2 == 0 && in->version.load(std::memory_order_relaxed) == before)
                return nullptr;
        }
    }

    /// False: no memory.
    bool add(std::uint32_t key, object *value) noexcept {
        table *in = current.load(std::memory_order_relaxed);
        if (in == nullptr || (in->filled + 1) * 4 > in->size() * 3)
            if (in = with_room(in); in == nullptr)
                return false;
        in->insert(key, value);
        ++in->count;
        return true;
    }

    void remove(std::uint32_t key, const object *value) noexcept {
        if (table *const in = current.load(std::memory_order_relaxed))
            in->remove(key, value);
    }

  private:
    // What is in a cell belongs to its key only as long as the mark stays: value, key and value
    // again would not do, since the same object may have gone, let another in, and come back
    // meanwhile. The turns wrap after four thousand million keys in one cell, more than pass beside
    // one look.
    struct cell {
        std::atomic<object *> value = nullptr;
        std::atomic<std::uint64_t> mark = 0; ///< the key; above it how many keys have been here

        std::uint32_t key() const noexcept { return key_of(mark.load(std::memory_order_relaxed)); }

        // By the only writer there is. No value may be here: who sees the new mark sees, by release
        // and acquire, that the old one has gone.
        void give_to(std::uint32_t key) noexcept {
            const std::uint64_t turn = (mark.load(std::memory_order_relaxed) >> 32) + 1;
            mark.store(turn << 32 | key, std::memory_order_release);
        }
    };
    static std::uint32_t key_of(std::uint64_t mark) noexcept {
        return static_cast<std::uint32_t>(mark);
    }

    // A cell that was emptied: readers have to look past it.
    static object *gone() noexcept { return reinterpret_cast<object *>(std::uintptr_t{1}); }

    struct table {
        explicit table(std::size_t cells_wanted) noexcept
            : mask(cells_wanted - 1)
            , cells(new (std::nothrow) cell[cells_wanted]) {}
        ~table() { delete[] cells; }
        table(const table &) = delete;
        table &operator=(const table &) = delete;

        std::size_t size() const noexcept { return mask + 1; }

        std::size_t home(std::uint32_t key) const noexcept {
            return (key * 0x9e3779b97f4a7c15U >> 32) & mask;
        }

        object *find(std::uint32_t key) const noexcept {
            for (std::size_t at = home(key), end = at + size(); at != end; ++at) {
                const cell &each = cells[at & mask];
                const std::uint64_t mark = each.mark.load(std::memory_order_acquire);
                object *const found = each.value.load(std::memory_order_acquire);
                if (found == nullptr)
                    return nullptr;
                // After the first mark it is none of an earlier key, and if the mark is the same
                // still, none of a later one, whose mark would be seen with it.
                if (found != gone() && key_of(mark) == key &&
                    each.mark.load(std::memory_order_relaxed) == mark)
                    return found;
            }
            return nullptr;
        }

        void insert(std::uint32_t key, object *value) noexcept {
            std::size_t at = home(key);
            object *there = nullptr;
            while (there = cells[at & mask].value.load(std::memory_order_relaxed),
                   there != nullptr && there != gone())
                ++at;
            filled += there == nullptr;
            cells[at & mask].give_to(key);
            // release: the key, and what the object is, are seen with it.
            cells[at & mask].value.store(value, std::memory_order_release);
        }

        void remove(std::uint32_t key, const object *value) noexcept {
            for (std::size_t at = home(key), end = at + size(); at != end; ++at) {
                cell &each = cells[at & mask];
                object *const found = each.value.load(std::memory_order_relaxed);
                if (found == nullptr)
                    return;
                if (found != value || each.key() != key)
                    continue;
                each.value.store(gone(), std::memory_order_release);
                --count;
                return;
            }
        }

        const std::size_t mask;
        cell *const cells;
        std::size_t count = 0;
        std::size_t filled = 0; ///< with those that are gone
        std::atomic<std::uint32_t> version = 0;
        table *older = nullptr;
    };

    /// A table with room for another: twice as large, or the same without those that are gone.
    table *with_room(table *full) noexcept {
        const std::size_t size = full == nullptr                   ? 64
                                 : full->count * 2 >= full->size() ? full->size() * 2
                                                                   : full->size();
        auto *const made = new (std::nothrow) table(size);
        if (made == nullptr || made->cells == nullptr) {
            delete made;
            return nullptr;
        }
        for (std::size_t at = 0; full != nullptr && at < full->size(); ++at) {
            const cell &each = full->cells[at];
            object *const value = each.value.load(std::memory_order_relaxed);
            if (value != nullptr && value != gone())
                made->insert(each.key(), value);
        }
        if (full != nullptr && size == full->size()) {
            take_over(*full, *made);
            delete made;
            return full;
        }
        made->count = full != nullptr ? full->count : 0;
        made->older = full;
        current.store(made, std::memory_order_release);
        return made;
    }

    /// In place, so that a table in which objects come and go leaves none behind.
    static void take_over(table &kept, const table &tidy) noexcept {
        const std::uint32_t version = kept.version.load(std::memory_order_relaxed);
        kept.version.store(version + 1, std::memory_order_relaxed);
        for (std::size_t at = 0; at < kept.size(); ++at) {
            const cell &from = tidy.cells[at];
            cell &to = kept.cells[at];
            // release: who sees a cell changed sees the version odd.
            to.value.store(gone(), std::memory_order_release);
            to.give_to(from.key());
            to.value.store(from.value.load(std::memory_order_relaxed), std::memory_order_release);
        }
        kept.filled = tidy.filled;
        kept.version.store(version + 2, std::memory_order_release);
    }

    std::atomic<table *> current = nullptr;
};

} // namespace coherdma::dapl
