// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Requests that are to fail. The device itself fails them: it gets them with a key that no memory
// has, so that its QP enters the error state, and later requests are flushed. The program polls the
// completion with the status that the fault has.
//
// Of sends, the device may also flush requests that were posted before and not complete (rxe does).
// A program must see the error before it sees a flush: the first completion of the queue with an
// error gets the status, and those after it are flushed. A receive that fails is the one that gets
// the status: earlier ones may be of another QP of the SRQ, or are flushed for another reason.
#pragma once

#include "interposer/observer.hpp"
#include "plan.hpp"

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace coherdma::faults {

class failing_requests {
  public:
    void add_srq(const void *srq);
    bool is_srq(const void *handle);
    /// A request is about to be posted, whether it is to fail or not.
    void note_post(const interposer::request &) noexcept;
    /// Changes the request so that the device fails it. False: it stays as it is, as another of its
    /// queue is to fail, its queue is in the error state, or its completion will not be seen.
    bool begin(const interposer::request &, ibv_send_wr &, const fault &);
    bool begin(const interposer::request &, ibv_recv_wr &, const fault &);

    enum class result : unsigned char {
        NOTHING,   ///< it is not to fail, or its status is right
        FAILED,    ///< it has got the status of the fault
        SUCCEEDED, ///< it should have failed
        FLUSHED,   ///< the device has not come to it
    };
    /// cause: of a result other than NOTHING.
    result complete(const interposer::request &, ibv_wc &, const fault *&cause);
    /// The driver or the program has taken back a request. Returns the fault if it was to fail, or
    /// nullptr.
    const fault *cancel(const interposer::request &);

    /// The QP or SRQ is new, or reset.
    void forget(const void *handle);
    /// The program has moved the QP to the error state.
    void note_error_state(const void *qp);
    /// The QP is ready to send; only its send queue may have been in an error state.
    void restart(const void *qp);

  private:
    using queue_key = std::pair<const void *, bool>; ///< its handle; whether it is of receives
    struct failing_request {
        const fault *cause = nullptr;
        std::uint64_t number = 0;
        bool has_failed = false; ///< the program has polled the status
    };
    struct queue {
        /// Requests up to this number are of a time before its reset, or of another queue that had
        /// the handle.
        std::uint64_t last_before = 0;
        bool has_error = false;         ///< it flushes what is posted
        bool is_moved_to_error = false; ///< by the program: a flush has no other reason
        std::optional<failing_request> failing;
    };

    /// False: it is not to fail.
    bool add(const interposer::request &, const fault &);
    template <class wr_type>
    void set_sges(wr_type &, bool is_inline);
    static result complete_send(queue &, const interposer::request &, ibv_wc &);
    static result complete_receive(queue &, const interposer::request &, ibv_wc &);
    void note_error(const void *qp);

    std::atomic<std::uint64_t> last_posted_ = 0; ///< the highest number of a request
    std::mutex mutex_;                           ///< protects the following
    std::map<queue_key, queue> queues_;          ///< those that had a fault or an error, or are new
    std::set<const void *> srqs_;
    /// That devices have; kept: a driver may still read them when the program resets the QP, and
    /// another observer may hold the request back.
    std::deque<std::vector<ibv_sge>> sges_;
};

} // namespace coherdma::faults
