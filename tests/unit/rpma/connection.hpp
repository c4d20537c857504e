// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A connection with memory on both sides. No byte of the memory is used.
#pragma once

#include "fake/rdma.hpp"

#include <array>

namespace fake {

constexpr std::uint64_t LOCAL_ADDR = 0x10000, REMOTE_ADDR = 0x20000;
constexpr int ALL_USAGES = 0xff;

inline rpma_mr_remote *create_remote(std::uint64_t addr, int usage) {
    std::array<unsigned char, 21> desc = {};
    for (std::size_t i = 0; i != 8; ++i)
        desc[i] = static_cast<unsigned char>(addr >> 8 * i);
    desc[13] = 1; // size
    desc[16] = RKEY;
    desc[20] = static_cast<unsigned char>(usage);
    rpma_mr_remote *mr = nullptr;
    assert_int_equal(rpma_mr_remote_from_descriptor(desc.data(), desc.size(), &mr), 0);
    return mr;
}

struct connection {
    rpma_peer *peer = create_peer();
    rpma_conn *conn = nullptr;
    rpma_mr_local *local = nullptr;
    rpma_mr_remote *remote = create_remote(REMOTE_ADDR, ALL_USAGES);

    explicit connection(const rpma_conn_cfg *cfg = nullptr) {
        rpma_conn_req *req = nullptr;
        assert_int_equal(rpma_conn_req_new(peer, "192.0.2.1", "7204", cfg, &req), 0);
        assert_int_equal(rpma_conn_req_connect(&req, nullptr, &conn), 0);
        assert_int_equal(rpma_mr_reg(peer, reinterpret_cast<void *>(LOCAL_ADDR), SIZE_MAX >> 1,
                                     ALL_USAGES, &local),
                         0);
    }
    ~connection() {
        assert_int_equal(rpma_mr_remote_delete(&remote), 0);
        assert_int_equal(rpma_mr_dereg(&local), 0);
        assert_int_equal(rpma_conn_delete(&conn), 0);
        assert_int_equal(rpma_peer_delete(&peer), 0);
    }
    connection(const connection &) = delete;

    /// Applies what the peer declares.
    void set_direct_write_to_pmem(bool supported) {
        rpma_peer_cfg *cfg = nullptr;
        assert_int_equal(rpma_peer_cfg_new(&cfg), 0);
        assert_int_equal(rpma_peer_cfg_set_direct_write_to_pmem(cfg, supported), 0);
        assert_int_equal(rpma_conn_apply_remote_peer_cfg(conn, cfg), 0);
        assert_int_equal(rpma_peer_cfg_delete(&cfg), 0);
    }
};

inline const void *to_context(std::uintptr_t value) {
    return reinterpret_cast<const void *>(value);
}

} // namespace fake
