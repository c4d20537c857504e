// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Atomic writes of eight bytes to a peer's memory, and flushes: the completion of a flush means
// that earlier writes are in the peer's memory.
//
// Few devices support IBV_WR_ATOMIC_WRITE and IBV_WR_FLUSH. Otherwise:
//
// - Atomic write: an inline RDMA Write of eight aligned bytes, fenced after earlier RDMA Reads like
//   the native operation. Hardware writes them at once, though no standard requires it. rxe and siw
//   use the kernel's memcpy(), which on x86 may copy byte by byte (rep movsb).
// - Atomic write that is never torn: a compare and swap, which stores eight bytes at once.
// - Flush: an RDMA Read. The peer's device responds only when earlier RDMA Writes are in its
//   memory.

#include "copy_struct.hpp"

#include <coherdma/coherdma.h>
#include <coherdma/experimental.h>
#include <cstdint>
#include <infiniband/verbs.h>
#include <iterator>
#include <new>

using coherdma::api::copy_out;
using coherdma::api::fail;

struct coherdma_qp {
    ibv_qp *ibqp;
    ibv_qp_ex *ibqp_ex; ///< for native operations; may be NULL
    std::uint32_t atomic_write_method;
    std::uint32_t never_torn_method;
    std::uint32_t flush_method;
};

