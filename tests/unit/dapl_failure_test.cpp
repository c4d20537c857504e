// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Each call of verbs, of librdmacm, of libcoherdma and of the C library fails in its turn, under
// each function that makes something. It says which resource it was, and leaves nothing: not in
// verbs, and nothing counted as used.

#include "kinds.hpp"
#include "two.hpp"

#include <algorithm>
#include <cerrno>
#include <dat2/dat_ib_extensions.h>

using namespace played;

namespace {

constexpr DAT_RETURN lacks(DAT_UINT32 resource) {
    return error(DAT_INSUFFICIENT_RESOURCES, resource);
}

DAT_HANDLE made;

/// Something that is made, and what is said if a call below it fails for want of memory.
struct making {
    const char *what;
    DAT_RETURN (*make)(const every &all);
    DAT_RETURN (*free)();
    /// By the name of the call; nullptr: of any other.
    std::vector<std::pair<const char *, DAT_RETURN>> said;
};

#define MAKE [](const every &all) -> DAT_RETURN
#define FREE(function)                                                                             \
    []() -> DAT_RETURN {                                                                           \
        return dat().function(made);                                                               \
    }

DAT_RETURN make_ep(const every &all, DAT_EVD_HANDLE receives, DAT_SRQ_HANDLE srq,
                   const DAT_EP_ATTR *attr = nullptr) {
    return srq == DAT_HANDLE_NULL
               ? dat().ep_create_func(all.on.ia, all.on.pz, receives, all.idle.requests,
                                      all.idle.connections, attr, &made)
               : dat().ep_create_with_srq_func(all.on.ia, all.on.pz, receives, all.idle.requests,
                                               all.idle.connections, srq, attr, &made);
}

const making all_makings[] = {{"PZ", MAKE{return dat().pz_create_func(all.on.ia, &made);
} // namespace
, FREE(pz_free_func), {
    { "ibv_alloc_pd", lacks(DAT_RESOURCE_PROTECTION_DOMAIN) }
}
}
, {"LMR", MAKE{DAT_REGION_DESCRIPTION where = {};
where.for_va = const_cast<unsigned char *>(all.area.bytes.data());
return dat().lmr_create_func(all.on.ia, DAT_MEM_TYPE_VIRTUAL, where, 64, all.on.pz,
                             DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &made, nullptr, nullptr,
                             nullptr, nullptr);
}
, FREE(lmr_free_func), {
    { "ibv_reg_mr", lacks(DAT_RESOURCE_MEMORY) }
}
}
, {"RMR", MAKE{return dat().rmr_create_func(all.on.pz, &made);
}
, FREE(rmr_free_func), {
    { "ibv_alloc_mw", lacks(DAT_RESOURCE_MEMORY_REGION) }
}
}
, {"RMR of an EP", MAKE{return dat().rmr_create_for_ep_func(all.on.pz, &made);
}
, FREE(rmr_free_func), {
    { "ibv_alloc_mw", lacks(DAT_RESOURCE_MEMORY_REGION) }
}
}
, {"EVD", MAKE{return dat().evd_create_func(all.on.ia, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &made);
}
, FREE(evd_free_func), {
    {"ibv_create_comp_channel", lacks(DAT_RESOURCE_TEVD)}, {
        "ibv_create_cq", lacks(DAT_RESOURCE_TEVD)
    }
}
}
, {"EVD with a CNO", MAKE{return dat().evd_create_func(
                         all.on.ia, 8, all.living(DAT_HANDLE_TYPE_CNO), DAT_EVD_DTO_FLAG, &made);
}
, FREE(evd_free_func), {
    {"ibv_create_comp_channel", lacks(DAT_RESOURCE_TEVD)},
        {"ibv_create_cq", lacks(DAT_RESOURCE_TEVD)},
        {"ibv_poll_cq", DAT_SUCCESS}, // there is nothing in it
    {
        "ibv_req_notify_cq", lacks(DAT_RESOURCE_TEVD)
    }
}
}
, {"SRQ", MAKE{DAT_SRQ_ATTR attr = {};
attr.max_recv_dtos = attr.max_recv_iov = 1;
return dat().srq_create_func(all.on.ia, all.on.pz, &attr, &made);
}
, FREE(srq_free_func), {
    { "ibv_create_srq", lacks(DAT_RESOURCE_SRQ) }
}
}
, {"SRQ with a mark", MAKE{DAT_SRQ_ATTR attr = {};
attr.max_recv_dtos = 4;
attr.max_recv_iov = attr.low_watermark = 1;
return dat().srq_create_func(all.on.ia, all.on.pz, &attr, &made);
}
, FREE(srq_free_func), {
    {"ibv_create_srq", lacks(DAT_RESOURCE_SRQ)}, {
        "ibv_modify_srq", lacks(DAT_RESOURCE_SRQ)
    }
}
}
, {"EP", MAKE{return make_ep(all, all.idle.receives, DAT_HANDLE_NULL);
}
, FREE(ep_free_func), {
    {"ibv_create_qp", DAT_SUCCESS}, // it is tried again, without room for inline data
    {
        "ibv_modify_qp", lacks(DAT_RESOURCE_TEP)
    }
}
}
, {"EP without receives", MAKE{return make_ep(all, DAT_HANDLE_NULL, DAT_HANDLE_NULL);
}
, FREE(ep_free_func), {
    {"ibv_create_cq", lacks(DAT_RESOURCE_TEVD)}, {"ibv_create_qp", DAT_SUCCESS}, {
        "ibv_modify_qp", lacks(DAT_RESOURCE_TEP)
    }
}
}
, {"EP with an SRQ", MAKE{return make_ep(all, all.idle.receives, all.srq);
}
, FREE(ep_free_func), {
    {"ibv_create_qp", DAT_SUCCESS}, {
        "ibv_modify_qp", lacks(DAT_RESOURCE_TEP)
    }
}
}
, {"EP for datagrams", MAKE{DAT_EP_ATTR attr = {};
attr.service_type = static_cast<DAT_SERVICE_TYPE>(DAT_IB_SERVICE_TYPE_UD);
attr.max_recv_dtos = attr.max_request_dtos = 1;
attr.max_recv_iov = attr.max_request_iov = 1;
return make_ep(all, all.idle.receives, DAT_HANDLE_NULL, &attr);
}
, FREE(ep_free_func), {
    {"ibv_create_qp", DAT_SUCCESS}, {
        "ibv_modify_qp", lacks(DAT_RESOURCE_TEP)
    }
}
}
, {"PSP", MAKE{return dat().psp_create_func(all.on.ia, 7000, all.cr, DAT_PSP_CONSUMER_FLAG, &made);
}
, FREE(psp_free_func), {
    {"rdma_create_id", lacks(DAT_RESOURCE_TEP)}, {"rdma_set_option", DAT_SUCCESS},
        {"rdma_bind_addr", lacks(DAT_RESOURCE_TEP)}, {
        "rdma_listen", lacks(DAT_RESOURCE_TEP)
    }
}
}
, {"RSP", MAKE{return dat().rsp_create_func(all.on.ia, 7000, all.idle.ep, all.cr, &made);
}
, FREE(rsp_free_func), {
    {"rdma_create_id", lacks(DAT_RESOURCE_TEP)}, {"rdma_set_option", DAT_SUCCESS},
        {"rdma_bind_addr", lacks(DAT_RESOURCE_TEP)}, {
        "rdma_listen", lacks(DAT_RESOURCE_TEP)
    }
}
}
, {"CSP", MAKE{DAT_COMM comm = {AF_INET, SOCK_STREAM, IPPROTO_TCP};
place here = at("192.0.2.1", 7000);
return dat().csp_create_func(all.on.ia, &comm, &here.any, all.cr, &made);
}
, FREE(csp_free_func), {
    {"rdma_create_id", lacks(DAT_RESOURCE_TEP)}, {"rdma_set_option", DAT_SUCCESS},
        {"rdma_bind_addr", lacks(DAT_RESOURCE_TEP)}, {
        "rdma_listen", lacks(DAT_RESOURCE_TEP)
    }
}
}
,
}
;

/// What has to be said if the nth call of all fails with this.
DAT_RETURN expected_of(const making &one, const std::string &failed) {
    for (const auto &[call, result] : one.said)
        if (failed == call)
            return result;
    print_error("%s: %s is unexpected\n", one.what, failed.c_str());
    return DAT_NOT_IMPLEMENTED;
}

void each_call_below_each_making_fails(void **) {
    adapter on;
    every all(on);
    for (const making &each : all_makings) {
        net().wrong.fail_nth(0, 0); // they are counted
        done(each.make(all));
        const unsigned calls = net().wrong.count();
        net().wrong.stop();
        done(each.free());
        assert_true(calls >= each.said.size());
        const auto before = net().living();
        for (unsigned nth = 1; nth <= calls; ++nth) {
            made = &made;
            net().wrong.fail_nth(nth, ENOMEM);
            const DAT_RETURN result = each.make(all);
            const std::string failed = net().wrong.failed();
            net().wrong.stop();
            const DAT_RETURN expected = expected_of(each, failed);
            if (result != expected)
                print_error("%s: %s: %#x, not %#x\n", each.what, failed.c_str(), result, expected);
            assert_int_equal(result, expected);
            if (result == DAT_SUCCESS)
                done(each.free());
            else
                assert_ptr_equal(made, &made);
            assert_true(net().living() == before);
        }
    }
    all.free(); // Nothing counts as used.
    close(on);
}

void an_endpoint_needs_a_pair(void **) {
    adapter on;
    every all(on);
    net().wrong.fail_always("ibv_create_qp", ENOMEM);
    assert_int_equal(make_ep(all, all.idle.receives, DAT_HANDLE_NULL), lacks(DAT_RESOURCE_TEP));
    net().wrong.stop();
    all.free();
    close(on);
}

void without_inline_data_there_are_pairs_still(void **) {
    adapter on;
    net().wrong.fail("ibv_create_qp", ENOMEM);
    end one(on);
    net().wrong.stop();
    end other(on);
    memory area(on);
    connect(one, other);
    DAT_LMR_TRIPLET part = area.part(0, 1);
    for (const end *each : {&one, &other}) {
        done(dat().ep_post_send_func(each->ep, 1, &part, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
        assert_int_equal((net().heard.back().wr.send_flags & IBV_SEND_INLINE) != 0, each == &other);
    }
    disconnect(one, other);
    one.free();
    other.free();
    area.free();
    close(on);
}

/// How an IA opens: after a failure there is nothing, and it opens again.
void each_call_below_an_ia_fails(void **) {
    for (const char *name : {"ib", "iw"}) {
        const auto open = [name](DAT_IA_HANDLE &ia) {
            std::string copy = name;
            DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
            return table_of(name)->ia_open_func(copy.data(), 8, &async, &ia);
        };
        DAT_IA_HANDLE ia;
        net().wrong.fail_nth(0, 0);
        done(open(ia));
        const unsigned calls = net().wrong.count();
        net().wrong.stop();
        done(dat().ia_close_func(ia, DAT_CLOSE_GRACEFUL_FLAG));
        int refused = 0;
        for (unsigned nth = 1; nth <= calls; ++nth) {
            ia = &ia;
            net().wrong.fail_nth(nth, ENOMEM);
            const DAT_RETURN result = open(ia);
            net().wrong.stop();
            const DAT_RETURN words[] = {
                DAT_SUCCESS, // it was of no importance: a GID, or an address among others
                error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED), error(DAT_INTERNAL_ERROR),
                lacks(DAT_RESOURCE_DEVICE)};
            assert_true(std::find(std::begin(words), std::end(words), result) != std::end(words));
            if (result == DAT_SUCCESS)
                done(dat().ia_close_func(ia, DAT_CLOSE_GRACEFUL_FLAG));
            else {
                assert_ptr_equal(ia, &ia);
                ++refused;
            }
            assert_int_equal(net().all_living(), 0);
        }
        assert_true(refused >= 5);
    }
}

void a_refused_change_leaves_the_endpoint(void **) {
    two_ends all;
    end one(all.on);
    DAT_EP_PARAM param = {};
    param.ep_attr.max_recv_dtos = 100;
    param.pz_handle = all.on.zone();
    const DAT_EP_PARAM_MASK mask = DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS | DAT_EP_FIELD_PZ_HANDLE;
    for (unsigned nth = 1; nth != 3; ++nth) {
        // Of the pair the second attempt, without inline data, is the last.
        net().wrong.fail("ibv_modify_qp", ENOMEM);
        assert_int_equal(dat().ep_modify_func(one.ep, mask, &param), lacks(DAT_RESOURCE_TEP));
        net().wrong.stop();
        DAT_EP_PARAM is = {};
        done(dat().ep_query_func(one.ep, DAT_EP_FIELD_ALL, &is));
        assert_int_equal(is.ep_attr.max_recv_dtos, 16);
        assert_ptr_equal(is.pz_handle, all.on.pz);
    }
    done(dat().pz_free_func(param.pz_handle));
    DAT_LMR_TRIPLET part = all.here.part(0, 64); // it still takes receives
    done(dat().ep_post_recv_func(one.ep, 1, &part, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
    one.free();
    all.free();
}

void a_refused_reset_leaves_it_disconnected(void **) {
    two_ends all;
    disconnect(all.one, all.other);
    net().wrong.fail_always("ibv_create_qp", ENOMEM);
    assert_int_equal(dat().ep_reset_func(all.one.ep), lacks(DAT_RESOURCE_TEP));
    assert_int_equal(all.one.state(), DAT_EP_STATE_DISCONNECTED);
    assert_int_equal(all.send(64, 1), wrong_state(DAT_INVALID_STATE_EP_DISCONNECTED));
    net().wrong.stop();
    done(dat().ep_reset_func(all.one.ep));
    assert_int_equal(all.one.state(), DAT_EP_STATE_UNCONNECTED);
    all.free();
}

void a_refused_bind_leaves_the_window(void **) {
    two_ends all;
    for (const bool of_endpoint : {false, true}) {
        DAT_RMR_HANDLE rmr;
        done(of_endpoint ? dat().rmr_create_for_ep_func(all.on.pz, &rmr)
                         : dat().rmr_create_func(all.on.pz, &rmr));
        const DAT_LMR_TRIPLET part = all.here.part(0, 64);
        const auto bind = [&] {
            return dat().rmr_bind_func(rmr, all.here.lmr, &part, DAT_MEM_PRIV_REMOTE_READ_FLAG,
                                       DAT_VA_TYPE_VA, all.one.ep, cookie(0),
                                       DAT_COMPLETION_DEFAULT_FLAG, nullptr);
        };
        net().wrong.fail(of_endpoint ? "ibv_post_send" : "ibv_bind_mw", ENOMEM);
        assert_int_equal(DAT_GET_TYPE(bind()), DAT_INSUFFICIENT_RESOURCES);
        net().wrong.stop();
        DAT_RMR_PARAM is = {};
        done(dat().rmr_query_func(rmr, DAT_RMR_FIELD_ALL, &is));
        assert_int_equal(is.rmr_context, 0);
        done(bind());
        next(all.one.requests, DAT_RMR_BIND_COMPLETION_EVENT);
        done(dat().rmr_free_func(rmr));
    }
    all.free();
}

} // namespace

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)

int main() {
    register_names();
    const CMUnitTest tests[] = {
        TEST(each_call_below_each_making_fails),
        TEST(an_endpoint_needs_a_pair),
        TEST(without_inline_data_there_are_pairs_still),
        TEST(each_call_below_an_ia_fails),
        TEST(a_refused_change_leaves_the_endpoint),
        TEST(a_refused_reset_leaves_it_disconnected),
        TEST(a_refused_bind_leaves_the_window),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
