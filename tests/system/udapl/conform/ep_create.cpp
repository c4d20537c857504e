// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Endpoints: making them, and what is told of them.

#include "cases.hpp"
#include "endpoint.hpp"

#include <cstring>

namespace conform {

namespace {

/// What dat_ep_create takes, each as it should be.
struct place {
    adapter ia;
    pz zone = ia.zone();
    evd received = ia.events(DAT_EVD_DTO_FLAG);
    evd requested = ia.events(DAT_EVD_DTO_FLAG);
    evd connection = ia.events(DAT_EVD_CONNECTION_FLAG);
    DAT_EP_ATTR attributes = modest();

    DAT_RETURN make(ep &made, spot at = here()) const {
        return make(made, zone, received, requested, connection, at);
    }
    DAT_RETURN make(ep &made, DAT_HANDLE in, DAT_HANDLE receives, DAT_HANDLE requests,
                    DAT_HANDLE life, spot at = here()) const {
        DAT_EP_HANDLE handle = nullptr;
        const DAT_RETURN got =
            dat_ep_create(ia, in, receives, requests, life, &attributes, &handle);
        if (got == DAT_SUCCESS)
            made = ep(handle, at);
        return got;
    }
};

/// With one attribute changed it is refused.
void wrong_attributes(case_list &cases) {
    const auto add = [&](const char *name, auto change) {
        add_case(cases, name, [change] {
            place here_is;
            change(here_is.attributes, here_is.ia.attributes());
            if (here_is.attributes.max_message_size == 0 || here_is.attributes.max_rdma_size == 0)
                throw skipped{"the limit is the largest number: nothing is beyond it"};
            ep made;
            is(here_is.make(made), bad_argument(6));
        });
    };
    add("ep.attr_service_type", SET(service_type, no_such<DAT_SERVICE_TYPE>(9)));
    add("ep.attr_message_size", SET(max_message_size, limits.max_message_size + 1));
    add("ep.attr_rdma_size", SET(max_rdma_size, limits.max_rdma_size + 1));
    add("ep.attr_qos", SET(qos, no_such<DAT_QOS>(0x40)));
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
        const place here_is;
        ep made;
        is(here_is.make(made, here_is.zone, nullptr, here_is.requested, here_is.connection),
           bad_argument(6));
    });
    add_case(cases, "ep.evd_request_missing", [] {
        const place here_is;
        ep made;
        is(here_is.make(made, here_is.zone, here_is.received, nullptr, here_is.connection),
           bad_argument(6));
    });
    add_case(cases, "ep.evd_of_another_stream", [] {
        const place here_is;
        const evd other = here_is.ia.events(DAT_EVD_SOFTWARE_FLAG);
        ep made;
        is(here_is.make(made, here_is.zone, other, here_is.requested, here_is.connection),
           bad_handle(DAT_INVALID_HANDLE_EVD_RECV));
        is(here_is.make(made, here_is.zone, here_is.received, other, here_is.connection),
           bad_handle(DAT_INVALID_HANDLE_EVD_REQUEST));
        is(here_is.make(made, here_is.zone, here_is.received, here_is.requested, other),
           bad_handle(DAT_INVALID_HANDLE_EVD_CONN));
    });
    add_case(cases, "ep.evd_of_another_ia", [] {
        const place here_is, elsewhere;
        ep made;
        is(here_is.make(made, here_is.zone, elsewhere.received, here_is.requested,
                        here_is.connection),
           bad_handle(DAT_INVALID_HANDLE_EVD_RECV));
        is(here_is.make(made, here_is.zone, here_is.received, elsewhere.requested,
                        here_is.connection),
           bad_handle(DAT_INVALID_HANDLE_EVD_REQUEST));
        // OFED's dapltest has one for the endpoints of several IAs.
        is(here_is.make(made, here_is.zone, here_is.received, here_is.requested,
                        elsewhere.connection),
           DAT_SUCCESS);
    });
    add_case(cases, "ep.pz_of_another_ia", [] {
        const place here_is, elsewhere;
        ep made;
        is(here_is.make(made, elsewhere.zone, here_is.received, here_is.requested,
                        here_is.connection),
           bad_handle(DAT_INVALID_HANDLE_PZ));
    });
    add_case(cases, "ep.create_null", [] {
        const place here_is;
        is(dat_ep_create(here_is.ia, here_is.zone, here_is.received, here_is.requested,
                         here_is.connection, nullptr, nullptr),
           bad_argument(7));
    });
}

