// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// An endpoint: a queue pair, and the connection it has, had or will have. What posting needs comes
// first.
#pragma once

#include "device.hpp"
#include "events.hpp"
#include "object.hpp"
#include "owned.hpp"
#include "ring.hpp"

#include <coherdma/coherdma.h>
#include <cstdint>

namespace coherdma::dapl {

struct evd;
struct pz;
struct srq;
namespace cm {
struct connection;
}
namespace extensions {
struct peer;
}

struct ep;

/// Something to be done for an endpoint by the library's thread.
struct ep_task final : task {
    ep_task(ep &whom, void (*how)(ep &) noexcept) noexcept
        : of(whom)
        , what(how) {}
    void run() noexcept override { what(of); }

    ep &of;
    void (*const what)(ep &) noexcept;
};

struct ep : object {
    static constexpr DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_EP;
    explicit ep(ia &of) noexcept;
    ~ep();

    DAT_EP_STATE now() const noexcept { return state.load(std::memory_order_acquire); }
    /// Requests may be posted: it is connected, or was, and they will be flushed.
    bool takes_requests() const noexcept {
        return static_cast<unsigned>(now() - DAT_EP_STATE_CONNECTED) <= 2;
    }
    static_assert(DAT_EP_STATE_DISCONNECT_PENDING == DAT_EP_STATE_CONNECTED + 1 &&
                  DAT_EP_STATE_DISCONNECTED == DAT_EP_STATE_CONNECTED + 2);

    /// It will take requests: so says the next state.
    void open() noexcept;
    /// A request has failed: the queue pair has, too. Called with an EVD's lock.
    void broken() noexcept;
    /// The device will take no more receives from the SRQ for it.
    void no_more_receives() noexcept;

    std::atomic<DAT_EP_STATE> state = DAT_EP_STATE_UNCONNECTED;
    ibv_qp *qp = nullptr; ///< changes under the guards of both rings
    DAT_COUNT request_iov = 0, recv_iov = 0, read_iov = 0, write_iov = 0;
    std::uint32_t inline_limit = 0;
    std::uint32_t at_once = 0; ///< the longest request that takes the short way; 0: none does
    /// The device's limit. What the program said of its requests' length is no promise: OFED's
    /// dtest does not keep it.
    std::uint32_t longest = 0;
    std::uint16_t receive = DAT_DTO_RECEIVE; ///< what its receives are called
    bool shares = false;                     ///< it has an SRQ
    ring requests, receives;
    // Requests of one segment, each under the guard of its ring: little of them changes from one to
    // the next.
    ibv_send_wr wanted = {}, *refused = nullptr;
    ibv_recv_wr wanted_receive = {}, *refused_receive = nullptr;

    lock guard; ///< of the state's changes and of what follows
    pz *zone = nullptr;
    evd *recv_evd = nullptr, *request_evd = nullptr, *connect_evd = nullptr;
    srq *shared = nullptr;
    DAT_EP_ATTR attr = {};
    cm::connection *link = nullptr;
    extensions::peer *peers = nullptr; ///< of datagrams
    address remote = {};
    DAT_CONN_QUAL remote_qual = 0;
    bool last_told = false;           ///< that receives end, for this connection
    std::atomic<bool> silent = false; ///< its completions are of no interest any more
    std::uint32_t drained = 0; ///< outstanding requests when a graceful disconnect last looked
    std::atomic<DAT_COUNT> untaken = 0; ///< see watermark.hpp
    std::atomic<DAT_COUNT> soft_watermark = DAT_WATERMARK_INFINITE;
    std::atomic<DAT_COUNT> hard_watermark = DAT_WATERMARK_INFINITE;
    ep_task when_broken, when_late, when_drained;
    std::unique_ptr<coherdma_remote, ends<coherdma_close_remote>> reach; ///< under requests' guard
    owned<ibv_cq, ibv_destroy_cq> spare;                                 ///< where it has no EVD
    owned<ibv_qp, ibv_destroy_qp> own;
};

/// Its INVALID_STATE subtype.
DAT_UINT32 subtype_of(DAT_EP_STATE state) noexcept;

/// The queue pair, as soon as all it needs is known.
DAT_RETURN make_pair(ep &one) noexcept;
/// What has completed is put into the EVDs; then the queue pair ends.
void end_pair(ep &one) noexcept;

/// Checks attributes and puts defaults for those that are 0; argument: which one they are.
DAT_RETURN complete_attributes(const ia &on, DAT_EP_ATTR &attr, unsigned argument) noexcept;
DAT_EP_ATTR default_attributes(const ia &on) noexcept;

/// What dat_ep_create makes, for who has checked its arguments: counted as used, all of them.
DAT_RETURN make_ep(ia &on, pz *zone, evd *recv, evd *request, evd *connect, srq *shared,
                   const DAT_EP_ATTR &attr, ep *&made) noexcept;

} // namespace coherdma::dapl
