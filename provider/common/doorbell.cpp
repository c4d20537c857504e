// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "doorbell.hpp"

#include "trace.hpp"

#include <atomic>
#include <cerrno>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace coherdma::provider {
namespace {

/// ib_uverbs_cmd_hdr and ib_uverbs_post_send, without WRs: the kernel reads them in the SQ.
struct post_send_cmd {
    std::uint32_t command = IB_USER_VERBS_CMD_POST_SEND;
    std::uint16_t in_words = 8;
    std::uint16_t out_words = 1;
    std::uint64_t response = 0; ///< the kernel always writes an ib_uverbs_post_send_resp
    std::uint32_t qp_handle = 0;
    std::uint32_t wr_count = 0;
    std::uint32_t sge_count = 0;
    std::uint32_t wqe_size = sizeof(ib_uverbs_send_wr);
};
static_assert(sizeof(post_send_cmd) == 32);
constexpr std::size_t header_size = sizeof(ib_uverbs_cmd_hdr);

/// ring_doorbell() by ioctl(): the kernel refuses write(), with EACCES, to a process whose
/// credentials have changed since it opened the device. Returns 0 or an errno.
[[gnu::noinline, gnu::cold]] int ring_doorbell_ioctl(const ibv_qp &qp,
                                                     std::uint32_t driver_id) noexcept {
    std::uint32_t response = 0;
    post_send_cmd cmd;
    cmd.qp_handle = qp.handle;
    constexpr std::uint16_t num_attrs = 3;
    constexpr std::size_t size = sizeof(ib_uverbs_ioctl_hdr) + num_attrs * sizeof(ib_uverbs_attr);
    alignas(ib_uverbs_ioctl_hdr) unsigned char buffer[size] = {};
    auto &header = *reinterpret_cast<ib_uverbs_ioctl_hdr *>(buffer);
    header.length = size;
    header.object_id = UVERBS_OBJECT_DEVICE;
    header.method_id = UVERBS_METHOD_INVOKE_WRITE;
    header.driver_id = driver_id;
    const auto add_attr = [&header](std::uint16_t id, std::size_t length, std::uint64_t data) {
        ib_uverbs_attr &attr = header.attrs[header.num_attrs++];
        attr.attr_id = id;
        attr.len = static_cast<std::uint16_t>(length);
        attr.flags = UVERBS_ATTR_F_MANDATORY;
        attr.data = data;
    };
    const auto *const body = reinterpret_cast<const unsigned char *>(&cmd) + header_size;
    add_attr(UVERBS_ATTR_CORE_IN, sizeof(cmd) - header_size,
             reinterpret_cast<std::uintptr_t>(body));
    add_attr(UVERBS_ATTR_CORE_OUT, sizeof(response), reinterpret_cast<std::uintptr_t>(&response));
    add_attr(UVERBS_ATTR_WRITE_CMD, sizeof(std::uint64_t), cmd.command);
    return ioctl(qp.context->cmd_fd, RDMA_VERBS_IOCTL, &header) == 0 ? 0 : errno;
}

/// The system call that has the kernel process the SQ. Returns 0 or an errno.
[[gnu::always_inline]] inline int ring_doorbell_inline(const ibv_qp &qp,
                                                       std::uint32_t driver_id) noexcept {
    post_send_cmd cmd;
    // The response may overwrite cmd: the kernel has copied cmd by then.
    cmd.response = reinterpret_cast<std::uintptr_t>(&cmd);
    cmd.qp_handle = qp.handle;
    int error = 0;
    // write() would be a cancellation point: a cancelled thread would leave the doorbell BUSY.
    if (syscall(SYS_write, qp.context->cmd_fd, &cmd, sizeof(cmd)) != long{sizeof(cmd)})
        error = errno == EACCES ? ring_doorbell_ioctl(qp, driver_id) : errno;
    trace::doorbell(qp.qp_num, error);
    return error;
}

} // namespace

int ring_doorbell(const ibv_qp &qp, std::uint32_t driver_id) noexcept {
    return ring_doorbell_inline(qp, driver_id);
}

/// Returns true if this thread has to ring, false if the thread that set BUSY will ring again.
/// state: the value loaded last.
bool doorbell::acquire_or_set_pending(std::uint32_t state) noexcept {
    const std::atomic_ref shared_state(state_);
    // Ordering: stores PENDING also over PENDING, which publishes this thread's WQEs to the thread
    // that reads it.
    while (!shared_state.compare_exchange_weak(state, state == IDLE ? BUSY : PENDING)) {
    }
    return state == IDLE;
}

/// Returns 0 or the errno of this thread's last ring, which is for all WQEs that this thread and
/// those that found BUSY have published. If another thread is ringing, returns 0: it rings again.
int doorbell::ring_coalesced(const ibv_qp &qp, std::uint32_t driver_id) noexcept {
    const std::atomic_ref shared_state(state_);
    std::uint32_t state = IDLE;
    // Ordering: the WQEs are published before the state changes. This thread either finds IDLE and
    // rings, or sets PENDING, which only the thread that set BUSY replaces, below.
    if (!shared_state.compare_exchange_strong(state, BUSY) && !acquire_or_set_pending(state))
        return 0;
    const int error = ring_doorbell_inline(qp, driver_id);
    // Ordering: reads PENDING before the system call, so the kernel sees the WQEs of each thread
    // that set it. A thread that posts from here on finds IDLE and rings itself.
    if (shared_state.exchange(IDLE) == PENDING) [[unlikely]]
        return ring_doorbell(qp, driver_id);
    return error;
}

} // namespace coherdma::provider
