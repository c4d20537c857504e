// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A fake device, with the functions of libibverbs and librdmacm that librpma calls, and those of
// libcoherdma that sync memory.
#pragma once

#include "../../cmocka.hpp"
#include "objects.hpp"

#include <cerrno>
#include <cstdint>
#include <infiniband/verbs.h>
#include <librpma.h>
#include <rdma/rdma_cma.h>
#include <string>
#include <vector>

namespace fake {

// enum ib_uverbs_device_cap_flags of the kernel.
constexpr std::uint64_t FLUSH_GLOBAL = std::uint64_t{1} << 38;
constexpr std::uint64_t FLUSH_PERSISTENT = std::uint64_t{1} << 39;
constexpr std::uint64_t ATOMIC_WRITE = std::uint64_t{1} << 40;

constexpr std::uint32_t LKEY = 0x51, RKEY = 0x52; ///< of all MRs
constexpr std::uint32_t QP_NUM = 0x53;

/// What a test sets; reset() sets the values below.
struct device_settings {
    ibv_transport_type transport_type = IBV_TRANSPORT_IB;
    std::uint64_t cap_flags_ex = 0;
    std::uint64_t odp_caps = 0; ///< general
    std::uint32_t rc_odp_caps = 0;
    bool pins_memory = true;           ///< false: registers only with on-demand paging
    bool has_send_ops = true;          ///< false: refuses QPs with native operations
    std::uint32_t max_inline_data = 8; ///< of all QPs
    ibv_atomic_cap atomic_cap = IBV_ATOMIC_HCA;
    bool has_device = true; ///< false: no address belongs to it
    bool needs_sync = false;
    int addrinfo_error = 0;      ///< EAI_* of rdma_getaddrinfo(), which sets no errno
    bool keeps_pd = false;       ///< as in use: ibv_dealloc_pd() fails with EBUSY
    int no_event_error = EAGAIN; ///< of a channel without an event
};
extern device_settings settings;

ibv_context *context();

/// Arguments of the last calls of this thread.
struct arguments {
    std::vector<unsigned> access; ///< of each ibv_reg_mr() since reset() or clear()
    std::vector<int> cqe;         ///< of each ibv_create_cq() since then
    ibv_srq_init_attr srq = {};
    std::vector<ibv_qp_init_attr_ex> qp; ///< of each rdma_create_qp_ex() since then
    rdma_conn_param conn_param = {};     ///< without private data
    std::string private_data;
    int timeout_ms = 0; ///< of rdma_resolve_addr() or rdma_resolve_route(): must be equal
    int backlog = -1;
    rdma_addrinfo hints = {};
    std::string node, service; ///< "NULL": a null pointer
    ibv_sge advised = {};
    int advice = 0;
    std::uint32_t advice_flags = 0;
    std::uint64_t wr_id = 0; ///< of a request that was posted
};
extern thread_local arguments last;

/// The requests posted since the last call, each as text, separated by " | ".
std::string take_posts();
/// The wr_id of each request posted since the last call.
std::vector<std::uint64_t> take_wr_ids();
/// Fails ibv_post_send(), ibv_post_recv(), ibv_post_srq_recv() and wr_complete().
constexpr const char *POST = "post";

/// All syncs since the last call, as text.
std::string take_syncs();

/// Appends an event to the queue of the id's channel. id: nullptr: the listening id.
void post_event(rdma_cm_event_type type, const std::string &private_data = "",
                rdma_cm_id *id = nullptr);
/// Of this thread: the id that was created last, and the CQs that live, in the order of creation.
rdma_cm_id *last_id();
std::vector<ibv_cq *> cqs();
/// Appends an event of the CQ to the queue of its channel.
void post_cq_event(ibv_cq *cq);
/// What ibv_poll_cq() returns from now on; of 1 and more: with completions of wr_id 1 and so on.
void set_poll_result(int result);

/// The next ibv_poll_cq() of this thread returns these, and those after it none.
void set_completions(const std::vector<ibv_wc> &completions);
/// Deallocates the PD that was kept.
void free_kept_pd();

/// Setup of a test.
int reset(void **);
/// Teardown: nothing lives, and the order of destruction was right.
int check(void **);

#define TEST(function) cmocka_unit_test_setup_teardown(function, fake::reset, fake::check)

inline rpma_peer *create_peer() {
    rpma_peer *peer = nullptr;
    assert_int_equal(rpma_peer_new(context(), &peer), 0);
    return peer;
}

} // namespace fake
