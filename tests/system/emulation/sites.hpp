// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Where `synced` syncs: every call has a number, so that a test can leave one out.
#pragma once

#include <coherdma/coherdma.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace synced {

enum class side : std::uint8_t { SERVER, CLIENT };
const char *name_of(side) noexcept;
inline side other(side which) noexcept {
    return which == side::SERVER ? side::CLIENT : side::SERVER;
}

// What peers do to the memory of a phase. Both sides' memory takes its turn.
enum class work : std::uint8_t { MESSAGES, ATOMIC, WRITES, READS, BOTH };

struct phase {
    const char *name; // and of its region
    work does;
    bool iwarp; // can be done there
    bool on_threads = false;
};
extern const std::vector<phase> PHASES;

enum class kind : std::uint8_t { READ, WRITE_BEFORE, WRITE_AFTER };

struct site {
    unsigned number;
    const phase *in;
    side by;
    kind is;
};
const std::vector<site> &sites();
// Of all phases, or of those that iWARP can do.
void list(bool iwarp);

// The calls of one process.
class syncing {
  public:
    syncing(const coherdma_device *device, side me, unsigned without)
        : device_(device)
        , me_(me)
        , without_(without) {}

    // Does what the site is for, by one of the ways there are to say it; or says what was left out.
    void operator()(const phase &, kind, const std::byte *begin, std::size_t length) const;

  private:
    const coherdma_device *device_;
    side me_;
    unsigned without_;
};

// One line on stdout, whole, whoever else writes.
void say(const std::string &line);

} // namespace synced
