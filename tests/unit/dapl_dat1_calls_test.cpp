// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Each function of DAT 1.2's table: with what is no handle of its kind, and with good arguments.

#include "dat1.hpp"

#include <array>

using namespace played;
namespace dat1 = by1::dat1;

namespace {

constexpr DAT_COMPLETION_FLAGS plain = DAT_COMPLETION_DEFAULT_FLAG;

void the_table_is_full(void **) {
    const dat1::provider &all = by1::dat();
    assert_string_equal(all.device_name, "ib");
    assert_non_null(all.extension); // atomic writes and flushes
    std::array<void *, sizeof all / sizeof(void *)> words;
    std::memcpy(&words, &all, sizeof all);
    int missing = 0;
    for (std::size_t at = 2; at != words.size(); ++at)
        if (words[at] == nullptr)
            ++missing, print_error("no function at offset %zu\n", at * sizeof(void *));
    assert_int_equal(missing, 0);
}

/// Called with this handle, and with nothing else: the handle is looked at first.
template <class... more>
DAT_RETURN with(DAT_HANDLE handle, DAT_RETURN (*function)(DAT_HANDLE, more...)) {
    return function(handle, more{}...);
}

void what_is_no_handle_is_named_first(void **) {
    by1::adapter on;
    DAT_CNO_HANDLE other = DAT_HANDLE_NULL; // an object, but of another kind than all of these
    done(by1::dat().cno_create_func(on.ia, {nullptr, nullptr}, &other));
    const dat1::provider &all = by1::dat();
    const auto refuse = [](DAT_HANDLE handle, DAT_UINT32 which, auto... functions) {
        int nth = 0;
        const auto one = [&](DAT_RETURN result) {
            ++nth;
            if (result != no_handle(which))
                print_error("of those of subtype %u, number %d\n", which, nth);
            assert_int_equal(result, no_handle(which));
        };
        (one(with(handle, functions)), ...);
    };
    refuse(other, DAT_INVALID_HANDLE_IA, all.ia_query_func, all.ia_close_func, all.cno_create_func,
           all.evd_create_func, all.ep_create_func, all.ep_create_with_srq_func,
           all.lmr_create_func, all.psp_create_func, all.psp_create_any_func, all.rsp_create_func,
           all.pz_create_func, all.lmr_sync_rdma_read_func, all.lmr_sync_rdma_write_func,
           all.srq_create_func);
    refuse(other, DAT_INVALID_HANDLE_EP, all.ep_query_func, all.ep_modify_func, all.ep_connect_func,
           all.ep_dup_connect_func, all.ep_disconnect_func, all.ep_post_send_func,
           all.ep_post_recv_func, all.ep_post_rdma_read_func, all.ep_post_rdma_write_func,
           all.ep_get_status_func, all.ep_free_func, all.ep_reset_func, all.ep_recv_query_func,
           all.ep_set_watermark_func);
    refuse(other, DAT_INVALID_HANDLE_EVD_REQUEST, all.evd_query_func, all.evd_modify_cno_func,
           all.evd_enable_func, all.evd_disable_func, all.evd_wait_func, all.evd_resize_func,
           all.evd_post_se_func, all.evd_dequeue_func, all.evd_free_func,
           all.evd_set_unwaitable_func, all.evd_clear_unwaitable_func);
    refuse(other, DAT_INVALID_HANDLE_LMR, all.lmr_query_func, all.lmr_free_func);
    refuse(other, DAT_INVALID_HANDLE_RMR, all.rmr_query_func, all.rmr_bind_func, all.rmr_free_func);
    refuse(other, DAT_INVALID_HANDLE_PZ, all.pz_query_func, all.pz_free_func, all.rmr_create_func);
    refuse(other, DAT_INVALID_HANDLE_PSP, all.psp_query_func, all.psp_free_func);
    refuse(other, DAT_INVALID_HANDLE_RSP, all.rsp_query_func, all.rsp_free_func);
    refuse(other, DAT_INVALID_HANDLE_CR, all.cr_query_func, all.cr_accept_func, all.cr_reject_func,
           all.cr_handoff_func);
    refuse(other, DAT_INVALID_HANDLE_SRQ, all.srq_free_func, all.srq_post_recv_func,
           all.srq_query_func, all.srq_resize_func, all.srq_set_lw_func);
    refuse(on.pz, DAT_INVALID_HANDLE_CNO, all.cno_modify_agent_func, all.cno_query_func,
           all.cno_free_func, all.cno_wait_func);
    done(by1::dat().cno_free_func(other));
    on.close();
}

// Of the three that take any kind, none is this: the first that has moved.
void no_handle_at_all(void **) {
    by1::adapter on;
    alignas(64) static const struct {
        const dat1::provider *provider;
        std::array<std::uintptr_t, 7> more;
    } nothing = {&by1::dat(), {}};
    auto *const handle = const_cast<void *>(static_cast<const void *>(&nothing));
    DAT_CONTEXT context = {};
    DAT_HANDLE_TYPE kind;
    constexpr DAT_RETURN handle1 = error(DAT_INVALID_HANDLE, 26);
    assert_int_equal(by1::dat().set_consumer_context_func(handle, context), handle1);
    assert_int_equal(by1::dat().get_consumer_context_func(handle, &context), handle1);
    assert_int_equal(by1::dat().get_handle_type_func(handle, &kind), handle1);
    on.close();
}

void an_ia_opens_and_closes(void **) {
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    char name[] = "ib", unknown[] = "of nobody";
    const auto open = by1::dat().ia_open_func;
    assert_int_equal(open(nullptr, 8, &async, &ia, DAT_FALSE), by1::wrong_argument(1));
    assert_int_equal(open(name, 0, &async, &ia, DAT_FALSE), by1::wrong_argument(2));
    assert_int_equal(open(name, 8, nullptr, &ia, DAT_FALSE), by1::wrong_argument(3));
    assert_int_equal(open(name, 8, &async, nullptr, DAT_FALSE), by1::wrong_argument(4));
    assert_int_equal(open(unknown, 8, &async, &ia, DAT_FALSE),
                     error(DAT_PROVIDER_NOT_FOUND, 98)); // NAME_NOT_REGISTERED
    done(open(name, 8, &async, &ia, DAT_FALSE));
    assert_ptr_equal(*static_cast<const void **>(ia), &by1::dat());
    assert_ptr_equal(*static_cast<const void **>(async), &by1::dat());
    DAT_HANDLE_TYPE kind;
    done(by1::dat().get_handle_type_func(ia, &kind));
    assert_int_equal(kind, DAT_HANDLE_TYPE_IA);
    DAT_PZ_HANDLE pz;
    done(by1::dat().pz_create_func(ia, &pz));
    assert_int_equal(by1::dat().ia_close_func(ia, DAT_CLOSE_GRACEFUL_FLAG),
                     by1::wrong_state(DAT_INVALID_STATE_IA_IN_USE));
    done(by1::dat().ia_close_func(ia, DAT_CLOSE_ABRUPT_FLAG));
}

void contexts_are_kept(void **) {
    by1::adapter on;
    DAT_CONTEXT context = {}, kept = {};
    context.as_64 = 0x123456789abcdef0;
    done(by1::dat().set_consumer_context_func(on.pz, context));
    done(by1::dat().get_consumer_context_func(on.pz, &kept));
    assert_int_equal(kept.as_64, context.as_64);
    DAT_PZ_PARAM param = {};
    done(by1::dat().pz_query_func(on.pz, DAT_PZ_FIELD_ALL, &param));
    assert_ptr_equal(known_providers().numbers.at(0), on.ia); // what it has for it is the number 1
    assert_int_equal(reinterpret_cast<std::uintptr_t>(param.ia_handle), 1);
    on.close();
}

void called(DAT_PVOID, DAT_EVD_HANDLE) {}

void a_cno_wakes(void **) {
    by1::adapter on;
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    const DAT_OS_WAIT_PROXY_AGENT agent = {&cno, called};
    done(by1::dat().cno_create_func(on.ia, {nullptr, nullptr}, &cno));
    dat1::cno_param param;
    std::memset(&param, 0xa5, sizeof param);
    const auto all = static_cast<DAT_CNO_PARAM_MASK>(3),
               agents = static_cast<DAT_CNO_PARAM_MASK>(2);
    done(by1::dat().cno_query_func(cno, all, &param));
    assert_null(param.agent.proxy_agent_func);
    assert_null(param.agent.instance_data);
    done(by1::dat().cno_modify_agent_func(cno, agent));
    done(by1::dat().cno_query_func(cno, agents, &param));
    assert_ptr_equal(param.agent.proxy_agent_func, called);
    assert_ptr_equal(param.agent.instance_data, &cno);
    assert_int_equal(by1::dat().cno_query_func(cno, static_cast<DAT_CNO_PARAM_MASK>(4), &param),
                     by1::wrong_argument(2)); // 2.0's ALL
    assert_int_equal(by1::dat().cno_query_func(cno, all, nullptr), by1::wrong_argument(3));
    done(by1::dat().cno_modify_agent_func(cno, {nullptr, nullptr}));

    DAT_EVD_HANDLE const evd = on.evd(DAT_EVD_SOFTWARE_FLAG);
    done(by1::dat().evd_modify_cno_func(evd, cno));
    assert_int_equal(by1::dat().cno_free_func(cno), by1::wrong_state(DAT_INVALID_STATE_CNO_IN_USE));
    dat1::event event = {};
    event.event_number = DAT_SOFTWARE_EVENT;
    event.event_data.software_event_data.pointer = &event;
    done(by1::dat().evd_post_se_func(evd, &event));
    DAT_EVD_HANDLE woken = DAT_HANDLE_NULL;
    done(by1::dat().cno_wait_func(cno, soon, &woken));
    assert_ptr_equal(woken, evd);
    const dat1::event got = by1::taken(evd, DAT_SOFTWARE_EVENT);
    assert_ptr_equal(got.event_data.software_event_data.pointer, &event);
    assert_int_equal(by1::dat().cno_wait_func(cno, 0, &woken), error(DAT_QUEUE_EMPTY));
    done(by1::dat().evd_modify_cno_func(evd, DAT_HANDLE_NULL));
    done(by1::dat().evd_free_func(evd));
    done(by1::dat().cno_free_func(cno));
    on.close();
}

void an_evd_is_asked_and_told(void **) {
    by1::adapter on;
    DAT_EVD_HANDLE const evd = on.evd(DAT_EVD_SOFTWARE_FLAG);
    dat1::event event = {};
    DAT_COUNT more = 0;
    assert_int_equal(by1::dat().evd_dequeue_func(evd, &event), error(DAT_QUEUE_EMPTY));
    assert_int_equal(by1::dat().evd_dequeue_func(evd, nullptr), by1::wrong_argument(2));
    assert_int_equal(by1::dat().evd_wait_func(evd, 0, 0, &event, &more), by1::wrong_argument(3));
    assert_int_equal(by1::dat().evd_wait_func(evd, 0, 1, nullptr, &more), by1::wrong_argument(4));
    assert_int_equal(by1::dat().evd_wait_func(evd, 0, 1, &event, nullptr), by1::wrong_argument(5));
    assert_int_equal(by1::dat().evd_post_se_func(evd, nullptr), by1::wrong_argument(2));
    event.event_number = DAT_DTO_COMPLETION_EVENT;
    assert_int_equal(by1::dat().evd_post_se_func(evd, &event), by1::wrong_argument(2));
    done(by1::dat().evd_set_unwaitable_func(evd));
    assert_int_equal(by1::dat().evd_wait_func(evd, 0, 1, &event, &more),
                     by1::wrong_state(DAT_INVALID_STATE_EVD_UNWAITABLE));
    done(by1::dat().evd_clear_unwaitable_func(evd));
    done(by1::dat().evd_disable_func(evd));
    DAT_EVD_PARAM param = {};
    done(by1::dat().evd_query_func(evd, DAT_EVD_FIELD_ALL, &param));
    assert_int_equal(param.evd_flags, DAT_EVD_SOFTWARE_FLAG);
    assert_true(param.evd_state & DAT_EVD_STATE_DISABLED);
    done(by1::dat().evd_enable_func(evd));
    done(by1::dat().evd_resize_func(evd, 100));
    done(by1::dat().evd_query_func(evd, DAT_EVD_FIELD_ALL, &param));
    assert_true(param.evd_qlen >= 100);
    done(by1::dat().evd_free_func(evd));
    on.close();
}

void an_ep_is_told_what_to_do(void **) {
    by1::adapter on;
    by1::end one(on), other(on);
    DAT_EP_STATE state;
    DAT_BOOLEAN idle, idle_too;
    done(by1::dat().ep_get_status_func(one.ep, &state, &idle, &idle_too));
    assert_int_equal(state, DAT_EP_STATE_UNCONNECTED);
    assert_int_equal(by1::dat().ep_disconnect_func(one.ep, DAT_CLOSE_ABRUPT_FLAG),
                     by1::wrong_state(DAT_INVALID_STATE_EP_UNCONNECTED));
    assert_int_equal(
        by1::dat().ep_dup_connect_func(one.ep, other.ep, soon, 0, nullptr, DAT_QOS_BEST_EFFORT),
        played::dat().ep_dup_connect_func(one.ep, other.ep, soon, 0, nullptr,
                                          DAT_QOS_BEST_EFFORT) -
            1); // a state, and one less
    done(by1::dat().ep_reset_func(one.ep));
    DAT_COUNT allocated = -1, span = -1;
    done(by1::dat().ep_recv_query_func(one.ep, &allocated, &span));
    assert_int_equal(allocated, 0);
    assert_int_equal(by1::dat().ep_set_watermark_func(one.ep, 1, 2),
                     by1::wrong_state(DAT_INVALID_STATE_EP_RECV_WATERMARK)); // it has no SRQ
    one.free();
    other.free();
    on.close();
}

void service_points_and_requests(void **) {
    by1::adapter on;
    DAT_EVD_HANDLE const requests = on.evd(DAT_EVD_CR_FLAG);
    by1::end reserved(on);
    DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
    done(by1::dat().rsp_create_func(on.ia, 5001, reserved.ep, requests, &rsp));
    DAT_RSP_PARAM param = {};
    done(by1::dat().rsp_query_func(rsp, DAT_RSP_FIELD_ALL, &param));
    assert_int_equal(param.conn_qual, 5001);
    assert_ptr_equal(param.ep_handle, reserved.ep);
    DAT_CONN_QUAL any = 0;
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL, again = DAT_HANDLE_NULL;
    done(by1::dat().psp_create_any_func(on.ia, &any, requests, DAT_PSP_CONSUMER_FLAG, &psp));
    assert_int_equal(
        by1::dat().psp_create_func(on.ia, any, requests, DAT_PSP_CONSUMER_FLAG, &again),
        error(DAT_CONN_QUAL_IN_USE));
    by1::end asks(on);
    place to = at(on.address);
    done(by1::dat().ep_connect_func(asks.ep, &to.any, any, soon, 3, const_cast<char *>("abc"),
                                    DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
    const dat1::event event = by1::next(requests, DAT_CONNECTION_REQUEST_EVENT);
    DAT_CR_HANDLE const request = event.event_data.cr_arrival_event_data.cr_handle;
    DAT_CR_PARAM asked = {};
    done(by1::dat().cr_query_func(request, DAT_CR_FIELD_ALL, &asked));
    assert_memory_equal(asked.private_data, "abc", 3);
    assert_int_equal(by1::dat().cr_handoff_func(request, 7000), by1::wrong_argument(2));
    done(by1::dat().cr_reject_func(request));
    by1::next(asks.connections, DAT_CONNECTION_EVENT_PEER_REJECTED);
    done(by1::dat().psp_free_func(psp));
    done(by1::dat().rsp_free_func(rsp));
    asks.free();
    reserved.free();
    done(by1::dat().evd_free_func(requests));
    on.close();
}

void an_srq_has_the_states_of_1_2(void **) {
    by1::adapter on;
    by1::memory area(on);
    DAT_SRQ_ATTR attr = {16, 2, 0};
    DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
    assert_int_equal(by1::dat().srq_create_func(on.ia, on.pz, nullptr, &srq),
                     by1::wrong_argument(3));
    done(by1::dat().srq_create_func(on.ia, on.pz, &attr, &srq));
    dat1::lmr_triplet parts[] = {area.part(0, 64), area.part(64, 64)};
    done(by1::dat().srq_post_recv_func(srq, 2, parts, cookie(1)));
    assert_int_equal(net().heard.back().list[1].addr, area.begin + 64);
    parts[1].segment_length = UINT64_C(1) << 32;
    assert_int_equal(by1::dat().srq_post_recv_func(srq, 2, parts, cookie(1)),
                     error(DAT_LENGTH_ERROR));
    assert_int_equal(by1::dat().srq_post_recv_func(srq, 3, parts, cookie(1)),
                     by1::wrong_argument(2));
    assert_int_equal(by1::dat().srq_post_recv_func(srq, 1, nullptr, cookie(1)),
                     by1::wrong_argument(3));
    done(by1::dat().srq_resize_func(srq, 20));
    done(by1::dat().srq_set_lw_func(srq, 1));
    DAT_SRQ_PARAM param = {};
    done(by1::dat().srq_query_func(srq, DAT_SRQ_FIELD_ALL, &param));
    assert_int_equal(param.srq_state, 0); // OPERATIONAL
    assert_int_equal(param.low_watermark, 1);
    assert_int_equal(param.outstanding_dto_count, 1);
    assert_int_equal(by1::dat().srq_query_func(srq, DAT_SRQ_FIELD_ALL, nullptr),
                     by1::wrong_argument(3));

    DAT_EVD_HANDLE const evd = on.evd(DAT_EVD_DTO_FLAG),
                         connections = on.evd(DAT_EVD_CONNECTION_FLAG);
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    dat1::ep_attr wanted = {};
    wanted.max_request_dtos = 4;
    wanted.max_request_iov = 1;
    wanted.max_rdma_size = UINT64_C(1) << 32;
    const auto create = [&] {
        return by1::dat().ep_create_with_srq_func(on.ia, on.pz, evd, evd, connections, srq, &wanted,
                                                  &ep);
    };
    assert_int_equal(create(), by1::wrong_argument(7));
    wanted.max_rdma_size = 4096;
    done(create());
    assert_int_equal(by1::dat().srq_free_func(srq), by1::wrong_state(DAT_INVALID_STATE_SRQ_IN_USE));
    assert_int_equal(by1::dat().ep_post_recv_func(ep, 1, parts, cookie(1), plain),
                     by1::wrong_state(DAT_INVALID_STATE_SRQ_IN_USE));
    done(by1::dat().ep_free_func(ep));
    done(by1::dat().evd_free_func(evd));
    done(by1::dat().evd_free_func(connections));
    done(by1::dat().srq_free_func(srq));
    area.free();
    on.close();
}

} // namespace

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)

int main() {
    by1::register_names();
    const CMUnitTest tests[] = {
        TEST(the_table_is_full),
        TEST(what_is_no_handle_is_named_first),
        TEST(no_handle_at_all),
        TEST(an_ia_opens_and_closes),
        TEST(contexts_are_kept),
        TEST(a_cno_wakes),
        TEST(an_evd_is_asked_and_told),
        TEST(an_ep_is_told_what_to_do),
        TEST(service_points_and_requests),
        TEST(an_srq_has_the_states_of_1_2),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
