// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Each function with more than one checked argument, called with one invalid argument, and with
// several: it returns the error of the leftmost. The number of an argument is its position in the
// call.

#include "fake/kinds.hpp"
#include "fake/two_eps.hpp"

#include <cstdlib>
#include <dat2/dat_coherdma_extensions.h>
#include <dat2/dat_ib_extensions.h>

using namespace fake;

namespace {

constexpr DAT_COMPLETION_FLAGS default_flags = DAT_COMPLETION_DEFAULT_FLAG;

DAT_EP_ATTR ud_ep_attr() {
    DAT_EP_ATTR attr = {};
    attr.service_type = static_cast<DAT_SERVICE_TYPE>(DAT_IB_SERVICE_TYPE_UD);
    attr.max_request_dtos = attr.max_recv_dtos = attr.max_request_iov = attr.max_recv_iov = 1;
    return attr;
}

/// Valid arguments.
struct arguments {
    arguments()
        : objects(eps.ia)
        , ud_ep(eps.ia, &ud_attr) {}
    ~arguments() { objects.free(); }

    DAT_LMR_TRIPLET *iov() const { return &local; }
    const DAT_RMR_TRIPLET *rbuf() const { return &remote; }
    DAT_HANDLE of_kind(DAT_HANDLE_TYPE type) const { return objects.handle(type); }

