// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The queues of siw in memory shared with the kernel. A queue has no shared indices: each entry has
// flags, and each side counts the entries that it has processed. The number of entries is a power
// of two, so the counters may wrap.
//
// Protocol:
// - A WQE whose flags are 0 belongs to the program, which fills it and stores its flags with VALID.
// - A WQE with VALID belongs to the kernel, which copies it and stores 0.
// - A CQE with VALID belongs to the program, which copies it and stores 0.
// - The program stores flags with release, after its last access to the entry, and loads them with
//   acquire, before its first.
// - The kernel clears the flags of a WQE after a full barrier, but sets those of a CQE with a plain
//   store (up to 7.2 at least). A weakly ordered CPU may show the program the flags before the
//   CQE; the program cannot prevent that.
// - When the kernel flushes a WQE, it clears the flags twice (up to 7.2 at least). A WQE that the
//   program writes in between, to the only free slot, is lost; the program cannot prevent that.
// - The program uses no value of the kernel as an index.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <infiniband/verbs.h>
#include <rdma/siw-abi.h>

namespace coherdma::provider::siw {

struct mapping {
    unsigned char *addr; ///< nullptr: not mapped
    std::size_t size;
    std::uint32_t index_mask;

    /// Maps num_entries entries and the trailer_size bytes after them. Returns 0 or an errno.
    int map(int fd, std::uint64_t key, std::uint32_t num_entries, std::size_t entry_size,
            std::size_t trailer_size = 0) noexcept;
    void unmap() noexcept;
    bool is_mapped() const noexcept { return addr != nullptr; }
};

/// The first members of siw_sqe and siw_rqe.
struct wqe_header {
    std::uint64_t id;
    std::uint16_t flags;
    std::uint8_t num_sge;
    std::uint8_t opcode;
};
static_assert(offsetof(wqe_header, flags) == offsetof(siw_sqe, flags));
static_assert(offsetof(wqe_header, flags) == offsetof(siw_rqe, flags));
static_assert(offsetof(wqe_header, opcode) == offsetof(siw_sqe, opcode));

inline std::uint16_t load_flags(wqe_header &wqe) noexcept {
    return std::atomic_ref(wqe.flags).load(std::memory_order_acquire);
}
inline void store_flags(wqe_header &wqe, std::uint16_t flags) noexcept {
    std::atomic_ref(wqe.flags).store(flags, std::memory_order_release);
}
/// Whether the kernel has not taken the WQE yet.
inline bool is_pending(wqe_header &wqe) noexcept {
    return (load_flags(wqe) & SIW_WQE_VALID) != 0;
}

/// The ring of an SQ, RQ or SRQ.
struct wq_ring {
    mapping mem;
    std::uint32_t wqe_size;
    std::uint32_t prod;         ///< the next WQE to write
    std::uint32_t last_written; ///< the last WQE that a post has written, or is writing

    wqe_header &wqe(std::uint32_t index) const noexcept {
        return *reinterpret_cast<wqe_header *>(mem.addr + std::size_t{index & mem.index_mask} *
                                                              std::size_t{wqe_size});
    }
    /// Returns the WQE, or nullptr if the queue is full. The WQEs from prod to index belong to the
    /// caller's batch and may not be VALID yet.
    wqe_header *get_free_wqe(std::uint32_t index) const noexcept {
        wqe_header &header = wqe(index);
        return index - prod <= mem.index_mask && load_flags(header) == 0 ? &header : nullptr;
    }
    /// Before the WQEs up to index, whose slots are free, become VALID.
    void set_last_written(std::uint32_t index) noexcept {
        std::atomic_ref(last_written).store(index, std::memory_order_relaxed);
    }
    /// Whether the kernel has not taken the WQE at index, which is before prod. A post may have
    /// written a later WQE to its slot, also one that is not before prod yet.
    // Ordering: a post finds the slot free, stores last_written, and then the flags with release.
    // So if the flags, which are loaded with acquire, are a later WQE's, last_written is not before
    // it.
    bool is_wqe_pending(std::uint32_t index) noexcept {
        return is_pending(wqe(index)) &&
               std::atomic_ref(last_written).load(std::memory_order_relaxed) - index <=
                   mem.index_mask;
    }
    void set_prod(std::uint32_t index) noexcept {
        // Ordering: release, after the WQEs; the thread that flushes them loads it with acquire.
        std::atomic_ref(prod).store(index, std::memory_order_release);
    }
};

/// The SQ or RQ of a QP. If the QP is in error, a poll of its CQ flushes the WQEs that the kernel
/// has not taken.
struct siw_wq {
    wq_ring ring;
    std::uint32_t flush_index; ///< the next WQE to flush
    bool is_rq;
    std::uint32_t qp_num;
    siw_wq *next; ///< in the flush list of the CQ
    siw_wq *prev; ///< nullptr: not on the list, or not set yet; of the head, it has no meaning
};

/// The ring of a CQ.
struct cq_ring {
    mapping mem;
    std::uint32_t cons; ///< the next CQE to read
    siw_cq_ctrl *ctrl;

    siw_cqe &cqe(std::uint32_t index) const noexcept {
        return reinterpret_cast<siw_cqe *>(mem.addr)[index & mem.index_mask];
    }
    std::uint8_t load_flags(std::uint32_t index) const noexcept {
        return std::atomic_ref(cqe(index).flags).load(std::memory_order_acquire);
    }
};

} // namespace coherdma::provider::siw
