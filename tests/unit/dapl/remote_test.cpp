// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Atomic writes and flushes of a peer's memory. The fake devices support neither, so the provider
// emulates them; the system tests use native ones.

#include "fake/two_eps.hpp"

#include <coherdma/coherdma.h>
#include <coherdma/experimental.h>
#include <dat2/dat_coherdma_extensions.h>
#include <limits>

using namespace fake;

namespace {

constexpr DAT_COMPLETION_FLAGS default_flags = DAT_COMPLETION_DEFAULT_FLAG;
constexpr std::uint64_t value = 0x1122334455667788;

std::uint64_t read_word(const memory &area, std::size_t offset) {
    std::uint64_t word;
    std::memcpy(&word, area.bytes.data() + offset, sizeof word);
    return word;
}
DAT_COHERDMA_METHODS query_methods(DAT_EP_HANDLE ep) {
    DAT_COHERDMA_METHODS methods = {};
    assert_success(dat_coherdma_query_methods(ep, &methods));
    return methods;
}

void atomic_write_stores_eight_bytes(void **) {
    connected_eps eps;
    assert_int_equal(query_methods(eps.active.handle).atomic_write,
                     DAT_COHERDMA_METHOD_INLINE_WRITE);
    const DAT_RMR_TRIPLET remote = eps.passive_memory.rmr_triplet(16, 8);
    std::uint64_t word = value;
    assert_success(dat_coherdma_post_atomic_write(eps.active.handle, &word, nullptr, cookie(1),
                                                  &remote, default_flags));
    word = 0; // the post has copied it
    assert_completion(eps.active.request_evd, cookie(1), DAT_DTO_SUCCESS, 8);
    assert_true(read_word(eps.passive_memory, 16) == value);
}

void suppressed_atomic_write_reports_only_errors(void **) {
    connected_eps eps;
    const DAT_RMR_TRIPLET remote = eps.passive_memory.rmr_triplet(16, 8);
    DAT_RMR_TRIPLET bad_remote = remote;
    bad_remote.rmr_context ^= 0x40;
    assert_success(dat_coherdma_post_atomic_write(eps.active.handle, &value, nullptr, cookie(1),
                                                  &remote, DAT_COMPLETION_SUPPRESS_FLAG));
    assert_true(read_word(eps.passive_memory, 16) == value);
    assert_no_event(eps.active.request_evd);
    assert_success(dat_coherdma_post_atomic_write(eps.active.handle, &value, nullptr, cookie(2),
                                                  &bad_remote, DAT_COMPLETION_SUPPRESS_FLAG));
    assert_completion(eps.active.request_evd, cookie(2), DAT_DTO_ERR_REMOTE_ACCESS, 0);
}

void invalid_remote_calls_rejected(void **) {
    connected_eps eps;
    const DAT_RMR_TRIPLET remote = eps.passive_memory.rmr_triplet(16, 8),
                          unaligned = eps.passive_memory.rmr_triplet(12, 8),
                          empty = eps.passive_memory.rmr_triplet(16, 0);
    const DAT_LMR_TRIPLET scratch = eps.active_memory.lmr_triplet(0, 8),
                          empty_scratch = eps.active_memory.lmr_triplet(0, 0);
    DAT_COHERDMA_METHODS *const bad_remote = nullptr;
    const auto write = [&](const void *new_value, const DAT_RMR_TRIPLET *remote_triplet) {
        return dat_coherdma_post_atomic_write(eps.active.handle, new_value, nullptr, cookie(1),
                                              remote_triplet, default_flags);
    };
    assert_int_equal(write(nullptr, &remote), invalid_parameter(2));
    assert_int_equal(write(&value, nullptr), invalid_parameter(5));
    assert_int_equal(write(&value, &unaligned), invalid_parameter(5));
    const auto flush = [&](const DAT_LMR_TRIPLET *scratch_triplet,
                           const DAT_RMR_TRIPLET *remote_triplet) {
        return dat_coherdma_post_flush(eps.active.handle, scratch_triplet, cookie(1),
                                       remote_triplet, default_flags);
    };
    assert_int_equal(flush(nullptr, &remote), invalid_parameter(2));
    assert_int_equal(flush(&empty_scratch, &remote), invalid_parameter(2));
    assert_int_equal(flush(&scratch, nullptr), invalid_parameter(4));
    assert_int_equal(flush(&scratch, &empty), invalid_parameter(4));
    assert_int_equal(dat_coherdma_query_methods(eps.active.handle, bad_remote),
                     invalid_parameter(2));
    assert_int_equal(
        dat_coherdma_post_flush(eps.ia.pz, &scratch, cookie(1), &remote, default_flags),
        invalid_handle(DAT_INVALID_HANDLE_EP));
    get_fabric().injected.fail("ibv_post_send", ENOMEM);
    assert_int_equal(write(&value, &remote),
                     dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
    get_fabric().injected.fail_none();
    assert_no_event(eps.active.request_evd);
    assert_success(write(&value, &remote)); // the next call succeeds
    assert_completion(eps.active.request_evd, cookie(1), DAT_DTO_SUCCESS, 8);
}

/// A flush is an RDMA Read of the last bytes of the range to a scratch buffer: eight, or as many as
/// both hold.
void flush_reads_only_last_bytes(void **) {
    connected_eps eps;
    eps.passive_memory.fill(9);
    const DAT_LMR_TRIPLET scratch = eps.active_memory.lmr_triplet(0, 64),
                          small_scratch = eps.active_memory.lmr_triplet(0, 2);
    assert_int_equal(query_methods(eps.active.handle).flush, DAT_COHERDMA_METHOD_RDMA_READ);
    const auto flush = [&](const DAT_LMR_TRIPLET &scratch_triplet, std::size_t offset,
                           DAT_SEG_LENGTH length, std::size_t first_byte, std::size_t num_bytes) {
        std::memset(eps.active_memory.bytes.data(), 0xee, 64);
        const DAT_RMR_TRIPLET remote = eps.passive_memory.rmr_triplet(offset, length);
        assert_success(dat_coherdma_post_flush(eps.active.handle, &scratch_triplet, cookie(3),
                                               &remote, default_flags));
        assert_completion(eps.active.request_evd, cookie(3), DAT_DTO_SUCCESS, length);
        assert_memory_equal(eps.active_memory.bytes.data(),
                            eps.passive_memory.bytes.data() + first_byte, num_bytes);
        assert_int_equal(eps.active_memory.bytes[num_bytes], 0xee);
    };
    flush(scratch, 0, 100, 92, 8);
    flush(scratch, 0, 3, 0, 3);
    flush(small_scratch, 10, 5, 13, 2);
    const std::size_t end = eps.passive_memory.bytes.size();
    flush(scratch, end - 1, 1, end - 1, 1); // although eight bytes would exceed the LMR
}

/// The consumer's buffer has the expected old value. The first try finds another, which it returns;
/// the second succeeds.
void atomic_write_without_inline_uses_cmp_swap(void **) {
    get_fabric().devices[0].max_inline = 0;
    connected_eps eps;
    memory buffer(eps.ia, 64,
                  DAT_MEM_PRIV_ALL_FLAG | static_cast<DAT_MEM_PRIV_FLAGS>(0x40)); // remote atomics
    assert_int_equal(query_methods(eps.active.handle).atomic_write,
                     DAT_COHERDMA_METHOD_CMP_AND_SWP);
    const DAT_RMR_TRIPLET remote = buffer.rmr_triplet(8, 8);
    const DAT_LMR_TRIPLET old = eps.active_memory.lmr_triplet(0, 8);
    const auto write = [&](const DAT_LMR_TRIPLET *expected) {
        return dat_coherdma_post_atomic_write(eps.active.handle, &value, expected, cookie(1),
                                              &remote, default_flags);
    };
    assert_int_equal(write(nullptr), invalid_parameter(3));
    std::uint64_t old_value = 5;
    std::memcpy(buffer.bytes.data() + 8, &old_value, 8);
    std::memset(eps.active_memory.bytes.data(), 0, 8); // differs from the value in memory
    assert_success(write(&old));
    assert_completion(eps.active.request_evd, cookie(1), DAT_DTO_SUCCESS, 8);
    assert_int_equal(read_word(eps.active_memory, 0), 5);
    assert_int_equal(read_word(buffer, 8), 5);
    assert_success(write(&old));
    assert_completion(eps.active.request_evd, cookie(1), DAT_DTO_SUCCESS, 8);
    assert_int_equal(read_word(eps.active_memory, 0), 5);
    assert_true(read_word(buffer, 8) == value);
}

constexpr auto never_torn = static_cast<DAT_COMPLETION_FLAGS>(
    unsigned{DAT_COMPLETION_SUPPRESS_FLAG} | unsigned{DAT_COHERDMA_NEVER_TORN_FLAG});

void never_torn_write_uses_cmp_swap(void **) {
    connected_eps eps;
    memory buffer(eps.ia, 64,
                  DAT_MEM_PRIV_ALL_FLAG | static_cast<DAT_MEM_PRIV_FLAGS>(0x40)); // remote atomics
    const DAT_COHERDMA_METHODS methods = query_methods(eps.active.handle);
    assert_int_equal(methods.atomic_write, DAT_COHERDMA_METHOD_INLINE_WRITE);
    assert_int_equal(methods.never_torn_write, DAT_COHERDMA_METHOD_CMP_AND_SWP);
    const DAT_RMR_TRIPLET remote = buffer.rmr_triplet(8, 8);
    const DAT_LMR_TRIPLET old = eps.active_memory.lmr_triplet(0, 8);
    std::memset(eps.active_memory.bytes.data(), 0, 8);
    assert_int_equal(dat_coherdma_post_atomic_write(eps.active.handle, &value, nullptr, cookie(1),
                                                    &remote, never_torn),
                     invalid_parameter(3));
    assert_success(dat_coherdma_post_atomic_write(eps.active.handle, &value, &old, cookie(1),
                                                  &remote, never_torn));
    assert_true(read_word(buffer, 8) == value);
    assert_success(dat_coherdma_post_atomic_write(eps.active.handle, &value, &old, cookie(1),
                                                  &remote, never_torn)); // expects 0
    assert_true(read_word(eps.active_memory, 0) == value);
    assert_no_event(eps.active.request_evd);
}

void never_torn_write_without_atomics_not_supported(void **) {
    connected_eps eps("iwarp");
    const DAT_COHERDMA_METHODS methods = query_methods(eps.active.handle);
    assert_int_equal(methods.atomic_write, DAT_COHERDMA_METHOD_INLINE_WRITE);
    assert_int_equal(methods.never_torn_write, DAT_COHERDMA_METHOD_NONE);
    const DAT_RMR_TRIPLET remote = eps.passive_memory.rmr_triplet(8, 8);
    const DAT_LMR_TRIPLET old = eps.active_memory.lmr_triplet(0, 8);
    const std::size_t num_posts = get_fabric().posts.size();
    assert_int_equal(dat_coherdma_post_atomic_write(eps.active.handle, &value, &old, cookie(1),
                                                    &remote, never_torn),
                     dat_error(DAT_MODEL_NOT_SUPPORTED));
    assert_int_equal(get_fabric().posts.size(), num_posts);
    assert_no_event(eps.active.request_evd);
}

/// libcoherdma's functions, by which the Provider's extensions are implemented.
void remote_calls_reject_invalid_arguments(void **) {
    connected_eps eps;
    coherdma_qp *const qp = coherdma_open_qp(*get_fabric().qps.begin());
    assert_non_null(qp);
    ibv_sge scratch = {reinterpret_cast<std::uintptr_t>(&value), 8, 1};
    for (const std::uint32_t flags : {0U, 3U, 4U, 7U, 0x80000002U}) {
        assert_int_equal(coherdma_post_atomic_write(qp, 1, flags, 1, 16, &value, nullptr), EINVAL);
        assert_int_equal(coherdma_post_flush(qp, 1, flags, 1, 16, 8, &scratch), EINVAL);
    }
    const auto always = COHERDMA_POST_COMPLETION_ALWAYS;
    assert_int_equal(coherdma_post_atomic_write(nullptr, 1, always, 1, 16, &value, nullptr),
                     EINVAL);
    assert_int_equal(coherdma_post_atomic_write(qp, 1, always, 1, 16, nullptr, nullptr), EINVAL);
    assert_int_equal(coherdma_post_atomic_write(qp, 1, always, 1, 20, &value, nullptr), EINVAL);
    assert_non_null(std::strstr(coherdma_error(), "0x14 is not a multiple of 8"));
    assert_int_equal(coherdma_post_flush(qp, 1, always, 1, 16, 0, &scratch), EINVAL);
    assert_int_equal(coherdma_post_flush(qp, 1, always, 1,
                                         std::numeric_limits<std::uint64_t>::max(), 2, &scratch),
                     EINVAL);
    assert_int_equal(coherdma_post_flush(qp, 1, always, 1, 16, 8, nullptr), EINVAL);
    coherdma_close_qp(qp);
    assert_null(coherdma_open_qp(nullptr));
    assert_string_equal(coherdma_method_str(COHERDMA_METHOD_CMP_AND_SWP), "compare and swap");
    assert_string_equal(coherdma_method_str(99), "unknown");
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(atomic_write_stores_eight_bytes),
        TEST(suppressed_atomic_write_reports_only_errors),
        TEST(invalid_remote_calls_rejected),
        TEST(flush_reads_only_last_bytes),
        TEST(atomic_write_without_inline_uses_cmp_swap),
        TEST(never_torn_write_uses_cmp_swap),
        TEST(never_torn_write_without_atomics_not_supported),
        TEST(remote_calls_reject_invalid_arguments),
    };
    return run_cases(tests);
}
