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

    void resolve();
    void create_qp();
    /// A QP that librdmacm does not know: it sends no RTU for it.
    void create_unready_qp();
    void request(const std::vector<unsigned char> &private_data);
    /// Moves an unready QP to RTS, with so many outstanding Reads, or with 0 as many as negotiated.
    void move_to_rts(unsigned long long num_reads);
    void establish(); ///< sends the RTU
    void disconnect();
    void wait_event(rdma_cm_event_type expected);
    /// Waits until the connection, or the attempt, has ended; returns how.
    std::string wait_end();

    void listen();
    void get_request();
    void accept(const std::vector<unsigned char> &private_data);
    void reject(const std::vector<unsigned char> &private_data);

    /// Sends so many requests without waiting for their answers.
    void flood(unsigned long long count);
    std::string wait_flood_end();

    std::string memory();
    void post_recvs(unsigned long long count, unsigned long long length);
    /// Arguments: count, length, and for RDMA the peer's address and rkey.
    void post_sends(ibv_wr_opcode opcode, const arguments &args);
    std::string wait_completions(unsigned long long count);

  private:
    rdma_cm_id *create_id();
    rdma_cm_event next_event();
    void prepare_verbs(ibv_context *verbs);
    ibv_qp_init_attr qp_attr() const;
    void release_connection();
    int connect(const std::vector<unsigned char> &private_data);
    void note_flood_end(const std::string &reason);
    void handle_flood_event(const rdma_cm_event &event);

    sockaddr_in address_;
    rdma_event_channel *channel_ = nullptr;
    rdma_cm_id *listen_id_ = nullptr, *id_ = nullptr;
    ibv_pd *pd_ = nullptr;
    ibv_cq *cq_ = nullptr;
    ibv_mr *mr_ = nullptr;
    ibv_qp *qp_ = nullptr;
    bool unready_ = false;
    std::vector<unsigned char> buffer_;
    unsigned long long flood_size_ = 0, flood_requested_ = 0, flood_ended_ = 0;
    std::map<std::string, int> flood_ends_;
};

} // namespace hostile_peer
