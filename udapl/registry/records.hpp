// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What could be opened: the records of dat.conf(5), which is read once, and the RDMA devices that
// there are at the moment.
#pragma once

#include "config.hpp"
#include "dat.hpp"

#include <initializer_list>

namespace coherdma::registry {

inline constexpr char OUR_PROVIDER[] = "libdaplcoherdma.so.2";

/// With the texts that its records point into.
class records {
  public:
    records() noexcept = default;
    ~records() {
        for (char *each : texts)
            std::free(each);
    }
    records(const records &) = delete;
    records &operator=(const records &) = delete;

    /// Takes over memory of malloc. False if there is none for it; it is then freed.
    [[nodiscard]] bool keep(char *text) noexcept {
        if (texts.add(text))
            return true;
        std::free(text);
        return false;
    }

    list<record> all;

  private:
    list<char *> texts;
};

/// Reads the first of these files that there is, and says what is wrong in it. False if there is
/// none.
bool read_first(std::initializer_list<const char *> paths, records &into) noexcept;

/// Read when it is first asked for. Under the registry's lock.
const records &of_dat_conf() noexcept;

/// Each port of each device that libcoherdma finds, under all its names; none if libcoherdma is not
/// there, or COHERDMA_DAT_LIVE is 0. Without memory it ends early.
void add_live_devices(records &into) noexcept;

/// Whether programs of this registry can open it.
bool is_of_this_version(const record &which) noexcept;

/// Whether it is what is looked for: the name, the version, and the thread safety.
bool is_for(const record &which, const DAT_PROVIDER_INFO &wanted) noexcept;

} // namespace coherdma::registry