    connected_eps eps;
    all_objects objects;
    DAT_EP_ATTR ud_attr = ud_ep_attr();
    ep_fixture ud_ep;
    mutable DAT_LMR_TRIPLET local = eps.active_memory.lmr_triplet(0, 8);
    DAT_RMR_TRIPLET remote = eps.passive_memory.rmr_triplet(0, 8);
};

/// The arguments that a call replaces by invalid ones: bit i for the i-th of function_case::errors.
struct faults {
    constexpr bool operator[](unsigned i) const { return (bits >> i & 1) != 0; }
    unsigned bits;
};

struct function_case {
    const char *name;
    std::vector<DAT_RETURN> errors; ///< of the checked arguments from left to right, then the state
    DAT_RETURN (*call)(const arguments &args, faults bad);
};

bool has_result(const function_case &test, const arguments &args, unsigned bits,
                DAT_RETURN expected) {
    const DAT_RETURN result = test.call(args, {bits});
    if (result != expected)
        print_error("%s: faults %#x: %#x, not %#x\n", test.name, bits, result, expected);
    return result == expected;
}

/// Each argument alone, with its right neighbor, and with all to the right.
bool returns_leftmost_error(const function_case &test, const arguments &args) {
    const unsigned all = (1U << test.errors.size()) - 1;
    bool passed = true;
    for (unsigned i = 0; i != test.errors.size(); ++i)
        for (const unsigned bits : {1U << i, 3U << i & all, all << i & all})
            passed &= has_result(test, args, bits, test.errors[i]);
    return passed;
}

template <std::size_t count>
void assert_leftmost_error_returned(const function_case (&tests)[count]) {
    int failed = 0;
    {
        const arguments args;
        for (const function_case &test : tests)
            failed += returns_leftmost_error(test, args) ? 0 : 1;
    }
    assert_int_equal(failed, 0);
}

const DAT_RETURN invalid_ep = invalid_handle(DAT_INVALID_HANDLE_EP);
const DAT_RETURN unconnected = invalid_state(DAT_INVALID_STATE_EP_UNCONNECTED);

// -- extensions

/// The EP of a request. bad_handle: another object; bad_state: an EP that is not connected.
DAT_HANDLE requester(const arguments &args, bool bad_handle, bool bad_state) {
    return bad_handle  ? args.eps.ia.pz
           : bad_state ? args.objects.idle_ep.handle
                       : args.eps.active.handle;
}

DAT_IA_HANDLE query_ia;
DAT_IA_ATTR ia_attr;
DAT_PROVIDER_ATTR provider_attr;
char ia_name[] = "roce";

const function_case extension_cases[] = {
    {"dat_ib_post_fetch_and_add",
     {invalid_ep, invalid_parameter(3), invalid_parameter(5), unconnected},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         return dat_ib_post_fetch_and_add(requester(args, bad[0], bad[3]), 1,
                                          bad[1] ? nullptr : args.iov(), cookie(1),
                                          bad[2] ? nullptr : args.rbuf(), default_flags);
     }},
    {"dat_ib_post_cmp_and_swap",
     {invalid_ep, invalid_parameter(4), invalid_parameter(6), unconnected},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         return dat_ib_post_cmp_and_swap(requester(args, bad[0], bad[3]), 1, 2,
                                         bad[1] ? nullptr : args.iov(), cookie(1),
                                         bad[2] ? nullptr : args.rbuf(), default_flags);
     }},
    {"dat_ib_ud_cm_free",
     {invalid_ep, invalid_parameter(2)},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         return dat_ib_ud_cm_free(bad[0] ? args.eps.ia.pz : args.ud_ep.handle, nullptr);
     }},
    {"dat_ib_ud_ah_free",
     {invalid_ep, invalid_parameter(2)},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         return dat_ib_ud_ah_free(bad[0] ? args.eps.ia.pz : args.ud_ep.handle, nullptr);
     }},
    // As the registry calls it: with the IA name instead of a handle. The name is argument 1.
    {"dat_ib_open_query",
     {invalid_parameter(1), invalid_parameter(2), invalid_parameter(3), invalid_parameter(5)},
     [](const arguments &, faults bad) -> DAT_RETURN {
         return dat_extension_op(
             bad[0] ? nullptr : ia_name, DAT_IB_OPEN_QUERY_OP, bad[1] ? nullptr : &query_ia,
             bad[2] ? ~DAT_IA_ATTR_MASK{0} : DAT_IA_FIELD_ALL, &ia_attr,
             bad[3] ? ~DAT_PROVIDER_ATTR_MASK{0} : DAT_PROVIDER_FIELD_ALL, &provider_attr);
     }},
    {"dat_coherdma_post_atomic_write",
     {invalid_ep, invalid_parameter(2), invalid_parameter(5), unconnected},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         const DAT_UINT64 value = 1;
         return dat_coherdma_post_atomic_write(requester(args, bad[0], bad[3]),
                                               bad[1] ? nullptr : &value, nullptr, cookie(1),
                                               bad[2] ? nullptr : args.rbuf(), default_flags);
     }},
    {"dat_coherdma_post_flush",
     {invalid_ep, invalid_parameter(2), invalid_parameter(4), unconnected},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         return dat_coherdma_post_flush(requester(args, bad[0], bad[3]),
                                        bad[1] ? nullptr : args.iov(), cookie(1),
                                        bad[2] ? nullptr : args.rbuf(), default_flags);
     }},
    {"dat_coherdma_query_methods",
     {invalid_ep, invalid_parameter(2), unconnected},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         DAT_COHERDMA_METHODS methods;
         return dat_coherdma_query_methods(requester(args, bad[0], bad[2]),
                                           bad[1] ? nullptr : &methods);
     }},
};

void extension_returns_error_of_leftmost_argument(void **) {
    assert_leftmost_error_returned(extension_cases);
}

// -- functions of DAT

const DAT_RETURN not_supported = dat_error(DAT_MODEL_NOT_SUPPORTED);
const DAT_RETURN invalid_ia = invalid_handle(DAT_INVALID_HANDLE_IA);
const DAT_RETURN invalid_pz = invalid_handle(DAT_INVALID_HANDLE_PZ);
const DAT_RETURN invalid_evd = invalid_handle(DAT_INVALID_HANDLE_EVD_REQUEST);
const DAT_RETURN invalid_cr_evd = invalid_handle(DAT_INVALID_HANDLE_EVD_CR);
const DAT_RETURN connected = invalid_state(DAT_INVALID_STATE_EP_CONNECTED);

