// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Atomic writes and flushes of a peer's memory, as the extensions of both ends of a connection. The
// played device has neither, so these are the ways around; tests/system/dat has the native ones.

#include "two.hpp"

#include <coherdma/coherdma.h>
#include <dat2/dat_coherdma_extensions.h>
#include <limits>

using namespace played;

namespace {

constexpr DAT_COMPLETION_FLAGS plain = DAT_COMPLETION_DEFAULT_FLAG;
constexpr std::uint64_t one_word = 0x1122334455667788;

std::uint64_t word_of(const memory &area, std::size_t at) {
    std::uint64_t word;
    std::memcpy(&word, area.bytes.data() + at, sizeof word);
    return word;
}
DAT_COHERDMA_WAYS ways_of(DAT_EP_HANDLE ep) {
    DAT_COHERDMA_WAYS ways = {};
    done(dat_coherdma_query_ways(ep, &ways));
    return ways;
}

void eight_bytes_are_written(void **) {
    two_ends all;
    assert_int_equal(ways_of(all.one.ep).atomic_write, DAT_COHERDMA_WAY_INLINE);
    const DAT_RMR_TRIPLET where = all.there.remote(16, 8);
    std::uint64_t word = one_word;
    done(dat_coherdma_post_atomic_write(all.one.ep, &word, nullptr, cookie(1), &where, plain));
    word = 0; // It was taken along.
    completed(all.one.requests, 1, DAT_DTO_SUCCESS, 8);
    assert_true(word_of(all.there, 16) == one_word);
    all.free();
}

void only_errors_are_told_if_so_wished(void **) {
    two_ends all;
    const DAT_RMR_TRIPLET where = all.there.remote(16, 8);
    DAT_RMR_TRIPLET nowhere = where;
    nowhere.rmr_context ^= 0x40;
    done(dat_coherdma_post_atomic_write(all.one.ep, &one_word, nullptr, cookie(1), &where,
                                        DAT_COMPLETION_SUPPRESS_FLAG));
    assert_true(word_of(all.there, 16) == one_word);
    none(all.one.requests);
    done(dat_coherdma_post_atomic_write(all.one.ep, &one_word, nullptr, cookie(2), &nowhere,
                                        DAT_COMPLETION_SUPPRESS_FLAG));
    completed(all.one.requests, 2, DAT_DTO_ERR_REMOTE_ACCESS, 0);
    all.free();
}

void what_is_wrong_is_said(void **) {
    two_ends all;
    const DAT_RMR_TRIPLET where = all.there.remote(16, 8), odd = all.there.remote(12, 8),
                          empty = all.there.remote(16, 0);
    const DAT_LMR_TRIPLET into = all.here.part(0, 8), no_room = all.here.part(0, 0);
    DAT_COHERDMA_WAYS *const nowhere = nullptr;
    const auto write = [&](const void *value, const DAT_RMR_TRIPLET *at) {
        return dat_coherdma_post_atomic_write(all.one.ep, value, nullptr, cookie(1), at, plain);
    };
    assert_int_equal(write(nullptr, &where), wrong_argument(2));
    assert_int_equal(write(&one_word, nullptr), wrong_argument(5));
    assert_int_equal(write(&one_word, &odd), wrong_argument(5));
    const auto flush = [&](const DAT_LMR_TRIPLET *to, const DAT_RMR_TRIPLET *at) {
        return dat_coherdma_post_flush(all.one.ep, to, cookie(1), at, plain);
    };
    assert_int_equal(flush(nullptr, &where), wrong_argument(2));
    assert_int_equal(flush(&no_room, &where), wrong_argument(2));
    assert_int_equal(flush(&into, nullptr), wrong_argument(4));
    assert_int_equal(flush(&into, &empty), wrong_argument(4));
    assert_int_equal(dat_coherdma_query_ways(all.one.ep, nowhere), wrong_argument(2));
    assert_int_equal(dat_coherdma_post_flush(all.on.pz, &into, cookie(1), &where, plain),
                     no_handle(DAT_INVALID_HANDLE_EP));
    net().wrong.fail("ibv_post_send", ENOMEM);
    assert_int_equal(write(&one_word, &where),
                     error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
    net().wrong.stop();
    none(all.one.requests);
    done(write(&one_word, &where)); // and nothing is lost by it
    completed(all.one.requests, 1, DAT_DTO_SUCCESS, 8);
    all.free();
}

void a_flush_reads_the_last_bytes_and_no_others(void **) {
    two_ends all;
    all.there.fill(9);
    const DAT_LMR_TRIPLET into = all.here.part(0, 64), little = all.here.part(0, 2);
    assert_int_equal(ways_of(all.one.ep).flush, DAT_COHERDMA_WAY_READ);
    const auto flush = [&](const DAT_LMR_TRIPLET &to, std::size_t at, DAT_SEG_LENGTH length,
                           std::size_t from, std::size_t bytes) {
        std::memset(all.here.bytes.data(), 0xee, 64);
        const DAT_RMR_TRIPLET where = all.there.remote(at, length);
        done(dat_coherdma_post_flush(all.one.ep, &to, cookie(3), &where, plain));
        completed(all.one.requests, 3, DAT_DTO_SUCCESS, length);
        assert_memory_equal(all.here.bytes.data(), all.there.bytes.data() + from, bytes);
        assert_int_equal(all.here.bytes[bytes], 0xee);
    };
    flush(into, 0, 100, 92, 8);
    flush(into, 0, 3, 0, 3);
    flush(little, 10, 5, 13, 2);
    const std::size_t end = all.there.bytes.size();
    flush(into, end - 1, 1, end - 1, 1); // though eight bytes from there would be beyond
    all.free();
}

void without_room_in_requests_words_are_swapped(void **) {
    net().devices[0].max_inline = 0;
    two_ends all;
    memory words(all.on, 64,
                 DAT_MEM_PRIV_ALL_FLAG | static_cast<DAT_MEM_PRIV_FLAGS>(0x40)); // remote atomics
    assert_int_equal(ways_of(all.one.ep).atomic_write, DAT_COHERDMA_WAY_SWAP);
    const DAT_RMR_TRIPLET where = words.remote(8, 8);
    const DAT_LMR_TRIPLET old = all.here.part(0, 8);
    const auto write = [&](const DAT_LMR_TRIPLET *expected) {
        return dat_coherdma_post_atomic_write(all.one.ep, &one_word, expected, cookie(1), &where,
                                              plain);
    };
    assert_int_equal(write(nullptr), wrong_argument(3));
    std::uint64_t was = 5;
    std::memcpy(words.bytes.data() + 8, &was, 8);
    std::memset(all.here.bytes.data(), 0, 8); // 0 is not what is there
    done(write(&old));
    completed(all.one.requests, 1, DAT_DTO_SUCCESS, 8);
    assert_int_equal(word_of(all.here, 0), 5);
    assert_int_equal(word_of(words, 8), 5);
    done(write(&old));
    completed(all.one.requests, 1, DAT_DTO_SUCCESS, 8);
    assert_int_equal(word_of(all.here, 0), 5);
    assert_true(word_of(words, 8) == one_word);
    words.free();
    all.free();
}

void completion_must_be_one_of_two(void **) {
    two_ends all;
    ibv_qp *const qp = *net().pairs.begin();
    coherdma_remote *const reach = coherdma_open_remote(qp);
    assert_non_null(reach);
    ibv_sge into = {reinterpret_cast<std::uintptr_t>(&one_word), 8, 1};
    for (const std::uint32_t completion : {0U, 3U, 4U}) {
        assert_int_equal(
            coherdma_post_atomic_write(reach, 16, 1, &one_word, nullptr, completion, 1), EINVAL);
        assert_int_equal(coherdma_post_flush(reach, 16, 8, 1, &into, completion, 1), EINVAL);
    }
    const auto always = COHERDMA_COMPLETION_ALWAYS;
    assert_int_equal(coherdma_post_atomic_write(nullptr, 16, 1, &one_word, nullptr, always, 1),
                     EINVAL);
    assert_int_equal(coherdma_post_atomic_write(reach, 16, 1, nullptr, nullptr, always, 1), EINVAL);
    assert_int_equal(coherdma_post_atomic_write(reach, 20, 1, &one_word, nullptr, always, 1),
                     EINVAL);
    assert_non_null(std::strstr(coherdma_error(), "0x14 is no multiple of 8"));
    assert_int_equal(coherdma_post_flush(reach, 16, 0, 1, &into, always, 1), EINVAL);
    assert_int_equal(coherdma_post_flush(reach, std::numeric_limits<std::uint64_t>::max(), 2, 1,
                                         &into, always, 1),
                     EINVAL);
    assert_int_equal(coherdma_post_flush(reach, 16, 8, 1, nullptr, always, 1), EINVAL);
    coherdma_close_remote(reach);
    assert_null(coherdma_open_remote(nullptr));
    assert_string_equal(coherdma_way_name(COHERDMA_WAY_SWAP), "compare and swap");
    assert_string_equal(coherdma_way_name(99), "unknown");
    all.free();
}

} // namespace

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)

int main() {
    register_names();
    const CMUnitTest tests[] = {
        TEST(eight_bytes_are_written),
        TEST(only_errors_are_told_if_so_wished),
        TEST(what_is_wrong_is_said),
        TEST(a_flush_reads_the_last_bytes_and_no_others),
        TEST(without_room_in_requests_words_are_swapped),
        TEST(completion_must_be_one_of_two),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
