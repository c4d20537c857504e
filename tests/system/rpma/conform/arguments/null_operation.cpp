// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Invalid arguments of operations and of rpma_cq_get_wc(). They are checked before the objects are
// looked at.

#include "../lib/invalid.hpp"
#include "../lib/run.hpp"

namespace conform {

namespace {

constexpr int always = RPMA_F_COMPLETION_ALWAYS;
rpma_conn *conn() {
    return fake_object<rpma_conn>();
}
rpma_mr_local *local() {
    return fake_object<rpma_mr_local>();
}
rpma_mr_remote *remote() {
    return fake_object<rpma_mr_remote>();
}

/// Arguments of a transfer between two MRs.
struct transfer {
    const char *problem;
    rpma_conn *conn;
    rpma_mr_local *local;
    std::size_t local_offset;
    rpma_mr_remote *remote;
    std::size_t remote_offset, len;
    int flags;
};
std::vector<transfer> invalid_transfers() {
    return {
        {"no conn", nullptr, local(), 0, remote(), 0, 8, always},
        {"no conn, no MRs", nullptr, nullptr, 0, nullptr, 0, 0, always},
        {"no flags", conn(), local(), 0, remote(), 0, 8, 0},
        {"no flags, no MRs", conn(), nullptr, 0, nullptr, 0, 0, 0},
        {"only a remote MR", conn(), nullptr, 0, remote(), 0, 0, always},
        {"only a local MR", conn(), local(), 0, nullptr, 0, 0, always},
        {"no MRs, a local offset", conn(), nullptr, 1, nullptr, 0, 0, always},
        {"no MRs, a remote offset", conn(), nullptr, 0, nullptr, 1, 0, always},
        {"no MRs, a length", conn(), nullptr, 0, nullptr, 0, 1, always},
    };
}
template <class Call>
void add_transfer(case_list &cases, const char *name, const Call &call) {
    add_case(cases, concat("null.", name), [call] {
        for (const transfer &args : invalid_transfers()) {
            const scoped_trace trace(args.problem);
            expect_return(call(args), RPMA_E_INVAL);
        }
    });
}

/// Arguments of a transfer of one MR.
struct message {
    const char *problem;
    bool has_conn, has_mr;
    std::size_t offset, len;
    int flags;
};
constexpr message invalid_messages[] = {
    {"no conn", false, true, 0, 8, always},
    {"no conn, no MR", false, false, 0, 0, always},
    {"no MR, offset", true, false, 1, 0, always},
    {"no MR, length", true, false, 0, 1, always},
    {"no flags", true, true, 0, 8, 0},
    {"no flags, no MR", true, false, 0, 0, 0},
};
template <class Call>
void add_message(case_list &cases, const char *name, bool has_flags, const Call &call) {
    add_case(cases, concat("null.", name), [has_flags, call] {
        for (const message &args : invalid_messages) {
            const scoped_trace trace(args.problem);
            if (args.flags || has_flags)
                expect_return(call(args, args.has_mr ? local() : nullptr), RPMA_E_INVAL);
        }
    });
}

void add_atomic_write(case_list &cases) {
    static constexpr char src[8] = {};
    add_case(cases, "null.rpma_atomic_write", [] {
        expect_return(rpma_atomic_write(nullptr, remote(), 0, src, always, nullptr), RPMA_E_INVAL);
        expect_return(rpma_atomic_write(conn(), nullptr, 0, src, always, nullptr), RPMA_E_INVAL);
        expect_return(rpma_atomic_write(conn(), remote(), 0, nullptr, always, nullptr),
                      RPMA_E_INVAL);
        expect_return(rpma_atomic_write(conn(), remote(), 0, src, 0, nullptr), RPMA_E_INVAL);
    });
    add_case(cases, "null.rpma_atomic_write.alignment", [] {
        for (std::size_t offset = 1; offset < 17; ++offset)
            if (offset % RPMA_ATOMIC_WRITE_ALIGNMENT != 0)
                expect_return(rpma_atomic_write(conn(), remote(), offset, src, always, nullptr),
                              RPMA_E_INVAL);
    });
}

void add_cq_get_wc(case_list &cases) {
    add_case(cases, "null.rpma_cq_get_wc", [] {
        unchanged<ibv_wc[2]> wc;
        unchanged<int> num_got;
        rpma_cq *const cq = fake_object<rpma_cq>();
        ibv_wc *const wcs = *&wc;
        expect_return(rpma_cq_get_wc(nullptr, 1, wcs, &num_got), RPMA_E_INVAL);
        expect_return(rpma_cq_get_wc(cq, 1, nullptr, &num_got), RPMA_E_INVAL);
        expect_return(rpma_cq_get_wc(cq, 0, wcs, &num_got), RPMA_E_INVAL);
        expect_return(rpma_cq_get_wc(cq, -1, wcs, &num_got), RPMA_E_INVAL);
        expect_return(rpma_cq_get_wc(cq, 2, wcs, nullptr), RPMA_E_INVAL);
        wc.expect();
        num_got.expect();
    });
}

} // namespace

void add_null_operation(case_list &cases) {
    add_transfer(cases, "rpma_read", [](const transfer &args) {
        return rpma_read(args.conn, args.local, args.local_offset, args.remote, args.remote_offset,
                         args.len, args.flags, nullptr);
    });
    add_transfer(cases, "rpma_write", [](const transfer &args) {
        return rpma_write(args.conn, args.remote, args.remote_offset, args.local, args.local_offset,
                          args.len, args.flags, nullptr);
    });
    add_transfer(cases, "rpma_write_with_imm", [](const transfer &args) {
        return rpma_write_with_imm(args.conn, args.remote, args.remote_offset, args.local,
                                   args.local_offset, args.len, args.flags, 1, nullptr);
    });
    add_atomic_write(cases);
    // The arguments are checked before what the connection and the MR support.
    add_case(cases, "null.rpma_flush", [] {
        for (const rpma_flush_type type :
             {RPMA_FLUSH_TYPE_PERSISTENT, RPMA_FLUSH_TYPE_VISIBILITY}) {
            expect_return(rpma_flush(nullptr, remote(), 0, 8, type, always, nullptr), RPMA_E_INVAL);
            expect_return(rpma_flush(conn(), nullptr, 0, 8, type, always, nullptr), RPMA_E_INVAL);
            expect_return(rpma_flush(conn(), remote(), 0, 8, type, 0, nullptr), RPMA_E_INVAL);
        }
    });
    add_message(cases, "rpma_send", true, [](const message &args, rpma_mr_local *mr) {
        return rpma_send(args.has_conn ? conn() : nullptr, mr, args.offset, args.len, args.flags,
                         nullptr);
    });
    add_message(cases, "rpma_send_with_imm", true, [](const message &args, rpma_mr_local *mr) {
        return rpma_send_with_imm(args.has_conn ? conn() : nullptr, mr, args.offset, args.len,
                                  args.flags, 1, nullptr);
    });
    add_message(cases, "rpma_recv", false, [](const message &args, rpma_mr_local *mr) {
        return rpma_recv(args.has_conn ? conn() : nullptr, mr, args.offset, args.len, nullptr);
    });
    add_message(cases, "rpma_srq_recv", false, [](const message &args, rpma_mr_local *mr) {
        return rpma_srq_recv(args.has_conn ? fake_object<rpma_srq>() : nullptr, mr, args.offset,
                             args.len, nullptr);
    });
    // Unlike the others, it has no form without an MR.
    add_case(cases, "null.rpma_conn_req_recv", [] {
        rpma_conn_req *const req = fake_object<rpma_conn_req>();
        expect_return(rpma_conn_req_recv(nullptr, local(), 0, 8, local()), RPMA_E_INVAL);
        expect_return(rpma_conn_req_recv(req, nullptr, 0, 8, local()), RPMA_E_INVAL);
        expect_return(rpma_conn_req_recv(req, nullptr, 0, 0, local()), RPMA_E_INVAL);
    });
    add_cq_get_wc(cases);
}

} // namespace conform
