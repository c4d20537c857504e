// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What cases on a device use: a peer, MRs, and both sides of a connection of this process with
// itself.

#pragma once

#include "descriptor.hpp"
#include "objects.hpp"
#include "run.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace conform {

constexpr int on_error = RPMA_F_COMPLETION_ON_ERROR, always = RPMA_F_COMPLETION_ALWAYS;

/// The device's context, which librdmacm keeps open.
ibv_context *device_context();
bool is_iwarp();
/// Ends the case on iWARP, which has no immediate data.
void require_immediate_data();

class test_peer {
  public:
    test_peer();
    [[nodiscard]] rpma_peer *get() const { return peer_.get(); }

  private:
    peer_handle peer_;
};

/// Memory of zeros, registered.
class test_mr {
  public:
    static constexpr std::size_t default_size = 4096;
    test_mr(const test_peer &peer, int usage, std::size_t size = default_size);
    [[nodiscard]] rpma_mr_local *get() const { return mr_.get(); }
    /// Of a peer that has the descriptor.
    [[nodiscard]] rpma_mr_remote *remote() const { return remote_.get(); }
    [[nodiscard]] descriptor desc() const;
    char *data() { return memory_.data(); }
    void fill(const std::string &text, std::size_t offset = 0);
    [[nodiscard]] std::string text(std::size_t offset, std::size_t length) const {
        return {memory_.data() + offset, length};
    }

  private:
    std::vector<char> memory_;
    mr_handle mr_;
    remote_mr_handle remote_;
};
/// Of a descriptor that is given.
remote_mr_handle make_remote(const descriptor &desc);

/// A listening endpoint at the case's port.
ep_handle listen(const test_peer &peer);
/// A request for a connection to that.
req_handle request(const test_peer &peer, const rpma_conn_cfg *cfg = nullptr);
req_handle next_request(const ep_handle &ep, const rpma_conn_cfg *cfg = nullptr);
/// Connects the request, with private data if there are any.
conn_handle connect(req_handle req, const std::string &private_data = {});

rpma_conn_event next_event(rpma_conn *conn);
void expect_event(rpma_conn *conn, rpma_conn_event expected,
                  source_location loc = current_location());

struct pair_options {
    const rpma_conn_cfg *client_cfg = nullptr, *server_cfg = nullptr;
    std::string client_data = {}, server_data = {};
    std::function<void(rpma_conn_req *)> prepare_server = {}; ///< before it accepts
};
/// Two connections that are connected. The destructor disconnects them if the case has not.
class conn_pair {
  public:
    explicit conn_pair(const test_peer &peer, const pair_options &options = {});
    ~conn_pair();
    conn_pair(const conn_pair &) = delete;
    conn_pair &operator=(const conn_pair &) = delete;

    [[nodiscard]] rpma_conn *client() const { return client_.get(); }
    [[nodiscard]] rpma_conn *server() const { return server_.get(); }
    void disconnect();
    /// Waits until both sides are closed without that: iWARP's peer has found an error.
    void expect_terminated();
    conn_handle &client_handle() { return client_; }
    conn_handle &server_handle() { return server_; }

  private:
    conn_handle client_, server_;
    bool connected_ = false;
};

rpma_cq *cq_of(const rpma_conn *conn);
rpma_cq *rcq_of(const rpma_conn *conn);
/// Waits for a completion.
ibv_wc next_wc(rpma_cq *cq);
/// Waits for a completion with success.
ibv_wc expect_wc(rpma_cq *cq, std::uint64_t wr_id, ibv_wc_opcode opcode,
                 source_location loc = current_location());
/// Waits for a completion with any error.
void expect_error_wc(rpma_cq *cq, std::uint64_t wr_id, source_location loc = current_location());
void expect_no_wc(rpma_cq *cq, source_location loc = current_location());

inline const void *op_context(std::uintptr_t wr_id) {
    return reinterpret_cast<const void *>(wr_id); // NOLINT(performance-no-int-to-ptr)
}

void set_nonblocking(int fd);
bool is_nonblocking(int fd);
/// Waits until the file is readable.
void wait_readable(int fd);
bool is_readable(int fd);

} // namespace conform
