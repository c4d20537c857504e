// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A hash table from a 32-bit key (lkey, rkey, QP number) to an object; open addressing with linear
// probing. Writers hold the owner's lock. Readers take no lock, and a reader that finds its key
// never waits. The object found may be freed a moment later: its slot stays, so the reader checks
// the fields that it uses.
//
// A table that is too small stays allocated for its readers until the index is destroyed; all old
// tables together are smaller than the current one.
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
        for (table *it = current.load(std::memory_order_relaxed); it != nullptr;) {
            table *const older = it->older;
            delete it;
            it = older;
        }
    }

    object *find(std::uint32_t key) const noexcept {
        for (;;) {
            // acquire: pairs with make_room(); the table's cells are initialized.
            const table *const tab = current.load(std::memory_order_acquire);
            if (tab == nullptr)
                return nullptr;
            // acquire: pairs with compact(); cells moved before this version are seen.
            const std::uint32_t version = tab->version.load(std::memory_order_acquire);
            if (object *const obj = tab->find(key))
                return obj;
            // compact() may have moved the entry: then the version was odd or has changed. The
            // loads of cells are acquires, so this load is not made before them.
            if (version % 2 == 0 && tab->version.load(std::memory_order_relaxed) == version)
                return nullptr;
        }
    }

    /// False: out of memory.
    bool add(std::uint32_t key, object *value) noexcept {
        table *tab = current.load(std::memory_order_relaxed);
        if (tab == nullptr || (tab->num_filled + 1) * 4 > tab->size() * 3)
            if (tab = make_room(tab); tab == nullptr)
                return false;
        tab->insert(key, value);
        ++tab->num_entries;
        return true;
    }

    void remove(std::uint32_t key, const object *value) noexcept {
        if (table *const tab = current.load(std::memory_order_relaxed))
            tab->remove(key, value);
    }

  private:
    // The value belongs to the key only if the mark is the same before and after the value is read.
    // Comparing the value twice is not enough (ABA): the entry may have been removed, replaced by
    // another and added again. The sequence number wraps after 2^32 keys in one cell, which cannot
    // happen during one probe.
    struct cell {
        std::atomic<object *> value = nullptr;
        std::atomic<std::uint64_t> mark = 0; ///< low half: the key; high half: a sequence number

        std::uint32_t key() const noexcept {
            return mark_key(mark.load(std::memory_order_relaxed));
        }

        // The caller is the only writer, and has cleared the value. release: a reader that sees the
        // new mark also sees that the old value is gone.
        void set_key(std::uint32_t key) noexcept {
            const std::uint64_t seq = (mark.load(std::memory_order_relaxed) >> 32) + 1;
            mark.store(seq << 32 | key, std::memory_order_release);
        }
    };
    static std::uint32_t mark_key(std::uint64_t mark) noexcept {
        return static_cast<std::uint32_t>(mark);
    }

    // The value of a removed entry: probing continues past it.
    static object *tombstone() noexcept { return reinterpret_cast<object *>(std::uintptr_t{1}); }

    struct table {
        explicit table(std::size_t num_cells) noexcept
            : mask(num_cells - 1)
            , cells(new (std::nothrow) cell[num_cells]) {}
        ~table() { delete[] cells; }
        table(const table &) = delete;
        table &operator=(const table &) = delete;

        std::size_t size() const noexcept { return mask + 1; }

        std::size_t hash(std::uint32_t key) const noexcept {
            return (key * 0x9e3779b97f4a7c15U >> 32) & mask;
        }

        object *find(std::uint32_t key) const noexcept {
            for (std::size_t i = hash(key), end = i + size(); i != end; ++i) {
                const cell &entry = cells[i & mask];
                const std::uint64_t mark = entry.mark.load(std::memory_order_acquire);
                object *const obj = entry.value.load(std::memory_order_acquire);
                if (obj == nullptr)
                    return nullptr;
                // acquire of the mark: the value is not one of an earlier key. The same mark again:
                // nor one of a later key, since acquiring its value would show its mark.
                if (obj != tombstone() && mark_key(mark) == key &&
                    entry.mark.load(std::memory_order_relaxed) == mark)
                    return obj;
            }
            return nullptr;
        }

        void insert(std::uint32_t key, object *value) noexcept {
            std::size_t i = hash(key);
            object *previous = nullptr;
            while (previous = cells[i & mask].value.load(std::memory_order_relaxed),
                   previous != nullptr && previous != tombstone())
                ++i;
            num_filled += previous == nullptr;
            cells[i & mask].set_key(key);
            // release: a reader that sees the value sees the key and the object.
            cells[i & mask].value.store(value, std::memory_order_release);
        }

        void remove(std::uint32_t key, const object *value) noexcept {
            for (std::size_t i = hash(key), end = i + size(); i != end; ++i) {
                cell &entry = cells[i & mask];
                object *const obj = entry.value.load(std::memory_order_relaxed);
                if (obj == nullptr)
                    return;
                if (obj != value || entry.key() != key)
                    continue;
                entry.value.store(tombstone(), std::memory_order_release);
                --num_entries;
                return;
            }
        }

        const std::size_t mask;
        cell *const cells;
        std::size_t num_entries = 0;
        std::size_t num_filled = 0;             ///< entries and tombstones
        std::atomic<std::uint32_t> version = 0; ///< odd while compact() runs
        table *older = nullptr;
    };

    /// A table with room for another entry: of twice the size, or the same one without tombstones.
    table *make_room(table *full) noexcept {
        const std::size_t size = full == nullptr                         ? 64
                                 : full->num_entries * 2 >= full->size() ? full->size() * 2
                                                                         : full->size();
        auto *const copy = new (std::nothrow) table(size);
        if (copy == nullptr || copy->cells == nullptr) {
            delete copy;
            return nullptr;
        }
        for (std::size_t i = 0; full != nullptr && i < full->size(); ++i) {
            const cell &entry = full->cells[i];
            object *const value = entry.value.load(std::memory_order_relaxed);
            if (value != nullptr && value != tombstone())
                copy->insert(entry.key(), value);
        }
        if (full != nullptr && size == full->size()) {
            compact(*full, *copy);
            delete copy;
            return full;
        }
        copy->num_entries = full != nullptr ? full->num_entries : 0;
        copy->older = full;
        current.store(copy, std::memory_order_release);
        return copy;
    }

    /// Overwrites the table with its copy without tombstones. In place, so that adding and removing
    /// entries of a table that does not grow leaves no old tables.
    static void compact(table &tab, const table &copy) noexcept {
        const std::uint32_t version = tab.version.load(std::memory_order_relaxed);
        tab.version.store(version + 1, std::memory_order_relaxed);
        for (std::size_t i = 0; i < tab.size(); ++i) {
            const cell &src = copy.cells[i];
            cell &dst = tab.cells[i];
            // release: a reader that sees this cell changed sees the odd version.
            dst.value.store(tombstone(), std::memory_order_release);
            dst.set_key(src.key());
            dst.value.store(src.value.load(std::memory_order_relaxed), std::memory_order_release);
        }
        tab.num_filled = copy.num_filled;
        tab.version.store(version + 2, std::memory_order_release);
    }

    std::atomic<table *> current = nullptr;
};

} // namespace coherdma::dapl
