// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// An open IA, registered memory and events: what nearly every case needs.

#pragma once

#include "kernel.hpp"
#include "objects.hpp"
#include "run.hpp"

#include <netinet/in.h>
#include <optional>
#include <sys/mman.h>

namespace conform {

/// The attributes in memory that was filled with this before, so one that was not written shows.
inline constexpr unsigned char poison_byte = 0xa5;
template <class T>
struct poisoned {
    alignas(T) unsigned char bytes[sizeof(T)];

    poisoned() { std::fill(std::begin(bytes), std::end(bytes), poison_byte); }
    T *ptr() { return reinterpret_cast<T *>(bytes); }
    const T &value() const { return *reinterpret_cast<const T *>(bytes); }
    const T *operator->() const { return &value(); }
};

class test_ia {
  public:
    explicit test_ia(source_location loc = current_location());
    /// Closes it gracefully, which proves that nothing of it was left; and nothing may be left in
    /// the kernel before.
    ~test_ia();
    test_ia(const test_ia &) = delete;
    test_ia &operator=(const test_ia &) = delete;

    operator DAT_IA_HANDLE() const { return handle_; }
    DAT_EVD_HANDLE async_evd() const { return async_evd_; }
    /// Objects that the kernel has now are no leaks: a provider may create something once.
    void update_baseline();

    const DAT_IA_ATTR &ia_attr() const;
    const DAT_PROVIDER_ATTR &provider_attr() const;
    bool is_iwarp() const { return ia_attr().extension_supported == DAT_EXTENSION_NONE; }
    bool is_soft_iwarp() const { return settings().device.starts_with("siw"); }
    sockaddr_in ipv4_address() const;

    unique_pz create_pz(source_location loc = current_location()) const;
    unique_evd create_evd(DAT_EVD_FLAGS flags, DAT_COUNT qlen = 16, DAT_CNO_HANDLE cno = nullptr,
                          source_location loc = current_location()) const;
    unique_cno create_cno(source_location loc = current_location()) const;

  private:
    DAT_IA_HANDLE handle_ = nullptr;
    DAT_EVD_HANDLE async_evd_ = nullptr;
    kernel_counts baseline_;
    mutable std::optional<poisoned<DAT_IA_ATTR>> ia_attr_;
    mutable std::optional<poisoned<DAT_PROVIDER_ATTR>> provider_attr_;
};

/// Anonymous memory, whole pages.
class mapping {
  public:
    /// flags: MAP_PRIVATE or MAP_SHARED. address: null lets the kernel choose.
    explicit mapping(std::size_t bytes, int flags = MAP_PRIVATE, void *address = nullptr);
    ~mapping();
    mapping(const mapping &) = delete;
    mapping &operator=(const mapping &) = delete;

    std::byte *data() const { return start_; }
    std::size_t size() const { return bytes_; }

  private:
    std::byte *start_;
    std::size_t bytes_;
};

/// An LMR and its memory.
class test_lmr {
  public:
    test_lmr(const test_ia &ia, DAT_PZ_HANDLE pz, std::size_t bytes,
             DAT_MEM_PRIV_FLAGS privileges = DAT_MEM_PRIV_ALL_FLAG,
             source_location loc = current_location());

    operator DAT_LMR_HANDLE() const { return handle_; }
    std::byte *data() const { return memory_.data(); }
    std::span<std::byte> bytes(std::size_t offset, std::size_t length) const {
        return {memory_.data() + offset, length};
    }
    DAT_VADDR address(std::size_t offset = 0) const {
        return reinterpret_cast<DAT_VADDR>(memory_.data() + offset);
    }
    DAT_LMR_TRIPLET make_lmr_triplet(std::size_t offset, std::size_t length) const;
    DAT_RMR_TRIPLET make_rmr_triplet(std::size_t offset, std::size_t length) const;
    /// What a Consumer does around accesses of a peer: before an RDMA Read, and before and after an
    /// RDMA Write.
    void sync_rdma_read(std::size_t offset, std::size_t length,
                        source_location loc = current_location()) const;
    void sync_rdma_write(std::size_t offset, std::size_t length,
                         source_location loc = current_location()) const;
    DAT_LMR_CONTEXT lmr_context() const { return lmr_context_; }
    DAT_RMR_CONTEXT rmr_context() const { return rmr_context_; }
    DAT_RETURN free() { return handle_.free(); }

  private:
    DAT_IA_HANDLE ia_;
    mapping memory_;
    unique_lmr handle_;
    DAT_LMR_CONTEXT lmr_context_ = 0;
    DAT_RMR_CONTEXT rmr_context_ = 0;
};

constexpr std::size_t page_size = 4096;
constexpr milliseconds event_timeout{60000}; ///< in which an event has to come

/// The next event, or the case ends.
DAT_EVENT next_event(DAT_EVD_HANDLE evd, source_location loc = current_location());
/// It has this number, or the case ends.
DAT_EVENT next_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number,
                     source_location loc = current_location());
/// There is none, and within that time, or --silence, none comes.
bool expect_no_event(DAT_EVD_HANDLE evd, milliseconds timeout = milliseconds(30),
                     source_location loc = current_location());
DAT_EVENT make_software_event(DAT_UINT64 pointer);
DAT_UINT64 software_event_pointer(const DAT_EVENT &event);

} // namespace conform
