// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// RDMA Reads and Writes, atomic writes, flushes and messages.

#include "conn.hpp"
#include "device.hpp"
#include "post.hpp"

#include <arpa/inet.h>

using namespace coherdma::rpma;

namespace {

/// An RDMA Read or Write has both sides, or neither side and then no bytes.
bool has_valid_sides(const rpma_mr_remote *remote, std::size_t remote_offset,
                     const rpma_mr_local *local, std::size_t local_offset,
                     std::size_t length) noexcept {
    return remote != nullptr
               ? local != nullptr
               : local == nullptr && remote_offset == 0 && local_offset == 0 && length == 0;
}
/// A message has memory, or neither memory nor bytes.
bool has_valid_memory(const rpma_mr_local *local, std::size_t offset, std::size_t length) noexcept {
    return local != nullptr || (offset == 0 && length == 0);
}

bool wants_completion(int flags) noexcept {
    return (flags & (RPMA_F_COMPLETION_ALWAYS & ~RPMA_F_COMPLETION_ON_ERROR)) != 0;
}
unsigned to_send_flags(int flags) noexcept {
    return wants_completion(flags) ? unsigned{IBV_SEND_SIGNALED} : 0;
}
std::uint32_t to_post_flags(int flags) noexcept {
    return wants_completion(flags) ? std::uint32_t{COHERDMA_POST_COMPLETION_ALWAYS}
                                   : std::uint32_t{COHERDMA_POST_COMPLETION_ON_ERROR};
}

const char *to_text(ibv_wr_opcode opcode) noexcept {
    switch (opcode) {
    case IBV_WR_RDMA_READ:
        return "an RDMA Read";
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return "an RDMA Write";
    default:
        return "a Send";
    }
}

/// Before an operation that the peer may notice.
void sync_before_peer(const rpma_conn &conn) noexcept {
    if (conn.objects.requests != nullptr) [[unlikely]]
        conn.objects.requests->sync().sync_before_peer();
}

/// An operation of the program, but for its memory.
struct operation {
    ibv_wr_opcode opcode;
    int flags; ///< RPMA_F_*
    std::uint32_t imm = 0;
    const void *op_context;
};

/// Logs why a post has failed, and returns the RPMA_E_* value.
[[gnu::cold, gnu::noinline]] int fail_post(ibv_wr_opcode opcode, std::size_t length,
                                           int error) noexcept {
    RPMA_LOG_ERRNO(error, "cannot post %s of %zu bytes", to_text(opcode), length);
    return RPMA_E_PROVIDER;
}

/// 0, or an RPMA_E_* value. remote: of an RDMA Read or Write, or nullptr.
// Inline: each operation is a constant, and rpma.insn_count counts the instructions.
[[gnu::always_inline]] inline int post(const rpma_conn &conn, const operation &op,
                                       const rpma_mr_local *local_mr, std::size_t local_offset,
                                       std::size_t length, const rpma_mr_remote *remote = nullptr,
                                       std::size_t remote_offset = 0) noexcept {
    segment local;
    if (const int ret = to_segment(local_mr, local_offset, length, local))
        return ret;
    // The members that these operations have, and no others: rpma.insn_count.
    ibv_send_wr wr;
    wr.next = nullptr;
    wr.sg_list = local.num_sge != 0 ? &local.sge : nullptr;
    wr.num_sge = local.num_sge;
    wr.opcode = op.opcode;
    wr.send_flags = to_send_flags(op.flags);
    wr.imm_data = htonl(op.imm);
    wr.wr.rdma.remote_addr = remote != nullptr ? remote->addr + remote_offset : 0;
    wr.wr.rdma.rkey = remote != nullptr ? remote->rkey : 0;
    const bool is_read = op.opcode == IBV_WR_RDMA_READ;
    if (!is_read) {
        sync_before_peer(conn);
    } else if (local_mr == nullptr && is_iwarp(*conn.objects.id->verbs)) {
        // The kernel's siw reads to the first segment, whatever num_sge is, and rdma-core's
        // provider leaves there what an earlier request had.
        wr.sg_list = &local.sge;
        wr.num_sge = 1;
    }
    const int error =
        post_synced(conn.objects.requests.get(), op.op_context, local.sge,
                    is_read ? access::writes : access::reads, [&](std::uint64_t wr_id) {
                        wr.wr_id = wr_id;
                        ibv_send_wr *bad_wr = nullptr;
                        return ibv_post_send(conn.objects.id->qp, &wr, &bad_wr);
                    });
    return error == 0 ? 0 : fail_post(op.opcode, length, error);
}

/// Posts an operation by a function of libcoherdma. sink: memory that the device writes, if any.
/// name: of the operation. 0, or an RPMA_E_* value.
template <class function>
int post_remote(const rpma_conn &conn, const char *name, const void *op_context,
                const ibv_sge &sink, const function &post_wr) noexcept {
    const int error =
        post_synced(conn.objects.requests.get(), op_context, sink, access::writes, post_wr);
    if (error != 0) {
        RPMA_LOG_ERRNO(error, "cannot post %s", name);
        return RPMA_E_PROVIDER;
    }
    return 0;
}

/// 0, or RPMA_E_NOSUPP: neither the connection nor the memory supports flushes to persistence, or
/// the memory none to visibility. RPMA_E_INVAL: an unknown type.
int check_flush(const rpma_conn &conn, const rpma_mr_remote &dst, rpma_flush_type type) noexcept {
    switch (type) {
    case RPMA_FLUSH_TYPE_PERSISTENT:
        if (!conn.direct_write_to_pmem.load(std::memory_order_relaxed)) {
            RPMA_LOG(RPMA_LOG_LEVEL_ERROR,
                     "cannot flush to persistence: the peer has not declared direct write to "
                     "persistent memory; call rpma_conn_apply_remote_peer_cfg() with its "
                     "configuration");
            return RPMA_E_NOSUPP;
        }
        if ((dst.usage & RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT) != 0)
            return 0;
        RPMA_LOG(RPMA_LOG_LEVEL_ERROR, "cannot flush to persistence: the peer has registered the "
                                       "memory without RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT");
        return RPMA_E_NOSUPP;
    case RPMA_FLUSH_TYPE_VISIBILITY:
        if ((dst.usage & RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY) != 0)
            return 0;
        RPMA_LOG(RPMA_LOG_LEVEL_ERROR, "cannot flush to visibility: the peer has registered the "
                                       "memory without RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY");
        return RPMA_E_NOSUPP;
    default:
        return RPMA_E_INVAL;
    }
}

} // namespace

