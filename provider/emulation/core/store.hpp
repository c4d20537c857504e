// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The device's pages: for each page of the program that is registered, however often, one that the
// device has in its place. They are pages of files in memory, which another process can map under
// the program's address; here they are mapped elsewhere.
#pragma once

#include <cerrno>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace coherdma::emulation {

/// Memory by its addresses in the program.
struct span {
    std::uintptr_t begin = 0, end = 0;

    [[nodiscard]] std::size_t size() const noexcept { return end - begin; }
    [[nodiscard]] bool empty() const noexcept { return begin >= end; }
};
[[nodiscard]] constexpr span common(span one, span other) noexcept {
    return {one.begin > other.begin ? one.begin : other.begin,
            one.end < other.end ? one.end : other.end};
}
/// To whole units, a power of two.
[[nodiscard]] constexpr span rounded(span one, std::size_t unit) noexcept {
    return {one.begin & ~(unit - 1), (one.end + unit - 1) & ~(unit - 1)};
}

/// Memory that processes can share, as the kernel names it.
struct object_name {
    std::uint64_t device = 0, inode = 0;

    auto operator<=>(const object_name &) const = default;
};
class object;

/// Some of a file, or (-1) memory, mapped here; not in children.
class view {
  public:
    view(int file, std::uint64_t place, std::size_t length) noexcept;
    ~view();
    view(const view &) = delete;
    view &operator=(const view &) = delete;

    /// nullptr: there is no memory for it.
    [[nodiscard]] unsigned char *at() const noexcept { return at_; }

  private:
    void *whole_ = nullptr;
    std::size_t length_ = 0;
    unsigned char *at_ = nullptr;
};

/// Pages in a row, of the program and of a file. All of them are held.
struct run {
    span pages;
    int file = -1;
    std::uint64_t place = 0;            ///< in the file
    unsigned char *device = nullptr;    ///< where it is mapped here
    void *agreed = nullptr;             ///< a hash for each line; lines.hpp
    std::vector<std::uint32_t> holders; ///< of each page

    std::shared_ptr<object> common; ///< nullptr: only this process has these pages
    std::uint64_t offset = 0;       ///< in that
    std::shared_ptr<view> pages_view, hashes_view;
};

/// Not safe for threads: its owner has a lock.
class store {
  public:
    /// hash_bytes: of the hashes for one page.
    store(std::size_t page, std::size_t hash_bytes) noexcept;
    ~store();
    store(const store &) = delete;
    store &operator=(const store &) = delete;

    using visitor = std::function<void(span, run &)>;

    /// Has a page of the device's for each of these, one holder more. Those that are new are told
    /// of by fresh. 0, or an errno: then nothing is held. why: of memory that processes share, or
    /// that is there twice, the device has one page; with ESHARED, why that cannot be had. nullptr:
    /// all is taken as this process's alone.
    int hold(span pages, const visitor &fresh, std::string *why = nullptr);
    static constexpr int ESHARED = ENOTSUP;
    /// One holder less. Pages without any are given back to the system.
    void let_go(span pages);

    /// By address, those parts of it that the device has pages for. Nobody else moves lines there
    /// meanwhile.
    void each(span where, const visitor &visit);
    /// In a visit: whether no other process has that line's page,
    [[nodiscard]] bool is_ours(const run &, std::uintptr_t at) const noexcept;
    /// and it has one holder.
    [[nodiscard]] bool is_held_once(const run &, std::uintptr_t at) const noexcept;

    /// The process ends.
    void leave() noexcept;

    /// Of pages that are this process's alone.
    [[nodiscard]] int file() const noexcept { return file_; }
    /// All that it takes, for people and tests.
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  private:
    using runs = std::map<std::uintptr_t, std::unique_ptr<run>>;

    int map(span, runs &, std::string *why);
    int map(std::unique_ptr<run>, runs &);
    std::shared_ptr<object> object_of(object_name, std::string &why);
    int take(run &, const visitor &fresh);
    void punch(const run &, span pages) const noexcept;
    void end(const run &, span pages) noexcept;
    int fill(std::uint64_t place, std::size_t length) const noexcept;
    void split(runs::iterator);
    [[nodiscard]] std::size_t hashes_of(std::size_t pages) const noexcept;
    std::uint32_t &holders_of(run &, std::uintptr_t page) const noexcept;

    std::size_t page_, hash_bytes_, bytes_ = 0;
    int file_ = -1;
    std::uint64_t end_ = 0; ///< of the file
    runs runs_;
    std::map<object_name, std::weak_ptr<object>> objects_;
};

} // namespace coherdma::emulation