DAT_HANDLE created; ///< where calls would store the handle of what they create
DAT_NAME_PTR const ib_name = ia_name;
DAT_IA_ADDRESS_PTR peer_address(const arguments &args) {
    static socket_address addr;
    addr = parse_address(args.eps.ia.address, 5001);
    return &addr.sa;
}

/// The handle of this type, or another object.
DAT_HANDLE handle_of(const arguments &args, DAT_HANDLE_TYPE type, bool bad_handle) {
    return bad_handle ? args.objects.handle(DAT_HANDLE_TYPE_RMR) : args.objects.handle(type);
}
DAT_IA_HANDLE ia_of(const arguments &args, bool bad_handle) {
    return handle_of(args, DAT_HANDLE_TYPE_IA, bad_handle);
}
/// An EP that is not connected. bad_state: one that is.
DAT_EP_HANDLE idle_ep_of(const arguments &args, bool bad_handle, bool bad_state) {
    return bad_handle  ? args.eps.ia.pz
           : bad_state ? args.eps.passive.handle
                       : args.objects.idle_ep.handle;
}
DAT_EVD_HANDLE cr_evd_of(const arguments &args, bool bad_handle) {
    return bad_handle ? args.objects.software_evd : args.objects.cr_evd;
}
DAT_HANDLE *result_of(bool bad) {
    return bad ? nullptr : &created;
}
constexpr DAT_COUNT data_size(bool bad) {
    return bad ? -1 : 4;
}
DAT_PVOID data_of(bool bad) {
    return bad ? nullptr : ia_name;
}
template <class enum_type>
enum_type flags_of(enum_type valid, bool bad) {
    return bad ? static_cast<enum_type>(0x4000) : valid;
}

template <class mask_type, class param_type>
DAT_RETURN query(DAT_RETURN (*function)(DAT_HANDLE, mask_type, param_type *), DAT_HANDLE_TYPE type,
                 const arguments &args, faults bad) {
    param_type param;
    return function(bad[0] ? args.eps.active.request_evd : args.objects.handle(type),
                    static_cast<mask_type>(bad[1] ? 1U << 31 : 1), bad[2] ? nullptr : &param);
}
#define QUERY(name, kind, subtype)                                                                 \
    {                                                                                              \
        "dat_" #name "_query",                                                                     \
            {invalid_handle(subtype), invalid_parameter(2), invalid_parameter(3)},                 \
            [](const arguments &args, faults bad) -> DAT_RETURN {                                  \
                return query(dat().name##_query_func, DAT_HANDLE_TYPE_##kind, args, bad);          \
            }                                                                                      \
    }

DAT_RETURN open_ia(DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async_evd,
                   DAT_IA_HANDLE *ia) {
    return find_table("roce")->ia_open_func(name, qlen, async_evd, ia);
}

const function_case ia_cases[] = {
    {"dat_ia_open, with a new EVD",
     {invalid_parameter(1), invalid_parameter(2), invalid_parameter(4)},
     [](const arguments &, faults bad) -> DAT_RETURN {
         DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
         return open_ia(bad[0] ? nullptr : ib_name, bad[1] ? 0 : 8, &async_evd, result_of(bad[2]));
     }},
    {"dat_ia_open, with an EVD",
     {invalid_parameter(1), invalid_handle(DAT_INVALID_HANDLE_EVD_ASYNC), invalid_parameter(4)},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         DAT_EVD_HANDLE async_evd = bad[1] ? args.objects.software_evd : args.eps.ia.async_evd;
         return open_ia(bad[0] ? nullptr : ib_name, 8, &async_evd, result_of(bad[2]));
     }},
    {"dat_ia_open, without an EVD",
     {invalid_parameter(1), invalid_parameter(3), invalid_parameter(4)},
     [](const arguments &, faults bad) -> DAT_RETURN {
         DAT_EVD_HANDLE async_evd = DAT_EVD_OUT_OF_SCOPE;
         return open_ia(bad[0] ? nullptr : ib_name, 8, bad[1] ? nullptr : &async_evd,
                        result_of(bad[2]));
     }},
    {"dat_ia_query",
     {invalid_ia, invalid_parameter(3), invalid_parameter(4), invalid_parameter(5),
      invalid_parameter(6)},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         return dat().ia_query_func(ia_of(args, bad[0]), nullptr,
                                    bad[1] ? ~DAT_IA_ATTR_MASK{0} : DAT_IA_FIELD_ALL,
                                    bad[2] ? nullptr : &ia_attr,
                                    bad[3] ? ~DAT_PROVIDER_ATTR_MASK{0} : DAT_PROVIDER_FIELD_ALL,
                                    bad[4] ? nullptr : &provider_attr);
     }},
    {"dat_ia_ha_related",
     {invalid_ia, invalid_parameter(2), invalid_parameter(3)},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         DAT_BOOLEAN related;
         return dat().ia_ha_related_func(ia_of(args, bad[0]), bad[1] ? nullptr : ib_name,
                                         bad[2] ? nullptr : &related);
     }},
};

