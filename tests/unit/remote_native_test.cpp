// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Atomic writes and flushes of a queue pair that has them itself: it is played, and writes down
// what it is asked. dapl_remote_test has the ways around.

#include <cerrno>
#include <coherdma/coherdma.h>
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <infiniband/verbs.h>
#include <string>

extern "C" {
#include <cmocka.h>
}

namespace {

ibv_context context = {};
ibv_qp_ex pair = {};
bool extended = true;
int said = 0; ///< by wr_complete
std::string heard;

void note(const char *what) {
    heard += heard.empty() ? "" : " ";
    heard += what;
}
void start(ibv_qp_ex *) {
    note("start");
}
int complete(ibv_qp_ex *) {
    note("complete");
    return said;
}
void atomic_write(ibv_qp_ex *by, std::uint32_t rkey, std::uint64_t at, const void *value) {
    char words[120], bytes[9] = {};
    std::memcpy(bytes, value, 8);
    std::snprintf(words, sizeof words, "write(%u, %#llx, %s, id %llu, flags %u)", rkey,
                  static_cast<unsigned long long>(at), bytes,
                  static_cast<unsigned long long>(by->wr_id), by->wr_flags);
    note(words);
}
#ifdef COHERDMA_HAS_FLUSH
void flush(ibv_qp_ex *by, std::uint32_t rkey, std::uint64_t at, std::size_t length,
           std::uint8_t type, std::uint8_t level) {
    char words[120];
    std::snprintf(words, sizeof words, "flush(%u, %#llx, %zu, %u, %u, id %llu, flags %u)", rkey,
                  static_cast<unsigned long long>(at), length, type, level,
                  static_cast<unsigned long long>(by->wr_id), by->wr_flags);
    note(words);
}
#endif

int fresh(void **) {
    pair = {};
    pair.qp_base.context = &context;
    pair.qp_base.qp_type = IBV_QPT_RC;
    pair.wr_start = start;
    pair.wr_complete = complete;
    pair.wr_atomic_write = atomic_write;
#ifdef COHERDMA_HAS_FLUSH
    pair.wr_flush = flush;
#endif
    extended = true;
    said = 0;
    heard.clear();
    return 0;
}

coherdma_remote_attr opened(coherdma_remote *&remote) {
    remote = coherdma_open_remote(&pair.qp_base);
    assert_non_null(remote);
    coherdma_remote_attr are = {};
    assert_int_equal(coherdma_query_remote(remote, &are, sizeof are), 0);
    return are;
}

void a_native_write_is_one_request(void **) {
    coherdma_remote *remote;
    assert_int_equal(opened(remote).atomic_write, COHERDMA_WAY_NATIVE);
    assert_int_equal(coherdma_post_atomic_write(remote, 0x1008, 7, "12345678", nullptr,
                                                COHERDMA_COMPLETION_ALWAYS, 9),
                     0);
    assert_string_equal(heard.c_str(), "start write(7, 0x1008, 12345678, id 9, flags 2) complete");
    heard.clear();
    assert_int_equal(coherdma_post_atomic_write(remote, 0x1008, 7, "12345678", nullptr,
                                                COHERDMA_COMPLETION_ON_ERROR, 9),
                     0);
    assert_string_equal(heard.c_str(), "start write(7, 0x1008, 12345678, id 9, flags 0) complete");
    heard.clear();
    said = ENOMEM;
    assert_int_equal(coherdma_post_atomic_write(remote, 0x1008, 7, "12345678", nullptr,
                                                COHERDMA_COMPLETION_ALWAYS, 9),
                     ENOMEM);
    assert_non_null(std::strstr(coherdma_error(), "an atomic write was not posted"));
    heard.clear();
    assert_int_equal(coherdma_post_atomic_write(remote, 0x1004, 7, "12345678", nullptr,
                                                COHERDMA_COMPLETION_ALWAYS, 9),
                     EINVAL);
    assert_string_equal(heard.c_str(), "");
    coherdma_close_remote(remote);
}

void a_pair_without_it_is_not_asked(void **) {
    coherdma_remote *remote;
    pair.wr_atomic_write = nullptr;
    assert_int_equal(opened(remote).atomic_write, COHERDMA_WAY_INLINE);
    coherdma_close_remote(remote);
    extended = false;
    assert_int_equal(opened(remote).atomic_write, COHERDMA_WAY_INLINE);
    coherdma_close_remote(remote);
}

void a_native_flush_is_one_request(void **) {
#ifdef COHERDMA_HAS_FLUSH
    coherdma_remote *remote;
    assert_int_equal(opened(remote).flush, COHERDMA_WAY_NATIVE);
    assert_int_equal(
        coherdma_post_flush(remote, 0x1001, 5000, 7, nullptr, COHERDMA_COMPLETION_ON_ERROR, 9), 0);
    assert_string_equal(heard.c_str(),
                        "start flush(7, 0x1001, 5000, 1, 0, id 9, flags 0) complete");
    heard.clear();
    assert_int_equal(
        coherdma_post_flush(remote, 0x1001, 0, 7, nullptr, COHERDMA_COMPLETION_ALWAYS, 9), EINVAL);
    assert_string_equal(heard.c_str(), "");
    coherdma_close_remote(remote);
    pair.wr_flush = nullptr;
    assert_int_equal(opened(remote).flush, COHERDMA_WAY_READ);
    coherdma_close_remote(remote);
#else
    print_message("# skipped: this rdma-core's headers have no flush; 45 and later have\n");
    skip();
#endif
}

} // namespace

extern "C" {

ibv_qp_ex *ibv_qp_to_qp_ex(ibv_qp *) {
    return extended ? &pair : nullptr;
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
        cmocka_unit_test_setup(a_native_write_is_one_request, fresh),
        cmocka_unit_test_setup(a_pair_without_it_is_not_asked, fresh),
        cmocka_unit_test_setup(a_native_flush_is_one_request, fresh),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
