// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Atomic writes and flushes of a QP that supports them: a fake QP that records its calls.
// tests/unit/dapl/remote_test.cpp has the emulations.

#include "../cmocka.hpp"

#include <cerrno>
#include <coherdma/coherdma.h>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <infiniband/verbs.h>
#include <string>

namespace {

ibv_context context = {};
ibv_qp_ex qp = {};
bool has_qp_ex = true;
int complete_status = 0; ///< returned by wr_complete
std::string calls;

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

int reset_fake_qp(void **) {
    qp = {};
    qp.qp_base.context = &context;
    qp.qp_base.qp_type = IBV_QPT_RC;
    qp.wr_start = wr_start;
    qp.wr_complete = wr_complete;
    qp.wr_atomic_write = wr_atomic_write;
#ifdef COHERDMA_HAS_FLUSH
    qp.wr_flush = wr_flush;
#endif
    has_qp_ex = true;
    complete_status = 0;
    calls.clear();
    return 0;
}

coherdma_remote_attr open_remote(coherdma_remote *&remote) {
    remote = coherdma_open_remote(&qp.qp_base);
    assert_non_null(remote);
    coherdma_remote_attr attr = {};
    assert_int_equal(coherdma_query_remote(remote, &attr, sizeof attr), 0);
    return attr;
}

void native_atomic_write_posts_one_wr(void **) {
    coherdma_remote *remote;
    assert_int_equal(open_remote(remote).atomic_write, COHERDMA_METHOD_NATIVE);
    assert_int_equal(coherdma_post_atomic_write(remote, 0x1008, 7, "12345678", nullptr,
                                                COHERDMA_COMPLETION_ALWAYS, 9),
                     0);
    assert_string_equal(calls.c_str(), "start write(7, 0x1008, 12345678, id 9, flags 2) complete");
    calls.clear();
    assert_int_equal(coherdma_post_atomic_write(remote, 0x1008, 7, "12345678", nullptr,
                                                COHERDMA_COMPLETION_ON_ERROR, 9),
                     0);
    assert_string_equal(calls.c_str(), "start write(7, 0x1008, 12345678, id 9, flags 0) complete");
    calls.clear();
    complete_status = ENOMEM;
    assert_int_equal(coherdma_post_atomic_write(remote, 0x1008, 7, "12345678", nullptr,
                                                COHERDMA_COMPLETION_ALWAYS, 9),
                     ENOMEM);
    assert_non_null(std::strstr(coherdma_error(), "cannot post an atomic write"));
    calls.clear();
    assert_int_equal(coherdma_post_atomic_write(remote, 0x1004, 7, "12345678", nullptr,
                                                COHERDMA_COMPLETION_ALWAYS, 9),
                     EINVAL);
    assert_string_equal(calls.c_str(), "");
    coherdma_close_remote(remote);
}

void qp_without_atomic_write_uses_inline(void **) {
    coherdma_remote *remote;
    qp.wr_atomic_write = nullptr;
    assert_int_equal(open_remote(remote).atomic_write, COHERDMA_METHOD_INLINE);
    coherdma_close_remote(remote);
    has_qp_ex = false;
    assert_int_equal(open_remote(remote).atomic_write, COHERDMA_METHOD_INLINE);
    coherdma_close_remote(remote);
}

void native_flush_posts_one_wr(void **) {
#ifdef COHERDMA_HAS_FLUSH
    coherdma_remote *remote;
    assert_int_equal(open_remote(remote).flush, COHERDMA_METHOD_NATIVE);
    assert_int_equal(
        coherdma_post_flush(remote, 0x1001, 5000, 7, nullptr, COHERDMA_COMPLETION_ON_ERROR, 9), 0);
    assert_string_equal(calls.c_str(),
                        "start flush(7, 0x1001, 5000, 1, 0, id 9, flags 0) complete");
    calls.clear();
    assert_int_equal(
        coherdma_post_flush(remote, 0x1001, 0, 7, nullptr, COHERDMA_COMPLETION_ALWAYS, 9), EINVAL);
    assert_string_equal(calls.c_str(), "");
    coherdma_close_remote(remote);
    qp.wr_flush = nullptr;
    assert_int_equal(open_remote(remote).flush, COHERDMA_METHOD_READ);
    coherdma_close_remote(remote);
#else
    print_message("# skipped: RDMA FLUSH needs the headers of rdma-core 45\n");
    skip();
#endif
}

} // namespace

extern "C" {

ibv_qp_ex *ibv_qp_to_qp_ex(ibv_qp *) {
    return has_qp_ex ? &qp : nullptr;
}
int ibv_query_qp(ibv_qp *, ibv_qp_attr *attr, int, ibv_qp_init_attr *) {
    attr->cap.max_inline_data = 8;
    return 0;
}
int ibv_query_device(ibv_context *, ibv_device_attr *) {
    return EIO;
}
}

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test_setup(native_atomic_write_posts_one_wr, reset_fake_qp),
        cmocka_unit_test_setup(qp_without_atomic_write_uses_inline, reset_fake_qp),
        cmocka_unit_test_setup(native_flush_posts_one_wr, reset_fake_qp),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
