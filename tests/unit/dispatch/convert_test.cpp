// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Conversion of DAT 1.2 structures, tested with a distinct value in each member and compared with
// what the DAT 2.0 table returns for the same object.

#include "dat1.hpp"

#include <climits>
#include <set>

using namespace fake;
namespace dat1 = dat1_test::dat1;

namespace {

template <class param_type>
void fill_with_garbage(param_type &param) {
    std::memset(static_cast<void *>(&param), 0xa5, sizeof param);
}

template <class dat1_type, class dat2_type>
void assert_same(const char *member, const dat1_type &dat1_value, const dat2_type &dat2_value) {
    if (dat1_value != static_cast<dat1_type>(dat2_value))
        print_error("%s differs\n", member);
    assert_true(dat1_value == static_cast<dat1_type>(dat2_value));
}
#define SAME(member) assert_same(#member, dat1_value.member, dat2_value.member)

void assert_distinct(const std::vector<DAT_VLEN> &values) {
    assert_int_equal(std::set<DAT_VLEN>(values.begin(), values.end()).size(), values.size());
}

void dat1_ia_attributes_converted(void **) {
    ibv_device_attr &limits = get_fabric().devices[0].attr;
    limits.max_mr = 11111;
    limits.max_qp_rd_atom = 17;
    limits.max_qp_init_rd_atom = 9;
    limits.max_mr_size = UINT64_C(1) << 40;
    dat1_test::ia_fixture ia;
    dat1::ia_attr dat1_value;
    DAT_IA_ATTR dat2_value;
    fill_with_garbage(dat1_value);
    fill_with_garbage(dat2_value);
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    assert_success(dat1_test::dat().ia_query_func(ia.handle, &async, dat1_test::ia_field_all,
                                                  &dat1_value, 0, nullptr));
    assert_success(
        fake::dat().ia_query_func(ia.handle, nullptr, DAT_IA_FIELD_ALL, &dat2_value, 0, nullptr));
    assert_ptr_equal(async, ia.async_evd);
    assert_string_equal(dat1_value.adapter_name, dat2_value.adapter_name);
    assert_string_equal(dat1_value.vendor_name, dat2_value.vendor_name);
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
    assert_int_equal(dat1_value.max_lmr_block_size, limits.max_mr_size); // 32 bits wide in 2.0
    const auto to_vlen = [](DAT_COUNT count) {
        return static_cast<DAT_VLEN>(count);
    };
    assert_distinct({to_vlen(dat1_value.max_eps), to_vlen(dat1_value.max_dto_per_ep),
                     to_vlen(dat1_value.max_rdma_read_per_ep_in),
                     to_vlen(dat1_value.max_rdma_read_per_ep_out), to_vlen(dat1_value.max_evds),
                     to_vlen(dat1_value.max_evd_qlen), to_vlen(dat1_value.max_iov_segments_per_dto),
                     to_vlen(dat1_value.max_lmrs), to_vlen(dat1_value.max_pzs),
                     dat1_value.max_message_size, to_vlen(dat1_value.max_rmrs),
                     to_vlen(dat1_value.max_srqs), to_vlen(dat1_value.max_rdma_read_in),
                     to_vlen(dat1_value.max_rdma_read_out)});
    assert_int_equal(dat1_test::dat().ia_query_func(ia.handle, nullptr, UINT64_C(0x800000000),
                                                    &dat1_value, 0, nullptr),
                     dat1_test::invalid_parameter(3));
    assert_int_equal(dat1_test::dat().ia_query_func(ia.handle, nullptr, 1, nullptr, 0, nullptr),
                     dat1_test::invalid_parameter(4));
}

// The device's max_sge exceeds what DAT 1.2 calls accept: DAT 1.2's limit of 256 applies.
void dat1_iov_limits_clamped(void **) {
    get_fabric().devices[0].attr.max_sge = 300;
    dat1_test::ia_fixture ia;
    dat1::ia_attr attr;
    assert_success(dat1_test::dat().ia_query_func(ia.handle, nullptr, dat1_test::ia_field_all,
                                                  &attr, 0, nullptr));
    assert_int_equal(attr.max_iov_segments_per_dto, 256);
    assert_int_equal(attr.max_iov_segments_per_rdma_read, 256);
    assert_int_equal(attr.max_iov_segments_per_rdma_write, 256);
    DAT_EVD_HANDLE const evd = ia.create_evd(DAT_EVD_DTO_FLAG);
    dat1::ep_attr ep_attr = {};
    ep_attr.max_request_dtos = 1;
    ep_attr.max_request_iov = 257;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    const auto create = [&] {
        return dat1_test::dat().ep_create_func(ia.handle, ia.pz, DAT_HANDLE_NULL, evd,
                                               DAT_HANDLE_NULL, &ep_attr, &ep);
    };
    assert_int_equal(create(), dat1_test::invalid_parameter(6));
    ep_attr.max_request_iov = 256;
    assert_success(create());
    std::vector<dat1::lmr_triplet> list(257);
    assert_int_equal(dat1_test::dat().ep_post_send_func(ep, 257, list.data(), cookie(1),
                                                        DAT_COMPLETION_DEFAULT_FLAG),
                     dat1_test::invalid_parameter(2));
    assert_success(dat1_test::dat().ep_free_func(ep));
    assert_success(dat1_test::dat().evd_free_func(evd));
}

void dat1_provider_attributes_converted(void **) {
    get_fabric().sync_required = 3;
    dat1_test::ia_fixture ia;
    dat1::provider_attr dat1_value;
    DAT_PROVIDER_ATTR dat2_value;
    fill_with_garbage(dat1_value);
    fill_with_garbage(dat2_value);
    assert_success(dat1_test::dat().ia_query_func(ia.handle, nullptr, 0, nullptr,
                                                  dat1_test::provider_field_all, &dat1_value));
    assert_success(fake::dat().ia_query_func(ia.handle, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL,
                                             &dat2_value));
    assert_string_equal(dat1_value.provider_name, dat2_value.provider_name);
    SAME(provider_version_major);
    SAME(provider_version_minor);
    SAME(dapl_version_major);
    SAME(dapl_version_minor);
    assert_int_equal(dat1_value.dapl_version_major, 1);
    assert_int_equal(dat1_value.dapl_version_minor, 2);
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
    assert_memory_equal(dat1_value.evd_stream_merging_supported,
                        dat2_value.evd_stream_merging_supported,
                        sizeof dat1_value.evd_stream_merging_supported);
    SAME(srq_supported);
    SAME(srq_watermarks_supported);
    SAME(srq_ep_pz_difference_supported);
    SAME(srq_info_supported);
    SAME(ep_recv_info_supported);
    SAME(lmr_sync_req);
    assert_int_equal(dat1_value.lmr_sync_req, DAT_TRUE);
    SAME(dto_async_return_guaranteed);
    SAME(rdma_write_for_rdma_read_req);
    // Named attributes of extensions are left out, because DAT 1.2 cannot call extensions.
    assert_in_range(dat1_value.num_provider_specific_attr, 1,
                    dat2_value.num_provider_specific_attr - 1);
    for (DAT_COUNT i = 0; i != dat1_value.num_provider_specific_attr; ++i)
        assert_string_not_equal(dat1_value.provider_specific_attr[i].name,
                                "DAT_EXTENSION_INTERFACE");
    assert_string_equal(
        dat2_value.provider_specific_attr[dat1_value.num_provider_specific_attr].name,
        "DAT_EXTENSION_INTERFACE");
    assert_int_equal(
        dat1_test::dat().ia_query_func(ia.handle, nullptr, 0, nullptr, 0x4000000, &dat1_value),
        dat1_test::invalid_parameter(5));
    assert_int_equal(dat1_test::dat().ia_query_func(ia.handle, nullptr, 0, nullptr, 1, nullptr),
                     dat1_test::invalid_parameter(6));
}

// EP attributes of which no two are equal, so that a conversion that mixes up members is found.
dat1::ep_attr distinct_ep_attr() {
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

template <class dat1_type, class dat2_type>
void assert_same_ep_attr(const dat1_type &dat1_value, const dat2_type &dat2_value) {
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

void dat1_ep_parameters_converted(void **) {
    dat1_test::ia_fixture ia;
    const dat1::ep_attr attr = distinct_ep_attr();
    dat1_test::ep_fixture ep(ia, &attr);
    dat1::ep_param dat1_value;
    DAT_EP_PARAM dat2_value;
    fill_with_garbage(dat1_value);
    fill_with_garbage(dat2_value);
    assert_success(dat1_test::dat().ep_query_func(ep.handle, dat1_test::ep_field_all, &dat1_value));
    assert_success(fake::dat().ep_query_func(ep.handle, DAT_EP_FIELD_ALL, &dat2_value));
    assert_same_ep_attr(dat1_value.ep_attr, attr);
    assert_same_ep_attr(dat1_value.ep_attr, dat2_value.ep_attr);
    SAME(ia_handle);
    SAME(ep_state);
    SAME(local_ia_address_ptr);
    SAME(local_port_qual);
    SAME(remote_ia_address_ptr);
    SAME(remote_port_qual);
    assert_ptr_equal(dat1_value.pz_handle, ia.pz);
    assert_ptr_equal(dat1_value.recv_evd_handle, ep.recv_evd);
    assert_ptr_equal(dat1_value.request_evd_handle, ep.request_evd);
    assert_ptr_equal(dat1_value.connect_evd_handle, ep.connect_evd);
    assert_null(dat1_value.srq_handle);
    assert_int_equal(dat1_test::dat().ep_query_func(ep.handle, 0x800, &dat1_value),
                     dat1_test::invalid_parameter(2));
    assert_int_equal(dat1_test::dat().ep_query_func(ep.handle, 1, nullptr),
                     dat1_test::invalid_parameter(3));
}

void dat1_values_without_equivalent_rejected(void **) {
    get_fabric().devices[0].port_attr.max_msg_sz =
        UINT32_MAX; // siw's value: any 32-bit size is valid
    dat1_test::ia_fixture ia;
    DAT_EVD_HANDLE const evd = ia.create_evd(DAT_EVD_DTO_FLAG);
    for (DAT_VLEN dat1::ep_attr::*const member :
         {&dat1::ep_attr::max_message_size, &dat1::ep_attr::max_rdma_size}) {
        dat1::ep_attr attr = {};
        attr.max_recv_dtos = attr.max_request_dtos = attr.max_recv_iov = attr.max_request_iov = 1;
        attr.*member = (UINT64_C(1) << 32) + 4096; // 4096 if truncated
        DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
        assert_int_equal(dat1_test::dat().ep_create_func(ia.handle, ia.pz, evd, evd,
                                                         DAT_HANDLE_NULL, &attr, &ep),
                         dat1_test::invalid_parameter(6));
        assert_null(ep);
    }
    dat1::ep_attr ud_attr = {};
    ud_attr.service_type = static_cast<DAT_SERVICE_TYPE>(1);
    ud_attr.max_request_dtos = ud_attr.max_request_iov = 1;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    assert_int_equal(dat1_test::dat().ep_create_func(ia.handle, ia.pz, DAT_HANDLE_NULL, evd,
                                                     DAT_HANDLE_NULL, &ud_attr, &ep),
                     dat1_test::invalid_parameter(6));
    // The PZ handle is checked before the attributes.
    assert_int_equal(dat1_test::dat().ep_create_func(ia.handle, evd, DAT_HANDLE_NULL, evd,
                                                     DAT_HANDLE_NULL, &ud_attr, &ep),
                     invalid_handle(DAT_INVALID_HANDLE_PZ));
    assert_success(dat1_test::dat().evd_free_func(evd));
}

/// Call dat_ep_modify with garbage in all fields that set_field does not set.
DAT_RETURN modify(DAT_EP_HANDLE ep, DAT_EP_PARAM_MASK mask,
                  const std::function<void(dat1::ep_param &)> &set_field) {
    dat1::ep_param param;
    fill_with_garbage(param);
    set_field(param);
    return dat1_test::dat().ep_modify_func(ep, mask, &param);
}

void dat1_ep_modify_converted(void **) {
    dat1_test::ia_fixture ia;
    const dat1::ep_attr attr = distinct_ep_attr();
    dat1_test::ep_fixture ep(ia, &attr);
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    assert_success(dat1_test::dat().pz_create_func(ia.handle, &pz));
    dat1_test::ep_fixture other_ep(ia);
    assert_success(modify(ep.handle, 0x40, [&](auto &param) { param.pz_handle = pz; }));
    assert_success(
        modify(ep.handle, 0x80, [&](auto &param) { param.recv_evd_handle = other_ep.recv_evd; }));
    assert_success(modify(ep.handle, 0x100,
                          [&](auto &param) { param.request_evd_handle = other_ep.request_evd; }));
    assert_success(modify(ep.handle, 0x200,
                          [&](auto &param) { param.connect_evd_handle = other_ep.connect_evd; }));
    assert_success(
        modify(ep.handle, 0x2000, [&](auto &param) { param.ep_attr.max_message_size = 60001; }));
    assert_success(
        modify(ep.handle, 0x40000, [&](auto &param) { param.ep_attr.max_recv_dtos = 23; }));
    assert_success(
        modify(ep.handle, 0x4000000, [&](auto &param) { param.ep_attr.max_rdma_write_iov = 1; }));
    // Rejected calls, and fields outside the mask, change nothing.
    assert_int_equal(
        modify(ep.handle, 0x2000,
               [&](auto &param) { param.ep_attr.max_message_size = UINT64_C(1) << 32; }),
        dat1_test::invalid_parameter(3));
    for (const unsigned fixed : {0x1U, 0x2U, 0x4U, 0x8U, 0x10U, 0x20U, 0x800U})
        assert_int_equal(modify(ep.handle, fixed, [](auto &) {}), dat1_test::invalid_parameter(2));
    assert_int_equal(dat1_test::dat().ep_modify_func(ep.handle, 0x2000, nullptr),
                     dat1_test::invalid_parameter(3));
    assert_int_equal(modify(ep.handle, 0x40, [&](auto &param) { param.pz_handle = ep.handle; }),
                     invalid_handle(DAT_INVALID_HANDLE_PZ));
    assert_int_equal(modify(ep.handle, 0x400, [&](auto &param) { param.srq_handle = ep.handle; }),
                     invalid_handle(DAT_INVALID_HANDLE_SRQ));
    dat1::ep_param queried;
    assert_success(dat1_test::dat().ep_query_func(ep.handle, dat1_test::ep_field_all, &queried));
    assert_ptr_equal(queried.pz_handle, pz);
    assert_ptr_equal(queried.recv_evd_handle, other_ep.recv_evd);
    assert_ptr_equal(queried.request_evd_handle, other_ep.request_evd);
    assert_ptr_equal(queried.connect_evd_handle, other_ep.connect_evd);
    dat1::ep_attr expected = attr;
    expected.max_message_size = 60001;
    expected.max_recv_dtos = 23;
    expected.max_rdma_write_iov = 1;
    assert_same_ep_attr(queried.ep_attr, expected);
    ep.free();
    other_ep.free();
    assert_success(dat1_test::dat().pz_free_func(pz));
}

void dat1_async_error_event_converted(void **) {
    dat1_test::ia_fixture ia;
    get_fabric().queue_async_event(0, IBV_EVENT_DEVICE_FATAL);
    const dat1::event event = dat1_test::wait_event(ia.async_evd, DAT_ASYNC_ERROR_IA_CATASTROPHIC);
    assert_non_null(event.event_data.asynch_error_event_data.dat_handle);
    assert_int_equal(event.event_data.asynch_error_event_data.reason, DAT_IA_CATASTROPHIC_ERROR);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(dat1_ia_attributes_converted),
        TEST(dat1_iov_limits_clamped),
        TEST(dat1_provider_attributes_converted),
        TEST(dat1_ep_parameters_converted),
        TEST(dat1_values_without_equivalent_rejected),
        TEST(dat1_ep_modify_converted),
        TEST(dat1_async_error_event_converted),
    };
    return dat1_test::run_cases(tests);
}
