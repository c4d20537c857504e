// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the program has: objects, requests that are not complete, and objects that it has destroyed.
#pragma once

#include "event_time.hpp"
#include "interposer/observer.hpp"
#include "owned_memory.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <infiniband/verbs.h>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace coherdma::check {

using interposer::object_kind;
using object_number = std::uint64_t; ///< no other object of this process has or had it

struct known_object {
    object_kind kind = {};
    object_number number = 0;
    const void *handle = nullptr;
    ibv_context *context = nullptr;
    std::string device; ///< "rxe0"
    std::string name;   ///< "QP 17", "MR 0x1234", "CQ 3": what messages call it
    stack_trace creation;
    std::size_t num_unacknowledged = 0; ///< events that the program has got
    std::thread::id event_thread;       ///< that got the last of them
};

struct known_mr : known_object {
    std::uint32_t pd_handle = 0;
    std::uint64_t begin = 0, end = 0; ///< as SGEs name them; end 0: everything
    std::uintptr_t memory = 0;        ///< of the program; 0: it is not the program's memory
    std::uint32_t lkey = 0, rkey = 0; ///< that the program has
    std::uint32_t device_lkey = 0;    ///< that the device has
    int access = 0;
    bool is_access_known = true;  ///< or it is another process's
    std::size_t num_requests = 0; ///< outstanding ones that name it, by each SGE
    std::size_t busy_index = 0;   ///< of busy_mrs, if there are any
};

/// What an SGE names.
struct named_memory {
    object_number mr = 0;
    std::uintptr_t begin = 0, end = 0; ///< memory of the program; 0: it is none
    bool can_protect = false;  ///< the device has pinned it, and the program can write to it
    bool is_protected = false; ///< whole pages of it
};

/// The memory of a request: its source, or its target if that must not change either.
struct memory_copy {
    const std::size_t length;
    const std::unique_ptr<std::byte[]> bytes; ///< that it had when the request was posted
    stack_trace change;                       ///< the access that wrote to it, if that is known

    explicit memory_copy(std::size_t memory_length)
        : length(memory_length)
        , bytes(std::make_unique_for_overwrite<std::byte[]>(memory_length)) {
        total += length;
    }
    memory_copy(const memory_copy &) = delete;
    memory_copy &operator=(const memory_copy &) = delete;
    ~memory_copy() { total -= length; }

    static inline constinit std::atomic<std::size_t> total = 0; ///< bytes of all copies
};

/// A request that was posted and whose completion the program has not polled.
struct posted_request {
    std::uint64_t wr_id = 0;
    ibv_wr_opcode opcode = {}; ///< if !is_receive
    bool is_receive = false;
    bool is_signaled = true;
    bool is_fenced = false; ///< a send that waits for earlier Reads and atomics of its QP
    std::vector<named_memory> memory = {}; ///< that its SGEs name
    std::vector<ibv_sge> device_sges = {}; ///< with the device's lkeys, if the program has others
    stack_trace stack = {};
    bool is_returned = false; ///< its memory: the program knows that the device has executed it
    std::shared_ptr<memory_copy> copy = {}; ///< nullptr: its memory is not compared
};
/// Whether the device writes to the memory that it names.
bool is_written(const posted_request &) noexcept;
/// Whether the device executes a send only when this other request of its QP, which was posted
/// before, is complete.
bool waits_for(const posted_request &send, const posted_request &other) noexcept;
/// By the numbers of the requests: in the order in which they were posted.
using request_map = std::map<std::uint64_t, posted_request>;

/// Learns which memory a device may use, and for how long. The mutex of the books is locked.
class request_watcher {
  public:
    virtual ~request_watcher() = default;
    /// The request is about to be posted.
    virtual void begin(const known_object &queue, std::uint64_t number, const posted_request &) = 0;
    /// The device does not use its memory any more: its QP is in an error state, or its MR was
    /// deregistered. It may have done so before: the completion is still to come.
    virtual void stop(std::uint64_t number, const posted_request &) noexcept = 0;
    /// The queue was reset or destroyed, or its device closed: the device does not use the memory
    /// any more either, and nothing says whether it has done so before.
    virtual void drop(std::uint64_t number, const posted_request &) noexcept = 0;
    /// The request is complete, or was refused.
    virtual void end(std::uint64_t number, const posted_request &) noexcept = 0;
    /// The QP or SRQ exists no longer.
    virtual void end_queue(const known_object &) noexcept = 0;
};

