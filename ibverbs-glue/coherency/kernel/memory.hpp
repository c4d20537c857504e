// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Reads the memory of the running kernel, by /proc/kcore, which is read-only, and for root only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <elf.h>
#include <optional>
#include <string>
#include <vector>

namespace coherdma::coherency {

class kernel_memory {
  public:
    /// Opens /proc/kcore, whose path is given. Check with is_open().
    explicit kernel_memory(const std::string &path);
    ~kernel_memory();
    kernel_memory(const kernel_memory &) = delete;
    kernel_memory &operator=(const kernel_memory &) = delete;

    bool is_open() const { return error == 0; }
    /// The errno of opening it; ENOEXEC if it is not the memory of a 64-bit kernel.
    int open_error() const { return error; }

    /// Returns false if not all bytes are in one segment of the file.
    bool read(std::uint64_t address, void *buffer, std::size_t size) const;

    template <typename T>
    bool read(std::uint64_t address, T &value) const {
        return read(address, &value, sizeof value);
    }

  private:
    int fd, error = 0;
    std::vector<Elf64_Phdr> segments;
};

} // namespace coherdma::coherency