void ia_call_returns_error_of_leftmost_argument(void **) {
    assert_leftmost_error_returned(ia_cases);
}

const function_case event_cases[] = {
    {"dat_evd_query",
     {invalid_evd, invalid_parameter(2), invalid_parameter(3)},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         DAT_EVD_PARAM param;
         return dat().evd_query_func(handle_of(args, DAT_HANDLE_TYPE_EVD, bad[0]),
                                     flags_of<DAT_EVD_PARAM_MASK>(DAT_EVD_FIELD_ALL, bad[1]),
                                     bad[2] ? nullptr : &param);
     }},
    QUERY(cno, CNO, DAT_INVALID_HANDLE_CNO),
    {"dat_evd_create",
     {invalid_ia, invalid_parameter(2), invalid_handle(DAT_INVALID_HANDLE_CNO),
      invalid_parameter(4), invalid_parameter(5)},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         return dat().evd_create_func(
             ia_of(args, bad[0]), bad[1] ? 0 : 8, handle_of(args, DAT_HANDLE_TYPE_CNO, bad[2]),
             flags_of<DAT_EVD_FLAGS>(DAT_EVD_SOFTWARE_FLAG, bad[3]), result_of(bad[4]));
     }},
    {"dat_evd_wait",
     {invalid_evd, invalid_parameter(3), invalid_parameter(4), invalid_parameter(5)},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         DAT_EVENT event;
         DAT_COUNT nmore;
         return dat().evd_wait_func(handle_of(args, DAT_HANDLE_TYPE_EVD, bad[0]), 0, bad[1] ? 0 : 1,
                                    bad[2] ? nullptr : &event, bad[3] ? nullptr : &nmore);
     }},
    {"dat_cno_fd_create",
     {invalid_ia, invalid_parameter(2), invalid_parameter(3)},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         DAT_FD fd;
         return dat().cno_fd_create_func(ia_of(args, bad[0]), bad[1] ? nullptr : &fd,
                                         result_of(bad[2]));
     }},
};

void event_call_returns_error_of_leftmost_argument(void **) {
    assert_leftmost_error_returned(event_cases);
}

