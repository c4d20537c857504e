// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "bell.hpp"

#include "probes.hpp"

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

struct command {
    std::uint32_t command = IB_USER_VERBS_CMD_POST_SEND;
    std::uint16_t in_words = 8;
    std::uint16_t out_words = 1;
    std::uint64_t response = 0; ///< of a number that the kernel writes each time
    std::uint32_t pair = 0;
    std::uint32_t requests = 0;
    std::uint32_t pieces = 0;
    std::uint32_t size = sizeof(ib_uverbs_send_wr);
};
static_assert(sizeof(command) == 32);
constexpr std::size_t head = 8;

// The same without write(), which the kernel refuses to who has changed user since the device was
// opened.
[[gnu::noinline, gnu::cold]] int ring_otherwise(const ibv_qp &qp, std::uint32_t driver) noexcept {
    std::uint32_t answer = 0;
    command what;
    what.pair = qp.handle;
    constexpr std::uint16_t count = 3;
    constexpr std::size_t size = sizeof(ib_uverbs_ioctl_hdr) + count * sizeof(ib_uverbs_attr);
    alignas(ib_uverbs_ioctl_hdr) unsigned char room[size] = {};
    auto &call = *reinterpret_cast<ib_uverbs_ioctl_hdr *>(room);
    call.length = size;
    call.object_id = UVERBS_OBJECT_DEVICE;
    call.method_id = UVERBS_METHOD_INVOKE_WRITE;
    call.driver_id = driver;
    const auto add = [&call](std::uint16_t id, std::size_t length, std::uint64_t data) {
        ib_uverbs_attr &next = call.attrs[call.num_attrs++];
        next.attr_id = id;
        next.len = static_cast<std::uint16_t>(length);
        next.flags = UVERBS_ATTR_F_MANDATORY;
        next.data = data;
    };
    const auto *const body = reinterpret_cast<const unsigned char *>(&what) + head;
    add(UVERBS_ATTR_CORE_IN, sizeof(what) - head, reinterpret_cast<std::uintptr_t>(body));
    add(UVERBS_ATTR_CORE_OUT, sizeof(answer), reinterpret_cast<std::uintptr_t>(&answer));
    add(UVERBS_ATTR_WRITE_CMD, sizeof(std::uint64_t), what.command);
    return ioctl(qp.context->cmd_fd, RDMA_VERBS_IOCTL, &call) == 0 ? 0 : errno;
}

[[gnu::always_inline]] inline int knock(const ibv_qp &qp, std::uint32_t driver) noexcept {
    command what;
    what.response = reinterpret_cast<std::uintptr_t>(&what); // it is read by then
    what.pair = qp.handle;
    int error = 0;
    if (syscall(SYS_write, qp.context->cmd_fd, &what, sizeof(what)) != long{sizeof(what)})
        error = errno == EACCES ? ring_otherwise(qp, driver) : errno;
    probe::doorbell(qp.qp_num, error);
    return error;
}

} // namespace

int ring_bell(const ibv_qp &qp, std::uint32_t driver) noexcept {
    return knock(qp, driver);
}

// Somebody was ringing when we looked: whether nobody is now, else word is left.
bool bell::ours_after_all(std::uint32_t seen) noexcept {
    const std::atomic_ref state(state_);
    while (!state.compare_exchange_weak(seen, seen == silent ? ringing : once_more)) {
    }
    return seen == silent;
}

void bell::ring_again(const ibv_qp &qp, std::uint32_t driver) noexcept {
    const std::atomic_ref state(state_);
    std::uint32_t seen;
    do {
        state.store(ringing);
        ring_bell(qp, driver);
        seen = ringing;
    } while (!state.compare_exchange_strong(seen, silent));
}

int bell::ring(const ibv_qp &qp, std::uint32_t driver) noexcept {
    const std::atomic_ref state(state_);
    std::uint32_t seen = silent;
    if (!state.compare_exchange_strong(seen, ringing) && !ours_after_all(seen))
        return 0;
    const int error = knock(qp, driver);
    seen = ringing;
    if (!state.compare_exchange_strong(seen, silent)) [[unlikely]]
        ring_again(qp, driver);
    return error;
}

} // namespace coherdma::provider
