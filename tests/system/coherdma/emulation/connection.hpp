// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A connection of `synced`, with messages that order the steps of both sides. Its memory is that of
// local buffers only: the provider syncs it, or with --local the program.
#pragma once

#include "../../lib/verbs.hpp"
#include "sync_calls.hpp"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <infiniband/verbs.h>
#include <map>
#include <rdma/rdma_cma.h>
#include <set>
#include <span>
#include <vector>

namespace synced {

using verbs_test::check;
using verbs_test::concat;
using verbs_test::failure;
using verbs_test::unique_handle;
using bytes = std::span<std::byte>;

constexpr std::size_t LINE = 256; // the longest emulated cache line

// Registered memory that shares no cache line with other memory; not a multiple of pages.
class registered_memory {
  public:
    registered_memory(ibv_pd *pd, std::size_t length, unsigned access);
    [[nodiscard]] bytes range(std::size_t offset, std::size_t length) const;
    [[nodiscard]] ibv_sge make_sge(bytes range) const;
    [[nodiscard]] const ibv_mr *key() const noexcept { return mr_.get(); }
    [[nodiscard]] std::size_t length() const noexcept { return length_; }

  private:
    static void free_memory(std::byte *memory) noexcept { std::free(memory); }
    std::size_t length_;
    unique_handle<std::byte, free_memory> memory_;
    unique_handle<ibv_mr, ibv_dereg_mr> mr_;
};

enum class connection_style : std::uint8_t {
    PLAIN,
    SRQ,    // uses an SRQ
    WR_API, // posts with the ibv_wr_* API
    CQ_EX,  // polls with the ibv_start_poll API
};

// A message between both sides. The immediate data of a Write are also delivered as a message.
struct message {
    std::uint32_t length = 0; // of the data that follow
    std::uint32_t immediate = 0;
    std::uint64_t address = 0;
    std::uint32_t key = 0;
    std::uint32_t padding = 0;
};

class connection {
  public:
    static constexpr std::size_t MAX_DATA = 1500;         // data in a message
    static constexpr std::size_t BUFFER_SIZE = 11 * LINE; // memory for RDMA requests
    static const std::size_t MEMORY_SIZE;

    // Uses MEMORY_SIZE bytes of `memory` from `offset`.
    connection(rdma_cm_id *id, ibv_pd *pd, connection_style style, const registered_memory &memory,
               std::size_t offset, const local_syncer &sync_local);

    void send_message(const message &msg, std::span<const std::byte> data = {});
    // Blocks. received_data() is valid until the next call.
    message receive_message();
    [[nodiscard]] std::span<const std::byte> received_data() const noexcept { return data_; }

    // Posts a WR whose wr_id is set by this function; returns the wr_id.
    std::uint64_t post(ibv_send_wr wr);
    void wait_completed(std::uint64_t wr_id);
    void post_and_wait(const ibv_send_wr &wr) { wait_completed(post(wr)); }
    // Memory for the source or sink of a request.
    [[nodiscard]] bytes buffer(std::size_t offset, std::size_t length) const;
    [[nodiscard]] ibv_sge make_sge(bytes buf) const { return memory_.make_sge(buf); }
    [[nodiscard]] rdma_cm_id *id() const noexcept { return id_.get(); }

  private:
    static void destroy_qp(rdma_cm_id *id) noexcept;
    void create_queues(ibv_pd *pd);
    [[nodiscard]] bytes slot_memory(std::size_t index, std::size_t length) const;
    void post_recv(std::size_t slot);
    void sync_message_memory(local_kind, bytes buf) const;
    void sync_before_post(const ibv_send_wr &wr);
    void post_with_wr_api(const ibv_send_wr &wr);
    bool poll_cq();
    bool poll_cq_ex();
    void handle_completion(std::uint64_t wr_id, ibv_wc_status status, ibv_wc_opcode opcode,
                           std::uint32_t immediate);
    void wait_for_completion();

    connection_style style_;
    unique_handle<rdma_cm_id, rdma_destroy_id> id_;
    const registered_memory &memory_;
    std::size_t offset_;
    const local_syncer &sync_local_;
    std::vector<ibv_sge> sinks_; // of posted requests, to be synced when they have completed
    unique_handle<ibv_comp_channel, ibv_destroy_comp_channel> channel_;
    unique_handle<ibv_cq, ibv_destroy_cq> cq_;
    unique_handle<ibv_srq, ibv_destroy_srq> srq_;
    unique_handle<rdma_cm_id, destroy_qp> qp_owner_;
    struct received_message {
        std::size_t slot;
        bool is_write;
        std::uint32_t immediate;
    };
    std::deque<received_message> received_;
    std::set<std::uint64_t> completed_;
    static constexpr std::uint64_t FIRST_SEND_WR_ID = 1000; // smaller ones are slots of receives
    std::uint64_t next_wr_id_ = FIRST_SEND_WR_ID;
    std::array<std::byte, MAX_DATA> data_buffer_{};
    std::span<const std::byte> data_;
};

} // namespace synced
