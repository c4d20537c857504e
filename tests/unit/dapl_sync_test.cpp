// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dat_lmr_sync_rdma_read and _write: what libcoherdma is told of each segment.

#include "two.hpp"

#include <cerrno>

using namespace played;

namespace {

void both_are_told_apart(void **) {
    adapter on;
    memory area(on);
    const DAT_LMR_TRIPLET list[] = {area.part(0, 64), area.part(128, 3968)};
    done(dat().lmr_sync_rdma_read_func(on.ia, list, 2));
    done(dat().lmr_sync_rdma_write_func(on.ia, list, 1));
    assert_int_equal(net().syncs.size(), 2);
    assert_false(net().syncs[0].write);
    assert_int_equal(net().syncs[0].list.size(), 2);
    assert_int_equal(net().syncs[0].list[1].addr, area.begin + 128);
    assert_int_equal(net().syncs[0].list[1].length, 3968);
    assert_true(net().syncs[1].write);
    assert_int_equal(net().syncs[1].list.size(), 1);
    area.free();
    close(on);
}

void nothing_is_good_as_it_is(void **) {
    adapter on;
    done(dat().lmr_sync_rdma_read_func(on.ia, nullptr, 0));
    done(dat().lmr_sync_rdma_write_func(on.ia, nullptr, 0));
    const DAT_LMR_TRIPLET empty = {0, 0, 0};
    done(dat().lmr_sync_rdma_write_func(on.ia, &empty, 1));
    close(on);
}

void zero_based_addresses_become_real_ones(void **) {
    adapter on;
    memory area(on, 4096, DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_ZB);
    memory other(on);
    std::vector<DAT_LMR_TRIPLET> list;
    for (std::size_t at = 0; at != 100; ++at) // more than are translated at a time
        list.push_back(at % 2 == 0 ? area.part(at, 8) : other.part(at, 8));
    done(dat().lmr_sync_rdma_write_func(on.ia, list.data(), list.size()));
    std::vector<ibv_sge> told;
    for (const synced &each : net().syncs)
        told.insert(told.end(), each.list.begin(), each.list.end());
    assert_int_equal(told.size(), 100);
    for (std::size_t at = 0; at != 100; ++at) {
        const memory &in = at % 2 == 0 ? area : other;
        assert_int_equal(told[at].addr, reinterpret_cast<std::uintptr_t>(in.bytes.data()) + at);
    }
    area.free();
    other.free();
    close(on);
}

void a_freed_lmr_is_none(void **) {
    adapter on;
    net().reuses_keys = true;
    memory area(on);
    const DAT_LMR_TRIPLET part = area.part(0, 64);
    done(dat().lmr_sync_rdma_write_func(on.ia, &part, 1));
    area.free();
    assert_int_equal(dat().lmr_sync_rdma_write_func(on.ia, &part, 1), wrong_argument(2));
    memory next(on); // has its key
    assert_int_equal(next.lmr_context, part.lmr_context);
    const DAT_LMR_TRIPLET again = next.part(0, 64);
    done(dat().lmr_sync_rdma_write_func(on.ia, &again, 1));
    assert_int_equal(net().syncs.back().list[0].addr, next.begin);
    next.free();
    close(on);
}

void another_ias_lmr_is_none(void **) {
    adapter on, elsewhere;
    memory area(elsewhere);
    const DAT_LMR_TRIPLET part = area.part(0, 64);
    assert_int_equal(dat().lmr_sync_rdma_write_func(on.ia, &part, 1), wrong_argument(2));
    assert_true(net().syncs.empty());
    area.free();
    close(elsewhere);
    close(on);
}

void one_wrong_segment_and_none_is_synced(void **) {
    adapter on;
    memory area(on);
    const DAT_LMR_TRIPLET list[] = {area.part(0, 64), area.part(64, 64), {1, 1, 1}};
    assert_int_equal(dat().lmr_sync_rdma_read_func(on.ia, list, 3), wrong_argument(2));
    assert_true(net().syncs.empty());
    area.free();
    close(on);
}

void a_thousand_lmrs_are_told_apart(void **) {
    adapter on;
    std::vector<std::unique_ptr<memory>> all;
    for (int turn = 0; turn != 1000; ++turn)
        all.push_back(std::make_unique<memory>(on, 64));
    for (const auto &each : all) {
        const DAT_LMR_TRIPLET part = each->part(0, 64), beyond = each->part(0, 65);
        done(dat().lmr_sync_rdma_write_func(on.ia, &part, 1));
        assert_int_equal(dat().lmr_sync_rdma_write_func(on.ia, &beyond, 1), wrong_argument(2));
    }
    for (const auto &each : all)
        each->free();
    close(on);
}

void the_ia_says_whether_it_is_needed(void **) {
    for (const std::uint32_t needed : {0U, 3U}) {
        fresh(nullptr);
        net().coherency = needed;
        adapter on;
        DAT_PROVIDER_ATTR attr = {};
        done(dat().ia_query_func(on.ia, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL, &attr));
        assert_int_equal(attr.lmr_sync_req, needed != 0 ? DAT_TRUE : DAT_FALSE);
        assert_int_equal(attr.optimal_buffer_alignment, 128);
        close(on);
    }
}

void what_libcoherdma_cannot(void **) {
    adapter on;
    memory area(on);
    const DAT_LMR_TRIPLET part = area.part(0, 64);
    net().wrong.fail("coherdma_sync_rdma_write", EOPNOTSUPP);
    assert_int_equal(dat().lmr_sync_rdma_write_func(on.ia, &part, 1),
                     error(DAT_MODEL_NOT_SUPPORTED));
    area.free();
    close(on);
}

} // namespace

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)

int main() {
    register_names();
    const CMUnitTest tests[] = {
        TEST(both_are_told_apart),
        TEST(nothing_is_good_as_it_is),
        TEST(zero_based_addresses_become_real_ones),
        TEST(a_freed_lmr_is_none),
        TEST(another_ias_lmr_is_none),
        TEST(one_wrong_segment_and_none_is_synced),
        TEST(a_thousand_lmrs_are_told_apart),
        TEST(the_ia_says_whether_it_is_needed),
        TEST(what_libcoherdma_cannot),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
