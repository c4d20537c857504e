// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// An IA that is open, and what the least of cases need of it.

#pragma once

#include "kernel.hpp"
#include "objects.hpp"
#include "run.hpp"

#include <netinet/in.h>
#include <optional>
#include <sys/mman.h>

namespace conform {

/// The attributes in memory that was filled with this before, so one that was not written shows.
inline constexpr unsigned char untouched = 0xa5;
template <class T>
struct filled {
    alignas(T) unsigned char bytes[sizeof(T)];

    filled() { std::fill(std::begin(bytes), std::end(bytes), untouched); }
    T *out() { return reinterpret_cast<T *>(bytes); }
    const T &in() const { return *reinterpret_cast<const T *>(bytes); }
    const T *operator->() const { return &in(); }
};

class adapter {
  public:
    explicit adapter(source_location loc = current_location());
    /// Closes it gracefully, which proves that nothing of it was left; and nothing may be left in
    /// the kernel before.
    ~adapter();
    adapter(const adapter &) = delete;
    adapter &operator=(const adapter &) = delete;

    operator DAT_IA_HANDLE() const { return handle_; }
    DAT_EVD_HANDLE async() const { return async_; }
    /// What the kernel has now is there for good: a provider may make something once for all.
    void recount();

    const DAT_IA_ATTR &attributes() const;
    const DAT_PROVIDER_ATTR &provider() const;
    bool is_iwarp() const { return attributes().extension_supported == DAT_EXTENSION_NONE; }
    bool is_soft_iwarp() const { return settings().device.starts_with("siw"); }
    sockaddr_in address() const;

    unique_pz zone(source_location loc = current_location()) const;
    unique_evd events(DAT_EVD_FLAGS flags, DAT_COUNT qlen = 16, DAT_CNO_HANDLE to = nullptr,
                      source_location loc = current_location()) const;
    unique_cno notifier(source_location loc = current_location()) const;

  private:
    DAT_IA_HANDLE handle_ = nullptr;
    DAT_EVD_HANDLE async_ = nullptr;
    kernel_counts before_;
    mutable std::optional<filled<DAT_IA_ATTR>> attributes_;
    mutable std::optional<filled<DAT_PROVIDER_ATTR>> provider_;
};

/// Pages of their own.
class pages {
  public:
    /// flags: MAP_PRIVATE or MAP_SHARED. address: null lets the kernel choose.
    explicit pages(std::size_t bytes, int flags = MAP_PRIVATE, void *address = nullptr);
    ~pages();
    pages(const pages &) = delete;
    pages &operator=(const pages &) = delete;

    std::byte *data() const { return start_; }
    std::size_t size() const { return bytes_; }

  private:
    std::byte *start_;
    std::size_t bytes_;
};

/// Memory that is registered.
class region {
  public:
    region(const adapter &ia, DAT_PZ_HANDLE zone, std::size_t bytes,
           DAT_MEM_PRIV_FLAGS privileges = DAT_MEM_PRIV_ALL_FLAG,
           source_location loc = current_location());

    operator DAT_LMR_HANDLE() const { return handle_; }
    std::byte *data() const { return memory_.data(); }
    std::span<std::byte> bytes(std::size_t at, std::size_t length) const {
        return {memory_.data() + at, length};
    }
    DAT_VADDR address(std::size_t at = 0) const {
        return reinterpret_cast<DAT_VADDR>(memory_.data() + at);
    }
    DAT_LMR_TRIPLET piece(std::size_t at, std::size_t length) const;
    DAT_RMR_TRIPLET target(std::size_t at, std::size_t length) const;
    DAT_LMR_CONTEXT lmr_context() const { return lmr_context_; }
    DAT_RMR_CONTEXT rmr_context() const { return rmr_context_; }
    DAT_RETURN free() { return handle_.free(); }

  private:
    pages memory_;
    unique_lmr handle_;
    DAT_LMR_CONTEXT lmr_context_ = 0;
    DAT_RMR_CONTEXT rmr_context_ = 0;
};

constexpr std::size_t page = 4096;
constexpr milliseconds soon{60000}; ///< in which an event has to come

/// The next event, or the case ends.
DAT_EVENT next_event(DAT_EVD_HANDLE from, source_location loc = current_location());
/// It has this number, or the case ends.
DAT_EVENT next_event(DAT_EVD_HANDLE from, DAT_EVENT_NUMBER number,
                     source_location loc = current_location());
/// There is none, and within that time, or --silence, none comes.
bool no_event(DAT_EVD_HANDLE from, milliseconds within = milliseconds(30),
              source_location loc = current_location());
DAT_EVENT software_event(DAT_UINT64 pointer);
DAT_UINT64 pointer_of(const DAT_EVENT &event);

} // namespace conform