int rpma_read(rpma_conn *conn, rpma_mr_local *dst, size_t dst_offset, const rpma_mr_remote *src,
              size_t src_offset, size_t len, int flags, const void *op_context) {
    if (conn == nullptr || flags == 0 || !has_valid_sides(src, src_offset, dst, dst_offset, len))
        return RPMA_E_INVAL;
    return post(*conn, {.opcode = IBV_WR_RDMA_READ, .flags = flags, .op_context = op_context}, dst,
                dst_offset, len, src, src_offset);
}

int rpma_write(rpma_conn *conn, rpma_mr_remote *dst, size_t dst_offset, const rpma_mr_local *src,
               size_t src_offset, size_t len, int flags, const void *op_context) {
    if (conn == nullptr || flags == 0 || !has_valid_sides(dst, dst_offset, src, src_offset, len))
        return RPMA_E_INVAL;
    return post(*conn, {.opcode = IBV_WR_RDMA_WRITE, .flags = flags, .op_context = op_context}, src,
                src_offset, len, dst, dst_offset);
}

int rpma_write_with_imm(rpma_conn *conn, rpma_mr_remote *dst, size_t dst_offset,
                        const rpma_mr_local *src, size_t src_offset, size_t len, int flags,
                        uint32_t imm, const void *op_context) {
    if (conn == nullptr || flags == 0 || !has_valid_sides(dst, dst_offset, src, src_offset, len))
        return RPMA_E_INVAL;
    return post(*conn,
                {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                 .flags = flags,
                 .imm = imm,
                 .op_context = op_context},
                src, src_offset, len, dst, dst_offset);
}

