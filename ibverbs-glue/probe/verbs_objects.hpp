// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Owning pointers to verbs objects, and what both kinds of loopback do with them.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <infiniband/verbs.h>
#include <memory>
#include <span>

namespace coherdma::probe {

template <auto destroy>
struct destroy_with {
    template <typename Object>
    void operator()(Object *object) const noexcept {
        static_cast<void>(destroy(object));
    }
};
template <typename Object, auto destroy>
using unique_object = std::unique_ptr<Object, destroy_with<destroy>>;

using unique_pd = unique_object<ibv_pd, ibv_dealloc_pd>;
using unique_cq = unique_object<ibv_cq, ibv_destroy_cq>;
using unique_mr = unique_object<ibv_mr, ibv_dereg_mr>;
using unique_qp = unique_object<ibv_qp, ibv_destroy_qp>;

/// Throws std::system_error: "ACTION: the error's text".
[[noreturn]] void throw_error(int error, const char *action);

/// Returns the object. Throws with errno if it is NULL.
template <typename Object>
Object *throw_if_null(Object *object, const char *action) {
    if (!object)
        throw_error(errno, action);
    return object;
}

/// Learns that the kernel is removing a device. Without disassociate_ucontext of its driver, which
/// the soft drivers lack, ib_uverbs_remove_one() sends no event, and waits until no process has a
/// context of the device; but it has removed the device's folder then.
class removal_watch {
  public:
    explicit removal_watch(const ibv_context *context);
    bool is_removed() const;

  private:
    const char *folder_;  ///< in sysfs
    std::uint64_t inode_; ///< another device may get the name; 0: sysfs is not mounted
};

unique_mr register_memory(ibv_pd *pd, std::span<std::uint64_t> memory);

/// An RC QP with room for one transfer.
ibv_qp_init_attr make_qp_init_attr(ibv_cq *cq);

/// Memory of the peer.
struct remote_memory {
    std::uint64_t addr;
    std::uint32_t rkey;
};

/// Of an MR that the same process registered.
inline remote_memory remote_memory_of(const ibv_mr *mr) {
    return {reinterpret_cast<std::uintptr_t>(mr->addr), mr->rkey};
}

/// The QP that makes the transfers, and its CQ, which has no other completion.
struct requester {
    ibv_qp *qp;
    ibv_cq *cq;
    std::chrono::milliseconds timeout; ///< of each transfer
};

// Both wait for completion: 0, ETIMEDOUT, or EIO.

/// Fills the sink from the source.
int rdma_read(const requester &, remote_memory source, const ibv_mr *sink);

/// Writes all of the source to the sink. Its completion does not say that the data is in the peer's
/// memory; that of an RDMA Read of the last bytes, into the MR `flush`, does.
int rdma_write(const requester &, const ibv_mr *source, remote_memory sink, const ibv_mr *flush);

} // namespace coherdma::probe
