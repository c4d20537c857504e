// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a provider tells of itself in pairs of words: OFED's names, that programs look for.
#pragma once

#include <dat2/udat.h>
#include <memory>
#include <string>
#include <vector>

namespace coherdma::dapl {

struct device;

class named_attributes {
  public:
    explicit named_attributes(const device &on);
    const std::vector<DAT_NAMED_ATTR> &list() const noexcept { return pairs; }
    /// How many of them, from the first, are not about extensions.
    std::size_t plain() const noexcept { return plain_ones; }

  private:
    void add(const char *name, std::string value);

    std::size_t plain_ones = 0;
    std::vector<DAT_NAMED_ATTR> pairs;
    std::vector<std::unique_ptr<std::string>> values;
};

/// The maker of the device, by its number; "" if it is software.
const char *vendor_of(const device &on) noexcept;

DAT_COUNT max_read_segments(const device &on) noexcept;
/// An RDMA Read's buffer is written as a peer writes it.
bool reads_need_remote_write(const device &on) noexcept;

} // namespace coherdma::dapl
