// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The kernel's side of an rxe device, played: what the real libibverbs and our driver write to it
// is heard, kept and answered, and rings can be mapped. It has no ioctl(), so libibverbs writes
// every command. It can fail, and lie about its rings.
#pragma once

#include "rxe/kernel.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <infiniband/verbs.h>
#include <map>
#include <string>
#include <vector>

namespace played {

namespace rxe = coherdma::provider::rxe;

/// What was written: the number, and what is behind the headers.
struct command {
    std::uint32_t number;
    std::vector<unsigned char> bytes;
    std::uint64_t response;
    std::size_t room; ///< for the response, in bytes

    /// The core's part, or another type at an offset.
    template <class type>
    type as(std::size_t offset = 0) const {
        type is; // some end in an array of no size, which cannot be initialized
        std::memset(&is, 0, sizeof is);
        std::memcpy(&is, bytes.data() + offset, std::min(sizeof is, bytes.size() - offset));
        return is;
    }
};
inline constexpr std::uint32_t extended = IB_USER_VERBS_CMD_FLAG_EXTENDED;

class kernel {
  public:
    kernel();
    kernel(const kernel &) = delete;
    kernel &operator=(const kernel &) = delete;
    ~kernel();

    std::vector<command> heard;
    std::map<std::uint32_t, std::uint32_t> objects; ///< that live: handle, command that made it
    std::size_t fails = SIZE_MAX;                   ///< the command, counted from 0, that fails
    int error = ENOSPC;                             ///< with this
    std::function<void(rxe::place &, rxe::ring_head &)> lie; ///< about the next rings

    /// An open device: the driver's own way to open one. nullptr, and errno.
    ibv_context *open();

    /// The rings, in the order in which they were made.
    rxe::ring_head &ring(std::size_t number) const { return *rings_.at(number); }
    std::size_t rings() const { return rings_.size(); }
    /// What can be mapped of one, in bytes.
    std::size_t size(std::size_t number) const { return sizes_.at(number); }
    /// How many bytes of the rings the driver has mapped.
    std::size_t mapped() const;

    int answer(const command &to); ///< 0 or an errno

    int fd; ///< of the device, until it is closed

  private:
    rxe::place make_ring(std::uint32_t entries, std::size_t slot);
    std::uint32_t made(const command &by);
    int gone(std::uint32_t handle);
    int answer_extended(const command &to);

    std::string name_;
    int memory_;
    std::size_t end_ = 0;
    std::uint32_t next_ = 100;
    std::vector<rxe::ring_head *> rings_;
    std::vector<std::size_t> sizes_;
    ibv_device *device_;
};

} // namespace played