struct known_cq : known_object {
    const void *channel = nullptr;
    std::size_t num_expected = 0; ///< completions of requests that are posted and not polled
    std::size_t max_events = 0;   ///< that may come, or have come, until it is armed again
    bool is_polled_since_arm = true;
    std::size_t num_polls = 0, num_arms = 0;
    std::size_t num_sends_at_arm = 0, num_receives_at_arm = 0; ///< outstanding when it was armed
    stack_trace arm;
    std::thread::id arm_thread;
    bool is_overflow_reported = false;
};

struct known_srq : known_object {
    std::uint32_t pd_handle = 0;
    std::size_t max_sges = SIZE_MAX;
    request_map receives;
};

struct known_qp : known_object {
    std::uint32_t pd_handle = 0;
    const void *send_cq = nullptr, *recv_cq = nullptr;
    const void *srq = nullptr;
    ibv_qp_type type = {};
    std::uint32_t qp_num = 0;
    std::optional<std::uint32_t> local_peer; ///< the number of its peer, if that is of this device
    const void *peer = nullptr;              ///< that QP, when it was looked up last
    ibv_qp_state state = IBV_QPS_UNKNOWN;    ///< that the program has set, or a completion shows
    stack_trace last_modify;
    std::uint32_t max_sends = 0, max_receives = 0; ///< 0: not known
    std::size_t max_send_sges = SIZE_MAX, max_receive_sges = SIZE_MAX;
    request_map sends, receives;
    std::size_t num_signaled = 0; ///< of sends
    std::uint64_t last_send = 0;  ///< the number of the last one that was posted
    /// That number when the program polled the last receive: the peer has answered since, so that
    /// it has what was sent before.
    std::uint64_t answered_send = 0;
    bool has_failed = false; ///< the program has polled an error, and not modified the QP since
    ibv_wc_status failure = IBV_WC_SUCCESS;
    stack_trace failure_poll;
    std::thread::id failure_thread; ///< that polled it
    std::size_t num_sends_since_failure = 0;
    bool is_failure_reported = false;
};

/// An object that the program has destroyed, until another has its address.
struct destroyed_object {
    known_object object;
    std::uint32_t rkey = 0; ///< of an MR
    stack_trace destruction;
};

/// A thread that waits for an event that could not come when it began, or for other threads to
/// acknowledge the events of an object that it destroys.
struct endless_wait {
    const ibv_comp_channel *channel = nullptr; ///< nullptr: it destroys the object
    interposer::object ended;
    stack_trace stack;
    pid_t thread = 0;          ///< as the kernel numbers it
    unsigned num_looks = 0;    ///< of the watching thread, since nothing can end the wait
    std::size_t num_polls = 0; ///< of the channel's CQs, at the last look
    bool is_reported = false;
};

/// A call with an object whose calls the program must serialize.
struct use_in_progress {
    std::thread::id thread;
    const char *call = nullptr;
    stack_trace stack;
};

/// Protected by the mutex of the check.
struct process_books {
    std::unordered_map<const void *, known_qp> qps;
    std::unordered_map<const void *, known_srq> srqs;
    std::unordered_map<const void *, known_cq> cqs;
    std::unordered_map<object_number, known_mr> mrs;
    std::vector<object_number> busy_mrs; ///< that outstanding requests name
    std::map<std::pair<const ibv_context *, std::uint32_t>, object_number> mr_of_lkey, mr_of_rkey;
    std::map<object_number, known_object> others;
    std::unordered_map<const void *, destroyed_object> destroyed;
    std::map<std::thread::id, endless_wait> waits;
    std::map<std::uint64_t, object_number> binds; ///< of MWs that are being posted, by request: MRs
    std::map<object_number, std::vector<use_in_progress>> uses; ///< of single-threaded objects
    bool are_waits_watched = false;                             ///< by a thread

    owned_memory owned;                 ///< by the device
    request_watcher *watcher = nullptr; ///< nullptr: there is none

    /// Calls func(object of its queue, request) for each outstanding request, until it returns
    /// true.
    template <class function>
    void for_each_request(function func) const {
        visit_requests(*this, func);
    }
    template <class function>
    void for_each_request(function func) {
        visit_requests(*this, func);
    }

