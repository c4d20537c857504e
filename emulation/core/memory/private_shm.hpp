// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Files in /dev/shm for the processes of one user. Their names are known, so another user can make
// a file of that name first, and would then hold its lock, shorten it or change its content.
#pragma once

#include <cstdint>
#include <string>

namespace coherdma::emulation {

/// Opens the file of this name in /dev/shm, or creates it empty. It is a regular file with one name
/// that belongs to this user, and no other user may open it; nothing is changed in another file,
/// and none of its locks is waited for. -1: see reason.
int open_private_shm(const std::string &name, std::string &reason);

/// Allocates a part of the file now: a store to a hole raises SIGBUS if memory has run out. 0 or an
/// errno.
int allocate_shm(int fd, std::uint64_t offset, std::uint64_t length) noexcept;
/// Whether a file may not be longer than this (ulimit -f): making it longer would raise SIGXFSZ.
bool is_file_size_limited(std::uint64_t max_length) noexcept;

} // namespace coherdma::emulation
