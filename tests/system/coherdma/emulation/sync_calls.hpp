// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The sync calls of `synced`. Each has a number, by which a test skips it.
#pragma once

#include <coherdma/coherdma.h>

#include <cstddef>
#include <cstdint>
#include <infiniband/verbs.h>
#include <string>
#include <utility>
#include <vector>

namespace synced {

enum class side : std::uint8_t { SERVER, CLIENT };
const char *name_of(side s) noexcept;
inline side other(side s) noexcept {
    return s == side::SERVER ? side::CLIENT : side::SERVER;
}

// What the peer does with the memory of a phase. Both sides take turns.
enum class operation : std::uint8_t { MESSAGES, ATOMIC, WRITES, READS, BOTH };

/// A part of the program that does one kind of RDMA operation, with memory of its own.
struct phase {
    const char *name; // also the name of its region
    operation op;
    bool iwarp; // supported on iWARP
    bool multithreaded = false;
};
extern const std::vector<phase> PHASES;

enum class kind : std::uint8_t { READ, WRITE_BEFORE, WRITE_AFTER };

struct sync_call {
    unsigned number;
    const phase *phase_info;
    side process_side;
    kind type;
};
const std::vector<sync_call> &sync_calls();
// Prints the calls of all phases, or of those supported on iWARP.
void print_calls(bool iwarp);

// Makes the sync calls of one process.
class syncer {
  public:
    syncer(const coherdma_device *device, side self, std::vector<unsigned> skipped)
        : device_(device)
        , self_(self)
        , skipped_(std::move(skipped)) {}

    // Makes a sync call with one of the API's variants, or prints that it is skipped.
    void operator()(const phase &, kind, const std::byte *begin, std::size_t length) const;

  private:
    const coherdma_device *device_;
    side self_;
    std::vector<unsigned> skipped_;
};

// The sync calls for the local memory of a process's own requests, for --local.
enum class local_kind : std::uint8_t {
    SEND,
    RECV_BEFORE,
    RECV_AFTER,
    SOURCE, // of an RDMA Write
    SINK_BEFORE,
    SINK_AFTER, // of an RDMA Read or an atomic operation
};
const char *name_of(local_kind k) noexcept;

class local_syncer {
  public:
    // device: nullptr without --local. skipped: name_of() of the kind to leave out; "" for none.
    local_syncer(const coherdma_device *device, side self, std::string skipped)
        : device_(device)
        , self_(self)
        , skipped_(std::move(skipped)) {}

    // Syncs the ranges, or prints that they are skipped.
    void operator()(local_kind, const ibv_sge *ranges, std::size_t count) const;
    // The same, whatever is skipped.
    void sync_always(local_kind, const ibv_sge *list, std::size_t count) const;

  private:
    const coherdma_device *device_;
    side self_;
    std::string skipped_;
};

// Prints one line to stdout in a single write.
void print_line(const std::string &line);

} // namespace synced
