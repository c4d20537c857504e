// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The requests that atomic writes and flushes post: a fake QP records them. Each argument has
// another value, so that a swapped one is found. tests/unit/dapl/remote_test.cpp has their effects.

#include "../cmocka.hpp"

#include <cerrno>
#include <coherdma/coherdma.h>
#include <coherdma/experimental.h>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <infiniband/verbs.h>
#include <string>

namespace {

verbs_context device = {};
ibv_context &context = device.context;
std::uint64_t device_cap_flags_ex = 0;
int query_error = 0;
ibv_qp_ex fake_qp = {};
bool has_qp_ex = true;
std::uint32_t max_inline_data = 8;
int complete_status = 0; ///< returned by wr_complete
ibv_atomic_cap atomic_cap = IBV_ATOMIC_HCA;
std::string calls; ///< recorded by the fake QP's functions

void record(const char *call) {
    calls += calls.empty() ? "" : " ";
    calls += call;
}
void wr_start(ibv_qp_ex *) {
    record("start");
}
int wr_complete(ibv_qp_ex *) {
    record("complete");
    return complete_status;
}
void wr_atomic_write(ibv_qp_ex *ibqp, std::uint32_t rkey, std::uint64_t addr, const void *value) {
    char text[120], bytes[9] = {};
    std::memcpy(bytes, value, 8);
    std::snprintf(text, sizeof text, "write(%u, %#llx, %s, id %llu, flags %u)", rkey,
                  static_cast<unsigned long long>(addr), bytes,
                  static_cast<unsigned long long>(ibqp->wr_id), ibqp->wr_flags);
    record(text);
}
#ifdef COHERDMA_HAS_FLUSH
void wr_flush(ibv_qp_ex *ibqp, std::uint32_t rkey, std::uint64_t addr, std::size_t length,
              std::uint8_t type, std::uint8_t level) {
    char text[120];
    std::snprintf(text, sizeof text, "flush(%u, %#llx, %zu, %u, %u, id %llu, flags %u)", rkey,
                  static_cast<unsigned long long>(addr), length, type, level,
                  static_cast<unsigned long long>(ibqp->wr_id), ibqp->wr_flags);
    record(text);
}
#endif

// Records the opcode, wr_id, send_flags, rkey, remote address, and the length and lkey of the SGE;
// of an atomic the compared and the new value, too.
int post_send(ibv_qp *, ibv_send_wr *wr, ibv_send_wr **) {
    const bool is_atomic = wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
    char text[160];
    std::snprintf(text, sizeof text, "send(opcode %d, id %llu, flags %u, %u, %#llx, sge %u %u)",
                  wr->opcode, static_cast<unsigned long long>(wr->wr_id), wr->send_flags,
                  is_atomic ? wr->wr.atomic.rkey : wr->wr.rdma.rkey,
                  static_cast<unsigned long long>(is_atomic ? wr->wr.atomic.remote_addr
                                                            : wr->wr.rdma.remote_addr),
                  wr->sg_list->length, wr->sg_list->lkey);
    record(text);
    if (is_atomic) {
        std::snprintf(text, sizeof text, "%#llx -> %#llx",
                      static_cast<unsigned long long>(wr->wr.atomic.compare_add),
                      static_cast<unsigned long long>(wr->wr.atomic.swap));
        record(text);
    }
    return 0;
}

int query_device_ex(ibv_context *, const ibv_query_device_ex_input *, ibv_device_attr_ex *attr,
                    std::size_t) {
    attr->device_cap_flags_ex = device_cap_flags_ex;
    return query_error;
}

constexpr std::uint64_t FLUSH_GLOBAL = std::uint64_t{1} << 38,
                        ATOMIC_WRITE = std::uint64_t{1} << 40;

int reset_fake_qp(void **) {
    device = {};
    device.sz = sizeof device;
    device.query_device_ex = query_device_ex;
    context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    device_cap_flags_ex = ATOMIC_WRITE | FLUSH_GLOBAL;
    query_error = 0;
    fake_qp = {};
    fake_qp.qp_base.context = &context;
    fake_qp.qp_base.qp_type = IBV_QPT_RC;
    fake_qp.wr_start = wr_start;
    fake_qp.wr_complete = wr_complete;
    fake_qp.wr_atomic_write = wr_atomic_write;
#ifdef COHERDMA_HAS_FLUSH
    fake_qp.wr_flush = wr_flush;
#endif
    context.ops.post_send = post_send;
    has_qp_ex = true;
    max_inline_data = 8;
    complete_status = 0;
    atomic_cap = IBV_ATOMIC_HCA;
    calls.clear();
    return 0;
}

coherdma_qp_attr open_qp(coherdma_qp *&qp) {
    qp = coherdma_open_qp(&fake_qp.qp_base);
    assert_non_null(qp);
    coherdma_qp_attr attr = {};
    assert_int_equal(coherdma_query_qp(qp, &attr, sizeof attr), 0);
    return attr;
}

// A request of wr_id 9 with rkey 7. Flags 2 is IBV_SEND_SIGNALED. An unaligned address is refused.
void native_atomic_write_posts_one_wr(void **) {
    coherdma_qp *qp;
    assert_int_equal(open_qp(qp).atomic_write, COHERDMA_METHOD_NATIVE);
    assert_int_equal(coherdma_post_atomic_write(qp, 9, COHERDMA_POST_COMPLETION_ALWAYS, 7, 0x1008,
                                                "12345678", nullptr),
                     0);
    assert_string_equal(calls.c_str(), "start write(7, 0x1008, 12345678, id 9, flags 2) complete");
    calls.clear();
    assert_int_equal(coherdma_post_atomic_write(qp, 9, COHERDMA_POST_COMPLETION_ON_ERROR, 7, 0x1008,
                                                "12345678", nullptr),
                     0);
    assert_string_equal(calls.c_str(), "start write(7, 0x1008, 12345678, id 9, flags 0) complete");
    calls.clear();
    complete_status = ENOMEM;
    assert_int_equal(coherdma_post_atomic_write(qp, 9, COHERDMA_POST_COMPLETION_ALWAYS, 7, 0x1008,
                                                "12345678", nullptr),
                     ENOMEM);
    assert_non_null(std::strstr(coherdma_error(), "cannot post an atomic write"));
    calls.clear();
    assert_int_equal(coherdma_post_atomic_write(qp, 9, COHERDMA_POST_COMPLETION_ALWAYS, 7, 0x1004,
                                                "12345678", nullptr),
                     EINVAL);
    assert_string_equal(calls.c_str(), "");
    coherdma_close_qp(qp);
}

void qp_without_atomic_write_uses_inline(void **) {
    coherdma_qp *qp;
    fake_qp.wr_atomic_write = nullptr;
    assert_int_equal(open_qp(qp).atomic_write, COHERDMA_METHOD_INLINE_WRITE);
    coherdma_close_qp(qp);
    has_qp_ex = false;
    assert_int_equal(open_qp(qp).atomic_write, COHERDMA_METHOD_INLINE_WRITE);
    coherdma_close_qp(qp);
}

// Without native operations: an atomic write is an inline RDMA Write, or without inline data a
// compare and swap; a flush is a Read of the last 8 bytes of the range. 0, 4 and 5 are
// IBV_WR_RDMA_WRITE, _RDMA_READ and _ATOMIC_CMP_AND_SWP; the flags are IBV_SEND_FENCE (1), SIGNALED
// (2), INLINE (8).
void other_methods_post_one_send_wr(void **) {
    const std::uint64_t value = 0x22;
    std::uint64_t expected = 0x11;
    const ibv_sge local = {reinterpret_cast<std::uintptr_t>(&expected), 8, 5};
    coherdma_qp *qp;
    has_qp_ex = false;
    assert_int_equal(open_qp(qp).flush, COHERDMA_METHOD_RDMA_READ);
    assert_int_equal(coherdma_post_atomic_write(qp, 9, COHERDMA_POST_COMPLETION_ALWAYS, 7, 0x1008,
                                                &value, nullptr),
                     0);
    assert_string_equal(calls.c_str(), "send(opcode 0, id 9, flags 11, 7, 0x1008, sge 8 0)");
    calls.clear();
    assert_int_equal(
        coherdma_post_flush(qp, 9, COHERDMA_POST_COMPLETION_ON_ERROR, 7, 0x1008, 0x100, &local), 0);
    assert_string_equal(calls.c_str(), "send(opcode 4, id 9, flags 0, 7, 0x1100, sge 8 5)");
    coherdma_close_qp(qp);
    calls.clear();
    max_inline_data = 0;
    assert_int_equal(open_qp(qp).atomic_write, COHERDMA_METHOD_CMP_AND_SWP);
    assert_int_equal(coherdma_post_atomic_write(qp, 9, COHERDMA_POST_COMPLETION_ON_ERROR, 7, 0x1008,
                                                &value, &local),
                     0);
    assert_string_equal(calls.c_str(),
                        "send(opcode 5, id 9, flags 0, 7, 0x1008, sge 8 5) 0x11 -> 0x22");
    coherdma_close_qp(qp);
}

int post_never_torn(const coherdma_qp *qp, const std::uint64_t &value, const ibv_sge *compare) {
    calls.clear();
    return coherdma_post_atomic_write(qp, 9,
                                      COHERDMA_POST_COMPLETION_ALWAYS | COHERDMA_POST_NEVER_TORN, 7,
                                      0x1008, &value, compare);
}

void never_torn_write_is_no_inline_write(void **) {
    const std::uint64_t value = 0x3837363534333231; // "12345678"
    std::uint64_t expected = 0x11;
    const ibv_sge compare = {reinterpret_cast<std::uintptr_t>(&expected), 8, 5};
    coherdma_qp *qp;
    coherdma_qp_attr attr = open_qp(qp);
    assert_int_equal(attr.atomic_write, COHERDMA_METHOD_NATIVE);
    assert_int_equal(attr.never_torn_write, COHERDMA_METHOD_NATIVE);
    assert_int_equal(post_never_torn(qp, value, nullptr), 0);
    assert_string_equal(calls.c_str(), "start write(7, 0x1008, 12345678, id 9, flags 2) complete");
    assert_int_equal(
        coherdma_post_atomic_write(qp, 9, COHERDMA_POST_NEVER_TORN, 7, 0x1008, &value, nullptr),
        EINVAL); // completion on error, or always?
    coherdma_close_qp(qp);

    fake_qp.wr_atomic_write = nullptr;
    attr = open_qp(qp);
    assert_int_equal(attr.atomic_write, COHERDMA_METHOD_INLINE_WRITE);
    assert_int_equal(attr.never_torn_write, COHERDMA_METHOD_CMP_AND_SWP);
    assert_int_equal(post_never_torn(qp, value, nullptr), EINVAL);
    assert_string_equal(calls.c_str(), "");
    assert_int_equal(post_never_torn(qp, value, &compare), 0);
    assert_string_equal(
        calls.c_str(),
        "send(opcode 5, id 9, flags 2, 7, 0x1008, sge 8 5) 0x11 -> 0x3837363534333231");
    coherdma_close_qp(qp);

    atomic_cap = IBV_ATOMIC_NONE;
    attr = open_qp(qp);
    assert_int_equal(attr.atomic_write, COHERDMA_METHOD_INLINE_WRITE);
    assert_int_equal(attr.never_torn_write, COHERDMA_METHOD_NONE);
    assert_int_equal(post_never_torn(qp, value, &compare), EOPNOTSUPP);
    assert_non_null(std::strstr(coherdma_error(), "a write can be torn"));
    assert_string_equal(calls.c_str(), "");
    coherdma_close_qp(qp);
    max_inline_data = 0;
    attr = open_qp(qp);
    assert_int_equal(attr.atomic_write, COHERDMA_METHOD_NONE);
    assert_int_equal(attr.never_torn_write, COHERDMA_METHOD_NONE);
    coherdma_close_qp(qp);
}

void flush_rejects_never_torn(void **) {
    coherdma_qp *qp;
    open_qp(qp);
    assert_int_equal(coherdma_post_flush(qp, 9,
                                         COHERDMA_POST_COMPLETION_ALWAYS | COHERDMA_POST_NEVER_TORN,
                                         7, 0x1008, 8, nullptr),
                     EINVAL);
    assert_string_equal(calls.c_str(), "");
    coherdma_close_qp(qp);
}

// COHERDMA_POST_PERSISTENT changes nothing of a flush by an RDMA Read.
void persistent_is_a_flag_of_flushes_only(void **) {
    const std::uint64_t value = 0x22;
    const ibv_sge local = {
        .addr = reinterpret_cast<std::uintptr_t>(&value), .length = 8, .lkey = 5};
    coherdma_qp *qp;
    has_qp_ex = false;
    open_qp(qp);
    assert_int_equal(coherdma_post_atomic_write(
                         qp, 9, COHERDMA_POST_COMPLETION_ALWAYS | COHERDMA_POST_PERSISTENT, 7,
                         0x1008, &value, nullptr),
                     EINVAL);
    assert_string_equal(calls.c_str(), "");
    assert_int_equal(coherdma_post_flush(qp, 9,
                                         COHERDMA_POST_COMPLETION_ALWAYS | COHERDMA_POST_PERSISTENT,
                                         7, 0x1008, 0x100, &local),
                     0);
    assert_string_equal(calls.c_str(), "send(opcode 4, id 9, flags 2, 7, 0x1100, sge 8 5)");
    calls.clear();
    assert_int_equal(coherdma_post_flush(qp, 9, COHERDMA_POST_PERSISTENT, 7, 0x1008, 8, &local),
                     EINVAL);
    assert_string_equal(calls.c_str(), "");
    coherdma_close_qp(qp);
}

// With the placement type 1 (global visibility), or 2 (persistence), and the selectivity level 0
// (the range).
void native_flush_posts_one_wr(void **) {
#ifdef COHERDMA_HAS_FLUSH
    coherdma_qp *qp;
    assert_int_equal(open_qp(qp).flush, COHERDMA_METHOD_NATIVE);
    assert_int_equal(
        coherdma_post_flush(qp, 9, COHERDMA_POST_COMPLETION_ON_ERROR, 7, 0x1001, 5000, nullptr), 0);
    assert_string_equal(calls.c_str(),
                        "start flush(7, 0x1001, 5000, 1, 0, id 9, flags 0) complete");
    calls.clear();
    assert_int_equal(coherdma_post_flush(qp, 9,
                                         COHERDMA_POST_COMPLETION_ALWAYS | COHERDMA_POST_PERSISTENT,
                                         7, 0x1001, 5000, nullptr),
                     0);
    assert_string_equal(calls.c_str(),
                        "start flush(7, 0x1001, 5000, 2, 0, id 9, flags 2) complete");
    calls.clear();
    assert_int_equal(
        coherdma_post_flush(qp, 9, COHERDMA_POST_COMPLETION_ALWAYS, 7, 0x1001, 0, nullptr), EINVAL);
    assert_string_equal(calls.c_str(), "");
    coherdma_close_qp(qp);
    fake_qp.wr_flush = nullptr;
    assert_int_equal(open_qp(qp).flush, COHERDMA_METHOD_RDMA_READ);
    coherdma_close_qp(qp);
#else
    print_message("# skipped: RDMA FLUSH needs the headers of rdma-core 45\n");
    skip();
#endif
}

// Its driver may have QPs that ibv_qp_to_qp_ex() reads behind.
void qp_of_device_without_native_operations_is_not_extended(void **) {
    coherdma_qp *qp;
    device_cap_flags_ex = 0;
    const coherdma_qp_attr attr = open_qp(qp);
    assert_int_equal(attr.atomic_write, COHERDMA_METHOD_INLINE_WRITE);
    assert_int_equal(attr.flush, COHERDMA_METHOD_RDMA_READ);
    coherdma_close_qp(qp);
}

void qp_of_device_that_cannot_be_queried_is_not_opened(void **) {
    query_error = EIO;
    errno = 0;
    assert_null(coherdma_open_qp(&fake_qp.qp_base));
    assert_int_equal(errno, EIO);
    assert_string_equal(coherdma_error(), "cannot query the device: Input/output error");
}

} // namespace

