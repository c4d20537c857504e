// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Memory that processes share and register under one cookie (DAT_MEM_TYPE_SHARED_VIRTUAL): the
// kernel says whether memory is shared, and of what; a file of the user's in /dev/shm, named by the
// cookie, says what all that have registered the cookie mean by it.
//
// Who has registered it holds a lock on the file, which the kernel takes back however the process
// ends. So what is in a file that nobody else has locked is of the dead, and is written anew.
#pragma once

#include "result.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace coherdma::dapl {

/// The bytes of an object (a file, a piece of shared memory) that are mapped at an address.
struct shared_range {
    std::uint64_t device = 0, inode = 0, offset = 0, length = 0;
    bool operator==(const shared_range &) const noexcept = default;
};

/// What is mapped there. False if that is not one piece of one object, shared by the kernel.
bool find_shared(const void *at, std::size_t length, shared_range &found) noexcept;

/// What a cookie means, held as long as this lives; not in the arena, so that a child of a fork can
/// let go of what its parent holds.
class shared_meaning {
  public:
    using cookie = char[DAT_LMR_COOKIE_SIZE];

    /// nullptr: result says why; DAT_INVALID_STATE if another process or region means other memory.
    static std::unique_ptr<shared_meaning> hold(const cookie &id, const shared_range &range,
                                                DAT_RETURN &result) noexcept;
    explicit shared_meaning(const cookie &id) noexcept;
    ~shared_meaning();
    shared_meaning(const shared_meaning &) = delete;
    shared_meaning &operator=(const shared_meaning &) = delete;

    int file = -1;
    shared_meaning *next = nullptr; ///< of all that this process holds

  private:
    DAT_RETURN settle(const shared_range &range) noexcept;

    std::array<char, 128> name = {};
};

} // namespace coherdma::dapl
