// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// SRQs: receives that several endpoints share, and the marks that tell of few or many.

#include "two.hpp"

using namespace played;

namespace {

DAT_SRQ_PARAM ask_all(DAT_SRQ_HANDLE srq) {
    DAT_SRQ_PARAM param = {};
    done(dat().srq_query_func(srq, DAT_SRQ_FIELD_ALL, &param));
    return param;
}

/// Two connections whose receiving ends share an SRQ.
struct shared {
    shared()
        : srq(on.srq(8))
        , one(on)
        , two(on)
        , first(on, nullptr, srq)
        , second(on, nullptr, srq)
        , area(on) {
        connect(one, first);
        connect(two, second);
    }
    void free() {
        disconnect(one, first);
        disconnect(two, second);
        one.free();
        two.free();
        first.free();
        second.free();
        done(dat().srq_free_func(srq));
        area.free();
        close(on);
    }
    DAT_RETURN receive(std::uint64_t word) const {
        DAT_LMR_TRIPLET part = area.part(64 * word, 64);
        return dat().srq_post_recv_func(srq, 1, &part, cookie(word));
    }
    void send(const end &by) const {
        DAT_LMR_TRIPLET part = area.part(0, 64);
        done(dat().ep_post_send_func(by.ep, 1, &part, cookie(1), DAT_COMPLETION_SUPPRESS_FLAG));
    }
    adapter on;
    DAT_SRQ_HANDLE srq;
    end one, two, first, second;
    memory area;
};

void query_tells_what_it_was_made_of(void **) {
    adapter on;
    DAT_SRQ_HANDLE const srq = on.srq(10);
    const DAT_SRQ_PARAM is = ask_all(srq);
    assert_ptr_equal(is.ia_handle, reinterpret_cast<DAT_IA_HANDLE>(1));
    assert_ptr_equal(is.pz_handle, on.pz);
    assert_int_equal(is.srq_state, DAT_SRQ_STATE_OPERATIONAL);
    assert_int_equal(is.max_recv_dtos, 16); // as the device rounds it
    assert_int_equal(is.max_recv_iov, 4);
    assert_int_equal(is.low_watermark, 0);
    assert_int_equal(is.available_dto_count, DAT_VALUE_UNKNOWN);
    assert_int_equal(is.outstanding_dto_count, 0);
    done(dat().srq_free_func(srq));
    close(on);
}

void each_endpoint_takes_what_it_needs(void **) {
    shared all;
    for (std::uint64_t word = 1; word != 5; ++word)
        done(all.receive(word));
    assert_int_equal(ask_all(all.srq).outstanding_dto_count, 4);
    all.send(all.two);
    all.send(all.one);
    assert_ptr_equal(completed(all.second.receives, 1, DAT_DTO_SUCCESS, 64).ep_handle,
                     all.second.ep);
    assert_ptr_equal(completed(all.first.receives, 2, DAT_DTO_SUCCESS, 64).ep_handle, all.first.ep);
    assert_int_equal(ask_all(all.srq).outstanding_dto_count, 2);
    all.free();
}

void its_endpoints_have_no_receives_of_their_own(void **) {
    shared all;
    DAT_LMR_TRIPLET part = all.area.part(0, 64);
    assert_int_equal(
        dat().ep_post_recv_func(all.first.ep, 1, &part, cookie(1), DAT_COMPLETION_DEFAULT_FLAG),
        wrong_state(DAT_INVALID_STATE_SRQ_IN_USE));
    DAT_EP_PARAM param = {};
    done(dat().ep_query_func(all.first.ep, DAT_EP_FIELD_ALL, &param));
    assert_ptr_equal(param.srq_handle, all.srq);
    all.free();
}

void there_is_room_for_what_was_asked_for(void **) {
    shared all;
    for (std::uint64_t word = 0; word != 8; ++word)
        done(all.receive(word));
    assert_int_equal(all.receive(9), error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
    for (int turn = 0; turn != 20; ++turn) { // and records are used again, in any order
        all.send(turn % 3 == 0 ? all.one : all.two);
        next(turn % 3 == 0 ? all.first.receives : all.second.receives, DAT_DTO_COMPLETION_EVENT);
        done(all.receive(static_cast<std::uint64_t>(turn)));
    }
    all.free();
}

void resize_makes_room(void **) {
    shared all;
    for (std::uint64_t word = 0; word != 8; ++word)
        done(all.receive(word));
    assert_int_equal(dat().srq_resize_func(all.srq, 7), wrong_state(DAT_INVALID_STATE_SRQ_IN_USE));
    done(dat().srq_resize_func(all.srq, 20));
    assert_int_equal(ask_all(all.srq).max_recv_dtos, 32);
    for (std::uint64_t word = 8; word != 32; ++word)
        done(all.receive(word));
    assert_int_equal(all.receive(0), error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
    all.free();
}

// What the device has made of it counts everywhere: for posting, for the mark, for the query.
void its_size_is_the_devices(void **) {
    for (const bool says : {true, false}) {
        fresh(nullptr);
        net().vague = !says;
        adapter on;
        memory area(on);
        DAT_LMR_TRIPLET part = area.part(0, 64);
        DAT_SRQ_HANDLE const srq = on.srq(5);
        DAT_COUNT size = says ? 8 : 5;
        assert_int_equal(ask_all(srq).max_recv_dtos, size);
        for (DAT_COUNT count = 0; count != size; ++count)
            done(dat().srq_post_recv_func(srq, 1, &part, cookie(1)));
        assert_int_equal(dat().srq_post_recv_func(srq, 1, &part, cookie(1)),
                         error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
        assert_int_equal(dat().srq_set_lw_func(srq, size + 1), wrong_argument(2));
        done(dat().srq_set_lw_func(srq, size));
        assert_int_equal(dat().srq_resize_func(srq, size - 1),
                         wrong_state(DAT_INVALID_STATE_SRQ_IN_USE));
        done(dat().srq_resize_func(srq, 17));
        size = says ? 32 : 17;
        assert_int_equal(ask_all(srq).max_recv_dtos, size);
        assert_int_equal(ask_all(srq).low_watermark, says ? 8 : 5);
        assert_int_equal(ask_all(srq).max_recv_iov, 4);
        done(dat().srq_set_lw_func(srq, size));
        done(dat().srq_free_func(srq));
        area.free();
        close(on);
    }
}

void a_device_that_cannot_resize(void **) {
    adapter on;
    DAT_SRQ_HANDLE const srq = on.srq(8);
    net().wrong.fail_always("ibv_modify_srq", EOPNOTSUPP);
    assert_int_equal(dat().srq_resize_func(srq, 100), error(DAT_MODEL_NOT_SUPPORTED));
    assert_int_equal(dat().srq_set_lw_func(srq, 3), error(DAT_MODEL_NOT_SUPPORTED));
    net().wrong.fail_always("ibv_modify_srq", ENOMEM);
    assert_int_equal(dat().srq_resize_func(srq, 100),
                     error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_SRQ));
    assert_int_equal(ask_all(srq).max_recv_dtos, 8);
    assert_int_equal(ask_all(srq).low_watermark, 0);
    net().wrong.stop();
    done(dat().srq_free_func(srq));
    close(on);
}

void a_device_without_srqs(void **) {
    net().devices[0].limits.max_srq = 0;
    adapter on;
    DAT_SRQ_ATTR attr = {};
    attr.max_recv_dtos = attr.max_recv_iov = 1;
    DAT_SRQ_HANDLE made;
    assert_int_equal(dat().srq_create_func(on.ia, on.pz, &attr, &made),
                     error(DAT_MODEL_NOT_SUPPORTED));
    close(on);
}

DAT_EVENT told(const adapter &on, DAT_HANDLE whom, DAT_COUNT reason) {
    const DAT_EVENT event = next(on.async, DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR);
    assert_ptr_equal(event.event_data.asynch_error_event_data.dat_handle, whom);
    assert_int_equal(event.event_data.asynch_error_event_data.reason, reason);
    return event;
}

void a_low_mark_tells_once(void **) {
    shared all;
    done(dat().srq_set_lw_func(all.srq, 2));
    assert_int_equal(ask_all(all.srq).low_watermark, 2);
    for (std::uint64_t word = 0; word != 4; ++word)
        done(all.receive(word));
    all.send(all.one);
    all.send(all.one);
    none(all.on.async);
    all.send(all.one);
    told(all.on, all.srq, DAT_SRQ_LOW_WATERMARK_EVENT);
    assert_int_equal(ask_all(all.srq).low_watermark, 0);
    all.send(all.one);
    none(all.on.async);
    all.free();
}

void a_low_mark_from_the_beginning(void **) {
    adapter on;
    DAT_SRQ_ATTR attr = {};
    attr.max_recv_dtos = 8;
    attr.max_recv_iov = 1;
    attr.low_watermark = 5;
    DAT_SRQ_HANDLE srq;
    done(dat().srq_create_func(on.ia, on.pz, &attr, &srq));
    assert_int_equal(ask_all(srq).low_watermark, 5);
    assert_int_equal(dat().srq_resize_func(srq, 4), wrong_state(DAT_INVALID_STATE_SRQ_IN_USE));
    done(dat().srq_free_func(srq));
    close(on);
}

void receives_that_wait_are_counted(void **) {
    shared all;
    for (std::uint64_t word = 0; word != 4; ++word)
        done(all.receive(word));
    for (int turn = 0; turn != 3; ++turn)
        all.send(all.one);
    DAT_COUNT allocated, span;
    done(dat().ep_recv_query_func(all.first.ep, &allocated, &span));
    assert_int_equal(allocated, 3);
    done(dat().ep_recv_query_func(all.second.ep, &allocated, nullptr));
    assert_int_equal(allocated, 0);
    next(all.first.receives, DAT_DTO_COMPLETION_EVENT);
    done(dat().ep_recv_query_func(all.first.ep, &allocated, &span));
    assert_int_equal(allocated, 2);
    all.free();
}

void a_soft_mark_tells_once(void **) {
    shared all;
    done(dat().ep_set_watermark_func(all.first.ep, 1, DAT_WATERMARK_INFINITE));
    for (std::uint64_t word = 0; word != 4; ++word)
        done(all.receive(word));
    DAT_COUNT allocated;
    all.send(all.one);
    done(dat().ep_recv_query_func(all.first.ep, &allocated, nullptr));
    none(all.on.async); // at the mark, not above it
    for (int turn = 0; turn != 2; ++turn)
        all.send(all.one);
    done(dat().ep_recv_query_func(all.first.ep, &allocated, nullptr)); // which looks
    told(all.on, all.first.ep, DAT_SRQ_SOFT_HIGH_WATERMARK_EVENT);
    none(all.on.async);
    all.free();
}

void a_hard_mark_ends_the_connection(void **) {
    shared all;
    for (std::uint64_t word = 0; word != 4; ++word)
        done(all.receive(word));
    for (int turn = 0; turn != 3; ++turn)
        all.send(all.one);
    DAT_COUNT allocated;
    done(dat().ep_recv_query_func(all.first.ep, &allocated, nullptr));
    done(dat().ep_set_watermark_func(all.first.ep, DAT_WATERMARK_INFINITE, 2));
    next(all.first.connections, DAT_CONNECTION_EVENT_BROKEN);
    next(all.one.connections, DAT_CONNECTION_EVENT_DISCONNECTED);
    disconnect(all.two, all.second);
    all.on.close(); // with all that is in it
}

} // namespace

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)

int main() {
    register_names();
    const CMUnitTest tests[] = {
        TEST(query_tells_what_it_was_made_of),
        TEST(each_endpoint_takes_what_it_needs),
        TEST(its_endpoints_have_no_receives_of_their_own),
        TEST(there_is_room_for_what_was_asked_for),
        TEST(resize_makes_room),
        TEST(its_size_is_the_devices),
        TEST(a_device_that_cannot_resize),
        TEST(a_device_without_srqs),
        TEST(a_low_mark_tells_once),
        TEST(a_low_mark_from_the_beginning),
        TEST(receives_that_wait_are_counted),
        TEST(a_soft_mark_tells_once),
        TEST(a_hard_mark_ends_the_connection),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
