// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Cache maintenance for a device that is not coherent (coherdma(7)). Programs of librpma have no
// calls for it, so librpma syncs
//
// - the local memory of each operation: before it is posted, and after its completion;
// - memory that peers may read or write: before whatever may tell a peer of it (sends, writes,
//   connecting), and after whatever a peer may have told (completed receives, events of the
//   connection). Memory that a program polls for a peer's writes, it must sync itself.
//
// A region of which a program has unmapped a part is not synced.
//
// A peer whose device is coherent has no device_sync, and its objects no sync_queue.
#pragma once

#include "handle.hpp"

#include <coherdma/coherdma.h>
#include <cstdint>
#include <mutex>

struct rpma_mr_local;
struct rpma_peer;

namespace coherdma::rpma {

class sync_log;
class sync_queue;

/// An operation that has been posted. Its address is the wr_id.
struct sync_request {
    std::uint64_t op_context = 0;                  ///< kept after the completion: see get_free()
    coherdma_range sink = {};                      ///< memory that the device writes
    sync_queue *queue = nullptr;                   ///< nullptr: it has completed
    sync_request *prev = nullptr, *next = nullptr; ///< in the queue, or in the list of free ones
};

/// Requests in the order of posting.
class request_list {
  public:
    /// nullptr: empty.
    sync_request *front() const noexcept { return head_; }
    void push_back(sync_request &request) noexcept;
    void remove(sync_request &request) noexcept;
    /// nullptr: empty.
    sync_request *pop_front() noexcept;

  private:
    sync_request *head_ = nullptr, *tail_ = nullptr;
};

/// Of a peer. Its MRs and queues own it, too: a program may delete the peer before them.
class device_sync {
  public:
    /// result: nullptr if the device needs no sync. 0, or an RPMA_E_* value.
    static int open(ibv_context &context, device_sync *&result) noexcept;
    void acquire() noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
    void release() noexcept;

    void add(rpma_mr_local &mr) noexcept;
    /// Also writes back the lines of its pages, which Linux before 7.0 drops at deregistration, and
    /// syncs what a peer has written.
    void remove(rpma_mr_local &mr) noexcept;
    /// Before a peer is told of memory.
    void sync_before_peer() noexcept;
    /// After a peer may have written memory.
    void sync_after_peer() noexcept;
    /// Completes the request of the CQE, and gives the CQE the program's wr_id.
    void complete(ibv_wc &wc) noexcept;

  private:
    friend class sync_queue;
    device_sync() = default;
    ~device_sync();
    sync_request *get_free() noexcept;
    void add_free(sync_request &request) noexcept;
    void complete_locked(sync_request &request, sync_log &log) noexcept;

    unique_handle<coherdma_device, coherdma_close_device> device_;
    std::atomic<unsigned> refs_ = 1;
    std::mutex lock_;            ///< of all that follows
    request_list free_requests_; ///< in the order of completion
    std::size_t num_free_ = 0;
    rpma_mr_local *mrs_ = nullptr;
};

struct release_sync {
    void operator()(device_sync *sync) const noexcept { sync->release(); }
};
using sync_ref = std::unique_ptr<device_sync, release_sync>;
/// A further reference; nullptr for nullptr.
inline sync_ref share(device_sync *sync) noexcept {
    if (sync != nullptr)
        sync->acquire();
    return sync_ref(sync);
}

/// What the device does with the memory of an operation.
enum class access { reads, writes };

/// The outstanding requests of an SQ, an RQ or an SRQ.
class sync_queue {
  public:
    /// is_ordered: a completion means that all earlier requests are complete, too.
    sync_queue(device_sync &sync, bool is_ordered) noexcept
        : sync_(share(&sync))
        , is_ordered_(is_ordered) {}
    /// The verbs queue has been destroyed: no request of it completes any more.
    ~sync_queue();
    sync_queue(const sync_queue &) = delete;

    /// Syncs the memory and calls post_wr(wr_id), which returns 0 or an errno value; so does this.
    template <class function>
    [[gnu::noinline]] int post(const void *op_context, const ibv_sge &memory, access device_access,
                               const function &post_wr) noexcept {
        sync_for_device(memory, device_access);
        // Requests are posted in the order of the list.
        const std::lock_guard guard(post_lock_);
        sync_request *const request = begin(op_context, memory, device_access);
        if (request == nullptr)
            return ENOMEM;
        const int error = post_wr(std::uint64_t{reinterpret_cast<std::uintptr_t>(request)});
        if (error != 0)
            cancel(*request);
        return error;
    }
    device_sync &sync() const noexcept { return *sync_; }

  private:
    friend class device_sync;
    void sync_for_device(const ibv_sge &memory, access device_access) noexcept;
    /// nullptr: no memory.
    sync_request *begin(const void *op_context, const ibv_sge &memory,
                        access device_access) noexcept;
    void cancel(sync_request &request) noexcept;

    sync_ref sync_;
    std::mutex post_lock_;
    request_list requests_; ///< under the lock of sync_
    bool is_ordered_;
};

/// queue: nullptr if the peer's device is coherent. 0, or RPMA_E_NOMEM.
int create_sync_queue(const rpma_peer &peer, bool is_ordered,
                      std::unique_ptr<sync_queue> &queue) noexcept;

/// Posts with syncs if the queue needs them: queue may be nullptr. post_wr(wr_id) returns 0 or an
/// errno value; so does this.
template <class function>
[[gnu::always_inline]] inline int post_synced(sync_queue *queue, const void *op_context,
                                              const ibv_sge &memory, access device_access,
                                              const function &post_wr) noexcept {
    if (queue == nullptr) [[likely]]
        return post_wr(std::uint64_t{reinterpret_cast<std::uintptr_t>(op_context)});
    return queue->post(op_context, memory, device_access, post_wr);
}

} // namespace coherdma::rpma