namespace {

constexpr std::uint32_t WORD_SIZE = 8; // of an atomic write, in bytes

/// Sets result to the QP with native operations, or to nullptr if the device has none. An errno:
/// the device could not be asked. ibv_qp_to_qp_ex() must not be called for others: a driver without
/// ibv_wr_* (rdma-core's siw) has smaller QPs, and it reads behind them.
int find_qp_ex(ibv_qp *ibqp, ibv_qp_ex *&result) noexcept {
    constexpr std::uint64_t FLUSH_GLOBAL = std::uint64_t{1} << 38,
                            FLUSH_PERSISTENT = std::uint64_t{1} << 39,
                            ATOMIC_WRITE = std::uint64_t{1} << 40; // older headers lack them
    ibv_device_attr_ex attr = {};
    if (const int error = ibv_query_device_ex(ibqp->context, nullptr, &attr))
        return error;
    const bool has_native_operations =
        (attr.device_cap_flags_ex & (FLUSH_GLOBAL | FLUSH_PERSISTENT | ATOMIC_WRITE)) != 0;
    result = has_native_operations ? ibv_qp_to_qp_ex(ibqp) : nullptr;
    return 0;
}

bool has_wr_atomic_write(const ibv_qp_ex *qp) noexcept {
    return qp != nullptr && qp->wr_atomic_write != nullptr;
}

// Since rdma-core 45.
#ifdef COHERDMA_HAS_FLUSH
bool has_wr_flush(const ibv_qp_ex *qp) noexcept {
    return qp != nullptr && qp->wr_flush != nullptr;
}
/// Adds a request between ibv_wr_start() and ibv_wr_complete().
void add_flush(ibv_qp_ex &qp, std::uint32_t rkey, std::uint64_t remote_addr, std::uint64_t length,
               bool is_persistent) noexcept {
    ibv_wr_flush(&qp, rkey, remote_addr, length,
                 is_persistent ? IBV_FLUSH_PERSISTENT : IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
}
#else
bool has_wr_flush(const ibv_qp_ex *) noexcept {
    return false;
}
void add_flush(ibv_qp_ex &, std::uint32_t, std::uint64_t, std::uint64_t, bool) noexcept {}
#endif

bool has_atomics(ibv_context *context) noexcept {
    ibv_device_attr attr = {};
    return ibv_query_device(context, &attr) == 0 && attr.atomic_cap != IBV_ATOMIC_NONE;
}

bool can_inline_word(ibv_qp &qp) noexcept {
    ibv_qp_attr attr = {};
    ibv_qp_init_attr init_attr = {};
    return ibv_query_qp(&qp, &attr, IBV_QP_CAP, &init_attr) == 0 &&
           std::max(attr.cap.max_inline_data, init_attr.cap.max_inline_data) >= WORD_SIZE;
}

void determine_atomic_write_methods(coherdma_qp &qp) noexcept {
    qp.never_torn_method = has_wr_atomic_write(qp.ibqp_ex) ? COHERDMA_METHOD_NATIVE
                           : has_atomics(qp.ibqp->context) ? COHERDMA_METHOD_CMP_AND_SWP
                                                           : COHERDMA_METHOD_NONE;
    qp.atomic_write_method =
        qp.never_torn_method != COHERDMA_METHOD_NATIVE && can_inline_word(*qp.ibqp)
            ? std::uint32_t{COHERDMA_METHOD_INLINE_WRITE}
            : qp.never_torn_method;
}

/// 0, or an errno value with coherdma_error() set.
int check_post(const coherdma_qp *qp, std::uint32_t flags) noexcept {
    if (qp == nullptr)
        return fail(EINVAL, "qp is NULL");
    if (flags != COHERDMA_POST_COMPLETION_ON_ERROR && flags != COHERDMA_POST_COMPLETION_ALWAYS)
        return fail(EINVAL,
                    "flags are 0x%x, not COHERDMA_POST_COMPLETION_ON_ERROR or "
                    "COHERDMA_POST_COMPLETION_ALWAYS",
                    flags);
    return 0;
}

/// From enum coherdma_post_flags to ibv_send_flags.
unsigned to_send_flags(std::uint32_t flags) noexcept {
    return flags == COHERDMA_POST_COMPLETION_ALWAYS ? unsigned{IBV_SEND_SIGNALED} : 0;
}

/// operation: "an atomic write", for the message.
[[gnu::cold, gnu::noinline]] int fail_post(int error, const char *operation) noexcept {
    return fail(error, "cannot post %s: %s", operation, strerrordesc_np(error));
}

// Inline: rpma.insn_count counts the instructions of a flush.
[[gnu::always_inline]] inline int post(const coherdma_qp &qp, ibv_send_wr &wr,
                                       const char *operation) noexcept {
    ibv_send_wr *bad_wr = nullptr;
    const int error = ibv_post_send(qp.ibqp, &wr, &bad_wr);
    return error == 0 ? 0 : fail_post(error, operation);
}

/// Posts one request through ibv_qp_ex. add_wr: calls its ibv_wr_* function.
template <class function>
int post_native(ibv_qp_ex &ibqp_ex, std::uint64_t wr_id, unsigned send_flags, const char *operation,
                const function &add_wr) noexcept {
    ibv_wr_start(&ibqp_ex);
    ibqp_ex.wr_id = wr_id;
    ibqp_ex.wr_flags = send_flags;
    add_wr(ibqp_ex);
    const int error = ibv_wr_complete(&ibqp_ex);
    return error == 0 ? 0 : fail_post(error, operation);
}

int post_inline_write(const coherdma_qp &qp, std::uint64_t wr_id, unsigned send_flags,
                      std::uint32_t rkey, std::uint64_t remote_addr, const void *value) noexcept {
    ibv_sge sge = {reinterpret_cast<std::uintptr_t>(value), WORD_SIZE, 0};
    ibv_send_wr wr = {};
    wr.wr_id = wr_id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = send_flags | IBV_SEND_INLINE | IBV_SEND_FENCE;
    wr.wr.rdma.remote_addr = remote_addr;
    wr.wr.rdma.rkey = rkey;
    return post(qp, wr, "an inline RDMA Write");
}

/// compare: holds the expected value, and receives the old one.
// Not fenced: rxe of kernel 6.1 stops the SQ at some fenced atomics forever.
int post_compare_and_swap(const coherdma_qp &qp, std::uint64_t wr_id, unsigned send_flags,
                          std::uint32_t rkey, std::uint64_t remote_addr, const void *value,
                          const ibv_sge *compare) noexcept {
    if (compare == nullptr || compare->addr == 0 || compare->length != WORD_SIZE)
        return fail(EINVAL, "this QP uses compare and swap, so `compare` must be eight bytes of "
                            "registered memory with the expected value");
    ibv_sge sge = *compare;
    ibv_send_wr wr = {};
    wr.wr_id = wr_id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    wr.send_flags = send_flags;
    wr.wr.atomic.remote_addr = remote_addr;
    wr.wr.atomic.rkey = rkey;
    std::memcpy(&wr.wr.atomic.compare_add, reinterpret_cast<const void *>(compare->addr),
                WORD_SIZE);
    std::memcpy(&wr.wr.atomic.swap, value, WORD_SIZE);
    return post(qp, wr, "a compare and swap");
}

[[gnu::noinline]] int post_native_flush(const coherdma_qp &qp, std::uint64_t wr_id,
                                        std::uint32_t flags, std::uint32_t rkey,
                                        std::uint64_t remote_addr, std::uint64_t length,
                                        bool is_persistent) noexcept {
    return post_native(
        *qp.ibqp_ex, wr_id, to_send_flags(flags), "a flush",
        [&](ibv_qp_ex &ibqp_ex) { add_flush(ibqp_ex, rkey, remote_addr, length, is_persistent); });
}

} // namespace

const char *coherdma_method_str(uint32_t method) {
    static constexpr const char *names[] = {"none", "native", "inline write", "compare and swap",
                                            "read back"};
    return method < std::size(names) ? names[method] : "unknown";
}

/// Determines how atomic writes and flushes are executed on the QP.
coherdma_qp *coherdma_open_qp(ibv_qp *ibqp) {
    if (ibqp == nullptr || ibqp->qp_type != IBV_QPT_RC) {
        errno = fail(EINVAL, "qp is NULL or not of type RC");
        return nullptr;
    }
    auto *const qp = new (std::nothrow) coherdma_qp{};
    if (qp == nullptr) {
        errno = fail(ENOMEM, "out of memory");
        return nullptr;
    }
    qp->ibqp = ibqp;
    if (const int error = find_qp_ex(ibqp, qp->ibqp_ex)) {
        delete qp;
        errno = fail(error, "cannot query the device: %s", strerrordesc_np(error));
        return nullptr;
    }
    determine_atomic_write_methods(*qp);
    qp->flush_method =
        has_wr_flush(qp->ibqp_ex) ? COHERDMA_METHOD_NATIVE : COHERDMA_METHOD_RDMA_READ;
    return qp;
}

void coherdma_close_qp(coherdma_qp *qp) {
    delete qp;
}

int coherdma_query_qp(const coherdma_qp *qp, coherdma_qp_attr *attr, size_t size) {
    if (qp == nullptr)
        return fail(EINVAL, "qp is NULL");
    const coherdma_qp_attr result = {qp->atomic_write_method, qp->flush_method,
                                     qp->never_torn_method};
    return copy_out(result, attr, size);
}

int coherdma_post_atomic_write(const coherdma_qp *qp, uint64_t wr_id, uint32_t flags, uint32_t rkey,
                               uint64_t remote_addr, const void *value, const ibv_sge *compare) {
    const bool is_never_torn = (flags & COHERDMA_POST_NEVER_TORN) != 0;
    flags &= ~std::uint32_t{COHERDMA_POST_NEVER_TORN};
    if (const int error = check_post(qp, flags))
        return error;
    if (value == nullptr)
        return fail(EINVAL, "value is NULL");
    if (remote_addr % WORD_SIZE != 0)
        return fail(EINVAL, "remote_addr 0x%llx is not a multiple of 8",
                    static_cast<unsigned long long>(remote_addr));
    const unsigned send_flags = to_send_flags(flags);
    switch (is_never_torn ? qp->never_torn_method : qp->atomic_write_method) {
    case COHERDMA_METHOD_NATIVE:
        return post_native(
            *qp->ibqp_ex, wr_id, send_flags, "an atomic write",
            [&](ibv_qp_ex &ibqp_ex) { ibv_wr_atomic_write(&ibqp_ex, rkey, remote_addr, value); });
    case COHERDMA_METHOD_INLINE_WRITE:
        return post_inline_write(*qp, wr_id, send_flags, rkey, remote_addr, value);
    case COHERDMA_METHOD_CMP_AND_SWP:
        return post_compare_and_swap(*qp, wr_id, send_flags, rkey, remote_addr, value, compare);
    default:
        return fail(EOPNOTSUPP, is_never_torn
                                    ? "this QP supports neither atomic writes nor atomics, so that "
                                      "a write can be torn"
                                    : "this QP supports neither atomic writes, nor eight bytes of "
                                      "inline data, nor atomics");
    }
}

int coherdma_post_flush(const coherdma_qp *qp, uint64_t wr_id, uint32_t flags, uint32_t rkey,
                        uint64_t remote_addr, uint64_t length, const ibv_sge *scratch) {
    const bool is_persistent = (flags & COHERDMA_POST_PERSISTENT) != 0;
    flags &= ~std::uint32_t{COHERDMA_POST_PERSISTENT};
    if (const int error = check_post(qp, flags))
        return error;
    if (length == 0 || remote_addr + (length - 1) < remote_addr)
        return fail(EINVAL, "the remote range is empty, or exceeds the address space");
    if (qp->flush_method == COHERDMA_METHOD_NATIVE)
        return post_native_flush(*qp, wr_id, flags, rkey, remote_addr, length, is_persistent);
    if (scratch == nullptr || scratch->addr == 0 || scratch->length == 0)
        return fail(EINVAL, "scratch must be at least one byte of registered memory");
    // Reads the last bytes of the range, and none outside it.
    const auto num_bytes = static_cast<std::uint32_t>(
        std::min(length, std::uint64_t{std::min(scratch->length, WORD_SIZE)}));
    ibv_sge sge = {.addr = scratch->addr, .length = num_bytes, .lkey = scratch->lkey};
    // The members that an RDMA Read has: to set all others to zero takes as many instructions as
    // the rest of this function.
    ibv_send_wr wr;
    wr.wr_id = wr_id;
    wr.next = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_READ;
    wr.send_flags = to_send_flags(flags);
    wr.imm_data = 0;
    wr.wr.rdma.remote_addr = remote_addr + (length - num_bytes);
    wr.wr.rdma.rkey = rkey;
    return post(*qp, wr, "an RDMA Read");
}
