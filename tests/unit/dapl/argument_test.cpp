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
    bool operator[](unsigned i) const { return (bits >> i & 1) != 0; }
    unsigned bits;
};

struct function_case {
    const char *name;
    std::vector<DAT_RETURN> errors; ///< of the checked arguments from left to right, then the state
    DAT_RETURN (*call)(const arguments &args, faults bad);
};

void assert_result(const function_case &test, const arguments &args, unsigned bits,
                   DAT_RETURN expected) {
    const DAT_RETURN result = test.call(args, {bits});
    if (result != expected)
        print_error("%s: faults %#x: %#x, not %#x\n", test.name, bits, result, expected);
    assert_int_equal(result, expected);
}

template <std::size_t count>
void assert_leftmost_error_returned(const function_case (&tests)[count]) {
    const arguments args;
    for (const function_case &test : tests) {
        const unsigned all = (1U << test.errors.size()) - 1;
        for (unsigned i = 0; i != test.errors.size(); ++i) {
            assert_result(test, args, 1U << i, test.errors[i]);
            assert_result(test, args, 3U << i & all, test.errors[i]);
            assert_result(test, args, all << i & all, test.errors[i]);
        }
    }
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
char ia_name[] = "ib";

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
    {"dat_ib_query_counters",
     {invalid_handle(DAT_INVALID_HANDLE1), invalid_parameter(2), invalid_parameter(3)},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         DAT_UINT64 value = 0;
         return dat_ib_query_counters(bad[0] ? args.eps.ia.pz : args.eps.active.handle,
                                      bad[1] ? -1 : int{DCNT_EP_POST_SEND},
                                      bad[2] ? nullptr : &value, 0);
     }},
    {"dat_ib_print_counters",
     {invalid_handle(DAT_INVALID_HANDLE1), invalid_parameter(2)},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         return dat_ib_print_counters(bad[0] ? args.eps.ia.pz : args.eps.active.handle,
                                      bad[1] ? -1 : int{DCNT_EP_POST_SEND}, 0);
     }},
    {"dat_ib_start_counter",
     {invalid_handle(DAT_INVALID_HANDLE_IA), invalid_parameter(2)},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         return dat_ib_start_counter(bad[0] ? args.eps.active.handle : args.eps.ia.handle,
                                     bad[1] ? 99 : int{DCNT_IA_CM});
     }},
    {"dat_ib_stop_counter",
     {invalid_handle(DAT_INVALID_HANDLE_IA), invalid_parameter(2)},
     [](const arguments &args, faults bad) -> DAT_RETURN {
         return dat_ib_stop_counter(bad[0] ? args.eps.active.handle : args.eps.ia.handle,
                                    bad[1] ? 99 : int{DCNT_IA_CM});
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

} // namespace

int main() {
    setenv("COHERDMA_COUNTERS", "1", 1);
    const CMUnitTest tests[] = {
        TEST(extension_returns_error_of_leftmost_argument),
    };
    return run_cases(tests);
}
