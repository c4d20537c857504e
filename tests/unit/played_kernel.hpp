// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The kernel's side of a device, played: what the real libibverbs and our driver write to it is
// heard, kept and answered, and rings can be mapped. It has no ioctl(), so libibverbs writes every
// command. It can fail. What a driver's own kernel answers is said by who derives from it.
#pragma once

#include "abi/abi.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <infiniband/verbs.h>
#include <map>
#include <rdma/ib_user_verbs.h>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace played {

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

// The core's part, and what the driver gets behind it. libibverbs takes the kernel for an old one
// until it has seen a device in sysfs; to old ones, the core's part was only its beginning.
template <class core, class driver>
void respond(const command &to, const core &first, const driver &second) {
    static_assert(std::is_trivially_copyable_v<driver> && !std::is_pointer_v<driver>);
    auto *const at = reinterpret_cast<unsigned char *>(to.response);
    const std::size_t front = std::min(sizeof first, to.room - sizeof second);
    std::memcpy(at, &first, front);
    std::memcpy(at + front, &second, sizeof second);
}
template <class core>
void respond(const command &to, const core &all) {
    std::memcpy(reinterpret_cast<void *>(to.response), &all, std::min(sizeof all, to.room));
}

class kernel {
  public:
    kernel();
    kernel(const kernel &) = delete;
    kernel &operator=(const kernel &) = delete;
    virtual ~kernel();

    std::vector<command> heard;
    std::map<std::uint32_t, std::uint32_t> objects; ///< that live: handle, command that made it
    std::size_t fails = SIZE_MAX;                   ///< the command, counted from 0, that fails
    int error = ENOSPC;                             ///< with this
    std::vector<std::pair<std::uint64_t, std::size_t>> mappings; ///< asked for: offset and bytes

    /// An open device: the driver's own way to open one. nullptr, and errno.
    ibv_context *open();

    std::size_t rings() const { return rings_.size(); }
    /// What can be mapped of one, in bytes.
    std::size_t size(std::size_t number) const { return rings_.at(number).size; }
    /// How many bytes of the rings the driver has mapped.
    std::size_t mapped() const;

    int answer(const command &to);                          ///< 0 or an errno
    int map(std::uint64_t offset, std::size_t bytes);       ///< the same
    std::size_t count(std::uint32_t number) const noexcept; ///< of such commands heard

    int fd; ///< of the device, until it is closed

  protected:
    struct memory {
        unsigned char *at;
        std::uint64_t offset;
        std::size_t size; ///< whole pages
    };
    static constexpr std::size_t page = 4096;

    /// The rings, in the order in which they were made.
    const memory &ring_memory(std::size_t number) const { return rings_.at(number); }
    const memory &make_memory(std::size_t bytes);
    std::uint32_t made(const command &by);
    int gone(std::uint32_t handle);

    virtual verbs_context *open_own(ibv_device *device) = 0;
    /// What not every kernel does, or does in its own way.
    virtual int answer_own(const command &to) = 0;
    virtual int may_map(std::uint64_t offset, std::size_t bytes);

  private:
    std::string name_;
    int memory_;
    std::size_t end_ = 0;
    std::uint32_t next_ = 100;
    std::vector<memory> rings_;
    ibv_device *device_;
};

} // namespace played
