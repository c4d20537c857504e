// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// rpma_cq_*(), with a completion channel for each CQ.

#include "../lib/device.hpp"
#include "../lib/invalid.hpp"

#include <algorithm>
#include <fcntl.h>

namespace conform {

namespace {

int fd_of(const rpma_cq *cq) {
    int fd = -1;
    require_ok(rpma_cq_get_fd(cq, &fd));
    require(fd >= 0 && fcntl(fd, F_GETFD) >= 0, "no file descriptor");
    return fd;
}
void write_nothing(rpma_conn *conn, int flags, std::uintptr_t wr_id) {
    require_ok(rpma_write(conn, nullptr, 0, nullptr, 0, 0, flags, op_context(wr_id)));
}

void add_get_wc(case_list &cases) {
    add_case(cases, "cq.get_wc.empty", [] {
        const test_peer peer;
        const conn_pair conns(peer);
        unchanged<int> num_got;
        ibv_wc wc[2];
        for (const int num : {1, 2})
            expect_return(rpma_cq_get_wc(cq_of(conns.client()), num, wc, &num_got),
                          RPMA_E_NO_COMPLETION);
        num_got.expect();
    });
    add_case(cases, "cq.get_wc.invalid", [] {
        const test_peer peer;
        const conn_pair conns(peer);
        rpma_cq *const cq = cq_of(conns.client());
        ibv_wc wc[2];
        int num_got = 0;
        write_nothing(conns.client(), always, 1);
        require_ok(rpma_cq_wait(cq));
        for (const int num : {0, -1})
            expect_return(rpma_cq_get_wc(cq, num, wc, &num_got), RPMA_E_INVAL);
        expect_return(rpma_cq_get_wc(cq, 1, nullptr, &num_got), RPMA_E_INVAL);
        expect_return(rpma_cq_get_wc(cq, 2, wc, nullptr), RPMA_E_INVAL);
        expect_wc(cq, 1, IBV_WC_RDMA_WRITE); // it is still there
    });
    add_case(cases, "cq.get_wc.num_entries", [] {
        const test_peer peer;
        const conn_pair conns(peer);
        rpma_cq *const cq = cq_of(conns.client());
        for (std::uintptr_t i = 1; i <= 5; ++i)
            write_nothing(conns.client(), always, i);
        ibv_wc wc[8];
        std::uint64_t next_id = 1;
        for (const int num : {1, 2, 8})
            while (next_id <= (num == 1 ? 1u : num == 2 ? 2u : 5u)) {
                int num_got = 0;
                const int ret = rpma_cq_get_wc(cq, num, wc, &num_got);
                if (ret == RPMA_E_NO_COMPLETION)
                    continue;
                require_ok(ret);
                require(num_got >= 1 && num_got <= num, concat(num_got, " completions of ", num));
                for (int i = 0; i < num_got; ++i)
                    expect_eq(wc[i].wr_id, next_id++, "wr_id");
            }
        expect_eq(next_id, 6, "the next wr_id");
        expect_no_wc(cq);
    });
    add_case(cases, "cq.get_wc.no_num_entries_got", [] {
        const test_peer peer;
        const conn_pair conns(peer);
        rpma_cq *const cq = cq_of(conns.client());
        write_nothing(conns.client(), always, 9);
        require_ok(rpma_cq_wait(cq));
        ibv_wc wc{};
        expect_return(rpma_cq_get_wc(cq, 1, &wc, nullptr), 0);
        expect_eq(wc.wr_id, 9, "wr_id");
        expect_return(rpma_cq_get_wc(cq, 1, &wc, nullptr), RPMA_E_NO_COMPLETION);
    });
}

void add_wait(case_list &cases) {
    add_case(cases, "cq.wait", [] {
        const test_peer peer;
        const conn_pair conns(peer);
        rpma_cq *const cq = cq_of(conns.client());
        for (std::uintptr_t i = 1; i <= 20; ++i) {
            write_nothing(conns.client(), always, i);
            require_ok(rpma_cq_wait(cq));
            expect_wc(cq, i, IBV_WC_RDMA_WRITE);
        }
    });
    add_case(cases, "cq.fd", [] {
        const test_peer peer;
        const conn_pair conns(peer);
        rpma_cq *const cq = cq_of(conns.client());
        const int fd = fd_of(cq);
        expect_true(fd != fd_of(cq_of(conns.server())), "one file for two");
        expect_true(!is_nonblocking(fd), "it is non-blocking");
        expect_true(!is_readable(fd), "it is readable without a completion");
        write_nothing(conns.client(), always, 1);
        wait_readable(fd);
        expect_return(rpma_cq_wait(cq), 0);
        expect_true(!is_readable(fd), "it is readable after rpma_cq_wait()");
        expect_wc(cq, 1, IBV_WC_RDMA_WRITE);
        expect_return(rpma_cq_get_fd(cq, nullptr), RPMA_E_INVAL);
    });
    // The completion that is consumed without rpma_cq_wait() leaves its event.
    add_case(cases, "cq.wait.consumed", [] {
        const test_peer peer;
        const conn_pair conns(peer);
        rpma_cq *const cq = cq_of(conns.client());
        write_nothing(conns.client(), always, 1);
        wait_readable(fd_of(cq));
        expect_wc(cq, 1, IBV_WC_RDMA_WRITE);
        expect_return(rpma_cq_wait(cq), 0);
        expect_no_wc(cq);
        write_nothing(conns.client(), always, 2);
        expect_return(rpma_cq_wait(cq), 0);
        expect_wc(cq, 2, IBV_WC_RDMA_WRITE);
    });
    add_case(cases, "cq.wait.no_completion", [] {
        const test_peer peer;
        const conn_pair conns(peer);
        rpma_cq *const cq = cq_of(conns.client());
        set_nonblocking(fd_of(cq));
        expect_return(rpma_cq_wait(cq), RPMA_E_NO_COMPLETION);
        write_nothing(conns.client(), always, 1);
        wait_readable(fd_of(cq));
        expect_return(rpma_cq_wait(cq), 0);
        expect_wc(cq, 1, IBV_WC_RDMA_WRITE);
        expect_return(rpma_cq_wait(cq), RPMA_E_NO_COMPLETION);
    });
}

void add_flags(case_list &cases) {
    add_case(cases, "cq.completion_on_error", [] {
        const test_peer peer;
        const conn_pair conns(peer);
        rpma_cq *const cq = cq_of(conns.client());
        write_nothing(conns.client(), on_error, 1);
        write_nothing(conns.client(), on_error, 2);
        write_nothing(conns.client(), always, 3);
        expect_wc(cq, 3, IBV_WC_RDMA_WRITE);
        expect_no_wc(cq);
    });
    // The bit that RPMA_F_COMPLETION_ALWAYS has beside the other one asks for the completion.
    add_case(cases, "cq.completion_on_success", [] {
        const test_peer peer;
        const conn_pair conns(peer);
        write_nothing(conns.client(), RPMA_F_COMPLETION_ALWAYS & ~RPMA_F_COMPLETION_ON_ERROR, 1);
        expect_wc(cq_of(conns.client()), 1, IBV_WC_RDMA_WRITE);
    });
    add_case(cases, "cq.null_op_context", [] {
        const test_peer peer;
        const conn_pair conns(peer);
        write_nothing(conns.client(), always, 0);
        write_nothing(conns.client(), always, UINTPTR_MAX);
        expect_wc(cq_of(conns.client()), 0, IBV_WC_RDMA_WRITE);
        expect_wc(cq_of(conns.client()), UINTPTR_MAX, IBV_WC_RDMA_WRITE);
    });
    // Receive completions are in the receive CQ, and no others.
    add_case(cases, "cq.rcq", [] {
        const test_peer peer;
        test_mr dst(peer, RPMA_MR_USAGE_RECV);
        const conn_cfg_object cfg;
        require_ok(rpma_conn_cfg_set_rcq_size(cfg.get(), 10));
        const conn_pair conns(peer, {.client_cfg = cfg.get(), .server_cfg = cfg.get()});
        for (int i = 0; i < 3; ++i)
            require_ok(rpma_recv(conns.server(), dst.get(), 0, 8, op_context(2)));
        for (int i = 0; i < 3; ++i)
            require_ok(rpma_send(conns.client(), nullptr, 0, 0, always, op_context(1)));
        for (int i = 0; i < 3; ++i) {
            expect_wc(rcq_of(conns.server()), 2, IBV_WC_RECV);
            expect_wc(cq_of(conns.client()), 1, IBV_WC_SEND);
        }
        expect_no_wc(cq_of(conns.server()));
        expect_no_wc(rcq_of(conns.client()));
        expect_true(fd_of(rcq_of(conns.server())) != fd_of(cq_of(conns.server())),
                    "one file for two");
    });
}

} // namespace

void add_cq(case_list &cases) {
    add_get_wc(cases);
    add_wait(cases);
    add_flags(cases);
}

} // namespace conform
