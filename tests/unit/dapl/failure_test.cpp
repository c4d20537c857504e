// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// For each function that creates an object, each call of verbs, librdmacm, libcoherdma and the C
// library below it fails in turn. The function returns the missing resource, leaks no verbs object,
// and keeps no reference.

#include "fake/kinds.hpp"
#include "fake/two_eps.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <dat2/dat_ib_extensions.h>
#include <functional>
#include <initializer_list>
#include <new>
#include <utility>

using namespace fake;

namespace {

/// The nth allocation of this thread from now on fails, not counting those of the fake libraries;
/// 0: none.
thread_local unsigned failing_allocation = 0;

void *allocate(std::size_t size) noexcept {
    if (failing_allocation != 0 && !in_library_call() && --failing_allocation == 0)
        return nullptr;
    return std::malloc(size);
}

} // namespace

void *operator new(std::size_t size) {
    void *const result = allocate(size);
    if (result == nullptr)
        throw std::bad_alloc();
    return result;
}
void *operator new(std::size_t size, const std::nothrow_t &) noexcept {
    return allocate(size);
}
void operator delete(void *memory) noexcept {
    std::free(memory);
}
void operator delete(void *memory, std::size_t) noexcept {
    std::free(memory);
}

namespace {

constexpr DAT_RETURN no_resources(DAT_UINT32 resource) {
    return dat_error(DAT_INSUFFICIENT_RESOURCES, resource);
}

DAT_HANDLE created;

/// A function that creates an object, and what it returns if a call below it fails with ENOMEM.
struct create_case {
    const char *name;
    DAT_RETURN (*create)(const all_objects &objects);
    DAT_RETURN (*free)();
    std::vector<std::pair<const char *, DAT_RETURN>> results; ///< by the name of the failing call
};

template <auto function>
DAT_RETURN free_created() {
    return (dat().*function)(created);
}

DAT_RETURN create_ep(const all_objects &objects, DAT_EVD_HANDLE receives, DAT_SRQ_HANDLE srq,
                     const DAT_EP_ATTR *attr = nullptr) {
    return srq == DAT_HANDLE_NULL
               ? dat().ep_create_func(objects.ia.handle, objects.ia.pz, receives,
                                      objects.idle_ep.request_evd, objects.idle_ep.connect_evd,
                                      attr, &created)
               : dat().ep_create_with_srq_func(objects.ia.handle, objects.ia.pz, receives,
                                               objects.idle_ep.request_evd,
                                               objects.idle_ep.connect_evd, srq, attr, &created);
}

const create_case create_cases[] = {
    {"PZ",
     [](const all_objects &objects) -> DAT_RETURN {
         return dat().pz_create_func(objects.ia.handle, &created);
     },
     free_created<&DAT_PROVIDER::pz_free_func>,
     {{"ibv_alloc_pd", no_resources(DAT_RESOURCE_PROTECTION_DOMAIN)}}},
    {"LMR",
     [](const all_objects &objects) -> DAT_RETURN {
         DAT_REGION_DESCRIPTION region_desc = {};
         region_desc.for_va = const_cast<unsigned char *>(objects.buffer.bytes.data());
         return dat().lmr_create_func(objects.ia.handle, DAT_MEM_TYPE_VIRTUAL, region_desc, 64,
                                      objects.ia.pz, DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA,
                                      &created, nullptr, nullptr, nullptr, nullptr);
     },
     free_created<&DAT_PROVIDER::lmr_free_func>,
     {{"ibv_reg_mr", no_resources(DAT_RESOURCE_MEMORY)}}},
    {"RMR",
     [](const all_objects &objects) -> DAT_RETURN {
         return dat().rmr_create_func(objects.ia.pz, &created);
     },
     free_created<&DAT_PROVIDER::rmr_free_func>,
     {{"ibv_alloc_mw", no_resources(DAT_RESOURCE_MEMORY_REGION)}}},
    {"RMR of an EP",
     [](const all_objects &objects) -> DAT_RETURN {
         return dat().rmr_create_for_ep_func(objects.ia.pz, &created);
     },
     free_created<&DAT_PROVIDER::rmr_free_func>,
     {{"ibv_alloc_mw", no_resources(DAT_RESOURCE_MEMORY_REGION)}}},
    {"EVD",
     [](const all_objects &objects) -> DAT_RETURN {
         return dat().evd_create_func(objects.ia.handle, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG,
                                      &created);
     },
     free_created<&DAT_PROVIDER::evd_free_func>,
     {{"ibv_create_comp_channel", no_resources(DAT_RESOURCE_TEVD)},
      {"ibv_create_cq", no_resources(DAT_RESOURCE_TEVD)}}},
    {"EVD with a CNO",
     [](const all_objects &objects) -> DAT_RETURN {
         return dat().evd_create_func(objects.ia.handle, 8, objects.handle(DAT_HANDLE_TYPE_CNO),
                                      DAT_EVD_DTO_FLAG, &created);
     },
     free_created<&DAT_PROVIDER::evd_free_func>,
     {{"ibv_create_comp_channel", no_resources(DAT_RESOURCE_TEVD)},
      {"ibv_create_cq", no_resources(DAT_RESOURCE_TEVD)},
      {"ibv_poll_cq", DAT_SUCCESS}, // the CQ is empty
      {"ibv_req_notify_cq", no_resources(DAT_RESOURCE_TEVD)}}},
    {"SRQ",
     [](const all_objects &objects) -> DAT_RETURN {
         DAT_SRQ_ATTR attr = {};
         attr.max_recv_dtos = attr.max_recv_iov = 1;
         return dat().srq_create_func(objects.ia.handle, objects.ia.pz, &attr, &created);
     },
     free_created<&DAT_PROVIDER::srq_free_func>,
     {{"ibv_create_srq", no_resources(DAT_RESOURCE_SRQ)}}},
    {"SRQ with a low watermark",
     [](const all_objects &objects) -> DAT_RETURN {
         DAT_SRQ_ATTR attr = {};
         attr.max_recv_dtos = 4;
         attr.max_recv_iov = attr.low_watermark = 1;
         return dat().srq_create_func(objects.ia.handle, objects.ia.pz, &attr, &created);
     },
     free_created<&DAT_PROVIDER::srq_free_func>,
     {{"ibv_create_srq", no_resources(DAT_RESOURCE_SRQ)},
      {"ibv_modify_srq", no_resources(DAT_RESOURCE_SRQ)}}},
    {"EP",
     [](const all_objects &objects) -> DAT_RETURN {
         return create_ep(objects, objects.idle_ep.recv_evd, DAT_HANDLE_NULL);
     },
     free_created<&DAT_PROVIDER::ep_free_func>,
     {{"ibv_create_qp", DAT_SUCCESS}, // retried without inline data
      {"ibv_modify_qp", no_resources(DAT_RESOURCE_TEP)}}},
    {"EP without receives",
     [](const all_objects &objects) -> DAT_RETURN {
         return create_ep(objects, DAT_HANDLE_NULL, DAT_HANDLE_NULL);
     },
     free_created<&DAT_PROVIDER::ep_free_func>,
     {{"ibv_create_cq", no_resources(DAT_RESOURCE_TEVD)},
      {"ibv_create_qp", DAT_SUCCESS},
      {"ibv_modify_qp", no_resources(DAT_RESOURCE_TEP)}}},
    {"EP with an SRQ",
     [](const all_objects &objects) -> DAT_RETURN {
         return create_ep(objects, objects.idle_ep.recv_evd, objects.srq);
     },
     free_created<&DAT_PROVIDER::ep_free_func>,
     {{"ibv_create_qp", DAT_SUCCESS}, {"ibv_modify_qp", no_resources(DAT_RESOURCE_TEP)}}},
    {"EP for datagrams",
     [](const all_objects &objects) -> DAT_RETURN {
         DAT_EP_ATTR attr = {};
         attr.service_type = static_cast<DAT_SERVICE_TYPE>(DAT_IB_SERVICE_TYPE_UD);
         attr.max_recv_dtos = attr.max_request_dtos = 1;
         attr.max_recv_iov = attr.max_request_iov = 1;
         return create_ep(objects, objects.idle_ep.recv_evd, DAT_HANDLE_NULL, &attr);
     },
     free_created<&DAT_PROVIDER::ep_free_func>,
     {{"ibv_create_qp", DAT_SUCCESS}, {"ibv_modify_qp", no_resources(DAT_RESOURCE_TEP)}}},
    {"PSP",
     [](const all_objects &objects) -> DAT_RETURN {
         return dat().psp_create_func(objects.ia.handle, 7000, objects.cr_evd,
                                      DAT_PSP_CONSUMER_FLAG, &created);
     },
     free_created<&DAT_PROVIDER::psp_free_func>,
     {{"getifaddrs", no_resources(DAT_RESOURCE_TEP)},
      {"rdma_create_id", no_resources(DAT_RESOURCE_TEP)},
      {"rdma_set_option", DAT_SUCCESS},
      {"rdma_bind_addr", no_resources(DAT_RESOURCE_TEP)},
      {"rdma_listen", no_resources(DAT_RESOURCE_TEP)}}},
    {"RSP",
     [](const all_objects &objects) -> DAT_RETURN {
         return dat().rsp_create_func(objects.ia.handle, 7000, objects.idle_ep.handle,
                                      objects.cr_evd, &created);
     },
     free_created<&DAT_PROVIDER::rsp_free_func>,
     {{"getifaddrs", no_resources(DAT_RESOURCE_TEP)},
      {"rdma_create_id", no_resources(DAT_RESOURCE_TEP)},
      {"rdma_set_option", DAT_SUCCESS},
      {"rdma_bind_addr", no_resources(DAT_RESOURCE_TEP)},
      {"rdma_listen", no_resources(DAT_RESOURCE_TEP)}}},
    {"CSP",
     [](const all_objects &objects) -> DAT_RETURN {
         DAT_COMM comm = {AF_INET, SOCK_STREAM, IPPROTO_TCP};
         socket_address addr = parse_address("192.0.2.1", 7000);
         return dat().csp_create_func(objects.ia.handle, &comm, &addr.sa, objects.cr_evd, &created);
     },
     free_created<&DAT_PROVIDER::csp_free_func>,
     {{"getifaddrs", no_resources(DAT_RESOURCE_TEP)},
      {"rdma_create_id", no_resources(DAT_RESOURCE_TEP)},
      {"rdma_set_option", DAT_SUCCESS},
      {"rdma_bind_addr", no_resources(DAT_RESOURCE_TEP)},
      {"rdma_listen", no_resources(DAT_RESOURCE_TEP)}}},
};

/// The result that the function must return if this call fails.
DAT_RETURN expected_result(const create_case &test, const std::string &failed) {
    for (const auto &[call, result] : test.results)
        if (failed == call)
            return result;
    print_error("%s: %s is unexpected\n", test.name, failed.c_str());
    return DAT_NOT_IMPLEMENTED;
}

/// Each call of a library that a create function makes fails in turn.
void failed_create_leaks_nothing(void **) {
    ia_fixture ia;
    all_objects objects(ia);
    for (const create_case &test : create_cases) {
        get_fabric().injected.count_calls(); // counts calls
        assert_success(test.create(objects));
        const unsigned calls = get_fabric().injected.num_calls();
        get_fabric().injected.fail_none();
        assert_success(test.free());
        assert_true(calls >= test.results.size());
        const auto objects_before = get_fabric().count_objects();
        for (unsigned nth = 1; nth <= calls; ++nth) {
            created = &created;
            get_fabric().injected.fail_nth(nth, ENOMEM);
            const DAT_RETURN result = test.create(objects);
            const std::string failed = get_fabric().injected.failed_call();
            get_fabric().injected.fail_none();
            const DAT_RETURN expected = expected_result(test, failed);
            if (result != expected)
                print_error("%s: %s: %#x, not %#x\n", test.name, failed.c_str(), result, expected);
            assert_int_equal(result, expected);
            if (result == DAT_SUCCESS)
                assert_success(test.free());
            else
                assert_ptr_equal(created, &created);
            assert_true(get_fabric().count_objects() == objects_before);
        }
    }
    objects.free(); // no reference is left
}

void ep_create_without_qp_fails(void **) {
    ia_fixture ia;
    all_objects objects(ia);
    get_fabric().injected.fail_always("ibv_create_qp", ENOMEM);
    assert_int_equal(create_ep(objects, objects.idle_ep.recv_evd, DAT_HANDLE_NULL),
                     no_resources(DAT_RESOURCE_TEP));
    get_fabric().injected.fail_none();
    objects.free();
}

/// The device has no inline data for the first EP, whose QP is created without.
void ep_create_retries_without_inline(void **) {
    ia_fixture ia;
    const std::uint32_t max_inline = std::exchange(get_fabric().devices[0].max_inline, 0);
    ep_fixture ep(ia);
    get_fabric().devices[0].max_inline = max_inline;
    ep_fixture peer_ep(ia);
    memory buffer(ia);
    connect(ep, peer_ep);
    DAT_LMR_TRIPLET iov = buffer.lmr_triplet(0, 1);
    for (const ep_fixture *it : {&ep, &peer_ep}) {
        assert_success(
            dat().ep_post_send_func(it->handle, 1, &iov, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
        assert_int_equal((get_fabric().posts.back().wr.send_flags & IBV_SEND_INLINE) != 0,
                         it == &peer_ep);
    }
    disconnect(ep, peer_ep);
}

/// dat_ia_open, with a failure set before, returns one of the expected results and leaks nothing;
/// the failure is then removed. False: it succeeded; the IA is closed again.
bool open_fails(const char *ia_name, const std::function<void()> &remove_failure,
                std::initializer_list<DAT_RETURN> expected) {
    std::string copy = ia_name;
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = &ia;
    const DAT_RETURN result = find_table(ia_name)->ia_open_func(copy.data(), 8, &async, &ia);
    remove_failure();
    if (result == DAT_SUCCESS)
        assert_success(dat().ia_close_func(ia, DAT_CLOSE_GRACEFUL_FLAG));
    else {
        if (std::ranges::find(expected, result) == expected.end())
            print_error("%s: %#x\n", ia_name, result);
        assert_true(std::ranges::find(expected, result) != expected.end());
        assert_ptr_equal(ia, &ia);
    }
    assert_int_equal(get_fabric().num_all_objects(), 0);
    return result != DAT_SUCCESS;
}

/// A failed open leaks no object, and the IA can be opened again.
void failed_ia_open_leaks_nothing(void **) {
    const auto fail_none = [] {
        get_fabric().injected.fail_none();
    };
    for (const char *ia_name : {"roce", "iwarp"}) {
        get_fabric().injected.count_calls();
        unsigned calls = 0;
        assert_false(open_fails(ia_name,
                                [&calls] {
                                    calls = get_fabric().injected.num_calls();
                                    get_fabric().injected.fail_none();
                                },
                                {}));
        int num_failed = 0;
        for (unsigned nth = 1; nth <= calls; ++nth) {
            get_fabric().injected.fail_nth(nth, ENOMEM);
            // Not all are essential, as a GID or one of several addresses.
            num_failed +=
                open_fails(ia_name, fail_none,
                           {dat_error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED),
                            dat_error(DAT_INTERNAL_ERROR), no_resources(DAT_RESOURCE_DEVICE),
                            no_resources(DAT_RESOURCE_MEMORY)});
        }
        assert_true(num_failed >= 5);
    }
}

/// No other device is used in place of one that cannot be opened.
void failed_ibv_open_device_fails_ia_open(void **) {
    const DAT_PROVIDER_INFO info = make_info("device");
    dat_provider_init(&info, "fake1 1");
    for (const auto &[error, result] :
         {std::pair(EACCES, dat_error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED)),
          std::pair(EMFILE, no_resources(DAT_RESOURCE_MEMORY))}) {
        get_fabric().injected.fail("ibv_open_device", error);
        assert_true(open_fails("device", [] { get_fabric().injected.fail_none(); }, {result}));
    }
    dat_provider_fini(&info);
}

/// The EP needs a new QP, which fails; the EP keeps its attributes.
void failed_ep_modify_changes_nothing(void **) {
    connected_eps eps;
    ep_fixture ep(eps.ia);
    DAT_EP_PARAM param = {};
    param.ep_attr.max_recv_dtos = 100;
    param.pz_handle = eps.ia.create_pz();
    const DAT_EP_PARAM_MASK mask = DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS | DAT_EP_FIELD_PZ_HANDLE;
    for (unsigned nth = 1; nth != 3; ++nth) {
        // Fails the new QP; the old one is then created again.
        get_fabric().injected.fail("ibv_modify_qp", ENOMEM);
        assert_int_equal(dat().ep_modify_func(ep.handle, mask, &param),
                         no_resources(DAT_RESOURCE_TEP));
        get_fabric().injected.fail_none();
        DAT_EP_PARAM queried = {};
        assert_success(dat().ep_query_func(ep.handle, DAT_EP_FIELD_ALL, &queried));
        assert_int_equal(queried.ep_attr.max_recv_dtos, 16);
        assert_ptr_equal(queried.pz_handle, eps.ia.pz);
    }
    assert_success(dat().pz_free_func(param.pz_handle));
    DAT_LMR_TRIPLET iov = eps.active_memory.lmr_triplet(0, 64); // receives can still be posted
    assert_success(
        dat().ep_post_recv_func(ep.handle, 1, &iov, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
}

void failed_ep_reset_leaves_ep_disconnected(void **) {
    connected_eps eps;
    disconnect(eps.active, eps.passive);
    get_fabric().injected.fail_always("ibv_create_qp", ENOMEM);
    assert_int_equal(dat().ep_reset_func(eps.active.handle), no_resources(DAT_RESOURCE_TEP));
    assert_int_equal(eps.active.state(), DAT_EP_STATE_DISCONNECTED);
    assert_int_equal(eps.post_send(64, cookie(1)),
                     invalid_state(DAT_INVALID_STATE_EP_DISCONNECTED));
    get_fabric().injected.fail_none();
    assert_success(dat().ep_reset_func(eps.active.handle));
    assert_int_equal(eps.active.state(), DAT_EP_STATE_UNCONNECTED);
}

void failed_rmr_bind_leaves_rmr_unbound(void **) {
    connected_eps eps;
    for (const bool ep_scope : {false, true}) {
        DAT_RMR_HANDLE rmr;
        assert_success(ep_scope ? dat().rmr_create_for_ep_func(eps.ia.pz, &rmr)
                                : dat().rmr_create_func(eps.ia.pz, &rmr));
        const DAT_LMR_TRIPLET iov = eps.active_memory.lmr_triplet(0, 64);
        const auto bind = [&] {
            return dat().rmr_bind_func(
                rmr, eps.active_memory.lmr, &iov, DAT_MEM_PRIV_REMOTE_READ_FLAG, DAT_VA_TYPE_VA,
                eps.active.handle, cookie(0), DAT_COMPLETION_DEFAULT_FLAG, nullptr);
        };
        get_fabric().injected.fail(ep_scope ? "ibv_post_send" : "ibv_bind_mw", ENOMEM);
        assert_int_equal(DAT_GET_TYPE(bind()), DAT_INSUFFICIENT_RESOURCES);
        get_fabric().injected.fail_none();
        DAT_RMR_PARAM param = {};
        assert_success(dat().rmr_query_func(rmr, DAT_RMR_FIELD_ALL, &param));
        assert_int_equal(param.rmr_context, 0);
        assert_success(bind());
        wait_event(eps.active.request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
        assert_success(dat().rmr_free_func(rmr));
    }
}

// -- out of memory

/// Each allocation of dat_ia_open fails in turn.
void ia_open_out_of_memory_leaks_nothing(void **) {
    for (const char *ia_name : {"roce", "iwarp"}) {
        unsigned not_reached = 0;
        int num_failed = 0;
        for (unsigned nth = 1; not_reached == 0; ++nth) {
            failing_allocation = nth;
            // It succeeds without the buffer of a sort.
            num_failed += open_fails(
                ia_name, [&] { not_reached = std::exchange(failing_allocation, 0); },
                {no_resources(DAT_RESOURCE_MEMORY), no_resources(DAT_RESOURCE_DEVICE),
                 no_resources(DAT_RESOURCE_ERROR_HANDLER), no_resources(DAT_RESOURCE_TEVD)});
        }
        assert_true(num_failed >= 5);
    }
}

/// The Provider is not added to the registry then.
void provider_init_out_of_memory_adds_nothing(void **) {
    const std::string instance_data(100, 'x'); // too long for a string without an allocation
    const DAT_PROVIDER_INFO info = make_info("no_memory");
    unsigned not_reached = 0;
    unsigned nth = 0;
    while (not_reached == 0) {
        assert_null(find_table(info.ia_name));
        failing_allocation = ++nth;
        dat_provider_init(&info, instance_data.c_str());
        not_reached = std::exchange(failing_allocation, 0);
    }
    assert_true(nth > 2); // the instance and the string
    assert_non_null(find_table(info.ia_name));
    dat_provider_fini(&info);
}

/// The nth allocation of the call fails, which returns the missing resource.
template <class function>
void assert_call_out_of_memory(unsigned nth, const function &call) {
    failing_allocation = nth;
    const DAT_RETURN result = call();
    const unsigned not_reached = std::exchange(failing_allocation, 0);
    assert_int_equal(not_reached, 0);
    assert_int_equal(result, no_resources(DAT_RESOURCE_MEMORY));
}

/// Each allocation of a function that creates an object fails in turn.
void create_out_of_memory_leaks_nothing(void **) {
    ia_fixture ia;
    all_objects objects(ia);
    int num_failed = 0;
    for (const create_case &test : create_cases) {
        const auto objects_before = get_fabric().count_objects();
        unsigned not_reached = 0;
        for (unsigned nth = 1; not_reached == 0; ++nth) {
            created = &created;
            failing_allocation = nth;
            const DAT_RETURN result = test.create(objects);
            not_reached = std::exchange(failing_allocation, 0);
            if (result == DAT_SUCCESS)
                assert_success(test.free());
            else {
                if (DAT_GET_TYPE(result) != DAT_INSUFFICIENT_RESOURCES || not_reached != 0)
                    print_error("%s: allocation %u: %#x\n", test.name, nth, result);
                assert_int_equal(DAT_GET_TYPE(result), DAT_INSUFFICIENT_RESOURCES);
                assert_int_equal(not_reached, 0);
                assert_ptr_equal(created, &created);
                ++num_failed;
            }
            assert_true(get_fabric().count_objects() == objects_before);
        }
    }
    assert_true(num_failed >= 10);
    objects.free();
}

DAT_RETURN request(const ep_fixture &ep, DAT_CONN_QUAL qualifier) {
    socket_address addr = parse_address(ep.ia.address);
    return dat().ep_connect_func(ep.handle, &addr.sa, qualifier, event_timeout_us, 0, nullptr,
                                 DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
}

void connect_out_of_memory_changes_nothing(void **) {
    ia_fixture ia("iwarp");
    ep_fixture active(ia), passive(ia);
    const auto objects_before = get_fabric().count_objects();
    for (const unsigned nth : {1U, 2U}) {
        assert_call_out_of_memory(nth, [&] { return request(active, 7000); });
        assert_int_equal(active.state(), DAT_EP_STATE_UNCONNECTED);
        assert_true(get_fabric().count_objects() == objects_before);
    }
    connect(active, passive);
    disconnect(active, passive);
}

/// The call that ends an attempt of iWARP allocates no memory.
void attempt_ended_out_of_memory(void **) {
    ia_fixture ia("iwarp");
    ep_fixture ep(ia);
    get_fabric().drop_connects = true;
    assert_success(request(ep, 7000));
    failing_allocation = 1;
    const DAT_RETURN result = dat().ep_disconnect_func(ep.handle, DAT_CLOSE_ABRUPT_FLAG);
    failing_allocation = 0;
    assert_success(result);
    wait_event(ep.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}

void ud_connect_and_accept_out_of_memory_change_nothing(void **) {
    ia_fixture ia;
    DAT_EP_ATTR attr = {};
    attr.service_type = static_cast<DAT_SERVICE_TYPE>(DAT_IB_SERVICE_TYPE_UD);
    attr.max_recv_dtos = attr.max_request_dtos = attr.max_recv_iov = attr.max_request_iov = 1;
    ep_fixture active(ia, &attr), passive(ia, &attr);
    DAT_EVD_HANDLE const cr_evd = ia.create_evd(DAT_EVD_CR_FLAG);
    DAT_PSP_HANDLE psp;
    assert_success(dat().psp_create_func(ia.handle, 7000, cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
    const auto objects_before = get_fabric().count_objects();
    assert_call_out_of_memory(1, [&] { return request(active, 7000); });
    assert_true(get_fabric().count_objects() == objects_before);
    assert_success(request(active, 7000));
    DAT_CR_HANDLE const cr = wait_event(cr_evd, DAT_IB_UD_CONNECTION_REQUEST_EVENT)
                                 .event_data.cr_arrival_event_data.cr_handle;
    const auto accept = [&] {
        return dat().cr_accept_func(cr, passive.handle, 0, nullptr);
    };
    assert_call_out_of_memory(1, accept);
    assert_success(accept());
    for (const ep_fixture *ep : {&active, &passive}) {
        const DAT_EVENT event = wait_event(ep->connect_evd, DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED);
        DAT_IB_EXTENSION_EVENT_DATA extension;
        std::memcpy(&extension, event.event_extension_data, sizeof extension);
        assert_success(dat_ib_ud_ah_free(ep->handle, &extension.remote_ah));
    }
    assert_success(dat().psp_free_func(psp));
    assert_success(dat().evd_free_func(cr_evd));
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(failed_create_leaks_nothing),
        TEST(ep_create_without_qp_fails),
        TEST(ep_create_retries_without_inline),
        TEST(failed_ia_open_leaks_nothing),
        TEST(failed_ibv_open_device_fails_ia_open),
        TEST(create_out_of_memory_leaks_nothing),
        TEST(provider_init_out_of_memory_adds_nothing),
        TEST(ia_open_out_of_memory_leaks_nothing),
        TEST(failed_ep_modify_changes_nothing),
        TEST(failed_ep_reset_leaves_ep_disconnected),
        TEST(failed_rmr_bind_leaves_rmr_unbound),
        TEST(connect_out_of_memory_changes_nothing),
        TEST(attempt_ended_out_of_memory),
        TEST(ud_connect_and_accept_out_of_memory_change_nothing),
    };
    return run_cases(tests);
}
