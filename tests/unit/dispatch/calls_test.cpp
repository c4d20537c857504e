// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Each function of the DAT 1.2 table: rejects wrong handles, and works with valid arguments.

#include "dat1.hpp"

#include <array>

using namespace fake;
namespace dat1 = dat1_test::dat1;

namespace {

constexpr DAT_COMPLETION_FLAGS default_flags = DAT_COMPLETION_DEFAULT_FLAG;

// Every pointer of the DAT 1.2 table is set; its first two members are no functions.
void dat1_table_has_all_functions(void **) {
    const dat1::provider &table = dat1_test::dat();
    assert_string_equal(table.device_name, "roce");
    assert_non_null(table.extension); // atomic writes and flushes
    std::array<void *, sizeof table / sizeof(void *)> pointers;
    std::memcpy(&pointers, &table, sizeof table);
    int missing = 0;
    constexpr std::size_t first_function = 2; // after device_name and extension
    for (std::size_t i = first_function; i != pointers.size(); ++i)
        if (pointers[i] == nullptr)
            ++missing, print_error("no function at offset %zu\n", i * sizeof(void *));
    assert_int_equal(missing, 0);
}

/// Call the function with this handle and zeroes, to show that it checks the handle first.
template <class... more>
DAT_RETURN call_with_handle(DAT_HANDLE handle, DAT_RETURN (*function)(DAT_HANDLE, more...)) {
    return function(handle, more{}...);
}

void dat1_calls_reject_wrong_handles_first(void **) {
    dat1_test::ia_fixture ia;
    DAT_CNO_HANDLE wrong_handle = DAT_HANDLE_NULL; // of none of the types below
    assert_success(dat1_test::dat().cno_create_func(ia.handle, {nullptr, nullptr}, &wrong_handle));
    const dat1::provider &table = dat1_test::dat();
    const auto assert_rejected = [](DAT_HANDLE handle, DAT_UINT32 subtype, auto... functions) {
        int nth = 0;
        const auto check = [&](DAT_RETURN result) {
            ++nth;
            if (result != invalid_handle(subtype))
                print_error("subtype %u, function %d\n", subtype, nth);
            assert_int_equal(result, invalid_handle(subtype));
        };
        (check(call_with_handle(handle, functions)), ...);
    };
    assert_rejected(wrong_handle, DAT_INVALID_HANDLE_IA, table.ia_query_func, table.ia_close_func,
                    table.cno_create_func, table.evd_create_func, table.ep_create_func,
                    table.ep_create_with_srq_func, table.lmr_create_func, table.psp_create_func,
                    table.psp_create_any_func, table.rsp_create_func, table.pz_create_func,
                    table.lmr_sync_rdma_read_func, table.lmr_sync_rdma_write_func,
                    table.srq_create_func);
    assert_rejected(wrong_handle, DAT_INVALID_HANDLE_EP, table.ep_query_func, table.ep_modify_func,
                    table.ep_connect_func, table.ep_dup_connect_func, table.ep_disconnect_func,
                    table.ep_post_send_func, table.ep_post_recv_func, table.ep_post_rdma_read_func,
                    table.ep_post_rdma_write_func, table.ep_get_status_func, table.ep_free_func,
                    table.ep_reset_func, table.ep_recv_query_func, table.ep_set_watermark_func);
    assert_rejected(wrong_handle, DAT_INVALID_HANDLE_EVD_REQUEST, table.evd_query_func,
                    table.evd_modify_cno_func, table.evd_enable_func, table.evd_disable_func,
                    table.evd_wait_func, table.evd_resize_func, table.evd_post_se_func,
                    table.evd_dequeue_func, table.evd_free_func, table.evd_set_unwaitable_func,
                    table.evd_clear_unwaitable_func);
    assert_rejected(wrong_handle, DAT_INVALID_HANDLE_LMR, table.lmr_query_func,
                    table.lmr_free_func);
    assert_rejected(wrong_handle, DAT_INVALID_HANDLE_RMR, table.rmr_query_func, table.rmr_bind_func,
                    table.rmr_free_func);
    assert_rejected(wrong_handle, DAT_INVALID_HANDLE_PZ, table.pz_query_func, table.pz_free_func,
                    table.rmr_create_func);
    assert_rejected(wrong_handle, DAT_INVALID_HANDLE_PSP, table.psp_query_func,
                    table.psp_free_func);
    assert_rejected(wrong_handle, DAT_INVALID_HANDLE_RSP, table.rsp_query_func,
                    table.rsp_free_func);
    assert_rejected(wrong_handle, DAT_INVALID_HANDLE_CR, table.cr_query_func, table.cr_accept_func,
                    table.cr_reject_func, table.cr_handoff_func);
    assert_rejected(wrong_handle, DAT_INVALID_HANDLE_SRQ, table.srq_free_func,
                    table.srq_post_recv_func, table.srq_query_func, table.srq_resize_func,
                    table.srq_set_lw_func);
    assert_rejected(ia.pz, DAT_INVALID_HANDLE_CNO, table.cno_modify_agent_func,
                    table.cno_query_func, table.cno_free_func, table.cno_wait_func);
    assert_success(dat1_test::dat().cno_free_func(wrong_handle));
}

// The functions that take a handle of any type reject a pointer to the table that is no handle.
void dat1_generic_calls_reject_non_handles(void **) {
    dat1_test::ia_fixture ia;
    alignas(64) static const struct {
        const dat1::provider *provider;
        std::array<std::uintptr_t, 7> zeroes;
    } not_an_object = {&dat1_test::dat(), {}};
    auto *const handle = const_cast<void *>(static_cast<const void *>(&not_an_object));
    DAT_CONTEXT context = {};
    DAT_HANDLE_TYPE kind;
    // DAT_INVALID_HANDLE1 of DAT 1.2
    constexpr DAT_RETURN handle1 = dat_error(DAT_INVALID_HANDLE, 26);
    assert_int_equal(dat1_test::dat().set_consumer_context_func(handle, context), handle1);
    assert_int_equal(dat1_test::dat().get_consumer_context_func(handle, &context), handle1);
    assert_int_equal(dat1_test::dat().get_handle_type_func(handle, &kind), handle1);
}

void dat1_ia_opens_and_closes(void **) {
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    char name[] = "roce", unknown[] = "unknown";
    const auto open = dat1_test::dat().ia_open_func;
    assert_int_equal(open(nullptr, 8, &async, &ia, DAT_FALSE), dat1_test::invalid_parameter(1));
    assert_int_equal(open(name, 0, &async, &ia, DAT_FALSE), dat1_test::invalid_parameter(2));
    assert_int_equal(open(name, 8, nullptr, &ia, DAT_FALSE), dat1_test::invalid_parameter(3));
    assert_int_equal(open(name, 8, &async, nullptr, DAT_FALSE), dat1_test::invalid_parameter(4));
    assert_int_equal(open(unknown, 8, &async, &ia, DAT_FALSE),
                     dat_error(DAT_PROVIDER_NOT_FOUND, 98)); // NAME_NOT_REGISTERED
    assert_success(open(name, 8, &async, &ia, DAT_FALSE));
    assert_ptr_equal(*static_cast<const void **>(ia), &dat1_test::dat());
    assert_ptr_equal(*static_cast<const void **>(async), &dat1_test::dat());
    DAT_HANDLE_TYPE kind;
    assert_success(dat1_test::dat().get_handle_type_func(ia, &kind));
    assert_int_equal(kind, DAT_HANDLE_TYPE_IA);
    DAT_PZ_HANDLE pz;
    assert_success(dat1_test::dat().pz_create_func(ia, &pz));
    assert_int_equal(dat1_test::dat().ia_close_func(ia, DAT_CLOSE_GRACEFUL_FLAG),
                     dat1_test::invalid_state(DAT_INVALID_STATE_IA_IN_USE));
    assert_success(dat1_test::dat().ia_close_func(ia, DAT_CLOSE_ABRUPT_FLAG));
}

void dat1_consumer_context_kept(void **) {
    dat1_test::ia_fixture ia;
    DAT_CONTEXT context = {}, returned = {};
    context.as_64 = 0x123456789abcdef0;
    assert_success(dat1_test::dat().set_consumer_context_func(ia.pz, context));
    assert_success(dat1_test::dat().get_consumer_context_func(ia.pz, &returned));
    assert_int_equal(returned.as_64, context.as_64);
    DAT_PZ_PARAM param = {};
    assert_success(dat1_test::dat().pz_query_func(ia.pz, DAT_PZ_FIELD_ALL, &param));
    assert_int_equal(fake_registry().ia_handles.size(), 1);
    assert_ptr_equal(fake_registry().ia_handles[0], ia.handle);
    assert_int_equal(reinterpret_cast<std::uintptr_t>(param.ia_handle), 1);
}

void agent_function(DAT_PVOID, DAT_EVD_HANDLE) {}

void dat1_cno_wait_woken_by_event(void **) {
    dat1_test::ia_fixture ia;
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    const DAT_OS_WAIT_PROXY_AGENT agent = {&cno, agent_function};
    assert_success(dat1_test::dat().cno_create_func(ia.handle, {nullptr, nullptr}, &cno));
    dat1::cno_param param;
    std::memset(&param, 0xa5, sizeof param);
    constexpr auto all_fields = dat1_test::cno_field_all,
                   agent_field = static_cast<DAT_CNO_PARAM_MASK>(2);
    assert_success(dat1_test::dat().cno_query_func(cno, all_fields, &param));
    assert_null(param.agent.proxy_agent_func);
    assert_null(param.agent.instance_data);
    assert_success(dat1_test::dat().cno_modify_agent_func(cno, agent));
    assert_success(dat1_test::dat().cno_query_func(cno, agent_field, &param));
    assert_ptr_equal(param.agent.proxy_agent_func, agent_function);
    assert_ptr_equal(param.agent.instance_data, &cno);
    assert_int_equal(
        dat1_test::dat().cno_query_func(cno, static_cast<DAT_CNO_PARAM_MASK>(4), &param),
        dat1_test::invalid_parameter(2)); // a bit of DAT_CNO_FIELD_ALL of 2.0
    assert_int_equal(dat1_test::dat().cno_query_func(cno, all_fields, nullptr),
                     dat1_test::invalid_parameter(3));
    assert_success(dat1_test::dat().cno_modify_agent_func(cno, {nullptr, nullptr}));

    DAT_EVD_HANDLE const evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG);
    assert_success(dat1_test::dat().evd_modify_cno_func(evd, cno));
    assert_int_equal(dat1_test::dat().cno_free_func(cno),
                     dat1_test::invalid_state(DAT_INVALID_STATE_CNO_IN_USE));
    dat1::event event = {};
    event.event_number = DAT_SOFTWARE_EVENT;
    event.event_data.software_event_data.pointer = &event;
    assert_success(dat1_test::dat().evd_post_se_func(evd, &event));
    DAT_EVD_HANDLE triggered = DAT_HANDLE_NULL;
    assert_success(dat1_test::dat().cno_wait_func(cno, event_timeout_us, &triggered));
    assert_ptr_equal(triggered, evd);
    const dat1::event event_out = dat1_test::dequeue_event(evd, DAT_SOFTWARE_EVENT);
    assert_ptr_equal(event_out.event_data.software_event_data.pointer, &event);
    assert_int_equal(dat1_test::dat().cno_wait_func(cno, 0, &triggered),
                     dat_error(DAT_QUEUE_EMPTY));
    assert_success(dat1_test::dat().evd_modify_cno_func(evd, DAT_HANDLE_NULL));
    assert_success(dat1_test::dat().evd_free_func(evd));
    assert_success(dat1_test::dat().cno_free_func(cno));
}

