// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What is no handle of the right kind, given to each function in each place: it says so, and
// nothing happens. Numbers, freed handles, those of all other kinds, and the addresses of anything
// else. NULL and addresses that are no memory never come as the handle of the call: a registry has
// read its first word, to know whom to call. They come as arguments.

#include "kinds.hpp"
#include "registry_calls.hpp"

#include <dat2/dat_ib_extensions.h>

using namespace played;

namespace {

/// Counts what was not as it should be, and says it.
struct verdict {
    int wrong = 0, calls = 0;
    void expect(DAT_RETURN result, DAT_RETURN wanted, const std::string &call,
                const std::string &handle) {
        ++calls;
        if (result == wanted)
            return;
        ++wrong;
        print_error("%s of %s: %#x, not %#x\n", call.c_str(), handle.c_str(), result, wanted);
    }
};

constexpr std::size_t kind_of(DAT_UINT32 subtype) {
    switch (subtype) {
    case DAT_INVALID_HANDLE_IA:
        return DAT_HANDLE_TYPE_IA;
    case DAT_INVALID_HANDLE_EP:
        return DAT_HANDLE_TYPE_EP;
    case DAT_INVALID_HANDLE_LMR:
        return DAT_HANDLE_TYPE_LMR;
    case DAT_INVALID_HANDLE_RMR:
        return DAT_HANDLE_TYPE_RMR;
    case DAT_INVALID_HANDLE_CNO:
        return DAT_HANDLE_TYPE_CNO;
    case DAT_INVALID_HANDLE_PZ:
        return DAT_HANDLE_TYPE_PZ;
    case DAT_INVALID_HANDLE_PSP:
        return DAT_HANDLE_TYPE_PSP;
    case DAT_INVALID_HANDLE_RSP:
        return DAT_HANDLE_TYPE_RSP;
    case DAT_INVALID_HANDLE_CSP:
        return DAT_HANDLE_TYPE_CSP;
    case DAT_INVALID_HANDLE_CR:
        return DAT_HANDLE_TYPE_CR;
    case DAT_INVALID_HANDLE_SRQ:
        return DAT_HANDLE_TYPE_SRQ;
    case DAT_INVALID_HANDLE_EVD_REQUEST:
        return DAT_HANDLE_TYPE_EVD;
    default:
        return kinds; // any will do
    }
}

/// With nothing but zeros for its other arguments, which it does not come to look at.
template <typename... Rest>
DAT_RETURN call_alone(DAT_HANDLE handle, DAT_RETURN (*function)(DAT_HANDLE, Rest...)) {
    return function(handle, Rest()...);
}

template <typename Call>
void try_first(const every &all, verdict &so_far) {
    const std::string name = __PRETTY_FUNCTION__;
    const auto function = dat().*Call::member;
    const DAT_RETURN wanted = no_handle(Call::subtype);
    for (const bad_handle &each : bad_handles(all, kind_of(Call::subtype)))
        so_far.expect(call_alone(each.handle, function), wanted, name, each.what);
}

using close_ia =
    registry_calls::call<&dat_ia_close, &DAT_PROVIDER::ia_close_func, DAT_INVALID_HANDLE_IA>;
using ask_ha =
    registry_calls::call<&dat_ia_close, &DAT_PROVIDER::ia_ha_related_func, DAT_INVALID_HANDLE_IA>;

void every_function_of_every_bad_handle(void **) {
    adapter on;
    every all(on);
    const auto before = net().living();
    verdict so_far;
    std::apply([&](auto... each) { (try_first<decltype(each)>(all, so_far), ...); },
               registry_calls::all());
    try_first<close_ia>(all, so_far);
    try_first<ask_ha>(all, so_far);
    assert_true(so_far.calls > 77 * 30);
    assert_int_equal(so_far.wrong, 0);
    assert_true(net().living() == before);
    all.free();
    assert_int_equal(dat().pz_free_func(on.pz), DAT_SUCCESS);
    on.close(DAT_CLOSE_GRACEFUL_FLAG);
}

void every_extension_of_every_bad_handle(void **) {
    adapter on;
    every all(on);
    verdict so_far;
    for (const DAT_EXTENDED_OP operation : std::initializer_list<DAT_EXTENDED_OP>{
             DAT_IB_RDMA_WRITE_IMMED_OP, DAT_IB_FETCH_AND_ADD_OP, DAT_IB_CMP_AND_SWAP_OP,
             DAT_IB_UD_SEND_OP, DAT_IB_UD_AH_FREE_OP, DAT_IB_UD_CM_FREE_OP})
        for (const bad_handle &each : worse_handles(all, DAT_HANDLE_TYPE_EP))
            so_far.expect(dat_extension_op(each.handle, operation),
                          no_handle(DAT_INVALID_HANDLE_EP),
                          "extension " + std::to_string(operation), each.what);
    for (const bad_handle &each : bad_handles(all, DAT_HANDLE_TYPE_IA))
        so_far.expect(dat_ib_close_query(each.handle), no_handle(DAT_INVALID_HANDLE_IA),
                      "dat_ib_close_query", each.what);
    assert_int_equal(so_far.wrong, 0);
    all.free();
}

// -- handles that are arguments

struct place_of_handle {
    const char *call;
    std::size_t kind;
    bool may_be_null;
    DAT_UINT32 subtype;
    DAT_RETURN (*with)(const every &all, DAT_HANDLE handle);
};

DAT_HANDLE made;
DAT_CONN_QUAL qualifier;
constexpr bool or_null = true, not_null = false;

DAT_RETURN modify(const every &all, DAT_EP_PARAM_MASK field, DAT_HANDLE DAT_EP_PARAM::*member,
                  DAT_HANDLE handle) {
    DAT_EP_PARAM param = {};
    param.*member = handle;
    return dat().ep_modify_func(all.idle.ep, field, &param);
}

DAT_RETURN bind(const every &all, DAT_LMR_HANDLE lmr, DAT_EP_HANDLE ep) {
    const DAT_LMR_TRIPLET part = all.area.part(0, 64);
    return dat().rmr_bind_func(all.living(DAT_HANDLE_TYPE_RMR), lmr, &part,
                               DAT_MEM_PRIV_REMOTE_READ_FLAG, DAT_VA_TYPE_VA, ep, cookie(0),
                               DAT_COMPLETION_DEFAULT_FLAG, nullptr);
}

DAT_RETURN register_with(const every &all, DAT_MEM_TYPE kind, DAT_REGION_DESCRIPTION what,
                         DAT_PZ_HANDLE pz) {
    return dat().lmr_create_func(all.on.ia, kind, what, 64, pz, DAT_MEM_PRIV_ALL_FLAG,
                                 DAT_VA_TYPE_VA, &made, nullptr, nullptr, nullptr, nullptr);
}

struct ep_parts {
    DAT_PZ_HANDLE pz;
    DAT_EVD_HANDLE receives, requests, connections;
    DAT_SRQ_HANDLE srq;
};
ep_parts good(const every &all) {
    return {all.on.pz, all.idle.receives, all.idle.requests, all.idle.connections, all.srq};
}

template <DAT_HANDLE ep_parts::*which>
DAT_RETURN make_ep(const every &all, DAT_HANDLE handle) {
    ep_parts with = good(all);
    with.*which = handle;
    return dat().ep_create_func(all.on.ia, with.pz, with.receives, with.requests, with.connections,
                                nullptr, &made);
}
template <DAT_HANDLE ep_parts::*which>
DAT_RETURN make_ep_with_srq(const every &all, DAT_HANDLE handle) {
    ep_parts with = good(all);
    with.*which = handle;
    return dat().ep_create_with_srq_func(all.on.ia, with.pz, with.receives, with.requests,
                                         with.connections, with.srq, nullptr, &made);
}

#define WITH []([[maybe_unused]] const every &all, DAT_HANDLE handle) -> DAT_RETURN
const place_of_handle places[] = {
    {"dat_evd_create: CNO", DAT_HANDLE_TYPE_CNO, or_null, DAT_INVALID_HANDLE_CNO,
     WITH{return dat().evd_create_func(all.on.ia, 1, handle, DAT_EVD_SOFTWARE_FLAG, &made);
} // namespace
}
, {"dat_evd_modify_cno: CNO", DAT_HANDLE_TYPE_CNO, or_null, DAT_INVALID_HANDLE_CNO,
   WITH{return dat().evd_modify_cno_func(all.own, handle);
}
}
, {"dat_lmr_create: PZ", DAT_HANDLE_TYPE_PZ, not_null, DAT_INVALID_HANDLE_PZ,
   WITH{DAT_REGION_DESCRIPTION what = {};
what.for_va = const_cast<unsigned char *>(all.area.bytes.data());
return register_with(all, DAT_MEM_TYPE_VIRTUAL, what, handle);
}
}
, {"dat_lmr_create: LMR", DAT_HANDLE_TYPE_LMR, not_null, DAT_INVALID_HANDLE_LMR,
   WITH{DAT_REGION_DESCRIPTION what = {};
what.for_lmr_handle = handle;
return register_with(all, DAT_MEM_TYPE_LMR, what, all.on.pz);
}
}
, {"dat_rmr_bind: LMR", DAT_HANDLE_TYPE_LMR, not_null, DAT_INVALID_HANDLE_LMR,
   WITH{return bind(all, handle, all.idle.ep);
}
}
, {"dat_rmr_bind: EP", DAT_HANDLE_TYPE_EP, not_null, DAT_INVALID_HANDLE_EP,
   WITH{return bind(all, all.area.lmr, handle);
}
}
, {"dat_srq_create: PZ", DAT_HANDLE_TYPE_PZ, not_null, DAT_INVALID_HANDLE_PZ,
   WITH{DAT_SRQ_ATTR attr = {};
attr.max_recv_dtos = attr.max_recv_iov = 1;
return dat().srq_create_func(all.on.ia, handle, &attr, &made);
}
}
, {"dat_ep_create: PZ", DAT_HANDLE_TYPE_PZ, or_null, DAT_INVALID_HANDLE_PZ, make_ep<&ep_parts::pz>},
    {"dat_ep_create: receives", DAT_HANDLE_TYPE_EVD, or_null, DAT_INVALID_HANDLE_EVD_RECV,
     make_ep<&ep_parts::receives>},
    {"dat_ep_create: requests", DAT_HANDLE_TYPE_EVD, or_null, DAT_INVALID_HANDLE_EVD_REQUEST,
     make_ep<&ep_parts::requests>},
    {"dat_ep_create: connections", DAT_HANDLE_TYPE_EVD, or_null, DAT_INVALID_HANDLE_EVD_CONN,
     make_ep<&ep_parts::connections>},
    {"dat_ep_create_with_srq: PZ", DAT_HANDLE_TYPE_PZ, or_null, DAT_INVALID_HANDLE_PZ,
     make_ep_with_srq<&ep_parts::pz>},
    {"dat_ep_create_with_srq: receives", DAT_HANDLE_TYPE_EVD, or_null, DAT_INVALID_HANDLE_EVD_RECV,
     make_ep_with_srq<&ep_parts::receives>},
    {"dat_ep_create_with_srq: requests", DAT_HANDLE_TYPE_EVD, or_null,
     DAT_INVALID_HANDLE_EVD_REQUEST, make_ep_with_srq<&ep_parts::requests>},
    {"dat_ep_create_with_srq: connections", DAT_HANDLE_TYPE_EVD, or_null,
     DAT_INVALID_HANDLE_EVD_CONN, make_ep_with_srq<&ep_parts::connections>},
    {"dat_ep_create_with_srq: SRQ", DAT_HANDLE_TYPE_SRQ, not_null, DAT_INVALID_HANDLE_SRQ,
     make_ep_with_srq<&ep_parts::srq>},
    {"dat_ep_modify: PZ", DAT_HANDLE_TYPE_PZ, or_null, DAT_INVALID_HANDLE_PZ,
     WITH{return modify(all, DAT_EP_FIELD_PZ_HANDLE, &DAT_EP_PARAM::pz_handle, handle);
}
}
, {"dat_ep_modify: receives", DAT_HANDLE_TYPE_EVD, or_null, DAT_INVALID_HANDLE_EVD_RECV,
   WITH{return modify(all, DAT_EP_FIELD_RECV_EVD_HANDLE, &DAT_EP_PARAM::recv_evd_handle, handle);
}
}
, {"dat_ep_modify: requests", DAT_HANDLE_TYPE_EVD, or_null, DAT_INVALID_HANDLE_EVD_REQUEST,
   WITH{return modify(all, DAT_EP_FIELD_REQUEST_EVD_HANDLE, &DAT_EP_PARAM::request_evd_handle,
                      handle);
}
}
, {"dat_ep_modify: connections", DAT_HANDLE_TYPE_EVD, or_null, DAT_INVALID_HANDLE_EVD_CONN,
   WITH{return modify(all, DAT_EP_FIELD_CONNECT_EVD_HANDLE, &DAT_EP_PARAM::connect_evd_handle,
                      handle);
}
}
, {"dat_ep_modify: SRQ", DAT_HANDLE_TYPE_SRQ, or_null, DAT_INVALID_HANDLE_SRQ,
   WITH{return modify(all, DAT_EP_FIELD_SRQ_HANDLE, &DAT_EP_PARAM::srq_handle, handle);
}
}
, {"dat_ep_dup_connect: EP", DAT_HANDLE_TYPE_EP, not_null, DAT_INVALID_HANDLE_EP,
   WITH{
       return dat().ep_dup_connect_func(all.idle.ep, handle, soon, 0, nullptr, DAT_QOS_BEST_EFFORT);
}
}
, {"dat_psp_create: EVD", DAT_HANDLE_TYPE_EVD, not_null, DAT_INVALID_HANDLE_EVD_CR,
   WITH{return dat().psp_create_func(all.on.ia, 6000, handle, DAT_PSP_CONSUMER_FLAG, &made);
}
}
, {"dat_psp_create_any: EVD", DAT_HANDLE_TYPE_EVD, not_null, DAT_INVALID_HANDLE_EVD_CR,
   WITH{return dat().psp_create_any_func(all.on.ia, &qualifier, handle, DAT_PSP_CONSUMER_FLAG,
                                         &made);
}
}
, {"dat_rsp_create: EP", DAT_HANDLE_TYPE_EP, not_null, DAT_INVALID_HANDLE_EP,
   WITH{return dat().rsp_create_func(all.on.ia, 6000, handle, all.cr, &made);
}
}
, {"dat_rsp_create: EVD", DAT_HANDLE_TYPE_EVD, not_null, DAT_INVALID_HANDLE_EVD_CR,
   WITH{return dat().rsp_create_func(all.on.ia, 6000, all.idle.ep, handle, &made);
}
}
, {"dat_csp_create: EVD", DAT_HANDLE_TYPE_EVD, not_null, DAT_INVALID_HANDLE_EVD_CR,
   WITH{DAT_COMM comm = {AF_INET, SOCK_STREAM, IPPROTO_TCP};
place here = at(all.on.address, 6000);
return dat().csp_create_func(all.on.ia, &comm, &here.any, handle, &made);
}
}
, {"dat_cr_accept: EP", DAT_HANDLE_TYPE_EP, not_null, DAT_INVALID_HANDLE_EP,
   WITH{return dat().cr_accept_func(all.living(DAT_HANDLE_TYPE_CR), handle, 0, nullptr);
}
}
, {"dat_ia_open: asynchronous EVD", DAT_HANDLE_TYPE_EVD, or_null, DAT_INVALID_HANDLE_EVD_ASYNC,
   WITH{char name[] = "ib";
return dat().ia_open_func(name, 8, &handle, &made);
}
}
,
}
;
#undef WITH

/// Good, but of another IA; or, for an EVD, not for what it is wanted for.
void add_strangers(std::vector<bad_handle> &to, const every &all, const every &other,
                   const place_of_handle &where) {
    to.push_back({"an EVD of software events", all.own});
    const bool another_is_good = where.subtype == DAT_INVALID_HANDLE_EVD_CONN ||
                                 where.subtype == DAT_INVALID_HANDLE_EVD_ASYNC;
    if (where.kind == DAT_HANDLE_TYPE_EVD && !another_is_good)
        for (DAT_EVD_HANDLE each : {other.idle.receives, other.cr})
            to.push_back({"another IA's EVD", each});
    else if (where.kind != DAT_HANDLE_TYPE_EVD)
        to.push_back({"another IA's", other.living(where.kind)});
}

/// Not a handle, but it has a meaning.
bool is_word_for_async(const bad_handle &one) {
    return one.handle == DAT_EVD_ASYNC_EXISTS || one.handle == DAT_EVD_OUT_OF_SCOPE;
}

void every_argument_of_every_bad_handle(void **) {
    adapter elsewhere("iw"), on;
    every other(elsewhere), all(on);
    const auto before = net().living();
    verdict so_far;
    for (const place_of_handle &each : places) {
        std::vector<bad_handle> list = worse_handles(all, each.kind);
        add_strangers(list, all, other, each);
        if (each.subtype == DAT_INVALID_HANDLE_EVD_ASYNC)
            std::erase_if(list, [](const bad_handle &one) { return is_word_for_async(one); });
        if (!each.may_be_null)
            list.push_back({"NULL", DAT_HANDLE_NULL});
        for (const bad_handle &wrong : list) {
            made = &made;
            so_far.expect(each.with(all, wrong.handle), no_handle(each.subtype), each.call,
                          wrong.what);
            assert_ptr_equal(made, &made);
        }
    }
    assert_int_equal(so_far.wrong, 0);
    assert_true(net().living() == before);
    all.free();
    other.free();
    assert_int_equal(dat().pz_free_func(on.pz), DAT_SUCCESS);
    on.close(DAT_CLOSE_GRACEFUL_FLAG);
}

} // namespace

int main() {
    register_names();
    const CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_function_of_every_bad_handle, fresh, gone),
        cmocka_unit_test_setup_teardown(every_extension_of_every_bad_handle, fresh, gone),
        cmocka_unit_test_setup_teardown(every_argument_of_every_bad_handle, fresh, gone),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