extern "C" {

ibv_qp_ex *ibv_qp_to_qp_ex(ibv_qp *) {
    return has_qp_ex ? &fake_qp : nullptr;
}
int ibv_query_qp(ibv_qp *, ibv_qp_attr *attr, int, ibv_qp_init_attr *) {
    attr->cap.max_inline_data = max_inline_data;
    return 0;
}
int ibv_query_device(ibv_context *, ibv_device_attr *attr) {
    attr->atomic_cap = atomic_cap;
    return 0;
}
}

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test_setup(native_atomic_write_posts_one_wr, reset_fake_qp),
        cmocka_unit_test_setup(qp_without_atomic_write_uses_inline, reset_fake_qp),
        cmocka_unit_test_setup(qp_of_device_without_native_operations_is_not_extended,
                               reset_fake_qp),
        cmocka_unit_test_setup(qp_of_device_that_cannot_be_queried_is_not_opened, reset_fake_qp),
        cmocka_unit_test_setup(other_methods_post_one_send_wr, reset_fake_qp),
        cmocka_unit_test_setup(never_torn_write_is_no_inline_write, reset_fake_qp),
        cmocka_unit_test_setup(flush_rejects_never_torn, reset_fake_qp),
        cmocka_unit_test_setup(persistent_is_a_flag_of_flushes_only, reset_fake_qp),
        cmocka_unit_test_setup(native_flush_posts_one_wr, reset_fake_qp),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
