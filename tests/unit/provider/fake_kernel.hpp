// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A fake kernel for one device: records and answers the commands that libibverbs and the driver
// write, and provides rings to map. It has no ioctl(), so libibverbs writes each command. A command
// can be made to fail. Derived classes answer the commands of one driver. The pages beside a mapped
// ring are not accessible; with AddressSanitizer neither are the bytes after the ring.
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
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace fake {

/// A written command: its number and the bytes after the headers.
struct command {
    std::uint32_t number;
    std::vector<unsigned char> bytes;
    std::uint64_t response;
    std::size_t response_size; ///< in bytes

    /// Reads the core's part, or the driver's at its offset.
    template <class type>
    type read(std::size_t offset = 0) const {
        type value; // some end in an array of no size, which cannot be initialized
        std::memset(&value, 0, sizeof value);
        std::memcpy(&value, bytes.data() + offset, std::min(sizeof value, bytes.size() - offset));
        return value;
    }
};
inline constexpr std::uint32_t extended = IB_USER_VERBS_CMD_FLAG_EXTENDED;

// Writes the core's response and the driver's after it. Without a device in sysfs, libibverbs
// assumes an old kernel, whose core response is shorter.
template <class core, class driver>
void respond(const command &cmd, const core &core_resp, const driver &driver_resp) {
    static_assert(std::is_trivially_copyable_v<driver> && !std::is_pointer_v<driver>);
    auto *const response = reinterpret_cast<unsigned char *>(cmd.response);
    const std::size_t core_size =
        std::min(sizeof core_resp, cmd.response_size - sizeof driver_resp);
    std::memcpy(response, &core_resp, core_size);
    std::memcpy(response + core_size, &driver_resp, sizeof driver_resp);
}
template <class core>
void respond(const command &cmd, const core &core_resp) {
    std::memcpy(reinterpret_cast<void *>(cmd.response), &core_resp,
                std::min(sizeof core_resp, cmd.response_size));
}

class kernel {
  public:
    kernel();
    kernel(const kernel &) = delete;
    kernel &operator=(const kernel &) = delete;
    virtual ~kernel();

    std::vector<command> commands;
    std::map<std::uint32_t, std::uint32_t>
        objects;                            ///< by handle: the command that created the object
    std::size_t failing_command = SIZE_MAX; ///< index in commands of the one that fails
    int error = ENOSPC;                     ///< its errno
    unsigned num_failing_mappings = 0;      ///< of the next ones, with ENOMEM
    std::vector<std::pair<std::uint64_t, std::size_t>> mappings; ///< requested: offset and size
    /// The driver gets the kernel's own mapping of a ring, so that each entry has one address.
    bool shares_mappings = false;

    /// Opens the device with the driver. Returns nullptr and sets errno on failure.
    ibv_context *open();

    std::size_t num_rings() const { return rings_.size(); }
    /// The bytes of a ring, without the rest of its last page.
    std::span<unsigned char> ring_bytes(std::size_t ring_index) const {
        return {rings_.at(ring_index).addr, rings_.at(ring_index).used};
    }
    /// The size of a ring in bytes.
    std::size_t ring_size(std::size_t ring_index) const { return rings_.at(ring_index).size; }
    /// The bytes of rings that the driver has mapped.
    std::size_t mapped_bytes() const;

    virtual int answer(const command &cmd); ///< returns 0 or errno
    /// Maps a ring between two pages that are not accessible, or returns MAP_FAILED and sets errno.
    void *map(std::uint64_t offset, std::size_t bytes, int prot, int flags);
    /// Whether addr is a ring that map() returned. Unmaps it and the pages beside it.
    bool unmap(void *addr, std::size_t bytes);
    std::size_t num_mapped() const { return mapped_.size(); }
    std::size_t count_commands(std::uint32_t number) const noexcept;
    /// The nth recorded command with this number, counted from 0.
    const command &find_command(std::uint32_t number, std::size_t nth = 0) const;

    int fd; ///< of the open device

  protected:
    struct shared_memory {
        unsigned char *addr;
        std::uint64_t offset;
        std::size_t size; ///< whole pages
        std::size_t used; ///< in bytes
    };
    static constexpr std::size_t page_size = 4096;
    static std::size_t round_to_pages(std::size_t bytes);

    /// Of the ring that was created as the index-th.
    const shared_memory &ring_memory(std::size_t ring_index) const { return rings_.at(ring_index); }
    /// Allocates the memory of the next ring, and maps it for the kernel.
    const shared_memory &make_memory(std::size_t bytes);
    std::uint32_t add_object(const command &cmd);
    int remove_object(std::uint32_t handle);

    /// The operations with which the driver registers.
    virtual const coherdma::abi::verbs_device_ops &device_ops() const = 0;
    /// Answers the commands that differ between drivers.
    virtual int answer_driver(const command &cmd) = 0;
    virtual int check_mapping(std::uint64_t offset, std::size_t bytes);

  private:
    std::string name_;
    int memory_fd_;
    std::size_t memory_end_ = 0;
    std::uint32_t last_handle_ = 100;
    std::vector<shared_memory> rings_;
    std::map<void *, std::size_t> mapped_; ///< by address: whole pages
    ibv_device *device_;
};

} // namespace fake
