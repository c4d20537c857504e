// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A provider for the devices of rdma_rxe that does everything in memory: it has no object of the
// kernel but the open device. It is as unlike rdma-core's rxe and siw as a provider may be; each
// peculiarity names a provider that has it.
#pragma once

#include "abi/abi.hpp"
#include "object_pool.hpp"
#include "queue.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

namespace fake {

namespace abi = coherdma::abi;

/// Nothing is inline, as in mana. A WR has one SGE, as an RDMA READ of efa.
inline constexpr std::uint32_t MAX_INLINE_DATA = 0, MAX_SGE = 1;

/// libibverbs' part of an object is not its beginning, as in mlx5, whose QPs begin with an
/// mlx5_resource: it is aligned to 8 bytes only.
template <class verbs_type>
struct verbs_object {
    std::uint64_t serial;
    verbs_type verbs;
};

/// The provider's object that has this part.
template <class object, class part>
object &to_object(part *verbs) noexcept {
    using base = verbs_object<decltype(object::verbs)>;
    static_assert(offsetof(base, verbs) == sizeof(std::uint64_t));
    return static_cast<object &>(
        *reinterpret_cast<base *>(reinterpret_cast<std::byte *>(verbs) - sizeof(std::uint64_t)));
}

struct fake_context {
    ibv_context verbs;
    bool has_no_bad_wr;    ///< FAKE_NO_BAD_WR is set
    bool binds_internally; ///< FAKE_INTERNAL_BIND is set
};

struct fake_pd : verbs_object<ibv_pd> {
    unsigned num_users;
};
struct fake_mr : verbs_object<abi::verbs_mr> {};
struct fake_mw : verbs_object<ibv_mw> {};
struct fake_ah : verbs_object<ibv_ah> {
    ibv_ah_attr attr;
};

/// A completion. A receive's data are in it until it is polled, as those of a short message in the
/// CQEs of mlx5.
struct fake_cqe {
    ibv_wc wc = {};
    std::uint64_t queue_id = 0; ///< completions of one queue are polled in order
    std::uint64_t slot_queue_id = 0, slot_number = 0;
    std::vector<std::byte> data;
    std::byte *dest = nullptr;
};

struct fake_cq : verbs_object<abi::verbs_cq> {
    std::deque<fake_cqe> cqes;
    ibv_wc cur_wc; ///< between start_poll and end_poll
    bool is_single_threaded;
    unsigned num_users;
};

struct fake_srq : verbs_object<abi::verbs_srq> {
    receive_queue receives;
    unsigned num_users;
};

struct fake_qp : verbs_object<abi::verbs_qp> {
    ibv_qp_state state;
    ibv_qp_cap cap;
    bool is_sig_all;
    std::uint32_t dest_qp_num;
    send_queue sends;
    receive_queue receives;
    std::vector<send_request> batch; ///< between wr_start and wr_complete
    int wr_err;
};

/// Protects all objects. A thread may hold it from start_poll to end_poll, and from wr_start to
/// wr_complete.
inline std::recursive_mutex lock;

inline fake_context &to_fake_context(ibv_context *context) noexcept {
    return *reinterpret_cast<fake_context *>(context);
}
inline fake_qp &to_fake_qp(ibv_qp *qp) noexcept {
    return to_object<fake_qp>(qp);
}
inline fake_cq &to_fake_cq(ibv_cq *cq) noexcept {
    return to_object<fake_cq>(cq);
}

/// Sets errno and returns nullptr.
inline std::nullptr_t fail_with(int error) noexcept {
    errno = error;
    return nullptr;
}

/// A handle that no other object has, far from the small numbers of the kernel's.
std::uint32_t next_handle() noexcept;

/// Calls what the program exports, if it wants to act at that moment, as another of its threads
/// may: the driver has freed an object or refused to, and its function has not returned.
using event_function = void(const char *event);
inline constexpr const char *EVENT_FUNCTION_NAME = "fake_event";
void report_event(const char *event);

// memory.cpp: nullptr: the key does not allow that.
std::byte *find_local(std::uint32_t lkey, std::uint64_t addr, std::uint64_t length,
                      unsigned access);
std::byte *find_remote(std::uint32_t rkey, std::uint64_t addr, std::uint64_t length,
                       unsigned access);
ibv_wc_status bind(ibv_mw &, std::uint32_t rkey, const ibv_mw_bind_info &);
ibv_wc_status invalidate(std::uint32_t rkey);

// cq.cpp
void add_cqe(ibv_cq *, fake_cqe);
/// The queue's QP is reset or destroyed: its completions stay, but no data move when they are
/// polled.
void deliver_data(ibv_cq *, std::uint64_t queue_id);
/// Polls one completion. False: there is none.
bool take_wc(fake_cq &, ibv_wc &);
ibv_cq_ex *create_cq_ex(ibv_context *, ibv_cq_init_attr_ex *) noexcept;
void set_poll_functions(fake_cq &, std::uint64_t wc_flags);

// qp.cpp, nullptr: there is no such QP.
fake_qp *find_qp(std::uint32_t qp_num);
/// Executes the requests of all QPs as far as that is possible.
void execute_all();

// execute.cpp
/// Executes requests of the QP. False: none could be.
bool execute(fake_qp &);
/// The QP is in the error state: all its requests are flushed.
void flush(fake_qp &);

// post.cpp
/// 0, or an errno: the QP cannot take the WR, after so many others that it has not got yet.
int check_send(const fake_qp &, const ibv_send_wr &, std::size_t num_unposted);

// wr_api.cpp
void set_wr_functions(fake_qp &, std::uint64_t send_ops_flags);

void set_memory_ops(abi::verbs_context_ops &);
void set_cq_ops(abi::verbs_context_ops &);
void set_qp_ops(abi::verbs_context_ops &);
void set_srq_ops(abi::verbs_context_ops &);
void set_post_ops(abi::verbs_context_ops &);

} // namespace fake