void dat1_evd_calls_work(void **) {
    dat1_test::ia_fixture ia;
    DAT_EVD_HANDLE const evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG);
    dat1::event event = {};
    DAT_COUNT nmore = 0;
    assert_int_equal(dat1_test::dat().evd_dequeue_func(evd, &event), dat_error(DAT_QUEUE_EMPTY));
    assert_int_equal(dat1_test::dat().evd_dequeue_func(evd, nullptr),
                     dat1_test::invalid_parameter(2));
    assert_int_equal(dat1_test::dat().evd_wait_func(evd, 0, 0, &event, &nmore),
                     dat1_test::invalid_parameter(3));
    assert_int_equal(dat1_test::dat().evd_wait_func(evd, 0, 1, nullptr, &nmore),
                     dat1_test::invalid_parameter(4));
    assert_int_equal(dat1_test::dat().evd_wait_func(evd, 0, 1, &event, nullptr),
                     dat1_test::invalid_parameter(5));
    assert_int_equal(dat1_test::dat().evd_post_se_func(evd, nullptr),
                     dat1_test::invalid_parameter(2));
    event.event_number = DAT_DTO_COMPLETION_EVENT;
    assert_int_equal(dat1_test::dat().evd_post_se_func(evd, &event),
                     dat1_test::invalid_parameter(2));
    assert_success(dat1_test::dat().evd_set_unwaitable_func(evd));
    assert_int_equal(dat1_test::dat().evd_wait_func(evd, 0, 1, &event, &nmore),
                     dat1_test::invalid_state(DAT_INVALID_STATE_EVD_UNWAITABLE));
    assert_success(dat1_test::dat().evd_clear_unwaitable_func(evd));
    assert_success(dat1_test::dat().evd_disable_func(evd));
    DAT_EVD_PARAM param = {};
    assert_success(dat1_test::dat().evd_query_func(evd, DAT_EVD_FIELD_ALL, &param));
    assert_int_equal(param.evd_flags, DAT_EVD_SOFTWARE_FLAG);
    assert_true(param.evd_state & DAT_EVD_STATE_DISABLED);
    assert_success(dat1_test::dat().evd_enable_func(evd));
    assert_success(dat1_test::dat().evd_resize_func(evd, 100));
    assert_success(dat1_test::dat().evd_query_func(evd, DAT_EVD_FIELD_ALL, &param));
    assert_true(param.evd_qlen >= 100);
    assert_success(dat1_test::dat().evd_free_func(evd));
}

