// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// One side of a connection: the owner of the memory, or its peer. Syncs the local memory of its own
// requests, so that no finding is about that.
#pragma once

#include "../../lib/rdmacm_loopback.hpp"

#include <coherdma/coherdma.h>
#include <cstdint>
#include <span>
#include <string>

namespace omissions {

using verbs_test::check;
using verbs_test::concat;
using verbs_test::failure;
using verbs_test::unique_handle;
using bytes = std::span<std::byte>;

inline coherdma_range range_of(bytes data) noexcept {
    return {.addr = data.data(), .length = data.size()};
}
inline std::uint64_t address_of(bytes data) noexcept {
    return reinterpret_cast<std::uintptr_t>(data.data());
}

/// Memory of the other side.
struct remote_memory {
    std::uint64_t address = 0;
    std::uint32_t rkey = 0;
};

class side {
  public:
    static constexpr std::size_t MAX_LENGTH = 1024; // of a request
    static constexpr std::size_t MESSAGE_LENGTH = 32;
    static constexpr int MESSAGE_VALUE = 5; // of all its bytes

    /// Listens; tells the port, and returns when the peer has connected. On iWARP the peer sends
    /// the first message.
    void accept_peer(const std::string &address,
                     const std::function<void(std::uint16_t)> &tell_port);
    void connect_to_owner(const std::string &address, std::uint16_t port);

    [[nodiscard]] const coherdma_device *device() const noexcept { return device_.get(); }
    [[nodiscard]] ibv_pd *pd() const noexcept { return endpoint_.pd.get(); }
    [[nodiscard]] ibv_qp *qp() const noexcept { return endpoint_.qp(); }
    [[nodiscard]] bool is_iwarp() const noexcept {
        return endpoint_.id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
    }

    // Each has lines of its own, and is registered.
    [[nodiscard]] bytes request_buffer() { return part(0, MAX_LENGTH); }
    [[nodiscard]] bytes exposed_memory() { return part(1, MAX_LENGTH); } // to the other side
    [[nodiscard]] bytes message() { return part(2, MESSAGE_LENGTH); }
    [[nodiscard]] remote_memory expose() {
        return {address_of(exposed_memory()), endpoint_.mr->rkey};
    }

    /// Posts a request and polls its completion. It leaves the sync of its SGE to the caller.
    void post(ibv_send_wr &wr) const;
    /// The same for one with this SGE, of request_buffer() or of memory with that lkey.
    void post(ibv_wr_opcode opcode, bytes buffer, std::uint32_t lkey, remote_memory target,
              unsigned flags = 0) const;
    /// Does not wait: a request that is posted later completes behind it.
    void post_unsignaled(ibv_wr_opcode opcode, bytes buffer, std::uint32_t lkey,
                         remote_memory target) const;
    /// Returns the status.
    ibv_wc_status post_failing(ibv_wr_opcode opcode, bytes buffer, std::uint32_t lkey,
                               remote_memory target) const;
    /// A Send with two SGEs.
    void post_both(bytes first, bytes second, std::uint32_t lkey) const;
    void post_atomic(ibv_wr_opcode opcode, bytes buffer, std::uint32_t lkey, remote_memory target,
                     std::uint64_t compare_or_add, std::uint64_t swap) const;
    [[nodiscard]] std::uint32_t lkey() const noexcept { return endpoint_.mr->lkey; }

    /// A Send of message(), and the Receive of the other side's one: the bytes received.
    void send_message();
    std::array<std::byte, MESSAGE_LENGTH> receive_message();
    // Of another buffer, whose sync is left to the caller.
    void post_receive(bytes buffer, std::uint32_t lkey) const;
    void poll_receive() const { endpoint_.recv_cq.expect_success("a Receive"); }

    void sync_for_device(bytes buffer, std::uint32_t direction) const;
    void sync_for_cpu(bytes buffer) const;

  private:
    [[nodiscard]] bytes part(std::size_t index, std::size_t length) {
        return bytes(endpoint_.memory).subspan(index * MAX_LENGTH, length);
    }
    [[nodiscard]] bytes received_message() { return part(3, MESSAGE_LENGTH); }
    [[nodiscard]] std::unique_ptr<rdma_cm_id, verbs_test::endpoint::cm_id_deleter>
    create_id() const;
    rdma_cm_id *expect_event(rdma_cm_event_type type) const {
        return verbs_test::expect_event(*events_, type);
    }
    void create_queues();

    unique_handle<rdma_event_channel, rdma_destroy_event_channel> events_ = check(
        decltype(events_)(rdma_create_event_channel()), "open the RDMA CM (modprobe rdma_ucm)");
    std::unique_ptr<rdma_cm_id, verbs_test::endpoint::cm_id_deleter> listener_;
    verbs_test::endpoint endpoint_;
    unique_handle<coherdma_device, coherdma_close_device> device_;
};

} // namespace omissions
