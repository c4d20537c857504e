// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Queues in memory shared with the kernel. They have no shared indices: the VALID bit in an entry's
// flags says which side owns it, and each side counts the entries that it has processed. Sizes are
// powers of two, so the counters may wrap.
//
// Protocol:
// - A WQE whose flags are 0 belongs to the program, which fills it and stores the flags with VALID.
//   It then belongs to the kernel, which copies it and stores 0.
// - A CQE with VALID belongs to the program, which copies it and stores 0.
// - The side that hands over an entry stores the flags with release after its last access; the
// other
//   side loads them with acquire before its first. Both are on one word, so this holds
//   on weakly ordered CPUs for the program's part. The kernel clears the flags of WQEs after a full
//   barrier, but sets those of CQEs with a plain store (up to 7.2 at least): on a weakly ordered
//   CPU they may become visible before the CQE, which cannot be fixed here.
// - No value from the kernel is used as an index.
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

    /// Maps num_entries entries, followed by trailer_size bytes. Returns 0 or an errno.
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
    std::uint32_t prod; ///< the next WQE to write

    wqe_header &wqe(std::uint32_t index) const noexcept {
        return *reinterpret_cast<wqe_header *>(mem.addr + std::size_t{index & mem.index_mask} *
                                                              std::size_t{wqe_size});
    }
    /// The WQE if it can be written, or nullptr if the queue is full. A batch writes WQEs after
    /// prod.
    wqe_header *get_free_wqe(std::uint32_t index) const noexcept {
        wqe_header &header = wqe(index);
        return index - prod <= mem.index_mask && load_flags(header) == 0 ? &header : nullptr;
    }
    /// Ordering: release, after the WQEs; the thread that flushes them loads it with acquire.
    void set_prod(std::uint32_t index) noexcept {
        std::atomic_ref(prod).store(index, std::memory_order_release);
    }
};

/// The SQ or RQ of a QP. When the QP is in error, polling its CQ flushes the WQEs that the kernel
/// has left in the ring.
struct siw_wq {
    wq_ring ring;
    std::uint32_t flush_index; ///< the next WQE to flush
    bool is_rq;
    std::uint32_t qp_num;
    siw_wq *next; ///< in the flush list of the CQ
};

/// The ring of a CQ.
struct cq_ring {
    mapping mem;
    std::uint32_t cons; ///< the next CQE to read
    siw_cq_ctrl *ctrl;

    siw_cqe &cqe(std::uint32_t index) const noexcept {
        return reinterpret_cast<siw_cqe *>(mem.addr)[index & mem.index_mask];
    }
    std::uint8_t load_next_flags() const noexcept {
        return std::atomic_ref(cqe(cons).flags).load(std::memory_order_acquire);
    }
};

} // namespace coherdma::provider::siw
