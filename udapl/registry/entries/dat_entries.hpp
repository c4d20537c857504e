// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The IA names that can be opened: the entries of dat.conf(5), which is read once, and those of the
// RDMA devices that exist at the moment.
#pragma once

#include "dat.hpp"
#include "dat_conf_parser.hpp"

#include <initializer_list>

namespace coherdma::registry {

/// Entries, and the texts that their strings point into.
class dat_entries {
  public:
    dat_entries() noexcept = default;
    ~dat_entries() {
        for (char *text : texts)
            std::free(text);
    }
    dat_entries(const dat_entries &) = delete;
    dat_entries &operator=(const dat_entries &) = delete;

    /// Takes ownership of malloc()ed text. If memory is exhausted, frees it and returns false.
    [[nodiscard]] bool take_text(char *text) noexcept {
        if (texts.push_back(text))
            return true;
        std::free(text);
        return false;
    }

    vector<dat_entry> entries;

  private:
    vector<char *> texts;
};

/// Reads the first of the files that exists, and prints its errors. Returns false if none exists.
bool read_first_conf(std::initializer_list<const char *> paths, dat_entries &entries) noexcept;

/// The entries of dat.conf. The first call reads it. Requires registry_lock.
const dat_entries &get_dat_conf() noexcept;

/// Adds each port of each device that libcoherdma finds, under all its names; none if libcoherdma
/// is not installed or COHERDMA_DAT_LIVE is 0. Stops early if memory is exhausted.
void add_live_devices(dat_entries &devices) noexcept;

/// Whether programs of this registry can open the entry.
bool matches_version(const dat_entry &entry) noexcept;

/// Compares name, version and thread safety.
bool matches_info(const dat_entry &entry, const DAT_PROVIDER_INFO &info) noexcept;

} // namespace coherdma::registry
