// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Calls at the limits of what verbs permit, on rxe: prints "right" or "wrong" for each, and what
// was seen.
//
// edge_cases_rxe DEVICE GID_INDEX [TRIAL...]

#include "../lib/connected_qps.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <optional>
#include <poll.h>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

namespace {

using namespace verbs_test;

// A QP with a receive queue of length zero sends (and writes, unless UD), one with a send queue of
// length zero receives. Posts to the queues of length zero are refused with ENOMEM.
outcome transfer_with_zero_length_queues(const device &dev, ibv_qp_type type) {
    constexpr std::uint32_t length = 256, write_offset = 1024, grh_size = 40;
    constexpr ibv_qp_cap send_only{.max_send_wr = 8,
                                   .max_recv_wr = 0,
                                   .max_send_sge = 2,
                                   .max_recv_sge = 0,
                                   .max_inline_data = 0},
        recv_only{.max_send_wr = 0,
                  .max_recv_wr = 8,
                  .max_send_sge = 0,
                  .max_recv_sge = 2,
                  .max_inline_data = 0};
    endpoint requester(dev, type, send_only);
    const endpoint responder(dev, type, recv_only);
    connect(requester, responder);
    for (std::size_t i = 0; i < length; ++i)
        requester.memory.at(i) = static_cast<std::byte>(i + 1);
    ibv_send_wr *bad_wr = nullptr;
    ibv_sge sge = requester.make_sge(length);
    if (type != IBV_QPT_UD) {
        ibv_send_wr write = requester.make_wr(IBV_WR_RDMA_WRITE, sge, responder);
        write.wr.rdma.remote_addr += write_offset;
        check(ibv_post_send(requester.qp.get(), &write, &bad_wr), "post a Write");
        requester.expect_success("the Write");
    }
    responder.post_recv(1);
    sge.length = 8;
    ibv_send_wr send = requester.make_wr(IBV_WR_SEND, sge);
    unique_handle<ibv_ah, ibv_destroy_ah> ah;
    if (type == IBV_QPT_UD) {
        ibv_ah_attr ah_attr = requester.make_ah_attr();
        ah = check(decltype(ah)(ibv_create_ah(requester.pd.get(), &ah_attr)), "address handle");
        send.wr.ud = {ah.get(), responder.qp->qp_num, endpoint::qkey};
    }
    check(ibv_post_send(requester.qp.get(), &send, &bad_wr), "post a Send");
    requester.expect_success("the Send");
    responder.expect_success("the receive");
    const std::byte *const received = responder.memory.data() + (type == IBV_QPT_UD ? grh_size : 0);
    const bool data_ok = std::memcmp(received, requester.memory.data(), 8) == 0 &&
                         (type == IBV_QPT_UD || std::memcmp(responder.memory.data() + write_offset,
                                                            requester.memory.data(), length) == 0);
    ibv_recv_wr recv_wr{}, *bad_recv_wr = nullptr;
    const int recv_error = ibv_post_recv(requester.qp.get(), &recv_wr, &bad_recv_wr);
    send.num_sge = 0;
    const int send_error = ibv_post_send(responder.qp.get(), &send, &bad_wr);
    return {data_ok && recv_error == ENOMEM && bad_recv_wr == &recv_wr && send_error == ENOMEM &&
                bad_wr == &send,
            concat(data_ok ? "the data arrived" : "other data arrived", ", a receive: error ",
                   recv_error, ", a Send: error ", send_error)};
}
outcome zero_length_queues_rc(const device &dev) {
    return transfer_with_zero_length_queues(dev, IBV_QPT_RC);
}
outcome zero_length_queues_uc(const device &dev) {
    return transfer_with_zero_length_queues(dev, IBV_QPT_UC);
}
outcome zero_length_queues_ud(const device &dev) {
    return transfer_with_zero_length_queues(dev, IBV_QPT_UD);
}

// Two QPs, and 8 bytes of the responder that are the target of atomics.
struct atomic_qps {
    static constexpr std::uint64_t initial_value = 100;
    static constexpr std::uint64_t send_ops =
        IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP;

    endpoint requester, responder;

