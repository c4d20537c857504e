// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The device's pages of an object that processes share: one for each page of the object's, whoever
// registers it and under whatever address, with the hashes of its lines. They are in a file in
// /dev/shm that all processes of a user find by the object's name. A page is the device's as long
// as somebody holds it who lives: then both copies go their own ways.
#pragma once

#include "store.hpp"

#include <cstdint>
#include <optional>
#include <pthread.h>
#include <string>
#include <unordered_map>

namespace coherdma::emulation {

class object {
  public:
    /// nullptr: *why. hash_bytes: of the hashes for one page, the same for all who open it.
    static std::shared_ptr<object> open(object_name, std::size_t page, std::size_t hash_bytes,
                                        std::string &why);
    ~object();
    object(const object &) = delete;
    object &operator=(const object &) = delete;

    [[nodiscard]] int file() const noexcept { return file_; }
    /// Where in the file the device has what is at an offset in the object,
    [[nodiscard]] static std::uint64_t place_of(std::uint64_t offset) noexcept;
    /// and where its hashes are.
    [[nodiscard]] std::uint64_t hashes_of(std::uint64_t offset) const noexcept;

    using on_pages = std::function<void(std::uint64_t offset, std::uint64_t length)>;
    /// One holder more here. Of pages that nobody had, fresh is told while the lock is held. 0, or
    /// an errno: then nothing is held.
    int hold(std::uint64_t offset, std::uint64_t length, const on_pages &fresh);
    /// One holder less.
    void let_go(std::uint64_t offset, std::uint64_t length) noexcept;

    /// For all who look at lines there, or move them.
    [[nodiscard]] pthread_mutex_t &lock() noexcept;
    /// With the lock: whether nobody else has it,
    [[nodiscard]] bool is_ours(std::uint64_t offset) noexcept;
    /// and here it has one holder.
    [[nodiscard]] bool is_once_here(std::uint64_t offset) const noexcept;

    /// The process ends: the file goes, unless somebody else has it.
    void leave() noexcept;

  private:
    struct head;
    object(int file, head *, std::string name, std::size_t page, std::size_t hash_bytes);
    static std::shared_ptr<object> try_open(const std::string &name, std::size_t page,
                                            std::size_t hash_bytes, std::string &why, bool &again);
    bool sit_down() noexcept;
    [[nodiscard]] std::uint64_t others() const noexcept;
    [[nodiscard]] std::uint64_t holders_of(std::uint64_t offset) const noexcept;
    bool set_holders(std::uint64_t offset, std::uint64_t) const noexcept;
    [[nodiscard]] int fill(std::uint64_t place, std::uint64_t length) const noexcept;
    void let_go_of(std::uint64_t offset, std::uint64_t others) noexcept;

    int file_;
    head *head_;
    std::string name_;
    std::size_t page_, hash_bytes_;
    std::uint64_t me_ = 0;                                  ///< a bit in who holds a page
    std::unordered_map<std::uint64_t, std::uint32_t> held_; ///< here, by offset
    std::optional<std::uint64_t> living_;                   ///< others(), since the lock was taken
};

} // namespace coherdma::emulation
