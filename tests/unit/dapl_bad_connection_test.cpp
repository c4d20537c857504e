// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Arguments out of range, with good handles: those of connecting, listening and answering. What is
// said of each is what the manual pages say.

#include "kinds.hpp"
#include "rows.hpp"

using namespace played;

namespace {

DAT_CONN_QUAL qualifier;

/// One of each kind, two that are connected, and one that lacks what it needs.
struct world {
    explicit world(const adapter &of)
        : all(of)
        , one(of)
        , other(of) {
        connect(one, other);
        assert_int_equal(dat().ep_create_func(of.ia, DAT_HANDLE_NULL, one.receives, one.requests,
                                              one.connections, nullptr, &without_pz),
                         DAT_SUCCESS);
        assert_int_equal(dat().ep_create_func(of.ia, of.pz, one.receives, one.requests,
                                              DAT_HANDLE_NULL, nullptr, &without_evd),
                         DAT_SUCCESS);
    }
    void free() {
        assert_int_equal(dat().ep_free_func(without_pz), DAT_SUCCESS);
        assert_int_equal(dat().ep_free_func(without_evd), DAT_SUCCESS);
        disconnect(one, other);
        one.free();
        other.free();
        all.free();
    }
    every all;
    end one, other;
    DAT_EP_HANDLE without_pz = DAT_HANDLE_NULL, without_evd = DAT_HANDLE_NULL;
};

#define CALL [](const world &at [[maybe_unused]]) -> DAT_RETURN
#define OF(kind) at.all.living(DAT_HANDLE_TYPE_##kind)

struct wish {
    bool somewhere = true;
    std::uint16_t port = 5001;
    DAT_TIMEOUT timeout = soon;
    DAT_COUNT size = 0;
    bool data = true;
    DAT_UINT32 qos = DAT_QOS_BEST_EFFORT;
    DAT_UINT32 flags = DAT_CONNECT_DEFAULT_FLAG;
    sa_family_t family = AF_INET;
};

unsigned char words[64];

DAT_RETURN call(DAT_EP_HANDLE ep, const wish &wanted) {
    place to = at("192.0.2.1");
    to.any.sa_family = wanted.family;
    return dat().ep_connect_func(ep, wanted.somewhere ? &to.any : nullptr, wanted.port,
                                 wanted.timeout, wanted.size, wanted.data ? words : nullptr,
                                 static_cast<DAT_QOS>(wanted.qos),
                                 static_cast<DAT_CONNECT_FLAGS>(wanted.flags));
}
DAT_RETURN call_commonly(DAT_EP_HANDLE ep, const wish &wanted) {
    place to = at("192.0.2.1", wanted.port);
    to.any.sa_family = wanted.family;
    return dat().ep_common_connect_func(ep, wanted.somewhere ? &to.any : nullptr, wanted.timeout,
                                        wanted.size, wanted.data ? words : nullptr);
}
DAT_RETURN call_like(DAT_EP_HANDLE ep, DAT_EP_HANDLE other, const wish &wanted) {
    return dat().ep_dup_connect_func(ep, other, wanted.timeout, wanted.size,
                                     wanted.data ? words : nullptr,
                                     static_cast<DAT_QOS>(wanted.qos));
}

const row<world> of_calls[] = {
    {"nowhere", wrong_argument(2), CALL{return call(OF(EP), {.somewhere = false});
} // namespace
}
, {"no family", wrong_argument(2), CALL{return call(OF(EP), {.family = AF_UNIX});
}
}
, {"port 0", wrong_argument(3), CALL{return call(OF(EP), {.port = 0});
}
}
, {"no time", wrong_argument(4), CALL{return call(OF(EP), {.timeout = 0});
}
}
, {"negative size", wrong_argument(5), CALL{return call(OF(EP), {.size = -1});
}
}
, {"too much data", wrong_argument(5), CALL{return call(OF(EP), {.size = 57});
}
}
, {"no data", wrong_argument(6), CALL{return call(OF(EP), {.size = 1, .data = false});
}
}
, {"a quality", error(DAT_MODEL_NOT_SUPPORTED),
   CALL{return call(OF(EP), {.qos = DAT_QOS_LOW_LATENCY});
}
}
, {"many paths", error(DAT_MODEL_NOT_SUPPORTED),
   CALL{return call(OF(EP), {.flags = DAT_CONNECT_MULTIPATH_FLAG});
}
}
, {"connected", wrong_state(DAT_INVALID_STATE_EP_CONNECTED), CALL{return call(at.one.ep, {});
}
}
, {"calling", wrong_state(DAT_INVALID_STATE_EP_ACTCONNPENDING),
   CALL{return call(at.all.caller.ep, {});
}
}
, {"reserved", wrong_state(DAT_INVALID_STATE_EP_RESERVED), CALL{return call(at.all.reserved.ep, {});
}
}
, {"no PZ", wrong_state(DAT_INVALID_STATE_EP_NOTREADY), CALL{return call(at.without_pz, {});
}
}
, {"no EVD", no_handle(DAT_INVALID_HANDLE_EVD_CONN), CALL{return call(at.without_evd, {});
}
}
, {"common: nowhere", wrong_argument(2), CALL{return call_commonly(OF(EP), {.somewhere = false});
}
}
, {"common: no family", wrong_argument(2), CALL{return call_commonly(OF(EP), {.family = AF_UNIX});
}
}
, {"common: port 0", wrong_argument(2), CALL{return call_commonly(OF(EP), {.port = 0});
}
}
, {"common: no time", wrong_argument(3), CALL{return call_commonly(OF(EP), {.timeout = 0});
}
}
, {"common: too much data", wrong_argument(4), CALL{return call_commonly(OF(EP), {.size = 57});
}
}
, {"common: no data", wrong_argument(5),
   CALL{return call_commonly(OF(EP), {.size = 1, .data = false});
}
}
, {"common: connected", wrong_state(DAT_INVALID_STATE_EP_CONNECTED),
   CALL{return call_commonly(at.one.ep, {});
}
}
, {"common: no EVD", no_handle(DAT_INVALID_HANDLE_EVD_CONN),
   CALL{return call_commonly(at.without_evd, {});
}
}
, {"like: no time", wrong_argument(3), CALL{return call_like(OF(EP), at.one.ep, {.timeout = 0});
}
}
, {"like: too much data", wrong_argument(4), CALL{return call_like(OF(EP), at.one.ep, {.size = 57});
}
}
, {"like: no data", wrong_argument(5),
   CALL{return call_like(OF(EP), at.one.ep, {.size = 1, .data = false});
}
}
, {"like: a quality", error(DAT_MODEL_NOT_SUPPORTED),
   CALL{return call_like(OF(EP), at.one.ep, {.qos = DAT_QOS_LOW_LATENCY});
}
}
, {"like one that accepted", wrong_state(DAT_INVALID_STATE_EP_NOTREADY),
   CALL{return call_like(OF(EP), at.other.ep, {});
}
}
, {"like one that is not connected", wrong_state(DAT_INVALID_STATE_EP_UNCONNECTED),
   CALL{return call_like(OF(EP), OF(EP), {});
}
}
, {"like: connected", wrong_state(DAT_INVALID_STATE_EP_CONNECTED),
   CALL{return call_like(at.other.ep, at.one.ep, {});
}
}
, {"end: unknown flags", wrong_argument(2),
   CALL{return dat().ep_disconnect_func(at.one.ep, static_cast<DAT_CLOSE_FLAGS>(2));
}
}
, {"end: unconnected", wrong_state(DAT_INVALID_STATE_EP_UNCONNECTED),
   CALL{return dat().ep_disconnect_func(OF(EP), DAT_CLOSE_ABRUPT_FLAG);
}
}
, {"end: reserved", wrong_state(DAT_INVALID_STATE_EP_RESERVED),
   CALL{return dat().ep_disconnect_func(at.all.reserved.ep, DAT_CLOSE_ABRUPT_FLAG);
}
}
,
}
;

// -- listening

DAT_RETURN listen(const world &at, DAT_CONN_QUAL port, DAT_UINT32 flags = DAT_PSP_CONSUMER_FLAG,
                  DAT_PSP_HANDLE *psp = &made) {
    return dat().psp_create_func(at.all.on.ia, port, at.all.cr, static_cast<DAT_PSP_FLAGS>(flags),
                                 psp);
}
DAT_RETURN listen_commonly(const world &at, const DAT_COMM &comm, std::uint16_t port,
                           DAT_CSP_HANDLE *csp = &made, sa_family_t family = AF_INET) {
    place here = played::at("192.0.2.1", port);
    here.any.sa_family = family;
    DAT_COMM copy = comm;
    return dat().csp_create_func(at.all.on.ia, &copy, &here.any, at.all.cr, csp);
}
constexpr DAT_COMM tcp = {AF_INET, SOCK_STREAM, IPPROTO_TCP};

template <auto query, auto mask, std::size_t kind>
DAT_RETURN ask_outside(const world &at) {
    std::array<std::uint64_t, 64> room; // for any of them
    void *param = room.data();
    using function = std::remove_reference_t<decltype(dat().*query)>;
    return
        []<typename mask_type, typename param_type>(
            DAT_RETURN (*how)(DAT_HANDLE, mask_type, param_type *), DAT_HANDLE handle, void *to) {
            return how(handle, static_cast<mask_type>(mask + 1), static_cast<param_type *>(to));
        }(static_cast<function>(dat().*query), at.all.living(kind), param);
}
template <auto query, auto mask, std::size_t kind>
DAT_RETURN ask_nowhere(const world &at) {
    return (dat().*query)(at.all.living(kind), mask, nullptr);
}

#define QUERIES_OF(kind, function)                                                                 \
    {#kind ": mask", wrong_argument(2),                                                            \
     ask_outside<&DAT_PROVIDER::function, DAT_##kind##_FIELD_ALL, DAT_HANDLE_TYPE_##kind>},        \
    {                                                                                              \
#        kind ": nowhere to tell", wrong_argument(3), ask_nowhere < &DAT_PROVIDER::function,       \
            DAT_##kind##_FIELD_ALL, DAT_HANDLE_TYPE_##kind>                                        \
    }

const row<world> of_listeners[] = {QUERIES_OF(PSP, psp_query_func), QUERIES_OF(RSP, rsp_query_func),
                                   QUERIES_OF(CSP, csp_query_func), QUERIES_OF(CR, cr_query_func),
                                   {"PSP: port 0", wrong_argument(2), CALL{return listen(at, 0);
}
}
, {"PSP: unknown flags", wrong_argument(4), CALL{return listen(at, 7000, 2);
}
}
, {"PSP: no place", wrong_argument(5), CALL{return listen(at, 7000, DAT_PSP_CONSUMER_FLAG, nullptr);
}
}
, {"PSP: taken", error(DAT_CONN_QUAL_IN_USE), CALL{return listen(at, 5001);
}
}
, {"PSP: taken by an RSP", error(DAT_CONN_QUAL_IN_USE), CALL{return listen(at, 5002);
}
}
, {"any PSP: no place for the port", wrong_argument(2),
   CALL{return dat().psp_create_any_func(at.all.on.ia, nullptr, at.all.cr, DAT_PSP_CONSUMER_FLAG,
                                         &made);
}
}
, {"any PSP: no place", wrong_argument(5),
   CALL{return dat().psp_create_any_func(at.all.on.ia, &qualifier, at.all.cr, DAT_PSP_CONSUMER_FLAG,
                                         nullptr);
}
}
, {"RSP: port 0", wrong_argument(2),
   CALL{return dat().rsp_create_func(at.all.on.ia, 0, OF(EP), at.all.cr, &made);
}
}
, {"RSP: no place", wrong_argument(5),
   CALL{return dat().rsp_create_func(at.all.on.ia, 7000, OF(EP), at.all.cr, nullptr);
}
}
, {"RSP: connected", wrong_state(DAT_INVALID_STATE_EP_CONNECTED),
   CALL{return dat().rsp_create_func(at.all.on.ia, 7000, at.one.ep, at.all.cr, &made);
}
}
, {"RSP: reserved", wrong_state(DAT_INVALID_STATE_EP_RESERVED),
   CALL{return dat().rsp_create_func(at.all.on.ia, 7000, at.all.reserved.ep, at.all.cr, &made);
}
}
, {"RSP: taken", error(DAT_CONN_QUAL_IN_USE),
   CALL{return dat().rsp_create_func(at.all.on.ia, 5001, OF(EP), at.all.cr, &made);
}
}
, {"CSP: no communicator", wrong_argument(2), CALL{place here = played::at("192.0.2.1", 7000);
return dat().csp_create_func(at.all.on.ia, nullptr, &here.any, at.all.cr, &made);
}
}
, {"CSP: no address", wrong_argument(3), CALL{DAT_COMM comm = tcp;
return dat().csp_create_func(at.all.on.ia, &comm, nullptr, at.all.cr, &made);
}
}
, {"CSP: no family", wrong_argument(3), CALL{return listen_commonly(at, tcp, 7000, &made, AF_UNIX);
}
}
, {"CSP: datagrams", error(DAT_COMM_NOT_SUPPORTED),
   CALL{return listen_commonly(at, {AF_INET, SOCK_DGRAM, 0}, 7000);
}
}
, {"CSP: no place", wrong_argument(5), CALL{return listen_commonly(at, tcp, 7000, nullptr);
}
}
, {"CSP: taken", error(DAT_PORT_IN_USE), CALL{return listen_commonly(at, tcp, 5001);
}
}
, {"accept: negative size", wrong_argument(3),
   CALL{return dat().cr_accept_func(OF(CR), OF(EP), -1, words);
}
}
, {"accept: too much data", wrong_argument(3),
   CALL{return dat().cr_accept_func(OF(CR), OF(EP), 57, words);
}
}
, {"accept: no data", wrong_argument(4),
   CALL{return dat().cr_accept_func(OF(CR), OF(EP), 1, nullptr);
}
}
, {"accept: connected", wrong_state(DAT_INVALID_STATE_EP_CONNECTED),
   CALL{return dat().cr_accept_func(OF(CR), at.one.ep, 0, nullptr);
}
}
, {"accept: no PZ", wrong_state(DAT_INVALID_STATE_EP_NOTREADY),
   CALL{return dat().cr_accept_func(OF(CR), at.without_pz, 0, nullptr);
}
}
, {"accept: no EVD", wrong_state(DAT_INVALID_STATE_EP_NOTREADY),
   CALL{return dat().cr_accept_func(OF(CR), at.without_evd, 0, nullptr);
}
}
, {"reject: negative size", wrong_argument(2), CALL{return dat().cr_reject_func(OF(CR), -1, words);
}
}
, {"reject: too much data", wrong_argument(2), CALL{return dat().cr_reject_func(OF(CR), 57, words);
}
}
, {"reject: no data", wrong_argument(3), CALL{return dat().cr_reject_func(OF(CR), 1, nullptr);
}
}
, {"hand off: nobody there", wrong_argument(2), CALL{return dat().cr_handoff_func(OF(CR), 7000);
}
}
, {"hand off: to an RSP", wrong_argument(2), CALL{return dat().cr_handoff_func(OF(CR), 5002);
}
}
,
}
;

} // namespace

int main() {
    register_names();
    const CMUnitTest tests[] = {
        ROWS(of_calls),
        ROWS(of_listeners),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
