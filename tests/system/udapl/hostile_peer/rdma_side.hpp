// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The peer's actions on rdma_cm and libibverbs. One connection at a time: `resolve` and
// `get_request` begin a new one. Nothing is released at exit: that is the kernel's part.

#pragma once

#include "actions.hpp"

#include <map>
#include <rdma/rdma_cma.h>

namespace hostile_peer {

class rdma_side {
  public:
    explicit rdma_side(const sockaddr_in &address)
        : address_(address) {}

    void resolve(); ///< address and route, on a new rdma_cm_id
    void create_qp();
    /// A QP that is not made by rdma_create_qp: librdmacm neither moves it to RTS nor sends an RTU
    /// for it.
    void create_qp_unknown_to_cma();
    /// Begins to connect. On siw, resolves again while the local port is in use.
    void request(const std::vector<unsigned char> &private_data);
    /// Moves the QP of create_qp_unknown_to_cma to RTS, with that max_rd_atomic, or with 0 the
    /// negotiated one.
    void move_to_rts(unsigned long long num_reads);
    void establish(); ///< sends the RTU
    void disconnect();
    void wait_event(rdma_cm_event_type expected); ///< another one is an error
    /// Waits until the connection, or the attempt, has ended; returns how.
    std::string wait_end();

    void listen();
    void get_request();
    void accept(const std::vector<unsigned char> &private_data);
    void reject(const std::vector<unsigned char> &private_data);

    /// Sends so many requests without waiting for their answers.
    void flood(unsigned long long count);
    /// Waits until each of them has ended; returns how many ended by which event.
    std::string wait_flood_end();

    std::string memory(); ///< address and rkey of the buffer, for the consumer's RDMA
    void post_recvs(unsigned long long count, unsigned long long length);
    /// Arguments: count, length, and for RDMA the peer's address and rkey.
    void post_sends(ibv_wr_opcode opcode, const arguments &args);
    /// Waits for so many; returns how many have which status.
    std::string wait_completions(unsigned long long count);

  private:
    rdma_cm_id *create_id();
    rdma_cm_event next_event(); ///< a copy, without private data: the event is acknowledged
    void create_pd_cq_and_mr(ibv_context *verbs);
    ibv_qp_init_attr qp_attr() const;
    void destroy_qp_and_id();
    int connect(const std::vector<unsigned char> &private_data);
    void count_flood_end(const std::string &reason);
    void handle_flood_event(const rdma_cm_event &event);

    sockaddr_in address_;
    rdma_event_channel *channel_ = nullptr;
    rdma_cm_id *listen_id_ = nullptr, *id_ = nullptr;
    ibv_pd *pd_ = nullptr;
    ibv_cq *cq_ = nullptr;
    ibv_mr *mr_ = nullptr;
    ibv_qp *qp_ = nullptr;
    bool qp_unknown_to_cma_ = false; ///< qp_ is of create_qp_unknown_to_cma
    std::vector<unsigned char> buffer_;
    unsigned long long num_flood_requests_ = 0, num_flood_sent_ = 0, num_flood_ended_ = 0;
    std::map<std::string, int> num_flood_ends_by_reason_;
};

} // namespace hostile_peer
