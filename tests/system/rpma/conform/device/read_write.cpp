// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// rpma_read(), rpma_write(), rpma_write_with_imm(), rpma_atomic_write() that succeed.

#include "../lib/device.hpp"

#include <arpa/inet.h>
#include <cstring>

namespace conform {

namespace {

/// A connection, and MRs of each side.
struct transfer_objects {
    test_peer peer;
    test_mr local{peer, RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC};
    test_mr remote{peer, RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST};
    conn_pair conns{peer};
    rpma_conn *client = conns.client(), *server = conns.server();
    rpma_cq *cq = cq_of(client);
};

void add_write(case_list &cases) {
    add_case(cases, "write.offsets", [] {
        transfer_objects t;
        t.local.fill("one side writes");
        require_ok(
            rpma_write(t.client, t.remote.remote(), 7, t.local.get(), 4, 4, always, op_context(1)));
        expect_wc(t.cq, 1, IBV_WC_RDMA_WRITE);
        expect_eq(t.remote.text(6, 6), std::string("\0side\0", 6), "the memory");
    });
    add_case(cases, "write.whole_mr", [] {
        transfer_objects t;
        t.local.fill(std::string(test_mr::default_size, 'w'));
        require_ok(rpma_write(t.client, t.remote.remote(), 0, t.local.get(), 0,
                              test_mr::default_size, always, op_context(1)));
        expect_wc(t.cq, 1, IBV_WC_RDMA_WRITE);
        expect_eq(t.remote.text(0, test_mr::default_size), std::string(test_mr::default_size, 'w'),
                  "the memory");
    });
    add_case(cases, "write.no_mrs", [] {
        transfer_objects t;
        require_ok(rpma_write(t.client, nullptr, 0, nullptr, 0, 0, always, op_context(1)));
        expect_wc(t.cq, 1, IBV_WC_RDMA_WRITE);
    });
    add_case(cases, "write.no_bytes", [] {
        transfer_objects t;
        t.local.fill("local");
        require_ok(
            rpma_write(t.client, t.remote.remote(), 0, t.local.get(), 0, 0, always, op_context(1)));
        expect_wc(t.cq, 1, IBV_WC_RDMA_WRITE);
        expect_eq(t.remote.text(0, 1), std::string(1, '\0'), "the memory");
    });
    add_case(cases, "write.by_server", [] {
        transfer_objects t;
        t.local.fill("server");
        require_ok(
            rpma_write(t.server, t.remote.remote(), 0, t.local.get(), 0, 6, always, op_context(1)));
        expect_wc(cq_of(t.server), 1, IBV_WC_RDMA_WRITE);
        expect_eq(t.remote.text(0, 6), "server", "the memory");
    });
}

void add_too_long(case_list &cases) {
    // The length of a segment has 32 bits.
    constexpr std::size_t too_long = std::size_t{1} << 32;
    add_case(cases, "operation.4_gib", [] {
        const transfer_objects t;
        for (const std::size_t len : {too_long, too_long + 8, SIZE_MAX}) {
            const scoped_trace trace(concat(len, " bytes"));
            rpma_mr_local *const local = t.local.get();
            rpma_mr_remote *const remote = t.remote.remote();
            expect_return(rpma_write(t.client, remote, 0, local, 0, len, on_error, nullptr),
                          RPMA_E_INVAL);
            expect_return(
                rpma_write_with_imm(t.client, remote, 0, local, 0, len, on_error, 1, nullptr),
                RPMA_E_INVAL);
            expect_return(rpma_read(t.client, local, 0, remote, 0, len, on_error, nullptr),
                          RPMA_E_INVAL);
            expect_return(rpma_send(t.client, local, 0, len, on_error, nullptr), RPMA_E_INVAL);
            expect_return(rpma_send_with_imm(t.client, local, 0, len, on_error, 1, nullptr),
                          RPMA_E_INVAL);
            expect_return(rpma_recv(t.client, local, 0, len, nullptr), RPMA_E_INVAL);
        }
        expect_no_wc(t.cq);
    });
}

void add_read(case_list &cases) {
    add_case(cases, "read.offsets", [] {
        transfer_objects t;
        t.remote.fill("the other side");
        require_ok(
            rpma_read(t.client, t.local.get(), 1, t.remote.remote(), 4, 5, always, op_context(1)));
        expect_wc(t.cq, 1, IBV_WC_RDMA_READ);
        expect_eq(t.local.text(0, 7), std::string("\0other\0", 7), "the memory");
    });
    add_case(cases, "read.no_mrs", [] {
        transfer_objects t;
        require_ok(rpma_read(t.client, nullptr, 0, nullptr, 0, 0, always, op_context(1)));
        expect_wc(t.cq, 1, IBV_WC_RDMA_READ);
    });
    // Only as destination of reads: on iWARP the peer's response is a write.
    add_case(cases, "read.dst_usage_only", [] {
        transfer_objects t;
        test_mr dst(t.peer, RPMA_MR_USAGE_READ_DST), src(t.peer, RPMA_MR_USAGE_READ_SRC);
        src.fill("data");
        require_ok(rpma_read(t.client, dst.get(), 0, src.remote(), 0, 4, always, op_context(1)));
        expect_wc(t.cq, 1, IBV_WC_RDMA_READ);
        expect_eq(dst.text(0, 4), "data", "the memory");
    });
    add_case(cases, "read.after_write", [] {
        transfer_objects t;
        t.local.fill("written");
        require_ok(rpma_write(t.client, t.remote.remote(), 0, t.local.get(), 0, 7, on_error,
                              op_context(1)));
        require_ok(rpma_read(t.client, t.local.get(), 100, t.remote.remote(), 0, 7, always,
                             op_context(2)));
        expect_wc(t.cq, 2, IBV_WC_RDMA_READ);
        expect_eq(t.local.text(100, 7), "written", "the memory");
    });
}

void add_write_with_imm(case_list &cases) {
    const auto expect_imm = [](rpma_cq *cq, std::uint32_t imm, std::uint32_t length) {
        const ibv_wc wc = expect_wc(cq, 2, IBV_WC_RECV_RDMA_WITH_IMM);
        expect_true((wc.wc_flags & IBV_WC_WITH_IMM) != 0, "no immediate data");
        expect_eq(ntohl(wc.imm_data), imm, "the immediate data");
        expect_eq(wc.byte_len, length, "byte_len");
    };
    add_case(cases, "write_with_imm.data", [=] {
        require_immediate_data();
        transfer_objects t;
        t.local.fill("imm");
        require_ok(rpma_recv(t.server, nullptr, 0, 0, op_context(2)));
        require_ok(rpma_write_with_imm(t.client, t.remote.remote(), 3, t.local.get(), 0, 3, always,
                                       0x12345678, op_context(1)));
        expect_wc(t.cq, 1, IBV_WC_RDMA_WRITE);
        expect_imm(cq_of(t.server), 0x12345678, 3);
        expect_eq(t.remote.text(3, 3), "imm", "the memory");
    });
    add_case(cases, "write_with_imm.no_mrs", [=] {
        require_immediate_data();
        transfer_objects t;
        for (const std::uint32_t imm : {0u, UINT32_MAX}) {
            require_ok(rpma_recv(t.server, nullptr, 0, 0, op_context(2)));
            require_ok(rpma_write_with_imm(t.client, nullptr, 0, nullptr, 0, 0, always, imm,
                                           op_context(1)));
            expect_wc(t.cq, 1, IBV_WC_RDMA_WRITE);
            expect_imm(cq_of(t.server), imm, 0);
        }
    });
    add_case(cases, "write_with_imm.iwarp", [] {
        if (!is_iwarp())
            throw case_skipped{"the device has immediate data"};
        transfer_objects t;
        expect_return(rpma_write_with_imm(t.client, t.remote.remote(), 0, t.local.get(), 0, 3,
                                          always, 1, op_context(1)),
                      RPMA_E_PROVIDER);
        // The QP has not taken it.
        require_ok(rpma_write(t.client, nullptr, 0, nullptr, 0, 0, always, op_context(2)));
        expect_wc(t.cq, 2, IBV_WC_RDMA_WRITE);
    });
}

void add_atomic_write(case_list &cases) {
    add_case(cases, "atomic_write.data", [] {
        transfer_objects t;
        for (const std::size_t offset :
             {std::size_t{0}, std::size_t{8}, test_mr::default_size - 8}) {
            char src[8];
            std::memcpy(src, "8 bytes!", 8);
            require_ok(
                rpma_atomic_write(t.client, t.remote.remote(), offset, src, always, op_context(1)));
            std::memset(src, 'x', 8); // it has been copied
            expect_true(next_wc(t.cq).status == IBV_WC_SUCCESS, "the status is an error");
            expect_eq(t.remote.text(offset, 8), "8 bytes!", "the memory");
        }
        expect_eq(t.remote.text(16, 1), std::string(1, '\0'), "the byte behind");
    });
    add_case(cases, "atomic_write.on_error", [] {
        transfer_objects t;
        require_ok(
            rpma_atomic_write(t.client, t.remote.remote(), 0, "8 bytes!", on_error, op_context(1)));
        require_ok(
            rpma_read(t.client, t.local.get(), 0, t.remote.remote(), 0, 8, always, op_context(2)));
        expect_wc(t.cq, 2, IBV_WC_RDMA_READ);
        expect_eq(t.local.text(0, 8), "8 bytes!", "the memory");
    });
    add_case(cases, "atomic_write.alignment", [] {
        transfer_objects t;
        for (const std::size_t offset : {1u, 4u, 9u})
            expect_return(
                rpma_atomic_write(t.client, t.remote.remote(), offset, "8 bytes!", always, nullptr),
                RPMA_E_INVAL);
        expect_no_wc(t.cq);
    });
    add_case(cases, "atomic_write.unaligned_mr", [] {
        const transfer_objects t;
        mr_handle mr;
        descriptor desc;
        alignas(8) static char aligned[64];
        require_ok(rpma_mr_reg(t.peer.get(), aligned + 4, 16, RPMA_MR_USAGE_WRITE_DST, mr.out()));
        require_ok(rpma_mr_get_descriptor(mr.get(), desc.data()));
        const remote_mr_handle remote = make_remote(desc);
        expect_return(rpma_atomic_write(t.client, remote.get(), 0, "8 bytes!", always, nullptr),
                      RPMA_E_INVAL);
        expect_no_wc(t.cq);
    });
}

} // namespace

void add_read_write(case_list &cases) {
    add_write(cases);
    add_read(cases);
    add_too_long(cases);
    add_write_with_imm(cases);
    add_atomic_write(cases);
}

} // namespace conform