DAT_EP_PARAM queried(DAT_EP_HANDLE one) {
    filled<DAT_EP_PARAM> is_now;
    done(dat_ep_query(one, DAT_EP_FIELD_ALL, is_now.out()));
    return is_now.in();
}

void defaults() {
    const place here_is;
    DAT_EP_HANDLE handle = nullptr;
    done(dat_ep_create(here_is.ia, here_is.zone, here_is.received, here_is.requested,
                       here_is.connection, nullptr, &handle));
    const ep made(handle);
    const DAT_EP_ATTR is_now = queried(made).ep_attr;
    const DAT_IA_ATTR &most = here_is.ia.attributes();
    same(is_now.service_type, DAT_SERVICE_TYPE_RC, "service_type");
    same(is_now.qos, DAT_QOS_BEST_EFFORT, "qos");
    // Programs of OFED's uDAPL count on these.
    yes(is_now.max_recv_dtos >= 16, "max_recv_dtos is below 16");
    yes(is_now.max_request_dtos >= 16, "max_request_dtos is below 16");
    yes(is_now.max_recv_iov >= std::min(4, most.max_iov_segments_per_dto), "max_recv_iov");
    yes(is_now.max_request_iov >= std::min(4, most.max_iov_segments_per_dto), "max_request_iov");
    yes(is_now.max_rdma_read_in >= std::min(4, most.max_rdma_read_per_ep_in), "max_rdma_read_in");
    yes(is_now.max_rdma_read_out >= std::min(4, most.max_rdma_read_per_ep_out),
        "max_rdma_read_out");
    yes(is_now.max_message_size >= 1U << 20 && is_now.max_message_size <= most.max_message_size,
        text("max_message_size is ", is_now.max_message_size));
    yes(is_now.max_rdma_size >= 1U << 20 && is_now.max_rdma_size <= most.max_rdma_size,
        text("max_rdma_size is ", is_now.max_rdma_size));
}

void read_back() {
    const place here_is;
    ep made;
    done(here_is.make(made));
    const DAT_EP_ATTR is_now = queried(made).ep_attr;
    const DAT_EP_ATTR &want = here_is.attributes;
    same(is_now.service_type, want.service_type, "service_type");
    same(is_now.qos, want.qos, "qos");
    same(is_now.recv_completion_flags, want.recv_completion_flags, "recv_completion_flags");
    same(is_now.request_completion_flags, want.request_completion_flags,
         "request_completion_flags");
    using got = std::tuple<DAT_COUNT, DAT_COUNT, const char *>;
    for (const auto &[has, asked, what] :
         {got{is_now.max_recv_dtos, want.max_recv_dtos, "max_recv_dtos"},
          got{is_now.max_request_dtos, want.max_request_dtos, "max_request_dtos"},
          got{is_now.max_recv_iov, want.max_recv_iov, "max_recv_iov"},
          got{is_now.max_request_iov, want.max_request_iov, "max_request_iov"},
          got{is_now.max_rdma_read_in, want.max_rdma_read_in, "max_rdma_read_in"},
          got{is_now.max_rdma_read_out, want.max_rdma_read_out, "max_rdma_read_out"}})
        yes(has >= asked, text(what, " is ", has, ", below ", asked));
    yes(is_now.max_message_size >= want.max_message_size, "max_message_size is smaller");
    yes(is_now.max_rdma_size >= want.max_rdma_size, "max_rdma_size is smaller");
}

