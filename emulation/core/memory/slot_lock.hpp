// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The slots of a file that processes share. The process that has a slot holds a lock (F_OFD_SETLK)
// on the byte of the file whose offset is the slot's index, until it ends. A process ID would not
// do: processes of two PID namespaces can share the file.
#pragma once

#include <cstddef>
#include <sys/types.h>

namespace coherdma::emulation {

/// Closes the file in children of fork(): they would keep its locks after this process has ended.
void close_at_fork(int fd);
/// Closes a file that was passed to close_at_fork(), unless the program has closed it.
void close_slot_file(int fd) noexcept;
/// Maps a part of the file. Children of fork() do not inherit the mapping: like the descriptor,
/// it would keep the locks. MAP_FAILED: see errno.
[[nodiscard]] void *map_slot_file(int fd, std::size_t length, off_t offset = 0) noexcept;

/// Locks the slot for this open file. False: another one has the slot.
[[nodiscard]] bool lock_slot(int fd, unsigned slot) noexcept;
/// Whether another open file has the slot. True if that cannot be known: what it holds is kept.
[[nodiscard]] bool is_slot_locked(int fd, unsigned slot) noexcept;

} // namespace coherdma::emulation
