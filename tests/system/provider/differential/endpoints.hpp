// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// QPs that are connected to each other, and what a program sees of them.

#pragma once

#include "../../lib/modify_qp.hpp"
#include "../../lib/verbs.hpp"
#include "runner.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <rdma/rdma_cma.h>
#include <string>
#include <thread>
#include <vector>

namespace differential {

using namespace verbs_test;

/// Ends the wait for a completion that never comes, which some faults of the stock providers are.
constexpr std::chrono::milliseconds lost_limit{2000};
/// The same, of a request behind one that failed on siw.
constexpr std::chrono::milliseconds flush_limit{100};
/// Ends a hang.
constexpr std::chrono::milliseconds hang_limit{60'000};

/// Calls function until it returns true. Sleeps between later calls: the kernel needs the
/// processor.
template <class F>
bool wait_until(std::chrono::milliseconds limit, const F &function) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    for (unsigned calls = 0; !function(); ++calls) {
        constexpr unsigned busy_calls = 200;
        if (calls > busy_calls) {
            if (std::chrono::steady_clock::now() > deadline)
                return false;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }
    return true;
}

struct qp_options {
    static constexpr ibv_qp_cap default_cap{16, 16, 4, 4, 64};
    ibv_qp_type type = IBV_QPT_RC;
    ibv_qp_cap cap = default_cap;
    bool extended = false; ///< posts by ibv_wr_*, polls by ibv_start_poll()
    bool use_srq = false, use_td = false, sq_sig_all = false;
    ibv_comp_channel *channel = nullptr; ///< of both CQs
    int cqe = 64;
    unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
                      IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
    unsigned mr_access = access;
};

/// The context that librdmacm has of the device with the address.
ibv_context *open_cm_context(const std::string &address);

/// The options that the driver permits.
qp_options make_options(const environment &env);

struct cm_id_deleter {
    void operator()(rdma_cm_id *id) const noexcept;
};

/// A QP with a CQ for each direction, an MR, and on siw the CM id that owns the QP.
struct endpoint {
    static constexpr std::size_t data_size = 16384;
    static constexpr std::uint32_t qkey = loopback_qkey;
    struct td_deleter { // the verb itself is inline, so it is no template's argument
        void operator()(ibv_td *td) const noexcept { ibv_dealloc_td(td); }
    };
    struct mw_deleter {
        void operator()(ibv_mw *mw) const noexcept { ibv_dealloc_mw(mw); }
    };

    const environment &env;
    const qp_options options;
    alignas(4096) std::array<std::byte, data_size + 4096> memory{}; ///< the tail: of the marker
    unique_handle<ibv_pd, ibv_dealloc_pd> base_pd;
    std::unique_ptr<ibv_td, td_deleter> td;
    unique_handle<ibv_pd, ibv_dealloc_pd> pd;
    unique_handle<ibv_mr, ibv_dereg_mr> mr;
    unique_handle<ibv_cq, ibv_destroy_cq> send_cq, recv_cq;
    unique_handle<ibv_srq, ibv_destroy_srq> srq;
    unique_handle<ibv_ah, ibv_destroy_ah> ah;
    unique_handle<ibv_qp, ibv_destroy_qp> owned_qp;
    std::unique_ptr<rdma_cm_id, cm_id_deleter> id;
    std::unique_ptr<ibv_mw, mw_deleter> mw; ///< before the QP: rxe waits for it for 50 s
    ibv_qp *qp = nullptr;
    unsigned num_recvs = 0; ///< posted and not polled

    endpoint(const environment &environment, const qp_options &qp_options);
    endpoint(const endpoint &) = delete;
    endpoint &operator=(const endpoint &) = delete;

    ibv_qp_init_attr_ex make_init_attr() const;
    void create_qp();
    ibv_ah_attr make_ah_attr() const;

    int modify(ibv_qp_state state) const;
    void to_init() const;
    void to_rtr(const endpoint &peer) const;
    void to_rts() const;
    ibv_qp_state query_state() const;

    std::uintptr_t addr(std::size_t offset = 0) const;
    ibv_sge make_sge(std::uint32_t length, std::size_t offset = 0) const;
    /// Posts receives that are at the end of the data, each of the length.
    int post_recv(std::uint64_t wr_id, std::uint32_t length = 4096);
    int post_recv_list(ibv_recv_wr *list, ibv_recv_wr **bad_wr);
    void bind_mw();
    void fill(unsigned seed);
    std::uint64_t digest() const;

    /// One completion, or false.
    bool poll(ibv_cq *cq, ibv_wc &wc) const;
};

unique_handle<ibv_comp_channel, ibv_destroy_comp_channel> create_channel(const environment &env);

/// The fields of a completion that the verbs define: "ID:STATUS:OPCODE:...".
std::string to_string(const endpoint &ep, const ibv_wc &wc, bool is_recv);

/// Two connected endpoints. Each case begins with fresh data and empty queues.
class qp_pair {
    const environment &env_;
    qp_options options_;
    bool is_clean_ = false;

    void collect_sends(std::string &completions, bool &marker_failed, bool any_order);
    void collect_recvs(endpoint &ep, std::string &completions, bool wait_for_all);
    void wait_for_datagram(std::string &completions);
    void make_endpoints();
    bool connect_by_cm();

  public:
    static constexpr std::uint64_t marker_id = 0xffff;

    std::unique_ptr<endpoint> a, b; ///< a requests, b responds

    qp_pair(const environment &env, const qp_options &options)
        : env_(env)
        , options_(options) {}
    qp_pair(const qp_pair &) = delete;
    qp_pair &operator=(const qp_pair &) = delete;

    /// Connects new QPs unless those of the case before are as new.
    void prepare(unsigned seed);
    void connect();
    void set_dirty() { is_clean_ = false; }
    /// A request of a that completes after those before it have completed on both sides.
    bool post_marker();
    /// Waits until what was posted has completed, and records all completions, states and data.
    /// any_order: the order of the requester's completions does not matter.
    void finish(record &record, bool any_order = false);
};

} // namespace differential
