// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// rpma_flush() and rpma_conn_apply_remote_peer_cfg(), which permits flushes to persistency.

#include "../lib/device.hpp"

namespace conform {

namespace {

constexpr int write_dst = RPMA_MR_USAGE_WRITE_DST;
constexpr int visible = RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY;
constexpr int persistent = RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT;

struct flush_objects {
    test_peer peer;
    test_mr local{peer, RPMA_MR_USAGE_WRITE_SRC};
    test_mr remote;
    conn_pair conns{peer};
    rpma_conn *conn = conns.client();
    explicit flush_objects(int usage, std::size_t size = test_mr::default_size)
        : remote(peer, usage, size) {}

    void apply_direct_write(bool supported) const {
        const peer_cfg_object pcfg;
        require_ok(rpma_peer_cfg_set_direct_write_to_pmem(pcfg.get(), supported));
        require_ok(rpma_conn_apply_remote_peer_cfg(conn, pcfg.get()));
    }
    int flush(rpma_flush_type type, std::size_t offset = 0, std::size_t len = 8,
              int flags = always) const {
        return rpma_flush(conn, remote.remote(), offset, len, type, flags, op_context(1));
    }
    /// The flush is done.
    void expect_flush(rpma_flush_type type, std::size_t offset = 0, std::size_t len = 8,
                      source_location loc = current_location()) const {
        require_ok(flush(type, offset, len), loc);
        const ibv_wc wc = next_wc(cq_of(conn));
        require(wc.status == IBV_WC_SUCCESS, concat("the status is ", ibv_wc_status_str(wc.status)),
                loc);
        expect_eq(wc.wr_id, 1, "wr_id", loc);
    }
};

void add_visibility(case_list &cases) {
    add_case(cases, "flush.visibility", [] {
        flush_objects f(write_dst | visible);
        f.local.fill("visible");
        require_ok(
            rpma_write(f.conn, f.remote.remote(), 0, f.local.get(), 0, 7, on_error, nullptr));
        f.expect_flush(RPMA_FLUSH_TYPE_VISIBILITY, 0, 7);
        expect_eq(f.remote.text(0, 7), "visible", "the memory");
    });
    add_case(cases, "flush.visibility.no_write_usage", [] {
        const flush_objects f(visible);
        f.expect_flush(RPMA_FLUSH_TYPE_VISIBILITY);
    });
    add_case(cases, "flush.visibility.not_permitted", [] {
        for (const int usage :
             {write_dst, write_dst | persistent, RPMA_MR_USAGE_READ_SRC | write_dst}) {
            const flush_objects f(usage);
            expect_return(f.flush(RPMA_FLUSH_TYPE_VISIBILITY), RPMA_E_NOSUPP);
            expect_no_wc(cq_of(f.conn));
            break; // one connection per case: the port
        }
    });
    add_case(cases, "flush.visibility.not_permitted_persistent", [] {
        const flush_objects f(write_dst | persistent);
        f.apply_direct_write(true);
        expect_return(f.flush(RPMA_FLUSH_TYPE_VISIBILITY), RPMA_E_NOSUPP);
    });
    // Any part of the MR may be flushed, and nothing else is accessed.
    add_case(cases, "flush.ranges", [] {
        const flush_objects f(write_dst | visible);
        constexpr std::size_t size = test_mr::default_size;
        f.expect_flush(RPMA_FLUSH_TYPE_VISIBILITY, 0, size);
        f.expect_flush(RPMA_FLUSH_TYPE_VISIBILITY, 1, 1);
        f.expect_flush(RPMA_FLUSH_TYPE_VISIBILITY, 13, 100);
        f.expect_flush(RPMA_FLUSH_TYPE_VISIBILITY, size - 8, 8);
    });
    add_case(cases, "flush.last_byte", [] {
        const flush_objects f(write_dst | visible);
        f.expect_flush(RPMA_FLUSH_TYPE_VISIBILITY, test_mr::default_size - 1, 1);
    });
    add_case(cases, "flush.small_mr", [] {
        const flush_objects f(write_dst | visible, 3);
        f.expect_flush(RPMA_FLUSH_TYPE_VISIBILITY, 0, 3);
    });
    add_case(cases, "flush.no_bytes", [] {
        const flush_objects f(write_dst | visible);
        f.expect_flush(RPMA_FLUSH_TYPE_VISIBILITY, 0, 0);
    });
    // rdma-core's provider of siw uses entries of the SQ again that have the segments of earlier
    // requests.
    add_case(cases, "flush.no_bytes.after_writes", [] {
        flush_objects f(write_dst | visible);
        for (int i = 0; i != 64; ++i) {
            require_ok(
                rpma_write(f.conn, f.remote.remote(), 0, f.local.get(), 0, 7, always, nullptr));
            expect_wc(cq_of(f.conn), 0, IBV_WC_RDMA_WRITE);
        }
        f.expect_flush(RPMA_FLUSH_TYPE_VISIBILITY, 0, 0);
        f.expect_flush(RPMA_FLUSH_TYPE_VISIBILITY, 8, 0);
    });
    add_case(cases, "flush.on_error", [] {
        flush_objects f(write_dst | visible);
        require_ok(f.flush(RPMA_FLUSH_TYPE_VISIBILITY, 0, 8, on_error));
        require_ok(rpma_write(f.conn, nullptr, 0, nullptr, 0, 0, always, op_context(2)));
        expect_wc(cq_of(f.conn), 2, IBV_WC_RDMA_WRITE);
        expect_no_wc(cq_of(f.conn));
    });
}

void add_persistent(case_list &cases) {
    add_case(cases, "flush.persistent", [] {
        const flush_objects f(write_dst | persistent);
        f.apply_direct_write(true);
        f.expect_flush(RPMA_FLUSH_TYPE_PERSISTENT);
    });
    add_case(cases, "flush.persistent.default", [] {
        const flush_objects f(write_dst | persistent | visible);
        expect_return(f.flush(RPMA_FLUSH_TYPE_PERSISTENT), RPMA_E_NOSUPP);
        f.expect_flush(RPMA_FLUSH_TYPE_VISIBILITY);
    });
    add_case(cases, "flush.persistent.not_supported", [] {
        const flush_objects f(write_dst | persistent);
        f.apply_direct_write(false);
        expect_return(f.flush(RPMA_FLUSH_TYPE_PERSISTENT), RPMA_E_NOSUPP);
        f.apply_direct_write(true);
        f.expect_flush(RPMA_FLUSH_TYPE_PERSISTENT);
        f.apply_direct_write(false); // the last one counts
        expect_return(f.flush(RPMA_FLUSH_TYPE_PERSISTENT), RPMA_E_NOSUPP);
    });
    add_case(cases, "flush.persistent.not_permitted", [] {
        const flush_objects f(write_dst | visible);
        f.apply_direct_write(true);
        expect_return(f.flush(RPMA_FLUSH_TYPE_PERSISTENT), RPMA_E_NOSUPP);
        f.expect_flush(RPMA_FLUSH_TYPE_VISIBILITY);
    });
    // It is the connection's.
    add_case(cases, "flush.persistent.other_side", [] {
        const flush_objects f(write_dst | persistent);
        f.apply_direct_write(true);
        expect_return(rpma_flush(f.conns.server(), f.remote.remote(), 0, 8,
                                 RPMA_FLUSH_TYPE_PERSISTENT, always, nullptr),
                      RPMA_E_NOSUPP);
    });
}

void add_invalid_flush(case_list &cases) {
    add_case(cases, "flush.unknown_type", [] {
        const flush_objects f(write_dst | persistent | visible);
        f.apply_direct_write(true);
        for (const int type : {-1, 2, 99})
            expect_return(f.flush(static_cast<rpma_flush_type>(type)), RPMA_E_INVAL);
        expect_no_wc(cq_of(f.conn));
    });
    // Before what the connection and the MR permit.
    add_case(cases, "flush.no_flags", [] {
        const flush_objects f(write_dst);
        expect_return(f.flush(RPMA_FLUSH_TYPE_PERSISTENT, 0, 8, 0), RPMA_E_INVAL);
        expect_return(f.flush(RPMA_FLUSH_TYPE_VISIBILITY, 0, 8, 0), RPMA_E_INVAL);
    });
}

} // namespace

void add_flush(case_list &cases) {
    add_visibility(cases);
    add_persistent(cases);
    add_invalid_flush(cases);
}

} // namespace conform
