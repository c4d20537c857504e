// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The request that each operation posts. Arguments have different values, so that a swapped one is
// found. The local memory begins at 0x10000, the peer's at 0x20000; their keys are 0x51 and 0x52.

#include "connection.hpp"

#include <functional>

using namespace fake;

namespace {

constexpr std::size_t TOO_LONG = std::size_t{UINT32_MAX} + 1;

/// The values that RPMA_F_COMPLETION_* may have, and the flags of the request.
struct completion_flags {
    int flags;
    const char *text;
};
const completion_flags all_flags[] = {{1, ""}, {2, " signaled"}, {3, " signaled"}};

std::string expected_post(const char *operation, const char *flags, const std::string &memory,
                          const char *remote = "") {
    return std::string(operation) + " 0x77" + flags + ": " + memory + remote;
}

void assert_posts(int ret, const std::string &expected) {
    assert_int_equal(ret, 0);
    assert_string_equal(take_posts().c_str(), expected.c_str());
}
void assert_invalid(int ret) {
    assert_int_equal(ret, RPMA_E_INVAL);
    assert_string_equal(take_posts().c_str(), "");
}

/// Lengths of a request, and its memory from offset 0x30.
const std::pair<std::size_t, const char *> lengths[] = {
    {0, "0x10030+0 lkey 0x51"}, {1, "0x10030+1 lkey 0x51"},
    {7, "0x10030+7 lkey 0x51"}, {8, "0x10030+8 lkey 0x51"},
    {9, "0x10030+9 lkey 0x51"}, {UINT32_MAX, "0x10030+4294967295 lkey 0x51"}};
constexpr const char *REMOTE = ", remote 0x20040 rkey 0x52";
constexpr const char *NO_REMOTE = ", remote 0 rkey 0";

/// An RDMA Read or Write with any memory, offsets, length and flags.
using remote_function = std::function<int(rpma_conn *, rpma_mr_local *, std::size_t,
                                          rpma_mr_remote *, std::size_t, std::size_t, int)>;

void check_remote_operation(const char *name, const remote_function &function) {
    connection connected;
    rpma_conn *const conn = connected.conn;
    rpma_mr_local *const local = connected.local;
    rpma_mr_remote *const remote = connected.remote;
    for (const auto &[flags, flags_text] : all_flags) {
        for (const auto &[length, memory] : lengths)
            assert_posts(function(conn, local, 0x30, remote, 0x40, length, flags),
                         expected_post(name, flags_text, memory, REMOTE));
        assert_posts(function(conn, nullptr, 0, nullptr, 0, 0, flags),
                     expected_post(name, flags_text, "no memory", NO_REMOTE));
    }
    assert_invalid(function(conn, local, 0x30, remote, 0x40, TOO_LONG, 2));
    assert_invalid(function(conn, local, 0x30, remote, 0x40, SIZE_MAX, 2));
    assert_invalid(function(nullptr, local, 0, remote, 0, 8, 2));
    assert_invalid(function(conn, local, 0, remote, 0, 8, 0));
    assert_invalid(function(conn, nullptr, 0, remote, 0, 0, 2));
    assert_invalid(function(conn, local, 0, nullptr, 0, 0, 2));
    assert_invalid(function(conn, nullptr, 1, nullptr, 0, 0, 2));
    assert_invalid(function(conn, nullptr, 0, nullptr, 1, 0, 2));
    assert_invalid(function(conn, nullptr, 0, nullptr, 0, 1, 2));
    fail_calls(POST, ENOMEM);
    assert_int_equal(function(conn, local, 0, remote, 0, 8, 2), RPMA_E_PROVIDER);
    assert_int_equal(errno, ENOMEM);
    fail_none();
}

void read_posts_one_request(void **) {
    check_remote_operation("Read", [](rpma_conn *conn, rpma_mr_local *local,
                                      std::size_t local_offset, rpma_mr_remote *remote,
                                      std::size_t remote_offset, std::size_t length, int flags) {
        return rpma_read(conn, local, local_offset, remote, remote_offset, length, flags,
                         to_context(0x77));
    });
}

void write_posts_one_request(void **) {
    check_remote_operation("Write", [](rpma_conn *conn, rpma_mr_local *local,
                                       std::size_t local_offset, rpma_mr_remote *remote,
                                       std::size_t remote_offset, std::size_t length, int flags) {
        return rpma_write(conn, remote, remote_offset, local, local_offset, length, flags,
                          to_context(0x77));
    });
}

// The immediate data are big-endian in the request: the fake device prints ntohl() of them.
void write_with_imm_posts_one_request(void **) {
    check_remote_operation(
        "Write with 0x1020304",
        [](rpma_conn *conn, rpma_mr_local *local, std::size_t local_offset, rpma_mr_remote *remote,
           std::size_t remote_offset, std::size_t length, int flags) {
            return rpma_write_with_imm(conn, remote, remote_offset, local, local_offset, length,
                                       flags, 0x1020304, to_context(0x77));
        });
}

/// A message with any memory, offset, length and flags.
using message_function =
    std::function<int(rpma_conn *, rpma_mr_local *, std::size_t, std::size_t, int)>;

void check_message(const char *name, const message_function &function, bool has_flags) {
    connection connected;
    rpma_conn *const conn = connected.conn;
    rpma_mr_local *const local = connected.local;
    for (const auto &[flags, flags_text] : all_flags) {
        for (const auto &[length, memory] : lengths)
            assert_posts(function(conn, local, 0x30, length, flags),
                         expected_post(name, has_flags ? flags_text : "", memory));
        assert_posts(function(conn, nullptr, 0, 0, flags),
                     expected_post(name, has_flags ? flags_text : "", "no memory"));
    }
    assert_invalid(function(conn, local, 0x30, TOO_LONG, 2));
    assert_invalid(function(nullptr, local, 0, 8, 2));
    assert_invalid(function(conn, nullptr, 1, 0, 2));
    assert_invalid(function(conn, nullptr, 0, 1, 2));
    if (has_flags)
        assert_invalid(function(conn, local, 0, 8, 0));
    fail_calls(POST, ENOMEM);
    assert_int_equal(function(conn, local, 0, 8, 2), RPMA_E_PROVIDER);
    assert_int_equal(errno, ENOMEM);
    fail_none();
}

void send_posts_one_request(void **) {
    check_message(
        "Send",
        [](rpma_conn *conn, rpma_mr_local *local, std::size_t offset, std::size_t length,
           int flags) { return rpma_send(conn, local, offset, length, flags, to_context(0x77)); },
        true);
}

void send_with_imm_posts_one_request(void **) {
    check_message(
        "Send with 0x1020304",
        [](rpma_conn *conn, rpma_mr_local *local, std::size_t offset, std::size_t length,
           int flags) {
            return rpma_send_with_imm(conn, local, offset, length, flags, 0x1020304,
                                      to_context(0x77));
        },
        true);
}

void recv_posts_one_request(void **) {
    check_message(
        "Receive",
        [](rpma_conn *conn, rpma_mr_local *local, std::size_t offset, std::size_t length, int) {
            return rpma_recv(conn, local, offset, length, to_context(0x77));
        },
        false);
}

void srq_recv_posts_one_request(void **) {
    rpma_peer *peer = create_peer();
    rpma_srq *srq = nullptr;
    assert_int_equal(rpma_srq_new(peer, nullptr, &srq), 0);
    check_message(
        "SRQ Receive",
        [srq](rpma_conn *conn, rpma_mr_local *local, std::size_t offset, std::size_t length, int) {
            return rpma_srq_recv(conn != nullptr ? srq : nullptr, local, offset, length,
                                 to_context(0x77));
        },
        false);
    assert_int_equal(rpma_srq_delete(&srq), 0);
    assert_int_equal(rpma_peer_delete(&peer), 0);
}

// A receive of a request must have memory.
void conn_req_recv_posts_one_request(void **) {
    connection connected;
    rpma_conn_req *req = nullptr;
    assert_int_equal(rpma_conn_req_new(connected.peer, "192.0.2.1", "7204", nullptr, &req), 0);
    for (const auto &[length, memory] : lengths)
        assert_posts(rpma_conn_req_recv(req, connected.local, 0x30, length, to_context(0x77)),
                     expected_post("Receive", "", memory));
    assert_invalid(rpma_conn_req_recv(req, nullptr, 0, 0, nullptr));
    assert_invalid(rpma_conn_req_recv(nullptr, connected.local, 0, 0, nullptr));
    assert_invalid(rpma_conn_req_recv(req, connected.local, 0, TOO_LONG, nullptr));
    fail_calls(POST, EINVAL);
    assert_int_equal(rpma_conn_req_recv(req, connected.local, 0, 8, nullptr), RPMA_E_PROVIDER);
    assert_int_equal(errno, EINVAL);
    fail_none();
    assert_int_equal(rpma_conn_req_delete(&req), 0);
}

// A QP with an SRQ has no RQ: some providers would crash.
void recv_with_srq_is_refused(void **) {
    rpma_peer *peer = create_peer();
    rpma_srq *srq = nullptr;
    rpma_conn_cfg *cfg = nullptr;
    assert_int_equal(rpma_srq_new(peer, nullptr, &srq), 0);
    assert_int_equal(rpma_conn_cfg_new(&cfg), 0);
    assert_int_equal(rpma_conn_cfg_set_srq(cfg, srq), 0);
    {
        connection connected(cfg);
        assert_int_equal(rpma_recv(connected.conn, connected.local, 0, 8, nullptr),
                         RPMA_E_PROVIDER);
        assert_int_equal(errno, EINVAL);
        assert_string_equal(take_posts().c_str(), "");
    }
    assert_int_equal(rpma_conn_cfg_delete(&cfg), 0);
    assert_int_equal(rpma_srq_delete(&srq), 0);
    assert_int_equal(rpma_peer_delete(&peer), 0);
}

/// has_native: the device's QPs execute atomic writes.
void check_atomic_write(bool has_native) {
    settings.cap_flags_ex = has_native ? ATOMIC_WRITE : 0;
    connection connected;
    rpma_conn *const conn = connected.conn;
    rpma_mr_remote *const remote = connected.remote;
    for (const auto &[flags, flags_text] : all_flags)
        assert_posts(rpma_atomic_write(conn, remote, 0x40, "abcdefgh", flags, to_context(0x77)),
                     has_native
                         ? expected_post("Atomic Write", flags_text, "abcdefgh", REMOTE)
                         : expected_post("Write", (std::string(" fence") + flags_text).c_str(),
                                         "inline abcdefgh", REMOTE));
    assert_invalid(rpma_atomic_write(nullptr, remote, 0, "abcdefgh", 2, nullptr));
    assert_invalid(rpma_atomic_write(conn, nullptr, 0, "abcdefgh", 2, nullptr));
    assert_invalid(rpma_atomic_write(conn, remote, 0, nullptr, 2, nullptr));
    assert_invalid(rpma_atomic_write(conn, remote, 0, "abcdefgh", 0, nullptr));
    for (const std::size_t offset : {1U, 4U, 7U, 9U})
        assert_invalid(rpma_atomic_write(conn, remote, offset, "abcdefgh", 2, nullptr));
    fail_calls(POST, ENOMEM);
    assert_int_equal(rpma_atomic_write(conn, remote, 0, "abcdefgh", 2, nullptr), RPMA_E_PROVIDER);
    assert_int_equal(errno, ENOMEM);
    fail_none();
    rpma_mr_remote *unaligned = create_remote(REMOTE_ADDR + 4, ALL_USAGES);
    assert_invalid(rpma_atomic_write(conn, unaligned, 0, "abcdefgh", 2, nullptr));
    assert_int_equal(rpma_mr_remote_delete(&unaligned), 0);
}

void native_atomic_write_posts_one_request(void **) {
    check_atomic_write(true);
}
void other_atomic_write_is_fenced_inline_write(void **) {
    check_atomic_write(false);
}

// Neither inline data nor a native operation: there is no memory to swap with.
void atomic_write_of_limited_qp_fails(void **) {
    settings.max_inline_data = 0;
    connection connected;
    assert_int_equal(
        rpma_atomic_write(connected.conn, connected.remote, 0x40, "abcdefgh", 2, nullptr),
        RPMA_E_PROVIDER);
    assert_string_equal(take_posts().c_str(), "");
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(read_posts_one_request),
        TEST(write_posts_one_request),
        TEST(write_with_imm_posts_one_request),
        TEST(send_posts_one_request),
        TEST(send_with_imm_posts_one_request),
        TEST(recv_posts_one_request),
        TEST(srq_recv_posts_one_request),
        TEST(conn_req_recv_posts_one_request),
        TEST(recv_with_srq_is_refused),
        TEST(native_atomic_write_posts_one_request),
        TEST(other_atomic_write_is_fenced_inline_write),
        TEST(atomic_write_of_limited_qp_fails),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
