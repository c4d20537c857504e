// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A machine with RDMA, played: two devices, their network interfaces, and librdmacm's manager of
// connections. Programs are linked with it instead of libibverbs and librdmacm. Its queue pairs can
// be connected with each other; requests move memory, if keys, bounds and privileges allow it, and
// complete at once, in the thread that posts. Tests say what it is to withhold and what goes wrong.
//
//     played0   RoCE    port 1   roce0    192.0.2.1, 2001:db8::1
//     played1   iWARP   port 1   iwarp0   192.0.2.2
//               none             plain0   198.51.100.1
//
// A verb that would break something on real hardware ends the program with a word: an object that
// is destroyed while it is in use, or twice; an id that is destroyed by who has yet to acknowledge
// its event.
#pragma once

#include "faults.hpp"
#include "objects.hpp"
#include "quiet.hpp"

#include <array>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <rdma/rdma_cma.h>
#include <set>
#include <string>
#include <unordered_map>

namespace played {

struct id;
struct happening;

struct hardware {
    ibv_device handle = {};
    context open = {};
    ibv_device_attr limits = {};
    ibv_port_attr port = {};
    std::array<ibv_gid, 2> gids = {};
    std::deque<ibv_async_event> news;
    std::uint32_t max_inline = 256;
    bool is_iwarp() const { return handle.transport_type == IBV_TRANSPORT_IWARP; }
};

/// A request or receive as it was posted.
struct posted {
    ibv_qp *pair;
    ibv_srq *queue;
    bool received;
    ibv_send_wr wr; ///< of a receive: wr_id and num_sge
    std::vector<ibv_sge> list;
};

/// Of coherdma_sync_...
struct synced {
    bool write;
    std::vector<ibv_sge> list;
};

struct fabric {
    fabric();
    ~fabric();
    fabric(const fabric &) = delete;
    fabric &operator=(const fabric &) = delete;

    // -- for tests, which are not in the middle of anything

    /// As at the beginning; what lives is not forgotten.
    void reset();
    /// How many objects live, by the names of verbs; all: those of every kind.
    std::map<std::string, int> living();
    int all_living();

    /// Requests are taken, but nothing is moved until deliver().
    void pause();
    void deliver();

    /// Events of this kind are withheld until let().
    void hold(rdma_cm_event_type kind);
    void let(rdma_cm_event_type kind);
    /// The ids that programs have, the oldest first.
    std::vector<rdma_cm_id *> ids();
    /// An event as the kernel would tell it.
    void tell(rdma_cm_id *about, rdma_cm_event_type kind, int status = 0,
              const std::vector<unsigned char> &data = {});
    /// The device tells of itself, or of one of its objects.
    void report(unsigned device, ibv_event_type kind, void *element = nullptr);
    /// The queue tells of a completion, whatever was posted.
    void complete(ibv_cq *by, const ibv_wc &what);
    /// The pair fails, as by a fault of the hardware.
    void fail(ibv_qp *pair);
    ibv_qp *pair(std::uint32_t number);

    faults wrong;
    std::vector<posted> heard;
    std::vector<synced> syncs;
    std::deque<int> addresses, routes; ///< statuses of the next resolutions; none: 0
    std::deque<int> connects;          ///< what the next rdma_connect returns at once; none: 0
    bool silent = false;               ///< who is asked to connect does not answer
    bool purges = false;               ///< a pair's completions go with it
    bool reuses_keys = false;          ///< the last key that was freed is the next
    bool vague = false;                ///< SRQs do not say how large they are
    bool keeps_last = false;           ///< pairs do not tell of their last receive of an SRQ
    int late = 0;                      ///< milliseconds that rdma_disconnect takes
    std::uint32_t coherency = 0;       ///< what coherdma_query_device says of sync_required
    std::array<hardware, 2> devices;

    // -- for the calls, which are: all of this needs guard

    void living(const char *kind, int more) { lives_[kind] += more; }

    hardware &of(ibv_context *context) { return *static_cast<played::context *>(context)->of; }
    mr *local(std::uint32_t key) const;
    void push(cq &on, const completion &one, bool solicited);
    void work();
    void to_error(qp &one);
    void report(hardware &from, ibv_event_type kind, void *element);
    /// Waits until condition; not for ever.
    template <class what>
    void wait(std::unique_lock<std::mutex> &held, const char *for_what, what &&condition);

    std::mutex guard;
    std::condition_variable changed;
    bool paused = false, working = false;
    std::set<ibv_qp *> pairs;
    std::unordered_map<std::uint32_t, qp *> by_number;
    std::unordered_map<std::uint32_t, mr *> by_lkey, by_rkey;
    std::unordered_map<std::uint32_t, mw *> windows;
    std::vector<std::uint32_t> free_keys;
    std::uint32_t next_key = 0x10, next_number = 0x11;
    std::uint16_t next_port = 40000;
    std::set<rdma_cm_event_type> held_kinds;
    std::deque<happening *> withheld;
    std::deque<happening *> queued;
    std::vector<id *> known;
    std::set<rdma_event_channel *> channels;

  private:
    std::map<std::string, int> lives_;
};

fabric &net();

/// What a program could not have done, had this been hardware.
[[noreturn, gnu::format(printf, 1, 2)]] void die(const char *what, ...);

/// Whether this thread is in a call of the played libraries.
bool inside();

/// Each call of the played libraries begins with one, but for what it knows of orders.
class entered {
  public:
    entered();
    ~entered();
    entered(const entered &) = delete;
    entered &operator=(const entered &) = delete;

  private:
    quiet unseen_;

  public:
    std::unique_lock<std::mutex> held;
};

/// 0, or what the call has to fail with.
inline int fault(const char *call) {
    return net().wrong.now(call);
}

template <class what>
void fabric::wait(std::unique_lock<std::mutex> &held, const char *for_what, what &&condition) {
    if (!changed.wait_for(held, std::chrono::seconds(20), condition))
        die("%s for ever", for_what);
}

/// Adds to a descriptor that counts, or takes from it.
void tick(int fd);
void untick(int fd);

} // namespace played
