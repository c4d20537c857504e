// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Endpoints: making them, and what is told of them.

#include "cases.hpp"
#include "test_ep.hpp"

#include <cstring>

namespace conform {

namespace {

/// What dat_ep_create takes, each as it should be.
struct ep_create_fixture {
    test_ia ia;
    unique_pz zone = ia.create_pz();
    unique_evd received = ia.create_evd(DAT_EVD_DTO_FLAG);
    unique_evd requested = ia.create_evd(DAT_EVD_DTO_FLAG);
    unique_evd connection = ia.create_evd(DAT_EVD_CONNECTION_FLAG);
    DAT_EP_ATTR attributes = portable_ep_attr();

    DAT_RETURN make(unique_ep &made, source_location loc = current_location()) const {
        return make(made, zone, received, requested, connection, loc);
    }
    DAT_RETURN make(unique_ep &made, DAT_HANDLE in, DAT_HANDLE receives, DAT_HANDLE requests,
                    DAT_HANDLE life, source_location loc = current_location()) const {
        DAT_EP_HANDLE handle = nullptr;
        const DAT_RETURN got =
            dat_ep_create(ia, in, receives, requests, life, &attributes, &handle);
        if (got == DAT_SUCCESS)
            made = unique_ep(handle, loc);
        return got;
    }
};

/// With one attribute changed it is refused.
void wrong_attributes(case_list &cases) {
    const auto add = [&](const char *name, auto change) {
        add_case(cases, name, [change] {
            ep_create_fixture fixture;
            change(fixture.attributes, fixture.ia.ia_attr());
            if (fixture.attributes.max_message_size == 0 || fixture.attributes.max_rdma_size == 0)
                throw case_skipped{"the limit is the largest number: nothing is beyond it"};
            unique_ep made;
            expect_return(fixture.make(made), invalid_parameter(6));
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

void wrong_evds(case_list &cases) {
    add_case(cases, "ep.evd_recv_missing", [] { // though there are to be receives
        const ep_create_fixture fixture;
        unique_ep made;
        expect_return(
            fixture.make(made, fixture.zone, nullptr, fixture.requested, fixture.connection),
            invalid_parameter(6));
    });
    add_case(cases, "ep.evd_request_missing", [] {
        const ep_create_fixture fixture;
        unique_ep made;
        expect_return(
            fixture.make(made, fixture.zone, fixture.received, nullptr, fixture.connection),
            invalid_parameter(6));
    });
    add_case(cases, "ep.evd_of_another_stream", [] {
        const ep_create_fixture fixture;
        const unique_evd other = fixture.ia.create_evd(DAT_EVD_SOFTWARE_FLAG);
        unique_ep made;
        expect_return(
            fixture.make(made, fixture.zone, other, fixture.requested, fixture.connection),
            invalid_handle(DAT_INVALID_HANDLE_EVD_RECV));
        expect_return(fixture.make(made, fixture.zone, fixture.received, other, fixture.connection),
                      invalid_handle(DAT_INVALID_HANDLE_EVD_REQUEST));
        expect_return(fixture.make(made, fixture.zone, fixture.received, fixture.requested, other),
                      invalid_handle(DAT_INVALID_HANDLE_EVD_CONN));
    });
    add_case(cases, "ep.evd_of_another_ia", [] {
        const ep_create_fixture fixture, other;
        unique_ep made;
        expect_return(
            fixture.make(made, fixture.zone, other.received, fixture.requested, fixture.connection),
            invalid_handle(DAT_INVALID_HANDLE_EVD_RECV));
        expect_return(
            fixture.make(made, fixture.zone, fixture.received, other.requested, fixture.connection),
            invalid_handle(DAT_INVALID_HANDLE_EVD_REQUEST));
        // OFED's dapltest has one for the endpoints of several IAs.
        expect_return(
            fixture.make(made, fixture.zone, fixture.received, fixture.requested, other.connection),
            DAT_SUCCESS);
    });
    add_case(cases, "ep.pz_of_another_ia", [] {
        const ep_create_fixture fixture, other;
        unique_ep made;
        expect_return(
            fixture.make(made, other.zone, fixture.received, fixture.requested, fixture.connection),
            invalid_handle(DAT_INVALID_HANDLE_PZ));
    });
    add_case(cases, "ep.create_null", [] {
        const ep_create_fixture fixture;
        expect_return(dat_ep_create(fixture.ia, fixture.zone, fixture.received, fixture.requested,
                                    fixture.connection, nullptr, nullptr),
                      invalid_parameter(7));
    });
}

DAT_EP_PARAM queried(DAT_EP_HANDLE one) {
    poisoned<DAT_EP_PARAM> is_now;
    require_success(dat_ep_query(one, DAT_EP_FIELD_ALL, is_now.ptr()));
    return is_now.value();
}

void defaults() {
    const ep_create_fixture fixture;
    DAT_EP_HANDLE handle = nullptr;
    require_success(dat_ep_create(fixture.ia, fixture.zone, fixture.received, fixture.requested,
                                  fixture.connection, nullptr, &handle));
    const unique_ep made(handle);
    const DAT_EP_ATTR is_now = queried(made).ep_attr;
    const DAT_IA_ATTR &most = fixture.ia.ia_attr();
    expect_eq(is_now.service_type, DAT_SERVICE_TYPE_RC, "service_type");
    expect_eq(is_now.qos, DAT_QOS_BEST_EFFORT, "qos");
    // Programs of OFED's uDAPL count on these.
    expect_true(is_now.max_recv_dtos >= 16, "max_recv_dtos is below 16");
    expect_true(is_now.max_request_dtos >= 16, "max_request_dtos is below 16");
    expect_true(is_now.max_recv_iov >= std::min(4, most.max_iov_segments_per_dto), "max_recv_iov");
    expect_true(is_now.max_request_iov >= std::min(4, most.max_iov_segments_per_dto),
                "max_request_iov");
    expect_true(is_now.max_rdma_read_in >= std::min(4, most.max_rdma_read_per_ep_in),
                "max_rdma_read_in");
    expect_true(is_now.max_rdma_read_out >= std::min(4, most.max_rdma_read_per_ep_out),
                "max_rdma_read_out");
    expect_true(is_now.max_message_size >= 1U << 20 &&
                    is_now.max_message_size <= most.max_message_size,
                concat("max_message_size is ", is_now.max_message_size));
    expect_true(is_now.max_rdma_size >= 1U << 20 && is_now.max_rdma_size <= most.max_rdma_size,
                concat("max_rdma_size is ", is_now.max_rdma_size));
}

void read_back() {
    const ep_create_fixture fixture;
    unique_ep made;
    require_success(fixture.make(made));
    const DAT_EP_ATTR is_now = queried(made).ep_attr;
    const DAT_EP_ATTR &want = fixture.attributes;
    expect_eq(is_now.service_type, want.service_type, "service_type");
    expect_eq(is_now.qos, want.qos, "qos");
    expect_eq(is_now.recv_completion_flags, want.recv_completion_flags, "recv_completion_flags");
    expect_eq(is_now.request_completion_flags, want.request_completion_flags,
              "request_completion_flags");
    using got = std::tuple<DAT_COUNT, DAT_COUNT, const char *>;
    for (const auto &[has, asked, what] :
         {got{is_now.max_recv_dtos, want.max_recv_dtos, "max_recv_dtos"},
          got{is_now.max_request_dtos, want.max_request_dtos, "max_request_dtos"},
          got{is_now.max_recv_iov, want.max_recv_iov, "max_recv_iov"},
          got{is_now.max_request_iov, want.max_request_iov, "max_request_iov"},
          got{is_now.max_rdma_read_in, want.max_rdma_read_in, "max_rdma_read_in"},
          got{is_now.max_rdma_read_out, want.max_rdma_read_out, "max_rdma_read_out"}})
        expect_true(has >= asked, concat(what, " is ", has, ", below ", asked));
    expect_true(is_now.max_message_size >= want.max_message_size, "max_message_size is smaller");
    expect_true(is_now.max_rdma_size >= want.max_rdma_size, "max_rdma_size is smaller");
}

void queries(case_list &cases) {
    add_case(cases, "ep.query", [] {
        const ep_create_fixture fixture;
        unique_ep made;
        require_success(fixture.make(made));
        const DAT_EP_PARAM is_now = queried(made);
        expect_eq(is_now.ia_handle, fixture.ia, "ia_handle");
        expect_eq(is_now.ep_state, DAT_EP_STATE_UNCONNECTED, "ep_state");
        expect_eq(is_now.pz_handle, fixture.zone, "pz_handle");
        expect_eq(is_now.recv_evd_handle, fixture.received, "recv_evd_handle");
        expect_eq(is_now.request_evd_handle, fixture.requested, "request_evd_handle");
        expect_eq(is_now.connect_evd_handle, fixture.connection, "connect_evd_handle");
        expect_eq(is_now.srq_handle, nullptr, "srq_handle");
    });
    add_case(cases, "ep.query_nothing_untouched", [] { // all fields were written
        const ep_create_fixture fixture;
        unique_ep made;
        require_success(fixture.make(made));
        const DAT_EP_PARAM is_now = queried(made);
        DAT_UINT64 pattern = 0;
        std::memset(&pattern, poison_byte, sizeof pattern);
        const auto pointer = [&](const void *what) {
            return reinterpret_cast<DAT_UINT64>(what) == pattern;
        };
        expect_true(!pointer(is_now.local_ia_address_ptr), "local_ia_address_ptr");
        expect_true(!pointer(is_now.remote_ia_address_ptr), "remote_ia_address_ptr");
        expect_true(is_now.local_port_qual != pattern, "local_port_qual");
        expect_true(is_now.remote_port_qual != pattern, "remote_port_qual");
        expect_true(!pointer(is_now.ep_attr.ep_provider_specific), "ep_provider_specific");
        expect_true(!pointer(is_now.ep_attr.ep_transport_specific), "ep_transport_specific");
    });
    add_case(cases, "ep.query_mask_unknown", [] {
        const ep_create_fixture fixture;
        unique_ep made;
        require_success(fixture.make(made));
        DAT_EP_PARAM is_now{};
        expect_return(dat_ep_query(made, DAT_EP_FIELD_ALL + 1, &is_now), invalid_parameter(2));
    });
    add_case(cases, "ep.query_null", [] {
        const ep_create_fixture fixture;
        unique_ep made;
        require_success(fixture.make(made));
        expect_return(dat_ep_query(made, DAT_EP_FIELD_ALL, nullptr), invalid_parameter(3));
    });
    add_case(cases, "ep.get_status_null", [] { // only one of the three is asked for
        const ep_create_fixture fixture;
        unique_ep made;
        require_success(fixture.make(made));
        DAT_EP_STATE state{};
        expect_return(dat_ep_get_status(made, &state, nullptr, nullptr), DAT_SUCCESS);
        expect_eq(state, DAT_EP_STATE_UNCONNECTED, "the state");
        DAT_BOOLEAN idle{};
        expect_return(dat_ep_get_status(made, nullptr, &idle, nullptr), DAT_SUCCESS);
        expect_return(dat_ep_get_status(made, nullptr, nullptr, &idle), DAT_SUCCESS);
    });
}

void unconfigured(case_list &cases) {
    static constexpr auto check = [](DAT_EP_HANDLE one) {
        const DAT_EP_STATE is_now = queried(one).ep_state;
        expect_true(is_now == DAT_EP_STATE_UNCONNECTED ||
                        is_now == DAT_EP_STATE_UNCONFIGURED_UNCONNECTED,
                    "the state is " + to_string(is_now));
    };
    add_case(cases, "ep.create_without_pz", [] {
        const ep_create_fixture fixture;
        unique_ep made;
        require_success(
            fixture.make(made, nullptr, fixture.received, fixture.requested, fixture.connection));
        expect_eq(queried(made).pz_handle, nullptr, "pz_handle");
        check(made);
    });
    add_case(cases, "ep.create_without_evds", [] {
        ep_create_fixture fixture;
        fixture.attributes.max_recv_dtos = fixture.attributes.max_request_dtos = 0;
        fixture.attributes.max_recv_iov = fixture.attributes.max_request_iov = 0;
        for (int i = 0; i < 3; ++i) {
            unique_ep made;
            require_success(fixture.make(made, fixture.zone, nullptr, nullptr, nullptr));
            check(made);
            if (i == 0) {
                require_success(made.free());
                fixture.ia.update_baseline();
            }
        }
    });
    add_case(cases, "ep.create_sizes_0", [] { // the provider's choice
        ep_create_fixture fixture;
        fixture.attributes.max_message_size = fixture.attributes.max_rdma_size = 0;
        unique_ep made;
        require_success(fixture.make(made));
    });
    add_case(cases, "ep.create_iov_most", [] {
        ep_create_fixture fixture;
        fixture.attributes.max_recv_iov = fixture.attributes.max_request_iov =
            fixture.ia.ia_attr().max_iov_segments_per_dto;
        unique_ep made;
        require_success(fixture.make(made));
    });
    add_case(cases, "ep.create_one_evd_for_all", [] {
        const ep_create_fixture fixture;
        const auto &merging = fixture.ia.provider_attr().evd_stream_merging_supported;
        const bool all = merging[2][3];
        const unique_evd data = fixture.ia.create_evd(
            all ? DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG : DAT_EVD_DTO_FLAG);
        unique_ep made;
        require_success(fixture.make(made, fixture.zone, data, data,
                                     all ? DAT_HANDLE(data) : fixture.connection));
    });
    add_case(cases, "ep.create_many", [] {
        const ep_create_fixture fixture;
        std::vector<unique_ep> all(50);
        for (unique_ep &one : all)
            require_success(fixture.make(one));
    });
}

} // namespace

void add_ep_create(case_list &cases) {
    wrong_attributes(cases);
    wrong_evds(cases);
    add_case(cases, "ep.create_defaults", defaults);
    add_case(cases, "ep.create_read_back", read_back);
    queries(cases);
    unconfigured(cases);
}

} // namespace conform
