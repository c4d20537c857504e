// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A connection attempt of iWARP that this side has ended. The kernel holds it until the peer
// answers, or for some ten seconds: until then rdma_destroy_id blocks, and so does ibv_destroy_qp.
// So a thread of its own destroys the attempt, and then the QP, if the EP was freed or reset
// meanwhile. The QP owns its CQs, PD and SRQ, so that the consumer can free those at once.
#pragma once

#include "cookie_ring.hpp"
#include "dapl/core/lock.hpp"

#include <infiniband/verbs.h>
#include <memory>

struct rdma_event_channel;

namespace coherdma::dapl {

namespace cm {
struct connection;
void destroy_conn(connection *conn) noexcept;
} // namespace cm

/// A QP that its EP does not use any more, with the cookies of its requests and the EVDs where
/// these may still complete.
struct retired_qp {
    retired_qp() noexcept = default;
    retired_qp(retired_qp &&) noexcept = default;
    retired_qp &operator=(retired_qp &&) noexcept = default;
    ~retired_qp() { destroy(); }

    void destroy() noexcept;

    std::shared_ptr<ibv_qp> qp;
    std::unique_ptr<dto_cookie[]> requests, receives;
    DAT_EVD_HANDLE request_evd = DAT_HANDLE_NULL, recv_evd = DAT_HANDLE_NULL;
};

class ended_attempt {
  public:
    explicit ended_attempt(cm::connection *attempted_conn) noexcept;
    /// Before the attempt begins: to end it takes no memory. nullptr: out of memory.
    static std::shared_ptr<ended_attempt> create(cm::connection *conn) noexcept;
    /// Starts the thread; if that fails, destroys the attempt in this call. No event of it is being
    /// handled any more.
    static void start(const std::shared_ptr<ended_attempt> &attempt) noexcept;

    /// The thread destroys the QP after the attempt. If it already has destroyed that, this call
    /// destroys the QP.
    void adopt(retired_qp &&retired) noexcept;

  private:
    static void *thread_main(void *arg) noexcept;
    void destroy() noexcept;

    cm::connection *const conn;
    std::shared_ptr<ended_attempt> self;               ///< of the thread
    const std::shared_ptr<rdma_event_channel> channel; ///< of the rdma_cm_id
    mutex lock;                                        ///< of the members that follow
    retired_qp adopted;                                ///< destroyed after the connection
    bool destroyed = false;                            ///< the connection
};

} // namespace coherdma::dapl