const function_case memory_cases[] = {
    QUERY(pz, PZ, DAT_INVALID_HANDLE_PZ),
    QUERY(lmr, LMR, DAT_INVALID_HANDLE_LMR),
    QUERY(rmr, RMR, DAT_INVALID_HANDLE_RMR),
    // Length 0 is checked before the address.
    {"dat_lmr_create",
     {invalid_ia, invalid_parameter(2), dat_error(DAT_LENGTH_ERROR), invalid_parameter(3),
      invalid_pz, invalid_parameter(6), invalid_parameter(7), invalid_parameter(7)},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         DAT_REGION_DESCRIPTION region = {};
         region.for_va = bad[3] ? nullptr : ia_name;
         return dat().lmr_create_func(ia_of(args, bad[0]),
                                      flags_of<DAT_MEM_TYPE>(DAT_MEM_TYPE_VIRTUAL, bad[1]), region,
                                      bad[2] ? 0 : 1, handle_of(args, DAT_HANDLE_TYPE_PZ, bad[4]),
                                      flags_of<DAT_MEM_PRIV_FLAGS>(DAT_MEM_PRIV_ALL_FLAG, bad[5]),
                                      flags_of<DAT_VA_TYPE>(DAT_VA_TYPE_VA, bad[6]),
                                      result_of(bad[7]), nullptr, nullptr, nullptr, nullptr);
     }},
    {"dat_rmr_bind",
     {invalid_handle(DAT_INVALID_HANDLE_RMR), invalid_handle(DAT_INVALID_HANDLE_LMR),
      invalid_parameter(3), invalid_parameter(4), invalid_parameter(5), invalid_ep, unconnected},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         const DAT_LMR_TRIPLET range = args.objects.buffer.lmr_triplet(0, 64);
         return dat().rmr_bind_func(
             bad[0] ? args.eps.ia.pz : args.of_kind(DAT_HANDLE_TYPE_RMR),
             handle_of(args, DAT_HANDLE_TYPE_LMR, bad[1]), bad[2] ? nullptr : &range,
             flags_of<DAT_MEM_PRIV_FLAGS>(DAT_MEM_PRIV_REMOTE_READ_FLAG, bad[3]),
             flags_of<DAT_VA_TYPE>(DAT_VA_TYPE_VA, bad[4]), requester(args, bad[5], bad[6]),
             cookie(1), default_flags, nullptr);
     }},
    {"dat_srq_create",
     {invalid_ia, invalid_pz, invalid_parameter(3), invalid_parameter(4)},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         DAT_SRQ_ATTR attr = {4, 1, 0};
         return dat().srq_create_func(ia_of(args, bad[0]),
                                      handle_of(args, DAT_HANDLE_TYPE_PZ, bad[1]),
                                      bad[2] ? nullptr : &attr, result_of(bad[3]));
     }},
    {"dat_srq_post_recv",
     {invalid_handle(DAT_INVALID_HANDLE_SRQ), invalid_parameter(2), invalid_parameter(3)},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         return dat().srq_post_recv_func(handle_of(args, DAT_HANDLE_TYPE_SRQ, bad[0]),
                                         bad[1] ? -1 : 1, bad[2] ? nullptr : args.iov(), cookie(1));
     }},
    QUERY(srq, SRQ, DAT_INVALID_HANDLE_SRQ),
};

void memory_call_returns_error_of_leftmost_argument(void **) {
    assert_leftmost_error_returned(memory_cases);
}