int rpma_atomic_write(rpma_conn *conn, rpma_mr_remote *dst, size_t dst_offset, const char src[8],
                      int flags, const void *op_context) {
    if (conn == nullptr || dst == nullptr || src == nullptr || flags == 0 ||
        dst_offset % RPMA_ATOMIC_WRITE_ALIGNMENT != 0)
        return RPMA_E_INVAL;
    if (dst->addr % RPMA_ATOMIC_WRITE_ALIGNMENT != 0) {
        RPMA_LOG(RPMA_LOG_LEVEL_ERROR,
                 "cannot write atomically: the peer's memory begins at 0x%llx, which is not a "
                 "multiple of %d",
                 static_cast<unsigned long long>(dst->addr), RPMA_ATOMIC_WRITE_ALIGNMENT);
        return RPMA_E_INVAL;
    }
    sync_before_peer(*conn);
    return post_remote(*conn, "an atomic write", op_context, {}, [&](std::uint64_t wr_id) {
        return coherdma_post_atomic_write(conn->qp.get(), wr_id, to_post_flags(flags), dst->rkey,
                                          dst->addr + dst_offset, src, nullptr);
    });
}

int rpma_flush(rpma_conn *conn, rpma_mr_remote *dst, size_t dst_offset, size_t len,
               rpma_flush_type type, int flags, const void *op_context) {
    if (conn == nullptr || dst == nullptr || flags == 0)
        return RPMA_E_INVAL;
    if (const int ret = check_flush(*conn, *dst, type))
        return ret;
    // An empty range: an RDMA Read of no bytes completes after the earlier requests, too.
    if (len == 0)
        return rpma_read(conn, nullptr, 0, nullptr, 0, 0, flags, op_context);
    const std::uint32_t post_flags =
        to_post_flags(flags) |
        (type == RPMA_FLUSH_TYPE_PERSISTENT ? std::uint32_t{COHERDMA_POST_PERSISTENT} : 0);
    const ibv_sge &scratch = conn->scratch.sge();
    return post_remote(*conn, "a flush", op_context, scratch, [&](std::uint64_t wr_id) {
        return coherdma_post_flush(conn->qp.get(), wr_id, post_flags, dst->rkey,
                                   dst->addr + dst_offset, len, &scratch);
    });
}

int rpma_send(rpma_conn *conn, const rpma_mr_local *src, size_t offset, size_t len, int flags,
              const void *op_context) {
    if (conn == nullptr || flags == 0 || !has_valid_memory(src, offset, len))
        return RPMA_E_INVAL;
    return post(*conn, {.opcode = IBV_WR_SEND, .flags = flags, .op_context = op_context}, src,
                offset, len);
}

int rpma_send_with_imm(rpma_conn *conn, const rpma_mr_local *src, size_t offset, size_t len,
                       int flags, uint32_t imm, const void *op_context) {
    if (conn == nullptr || flags == 0 || !has_valid_memory(src, offset, len))
        return RPMA_E_INVAL;
    return post(
        *conn,
        {.opcode = IBV_WR_SEND_WITH_IMM, .flags = flags, .imm = imm, .op_context = op_context}, src,
        offset, len);
}

int rpma_recv(rpma_conn *conn, rpma_mr_local *dst, size_t offset, size_t len,
              const void *op_context) {
    if (conn == nullptr || !has_valid_memory(dst, offset, len))
        return RPMA_E_INVAL;
    return post_receive(*conn->objects.id->qp, post_to_rq, conn->objects.receives.get(), dst,
                        offset, len, op_context);
}
