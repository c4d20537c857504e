// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A fake machine with RDMA: two devices, their network interfaces and the connection manager. Tests
// are linked with it instead of libibverbs and librdmacm. Its QPs can be connected with each other.
// Work requests move data if keys, bounds and access flags allow it, and complete at once, in the
// thread that posts. Tests can hold back events and make calls fail.
//
//     fake0     RoCE    port 1   roce0    192.0.2.1, 2001:db8::1
//     fake1     iWARP   port 1   iwarp0   192.0.2.2, 2001:db8::2
//               none             plain0   198.51.100.1
//
// A call that is an error of the caller ends the program with a message: an object is destroyed
// while it is in use, or twice; an id is destroyed while the same thread has an event of it that is
// not acknowledged.
#pragma once

#include "faults.hpp"
#include "objects.hpp"
#include "tsan_ordering.hpp"

#include <array>
#include <atomic>
#include <coherdma/coherdma.h>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <rdma/rdma_cma.h>
#include <set>
#include <string>
#include <unordered_map>

namespace fake {

struct fake_cm_id;
struct fake_cm_event;

struct fake_device {
    ibv_device ibdev = {};
    fake_context ctx = {}; ///< librdmacm's
    ibv_device_attr attr = {};
    ibv_port_attr port_attr = {};
    std::array<ibv_gid, 2> gids = {};
    std::uint32_t max_inline = 256;
    bool is_iwarp() const { return ibdev.transport_type == IBV_TRANSPORT_IWARP; }
};

/// A recorded work request.
struct posted_wr {
    ibv_qp *qp;
    ibv_srq *srq;
    bool is_recv;
    ibv_send_wr wr; ///< of a receive: wr_id and num_sge
    std::vector<ibv_sge> sge_list;
};

/// A call of coherdma_sync_before_read or _after_write.
struct recorded_sync {
    bool is_write;
    std::vector<coherdma_range> ranges;
};

/// A call of coherdma_sync_for_device or _for_cpu.
struct recorded_local_sync {
    bool for_cpu;
    std::uint32_t direction;
    std::vector<coherdma_range> ranges;
    bool checks_memory; ///< the device was opened so
};

struct interface_address {
    std::string interface;
    std::string address; ///< "": none
    int device;          ///< index in fabric::devices; -1: none
    unsigned flags;
};

struct fabric {
    fabric();
    fabric(const fabric &) = delete;
    fabric &operator=(const fabric &) = delete;

    // -- for tests

    /// Restores the initial settings; objects stay.
    void reset();
    /// The number of objects by type name, and of all types.
    std::map<std::string, int> count_objects();
    int num_all_objects();

    /// Addresses of interfaces, the last in the order of getifaddrs.
    void add_address(const char *interface, const char *address);
    void remove_address(const char *address);
    /// Posted work requests are queued, and executed by release_work_requests().
    void hold_work_requests();
    void release_work_requests();

    /// CM events of this type are not delivered until release_cm_events().
    void hold_cm_events(rdma_cm_event_type kind);
    void release_cm_events(rdma_cm_event_type kind);
    /// The ids of the code under test, the oldest first.
    std::vector<rdma_cm_id *> cm_ids();
    /// How many ids wait for an answer to rdma_connect.
    std::size_t num_unanswered_connects();
    /// Like siw's kernel: an iWARP id that waits for an answer, and its QP, cannot be destroyed
    /// until unblock_unanswered(); the calls block.
    void block_unanswered();
    void unblock_unanswered();
    /// rdma_connect of iWARP blocks, as siw's while TCP connects.
    void block_connects();
    void unblock_connects();
    int count_blocked_connects();
    int count_blocked_destroys(); ///< of unanswered ids
    /// Queues a CM event.
    void queue_cm_event(rdma_cm_id *cm_id, rdma_cm_event_type kind, int status = 0,
                        const std::vector<unsigned char> &data = {});
    /// Queues an asynchronous event of one of the device's objects, or of the device: for each
    /// context.
    void queue_async_event(unsigned device, ibv_event_type kind, void *element = nullptr);
    /// Adds a CQE, whatever was posted.
    void add_completion(ibv_cq *ibcq, const ibv_wc &wc);
    /// Moves a QP to the error state, as a hardware fault does.
    void fail_qp(ibv_qp *ibqp);
    ibv_qp *find_qp(std::uint32_t number);