void dat1_ep_calls_work(void **) {
    dat1_test::ia_fixture ia;
    dat1_test::ep_fixture ep(ia), peer_ep(ia);
    DAT_EP_STATE state;
    DAT_BOOLEAN recv_idle, request_idle;
    assert_success(
        dat1_test::dat().ep_get_status_func(ep.handle, &state, &recv_idle, &request_idle));
    assert_int_equal(state, DAT_EP_STATE_UNCONNECTED);
    assert_int_equal(dat1_test::dat().ep_disconnect_func(ep.handle, DAT_CLOSE_ABRUPT_FLAG),
                     dat1_test::invalid_state(DAT_INVALID_STATE_EP_UNCONNECTED));
    assert_int_equal(
        dat1_test::dat().ep_dup_connect_func(ep.handle, peer_ep.handle, event_timeout_us, 0,
                                             nullptr, DAT_QOS_BEST_EFFORT),
        fake::dat().ep_dup_connect_func(ep.handle, peer_ep.handle, event_timeout_us, 0, nullptr,
                                        DAT_QOS_BEST_EFFORT) -
            1); // an invalid state, one lower in 1.2
    assert_success(dat1_test::dat().ep_reset_func(ep.handle));
    DAT_COUNT allocated = -1, span = -1;
    assert_success(dat1_test::dat().ep_recv_query_func(ep.handle, &allocated, &span));
    assert_int_equal(allocated, 0);
    assert_int_equal(
        dat1_test::dat().ep_set_watermark_func(ep.handle, 1, 2),
        dat1_test::invalid_state(DAT_INVALID_STATE_EP_RECV_WATERMARK)); // the EP has no SRQ
}