const function_case listen_cases[] = {
    QUERY(psp, PSP, DAT_INVALID_HANDLE_PSP),
    QUERY(rsp, RSP, DAT_INVALID_HANDLE_RSP),
    QUERY(csp, CSP, DAT_INVALID_HANDLE_CSP),
    QUERY(cr, CR, DAT_INVALID_HANDLE_CR),
    {"dat_psp_create",
     {invalid_ia, invalid_parameter(2), invalid_cr_evd, invalid_parameter(4), invalid_parameter(5)},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         return dat().psp_create_func(
             ia_of(args, bad[0]), bad[1] ? 0 : 6000, cr_evd_of(args, bad[2]),
             flags_of<DAT_PSP_FLAGS>(DAT_PSP_CONSUMER_FLAG, bad[3]), result_of(bad[4]));
     }},
    {"dat_psp_create_any",
     {invalid_ia, invalid_parameter(2), invalid_cr_evd, invalid_parameter(4), invalid_parameter(5)},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         DAT_CONN_QUAL qualifier;
         return dat().psp_create_any_func(
             ia_of(args, bad[0]), bad[1] ? nullptr : &qualifier, cr_evd_of(args, bad[2]),
             flags_of<DAT_PSP_FLAGS>(DAT_PSP_CONSUMER_FLAG, bad[3]), result_of(bad[4]));
     }},
    {"dat_rsp_create",
     {invalid_ia, invalid_parameter(2), invalid_ep, invalid_cr_evd, invalid_parameter(5),
      connected},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         return dat().rsp_create_func(ia_of(args, bad[0]), bad[1] ? 0 : 6000,
                                      idle_ep_of(args, bad[2], bad[5]), cr_evd_of(args, bad[3]),
                                      result_of(bad[4]));
     }},
    {"dat_csp_create",
     {invalid_ia, dat_error(DAT_COMM_NOT_SUPPORTED), invalid_parameter(3), invalid_cr_evd,
      invalid_parameter(5)},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         DAT_COMM comm = {AF_INET, bad[1] ? SOCK_DGRAM : SOCK_STREAM, 0};
         return dat().csp_create_func(ia_of(args, bad[0]), &comm,
                                      bad[2] ? nullptr : peer_address(args),
                                      cr_evd_of(args, bad[3]), result_of(bad[4]));
     }},
    {"dat_cr_accept",
     {invalid_handle(DAT_INVALID_HANDLE_CR), invalid_ep, invalid_parameter(3), invalid_parameter(4),
      connected},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         return dat().cr_accept_func(handle_of(args, DAT_HANDLE_TYPE_CR, bad[0]),
                                     idle_ep_of(args, bad[1], bad[4]), data_size(bad[2]),
                                     data_of(bad[3]));
     }},
    {"dat_cr_reject",
     {invalid_handle(DAT_INVALID_HANDLE_CR), invalid_parameter(2), invalid_parameter(3)},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         return dat().cr_reject_func(handle_of(args, DAT_HANDLE_TYPE_CR, bad[0]), data_size(bad[1]),
                                     data_of(bad[2]));
     }},
};

void listen_call_returns_error_of_leftmost_argument(void **) {
    assert_leftmost_error_returned(listen_cases);
}

/// srq: DAT_HANDLE_NULL for dat_ep_create.
DAT_RETURN create_ep(const arguments &args, DAT_SRQ_HANDLE srq, bool bad_attr, faults bad,
                     DAT_EP_HANDLE *handle) {
    DAT_EP_ATTR attr = ud_ep_attr();
    attr.service_type = DAT_SERVICE_TYPE_RC;
    if (bad_attr)
        attr.max_request_dtos = -1;
    DAT_EVD_HANDLE const wrong_evd = args.objects.software_evd;
    const ep_fixture &ep = args.objects.idle_ep;
    DAT_IA_HANDLE const ia = ia_of(args, bad[0]);
    DAT_PZ_HANDLE const pz = handle_of(args, DAT_HANDLE_TYPE_PZ, bad[1]);
    DAT_EVD_HANDLE const recv_evd = bad[2] ? wrong_evd : ep.recv_evd;
    DAT_EVD_HANDLE const request_evd = bad[3] ? wrong_evd : ep.request_evd;
    DAT_EVD_HANDLE const connect_evd = bad[4] ? wrong_evd : ep.connect_evd;
    return srq == DAT_HANDLE_NULL
               ? dat().ep_create_func(ia, pz, recv_evd, request_evd, connect_evd, &attr, handle)
               : dat().ep_create_with_srq_func(ia, pz, recv_evd, request_evd, connect_evd, srq,
                                               &attr, handle);
}
const DAT_RETURN invalid_recv_evd = invalid_handle(DAT_INVALID_HANDLE_EVD_RECV);
const DAT_RETURN invalid_connect_evd = invalid_handle(DAT_INVALID_HANDLE_EVD_CONN);

