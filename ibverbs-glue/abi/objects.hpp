// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The objects of a driver that libibverbs has a part in, however large that is in its release.
#pragma once

#include "process.hpp"

#include <cstdint>
#include <type_traits>

namespace coherdma::abi {

/// An open context: `own` bytes, zeroed, that begin with the ibv_context, behind libibverbs' part.
/// If it fails, errno says why and fd is closed. A libibverbs that did not make what its epoch has
/// fails it too: then the log says what.
ibv_context *open_context(ibv_device *device, int fd, std::size_t own,
                          std::uint32_t driver) noexcept;

/// What alloc_context returns.
verbs_context *in_front(ibv_context *context) noexcept;

void set_operations(ibv_context *context, const operations &able) noexcept;

/// Undoes open_context.
void close_context(ibv_context *context) noexcept;

/// own: a struct whose first member is the ibv_context, called verbs. It is found by a
/// reinterpret_cast of any ibv_context * of this driver.
template <class own>
own *open_context(ibv_device *device, int fd, std::uint32_t driver) noexcept {
    static_assert(std::is_standard_layout_v<own> && offsetof(own, verbs) == 0);
    static_assert(std::is_same_v<decltype(own::verbs), ibv_context>);
    static_assert(alignof(own) <= 8, "libibverbs' part need not end at more than that");
    return reinterpret_cast<own *>(open_context(device, fd, sizeof(own), driver));
}

/// Functions of a queue pair's other face that not every release has; nullptr: it cannot.
struct newer_posts {
    void (*atomic_write)(ibv_qp_ex *, std::uint32_t rkey, std::uint64_t remote, const void *data);
    void (*flush)(ibv_qp_ex *, std::uint32_t rkey, std::uint64_t remote, std::size_t length,
                  std::uint8_t type, std::uint8_t level);
};

/// Programs now get the queue pair's other face. After create_qp_ex2, which takes it away.
void extend(verbs_qp &qp, const newer_posts &able) noexcept;

} // namespace coherdma::abi
