// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Requests that are to fail. The device itself fails them: it gets them with a key that no memory
// has, so that its QP enters the error state, later requests are flushed, and no data is sent. The
// program polls the completion with the status that the fault has.
//
// The device may also flush requests that were posted before and not complete (rxe does). A program
// must see the error before it sees a flush: the first completion of the queue with an error gets
// the status, and those after it are flushed.
#pragma once

#include "interposer/observer.hpp"
#include "plan.hpp"

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace coherdma::faults {

class failing_requests {
  public:
    void add_srq(const void *srq);
    bool is_srq(const void *queue);
    /// Changes the request so that the device fails it. False: one of its queue is to fail already.
    bool begin(const interposer::request &, ibv_send_wr &, const fault &);
    bool begin(const interposer::request &, ibv_recv_wr &, const fault &);

    enum class result : unsigned char {
        NOTHING,   ///< it is of no queue that fails, or its status is right
        FAILED,    ///< it has got the status of the fault
        SUCCEEDED, ///< it should have failed
    };
    /// cause: of a result other than NOTHING.
    result complete(const interposer::request &, ibv_wc &, const fault *&cause);
    /// The driver has refused a request. Returns the fault if it was to fail, or nullptr.
    const fault *refuse(const interposer::request &);
    /// The queue is destroyed or reset.
    void forget(const void *queue);

  private:
    using queue_key = std::pair<const void *, bool>; ///< its handle; whether it is of receives
    struct failing {
        const fault *cause = nullptr;
        std::uint64_t number = 0; ///< of the request
        bool has_failed = false;
        std::vector<ibv_sge> sges; ///< that the device has
    };

    /// nullptr: one of its queue is to fail already.
    failing *add(const interposer::request &, const fault &);

    std::mutex mutex_; ///< protects the following
    std::map<queue_key, failing> failing_;
    std::set<const void *> srqs_;
};

} // namespace coherdma::faults