const function_case ep_cases[] = {
    QUERY(ep, EP, DAT_INVALID_HANDLE_EP),
    {"dat_ep_create",
     {invalid_ia, invalid_pz, invalid_recv_evd, invalid_evd, invalid_connect_evd,
      invalid_parameter(6), invalid_parameter(7)},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         return create_ep(args, DAT_HANDLE_NULL, bad[5], bad, result_of(bad[6]));
     }},
    {"dat_ep_create_with_srq",
     {invalid_ia, invalid_pz, invalid_recv_evd, invalid_evd, invalid_connect_evd,
      invalid_handle(DAT_INVALID_HANDLE_SRQ), invalid_parameter(7), invalid_parameter(8)},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         return create_ep(args, handle_of(args, DAT_HANDLE_TYPE_SRQ, bad[5]), bad[6], bad,
                          result_of(bad[7]));
     }},
    {"dat_ep_modify",
     {invalid_ep, invalid_parameter(2), invalid_parameter(3), connected},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         const DAT_EP_PARAM param = {};
         return dat().ep_modify_func(idle_ep_of(args, bad[0], bad[3]),
                                     bad[1] ? DAT_EP_FIELD_EP_STATE : DAT_EP_FIELD_EP_ATTR_QOS,
                                     bad[2] ? nullptr : &param);
     }},
    {"dat_ep_modify of an EVD",
     {invalid_ep, invalid_recv_evd, invalid_parameter(3), connected},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         DAT_EP_PARAM param = {};
         param.recv_evd_handle = bad[1] ? args.objects.software_evd : args.objects.idle_ep.recv_evd;
         param.ep_attr.max_request_iov = bad[2] ? -1 : 1;
         return dat().ep_modify_func(
             idle_ep_of(args, bad[0], bad[3]),
             DAT_EP_FIELD_RECV_EVD_HANDLE | DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV, &param);
     }},
    {"dat_ep_set_watermark",
     {invalid_ep, invalid_parameter(2), invalid_parameter(3),
      invalid_state(DAT_INVALID_STATE_EP_RECV_WATERMARK)},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         return dat().ep_set_watermark_func(idle_ep_of(args, bad[0], false), bad[1] ? -2 : 1,
                                            bad[2] ? -2 : 1);
     }},
    {"dat_ep_disconnect",
     {invalid_ep, invalid_parameter(2), unconnected},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         return dat().ep_disconnect_func(idle_ep_of(args, bad[0], false),
                                         flags_of<DAT_CLOSE_FLAGS>(DAT_CLOSE_ABRUPT_FLAG, bad[1]));
     }},
    {"dat_ep_connect",
     {invalid_ep, invalid_parameter(2), invalid_parameter(3), invalid_parameter(4),
      invalid_parameter(5), invalid_parameter(6), not_supported, not_supported, connected},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         return dat().ep_connect_func(
             idle_ep_of(args, bad[0], bad[8]), bad[1] ? nullptr : peer_address(args),
             bad[2] ? 0 : 5001, bad[3] ? 0 : event_timeout_us, data_size(bad[4]), data_of(bad[5]),
             flags_of<DAT_QOS>(DAT_QOS_BEST_EFFORT, bad[6]),
             flags_of<DAT_CONNECT_FLAGS>(DAT_CONNECT_DEFAULT_FLAG, bad[7]));
     }},
    {"dat_ep_common_connect",
     {invalid_ep, invalid_parameter(2), invalid_parameter(3), invalid_parameter(4),
      invalid_parameter(5), connected},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         return dat().ep_common_connect_func(
             idle_ep_of(args, bad[0], bad[5]), bad[1] ? nullptr : peer_address(args),
             bad[2] ? 0 : event_timeout_us, data_size(bad[3]), data_of(bad[4]));
     }},
    {"dat_ep_dup_connect",
     {invalid_ep, invalid_ep, invalid_parameter(3), invalid_parameter(4), invalid_parameter(5),
      not_supported, unconnected},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         return dat().ep_dup_connect_func(
             idle_ep_of(args, bad[0], false), requester(args, bad[1], bad[6]),
             bad[2] ? 0 : event_timeout_us, data_size(bad[3]), data_of(bad[4]),
             flags_of<DAT_QOS>(DAT_QOS_BEST_EFFORT, bad[5]));
     }},
};

void ep_call_returns_error_of_leftmost_argument(void **) {
    assert_leftmost_error_returned(ep_cases);
}

