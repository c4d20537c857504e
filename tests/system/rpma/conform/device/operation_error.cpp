// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Operations that fail: by a completion with an error, whether or not one was asked for on success,
// or in the call.

#include "../lib/device.hpp"

namespace conform {

namespace {

constexpr std::size_t mr_size = test_mr::default_size;

/// Each operation that reads or writes remote memory, with a remote MR that does not permit it.
struct remote_operation {
    const char *name;
    bool is_read;
    std::function<int(rpma_conn *, rpma_mr_local *, rpma_mr_remote *, int flags)> post;
};
const remote_operation remote_operations[] = {
    {"write", false,
     [](rpma_conn *conn, rpma_mr_local *local, rpma_mr_remote *remote, int flags) {
         return rpma_write(conn, remote, 0, local, 0, 8, flags, op_context(1));
     }},
    {"read", true,
     [](rpma_conn *conn, rpma_mr_local *local, rpma_mr_remote *remote, int flags) {
         return rpma_read(conn, local, 0, remote, 0, 8, flags, op_context(1));
     }},
    {"atomic_write", false,
     [](rpma_conn *conn, rpma_mr_local *, rpma_mr_remote *remote, int flags) {
         return rpma_atomic_write(conn, remote, 0, "8 bytes!", flags, op_context(1));
     }},
    {"flush", true,
     [](rpma_conn *conn, rpma_mr_local *, rpma_mr_remote *remote, int flags) {
         return rpma_flush(conn, remote, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, flags, op_context(1));
     }},
};

void add_remote_errors(case_list &cases) {
    for (const remote_operation &operation : remote_operations) {
        for (const int flags : {on_error, always}) {
            add_case(cases,
                     concat("error.", operation.name, flags == always ? ".always" : ".on_error"),
                     [=] {
                         if (operation.is_read && is_iwarp())
                             throw case_skipped{"siw's kernel does not check the access of reads"};
                         const test_peer peer;
                         test_mr local(peer, RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC);
                         test_mr remote(peer, RPMA_MR_USAGE_SEND); // no remote access
                         // As a peer could make it up.
                         descriptor desc = remote.desc();
                         desc.back() = 0xff;
                         const remote_mr_handle mr = make_remote(desc);
                         conn_pair conns(peer);
                         require_ok(operation.post(conns.client(), local.get(), mr.get(), flags));
                         if (is_iwarp())
                             conns.expect_terminated(); // a write has no acknowledgement, so it may
                                                        // have succeeded
                         else
                             expect_error_wc(cq_of(conns.client()), 1);
                         expect_eq(remote.text(0, 8), std::string(8, '\0'), "the memory");
                     });
        }
    }
    add_case(cases, "error.write.beyond_remote_mr", [] {
        const test_peer peer;
        test_mr local(peer, RPMA_MR_USAGE_WRITE_SRC), remote(peer, RPMA_MR_USAGE_WRITE_DST);
        conn_pair conns(peer);
        require_ok(rpma_write(conns.client(), remote.remote(), mr_size - 4, local.get(), 0, 8,
                              always, op_context(1)));
        if (is_iwarp())
            conns.expect_terminated(); // a write has no acknowledgement, so it may have succeeded
        else
            expect_error_wc(cq_of(conns.client()), 1);
    });
    add_case(cases, "error.read.beyond_remote_mr", [] {
        const test_peer peer;
        test_mr local(peer, RPMA_MR_USAGE_READ_DST), remote(peer, RPMA_MR_USAGE_READ_SRC);
        const conn_pair conns(peer);
        require_ok(rpma_read(conns.client(), local.get(), 0, remote.remote(), mr_size - 4, 8,
                             on_error, op_context(1)));
        expect_error_wc(cq_of(conns.client()), 1);
    });
    add_case(cases, "error.write.beyond_local_mr", [] {
        const test_peer peer;
        test_mr local(peer, RPMA_MR_USAGE_WRITE_SRC), remote(peer, RPMA_MR_USAGE_WRITE_DST);
        const conn_pair conns(peer);
        require_ok(rpma_write(conns.client(), remote.remote(), 0, local.get(), mr_size - 4, 8,
                              on_error, op_context(1)));
        expect_error_wc(cq_of(conns.client()), 1);
    });
    add_case(cases, "error.deregistered_mr", [] {
        const test_peer peer;
        test_mr local(peer, RPMA_MR_USAGE_READ_DST);
        remote_mr_handle mr;
        {
            test_mr remote(peer, RPMA_MR_USAGE_READ_SRC);
            mr = make_remote(remote.desc());
        }
        const conn_pair conns(peer);
        require_ok(
            rpma_read(conns.client(), local.get(), 0, mr.get(), 0, 8, always, op_context(1)));
        expect_error_wc(cq_of(conns.client()), 1);
    });
}

void add_queue_errors(case_list &cases) {
    // An entry is free once a completion of it or of a later one has been taken.
    add_case(cases, "error.sq_full", [] {
        const test_peer peer;
        const conn_pair conns(peer);
        int num = 0, ret = 0;
        while (num < 100000 && (ret = rpma_write(conns.client(), nullptr, 0, nullptr, 0, 0,
                                                 on_error, nullptr)) == 0)
            ++num;
        expect_return(ret, RPMA_E_PROVIDER);
        expect_true(num >= 10, concat("the SQ has ", num, " entries"));
    });
    add_case(cases, "error.rq_full", [] {
        const test_peer peer;
        test_mr dst(peer, RPMA_MR_USAGE_RECV);
        const conn_pair conns(peer);
        int num = 0, ret = 0;
        while (num < 100000 && (ret = rpma_recv(conns.client(), dst.get(), 0, 8, nullptr)) == 0)
            ++num;
        expect_return(ret, RPMA_E_PROVIDER);
        expect_true(num >= 10, concat("the RQ has ", num, " entries"));
    });
    // Receives that are waiting when the connection ends are completed with an error.
    add_case(cases, "error.recv_flushed", [] {
        const test_peer peer;
        test_mr dst(peer, RPMA_MR_USAGE_RECV);
        conn_pair conns(peer);
        require_ok(rpma_recv(conns.client(), dst.get(), 0, 8, op_context(1)));
        require_ok(rpma_recv(conns.server(), dst.get(), 8, 8, op_context(2)));
        conns.disconnect();
        for (const auto &[conn, wr_id] : {std::pair{conns.client(), 1u}, {conns.server(), 2u}}) {
            const ibv_wc wc = next_wc(cq_of(conn));
            expect_eq(wc.status, IBV_WC_WR_FLUSH_ERR, "the status");
            expect_eq(wc.wr_id, wr_id, "wr_id");
        }
    });
    // After that, operations fail at once or by a completion.
    add_case(cases, "error.after_closed", [] {
        const test_peer peer;
        conn_pair conns(peer);
        conns.disconnect();
        const int ret =
            rpma_write(conns.client(), nullptr, 0, nullptr, 0, 0, on_error, op_context(1));
        expect_return(ret, {0, RPMA_E_PROVIDER});
        if (ret == 0)
            expect_error_wc(cq_of(conns.client()), 1);
    });
    add_case(cases, "error.before_established", [] {
        const test_peer peer;
        const ep_handle ep = listen(peer);
        const conn_handle client = connect(request(peer));
        expect_return(rpma_write(client.get(), nullptr, 0, nullptr, 0, 0, always, nullptr),
                      RPMA_E_PROVIDER);
    });
}

} // namespace

void add_operation_error(case_list &cases) {
    add_remote_errors(cases);
    add_queue_errors(cases);
}

} // namespace conform
