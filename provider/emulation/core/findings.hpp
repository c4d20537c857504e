// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What was found, told to people on stderr and to programs in a file of JSON lines, with a summary
// when the process ends.
#pragma once

#include "settings.hpp"
#include "store.hpp"
#include "trace.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace coherdma::emulation {

enum class kind : std::uint8_t {
    UNSYNCED_READ,  ///< a peer reads lines that are dirty
    UNSYNCED_WRITE, ///< a peer writes lines that are dirty
    CONFLICT,       ///< both the program and the device have changed a line
    STALE,          ///< the device has written a line that was never fetched
    DISCARDED,      ///< a dirty line was dropped when its region was deregistered
    BESIDE,         ///< data came into a line that is dirty beside them
    REDUNDANT,      ///< a sync of a range that was clean
};
const char *name_of(kind) noexcept;
/// The call that would have helped: "sync_rdma_write after the Write".
const char *missing_for(kind) noexcept;

/// Somebody's call: a request of a peer's or our own, or a sync.
struct deed {
    std::string words; ///< "RDMA Write of 64 bytes, request 7, of process 123 (rping)"; "": none
    trace where;       ///< of this process, if it is one of ours
    std::vector<std::string> there; ///< of another one, in words
};

/// Registered memory, as people know it.
struct region {
    std::uint32_t number = 0; ///< 1, 2, ... of this process
    span where;
    std::uint64_t iova = 0;
    std::uint32_t lkey = 0, rkey = 0;
    bool readable = false, writable = false; ///< by peers
    std::string device;
    trace registered;

    [[nodiscard]] bool is_remote() const noexcept { return readable || writable; }
};

struct finding {
    kind is = kind::CONFLICT;
    region in;
    span where;                                         ///< lines in a row
    std::uintptr_t first = 0;                           ///< the first byte that differs,
    std::vector<unsigned char> program, device, agreed; ///< and some from there; empty: not known
    deed last_sync, request;
};

/// Safe for threads.
class findings {
  public:
    explicit findings(const settings &);
    ~findings();

    void tell(const finding &);
    /// Something that is not emulated: once for each text.
    void note(const std::string &);
    /// The summary; once. How many findings there were that are not suppressed.
    std::size_t finish();

  private:
    struct inside;
    std::unique_ptr<inside> own_;
};

} // namespace coherdma::emulation
