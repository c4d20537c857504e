// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Targets that are parts of pages, and which the program writes to while they are the device's. No
// page can be protected from it: this is found if the device delivers at the completion.

#include "loopback.hpp"

#include <array>
#include <cstring>
#include <thread>

namespace check_corpus {

namespace {

/// Memory of an endpoint as another MR, which peers cannot write to.
class private_memory {
  public:
    explicit private_memory(const endpoint &owner)
        : mr_(owner.register_memory(IBV_ACCESS_LOCAL_WRITE)) {}
    ~private_memory() { ibv_dereg_mr(mr_); }
    private_memory(const private_memory &) = delete;
    private_memory &operator=(const private_memory &) = delete;

    ibv_sge sge(const endpoint &owner, std::uint32_t length, std::size_t offset = 0) const {
        ibv_sge named = owner.sge(length, offset);
        named.lkey = mr_->lkey;
        return named;
    }

  private:
    ibv_mr *const mr_;
};

/// The header of a buffer is set when its receive is posted already.
void header_set_after_post(const target &target, bool corrected) {
    loopback link(target, false);
    endpoint &local = link.responder;
    const private_memory memory(local);
    const auto set_header = [&] {
        local.memory[100] = std::byte{7}; // wrong: early-access
    };
    if (corrected)
        set_header();
    local.post_recv(memory.sge(local, 64, 64)); // wrong: early-access
    if (!corrected)
        set_header();
    link.requester.post_send(IBV_WR_SEND, link.requester.sge(), link.responder);
    wait_success(link.requester.send_cq, "the message");
    wait_success(local.recv_cq, "the receive");
}

/// A thread marks the entries of a ring as free, also the one behind the message: a receive of all
/// may bring as much.
void end_of_buffer_cleared(const target &target, bool corrected) {
    const endpoint_options with_srq{.use_srq = true};
    loopback link(target, false, {.requester = {}, .responder = with_srq});
    endpoint &local = link.responder;
    const private_memory memory(local);
    std::memset(local.memory, 1, 512);
    const auto clear = [&] {
        std::memset(local.memory + 200, 0, 56); // wrong: early-access
    };
    local.post_recv(memory.sge(local, 256)); // wrong: early-access
    if (!corrected)
        std::thread(clear).join();
    link.requester.post_send(IBV_WR_SEND, link.requester.sge(), link.responder);
    wait_success(link.requester.send_cq, "the message");
    wait_success(local.recv_cq, "the receive");
    if (corrected)
        std::thread(clear).join();
}

/// The answer of an unsignaled Read is cleared when the program has posted it.
void answer_cleared_after_post(const target &target, bool corrected) {
    loopback link(target, false);
    endpoint &local = link.requester;
    const private_memory memory(local);
    std::memset(local.memory, 5, 64);
    const auto clear = [&] {
        std::memset(local.memory + 8, 0, 8); // wrong: early-access
    };
    if (corrected)
        clear();
    const ibv_sge answer = memory.sge(local, 32);
    local.post_send(IBV_WR_RDMA_READ, answer, link.responder, unsignaled); // wrong: early-access
    if (!corrected)
        clear();
    local.post_send(IBV_WR_RDMA_WRITE, local.sge(8, 1024), link.responder);
    wait_success(local.send_cq, "both");
}

/// What an atomic brings is initialized too late.
void result_set_after_post(const target &target, bool corrected) {
    loopback link(target, false);
    endpoint &local = link.requester;
    const private_memory memory(local);
    ibv_mr *const counter =
        link.responder.register_memory(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    ibv_qp_attr attr{};
    attr.qp_access_flags = full_access | IBV_ACCESS_REMOTE_ATOMIC;
    check(ibv_modify_qp(link.responder.qp, &attr, IBV_QP_ACCESS_FLAGS), "allow atomics");
    const auto initialize = [&] {
        local.memory[2] = std::byte{9}; // wrong: early-access
    };
    if (corrected)
        initialize();
    send_request send(IBV_WR_ATOMIC_FETCH_AND_ADD, memory.sge(local, 8));
    send.wr.wr.atomic.remote_addr = reinterpret_cast<std::uintptr_t>(link.responder.memory);
    send.wr.wr.atomic.rkey = counter->rkey;
    send.wr.wr.atomic.compare_add = 1;
    ibv_send_wr *bad_wr = nullptr;
    check(ibv_post_send(local.qp, &send.wr, &bad_wr), "post"); // wrong: early-access
    if (!corrected)
        initialize();
    wait_success(local.send_cq, "the atomic");
    check(ibv_dereg_mr(counter), "deregister");
}

/// A neighbor of the target on its page is the program's; a peer may write to the other target.
void target_that_peer_writes(const target &target, bool /*corrected*/) {
    loopback link(target, false);
    endpoint &local = link.responder, &peer = link.requester;
    const private_memory memory(local);
    local.post_recv(memory.sge(local, 64));
    local.memory[64] = std::byte{1};
    local.post_recv(local.sge(64, 128));
    peer.post_send(IBV_WR_SEND, peer.sge(), local);
    wait_success(peer.send_cq, "the first message");
    wait_success(local.recv_cq, "its receive");
    std::memset(peer.memory, 3, 64);
    send_request write(IBV_WR_RDMA_WRITE, peer.sge(), &local);
    write.wr.wr.rdma.remote_addr += 128;
    ibv_send_wr *bad_wr = nullptr;
    check(ibv_post_send(peer.qp, &write.wr, &bad_wr), "post");
    wait_success(peer.send_cq, "the Write");
    peer.post_send(IBV_WR_SEND, peer.sge(64, 512), local);
    wait_success(peer.send_cq, "the second message");
    wait_success(local.recv_cq, "its receive");
}

constexpr std::string_view early = "early-access", none = "none", late = "late";
constexpr std::array cases{
    corpus_case{.name = "header_set_after_post",
                .kind = early,
                .run = header_set_after_post,
                .options = late},
    corpus_case{.name = "end_of_buffer_cleared",
                .kind = early,
                .run = end_of_buffer_cleared,
                .options = late},
    // On siw the Read is the device's: see late/README.md.
    corpus_case{.name = "answer_cleared_after_post",
                .kind = early,
                .run = answer_cleared_after_post,
                .needs = rxe,
                .options = late},
    corpus_case{.name = "result_set_after_post",
                .kind = early,
                .run = result_set_after_post,
                .needs = rxe,
                .options = late},
    corpus_case{.name = "target_that_peer_writes",
                .kind = none,
                .run = target_that_peer_writes,
                .options = late},
};

} // namespace

std::span<const corpus_case> late_cases() {
    return cases;
}

} // namespace check_corpus