    explicit atomic_qps(const device &dev, bool extended = false)
        : requester(dev, {.extended = extended, .extra_send_ops = extended ? send_ops : 0})
        , responder(dev, {.mr_access = default_mr_access | IBV_ACCESS_REMOTE_ATOMIC}) {
        connect(requester, responder, endpoint::qp_access | IBV_ACCESS_REMOTE_ATOMIC);
        std::memcpy(responder.memory.data(), &initial_value, sizeof initial_value);
    }
    std::uint64_t target_addr() const {
        return reinterpret_cast<std::uintptr_t>(responder.memory.data());
    }
    // Adds 1, or swaps if the value is 1.
    ibv_send_wr make_wr(ibv_wr_opcode opcode, ibv_sge *sg_list, int num_sge,
                        std::uint64_t offset = 0) const {
        ibv_send_wr wr = requester.make_wr(opcode);
        wr.sg_list = sg_list;
        wr.num_sge = num_sge;
        wr.wr.atomic = {target_addr() + offset, 1, 2, responder.mr->rkey};
        return wr;
    }
    bool is_refused(ibv_send_wr wr) const {
        ibv_send_wr *bad_wr = nullptr;
        return ibv_post_send(requester.qp.get(), &wr, &bad_wr) == EINVAL && bad_wr == &wr;
    }
    // An atomic into two SGEs of four bytes.
    bool add_succeeds() const {
        std::array<ibv_sge, 2> sges{requester.make_sge(4), requester.make_sge(4)};
        sges[1].addr += 4;
        ibv_send_wr wr = make_wr(IBV_WR_ATOMIC_FETCH_AND_ADD, sges.data(), 2), *bad_wr = nullptr;
        if (ibv_post_send(requester.qp.get(), &wr, &bad_wr) != 0)
            return false;
        const auto wc = requester.wait_completion(trial_timeout());
        std::uint64_t fetched = 0, value = 0;
        std::memcpy(&fetched, requester.memory.data(), sizeof fetched);
        std::memcpy(&value, responder.memory.data(), sizeof value);
        return wc && wc->status == IBV_WC_SUCCESS && fetched == initial_value &&
               value == initial_value + 1;
    }
};

// Right: all posted WRs were refused, and after that an atomic succeeds.
outcome judge_refusals(const atomic_qps &qps, int num_refused, int num_posted) {
    const bool usable = qps.add_succeeds();
    return {num_refused == num_posted && usable,
            concat(num_refused, " of ", num_posted, " refused, ",
                   usable ? "an atomic succeeds then" : "no atomic succeeds then")};
}
constexpr std::array atomic_opcodes{IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP};

// Atomics with no SGE, with one of 4 bytes, or with two of 4 and 3 bytes are refused: an atomic
// returns 8 bytes.
outcome atomic_short_list(const device &dev) {
    const atomic_qps qps(dev);
    std::array<ibv_sge, 2> sges{qps.requester.make_sge(4), qps.requester.make_sge(3)};
    int num_refused = 0, num_posted = 0;
    for (const ibv_wr_opcode opcode : atomic_opcodes)
        for (int num_sge = 0; num_sge <= 2; ++num_sge, ++num_posted)
            num_refused += qps.is_refused(qps.make_wr(opcode, sges.data(), num_sge));
    return judge_refusals(qps, num_refused, num_posted);
}

// Atomics on an address that is not a multiple of 8 are refused.
outcome atomic_unaligned(const device &dev) {
    const atomic_qps qps(dev);
    ibv_sge sge = qps.requester.make_sge(8);
    int num_refused = 0, num_posted = 0;
    for (const ibv_wr_opcode opcode : atomic_opcodes)
        for (const std::uint64_t offset : {1U, 2U, 4U}) {
            num_refused += qps.is_refused(qps.make_wr(opcode, &sge, 1, offset));
            ++num_posted;
        }
    return judge_refusals(qps, num_refused, num_posted);
}

// Posts an atomic by ibv_wr_*, with an SGE of this length, on the target's address plus offset.
// Returns the result of ibv_wr_complete().
int post_atomic_ex(const atomic_qps &qps, std::uint32_t length, std::uint64_t offset) {
    ibv_qp_ex *const qp = ibv_qp_to_qp_ex(qps.requester.qp.get());
    ibv_wr_start(qp);
    qp->wr_id = 1;
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_atomic_fetch_add(qp, qps.responder.mr->rkey, qps.target_addr() + offset, 1);
    const ibv_sge sge = qps.requester.make_sge(length);
    ibv_wr_set_sge(qp, sge.lkey, sge.addr, sge.length);
    return ibv_wr_complete(qp);
}
// Atomics of less than 8 bytes and on an unaligned address, by ibv_wr_*, are refused.
outcome invalid_atomics_ex_refused(const device &dev) {
    const atomic_qps qps(dev, /*extended=*/true);
    const int num_refused = (post_atomic_ex(qps, 4, 0) == EINVAL ? 1 : 0) +
                            (post_atomic_ex(qps, 8, 4) == EINVAL ? 1 : 0);
    return judge_refusals(qps, num_refused, 2);
}
// ibv_wr_complete() accepts them, and they complete with an error.
outcome invalid_atomics_ex_fail(const device &dev) {
    std::string statuses;
    for (const auto &[length, offset] : {std::pair{4U, 0U}, {8U, 4U}}) {
        const atomic_qps qps(dev, /*extended=*/true);
        if (const int error = post_atomic_ex(qps, length, offset))
            return {false, concat("refused: error ", error)};
        const auto wc = qps.requester.wait_completion(trial_timeout());
        statuses += concat(wc ? ibv_wc_status_str(wc->status) : "no completion", "; ");
        if (!wc || wc->status == IBV_WC_SUCCESS)
            return {false, statuses};
    }
    return {true, statuses};
}

// A zero-based MW of type 1 is refused; another can then be bound, and written to.
outcome bind_zero_based_mw(const device &dev) {
    const endpoint requester(dev), responder(dev);
    connect(requester, responder);
    const unique_handle<ibv_mw, ibv_dealloc_mw> mw = check(
        unique_handle<ibv_mw, ibv_dealloc_mw>(ibv_alloc_mw(responder.pd.get(), IBV_MW_TYPE_1)),
        "memory window");
    const std::uint32_t rkey = mw->rkey;
    ibv_mw_bind bind{};
    bind.send_flags = IBV_SEND_SIGNALED;
    bind.bind_info = {responder.mr.get(), reinterpret_cast<std::uintptr_t>(responder.memory.data()),
                      64, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED};
    const int error = ibv_bind_mw(responder.qp.get(), mw.get(), &bind);
    if (error != EINVAL || mw->rkey != rkey)
        return {false, concat("error ", error, mw->rkey != rkey ? ", another rkey" : "")};
    bind.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
    check(ibv_bind_mw(responder.qp.get(), mw.get(), &bind), "bind the window");
    responder.expect_success("the bind");
    ibv_sge sge = requester.make_sge(8);
    ibv_send_wr write = requester.make_wr(IBV_WR_RDMA_WRITE, sge, responder), *bad_wr = nullptr;
    write.wr.rdma.rkey = mw->rkey;
    check(ibv_post_send(requester.qp.get(), &write, &bad_wr), "post a Write to the window");
    requester.expect_success("the Write");
    return {true, "refused, and bound without IBV_ACCESS_ZERO_BASED"};
}

/// The number of Sends of this device that a responder refused since it has no receive.
unsigned long count_refused_sends(const device &dev) {
    std::ifstream counter(concat("/sys/class/infiniband/", ibv_get_device_name(dev.context->device),
                                 "/ports/1/hw_counters/rcvd_rnr_err"));
    unsigned long count = 0;
    if (!(counter >> count))
        throw failure("the device has no counter rcvd_rnr_err");
    return count;
}

/// Posts a Send and another request behind it, one of them with a fence. The peer posts its receive
/// when it has refused the Send, so both are sent again, and complete: no fence waits for a request
/// that is behind it, or for its own.
outcome complete_after_refusal(const device &dev, unsigned send_flags, ibv_wr_opcode next_opcode,
                               unsigned next_flags) {
    const endpoint requester(dev);
    const endpoint responder(dev, {.mr_access = default_mr_access | IBV_ACCESS_REMOTE_ATOMIC});
    connect(requester, responder, endpoint::qp_access | IBV_ACCESS_REMOTE_ATOMIC);
    ibv_sge sge = requester.make_sge(8);
    ibv_send_wr send = requester.make_wr(IBV_WR_SEND, sge), *bad_wr = nullptr;
    ibv_send_wr next = requester.make_wr(next_opcode, sge, responder);
    if (next_opcode != IBV_WR_RDMA_READ)
        next.wr.atomic = {next.wr.rdma.remote_addr, 1, 2, responder.mr->rkey};
    send.send_flags |= send_flags;
    next.send_flags |= next_flags;
    send.next = &next;
    const unsigned long refused_before = count_refused_sends(dev);
    check(ibv_post_send(requester.qp.get(), &send, &bad_wr), "post both requests");
    const auto deadline = std::chrono::steady_clock::now() + trial_timeout();
    while (count_refused_sends(dev) == refused_before)
        if (std::chrono::steady_clock::now() > deadline)
            throw failure("the Send was not refused");
    responder.post_recv(1);
    for (const char *request : {"the Send", "the request behind it"}) {
        const auto wc = requester.wait_completion(milliseconds(10'000));
        if (!wc || wc->status != IBV_WC_SUCCESS)
            return {false,
                    concat(request, ": ", wc ? ibv_wc_status_str(wc->status) : "no completion")};
    }
    return {true, "both complete"};
}
outcome fenced_read_behind_rnr(const device &dev) {
    return complete_after_refusal(dev, 0, IBV_WR_RDMA_READ, IBV_SEND_FENCE);
}
outcome fenced_atomic_behind_rnr(const device &dev) {
    return complete_after_refusal(dev, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_SEND_FENCE);
}
outcome fenced_send_before_read(const device &dev) {
    return complete_after_refusal(dev, IBV_SEND_FENCE, IBV_WR_RDMA_READ, 0);
}

// A CQ holds the completions of a QP with more than 32,767 requests: these are signaled Writes, of
// which none is polled before the data of the last one have arrived.
outcome long_cq(const device &dev) {
    constexpr std::uint32_t num_writes = 40'000, list_length = 100, length = 8;
    constexpr int cqe = 262'144; // libfabric asks for as many
    endpoint cq_owner(dev), responder(dev);
    if (const int error = ibv_resize_cq(cq_owner.cq.get(), cqe))
        return {false, concat(cqe, " CQEs: ", std::strerror(error))};
    ibv_qp_init_attr init_attr{};
    init_attr.qp_type = IBV_QPT_RC;
    init_attr.send_cq = init_attr.recv_cq = cq_owner.cq.get();
    init_attr.cap = {num_writes, 1, 1, 1, length};
    const endpoint requester(cq_owner, &init_attr);
    connect(requester, responder);
    std::uint64_t value = 0;
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(&value), length, 0};
    std::array<ibv_send_wr, list_length> writes;
    for (std::uint32_t i = 0; i < list_length; ++i) {
        writes.at(i) = requester.make_wr(IBV_WR_RDMA_WRITE, sge, responder);
        writes.at(i).send_flags |= IBV_SEND_INLINE;
        writes.at(i).next = i + 1 < list_length ? &writes.at(i + 1) : nullptr;
    }
    for (std::uint32_t wr_id = 0; wr_id < num_writes; wr_id += list_length) {
        for (std::uint32_t i = 0; i < list_length; ++i)
            writes.at(i).wr_id = wr_id + i;
        value = wr_id + list_length;
        ibv_send_wr *bad_wr = nullptr;
        check(ibv_post_send(requester.qp.get(), writes.data(), &bad_wr), "post a list of writes");
    }
    const std::atomic_ref arrived(*reinterpret_cast<std::uint64_t *>(responder.memory.data()));
    const auto deadline = std::chrono::steady_clock::now() + trial_timeout();
    while (arrived.load(std::memory_order_acquire) != num_writes)
        if (std::chrono::steady_clock::now() > deadline)
            throw failure(concat("the data of write ", arrived.load(), " are the last to arrive"));
    for (std::uint64_t wr_id = 0; wr_id < num_writes; ++wr_id) {
        const ibv_wc wc = cq_owner.expect_success("a write");
        if (wc.wr_id != wr_id)
            return {false, concat("write ", wc.wr_id, " completes instead of ", wr_id)};
    }
    return {!cq_owner.wait_completion(absence_timeout), concat(num_writes, " writes")};
}

// A range of addresses, all parts of which have the same memory.
class repeated_memory {
    static constexpr std::size_t part_length = std::size_t{64} << 20;
    std::byte *addr_ = nullptr;
    std::size_t length_;

  public:
    explicit repeated_memory(std::size_t length)
        : length_(length) {
        const int fd = memfd_create("repeated", MFD_CLOEXEC);
        check(fd < 0 ? -1 : ftruncate(fd, part_length), "memory file");
        void *const range =
            mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        check(range == MAP_FAILED ? -1 : 0, "address range");
        addr_ = static_cast<std::byte *>(range);
        for (std::size_t offset = 0; offset < length; offset += part_length) {
            void *const part = mmap(addr_ + offset, std::min(part_length, length - offset),
                                    PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
            check(part == MAP_FAILED ? -1 : 0, "map the memory file");
        }
        close(fd);
    }
    repeated_memory(const repeated_memory &) = delete;
    repeated_memory &operator=(const repeated_memory &) = delete;
    ~repeated_memory() { munmap(addr_, length_); }
    std::byte *address_of(std::size_t offset) const { return addr_ + offset; }
};

// An MR of 1 GiB and a page is registered, and a Write to its last page arrives there.
outcome long_mr(const device &dev) {
    constexpr std::size_t page = 4096, length = (std::size_t{1} << 30) + page;
    const repeated_memory memory(length);
    endpoint requester(dev);
    const endpoint responder(dev);
    const unique_handle<ibv_mr, ibv_dereg_mr> mr(
        ibv_reg_mr(responder.pd.get(), memory.address_of(0), length,
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
    if (!mr)
        return {false, concat("ibv_reg_mr: ", std::strerror(errno))};
    connect(requester, responder);
    requester.memory.front() = std::byte{1};
    ibv_sge sge = requester.make_sge(1);
    ibv_send_wr write = requester.make_wr(IBV_WR_RDMA_WRITE, sge), *bad_wr = nullptr;
    write.wr.rdma = {reinterpret_cast<std::uintptr_t>(memory.address_of(length - 1)), mr->rkey};
    check(ibv_post_send(requester.qp.get(), &write, &bad_wr), "post a Write");
    requester.expect_success("the Write");
    return {*memory.address_of(length - 1) == std::byte{1}, "written to the last byte"};
}

// A QP that receives from an SRQ, and its peer, both of one process.
class srq_qps {
    endpoint srq_owner_; ///< with the responder's PD and CQ
    unique_handle<ibv_srq, ibv_destroy_srq> srq_;
    std::optional<endpoint> responder_;
    endpoint requester_;

  public:
    explicit srq_qps(const device &dev)
        : srq_owner_(dev)
        , requester_(dev) {
        ibv_srq_init_attr srq_attr{};
        srq_attr.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
        srq_ = check(decltype(srq_)(ibv_create_srq(srq_owner_.pd.get(), &srq_attr)), "SRQ");
        ibv_qp_init_attr attr{};
        attr.qp_type = IBV_QPT_RC;
        attr.send_cq = attr.recv_cq = srq_owner_.cq.get();
        attr.srq = srq_.get();
        attr.cap = {8, 0, 1, 0, 0};
        responder_.emplace(srq_owner_, &attr);
    }
    const endpoint &responder() const { return *responder_; }
    const endpoint &requester() const { return requester_; }

    // The requester gives a request up after two retries, the responder one that meets no receive
    // at once.
    void connect() const {
        constexpr std::uint8_t retry_cnt = 2, rnr_retry = 0, max_rd_atomic = 1;
        for (const endpoint *each : {&*responder_, &requester_})
            each->to_init();
        responder_->to_rtr(requester_);
        requester_.to_rtr(*responder_);
        for (const endpoint *each : {&*responder_, &requester_})
            modify_qp_to_rts(each->qp.get(), endpoint::ack_timeout, rnr_retry, max_rd_atomic,
                             retry_cnt);
    }
    // Both QPs to RESET. The kernel returns when their tasks have ended: no event comes later.
    void reset() const {
        for (const endpoint *each : {&*responder_, &requester_})
            each->to_reset();
        for (ibv_cq *const cq : {srq_owner_.cq.get(), requester_.cq.get()})
            for (ibv_wc wc{}; ibv_poll_cq(cq, 1, &wc) > 0;)
                ;
    }
    void post_srq_recv(std::uint32_t length = recv_length) const {
        ibv_sge sge = srq_owner_.make_sge(length);
        ibv_recv_wr wr{1, nullptr, &sge, 1}, *bad_wr = nullptr;
        check(ibv_post_srq_recv(srq_.get(), &wr, &bad_wr), "post a receive");
    }
    // A Send of the requester, with this many Writes behind it.
    void post_requests(std::uint32_t send_length, std::size_t num_writes) const {
        ibv_sge sge = requester_.make_sge(send_length), write_sge = requester_.make_sge(8);
        ibv_send_wr send = requester_.make_wr(IBV_WR_SEND, sge), *bad_wr = nullptr;
        std::array<ibv_send_wr, 8> writes;
        writes.fill(requester_.make_wr(IBV_WR_RDMA_WRITE, write_sge, srq_owner_));
        for (std::size_t i = 0; i < num_writes; ++i) {
            writes.at(i).next = i + 1 < num_writes ? &writes.at(i + 1) : nullptr;
            send.next = writes.data();
        }
        check(ibv_post_send(requester_.qp.get(), &send, &bad_wr), "post requests");
    }
    void expect_message() const {
        post_srq_recv();
        post_requests(recv_length, 0);
        requester_.expect_success("a Send");
        srq_owner_.expect_success("its receive");
    }
    // A request of the responder fails.
    void fail_send(std::uint32_t lkey) const {
        ibv_sge sge = srq_owner_.make_sge(8);
        sge.lkey = lkey;
        ibv_send_wr send = responder_->make_wr(IBV_WR_SEND, sge), *bad_wr = nullptr;
        check(ibv_post_send(responder_->qp.get(), &send, &bad_wr), "post a Send");
        const auto wc = srq_owner_.wait_completion(trial_timeout());
        if (!wc || wc->status == IBV_WC_SUCCESS)
            throw failure(wc ? "a Send succeeds" : "a Send does not end");
    }
    std::uint32_t valid_lkey() const { return srq_owner_.mr->lkey; }
    std::uint32_t invalid_lkey() const { return srq_owner_.mr->lkey + 1; }
    // The first packet of a Send arrives, and no other: the next one's SGE has an invalid lkey.
    void cut_off_send() {
        post_srq_recv(2 * mtu);
        requester_.memory.at(mtu - 1) = std::byte{1};
        const std::atomic_ref last_byte(srq_owner_.memory.at(mtu - 1));
        last_byte = std::byte{0};
        std::array<ibv_sge, 2> sges{requester_.make_sge(mtu), requester_.make_sge(mtu)};
        sges[1].lkey = invalid_lkey();
        ibv_send_wr send = requester_.make_wr(IBV_WR_SEND), *bad_wr = nullptr;
        send.sg_list = sges.data();
        send.num_sge = 2;
        check(ibv_post_send(requester_.qp.get(), &send, &bad_wr), "post a Send");
        wait_failure();
        const auto deadline = std::chrono::steady_clock::now() + trial_timeout();
        while (last_byte != std::byte{1})
            if (std::chrono::steady_clock::now() > deadline)
                throw failure("the first packet does not arrive");
    }
    std::optional<ibv_wc> poll_responder() const {
        return srq_owner_.wait_completion(milliseconds(0));
    }
    // The requester's next request fails: no packet of it is on the way any more.
    void wait_failure() const {
        const auto wc = requester_.wait_completion(trial_timeout());
        if (!wc || wc->status == IBV_WC_SUCCESS)
            throw failure(wc ? "a late request succeeds" : "a late request does not end");
    }
    static constexpr std::uint32_t recv_length = 64, mtu = 1024;
};

// The events of the QP that have come, or come within the timeout: of Last WQE Reached only, if
// their number is not negative.
int count_last_wqe_events(const device &dev, const endpoint &ep, milliseconds timeout) {
    int count = 0;
    pollfd fd{dev.context->async_fd, POLLIN, 0};
    while (poll(&fd, 1, count == 0 ? static_cast<int>(timeout.count()) : 0) == 1) {
        ibv_async_event event{};
        check(ibv_get_async_event(dev.context.get(), &event), "ibv_get_async_event");
        const bool is_expected =
            event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && event.element.qp == ep.qp.get();
        ibv_ack_async_event(&event);
        if (!is_expected)
            throw failure(concat("event ", ibv_event_type_str(event.event_type)));
        ++count;
    }
    return count;
}

// A QP with an SRQ comes to the error state in each way there is, while its peer sends, and sends
// again: each time there is one event Last WQE Reached.
outcome last_wqe_event_once(const device &dev) {
    constexpr std::size_t num_late_writes = 8;
    const srq_qps qps(dev);
    const endpoint &responder = qps.responder();
    struct entry {
        const char *actor; ///< what moves the QP to the error state
        std::function<void()> enter;
    };
    const auto late_requests = [&] {
        qps.post_requests(srq_qps::recv_length, num_late_writes - 1);
    };
    const std::array entries{
        entry{"ibv_modify_qp",
              [&] {
                  responder.to_error();
                  late_requests();
                  responder.to_error(); // it is there already
              }},
        entry{"two threads",
              [&] {
                  std::thread thread([&] { responder.to_error(); });
                  responder.to_error();
                  thread.join();
                  late_requests();
              }},
        entry{"the responder",
              [&] {
                  qps.post_srq_recv();
                  qps.post_requests(srq_qps::recv_length + 1, num_late_writes - 1);
              }},
        entry{"the requester",
              [&] {
                  qps.fail_send(qps.invalid_lkey());
                  late_requests();
              }},
        entry{"the completer",
              [&] {
                  qps.fail_send(qps.valid_lkey()); // no receive
                  late_requests();
              }},
    };
    bool right = true;
    std::string seen;
    for (const entry &entry : entries) {
        qps.connect();
        qps.expect_message();
        entry.enter();
        int count = count_last_wqe_events(dev, responder, trial_timeout());
        qps.wait_failure();
        qps.reset();
        count += count_last_wqe_events(dev, responder, milliseconds(0));
        right = right && count == 1;
        seen += concat(seen.empty() ? "" : ", ", entry.actor, ": ", count);
    }
    return {right, seen};
}

// A QP with an SRQ that is reset as soon as it is in the error state has its event, too.
outcome last_wqe_event_before_reset(const device &dev) {
    constexpr int num_entries = 300;
    const srq_qps qps(dev);
    int num_single = 0;
    for (int i = 0; i < num_entries; ++i) {
        qps.responder().to_init();
        qps.responder().to_error();
        qps.responder().to_reset();
        num_single += count_last_wqe_events(dev, qps.responder(), milliseconds(0)) == 1 ? 1 : 0;
    }
    return {num_single == num_entries, concat(num_single, " of ", num_entries, " have one event")};
}

// A Send is cut off after its first packet, and the QP that has received it, into a receive of an
// SRQ, comes to the error state: the receive is flushed, before Last WQE Reached.
outcome cut_off_srq_receive(const device &dev) {
    srq_qps qps(dev);
    qps.connect();
    qps.cut_off_send();
    qps.responder().to_error();
    if (count_last_wqe_events(dev, qps.responder(), trial_timeout()) == 0)
        return {false, "no event"};
    const auto wc = qps.poll_responder();
    qps.reset();
    qps.connect();
    qps.expect_message(); // into another receive
    return {wc && wc->status == IBV_WC_WR_FLUSH_ERR,
            wc ? ibv_wc_status_str(wc->status) : "no completion"};
}

constexpr std::array trials{
    trial<device>{"zero-length-queues-rc", zero_length_queues_rc},
    trial<device>{"zero-length-queues-uc", zero_length_queues_uc},
    trial<device>{"zero-length-queues-ud", zero_length_queues_ud},
    trial<device>{"atomic-short-list", atomic_short_list},
    trial<device>{"atomic-unaligned", atomic_unaligned},
    trial<device>{"invalid-atomics-ex-refused", invalid_atomics_ex_refused},
    trial<device>{"invalid-atomics-ex-fail", invalid_atomics_ex_fail},
    trial<device>{"bind-zero-based-mw", bind_zero_based_mw},
    trial<device>{"fenced-read-behind-rnr", fenced_read_behind_rnr},
    trial<device>{"fenced-atomic-behind-rnr", fenced_atomic_behind_rnr},
    trial<device>{"fenced-send-before-read", fenced_send_before_read},
    trial<device>{"long-cq", long_cq},
    trial<device>{"long-mr", long_mr},
    trial<device>{"last-wqe-event-once", last_wqe_event_once},
    trial<device>{"last-wqe-event-before-reset", last_wqe_event_before_reset},
    trial<device>{"cut-off-srq-receive", cut_off_srq_receive},
};

} // namespace

int main(int argc, char **argv) {
    return run_program(argc, argv, "edge_cases_rxe DEVICE GID_INDEX", trials,
                       [](auto words) { return open_device(words[1], std::atoi(words[2])); });
}