void queries(case_list &cases) {
    add_case(cases, "ep.query", [] {
        const place here_is;
        ep made;
        done(here_is.make(made));
        const DAT_EP_PARAM is_now = queried(made);
        same(is_now.ia_handle, here_is.ia, "ia_handle");
        same(is_now.ep_state, DAT_EP_STATE_UNCONNECTED, "ep_state");
        same(is_now.pz_handle, here_is.zone, "pz_handle");
        same(is_now.recv_evd_handle, here_is.received, "recv_evd_handle");
        same(is_now.request_evd_handle, here_is.requested, "request_evd_handle");
        same(is_now.connect_evd_handle, here_is.connection, "connect_evd_handle");
        same(is_now.srq_handle, nullptr, "srq_handle");
    });
    add_case(cases, "ep.query_nothing_untouched", [] { // all fields were written
        const place here_is;
        ep made;
        done(here_is.make(made));
        const DAT_EP_PARAM is_now = queried(made);
        DAT_UINT64 pattern = 0;
        std::memset(&pattern, untouched, sizeof pattern);
        const auto pointer = [&](const void *what) {
            return reinterpret_cast<DAT_UINT64>(what) == pattern;
        };
        yes(!pointer(is_now.local_ia_address_ptr), "local_ia_address_ptr");
        yes(!pointer(is_now.remote_ia_address_ptr), "remote_ia_address_ptr");
        yes(is_now.local_port_qual != pattern, "local_port_qual");
        yes(is_now.remote_port_qual != pattern, "remote_port_qual");
        yes(!pointer(is_now.ep_attr.ep_provider_specific), "ep_provider_specific");
        yes(!pointer(is_now.ep_attr.ep_transport_specific), "ep_transport_specific");
    });
    add_case(cases, "ep.query_mask_unknown", [] {
        const place here_is;
        ep made;
        done(here_is.make(made));
        DAT_EP_PARAM is_now{};
        is(dat_ep_query(made, DAT_EP_FIELD_ALL + 1, &is_now), bad_argument(2));
    });
    add_case(cases, "ep.query_null", [] {
        const place here_is;
        ep made;
        done(here_is.make(made));
        is(dat_ep_query(made, DAT_EP_FIELD_ALL, nullptr), bad_argument(3));
    });
    add_case(cases, "ep.get_status_null", [] { // only one of the three is asked for
        const place here_is;
        ep made;
        done(here_is.make(made));
        DAT_EP_STATE state{};
        is(dat_ep_get_status(made, &state, nullptr, nullptr), DAT_SUCCESS);
        same(state, DAT_EP_STATE_UNCONNECTED, "the state");
        DAT_BOOLEAN idle{};
        is(dat_ep_get_status(made, nullptr, &idle, nullptr), DAT_SUCCESS);
        is(dat_ep_get_status(made, nullptr, nullptr, &idle), DAT_SUCCESS);
    });
}

void unconfigured(case_list &cases) {
    static constexpr auto check = [](DAT_EP_HANDLE one) {
        const DAT_EP_STATE is_now = queried(one).ep_state;
        yes(is_now == DAT_EP_STATE_UNCONNECTED || is_now == DAT_EP_STATE_UNCONFIGURED_UNCONNECTED,
            "the state is " + shown(is_now));
    };
    add_case(cases, "ep.create_without_pz", [] {
        const place here_is;
        ep made;
        done(here_is.make(made, nullptr, here_is.received, here_is.requested, here_is.connection));
        same(queried(made).pz_handle, nullptr, "pz_handle");
        check(made);
    });
    add_case(cases, "ep.create_without_evds", [] {
        place here_is;
        here_is.attributes.max_recv_dtos = here_is.attributes.max_request_dtos = 0;
        here_is.attributes.max_recv_iov = here_is.attributes.max_request_iov = 0;
        for (int i = 0; i < 3; ++i) {
            ep made;
            done(here_is.make(made, here_is.zone, nullptr, nullptr, nullptr));
            check(made);
            if (i == 0) {
                done(made.free());
                here_is.ia.recount();
            }
        }
    });
    add_case(cases, "ep.create_sizes_0", [] { // the provider's choice
        place here_is;
        here_is.attributes.max_message_size = here_is.attributes.max_rdma_size = 0;
        ep made;
        done(here_is.make(made));
    });
    add_case(cases, "ep.create_iov_most", [] {
        place here_is;
        here_is.attributes.max_recv_iov = here_is.attributes.max_request_iov =
            here_is.ia.attributes().max_iov_segments_per_dto;
        ep made;
        done(here_is.make(made));
    });
    add_case(cases, "ep.create_one_evd_for_all", [] {
        const place here_is;
        const auto &merging = here_is.ia.provider().evd_stream_merging_supported;
        const bool all = merging[2][3];
        const evd data =
            here_is.ia.events(all ? DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG : DAT_EVD_DTO_FLAG);
        ep made;
        done(here_is.make(made, here_is.zone, data, data,
                          all ? DAT_HANDLE(data) : here_is.connection));
    });
    add_case(cases, "ep.create_many", [] {
        const place here_is;
        std::vector<ep> all(50);
        for (ep &one : all)
            done(here_is.make(one));
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
