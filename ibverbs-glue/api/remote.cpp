// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Two operations on a peer's memory that persistent memory made known, and mailboxes need: to write
// eight bytes at once or not at all, and to be sure that what was written is there.
//
// Few devices have them. The others have ways around: an RDMA Write of eight aligned bytes is
// placed in one piece by hardware, though no standard says so, and by soft devices as far as the
// kernel's memcpy goes, on x86 with `rep movsb` in places by bytes; it carries its data, so that it
// reads no memory that might change, and waits for earlier Reads, as the native one does. And a
// peer's device answers a Read only when the Writes before it are in its memory.

#include "copy_out.hpp"

#include <coherdma/coherdma.h>
#include <infiniband/verbs.h>
#include <iterator>
#include <new>

using coherdma::api::copy_out;
using coherdma::api::fail;

struct coherdma_remote {
    ibv_qp *qp;
    ibv_qp_ex *native; ///< what posts operations that it has itself; may be NULL
    std::uint32_t write_way;
    std::uint32_t flush_way;
};

namespace {

constexpr std::uint32_t WORD = 8;

bool has_native_write(const ibv_qp_ex *qp) noexcept {
    return qp != nullptr && qp->wr_atomic_write != nullptr;
}

// From rdma-core 45 on.
#ifdef COHERDMA_HAS_FLUSH
bool has_native_flush(const ibv_qp_ex *qp) noexcept {
    return qp != nullptr && qp->wr_flush != nullptr;
}
void add_flush(ibv_qp_ex &to, std::uint32_t rkey, std::uint64_t at, std::uint64_t length) noexcept {
    ibv_wr_flush(&to, rkey, at, length, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
}
#else
bool has_native_flush(const ibv_qp_ex *) noexcept {
    return false;
}
void add_flush(ibv_qp_ex &, std::uint32_t, std::uint64_t, std::uint64_t) noexcept {}
#endif

bool has_swap(ibv_context *context) noexcept {
    ibv_device_attr device = {};
    return ibv_query_device(context, &device) == 0 && device.atomic_cap != IBV_ATOMIC_NONE;
}

/// A Write that carries its data, while the queue pair takes so much; without, what atomics can do.
std::uint32_t way_around(ibv_qp &qp) noexcept {
    ibv_qp_attr now = {};
    ibv_qp_init_attr made = {};
    if (ibv_query_qp(&qp, &now, IBV_QP_CAP, &made) == 0 &&
        std::max(now.cap.max_inline_data, made.cap.max_inline_data) >= WORD)
        return COHERDMA_WAY_INLINE;
    return has_swap(qp.context) ? std::uint32_t{COHERDMA_WAY_SWAP}
                                : std::uint32_t{COHERDMA_WAY_NONE};
}

/// What is asked for by every such operation.
int check(const coherdma_remote *remote, std::uint32_t completion) noexcept {
    if (remote == nullptr)
        return fail(EINVAL, "there is no queue pair: NULL was given");
    if (completion != COHERDMA_COMPLETION_ON_ERROR && completion != COHERDMA_COMPLETION_ALWAYS)
        return fail(EINVAL,
                    "completion is %u; it is COHERDMA_COMPLETION_ON_ERROR or "
                    "COHERDMA_COMPLETION_ALWAYS",
                    completion);
    return 0;
}

unsigned flags_of(std::uint32_t completion) noexcept {
    return completion == COHERDMA_COMPLETION_ALWAYS ? unsigned{IBV_SEND_SIGNALED} : 0;
}

int post(const coherdma_remote &remote, ibv_send_wr &wanted, const char *what) noexcept {
    ibv_send_wr *refused = nullptr;
    const int error = ibv_post_send(remote.qp, &wanted, &refused);
    return error == 0 ? 0 : fail(error, "%s was not posted: %s", what, strerrordesc_np(error));
}

template <class how>
int post_native(ibv_qp_ex &by, unsigned flags, std::uint64_t wr_id, const char *what,
                const how &add) noexcept {
    ibv_wr_start(&by);
    by.wr_id = wr_id;
    by.wr_flags = flags;
    add(by);
    const int error = ibv_wr_complete(&by);
    return error == 0 ? 0 : fail(error, "%s was not posted: %s", what, strerrordesc_np(error));
}

int post_inline(const coherdma_remote &remote, std::uint64_t at, std::uint32_t rkey,
                const void *value, unsigned flags, std::uint64_t wr_id) noexcept {
    ibv_sge data = {reinterpret_cast<std::uintptr_t>(value), WORD, 0};
    ibv_send_wr wanted = {};
    wanted.wr_id = wr_id;
    wanted.sg_list = &data;
    wanted.num_sge = 1;
    wanted.opcode = IBV_WR_RDMA_WRITE;
    wanted.send_flags = flags | IBV_SEND_INLINE | IBV_SEND_FENCE;
    wanted.wr.rdma.remote_addr = at;
    wanted.wr.rdma.rkey = rkey;
    return post(remote, wanted, "a Write of eight bytes");
}

/// swap has what is expected there, and takes what was there.
int post_swap(const coherdma_remote &remote, std::uint64_t at, std::uint32_t rkey,
              const void *value, const ibv_sge *swap, unsigned flags,
              std::uint64_t wr_id) noexcept {
    if (swap == nullptr || swap->addr == 0 || swap->length != WORD)
        return fail(EINVAL,
                    "here an atomic write is a compare and swap, which needs eight bytes of "
                    "registered memory with the value that is expected");
    ibv_sge old = *swap;
    ibv_send_wr wanted = {};
    wanted.wr_id = wr_id;
    wanted.sg_list = &old;
    wanted.num_sge = 1;
    wanted.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    wanted.send_flags = flags | IBV_SEND_FENCE;
    wanted.wr.atomic.remote_addr = at;
    wanted.wr.atomic.rkey = rkey;
    std::memcpy(&wanted.wr.atomic.compare_add, reinterpret_cast<const void *>(swap->addr), WORD);
    std::memcpy(&wanted.wr.atomic.swap, value, WORD);
    return post(remote, wanted, "a compare and swap");
}

} // namespace

const char *coherdma_way_name(uint32_t way) {
    static constexpr const char *names[] = {"none", "native", "inline write", "compare and swap",
                                            "read back"};
    return way < std::size(names) ? names[way] : "unknown";
}

coherdma_remote *coherdma_open_remote(ibv_qp *qp) {
    if (qp == nullptr || qp->qp_type != IBV_QPT_RC) {
        errno = fail(EINVAL, "a peer's memory is reached by a connected queue pair (RC)");
        return nullptr;
    }
    auto *const made = new (std::nothrow) coherdma_remote{};
    if (made == nullptr) {
        errno = fail(ENOMEM, "no memory");
        return nullptr;
    }
    made->qp = qp;
    made->native = ibv_qp_to_qp_ex(qp);
    made->write_way =
        has_native_write(made->native) ? std::uint32_t{COHERDMA_WAY_NATIVE} : way_around(*qp);
    made->flush_way = has_native_flush(made->native) ? COHERDMA_WAY_NATIVE : COHERDMA_WAY_READ;
    return made;
}

void coherdma_close_remote(coherdma_remote *remote) {
    delete remote;
}

int coherdma_query_remote(const coherdma_remote *remote, coherdma_remote_attr *attr, size_t size) {
    if (remote == nullptr)
        return fail(EINVAL, "there is no queue pair: NULL was given");
    const coherdma_remote_attr is = {0, remote->write_way, remote->flush_way};
    return copy_out(is, attr, size);
}

int coherdma_post_atomic_write(const coherdma_remote *remote, uint64_t remote_addr, uint32_t rkey,
                               const void *value, const ibv_sge *swap, uint32_t completion,
                               uint64_t wr_id) {
    if (const int error = check(remote, completion))
        return error;
    if (value == nullptr)
        return fail(EINVAL, "there is no value: NULL was given");
    if (remote_addr % WORD != 0)
        return fail(EINVAL, "0x%llx is no multiple of 8",
                    static_cast<unsigned long long>(remote_addr));
    const unsigned flags = flags_of(completion);
    switch (remote->write_way) {
    case COHERDMA_WAY_NATIVE:
        return post_native(*remote->native, flags, wr_id, "an atomic write", [&](ibv_qp_ex &to) {
            ibv_wr_atomic_write(&to, rkey, remote_addr, value);
        });
    case COHERDMA_WAY_INLINE:
        return post_inline(*remote, remote_addr, rkey, value, flags, wr_id);
    case COHERDMA_WAY_SWAP:
        return post_swap(*remote, remote_addr, rkey, value, swap, flags, wr_id);
    default:
        return fail(EOPNOTSUPP, "this queue pair has no atomic write, carries no eight bytes in a "
                                "request, and has no atomics");
    }
}

int coherdma_post_flush(const coherdma_remote *remote, uint64_t remote_addr, uint64_t length,
                        uint32_t rkey, const ibv_sge *scratch, uint32_t completion,
                        uint64_t wr_id) {
    if (const int error = check(remote, completion))
        return error;
    if (length == 0 || remote_addr + (length - 1) < remote_addr)
        return fail(EINVAL, "the range is empty, or goes beyond the last address");
    if (remote->flush_way == COHERDMA_WAY_NATIVE)
        return post_native(*remote->native, flags_of(completion), wr_id, "a flush",
                           [&](ibv_qp_ex &to) { add_flush(to, rkey, remote_addr, length); });
    if (scratch == nullptr || scratch->addr == 0 || scratch->length == 0)
        return fail(EINVAL, "a flush needs registered memory of one byte or more to read into");
    // Never outside of the range, and its last byte is among what is read.
    const auto bytes =
        static_cast<std::uint32_t>(std::min<std::uint64_t>({length, scratch->length, WORD}));
    ibv_sge into = {scratch->addr, bytes, scratch->lkey};
    ibv_send_wr wanted = {};
    wanted.wr_id = wr_id;
    wanted.sg_list = &into;
    wanted.num_sge = 1;
    wanted.opcode = IBV_WR_RDMA_READ;
    wanted.send_flags = flags_of(completion);
    wanted.wr.rdma.remote_addr = remote_addr + (length - bytes);
    wanted.wr.rdma.rkey = rkey;
    return post(*remote, wanted, "a Read");
}
