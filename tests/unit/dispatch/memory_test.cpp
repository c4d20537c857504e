// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// LMRs, RMRs, posts and syncs of DAT 1.2, whose segments have 64-bit lengths and whose
// dat_rmr_bind takes no LMR handle.

#include "dat1.hpp"

#include <cerrno>

using namespace fake;
namespace dat1 = dat1_test::dat1;

namespace {

constexpr DAT_COMPLETION_FLAGS default_flags = DAT_COMPLETION_DEFAULT_FLAG;
constexpr DAT_VLEN gigabyte = UINT64_C(1) << 30;

DAT_REGION_DESCRIPTION region_at(void *addr) {
    DAT_REGION_DESCRIPTION region_desc = {};
    region_desc.for_va = addr;
    return region_desc;
}

void dat1_lmr_query_returns_create_arguments(void **) {
    dat1_test::ia_fixture ia;
    dat1_test::memory buffer(ia);
    dat1::lmr_param param;
    std::memset(static_cast<void *>(&param), 0xa5, sizeof param);
    assert_success(dat1_test::dat().lmr_query_func(buffer.lmr, dat1_test::lmr_field_all, &param));
    assert_int_equal(reinterpret_cast<std::uintptr_t>(param.ia_handle),
                     1); // from dats_get_ia_handle()
    assert_int_equal(param.mem_type, DAT_MEM_TYPE_VIRTUAL);
    assert_ptr_equal(param.region_desc.for_va, buffer.bytes.data());
    assert_int_equal(param.length, 4096);
    assert_ptr_equal(param.pz_handle, ia.pz);
    assert_int_equal(param.mem_priv, DAT_MEM_PRIV_ALL_FLAG);
    assert_int_equal(param.lmr_context, buffer.lmr_context);
    assert_int_equal(param.rmr_context, buffer.rmr_context);
    assert_int_not_equal(buffer.rmr_context, buffer.lmr_context);
    assert_int_equal(param.registered_size, 4096);
    assert_int_equal(param.registered_address, buffer.registered_address);
    const auto dat2_bit = static_cast<DAT_LMR_PARAM_MASK>(0x400);
    assert_int_equal(dat1_test::dat().lmr_query_func(buffer.lmr, dat2_bit, &param),
                     dat1_test::invalid_parameter(2));
}

// An IA that was opened with ro_aware gets relaxed ordering, except in regions that ask for strong
// ordering.
void dat1_relaxed_ordering_only_for_aware_ia(void **) {
    const struct {
        DAT_BOOLEAN ro_aware;
        unsigned mem_type;
        bool relaxed;
        unsigned extra_priv = 0;
    } cases[] = {
        {DAT_FALSE, DAT_MEM_TYPE_VIRTUAL, false},
        {DAT_FALSE, 3, false}, // DAT_MEM_TYPE_SO_VIRTUAL
        {DAT_TRUE, DAT_MEM_TYPE_VIRTUAL, true},
        {DAT_TRUE, 3, false},
        {DAT_TRUE, DAT_MEM_TYPE_VIRTUAL, false, 0x100}, // DAT_MEM_PRIV_RO_DISABLE_FLAG
    };
    char bytes[64];
    for (const auto &it : cases) {
        dat1_test::ia_fixture ia("roce", it.ro_aware);
        DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
        DAT_LMR_CONTEXT lkey;
        assert_success(dat1_test::dat().lmr_create_func(
            ia.handle, static_cast<DAT_MEM_TYPE>(it.mem_type), region_at(bytes), 64, ia.pz,
            DAT_MEM_PRIV_ALL_FLAG | static_cast<DAT_MEM_PRIV_FLAGS>(it.extra_priv), &lmr, &lkey,
            nullptr, nullptr, nullptr));
        {
            const library_call_guard call;
            assert_int_equal((get_fabric().find_mr(lkey)->access & IBV_ACCESS_RELAXED_ORDERING) !=
                                 0,
                             it.relaxed);
        }
        assert_success(dat1_test::dat().lmr_free_func(lmr));
    }
}

// dat_lmr_create of DAT 1.2 has no va_type: later arguments have lower numbers than in 2.0.
void dat1_lmr_create_arguments_checked(void **) {
    dat1_test::ia_fixture ia;
    char bytes[64];
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT lkey;
    const auto create = [&](DAT_MEM_TYPE mem_type, void *addr, DAT_VLEN length, DAT_PZ_HANDLE pz,
                            DAT_UINT32 mem_priv, DAT_LMR_HANDLE *lmr_out) {
        return dat1_test::dat().lmr_create_func(ia.handle, mem_type, region_at(addr), length, pz,
                                                static_cast<DAT_MEM_PRIV_FLAGS>(mem_priv), lmr_out,
                                                &lkey, nullptr, nullptr, nullptr);
    };
    constexpr auto mem_type = DAT_MEM_TYPE_VIRTUAL;
    assert_int_equal(create(static_cast<DAT_MEM_TYPE>(9), bytes, 64, ia.pz, 0x11, &lmr),
                     dat1_test::invalid_parameter(2));
    assert_int_equal(create(mem_type, nullptr, 64, ia.pz, 0x11, &lmr),
                     dat1_test::invalid_parameter(3));
    assert_int_equal(create(mem_type, bytes, 0, ia.pz, 0x11, &lmr),
                     dat1_test::invalid_parameter(4));
    assert_int_equal(create(mem_type, bytes, UINT64_MAX, ia.pz, 0x11, &lmr),
                     dat1_test::invalid_parameter(4));
    assert_int_equal(create(mem_type, bytes, 64, ia.handle, 0x11, &lmr),
                     invalid_handle(DAT_INVALID_HANDLE_PZ));
    assert_int_equal(create(mem_type, bytes, 64, ia.pz, 0x8000, &lmr),
                     dat1_test::invalid_parameter(6));
    assert_int_equal(create(mem_type, bytes, 64, ia.pz, 0x11, nullptr),
                     dat1_test::invalid_parameter(7));
    assert_null(lmr);
    assert_success(create(mem_type, bytes, 64, ia.pz, 0x11, &lmr));
    assert_success(dat1_test::dat().lmr_free_func(lmr));
}

/// Two connected EPs, an LMR and an RMR of one DAT 1.2 IA.
struct rmr_fixture {
    rmr_fixture()
        : passive(ia)
        , active(ia)
        , buffer(ia) {
        DAT_EVD_HANDLE const cr_evd = ia.create_evd(DAT_EVD_CR_FLAG);
        DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
        assert_success(
            dat1_test::dat().psp_create_func(ia.handle, 7002, cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
        socket_address addr = parse_address(ia.address);
        assert_success(dat1_test::dat().ep_connect_func(
            passive.handle, &addr.sa, 7002, event_timeout_us, 0, nullptr, DAT_QOS_BEST_EFFORT,
            DAT_CONNECT_DEFAULT_FLAG));
        const dat1::event event = dat1_test::wait_event(cr_evd, DAT_CONNECTION_REQUEST_EVENT);
        assert_success(dat1_test::dat().cr_accept_func(
            event.event_data.cr_arrival_event_data.cr_handle, active.handle, 0, nullptr));
        dat1_test::wait_event(passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        dat1_test::wait_event(active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        assert_success(dat1_test::dat().psp_free_func(psp));
        assert_success(dat1_test::dat().evd_free_func(cr_evd));
        assert_success(dat1_test::dat().rmr_create_func(ia.pz, &rmr));
        get_fabric().posts.clear();
    }
    ~rmr_fixture() {
        assert_success(dat1_test::dat().rmr_free_func(rmr));
        assert_success(dat1_test::dat().ep_disconnect_func(passive.handle, DAT_CLOSE_ABRUPT_FLAG));
        dat1_test::wait_event(passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        dat1_test::wait_event(active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    }
    DAT_RETURN bind(const dat1::lmr_triplet *iov, DAT_UINT32 mem_priv, DAT_EP_HANDLE ep) {
        return dat1_test::dat().rmr_bind_func(rmr, iov, static_cast<DAT_MEM_PRIV_FLAGS>(mem_priv),
                                              ep, cookie(0xb1d), default_flags, &context);
    }
    void wait_bind() const {
        const dat1::event event =
            dat1_test::wait_event(passive.request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
        const auto &data = event.event_data.rmr_completion_event_data;
        assert_ptr_equal(data.rmr_handle, rmr);
        assert_int_equal(data.user_cookie.as_64, 0xb1d);
        assert_int_equal(data.status, DAT_DTO_SUCCESS);
    }

    dat1_test::ia_fixture ia;
    dat1_test::ep_fixture passive, active;
    dat1_test::memory buffer;
    DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
    DAT_RMR_CONTEXT context = 0;
};

// DAT 1.2's dat_rmr_bind names the LMR by the context in the triplet, 2.0's by its handle.
void dat1_rmr_bind_finds_lmr(void **) {
    rmr_fixture fixture;
    dat1_test::memory peer_buffer(fixture.ia);
    peer_buffer.fill(3);
    dat1::lmr_triplet iov = fixture.buffer.lmr_triplet(64, 128);
    assert_success(fixture.bind(&iov, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, fixture.passive.handle));
    fixture.wait_bind();
    dat1::rmr_param param;
    std::memset(static_cast<void *>(&param), 0xa5, sizeof param);
    assert_success(dat1_test::dat().rmr_query_func(fixture.rmr, dat1_test::rmr_field_all, &param));
    assert_int_equal(reinterpret_cast<std::uintptr_t>(param.ia_handle), 1);
    assert_ptr_equal(param.pz_handle, fixture.ia.pz);
    assert_int_equal(param.lmr_triplet.lmr_context, fixture.buffer.lmr_context);
    assert_int_equal(param.lmr_triplet.virtual_address, fixture.buffer.registered_address + 64);
    assert_int_equal(param.lmr_triplet.segment_length, 128);
    assert_int_equal(param.mem_priv, DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
    assert_int_equal(param.rmr_context, fixture.context);
    for (const DAT_UINT32 dat2_mask : {0x20U, 0x40U})
        assert_int_equal(dat1_test::dat().rmr_query_func(
                             fixture.rmr, static_cast<DAT_RMR_PARAM_MASK>(dat2_mask), &param),
                         dat1_test::invalid_parameter(2));
    assert_int_equal(dat1_test::dat().lmr_free_func(fixture.buffer.lmr),
                     dat1_test::invalid_state(DAT_INVALID_STATE_LMR_IN_USE));

    dat1::lmr_triplet write_iov = peer_buffer.lmr_triplet(0, 128);
    const dat1::rmr_triplet remote = {fixture.context, 0, fixture.buffer.registered_address + 64,
                                      128};
    assert_success(dat1_test::dat().ep_post_rdma_write_func(fixture.active.handle, 1, &write_iov,
                                                            cookie(1), &remote, default_flags));
    dat1_test::assert_completion(
        dat1_test::wait_event(fixture.active.request_evd, DAT_DTO_COMPLETION_EVENT),
        fixture.active.handle, 1, 128);
    assert_memory_equal(fixture.buffer.bytes.data() + 64, peer_buffer.bytes.data(), 128);

    iov.segment_length = 0; // unbinds; lmr_context is ignored
    iov.lmr_context = 0x666;
    assert_success(fixture.bind(&iov, 0, fixture.passive.handle));
    fixture.wait_bind();
}

void dat1_rmr_bind_arguments_checked(void **) {
    rmr_fixture fixture;
    const dat1::lmr_triplet valid = fixture.buffer.lmr_triplet(0, 64),
                            beyond = fixture.buffer.lmr_triplet(4000, 97),
                            huge = fixture.buffer.lmr_triplet(0, (UINT64_C(1) << 32) + 64),
                            unknown_lmr = {0x666, 0, fixture.buffer.registered_address, 64};
    constexpr DAT_UINT32 write = DAT_MEM_PRIV_REMOTE_WRITE_FLAG;
    assert_int_equal(fixture.bind(nullptr, write, fixture.passive.handle),
                     dat1_test::invalid_parameter(2));
    assert_int_equal(fixture.bind(&beyond, write, fixture.passive.handle),
                     dat1_test::invalid_parameter(2));
    assert_int_equal(fixture.bind(&unknown_lmr, write, fixture.passive.handle),
                     dat1_test::invalid_parameter(2));
    assert_int_equal(fixture.bind(&huge, write, fixture.passive.handle),
                     dat_error(DAT_LENGTH_ERROR));
    assert_int_equal(fixture.bind(&valid, 0x8000, fixture.passive.handle),
                     dat1_test::invalid_parameter(3));
    assert_int_equal(fixture.bind(&valid, write, fixture.rmr),
                     invalid_handle(DAT_INVALID_HANDLE_EP));
    dat1_test::ia_fixture other_ia;
    dat1_test::memory other_buffer(other_ia);
    const dat1::lmr_triplet lmr_of_other_ia = other_buffer.lmr_triplet(0, 64);
    assert_int_equal(fixture.bind(&lmr_of_other_ia, write, fixture.passive.handle),
                     dat1_test::invalid_parameter(2));
    assert_true(get_fabric().posts.empty());
    other_buffer.free();
    other_ia.close();
    dat1_test::ep_fixture unconnected(fixture.ia);
    assert_int_equal(fixture.bind(&valid, write, unconnected.handle),
                     dat1_test::invalid_state(DAT_INVALID_STATE_EP_UNCONNECTED));
}

// DAT_LENGTH_ERROR comes after the checks of handles and other arguments; nothing is posted.
void dat1_segments_above_4_gigabytes_rejected_by_posts(void **) {
    rmr_fixture fixture;
    const dat1::provider &dat = dat1_test::dat();
    const dat1::rmr_triplet remote = fixture.buffer.rmr_triplet(0, 64);
    for (const DAT_VLEN length : {UINT64_C(1) << 32, (UINT64_C(1) << 32) + 64, UINT64_MAX}) {
        dat1::lmr_triplet list[] = {fixture.buffer.lmr_triplet(0, 8),
                                    fixture.buffer.lmr_triplet(8, length)};
        for (const DAT_COUNT segments : {1, 2}) {
            dat1::lmr_triplet *const iov = segments == 1 ? list + 1 : list;
            constexpr DAT_RETURN expected = dat_error(DAT_LENGTH_ERROR);
            const DAT_EP_HANDLE ep = fixture.passive.handle;
            assert_int_equal(dat.ep_post_send_func(ep, segments, iov, cookie(1), default_flags),
                             expected);
            assert_int_equal(dat.ep_post_recv_func(ep, segments, iov, cookie(1), default_flags),
                             expected);
            assert_int_equal(
                dat.ep_post_rdma_read_func(ep, segments, iov, cookie(1), &remote, default_flags),
                expected);
            assert_int_equal(
                dat.ep_post_rdma_write_func(ep, segments, iov, cookie(1), &remote, default_flags),
                expected);
            assert_int_equal(
                dat.ep_post_send_func(fixture.rmr, segments, iov, cookie(1), default_flags),
                invalid_handle(DAT_INVALID_HANDLE_EP));
            assert_int_equal(
                dat.ep_post_rdma_write_func(ep, segments, iov, cookie(1), nullptr, default_flags),
                expected);
        }
        std::vector<dat1::lmr_triplet> segments_9(9, list[1]);
        assert_int_equal(dat.ep_post_send_func(fixture.passive.handle, 9, segments_9.data(),
                                               cookie(1), default_flags),
                         dat1_test::invalid_parameter(2));
    }
    assert_true(get_fabric().posts.empty());
}

void dat1_post_arguments_checked(void **) {
    rmr_fixture fixture;
    const dat1::provider &dat = dat1_test::dat();
    const DAT_EP_HANDLE ep = fixture.passive.handle;
    dat1::lmr_triplet iov = fixture.buffer.lmr_triplet(0, 64);
    const dat1::rmr_triplet remote = fixture.buffer.rmr_triplet(0, 64);
    std::vector<dat1::lmr_triplet> segments_9(4096, iov);
    for (const DAT_COUNT segments : {-1, 5, 257, 4096}) {
        dat1::lmr_triplet *const list = segments_9.data();
        assert_int_equal(dat.ep_post_send_func(ep, segments, list, cookie(1), default_flags),
                         dat1_test::invalid_parameter(2));
        assert_int_equal(dat.ep_post_recv_func(ep, segments, list, cookie(1), default_flags),
                         dat1_test::invalid_parameter(2));
        assert_int_equal(
            dat.ep_post_rdma_read_func(ep, segments, list, cookie(1), &remote, default_flags),
            dat1_test::invalid_parameter(2));
    }
    assert_int_equal(dat.ep_post_send_func(ep, 1, nullptr, cookie(1), default_flags),
                     dat1_test::invalid_parameter(3));
    assert_int_equal(dat.ep_post_recv_func(ep, 1, nullptr, cookie(1), default_flags),
                     dat1_test::invalid_parameter(3));
    assert_int_equal(dat.ep_post_rdma_write_func(ep, 1, nullptr, cookie(1), &remote, default_flags),
                     dat1_test::invalid_parameter(3));
    assert_int_equal(dat.ep_post_rdma_write_func(ep, 1, &iov, cookie(1), nullptr, default_flags),
                     dat1_test::invalid_parameter(5));
    dat1_test::ep_fixture unconnected(fixture.ia);
    assert_int_equal(dat.ep_post_send_func(unconnected.handle, 1, &iov, cookie(1), default_flags),
                     dat1_test::invalid_state(DAT_INVALID_STATE_EP_UNCONNECTED));
    unconnected.free();
    assert_true(get_fabric().posts.empty());
    // The sge of the posted wr matches the segment.
    assert_success(dat.ep_post_recv_func(ep, 1, &iov, cookie(1), default_flags));
    const auto &posted = get_fabric().posts.back();
    assert_int_equal(posted.sge_list.size(), 1);
    assert_int_equal(posted.sge_list[0].addr, iov.virtual_address);
    assert_int_equal(posted.sge_list[0].length, 64);
    assert_int_equal(posted.sge_list[0].lkey, iov.lmr_context);
    const dat1::rmr_triplet large = fixture.buffer.rmr_triplet(8, UINT64_C(5) << 32);
    iov.segment_length = 16;
    assert_success(dat.ep_post_rdma_read_func(ep, 1, &iov, cookie(2), &large, default_flags));
    assert_int_equal(get_fabric().posts.back().wr.wr.rdma.remote_addr,
                     fixture.buffer.registered_address + 8);
    assert_int_equal(get_fabric().posts.back().wr.wr.rdma.rkey, fixture.buffer.rmr_context);
    dat1_test::assert_completion(
        dat1_test::wait_event(fixture.passive.request_evd, DAT_DTO_COMPLETION_EVENT), ep, 2, 16);
}

// -- syncing

enum class sync_direction { rdma_read, rdma_write };

/// The list of the only call of libcoherdma, which has one pair of fences.
std::vector<coherdma_range> synced_ranges(sync_direction direction) {
    assert_int_equal(get_fabric().syncs.size(), 1);
    const recorded_sync &sync = get_fabric().syncs[0];
    assert_int_equal(sync.is_write, direction == sync_direction::rdma_write);
    return sync.ranges;
}

void dat1_sync_of_many_segments_is_one_call(void **) {
    dat1_test::ia_fixture ia;
    dat1_test::memory buffer(ia);
    for (const sync_direction direction : {sync_direction::rdma_read, sync_direction::rdma_write})
        for (const std::size_t count : {1U, 15U, 16U, 17U, 128U, 200U}) {
            get_fabric().syncs.clear();
            std::vector<dat1::lmr_triplet> list;
            for (std::size_t i = 0; i != count; ++i)
                list.push_back(buffer.lmr_triplet(i * 16, 8 + i % 8));
            const auto sync = direction == sync_direction::rdma_write
                                  ? dat1_test::dat().lmr_sync_rdma_write_func
                                  : dat1_test::dat().lmr_sync_rdma_read_func;
            assert_success(sync(ia.handle, list.data(), count));
            const std::vector<coherdma_range> ranges = synced_ranges(direction);
            assert_int_equal(ranges.size(), count);
            for (std::size_t i = 0; i != count; ++i) {
                assert_int_equal(ranges[i].addr, buffer.registered_address + i * 16);
                assert_int_equal(ranges[i].length, 8 + i % 8);
            }
        }
}

// The fake fabric skips its check that the region is mapped.
void dat1_sync_takes_segments_above_4_gigabytes(void **) {
    get_fabric().devices[0].attr.max_mr_size = UINT64_C(1) << 40;
    get_fabric().allow_unmapped_memory = true;
    dat1_test::ia_fixture ia;
    alignas(64) static char begin[64];
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT lkey = 0;
    constexpr DAT_VLEN size = 300 * gigabyte;
    DAT_VADDR first = 0;
    assert_success(dat1_test::dat().lmr_create_func(
        ia.handle, DAT_MEM_TYPE_VIRTUAL, region_at(begin), size, ia.pz, DAT_MEM_PRIV_ALL_FLAG, &lmr,
        &lkey, nullptr, nullptr, &first));
    for (const DAT_VLEN length :
         {4 * gigabyte - 1, 4 * gigabyte, 4 * gigabyte + 1, 9 * gigabyte, size - 64}) {
        get_fabric().syncs.clear();
        const dat1::lmr_triplet list[] = {{lkey, 0, first, 64}, {lkey, 0, first + 64, length}};
        assert_success(dat1_test::dat().lmr_sync_rdma_write_func(ia.handle, list, 2));
        const std::vector<coherdma_range> ranges = synced_ranges(sync_direction::rdma_write);
        assert_int_equal(ranges.size(), 2);
        assert_int_equal(ranges[1].addr, first + 64);
        assert_int_equal(ranges[1].length, length);
    }
    get_fabric().syncs.clear();
    const dat1::lmr_triplet beyond[] = {{lkey, 0, first, 64}, {lkey, 0, first + 64, size - 63}};
    assert_int_equal(dat1_test::dat().lmr_sync_rdma_write_func(ia.handle, beyond, 2),
                     dat1_test::invalid_parameter(2));
    assert_true(get_fabric().syncs.empty());
    assert_success(dat1_test::dat().lmr_free_func(lmr));
}

void dat1_sync_with_one_bad_segment_does_nothing(void **) {
    dat1_test::ia_fixture ia, other_ia;
    dat1_test::memory buffer(ia), lmr_of_other_ia(other_ia);
    const dat1::lmr_triplet wrong[] = {
        buffer.lmr_triplet(4000, 97),
        buffer.lmr_triplet(0, UINT64_C(1) << 32),
        buffer.lmr_triplet(64, UINT64_MAX),
        lmr_of_other_ia.lmr_triplet(0, 64),
        {0x666, 0, buffer.registered_address, 8},
    };
    for (const auto &it : wrong)
        for (const std::size_t addr : {0U, 70U, 99U}) {
            std::vector<dat1::lmr_triplet> list(100, buffer.lmr_triplet(0, 64));
            list[addr] = it;
            assert_int_equal(dat1_test::dat().lmr_sync_rdma_read_func(ia.handle, list.data(), 100),
                             dat1_test::invalid_parameter(2));
            assert_int_equal(dat1_test::dat().lmr_sync_rdma_write_func(ia.handle, list.data(), 100),
                             dat1_test::invalid_parameter(2));
        }
    assert_int_equal(dat1_test::dat().lmr_sync_rdma_read_func(ia.handle, nullptr, 1),
                     dat1_test::invalid_parameter(2));
    assert_true(get_fabric().syncs.empty());
    assert_success(dat1_test::dat().lmr_sync_rdma_read_func(ia.handle, nullptr, 0));
    const dat1::lmr_triplet valid = buffer.lmr_triplet(0, 64);
    get_fabric().injected.fail("coherdma_sync_after_write", EFAULT);
    assert_int_equal(dat1_test::dat().lmr_sync_rdma_write_func(ia.handle, &valid, 1),
                     dat1_test::invalid_parameter(2));
}

// A segment without bytes: its context must be valid, its address is ignored.
void dat1_sync_of_empty_segment_needs_valid_context(void **) {
    dat1_test::ia_fixture ia;
    dat1_test::memory buffer(ia);
    const dat1::lmr_triplet anywhere = {buffer.lmr_context, 0, 1, 0},
                            unknown_lmr = {0x666, 0, 1, 0};
    for (const auto sync :
         {dat1_test::dat().lmr_sync_rdma_read_func, dat1_test::dat().lmr_sync_rdma_write_func}) {
        assert_success(sync(ia.handle, &anywhere, 1));
        assert_int_equal(sync(ia.handle, &unknown_lmr, 1), dat1_test::invalid_parameter(2));
    }
}

// Only DAT 2.0 creates zero-based regions; DAT 1.2 syncs them.
void dat1_sync_translates_zero_based_addresses(void **) {
    ia_fixture ia;
    memory buffer(ia, 4096, DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_ZB);
    const dat1::lmr_triplet iov = {buffer.lmr_context, 0, 16, 32};
    assert_success(dat1_test::dat().lmr_sync_rdma_write_func(ia.handle, &iov, 1));
    const auto synced = synced_ranges(sync_direction::rdma_write);
    assert_int_equal(synced.size(), 1);
    assert_int_equal(synced[0].addr, reinterpret_cast<std::uintptr_t>(buffer.bytes.data()) + 16);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(dat1_lmr_query_returns_create_arguments),
        TEST(dat1_relaxed_ordering_only_for_aware_ia),
        TEST(dat1_lmr_create_arguments_checked),
        TEST(dat1_rmr_bind_finds_lmr),
        TEST(dat1_rmr_bind_arguments_checked),
        TEST(dat1_segments_above_4_gigabytes_rejected_by_posts),
        TEST(dat1_post_arguments_checked),
        TEST(dat1_sync_of_many_segments_is_one_call),
        TEST(dat1_sync_takes_segments_above_4_gigabytes),
        TEST(dat1_sync_with_one_bad_segment_does_nothing),
        TEST(dat1_sync_of_empty_segment_needs_valid_context),
        TEST(dat1_sync_translates_zero_based_addresses),
    };
    return dat1_test::run_cases(tests);
}
