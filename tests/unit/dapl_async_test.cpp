// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a device tells by itself, and who hears of it; and IAs: how they open, ask and close.

#include "two.hpp"

#include <cerrno>

using namespace played;

namespace {

void told(DAT_EVD_HANDLE evd, DAT_UINT32 number, DAT_HANDLE about, DAT_COUNT reason) {
    const DAT_EVENT event = next(evd, number);
    assert_ptr_equal(event.event_data.asynch_error_event_data.dat_handle, about);
    assert_int_equal(event.event_data.asynch_error_event_data.reason, reason);
}

void a_pair_that_fails_is_told_of(void **) {
    two_ends all;
    for (const ibv_event_type each :
         {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR}) {
        net().report(0, each, pair_of(all.one.ep));
        told(all.on.async, DAT_ASYNC_ERROR_EP_BROKEN, all.one.ep, DAT_EP_TRANSFER_TO_ERROR);
    }
    all.free();
}

/// Though the program asked for room for fewer.
void of_many_pairs_that_fail_each_is_told_of(void **) {
    two_ends all;
    adapter same;
    for (int each = 0; each < 30; ++each)
        net().report(0, IBV_EVENT_QP_FATAL, pair_of(all.one.ep));
    net().report(0, IBV_EVENT_DEVICE_FATAL);
    next(same.async, DAT_ASYNC_ERROR_IA_CATASTROPHIC); // now they all wait
    for (int each = 0; each < 30; ++each)
        told(all.on.async, DAT_ASYNC_ERROR_EP_BROKEN, all.one.ep, DAT_EP_TRANSFER_TO_ERROR);
    next(all.on.async, DAT_ASYNC_ERROR_IA_CATASTROPHIC);
    none(all.on.async);
    close(same);
    all.free();
}

void what_is_no_error_is_not_told(void **) {
    two_ends all;
    for (const ibv_event_type each : {IBV_EVENT_SQ_DRAINED, IBV_EVENT_PATH_MIG, IBV_EVENT_COMM_EST})
        net().report(0, each, pair_of(all.one.ep));
    for (const ibv_event_type each :
         {IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR, IBV_EVENT_LID_CHANGE, IBV_EVENT_GID_CHANGE})
        net().report(0, each);
    none(all.on.async);
    all.free();
}

void a_queue_of_completions_that_overflows(void **) {
    two_ends all;
    net().report(0, IBV_EVENT_CQ_ERR, pair_of(all.one.ep)->send_cq);
    told(all.on.async, DAT_ASYNC_ERROR_EVD_OVERFLOW, all.one.requests, DAT_EVD_OVERFLOW_ERROR);
    all.free();
}

void an_srq_that_fails(void **) {
    adapter on;
    DAT_SRQ_HANDLE const srq = on.srq();
    end one(on, nullptr, srq);
    net().report(0, IBV_EVENT_SRQ_ERR, pair_of(one.ep)->srq);
    told(on.async, DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR, srq, DAT_SRQ_TRANSFER_TO_ERROR);
    one.free();
    done(dat().srq_free_func(srq));
    close(on);
}

void a_device_that_fails_is_told_to_its_ias(void **) {
    adapter one, same, other("iw");
    net().report(0, IBV_EVENT_DEVICE_FATAL);
    for (const adapter *each : {&one, &same}) {
        DAT_PZ_PARAM zone = {}; // which knows what programs call it
        done(dat().pz_query_func(each->pz, DAT_PZ_FIELD_ALL, &zone));
        told(each->async, DAT_ASYNC_ERROR_IA_CATASTROPHIC, zone.ia_handle,
             DAT_IA_CATASTROPHIC_ERROR);
    }
    none(other.async);
    close(one);
    close(same);
    close(other);
}

void receives_of_an_srq_have_ended(void **) {
    adapter on;
    DAT_SRQ_HANDLE const srq = on.srq();
    end one(on), other(on, nullptr, srq);
    connect(one, other);
    disconnect(one, other);
    told(on.async, DAT_ASYNC_ERROR_EP_BROKEN, other.ep, DAT_EP_OTHER_ERROR);
    none(on.async); // once
    one.free();
    other.free();
    done(dat().srq_free_func(srq));
    close(on);
}

/// OFED's dtestsrq compares the two EVDs event by event.
void receives_end_in_the_order_of_connections(void **) {
    adapter on;
    DAT_SRQ_HANDLE const srq = on.srq();
    end one(on), two(on), first(on, nullptr, srq), second(on, nullptr, srq);
    connect(one, first);
    connect(two, second);
    for (const end *each : {&second, &first})
        net().report(0, IBV_EVENT_QP_LAST_WQE_REACHED, pair_of(each->ep));
    net().report(0, IBV_EVENT_QP_FATAL, pair_of(one.ep)); // and nothing was told before
    told(on.async, DAT_ASYNC_ERROR_EP_BROKEN, one.ep, DAT_EP_TRANSFER_TO_ERROR);
    disconnect(one, first);
    disconnect(two, second);
    told(on.async, DAT_ASYNC_ERROR_EP_BROKEN, first.ep, DAT_EP_OTHER_ERROR);
    told(on.async, DAT_ASYNC_ERROR_EP_BROKEN, second.ep, DAT_EP_OTHER_ERROR);
    none(on.async);
    for (end *each : {&one, &two, &first, &second})
        each->free();
    done(dat().srq_free_func(srq));
    close(on);
}

// -- IAs

void one_hears_for_another(void **) {
    adapter first;
    char name[] = "ib";
    DAT_EVD_HANDLE async = first.async;
    DAT_IA_HANDLE second;
    done(dat().ia_open_func(name, 0, &async, &second));
    assert_ptr_equal(async, first.async);
    net().report(0, IBV_EVENT_DEVICE_FATAL);
    next(first.async, DAT_ASYNC_ERROR_IA_CATASTROPHIC);
    next(first.async, DAT_ASYNC_ERROR_IA_CATASTROPHIC);
    done(dat().ia_close_func(second, DAT_CLOSE_GRACEFUL_FLAG));
    close(first);
}

void nobody_hears(void **) {
    char name[] = "ib";
    DAT_EVD_HANDLE async = DAT_EVD_ASYNC_EXISTS, known = &async;
    DAT_IA_HANDLE ia;
    done(dat().ia_open_func(name, 0, &async, &ia));
    assert_ptr_equal(async, DAT_EVD_ASYNC_EXISTS);
    done(dat().ia_query_func(ia, &known, 0, nullptr, 0, nullptr));
    assert_ptr_equal(known, DAT_EVD_OUT_OF_SCOPE);
    net().report(0, IBV_EVENT_DEVICE_FATAL);
    done(dat().ia_close_func(ia, DAT_CLOSE_GRACEFUL_FLAG));
}

void query_tells_of_the_device(void **) {
    adapter on;
    DAT_IA_ATTR attr = {};
    DAT_PROVIDER_ATTR says = {};
    DAT_EVD_HANDLE async;
    done(
        dat().ia_query_func(on.ia, &async, DAT_IA_FIELD_ALL, &attr, DAT_PROVIDER_FIELD_ALL, &says));
    assert_ptr_equal(async, on.async);
    assert_string_equal(attr.adapter_name, "played0");
    assert_int_equal(attr.firmware_version_major, 2);
    assert_int_equal(attr.firmware_version_minor, 41);
    assert_int_equal(attr.hardware_version_major, 7);
    assert_int_equal(attr.max_eps, 1000);
    assert_int_equal(attr.max_dto_per_ep, 4096);
    assert_int_equal(attr.max_rdma_read_per_ep_in, 16);
    assert_int_equal(attr.max_rdma_read_per_ep_out, 8);
    assert_int_equal(attr.max_evds, 2000);
    assert_int_equal(attr.max_evd_qlen, 100000);
    assert_int_equal(attr.max_iov_segments_per_dto, 8);
    assert_int_equal(attr.max_lmrs, 200000);
    assert_int_equal(attr.max_pzs, 300);
    assert_int_equal(attr.max_message_size, 1 << 20);
    assert_int_equal(attr.max_rmrs, 500);
    assert_int_equal(attr.max_srqs, 60);
    assert_int_equal(attr.max_recv_per_srq, 1000);
    assert_int_equal(attr.extension_supported, DAT_EXTENSION_IB);
    const auto &address = reinterpret_cast<const sockaddr_in &>(*attr.ia_address_ptr);
    assert_int_equal(address.sin_addr.s_addr, inet_addr("192.0.2.1"));
    assert_string_equal(says.provider_name, "coherdma");
    assert_int_equal(says.is_thread_safe, DAT_TRUE);
    assert_int_equal(says.max_private_data_size, 56);
    assert_int_equal(says.srq_supported, DAT_TRUE);
    close(on);
}

void words_are_kept_with_handles(void **) {
    adapter on;
    for (DAT_HANDLE each : {on.ia, on.pz, on.async}) {
        DAT_CONTEXT word = {}, kept = {};
        done(dat().get_consumer_context_func(each, &kept));
        assert_int_equal(kept.as_64, 0);
        word.as_64 = 0x123456789abcdef0;
        done(dat().set_consumer_context_func(each, word));
        done(dat().get_consumer_context_func(each, &kept));
        assert_int_equal(kept.as_64, word.as_64);
    }
    DAT_HANDLE_TYPE kind;
    done(dat().get_handle_type_func(on.ia, &kind));
    assert_int_equal(kind, DAT_HANDLE_TYPE_IA);
    done(dat().get_handle_type_func(on.pz, &kind));
    assert_int_equal(kind, DAT_HANDLE_TYPE_PZ);
    done(dat().get_handle_type_func(on.async, &kind));
    assert_int_equal(kind, DAT_HANDLE_TYPE_EVD);
    close(on);
}

void no_connection_moves_to_another(void **) {
    adapter on;
    char name[] = "iw";
    DAT_BOOLEAN related = DAT_TRUE;
    done(dat().ia_ha_related_func(on.ia, name, &related));
    assert_int_equal(related, DAT_FALSE);
    close(on);
}

void an_abrupt_close_ends_all(void **) {
    for (const char *name : {"ib", "iw"}) {
        fresh(nullptr);
        two_ends all(name);
        done(all.receive(64, 1));
        all.on.cno();
        all.on.evd(DAT_EVD_SOFTWARE_FLAG, 3, all.on.cno());
        DAT_HANDLE const each[] = {all.one.ep, all.other.ep, all.here.lmr, all.on.pz};
        all.on.close(DAT_CLOSE_ABRUPT_FLAG);
        DAT_HANDLE_TYPE kind;
        for (DAT_HANDLE handle : each)
            assert_int_equal(dat().get_handle_type_func(handle, &kind),
                             no_handle(DAT_INVALID_HANDLE1));
        assert_int_equal(net().all_living(), 0);
    }
}

} // namespace

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)

int main() {
    register_names();
    const CMUnitTest tests[] = {
        TEST(a_pair_that_fails_is_told_of),
        TEST(of_many_pairs_that_fail_each_is_told_of),
        TEST(what_is_no_error_is_not_told),
        TEST(a_queue_of_completions_that_overflows),
        TEST(an_srq_that_fails),
        TEST(a_device_that_fails_is_told_to_its_ias),
        TEST(receives_of_an_srq_have_ended),
        TEST(receives_end_in_the_order_of_connections),
        TEST(one_hears_for_another),
        TEST(nobody_hears),
        TEST(query_tells_of_the_device),
        TEST(words_are_kept_with_handles),
        TEST(no_connection_moves_to_another),
        TEST(an_abrupt_close_ends_all),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