    faults injected;
    std::vector<posted_wr> posts;
    std::vector<recorded_sync> syncs;
    std::vector<recorded_local_sync> local_syncs;
    std::deque<int> resolve_addr_results, resolve_route_results; ///< of the next calls; empty: 0
    std::deque<int> connect_results;       ///< of the next rdma_connect calls; empty: 0
    bool drop_connects = false;            ///< no peer answers rdma_connect
    bool destroy_qp_cleans_cq = false;     ///< ibv_destroy_qp removes the QP's completions
    bool allow_unmapped_memory = false;    ///< any address may be registered
    bool reuse_keys = false;               ///< the last freed key is allocated next
    std::function<void()> during_dereg_mr; ///< called by ibv_dereg_mr, which holds no lock then
    bool fail_query_srq = false;           ///< ibv_query_srq is not supported
    bool suppress_last_wqe = false;        ///< no IBV_EVENT_QP_LAST_WQE_REACHED
    bool waits_forever = false;            ///< in virtual time, two minutes may pass at once
    int polls_before_flush = 0;            ///< no QP in ERR is flushed until then
    std::uint8_t ack_timeout = 14;         ///< of the route; 4.096 us << 14 is 67 ms
    int disconnect_delay_ms = 0;           ///< duration of rdma_disconnect
    int num_failing_destroys = 0;          ///< so many of the next rdma_destroy_id fail
    int bind_delay_ms = 0;                 ///< duration of rdma_bind_addr
    std::atomic<int> num_binds = 0;        ///< that are in progress
    std::uint32_t sync_required = 0;       ///< returned by coherdma_query_device
    std::array<fake_device, 2> devices;
    std::vector<interface_address> addresses; ///< in the order of getifaddrs

    // -- for the fake libraries, with lock held

    void adjust_object_count(const char *kind, int delta) { object_counts_[kind] += delta; }

    fake_device &device_of(ibv_context *context) {
        return *static_cast<fake::fake_context *>(context)->dev;
    }
    fake_mr *find_mr(std::uint32_t key) const;
    void push_cqe(fake_cq &cq, const queued_cqe &cqe, bool solicited);
    void run_work_requests();
    void qp_to_err(fake_qp &qp);
    void push_async_event(ibv_context *context, ibv_event_type kind, void *element);
    /// Drops what is queued for an object that is destroyed.
    static void drop_async_events(ibv_context *context, const void *object);
    /// Waits for the condition; dies after two minutes, unless waits_forever.
    template <class condition_type>
    void wait(std::unique_lock<std::mutex> &guard, const char *description,
              condition_type &&condition);

    std::mutex lock;
    std::condition_variable changed;
    bool paused = false, running = false;
    bool unanswered_block = false, connects_block = false;
    int num_blocked_connects = 0, num_blocked_destroys = 0;
    std::set<ibv_qp *> qps;
    std::unordered_map<std::uint32_t, fake_qp *> qp_by_num;
    std::unordered_map<std::uint32_t, fake_mr *> mr_by_lkey, mr_by_rkey;
    std::unordered_map<std::uint32_t, fake_mw *> mw_by_key;
    std::vector<std::uint32_t> free_keys;
    std::uint32_t next_key = 0x10, next_qp_num = 0x11;
    std::uint16_t next_port = 40000;
    std::set<rdma_cm_event_type> held_types;
    std::deque<fake_cm_event *> held_events;
    std::deque<fake_cm_event *> queued_events;
    std::set<fake_context *> contexts; ///< of ibv_open_device
    std::vector<fake_cm_id *> all_cm_ids;
    std::set<rdma_event_channel *> channels;

  private:
    std::map<std::string, int> object_counts_;
};

fabric &get_fabric();
std::vector<interface_address> initial_addresses();

/// Aborts: a caller error that is undefined behavior with the real libraries.
[[noreturn, gnu::format(printf, 1, 2)]] void die(const char *format, ...);

/// Whether this thread is in a call of the fake libraries.
bool in_library_call();

/// Held during each call of the fake libraries, except in tsan_acquire and tsan_release.
class library_call_guard {
  public:
    library_call_guard();
    ~library_call_guard();
    library_call_guard(const library_call_guard &) = delete;
    library_call_guard &operator=(const library_call_guard &) = delete;

  private:
    tsan_ignore unseen_;

  public:
    std::unique_lock<std::mutex> lock;
};

/// The errno that the call must fail with, or 0.
inline int injected_error(const char *call) {
    return get_fabric().injected.error_for(call);
}

template <class condition_type>
void fabric::wait(std::unique_lock<std::mutex> &guard, const char *description,
                  condition_type &&condition) {
    if (waits_forever)
        changed.wait(guard, condition);
    else if (!changed.wait_for(guard, std::chrono::seconds(120), condition))
        die("%s: timeout", description);
}

/// For eventfds that are semaphores.
void increment_eventfd(int fd);
void decrement_eventfd(int fd);

} // namespace fake
