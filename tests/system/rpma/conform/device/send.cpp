// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// rpma_send(), rpma_send_with_imm(), rpma_recv().

#include "../lib/device.hpp"

#include <arpa/inet.h>

namespace conform {

namespace {

struct message_objects {
    test_peer peer;
    test_mr src{peer, RPMA_MR_USAGE_SEND}, dst{peer, RPMA_MR_USAGE_RECV};
    conn_pair conns{peer};
    rpma_conn *client = conns.client(), *server = conns.server();
};

ibv_wc expect_message(const message_objects &m, std::uint32_t length) {
    expect_wc(cq_of(m.client), 1, IBV_WC_SEND);
    const ibv_wc wc = expect_wc(cq_of(m.server), 2, IBV_WC_RECV);
    expect_eq(wc.byte_len, length, "byte_len");
    return wc;
}

void add_messages(case_list &cases) {
    add_case(cases, "send.offsets", [] {
        message_objects m;
        m.src.fill("a message");
        require_ok(rpma_recv(m.server, m.dst.get(), 5, 100, op_context(2)));
        require_ok(rpma_send(m.client, m.src.get(), 2, 7, always, op_context(1)));
        const ibv_wc wc = expect_message(m, 7);
        expect_true((wc.wc_flags & IBV_WC_WITH_IMM) == 0, "there are immediate data");
        expect_eq(m.dst.text(4, 9), std::string("\0message\0", 9), "the memory");
    });
    add_case(cases, "send.no_mrs", [] {
        const message_objects m;
        require_ok(rpma_recv(m.server, nullptr, 0, 0, op_context(2)));
        require_ok(rpma_send(m.client, nullptr, 0, 0, always, op_context(1)));
        expect_message(m, 0);
    });
    add_case(cases, "send.no_bytes", [] {
        message_objects m;
        require_ok(rpma_recv(m.server, m.dst.get(), 0, 0, op_context(2)));
        require_ok(rpma_send(m.client, m.src.get(), 0, 0, always, op_context(1)));
        expect_message(m, 0);
    });
    add_case(cases, "send.on_error", [] {
        message_objects m;
        require_ok(rpma_recv(m.server, m.dst.get(), 0, 8, op_context(2)));
        require_ok(rpma_send(m.client, m.src.get(), 0, 8, on_error, op_context(3)));
        expect_wc(cq_of(m.server), 2, IBV_WC_RECV);
        require_ok(rpma_write(m.client, nullptr, 0, nullptr, 0, 0, always, op_context(1)));
        expect_wc(cq_of(m.client), 1, IBV_WC_RDMA_WRITE);
        expect_no_wc(cq_of(m.client));
    });
    add_case(cases, "send.both_ways", [] {
        message_objects m;
        test_mr src(m.peer, RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV);
        for (int i = 0; i < 20; ++i) {
            const std::string text = concat("message ", i);
            require_ok(rpma_recv(m.server, m.dst.get(), 0, 100, op_context(2)));
            require_ok(rpma_recv(m.client, src.get(), 100, 100, op_context(3)));
            src.fill(text);
            require_ok(rpma_send(m.client, src.get(), 0, text.size(), always, op_context(1)));
            expect_message(m, static_cast<std::uint32_t>(text.size()));
            expect_eq(m.dst.text(0, text.size()), text, "the memory");
            m.src.fill(text + "!");
            require_ok(rpma_send(m.server, m.src.get(), 0, text.size() + 1, always, op_context(4)));
            expect_wc(cq_of(m.server), 4, IBV_WC_SEND);
            expect_wc(cq_of(m.client), 3, IBV_WC_RECV);
            expect_eq(src.text(100, text.size() + 1), text + "!", "the memory");
        }
    });
    add_case(cases, "send.too_long", [] {
        message_objects m;
        require_ok(rpma_recv(m.server, m.dst.get(), 0, 4, op_context(2)));
        require_ok(rpma_send(m.client, m.src.get(), 0, 8, always, op_context(1)));
        expect_error_wc(cq_of(m.server), 2);
        expect_eq(m.dst.text(4, 4), std::string(4, '\0'), "the memory");
    });
    add_case(cases, "recv.beyond_mr", [] {
        message_objects m;
        const int ret =
            rpma_recv(m.server, m.dst.get(), test_mr::default_size - 4, 8, op_context(2));
        expect_return(ret, {0, RPMA_E_PROVIDER});
        if (ret != 0)
            return;
        require_ok(rpma_send(m.client, m.src.get(), 0, 8, always, op_context(1)));
        expect_error_wc(cq_of(m.server), 2);
    });
}

void add_immediate(case_list &cases) {
    add_case(cases, "send_with_imm.data", [] {
        require_immediate_data();
        message_objects m;
        m.src.fill("imm");
        require_ok(rpma_recv(m.server, m.dst.get(), 0, 100, op_context(2)));
        require_ok(
            rpma_send_with_imm(m.client, m.src.get(), 0, 3, always, 0x87654321, op_context(1)));
        const ibv_wc wc = expect_message(m, 3);
        expect_true((wc.wc_flags & IBV_WC_WITH_IMM) != 0, "no immediate data");
        expect_eq(ntohl(wc.imm_data), 0x87654321, "the immediate data");
        expect_eq(m.dst.text(0, 3), "imm", "the memory");
    });
    add_case(cases, "send_with_imm.no_mrs", [] {
        require_immediate_data();
        const message_objects m;
        for (const std::uint32_t imm : {0u, UINT32_MAX}) {
            require_ok(rpma_recv(m.server, nullptr, 0, 0, op_context(2)));
            require_ok(rpma_send_with_imm(m.client, nullptr, 0, 0, always, imm, op_context(1)));
            const ibv_wc wc = expect_message(m, 0);
            expect_true((wc.wc_flags & IBV_WC_WITH_IMM) != 0, "no immediate data");
            expect_eq(ntohl(wc.imm_data), imm, "the immediate data");
        }
    });
    add_case(cases, "send_with_imm.iwarp", [] {
        if (!is_iwarp())
            throw case_skipped{"the device has immediate data"};
        const message_objects m;
        expect_return(rpma_send_with_imm(m.client, nullptr, 0, 0, always, 1, op_context(1)),
                      RPMA_E_PROVIDER);
        require_ok(rpma_write(m.client, nullptr, 0, nullptr, 0, 0, always, op_context(2)));
        expect_wc(cq_of(m.client), 2, IBV_WC_RDMA_WRITE);
    });
}

} // namespace

void add_send(case_list &cases) {
    add_messages(cases);
    add_immediate(cases);
}

} // namespace conform
