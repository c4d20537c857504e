// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The provider-specific attributes (DAT_NAMED_ATTR), with OFED's names.
#pragma once

#include <dat2/udat.h>
#include <memory>
#include <string>
#include <vector>

namespace coherdma::dapl {

struct device;

class named_attrs {
  public:
    explicit named_attrs(const device &dev);
    const std::vector<DAT_NAMED_ATTR> &list() const noexcept { return attrs; }
    /// The number of attributes at the begin of the list that do not describe extensions.
    std::size_t num_base_attrs() const noexcept { return num_base; }

  private:
    void add(const char *name, std::string value);

    std::size_t num_base = 0;
    std::vector<DAT_NAMED_ATTR> attrs;
    std::vector<std::unique_ptr<std::string>> values;
};

/// "" for a software device.
const char *vendor_name(const device &dev) noexcept;

DAT_COUNT max_read_segments(const device &dev) noexcept;
/// The buffer of an RDMA Read needs the remote write privilege.
bool read_needs_remote_write(const device &dev) noexcept;

} // namespace coherdma::dapl
