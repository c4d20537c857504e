// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Memory by DAT 1.2: its regions, windows without a region's handle, segments with 64 bits of
// length, posted and synced.

#include "dat1.hpp"

#include <cerrno>

using namespace played;
namespace dat1 = by1::dat1;

namespace {

constexpr DAT_COMPLETION_FLAGS plain = DAT_COMPLETION_DEFAULT_FLAG;
constexpr DAT_VLEN gigabyte = UINT64_C(1) << 30;

DAT_REGION_DESCRIPTION at_address(void *where) {
    DAT_REGION_DESCRIPTION region = {};
    region.for_va = where;
    return region;
}

void a_region_is_asked(void **) {
    by1::adapter on;
    by1::memory area(on);
    dat1::lmr_param in_1;
    std::memset(static_cast<void *>(&in_1), 0xa5, sizeof in_1);
    done(by1::dat().lmr_query_func(area.lmr, static_cast<DAT_LMR_PARAM_MASK>(0x3ff), &in_1));
    assert_int_equal(reinterpret_cast<std::uintptr_t>(in_1.ia_handle), 1); // its number
    assert_int_equal(in_1.mem_type, DAT_MEM_TYPE_VIRTUAL);
    assert_ptr_equal(in_1.region_desc.for_va, area.bytes.data());
    assert_int_equal(in_1.length, 4096);
    assert_ptr_equal(in_1.pz_handle, on.pz);
    assert_int_equal(in_1.mem_priv, DAT_MEM_PRIV_ALL_FLAG);
    assert_int_equal(in_1.lmr_context, area.lmr_context);
    assert_int_equal(in_1.rmr_context, area.rmr_context);
    assert_int_not_equal(area.rmr_context, area.lmr_context);
    assert_int_equal(in_1.registered_size, 4096);
    assert_int_equal(in_1.registered_address, area.begin);
    const auto too_much = static_cast<DAT_LMR_PARAM_MASK>(0x400); // a bit of 2.0's
    assert_int_equal(by1::dat().lmr_query_func(area.lmr, too_much, &in_1), by1::wrong_argument(2));
    area.free();
    on.close();
}

// Who does not say that it knows of relaxed ordering has none; who does has it but where it asks
// for strong ordering.
void order_is_relaxed_for_who_can_do_with_it(void **) {
    const struct {
        DAT_BOOLEAN ro_aware;
        unsigned kind;
        bool relaxed;
        unsigned more = 0;
    } all[] = {
        {DAT_FALSE, DAT_MEM_TYPE_VIRTUAL, false},
        {DAT_FALSE, 3, false}, // DAT_MEM_TYPE_SO_VIRTUAL
        {DAT_TRUE, DAT_MEM_TYPE_VIRTUAL, true},
        {DAT_TRUE, 3, false},
        {DAT_TRUE, DAT_MEM_TYPE_VIRTUAL, false, 0x100}, // DAT_MEM_PRIV_RO_DISABLE_FLAG
    };
    char bytes[64];
    for (const auto &each : all) {
        by1::adapter on("ib", each.ro_aware);
        DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
        DAT_LMR_CONTEXT lkey;
        done(by1::dat().lmr_create_func(
            on.ia, static_cast<DAT_MEM_TYPE>(each.kind), at_address(bytes), 64, on.pz,
            DAT_MEM_PRIV_ALL_FLAG | static_cast<DAT_MEM_PRIV_FLAGS>(each.more), &lmr, &lkey,
            nullptr, nullptr, nullptr));
        {
            const entered call;
            assert_int_equal((net().local(lkey)->access & IBV_ACCESS_RELAXED_ORDERING) != 0,
                             each.relaxed);
        }
        done(by1::dat().lmr_free_func(lmr));
        on.close();
    }
}

// By their places in a call that has no va_type.
void arguments_of_a_registration(void **) {
    by1::adapter on;
    char bytes[64];
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT lkey;
    const auto create = [&](DAT_MEM_TYPE kind, void *where, DAT_VLEN length, DAT_PZ_HANDLE pz,
                            DAT_UINT32 privileges, DAT_LMR_HANDLE *into) {
        return by1::dat().lmr_create_func(on.ia, kind, at_address(where), length, pz,
                                          static_cast<DAT_MEM_PRIV_FLAGS>(privileges), into, &lkey,
                                          nullptr, nullptr, nullptr);
    };
    constexpr auto kind = DAT_MEM_TYPE_VIRTUAL;
    assert_int_equal(create(static_cast<DAT_MEM_TYPE>(9), bytes, 64, on.pz, 0x11, &lmr),
                     by1::wrong_argument(2));
    assert_int_equal(create(kind, nullptr, 64, on.pz, 0x11, &lmr), by1::wrong_argument(3));
    assert_int_equal(create(kind, bytes, 0, on.pz, 0x11, &lmr), by1::wrong_argument(4));
    assert_int_equal(create(kind, bytes, UINT64_MAX, on.pz, 0x11, &lmr), by1::wrong_argument(4));
    assert_int_equal(create(kind, bytes, 64, on.ia, 0x11, &lmr), no_handle(DAT_INVALID_HANDLE_PZ));
    assert_int_equal(create(kind, bytes, 64, on.pz, 0x8000, &lmr), by1::wrong_argument(6));
    assert_int_equal(create(kind, bytes, 64, on.pz, 0x11, nullptr), by1::wrong_argument(7));
    assert_null(lmr);
    done(create(kind, bytes, 64, on.pz, 0x11, &lmr));
    done(by1::dat().lmr_free_func(lmr));
    on.close();
}

/// Two endpoints of 1.2 that are connected, and a window.
struct windowed {
    windowed()
        : one(on)
        , other(on)
        , area(on) {
        DAT_EVD_HANDLE const requests = on.evd(DAT_EVD_CR_FLAG);
        DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
        done(by1::dat().psp_create_func(on.ia, 7002, requests, DAT_PSP_CONSUMER_FLAG, &psp));
        place to = at(on.address);
        done(by1::dat().ep_connect_func(one.ep, &to.any, 7002, soon, 0, nullptr,
                                        DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
        const dat1::event event = by1::next(requests, DAT_CONNECTION_REQUEST_EVENT);
        done(by1::dat().cr_accept_func(event.event_data.cr_arrival_event_data.cr_handle, other.ep,
                                       0, nullptr));
        by1::next(one.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
        by1::next(other.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
        done(by1::dat().psp_free_func(psp));
        done(by1::dat().evd_free_func(requests));
        done(by1::dat().rmr_create_func(on.pz, &rmr));
        net().heard.clear();
    }
    void free() {
        done(by1::dat().rmr_free_func(rmr));
        done(by1::dat().ep_disconnect_func(one.ep, DAT_CLOSE_ABRUPT_FLAG));
        by1::next(one.connections, DAT_CONNECTION_EVENT_DISCONNECTED);
        by1::next(other.connections, DAT_CONNECTION_EVENT_DISCONNECTED);
        one.free();
        other.free();
        area.free();
        on.close();
    }
    DAT_RETURN bind(const dat1::lmr_triplet *part, DAT_UINT32 privileges, DAT_EP_HANDLE ep) {
        return by1::dat().rmr_bind_func(rmr, part, static_cast<DAT_MEM_PRIV_FLAGS>(privileges), ep,
                                        cookie(0xb1d), plain, &context);
    }
    void bound() const {
        const dat1::event event = by1::next(one.requests, DAT_RMR_BIND_COMPLETION_EVENT);
        const auto &data = event.event_data.rmr_completion_event_data;
        assert_ptr_equal(data.rmr_handle, rmr);
        assert_int_equal(data.user_cookie.as_64, 0xb1d);
        assert_int_equal(data.status, DAT_DTO_SUCCESS);
    }

    by1::adapter on;
    by1::end one, other;
    by1::memory area;
    DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
    DAT_RMR_CONTEXT context = 0;
};

void a_window_finds_its_region(void **) {
    windowed all;
    by1::memory peers(all.on);
    peers.fill(3);
    dat1::lmr_triplet part = all.area.part(64, 128);
    done(all.bind(&part, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, all.one.ep));
    all.bound();
    dat1::rmr_param param;
    std::memset(static_cast<void *>(&param), 0xa5, sizeof param);
    done(by1::dat().rmr_query_func(all.rmr, static_cast<DAT_RMR_PARAM_MASK>(0x1f), &param));
    assert_int_equal(reinterpret_cast<std::uintptr_t>(param.ia_handle), 1);
    assert_ptr_equal(param.pz_handle, all.on.pz);
    assert_int_equal(param.lmr_triplet.lmr_context, all.area.lmr_context);
    assert_int_equal(param.lmr_triplet.virtual_address, all.area.begin + 64);
    assert_int_equal(param.lmr_triplet.segment_length, 128);
    assert_int_equal(param.mem_priv, DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
    assert_int_equal(param.rmr_context, all.context);
    for (const DAT_UINT32 of_2_0 : {0x20U, 0x40U})
        assert_int_equal(
            by1::dat().rmr_query_func(all.rmr, static_cast<DAT_RMR_PARAM_MASK>(of_2_0), &param),
            by1::wrong_argument(2));
    assert_int_equal(by1::dat().lmr_free_func(all.area.lmr),
                     by1::wrong_state(DAT_INVALID_STATE_LMR_IN_USE));

    dat1::lmr_triplet from = peers.part(0, 128);
    const dat1::rmr_triplet to = {all.context, 0, all.area.begin + 64, 128};
    done(by1::dat().ep_post_rdma_write_func(all.other.ep, 1, &from, cookie(1), &to, plain));
    by1::completed(by1::next(all.other.requests, DAT_DTO_COMPLETION_EVENT), all.other.ep, 1, 128);
    assert_memory_equal(all.area.bytes.data() + 64, peers.bytes.data(), 128);

    part.segment_length = 0; // unbound, whatever else is said
    part.lmr_context = 0x666;
    done(all.bind(&part, 0, all.one.ep));
    all.bound();
    peers.free();
    all.free();
}

void arguments_of_a_bind(void **) {
    windowed all;
    const dat1::lmr_triplet good = all.area.part(0, 64), beyond = all.area.part(4000, 97),
                            huge = all.area.part(0, (UINT64_C(1) << 32) + 64),
                            nobodys = {0x666, 0, all.area.begin, 64};
    constexpr DAT_UINT32 write = DAT_MEM_PRIV_REMOTE_WRITE_FLAG;
    assert_int_equal(all.bind(nullptr, write, all.one.ep), by1::wrong_argument(2));
    assert_int_equal(all.bind(&beyond, write, all.one.ep), by1::wrong_argument(2));
    assert_int_equal(all.bind(&nobodys, write, all.one.ep), by1::wrong_argument(2));
    assert_int_equal(all.bind(&huge, write, all.one.ep), error(DAT_LENGTH_ERROR));
    assert_int_equal(all.bind(&good, 0x8000, all.one.ep), by1::wrong_argument(3));
    assert_int_equal(all.bind(&good, write, all.rmr), no_handle(DAT_INVALID_HANDLE_EP));
    by1::adapter elsewhere;
    by1::memory others(elsewhere);
    const dat1::lmr_triplet foreign = others.part(0, 64);
    assert_int_equal(all.bind(&foreign, write, all.one.ep), by1::wrong_argument(2));
    assert_true(net().heard.empty());
    others.free();
    elsewhere.close();
    by1::end apart(all.on);
    assert_int_equal(all.bind(&good, write, apart.ep),
                     by1::wrong_state(DAT_INVALID_STATE_EP_UNCONNECTED));
    apart.free();
    all.free();
}

// Posted with too many bits, one of them or several: nothing is truncated, and nothing posted. What
// is wrong before it is said before it.
void segments_that_are_too_long(void **) {
    windowed all;
    const dat1::provider &dat = by1::dat();
    const dat1::rmr_triplet to = all.area.remote(0, 64);
    for (const DAT_VLEN length : {UINT64_C(1) << 32, (UINT64_C(1) << 32) + 64, UINT64_MAX}) {
        dat1::lmr_triplet list[] = {all.area.part(0, 8), all.area.part(8, length)};
        for (const DAT_COUNT segments : {1, 2}) {
            dat1::lmr_triplet *const iov = segments == 1 ? list + 1 : list;
            constexpr DAT_RETURN wanted = error(DAT_LENGTH_ERROR);
            const DAT_EP_HANDLE ep = all.one.ep;
            assert_int_equal(dat.ep_post_send_func(ep, segments, iov, cookie(1), plain), wanted);
            assert_int_equal(dat.ep_post_recv_func(ep, segments, iov, cookie(1), plain), wanted);
            assert_int_equal(dat.ep_post_rdma_read_func(ep, segments, iov, cookie(1), &to, plain),
                             wanted);
            assert_int_equal(dat.ep_post_rdma_write_func(ep, segments, iov, cookie(1), &to, plain),
                             wanted);
            assert_int_equal(dat.ep_post_send_func(all.rmr, segments, iov, cookie(1), plain),
                             no_handle(DAT_INVALID_HANDLE_EP));
            assert_int_equal(
                dat.ep_post_rdma_write_func(ep, segments, iov, cookie(1), nullptr, plain),
                by1::wrong_argument(5));
        }
        std::vector<dat1::lmr_triplet> many(9, list[1]);
        assert_int_equal(dat.ep_post_send_func(all.one.ep, 9, many.data(), cookie(1), plain),
                         by1::wrong_argument(2));
    }
    assert_true(net().heard.empty());
    all.free();
}

void arguments_of_posts(void **) {
    windowed all;
    const dat1::provider &dat = by1::dat();
    const DAT_EP_HANDLE ep = all.one.ep;
    dat1::lmr_triplet part = all.area.part(0, 64);
    const dat1::rmr_triplet to = all.area.remote(0, 64);
    std::vector<dat1::lmr_triplet> many(4096, part); // good, all of them
    for (const DAT_COUNT segments : {-1, 5, 257, 4096}) {
        dat1::lmr_triplet *const list = many.data();
        assert_int_equal(dat.ep_post_send_func(ep, segments, list, cookie(1), plain),
                         by1::wrong_argument(2));
        assert_int_equal(dat.ep_post_recv_func(ep, segments, list, cookie(1), plain),
                         by1::wrong_argument(2));
        assert_int_equal(dat.ep_post_rdma_read_func(ep, segments, list, cookie(1), &to, plain),
                         by1::wrong_argument(2));
    }
    assert_int_equal(dat.ep_post_send_func(ep, 1, nullptr, cookie(1), plain),
                     by1::wrong_argument(3));
    assert_int_equal(dat.ep_post_recv_func(ep, 1, nullptr, cookie(1), plain),
                     by1::wrong_argument(3));
    assert_int_equal(dat.ep_post_rdma_write_func(ep, 1, nullptr, cookie(1), &to, plain),
                     by1::wrong_argument(3));
    assert_int_equal(dat.ep_post_rdma_write_func(ep, 1, &part, cookie(1), nullptr, plain),
                     by1::wrong_argument(5));
    by1::end apart(all.on);
    assert_int_equal(dat.ep_post_send_func(apart.ep, 1, &part, cookie(1), plain),
                     by1::wrong_state(DAT_INVALID_STATE_EP_UNCONNECTED));
    apart.free();
    assert_true(net().heard.empty());
    // What verbs are told of one segment, to the last member.
    done(dat.ep_post_recv_func(ep, 1, &part, cookie(1), plain));
    const auto &heard = net().heard.back();
    assert_int_equal(heard.list.size(), 1);
    assert_int_equal(heard.list[0].addr, part.virtual_address);
    assert_int_equal(heard.list[0].length, 64);
    assert_int_equal(heard.list[0].lkey, part.lmr_context);
    const dat1::rmr_triplet large = all.area.remote(8, UINT64_C(5) << 32); // as long as it likes
    part.segment_length = 16;
    done(dat.ep_post_rdma_read_func(ep, 1, &part, cookie(2), &large, plain));
    assert_int_equal(net().heard.back().wr.wr.rdma.remote_addr, all.area.begin + 8);
    assert_int_equal(net().heard.back().wr.wr.rdma.rkey, all.area.rmr_context);
    by1::completed(by1::next(all.one.requests, DAT_DTO_COMPLETION_EVENT), ep, 2, 16);
    all.free();
}

// -- syncing

std::vector<ibv_sge> told(bool write) {
    std::vector<ibv_sge> all;
    for (const synced &each : net().syncs) {
        assert_int_equal(each.write, write);
        assert_in_range(each.list.size(), 1, 64);
        all.insert(all.end(), each.list.begin(), each.list.end());
    }
    return all;
}

void many_segments_are_synced_in_parts(void **) {
    by1::adapter on;
    by1::memory area(on);
    for (const bool write : {false, true})
        for (const std::size_t count : {1U, 63U, 64U, 65U, 128U, 200U}) {
            net().syncs.clear();
            std::vector<dat1::lmr_triplet> list;
            for (std::size_t at = 0; at != count; ++at)
                list.push_back(area.part(at * 16, 8 + at % 8));
            const auto sync =
                write ? by1::dat().lmr_sync_rdma_write_func : by1::dat().lmr_sync_rdma_read_func;
            done(sync(on.ia, list.data(), count));
            assert_int_equal(net().syncs.size(), (count + 63) / 64);
            const std::vector<ibv_sge> all = told(write);
            assert_int_equal(all.size(), count);
            for (std::size_t at = 0; at != count; ++at) {
                assert_int_equal(all[at].addr, area.begin + at * 16);
                assert_int_equal(all[at].length, 8 + at % 8);
                assert_int_equal(all[at].lkey, area.lmr_context);
            }
        }
    area.free();
    on.close();
}

// The region is as large as it says; played, it needs no memory.
void segments_above_4_gigabytes_are_synced(void **) {
    net().devices[0].limits.max_mr_size = UINT64_C(1) << 40;
    by1::adapter on;
    alignas(64) static char begin[64];
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT lkey = 0;
    constexpr DAT_VLEN size = 300 * gigabyte;
    DAT_VADDR first = 0;
    done(by1::dat().lmr_create_func(on.ia, DAT_MEM_TYPE_VIRTUAL, at_address(begin), size, on.pz,
                                    DAT_MEM_PRIV_ALL_FLAG, &lmr, &lkey, nullptr, nullptr, &first));
    for (const DAT_VLEN length :
         {4 * gigabyte - 1, 4 * gigabyte, 4 * gigabyte + 1, 9 * gigabyte, size - 64}) {
        net().syncs.clear();
        const dat1::lmr_triplet list[] = {{lkey, 0, first, 64}, {lkey, 0, first + 64, length}};
        done(by1::dat().lmr_sync_rdma_write_func(on.ia, list, 2));
        DAT_VADDR next = first;
        for (const ibv_sge &each : told(true)) { // without a gap, and nothing twice
            assert_int_equal(each.addr, next);
            next += each.length;
        }
        assert_int_equal(next, first + 64 + length);
    }
    net().syncs.clear();
    const dat1::lmr_triplet beyond[] = {{lkey, 0, first, 64}, {lkey, 0, first + 64, size - 63}};
    assert_int_equal(by1::dat().lmr_sync_rdma_write_func(on.ia, beyond, 2), by1::wrong_argument(2));
    assert_true(net().syncs.empty());
    done(by1::dat().lmr_free_func(lmr));
    on.close();
}

void one_wrong_segment_and_none_is_synced(void **) {
    by1::adapter on, elsewhere;
    by1::memory area(on), foreign(elsewhere);
    const dat1::lmr_triplet wrong[] = {
        area.part(4000, 97), area.part(0, UINT64_C(1) << 32), area.part(64, UINT64_MAX),
        foreign.part(0, 64), {0x666, 0, area.begin, 8},
    };
    for (const auto &each : wrong)
        for (const std::size_t where : {0U, 70U, 99U}) {
            std::vector<dat1::lmr_triplet> list(100, area.part(0, 64));
            list[where] = each;
            assert_int_equal(by1::dat().lmr_sync_rdma_read_func(on.ia, list.data(), 100),
                             by1::wrong_argument(2));
            assert_int_equal(by1::dat().lmr_sync_rdma_write_func(on.ia, list.data(), 100),
                             by1::wrong_argument(2));
        }
    assert_int_equal(by1::dat().lmr_sync_rdma_read_func(on.ia, nullptr, 1), by1::wrong_argument(2));
    assert_true(net().syncs.empty());
    done(by1::dat().lmr_sync_rdma_read_func(on.ia, nullptr, 0));
    const dat1::lmr_triplet empty = {0x666, 0, 1, 0};
    done(by1::dat().lmr_sync_rdma_read_func(on.ia, &empty, 1));
    const dat1::lmr_triplet good = area.part(0, 64);
    net().wrong.fail("coherdma_sync_rdma_write", EOPNOTSUPP);
    assert_int_equal(by1::dat().lmr_sync_rdma_write_func(on.ia, &good, 1),
                     error(DAT_MODEL_NOT_SUPPORTED));
    area.free();
    foreign.free();
    on.close();
    elsewhere.close();
}

// A region that 2.0 has made so, as 1.2 cannot: the same objects serve both.
void zero_based_ones_are_translated(void **) {
    adapter on;
    memory area(on, 4096, DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_ZB);
    const dat1::lmr_triplet part = {area.lmr_context, 0, 16, 32};
    done(by1::dat().lmr_sync_rdma_write_func(on.ia, &part, 1));
    assert_int_equal(told(true).at(0).addr,
                     reinterpret_cast<std::uintptr_t>(area.bytes.data()) + 16);
    area.free();
    close(on);
}

} // namespace

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)

int main() {
    by1::register_names();
    const CMUnitTest tests[] = {
        TEST(a_region_is_asked),
        TEST(order_is_relaxed_for_who_can_do_with_it),
        TEST(arguments_of_a_registration),
        TEST(a_window_finds_its_region),
        TEST(arguments_of_a_bind),
        TEST(segments_that_are_too_long),
        TEST(arguments_of_posts),
        TEST(many_segments_are_synced_in_parts),
        TEST(segments_above_4_gigabytes_are_synced),
        TEST(one_wrong_segment_and_none_is_synced),
        TEST(zero_based_ones_are_translated),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
