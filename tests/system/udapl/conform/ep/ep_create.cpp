// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// EPs: creating and querying them.

#include "lib/cases.hpp"
#include "lib/test_ep.hpp"

#include <cstring>

namespace conform {

namespace {

/// What dat_ep_create takes, each as it should be.
struct ep_create_fixture {
    test_ia ia;
    unique_pz pz = ia.create_pz();
    unique_evd recv_evd = ia.create_evd(DAT_EVD_DTO_FLAG);
    unique_evd request_evd = ia.create_evd(DAT_EVD_DTO_FLAG);
    unique_evd connect_evd = ia.create_evd(DAT_EVD_CONNECTION_FLAG);
    DAT_EP_ATTR attr = minimal_ep_attr();

    DAT_RETURN create_ep(unique_ep &ep, source_location loc = current_location()) const {
        return create_ep(ep, pz, recv_evd, request_evd, connect_evd, loc);
    }
    DAT_RETURN create_ep(unique_ep &ep, DAT_HANDLE pz_handle, DAT_HANDLE recv_evd_handle,
                         DAT_HANDLE request_evd_handle, DAT_HANDLE connect_evd_handle,
                         source_location loc = current_location()) const {
        DAT_EP_HANDLE handle = nullptr;
        const DAT_RETURN ret = dat_ep_create(ia, pz_handle, recv_evd_handle, request_evd_handle,
                                             connect_evd_handle, &attr, &handle);
        if (ret == DAT_SUCCESS)
            ep = unique_ep(handle, loc);
        return ret;
    }
};

/// For each attribute a case in which only it is invalid: dat_ep_create refuses it. SET changes the
/// field.
void add_invalid_attr_cases(case_list &cases) {
    const auto add = [&](const char *name, auto change) {
        add_case(cases, name, [change] {
            ep_create_fixture fixture;
            change(fixture.attr, fixture.ia.ia_attr());
            if (fixture.attr.max_message_size == 0 || fixture.attr.max_rdma_size == 0)
                throw case_skipped{"the limit is the largest number: nothing is beyond it"};
            unique_ep ep;
            expect_return(fixture.create_ep(ep), invalid_parameter(6));
        });
    };
    add("ep.attr_service_type", SET(service_type, enum_cast<DAT_SERVICE_TYPE>(9)));
    add("ep.attr_message_size", SET(max_message_size, limits.max_message_size + 1));
    add("ep.attr_rdma_size", SET(max_rdma_size, limits.max_rdma_size + 1));
    add("ep.attr_qos", SET(qos, enum_cast<DAT_QOS>(0x40)));
    add("ep.attr_recv_dtos", SET(max_recv_dtos, limits.max_dto_per_ep + 1));
    add("ep.attr_request_dtos", SET(max_request_dtos, limits.max_dto_per_ep + 1));
    add("ep.attr_recv_dtos_negative", SET(max_recv_dtos, -1));
    add("ep.attr_request_dtos_negative", SET(max_request_dtos, -1));
    add("ep.attr_recv_iov", SET(max_recv_iov, limits.max_iov_segments_per_dto + 1));
    add("ep.attr_request_iov", SET(max_request_iov, limits.max_iov_segments_per_dto + 1));
    add("ep.attr_recv_iov_none", SET(max_recv_iov, 0));
    add("ep.attr_request_iov_none", SET(max_request_iov, 0));
    add("ep.attr_rdma_read_in", SET(max_rdma_read_in, limits.max_rdma_read_per_ep_in + 1));
    add("ep.attr_rdma_read_out", SET(max_rdma_read_out, limits.max_rdma_read_per_ep_out + 1));
    add("ep.attr_rdma_read_iov", SET(max_rdma_read_iov, limits.max_iov_segments_per_rdma_read + 1));
    add("ep.attr_rdma_write_iov",
        SET(max_rdma_write_iov, limits.max_iov_segments_per_rdma_write + 1));
    add("ep.attr_recv_dtos_none", SET(max_recv_dtos, 0));
    add("ep.attr_request_dtos_none", SET(max_request_dtos, 0));
}

void add_invalid_evd_cases(case_list &cases) {
    add_case(cases, "ep.evd_recv_missing", [] { // though there are to be receives
        const ep_create_fixture fixture;
        unique_ep ep;
        expect_return(
            fixture.create_ep(ep, fixture.pz, nullptr, fixture.request_evd, fixture.connect_evd),
            invalid_parameter(6));
    });
    add_case(cases, "ep.evd_request_missing", [] {
        const ep_create_fixture fixture;
        unique_ep ep;
        expect_return(
            fixture.create_ep(ep, fixture.pz, fixture.recv_evd, nullptr, fixture.connect_evd),
            invalid_parameter(6));
    });
    add_case(cases, "ep.evd_of_another_stream", [] {
        const ep_create_fixture fixture;
        const unique_evd other_evd = fixture.ia.create_evd(DAT_EVD_SOFTWARE_FLAG);
        unique_ep ep;
        expect_return(
            fixture.create_ep(ep, fixture.pz, other_evd, fixture.request_evd, fixture.connect_evd),
            invalid_handle(DAT_INVALID_HANDLE_EVD_RECV));
        expect_return(
            fixture.create_ep(ep, fixture.pz, fixture.recv_evd, other_evd, fixture.connect_evd),
            invalid_handle(DAT_INVALID_HANDLE_EVD_REQUEST));
        expect_return(
            fixture.create_ep(ep, fixture.pz, fixture.recv_evd, fixture.request_evd, other_evd),
            invalid_handle(DAT_INVALID_HANDLE_EVD_CONN));
    });
    add_case(cases, "ep.evd_of_another_ia", [] {
        const ep_create_fixture fixture, other;
        unique_ep ep;
        expect_return(fixture.create_ep(ep, fixture.pz, other.recv_evd, fixture.request_evd,
                                        fixture.connect_evd),
                      invalid_handle(DAT_INVALID_HANDLE_EVD_RECV));
        expect_return(fixture.create_ep(ep, fixture.pz, fixture.recv_evd, other.request_evd,
                                        fixture.connect_evd),
                      invalid_handle(DAT_INVALID_HANDLE_EVD_REQUEST));
        // OFED's dapltest has one for the endpoints of several IAs.
        expect_return(fixture.create_ep(ep, fixture.pz, fixture.recv_evd, fixture.request_evd,
                                        other.connect_evd),
                      DAT_SUCCESS);
    });
    add_case(cases, "ep.pz_of_another_ia", [] {
        const ep_create_fixture fixture, other;
        unique_ep ep;
        expect_return(fixture.create_ep(ep, other.pz, fixture.recv_evd, fixture.request_evd,
                                        fixture.connect_evd),
                      invalid_handle(DAT_INVALID_HANDLE_PZ));
    });
    add_case(cases, "ep.create_null", [] {
        const ep_create_fixture fixture;
        expect_return(dat_ep_create(fixture.ia, fixture.pz, fixture.recv_evd, fixture.request_evd,
                                    fixture.connect_evd, nullptr, nullptr),
                      invalid_parameter(7));
    });
}

DAT_EP_PARAM query_ep(DAT_EP_HANDLE ep) {
    poisoned<DAT_EP_PARAM> param;
    require_success(dat_ep_query(ep, DAT_EP_FIELD_ALL, param.ptr()));
    return param.value();
}

/// Without attributes, an EP has at least the limits that programs of OFED's uDAPL need.
void test_default_attr() {
    const ep_create_fixture fixture;
    DAT_EP_HANDLE handle = nullptr;
    require_success(dat_ep_create(fixture.ia, fixture.pz, fixture.recv_evd, fixture.request_evd,
                                  fixture.connect_evd, nullptr, &handle));
    const unique_ep ep(handle);
    const DAT_EP_ATTR attr = query_ep(ep).ep_attr;
    const DAT_IA_ATTR &ia_attr = fixture.ia.ia_attr();
    expect_eq(attr.service_type, DAT_SERVICE_TYPE_RC, "service_type");
    expect_eq(attr.qos, DAT_QOS_BEST_EFFORT, "qos");
    // Programs of OFED's uDAPL count on these.
    expect_true(attr.max_recv_dtos >= 16, "max_recv_dtos is below 16");
    expect_true(attr.max_request_dtos >= 16, "max_request_dtos is below 16");
    expect_true(attr.max_recv_iov >= std::min(4, ia_attr.max_iov_segments_per_dto), "max_recv_iov");
    expect_true(attr.max_request_iov >= std::min(4, ia_attr.max_iov_segments_per_dto),
                "max_request_iov");
    expect_true(attr.max_rdma_read_in >= std::min(4, ia_attr.max_rdma_read_per_ep_in),
                "max_rdma_read_in");
    expect_true(attr.max_rdma_read_out >= std::min(4, ia_attr.max_rdma_read_per_ep_out),
                "max_rdma_read_out");
    expect_true(attr.max_message_size >= 1U << 20 &&
                    attr.max_message_size <= ia_attr.max_message_size,
                concat("max_message_size is ", attr.max_message_size));
    expect_true(attr.max_rdma_size >= 1U << 20 && attr.max_rdma_size <= ia_attr.max_rdma_size,
                concat("max_rdma_size is ", attr.max_rdma_size));
}

/// dat_ep_query returns the attributes that were requested; limits may be higher.
void test_read_back() {
    const ep_create_fixture fixture;
    unique_ep ep;
    require_success(fixture.create_ep(ep));
    const DAT_EP_ATTR attr = query_ep(ep).ep_attr;
    const DAT_EP_ATTR &requested_attr = fixture.attr;
    expect_eq(attr.service_type, requested_attr.service_type, "service_type");
    expect_eq(attr.qos, requested_attr.qos, "qos");
    expect_eq(attr.recv_completion_flags, requested_attr.recv_completion_flags,
              "recv_completion_flags");
    expect_eq(attr.request_completion_flags, requested_attr.request_completion_flags,
              "request_completion_flags");
    using limit = std::tuple<DAT_COUNT, DAT_COUNT, const char *>;
    for (const auto &[actual, requested, name] :
         {limit{attr.max_recv_dtos, requested_attr.max_recv_dtos, "max_recv_dtos"},
          limit{attr.max_request_dtos, requested_attr.max_request_dtos, "max_request_dtos"},
          limit{attr.max_recv_iov, requested_attr.max_recv_iov, "max_recv_iov"},
          limit{attr.max_request_iov, requested_attr.max_request_iov, "max_request_iov"},
          limit{attr.max_rdma_read_in, requested_attr.max_rdma_read_in, "max_rdma_read_in"},
          limit{attr.max_rdma_read_out, requested_attr.max_rdma_read_out, "max_rdma_read_out"}})
        expect_true(actual >= requested, concat(name, " is ", actual, ", below ", requested));
    expect_true(attr.max_message_size >= requested_attr.max_message_size,
                "max_message_size is smaller");
    expect_true(attr.max_rdma_size >= requested_attr.max_rdma_size, "max_rdma_size is smaller");
}

void add_query_cases(case_list &cases) {
    add_case(cases, "ep.query", [] {
        const ep_create_fixture fixture;
        unique_ep ep;
        require_success(fixture.create_ep(ep));
        const DAT_EP_PARAM param = query_ep(ep);
        expect_eq(param.ia_handle, fixture.ia, "ia_handle");
        expect_eq(param.ep_state, DAT_EP_STATE_UNCONNECTED, "ep_state");
        expect_eq(param.pz_handle, fixture.pz, "pz_handle");
        expect_eq(param.recv_evd_handle, fixture.recv_evd, "recv_evd_handle");
        expect_eq(param.request_evd_handle, fixture.request_evd, "request_evd_handle");
        expect_eq(param.connect_evd_handle, fixture.connect_evd, "connect_evd_handle");
        expect_eq(param.srq_handle, nullptr, "srq_handle");
    });
    add_case(cases, "ep.query_nothing_untouched", [] { // all fields were written
        const ep_create_fixture fixture;
        unique_ep ep;
        require_success(fixture.create_ep(ep));
        const DAT_EP_PARAM param = query_ep(ep);
        DAT_UINT64 pattern = 0;
        std::memset(&pattern, poison_byte, sizeof pattern);
        const auto is_poisoned = [&](const void *pointer_value) {
            return reinterpret_cast<DAT_UINT64>(pointer_value) == pattern;
        };
        expect_true(!is_poisoned(param.local_ia_address_ptr), "local_ia_address_ptr");
        expect_true(!is_poisoned(param.remote_ia_address_ptr), "remote_ia_address_ptr");
        expect_true(param.local_port_qual != pattern, "local_port_qual");
        expect_true(param.remote_port_qual != pattern, "remote_port_qual");
        expect_true(!is_poisoned(param.ep_attr.ep_provider_specific), "ep_provider_specific");
        expect_true(!is_poisoned(param.ep_attr.ep_transport_specific), "ep_transport_specific");
    });
    add_case(cases, "ep.query_mask_unknown", [] {
        const ep_create_fixture fixture;
        unique_ep ep;
        require_success(fixture.create_ep(ep));
        DAT_EP_PARAM param{};
        expect_return(dat_ep_query(ep, DAT_EP_FIELD_ALL + 1, &param), invalid_parameter(2));
    });
    add_case(cases, "ep.query_null", [] {
        const ep_create_fixture fixture;
        unique_ep ep;
        require_success(fixture.create_ep(ep));
        expect_return(dat_ep_query(ep, DAT_EP_FIELD_ALL, nullptr), invalid_parameter(3));
    });
    add_case(cases, "ep.get_status_null", [] { // only one of the three is asked for
        const ep_create_fixture fixture;
        unique_ep ep;
        require_success(fixture.create_ep(ep));
        DAT_EP_STATE state{};
        expect_return(dat_ep_get_status(ep, &state, nullptr, nullptr), DAT_SUCCESS);
        expect_eq(state, DAT_EP_STATE_UNCONNECTED, "the state");
        DAT_BOOLEAN idle{};
        expect_return(dat_ep_get_status(ep, nullptr, &idle, nullptr), DAT_SUCCESS);
        expect_return(dat_ep_get_status(ep, nullptr, nullptr, &idle), DAT_SUCCESS);
    });
}

void add_unconfigured_cases(case_list &cases) {
    static constexpr auto expect_unconnected = [](DAT_EP_HANDLE ep) {
        const DAT_EP_STATE state = query_ep(ep).ep_state;
        expect_true(state == DAT_EP_STATE_UNCONNECTED ||
                        state == DAT_EP_STATE_UNCONFIGURED_UNCONNECTED,
                    "the state is " + to_string(state));
    };
    add_case(cases, "ep.create_without_pz", [] {
        const ep_create_fixture fixture;
        unique_ep ep;
        require_success(fixture.create_ep(ep, nullptr, fixture.recv_evd, fixture.request_evd,
                                          fixture.connect_evd));
        expect_eq(query_ep(ep).pz_handle, nullptr, "pz_handle");
        expect_unconnected(ep);
    });
    add_case(cases, "ep.create_without_evds", [] {
        ep_create_fixture fixture;
        fixture.attr.max_recv_dtos = fixture.attr.max_request_dtos = 0;
        fixture.attr.max_recv_iov = fixture.attr.max_request_iov = 0;
        for (int i = 0; i < 3; ++i) {
            unique_ep ep;
            require_success(fixture.create_ep(ep, fixture.pz, nullptr, nullptr, nullptr));
            expect_unconnected(ep);
            if (i == 0) {
                require_success(ep.free());
                fixture.ia.update_baseline();
            }
        }
    });
    add_case(cases, "ep.create_sizes_0", [] { // the provider's choice
        ep_create_fixture fixture;
        fixture.attr.max_message_size = fixture.attr.max_rdma_size = 0;
        unique_ep ep;
        require_success(fixture.create_ep(ep));
    });
    add_case(cases, "ep.create_iov_most", [] {
        ep_create_fixture fixture;
        fixture.attr.max_recv_iov = fixture.attr.max_request_iov =
            fixture.ia.ia_attr().max_iov_segments_per_dto;
        unique_ep ep;
        require_success(fixture.create_ep(ep));
    });
    add_case(cases, "ep.create_one_evd_for_all", [] {
        const ep_create_fixture fixture;
        const auto &merging = fixture.ia.provider_attr().evd_stream_merging_supported;
        const bool can_merge = merging[2][3];
        const unique_evd dto_evd = fixture.ia.create_evd(
            can_merge ? DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG : DAT_EVD_DTO_FLAG);
        unique_ep ep;
        require_success(fixture.create_ep(ep, fixture.pz, dto_evd, dto_evd,
                                          can_merge ? DAT_HANDLE(dto_evd) : fixture.connect_evd));
    });
    add_case(cases, "ep.create_many", [] {
        const ep_create_fixture fixture;
        std::vector<unique_ep> eps(50);
        for (unique_ep &ep : eps)
            require_success(fixture.create_ep(ep));
    });
}

} // namespace

void add_ep_create(case_list &cases) {
    add_invalid_attr_cases(cases);
    add_invalid_evd_cases(cases);
    add_case(cases, "ep.create_defaults", test_default_attr);
    add_case(cases, "ep.create_read_back", test_read_back);
    add_query_cases(cases);
    add_unconfigured_cases(cases);
}

} // namespace conform