/// The faults of num_segments and iov: 1 and 2 of every post.
constexpr DAT_COUNT segments(faults bad) {
    return bad[1] ? -1 : 1;
}
DAT_LMR_TRIPLET *iov_of(const arguments &args, faults bad) {
    return bad[2] ? nullptr : args.iov();
}

const function_case post_cases[] = {
    {"dat_ep_post_recv",
     {invalid_ep, invalid_parameter(2), invalid_parameter(3)},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         return dat().ep_post_recv_func(requester(args, bad[0], false), segments(bad),
                                        iov_of(args, bad), cookie(1), default_flags);
     }},
    {"dat_ep_post_send",
     {invalid_ep, invalid_parameter(2), invalid_parameter(3), unconnected},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         return dat().ep_post_send_func(requester(args, bad[0], bad[3]), segments(bad),
                                        iov_of(args, bad), cookie(1), default_flags);
     }},
    {"dat_ep_post_send_with_invalidate",
     {invalid_ep, invalid_parameter(2), invalid_parameter(3), unconnected},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         return dat().ep_post_send_with_invalidate_func(requester(args, bad[0], bad[3]),
                                                        segments(bad), iov_of(args, bad), cookie(1),
                                                        default_flags, DAT_TRUE, 1);
     }},
    {"dat_ep_post_rdma_write",
     {invalid_ep, invalid_parameter(2), invalid_parameter(3), invalid_parameter(5), unconnected},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         return dat().ep_post_rdma_write_func(requester(args, bad[0], bad[4]), segments(bad),
                                              iov_of(args, bad), cookie(1),
                                              bad[3] ? nullptr : args.rbuf(), default_flags);
     }},
    {"dat_ep_post_rdma_read",
     {invalid_ep, invalid_parameter(2), invalid_parameter(3), invalid_parameter(5), unconnected},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         return dat().ep_post_rdma_read_func(requester(args, bad[0], bad[4]), segments(bad),
                                             iov_of(args, bad), cookie(1),
                                             bad[3] ? nullptr : args.rbuf(), default_flags);
     }},
    {"dat_ep_post_rdma_read_to_rmr",
     {invalid_ep, invalid_parameter(2), invalid_parameter(4)},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         return dat().ep_post_rdma_read_to_rmr_func(requester(args, bad[0], false),
                                                    bad[1] ? nullptr : args.rbuf(), cookie(1),
                                                    bad[2] ? nullptr : args.rbuf(), default_flags);
     }},
    {"dat_ib_post_rdma_write_immed",
     {invalid_ep, invalid_parameter(2), invalid_parameter(3), invalid_parameter(5), unconnected},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         return dat_ib_post_rdma_write_immed(requester(args, bad[0], bad[4]), segments(bad),
                                             iov_of(args, bad), cookie(1),
                                             bad[3] ? nullptr : args.rbuf(), 7, default_flags);
     }},
    {"dat_ib_post_send_ud",
     {invalid_ep, invalid_parameter(2), invalid_parameter(3), invalid_parameter(4), connected},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         DAT_IB_ADDR_HANDLE address = {};
         ibv_ah ah = {};
         address.ah = &ah;
         // Bad state: an EP that is connected.
         return dat_ib_post_send_ud(requester(args, bad[0], false), segments(bad),
                                    iov_of(args, bad), bad[3] ? nullptr : &address, cookie(1),
                                    default_flags);
     }},
};

void post_returns_error_of_leftmost_argument(void **) {
    assert_leftmost_error_returned(post_cases);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(extension_returns_error_of_leftmost_argument),
        TEST(ia_call_returns_error_of_leftmost_argument),
        TEST(event_call_returns_error_of_leftmost_argument),
        TEST(memory_call_returns_error_of_leftmost_argument),
        TEST(listen_call_returns_error_of_leftmost_argument),
        TEST(ep_call_returns_error_of_leftmost_argument),
        TEST(post_returns_error_of_leftmost_argument),
    };
    return run_cases(tests);
}
