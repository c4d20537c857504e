// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Structures of DAT 1.2 in and out: each member has a value of its own, and comes where 1.2 has it.
// What 2.0 tells of the same object is the measure, asked by 2.0's table.

#include "dat1.hpp"

#include <climits>
#include <set>

using namespace played;
namespace dat1 = by1::dat1;

namespace {

template <class what>
void dirty(what &all) {
    std::memset(static_cast<void *>(&all), 0xa5, sizeof all);
}

template <class one, class other>
void same(const char *member, const one &in_1, const other &in_2) {
    if (in_1 != static_cast<one>(in_2))
        print_error("%s differs\n", member);
    assert_true(in_1 == static_cast<one>(in_2));
}
#define SAME(member) same(#member, in_1.member, in_2.member)

void distinct(const std::vector<DAT_VLEN> &values) {
    assert_int_equal(std::set<DAT_VLEN>(values.begin(), values.end()).size(), values.size());
}

void limits_of_an_ia(void **) {
    ibv_device_attr &limits = net().devices[0].limits;
    limits.max_mr = 11111;
    limits.max_qp_rd_atom = 17;
    limits.max_qp_init_rd_atom = 9;
    limits.max_mr_size = UINT64_C(1) << 40;
    by1::adapter on;
    dat1::ia_attr in_1;
    DAT_IA_ATTR in_2;
    dirty(in_1);
    dirty(in_2);
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    done(by1::dat().ia_query_func(on.ia, &async, 0x7ffffffff, &in_1, 0, nullptr));
    done(played::dat().ia_query_func(on.ia, nullptr, DAT_IA_FIELD_ALL, &in_2, 0, nullptr));
    assert_ptr_equal(async, on.async);
    assert_string_equal(in_1.adapter_name, in_2.adapter_name);
    assert_string_equal(in_1.vendor_name, in_2.vendor_name);
    SAME(hardware_version_major);
    SAME(hardware_version_minor);
    SAME(firmware_version_major);
    SAME(firmware_version_minor);
    SAME(ia_address_ptr);
    SAME(max_eps);
    SAME(max_dto_per_ep);
    SAME(max_rdma_read_per_ep_in);
    SAME(max_rdma_read_per_ep_out);
    SAME(max_evds);
    SAME(max_evd_qlen);
    SAME(max_iov_segments_per_dto);
    SAME(max_lmrs);
    SAME(max_lmr_virtual_address);
    SAME(max_pzs);
    SAME(max_message_size);
    SAME(max_rdma_size);
    SAME(max_rmrs);
    SAME(max_rmr_target_address);
    SAME(max_srqs);
    SAME(max_ep_per_srq);
    SAME(max_recv_per_srq);
    SAME(max_iov_segments_per_rdma_read);
    SAME(max_iov_segments_per_rdma_write);
    SAME(max_rdma_read_in);
    SAME(max_rdma_read_out);
    SAME(max_rdma_read_per_ep_in_guaranteed);
    SAME(max_rdma_read_per_ep_out_guaranteed);
    SAME(num_transport_attr);
    SAME(transport_attr);
    SAME(num_vendor_attr);
    SAME(vendor_attr);
    assert_int_equal(in_1.max_lmr_block_size, limits.max_mr_size); // 2.0 has no bits for it
    const auto of = [](DAT_COUNT count) {
        return static_cast<DAT_VLEN>(count);
    };
    distinct({of(in_1.max_eps), of(in_1.max_dto_per_ep), of(in_1.max_rdma_read_per_ep_in),
              of(in_1.max_rdma_read_per_ep_out), of(in_1.max_evds), of(in_1.max_evd_qlen),
              of(in_1.max_iov_segments_per_dto), of(in_1.max_lmrs), of(in_1.max_pzs),
              in_1.max_message_size, of(in_1.max_rmrs), of(in_1.max_srqs),
              of(in_1.max_rdma_read_in), of(in_1.max_rdma_read_out)});
    assert_int_equal(
        by1::dat().ia_query_func(on.ia, nullptr, UINT64_C(0x800000000), &in_1, 0, nullptr),
        by1::wrong_argument(3));
    assert_int_equal(by1::dat().ia_query_func(on.ia, nullptr, 1, nullptr, 0, nullptr),
                     by1::wrong_argument(4));
    on.close();
}

// The device has more segments than a call of 1.2 may: nobody is promised them.
void segments_beyond_reason(void **) {
    net().devices[0].limits.max_sge = 300;
    by1::adapter on;
    dat1::ia_attr attr;
    done(by1::dat().ia_query_func(on.ia, nullptr, 0x7ffffffff, &attr, 0, nullptr));
    assert_int_equal(attr.max_iov_segments_per_dto, 256);
    assert_int_equal(attr.max_iov_segments_per_rdma_read, 256);
    assert_int_equal(attr.max_iov_segments_per_rdma_write, 256);
    DAT_EVD_HANDLE const evd = on.evd(DAT_EVD_DTO_FLAG);
    dat1::ep_attr wanted = {};
    wanted.max_request_dtos = 1;
    wanted.max_request_iov = 257;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    const auto create = [&] {
        return by1::dat().ep_create_func(on.ia, on.pz, DAT_HANDLE_NULL, evd, DAT_HANDLE_NULL,
                                         &wanted, &ep);
    };
    assert_int_equal(create(), by1::wrong_argument(6));
    wanted.max_request_iov = 256;
    done(create());
    std::vector<dat1::lmr_triplet> list(257);
    assert_int_equal(
        by1::dat().ep_post_send_func(ep, 257, list.data(), cookie(1), DAT_COMPLETION_DEFAULT_FLAG),
        by1::wrong_argument(2));
    done(by1::dat().ep_free_func(ep));
    done(by1::dat().evd_free_func(evd));
    on.close();
}

void what_a_provider_can(void **) {
    net().coherency = 3;
    by1::adapter on;
    dat1::provider_attr in_1;
    DAT_PROVIDER_ATTR in_2;
    dirty(in_1);
    dirty(in_2);
    done(by1::dat().ia_query_func(on.ia, nullptr, 0, nullptr, 0x3ffffff, &in_1));
    done(played::dat().ia_query_func(on.ia, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL, &in_2));
    assert_string_equal(in_1.provider_name, in_2.provider_name);
    SAME(provider_version_major);
    SAME(provider_version_minor);
    SAME(dapl_version_major);
    SAME(dapl_version_minor);
    assert_int_equal(in_1.dapl_version_major, 1);
    assert_int_equal(in_1.dapl_version_minor, 2);
    SAME(lmr_mem_types_supported);
    SAME(iov_ownership_on_return);
    SAME(dat_qos_supported);
    SAME(completion_flags_supported);
    SAME(is_thread_safe);
    SAME(max_private_data_size);
    SAME(supports_multipath);
    SAME(ep_creator);
    SAME(pz_support);
    SAME(optimal_buffer_alignment);
    assert_memory_equal(in_1.evd_stream_merging_supported, in_2.evd_stream_merging_supported,
                        sizeof in_1.evd_stream_merging_supported);
    SAME(srq_supported);
    SAME(srq_watermarks_supported);
    SAME(srq_ep_pz_difference_supported);
    SAME(srq_info_supported);
    SAME(ep_recv_info_supported);
    SAME(lmr_sync_req);
    assert_int_equal(in_1.lmr_sync_req, DAT_TRUE);
    SAME(dto_async_return_guaranteed);
    SAME(rdma_write_for_rdma_read_req);
    // Names of extensions are for who can call them.
    assert_in_range(in_1.num_provider_specific_attr, 1, in_2.num_provider_specific_attr - 1);
    for (DAT_COUNT at = 0; at != in_1.num_provider_specific_attr; ++at)
        assert_string_not_equal(in_1.provider_specific_attr[at].name, "DAT_EXTENSION_INTERFACE");
    assert_string_equal(in_2.provider_specific_attr[in_1.num_provider_specific_attr].name,
                        "DAT_EXTENSION_INTERFACE");
    assert_int_equal(by1::dat().ia_query_func(on.ia, nullptr, 0, nullptr, 0x4000000, &in_1),
                     by1::wrong_argument(5));
    assert_int_equal(by1::dat().ia_query_func(on.ia, nullptr, 0, nullptr, 1, nullptr),
                     by1::wrong_argument(6));
    on.close();
}

dat1::ep_attr distinct_attributes() {
    dat1::ep_attr attr = {};
    attr.max_message_size = 40001;
    attr.max_rdma_size = 50001;
    attr.recv_completion_flags = DAT_COMPLETION_SOLICITED_WAIT_FLAG;
    attr.request_completion_flags = DAT_COMPLETION_EVD_THRESHOLD_FLAG;
    attr.max_recv_dtos = 21;
    attr.max_request_dtos = 22;
    attr.max_recv_iov = 6;
    attr.max_request_iov = 7;
    attr.max_rdma_read_in = 4;
    attr.max_rdma_read_out = 5;
    attr.srq_soft_hw = DAT_HW_DEFAULT;
    attr.max_rdma_read_iov = 2;
    attr.max_rdma_write_iov = 3;
    return attr;
}

template <class one, class other>
void same_attributes(const one &in_1, const other &in_2) {
    SAME(service_type);
    SAME(max_message_size);
    SAME(max_rdma_size);
    SAME(qos);
    SAME(recv_completion_flags);
    SAME(request_completion_flags);
    SAME(max_recv_dtos);
    SAME(max_request_dtos);
    SAME(max_recv_iov);
    SAME(max_request_iov);
    SAME(max_rdma_read_in);
    SAME(max_rdma_read_out);
    SAME(srq_soft_hw);
    SAME(max_rdma_read_iov);
    SAME(max_rdma_write_iov);
    SAME(ep_transport_specific_count);
    SAME(ep_transport_specific);
    SAME(ep_provider_specific_count);
    SAME(ep_provider_specific);
}

void parameters_of_an_endpoint(void **) {
    by1::adapter on;
    const dat1::ep_attr wanted = distinct_attributes();
    by1::end one(on, &wanted);
    dat1::ep_param in_1;
    DAT_EP_PARAM in_2;
    dirty(in_1);
    dirty(in_2);
    done(by1::dat().ep_query_func(one.ep, 0x7ffff7ff, &in_1));
    done(played::dat().ep_query_func(one.ep, DAT_EP_FIELD_ALL, &in_2));
    same_attributes(in_1.ep_attr, wanted);
    same_attributes(in_1.ep_attr, in_2.ep_attr);
    SAME(ia_handle);
    SAME(ep_state);
    SAME(local_ia_address_ptr);
    SAME(local_port_qual);
    SAME(remote_ia_address_ptr);
    SAME(remote_port_qual);
    assert_ptr_equal(in_1.pz_handle, on.pz);
    assert_ptr_equal(in_1.recv_evd_handle, one.receives);
    assert_ptr_equal(in_1.request_evd_handle, one.requests);
    assert_ptr_equal(in_1.connect_evd_handle, one.connections);
    assert_null(in_1.srq_handle);
    assert_int_equal(by1::dat().ep_query_func(one.ep, 0x800, &in_1), by1::wrong_argument(2));
    assert_int_equal(by1::dat().ep_query_func(one.ep, 1, nullptr), by1::wrong_argument(3));
    one.free();
    on.close();
}

void what_2_0_cannot_say_is_refused(void **) {
    net().devices[0].port.max_msg_sz = UINT32_MAX; // as siw says: whatever 2.0 can say is good
    by1::adapter on;
    DAT_EVD_HANDLE const evd = on.evd(DAT_EVD_DTO_FLAG);
    for (DAT_VLEN dat1::ep_attr::*const which :
         {&dat1::ep_attr::max_message_size, &dat1::ep_attr::max_rdma_size}) {
        dat1::ep_attr attr = {};
        attr.max_recv_dtos = attr.max_request_dtos = attr.max_recv_iov = attr.max_request_iov = 1;
        attr.*which = (UINT64_C(1) << 32) + 4096; // 4096, were it truncated
        DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
        assert_int_equal(
            by1::dat().ep_create_func(on.ia, on.pz, evd, evd, DAT_HANDLE_NULL, &attr, &ep),
            by1::wrong_argument(6));
        assert_null(ep);
    }
    dat1::ep_attr datagrams = {};
    datagrams.service_type = static_cast<DAT_SERVICE_TYPE>(1);
    datagrams.max_request_dtos = datagrams.max_request_iov = 1;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    assert_int_equal(by1::dat().ep_create_func(on.ia, on.pz, DAT_HANDLE_NULL, evd, DAT_HANDLE_NULL,
                                               &datagrams, &ep),
                     by1::wrong_argument(6));
    // What comes first is said first.
    assert_int_equal(by1::dat().ep_create_func(on.ia, evd, DAT_HANDLE_NULL, evd, DAT_HANDLE_NULL,
                                               &datagrams, &ep),
                     no_handle(DAT_INVALID_HANDLE_PZ));
    done(by1::dat().evd_free_func(evd));
    on.close();
}

/// Of which a member alone is named: the others are noise.
DAT_RETURN modify(DAT_EP_HANDLE ep, DAT_EP_PARAM_MASK mask,
                  const std::function<void(dat1::ep_param &)> &put) {
    dat1::ep_param param;
    dirty(param);
    put(param);
    return by1::dat().ep_modify_func(ep, mask, &param);
}

void an_endpoint_is_changed(void **) {
    by1::adapter on;
    const dat1::ep_attr wanted = distinct_attributes();
    by1::end one(on, &wanted);
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    done(by1::dat().pz_create_func(on.ia, &pz));
    const by1::end spare(on);
    done(modify(one.ep, 0x40, [&](auto &all) { all.pz_handle = pz; }));
    done(modify(one.ep, 0x80, [&](auto &all) { all.recv_evd_handle = spare.receives; }));
    done(modify(one.ep, 0x100, [&](auto &all) { all.request_evd_handle = spare.requests; }));
    done(modify(one.ep, 0x200, [&](auto &all) { all.connect_evd_handle = spare.connections; }));
    done(modify(one.ep, 0x2000, [&](auto &all) { all.ep_attr.max_message_size = 60001; }));
    done(modify(one.ep, 0x40000, [&](auto &all) { all.ep_attr.max_recv_dtos = 23; }));
    done(modify(one.ep, 0x4000000, [&](auto &all) { all.ep_attr.max_rdma_write_iov = 1; }));
    // Nothing else has changed; nor by what is wrong.
    assert_int_equal(modify(one.ep, 0x2000,
                            [&](auto &all) { all.ep_attr.max_message_size = UINT64_C(1) << 32; }),
                     by1::wrong_argument(3));
    for (const unsigned fixed : {0x1U, 0x2U, 0x4U, 0x8U, 0x10U, 0x20U, 0x800U})
        assert_int_equal(modify(one.ep, fixed, [](auto &) {}), by1::wrong_argument(2));
    assert_int_equal(by1::dat().ep_modify_func(one.ep, 0x2000, nullptr), by1::wrong_argument(3));
    assert_int_equal(modify(one.ep, 0x40, [&](auto &all) { all.pz_handle = one.ep; }),
                     no_handle(DAT_INVALID_HANDLE_PZ));
    assert_int_equal(modify(one.ep, 0x400, [&](auto &all) { all.srq_handle = one.ep; }),
                     no_handle(DAT_INVALID_HANDLE_SRQ));
    dat1::ep_param now;
    done(by1::dat().ep_query_func(one.ep, 0x7ffff7ff, &now));
    assert_ptr_equal(now.pz_handle, pz);
    assert_ptr_equal(now.recv_evd_handle, spare.receives);
    assert_ptr_equal(now.request_evd_handle, spare.requests);
    assert_ptr_equal(now.connect_evd_handle, spare.connections);
    dat1::ep_attr left = wanted;
    left.max_message_size = 60001;
    left.max_recv_dtos = 23;
    left.max_rdma_write_iov = 1;
    same_attributes(now.ep_attr, left);
    one.free();
    by1::end(spare).free();
    done(by1::dat().pz_free_func(pz));
    on.close();
}

// Events of the other kinds are told where they come from, in the talk and among the calls.
void an_error_by_itself(void **) {
    by1::adapter on;
    net().report(0, IBV_EVENT_DEVICE_FATAL);
    const dat1::event event = by1::next(on.async, DAT_ASYNC_ERROR_IA_CATASTROPHIC);
    assert_non_null(event.event_data.asynch_error_event_data.dat_handle);
    assert_int_equal(event.event_data.asynch_error_event_data.reason, DAT_IA_CATASTROPHIC_ERROR);
    on.close();
}

} // namespace

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)

int main() {
    by1::register_names();
    const CMUnitTest tests[] = {
        TEST(limits_of_an_ia),
        TEST(segments_beyond_reason),
        TEST(what_a_provider_can),
        TEST(parameters_of_an_endpoint),
        TEST(what_2_0_cannot_say_is_refused),
        TEST(an_endpoint_is_changed),
        TEST(an_error_by_itself),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