void dat1_psp_rsp_and_cr_calls_work(void **) {
    dat1_test::ia_fixture ia;
    DAT_EVD_HANDLE const cr_evd = ia.create_evd(DAT_EVD_CR_FLAG);
    dat1_test::ep_fixture reserved_ep(ia);
    DAT_RSP_HANDLE rsp = DAT_HANDLE_NULL;
    assert_success(
        dat1_test::dat().rsp_create_func(ia.handle, 5001, reserved_ep.handle, cr_evd, &rsp));
    DAT_RSP_PARAM param = {};
    assert_success(dat1_test::dat().rsp_query_func(rsp, DAT_RSP_FIELD_ALL, &param));
    assert_int_equal(param.conn_qual, 5001);
    assert_ptr_equal(param.ep_handle, reserved_ep.handle);
    DAT_CONN_QUAL conn_qual = 0;
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL, second_psp = DAT_HANDLE_NULL;
    assert_success(dat1_test::dat().psp_create_any_func(ia.handle, &conn_qual, cr_evd,
                                                        DAT_PSP_CONSUMER_FLAG, &psp));
    assert_int_equal(dat1_test::dat().psp_create_func(ia.handle, conn_qual, cr_evd,
                                                      DAT_PSP_CONSUMER_FLAG, &second_psp),
                     dat_error(DAT_CONN_QUAL_IN_USE));
    dat1_test::ep_fixture active(ia);
    socket_address addr = parse_address(ia.address);
    assert_success(dat1_test::dat().ep_connect_func(active.handle, &addr.sa, conn_qual,
                                                    event_timeout_us, 3, const_cast<char *>("abc"),
                                                    DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
    const dat1::event event = dat1_test::wait_event(cr_evd, DAT_CONNECTION_REQUEST_EVENT);
    DAT_CR_HANDLE const cr = event.event_data.cr_arrival_event_data.cr_handle;
    DAT_CR_PARAM cr_param = {};
    assert_success(dat1_test::dat().cr_query_func(cr, DAT_CR_FIELD_ALL, &cr_param));
    assert_memory_equal(cr_param.private_data, "abc", 3);
    assert_int_equal(dat1_test::dat().cr_handoff_func(cr, 7000), dat1_test::invalid_parameter(2));
    assert_success(dat1_test::dat().cr_reject_func(cr));
    dat1_test::wait_event(active.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
    assert_success(dat1_test::dat().psp_free_func(psp));
    assert_success(dat1_test::dat().rsp_free_func(rsp));
    active.free();
    reserved_ep.free();
    assert_success(dat1_test::dat().evd_free_func(cr_evd));
}

void dat1_srq_calls_and_states(void **) {
    dat1_test::ia_fixture ia;
    dat1_test::memory buffer(ia);
    DAT_SRQ_ATTR attr = {16, 2, 0};
    DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
    assert_int_equal(dat1_test::dat().srq_create_func(ia.handle, ia.pz, nullptr, &srq),
                     dat1_test::invalid_parameter(3));
    assert_success(dat1_test::dat().srq_create_func(ia.handle, ia.pz, &attr, &srq));
    dat1::lmr_triplet iov[] = {buffer.lmr_triplet(0, 64), buffer.lmr_triplet(64, 64)};
    assert_success(dat1_test::dat().srq_post_recv_func(srq, 2, iov, cookie(1)));
    assert_int_equal(get_fabric().posts.back().sge_list[1].addr, buffer.registered_address + 64);
    iov[1].segment_length = UINT64_C(1) << 32;
    assert_int_equal(dat1_test::dat().srq_post_recv_func(srq, 2, iov, cookie(1)),
                     dat_error(DAT_LENGTH_ERROR));
    assert_int_equal(dat1_test::dat().srq_post_recv_func(srq, 3, iov, cookie(1)),
                     dat1_test::invalid_parameter(2));
    assert_int_equal(dat1_test::dat().srq_post_recv_func(srq, 1, nullptr, cookie(1)),
                     dat1_test::invalid_parameter(3));
    assert_success(dat1_test::dat().srq_resize_func(srq, 20));
    assert_success(dat1_test::dat().srq_set_lw_func(srq, 1));
    DAT_SRQ_PARAM param = {};
    assert_success(dat1_test::dat().srq_query_func(srq, DAT_SRQ_FIELD_ALL, &param));
    assert_int_equal(param.srq_state, 0); // OPERATIONAL
    assert_int_equal(param.low_watermark, 1);
    assert_int_equal(param.outstanding_dto_count, 1);
    assert_int_equal(dat1_test::dat().srq_query_func(srq, DAT_SRQ_FIELD_ALL, nullptr),
                     dat1_test::invalid_parameter(3));

    DAT_EVD_HANDLE const evd = ia.create_evd(DAT_EVD_DTO_FLAG),
                         connect_evd = ia.create_evd(DAT_EVD_CONNECTION_FLAG);
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    dat1::ep_attr ep_attr = {};
    ep_attr.max_request_dtos = 4;
    ep_attr.max_request_iov = 1;
    ep_attr.max_rdma_size = UINT64_C(1) << 32;
    const auto create = [&] {
        return dat1_test::dat().ep_create_with_srq_func(ia.handle, ia.pz, evd, evd, connect_evd,
                                                        srq, &ep_attr, &ep);
    };
    assert_int_equal(create(), dat1_test::invalid_parameter(7));
    ep_attr.max_rdma_size = 4096;
    assert_success(create());
    assert_int_equal(dat1_test::dat().srq_free_func(srq),
                     dat1_test::invalid_state(DAT_INVALID_STATE_SRQ_IN_USE));
    assert_int_equal(dat1_test::dat().ep_post_recv_func(ep, 1, iov, cookie(1), default_flags),
                     dat1_test::invalid_state(DAT_INVALID_STATE_SRQ_IN_USE));
    assert_success(dat1_test::dat().ep_free_func(ep));
    assert_success(dat1_test::dat().evd_free_func(evd));
    assert_success(dat1_test::dat().evd_free_func(connect_evd));
    assert_success(dat1_test::dat().srq_free_func(srq));
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(dat1_table_has_all_functions),
        TEST(dat1_calls_reject_wrong_handles_first),
        TEST(dat1_generic_calls_reject_non_handles),
        TEST(dat1_ia_opens_and_closes),
        TEST(dat1_consumer_context_kept),
        TEST(dat1_cno_wait_woken_by_event),
        TEST(dat1_evd_calls_work),
        TEST(dat1_ep_calls_work),
        TEST(dat1_psp_rsp_and_cr_calls_work),
        TEST(dat1_srq_calls_and_states),
    };
    return dat1_test::run_cases(tests);
}
