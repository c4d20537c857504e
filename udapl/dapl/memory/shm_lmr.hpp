// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// DAT_MEM_TYPE_SHARED_VIRTUAL: memory that processes share and register under one cookie.
// /proc/self/maps tells which object is mapped. A file in /dev/shm, named by the user and the
// cookie, holds the range of the object that the cookie stands for.
//
// Every LMR holds a flock on the file, which the kernel releases when the process ends. So if no
// other lock is held, the file's content is stale and is overwritten.
#pragma once

#include "dapl/core/result.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace coherdma::dapl {

/// A range of a shared object: of a file or a shared memory segment.
struct shared_range {
    std::uint64_t device = 0, inode = 0, offset = 0, length = 0;
    bool operator==(const shared_range &) const noexcept = default;
};

/// The range that is mapped at an address. False: not one contiguous range of one shared object.
bool find_shared_range(const void *address, std::size_t length, shared_range &range) noexcept;

/// Binds a cookie to a range while this object exists. Not in the arena, since the child of a fork
/// must close the parent's files.
class shm_cookie_lock {
  public:
    using cookie = char[DAT_LMR_COOKIE_SIZE];

    /// nullptr: see result. DAT_INVALID_STATE: an LMR, perhaps of another process, has registered
    /// other memory under this cookie.
    static std::unique_ptr<shm_cookie_lock> acquire(const cookie &id, const shared_range &range,
                                                    DAT_RETURN &result) noexcept;
    explicit shm_cookie_lock(const cookie &id) noexcept;
    ~shm_cookie_lock();
    shm_cookie_lock(const shm_cookie_lock &) = delete;
    shm_cookie_lock &operator=(const shm_cookie_lock &) = delete;

    int fd = -1;
    shm_cookie_lock *next = nullptr; ///< in the process's list

  private:
    DAT_RETURN lock_range(const shared_range &range) noexcept;

    std::array<char, 128> path = {};
};

} // namespace coherdma::dapl