    /// nullptr: there is none.
    known_qp *find_qp(const void *handle) noexcept;
    known_qp *find_qp(const ibv_context *, std::uint32_t qp_num) noexcept;
    known_srq *find_srq(const void *handle) noexcept;
    known_object *find_queue(const void *handle) noexcept; ///< a QP or SRQ
    known_cq *find_cq(const void *handle) noexcept;
    known_mr *find_mr(object_number) noexcept;
    known_mr *find_mr(const ibv_context *, std::uint32_t lkey) noexcept;
    known_mr *find_remote_mr(const ibv_context *, std::uint32_t rkey) noexcept;
    /// The QP of this process that a QP is connected to.
    known_qp *find_peer(known_qp &) noexcept;

    /// The object that has this number, of any kind; nullptr: there is none.
    known_object *find(const interposer::object &) noexcept;

    void add(const interposer::object &);
    void add_mr(const interposer::object &, const interposer::registration &);
    /// ibv_rereg_mr() has succeeded. Returns the MR; nullptr: the books do not have it.
    known_mr *change_mr(const ibv_mr &, int flags, int access);
    /// From now on the program has another lkey of it, which differs from the rkey.
    void change_lkey(known_mr &);
    /// A driver is about to read the lkey of the ibv_mr: to bind an MW or, as that of cxgb4, to
    /// deregister it. It is the device's until hide_device_lkey(). The program may read it
    /// meanwhile: requests with it are of the MR, too.
    void show_device_lkey(const known_mr &);
    static void hide_device_lkey(const known_mr &) noexcept;
    void arm(const ibv_cq &, const stack_trace &);
    /// Its requests are forgotten, too.
    void remove(const interposer::object &, const stack_trace &destruction);
    /// The requests of a QP that was reset.
    void drop_requests(known_qp &) noexcept;
    /// The device executes no request of the QP any more: their completions say so.
    void end_uses(known_qp &) noexcept;

    const posted_request &add_request(known_qp &, std::uint64_t number, posted_request);
    const posted_request &add_request(known_srq &, std::uint64_t number, posted_request);
    /// The program may use the memory of the request again.
    void return_memory(posted_request &) noexcept;
    /// nullptr: the queue does not have it any more.
    posted_request *find_request(const interposer::request &) noexcept;
    /// Nothing, if the queue does not have it any more.
    void remove_request(known_qp &, std::uint64_t number, bool is_receive) noexcept;
    void remove_request(known_srq &, std::uint64_t number) noexcept;

  private:
    template <class books_type, class function>
    static void visit_requests(books_type &books, function func) {
        for (auto &[handle, qp] : books.qps)
            for (auto *const requests : {&qp.sends, &qp.receives})
                for (auto &[number, request] : *requests)
                    if (func(qp, request))
                        return;
        for (auto &[handle, srq] : books.srqs)
            for (auto &[number, request] : srq.receives)
                if (func(srq, request))
                    return;
    }
    void index_keys(const known_mr &);
    void forget_keys(const known_mr &) noexcept;
    void drop_requests(known_srq &) noexcept;
    /// The device may use the memory of the request, until return_memory().
    void take_memory(posted_request &);
    void count_mrs(const posted_request &, int change) noexcept;
    void end_context(const ibv_context *) noexcept;
    void end_uses(const known_mr &) noexcept;
    void end_use(std::uint64_t number, posted_request &) noexcept;
    void stop_use(std::uint64_t number, posted_request &) noexcept;
    void drop_use(std::uint64_t number, posted_request &) noexcept;
    void end_queue(const known_object &queue) noexcept {
        if (watcher != nullptr)
            watcher->end_queue(queue);
    }
    void add_busy(known_mr &) noexcept;
    void remove_busy(const known_mr &) noexcept;
    /// Its MRs and its CQ have one request more, or less.
    void count(known_qp &, const posted_request &, int change) noexcept;
};

/// What all objects have; it is in no books.
known_object describe_object(const interposer::object &);
/// "RDMA Write, wr_id 0x7", "receive, wr_id 0x7"
std::string describe_request(const posted_request &);
const char *state_name(ibv_qp_state) noexcept;

} // namespace coherdma::check
