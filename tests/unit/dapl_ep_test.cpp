// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Endpoints: made, asked, changed, reset, freed.

#include "consumer.hpp"

using namespace played;

namespace {

void done(DAT_RETURN result) {
    assert_int_equal(result, DAT_SUCCESS);
}

DAT_EP_PARAM ask_all(DAT_EP_HANDLE ep) {
    DAT_EP_PARAM param = {};
    done(dat().ep_query_func(ep, DAT_EP_FIELD_ALL, &param));
    return param;
}

void close(adapter &on) {
    done(dat().pz_free_func(on.pz));
    on.close(DAT_CLOSE_GRACEFUL_FLAG);
}

void query_tells_what_it_was_made_of(void **) {
    adapter on;
    end one(on);
    const DAT_EP_PARAM is = ask_all(one.ep);
    assert_ptr_equal(is.ia_handle, reinterpret_cast<DAT_IA_HANDLE>(1)); // the registry's number
    assert_int_equal(is.ep_state, DAT_EP_STATE_UNCONNECTED);
    assert_ptr_equal(is.pz_handle, on.pz);
    assert_ptr_equal(is.recv_evd_handle, one.receives);
    assert_ptr_equal(is.request_evd_handle, one.requests);
    assert_ptr_equal(is.connect_evd_handle, one.connections);
    assert_null(is.srq_handle);
    assert_int_equal(is.ep_attr.max_recv_dtos, 16);
    assert_int_equal(is.ep_attr.max_request_dtos, 16);
    assert_int_equal(is.ep_attr.max_recv_iov, 4);
    assert_int_equal(is.ep_attr.max_request_iov, 4);
    assert_int_equal(is.ep_attr.max_rdma_write_iov, 4);
    assert_int_equal(is.ep_attr.max_rdma_read_in, 4);
    assert_int_equal(is.ep_attr.max_message_size, 1 << 20);
    assert_int_equal(is.ep_attr.service_type, DAT_SERVICE_TYPE_RC);
    one.free();
    close(on);
}

void attributes_are_what_was_asked_for(void **) {
    adapter on;
    DAT_EP_ATTR attr = {};
    attr.max_recv_dtos = 3;
    attr.max_request_dtos = 5;
    attr.max_recv_iov = 1;
    attr.max_request_iov = 2;
    attr.max_rdma_read_out = 8;
    attr.max_message_size = 100;
    end one(on, &attr);
    const DAT_EP_ATTR got = ask_all(one.ep).ep_attr;
    assert_int_equal(got.max_recv_dtos, 3);
    assert_int_equal(got.max_request_dtos, 5);
    assert_int_equal(got.max_recv_iov, 1);
    assert_int_equal(got.max_request_iov, 2);
    assert_int_equal(got.max_rdma_read_in, 0); // none, not a default
    assert_int_equal(got.max_rdma_read_out, 8);
    assert_int_equal(got.max_message_size, 100);
    assert_int_equal(got.max_rdma_size, 1 << 20);
    one.free();
    close(on);
}

void without_a_queue_it_needs_no_evd_for_it(void **) {
    adapter on;
    DAT_EVD_HANDLE const requests = on.evd(DAT_EVD_DTO_FLAG);
    DAT_EP_HANDLE sends, receives;
    done(dat().ep_create_func(on.ia, on.pz, DAT_HANDLE_NULL, requests, DAT_HANDLE_NULL, nullptr,
                              &sends));
    done(dat().ep_create_func(on.ia, on.pz, requests, DAT_HANDLE_NULL, DAT_HANDLE_NULL, nullptr,
                              &receives));
    assert_int_equal(ask_all(sends).ep_attr.max_recv_dtos, 0);
    assert_int_equal(ask_all(receives).ep_attr.max_request_dtos, 0);
    done(dat().ep_free_func(sends));
    done(dat().ep_free_func(receives));
    done(dat().evd_free_func(requests));
    close(on);
}

void what_it_uses_cannot_be_freed_before_it(void **) {
    adapter on;
    DAT_SRQ_HANDLE const srq = on.srq();
    end one(on, nullptr, srq);
    const auto in_use = wrong_state(DAT_INVALID_STATE_EVD_IN_USE);
    assert_int_equal(dat().evd_free_func(one.receives), in_use);
    assert_int_equal(dat().evd_free_func(one.requests), in_use);
    assert_int_equal(dat().evd_free_func(one.connections), in_use);
    assert_int_equal(dat().pz_free_func(on.pz), wrong_state(DAT_INVALID_STATE_PZ_IN_USE));
    assert_int_equal(dat().srq_free_func(srq), wrong_state(DAT_INVALID_STATE_SRQ_IN_USE));
    one.free();
    done(dat().srq_free_func(srq));
    close(on);
}

// -- changing

void modify_makes_it_longer(void **) {
    adapter on;
    end one(on);
    DAT_EP_PARAM param = {};
    param.ep_attr.max_request_dtos = 100;
    param.ep_attr.max_recv_iov = 8;
    done(dat().ep_modify_func(
        one.ep, DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS | DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV, &param));
    const DAT_EP_ATTR got = ask_all(one.ep).ep_attr;
    assert_int_equal(got.max_request_dtos, 100);
    assert_int_equal(got.max_recv_iov, 8);
    assert_int_equal(got.max_recv_dtos, 16); // was not named
    one.free();
    close(on);
}

constexpr DAT_EP_PARAM_MASK all_handles = DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
                                          DAT_EP_FIELD_REQUEST_EVD_HANDLE |
                                          DAT_EP_FIELD_CONNECT_EVD_HANDLE;

DAT_EP_PARAM handles_of(const end &one) {
    DAT_EP_PARAM param = {};
    param.pz_handle = one.on.pz;
    param.recv_evd_handle = one.receives;
    param.request_evd_handle = one.requests;
    param.connect_evd_handle = one.connections;
    return param;
}

void modify_gives_it_what_it_lacks(void **) {
    adapter on;
    end with(on);
    DAT_EP_HANDLE bare;
    done(dat().ep_create_func(on.ia, DAT_HANDLE_NULL, DAT_HANDLE_NULL, DAT_HANDLE_NULL,
                              DAT_HANDLE_NULL, nullptr, &bare));
    DAT_EP_PARAM param = handles_of(with);
    param.ep_attr.max_recv_dtos = param.ep_attr.max_request_dtos = 4;
    param.ep_attr.max_recv_iov = param.ep_attr.max_request_iov = 2;
    done(dat().ep_modify_func(
        bare,
        all_handles | DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS | DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS |
            DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV | DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV,
        &param));
    assert_ptr_equal(ask_all(bare).pz_handle, on.pz);
    end other(on);
    end same(on);
    std::swap(same.ep, bare);
    // It can be connected now. What it was changed to is what it uses.
    DAT_EVD_HANDLE const requests = on.evd(DAT_EVD_CR_FLAG);
    DAT_CR_HANDLE const request = ask(other, on, requests);
    done(dat().cr_accept_func(request, same.ep, 0, nullptr));
    next(with.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    done(dat().ep_free_func(same.ep));
    next(other.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    same.ep = bare;
    same.free();
    other.free();
    with.free();
    done(dat().evd_free_func(requests));
    close(on);
}

void modify_to_the_same_changes_nothing(void **) {
    adapter on;
    end one(on);
    DAT_EP_PARAM param = handles_of(one);
    for (int turn = 0; turn != 3; ++turn)
        done(dat().ep_modify_func(one.ep, all_handles, &param));
    one.free(); // Nothing counts as used any more.
    close(on);
}

void modify_to_others_lets_the_first_go(void **) {
    adapter on;
    end one(on), other(on);
    DAT_EP_PARAM param = handles_of(other);
    param.pz_handle = on.zone();
    done(dat().ep_modify_func(one.ep, all_handles, &param));
    done(dat().evd_free_func(one.receives));
    done(dat().evd_free_func(one.requests));
    done(dat().evd_free_func(one.connections));
    done(dat().ep_free_func(other.ep));
    assert_int_equal(dat().evd_free_func(other.receives),
                     wrong_state(DAT_INVALID_STATE_EVD_IN_USE));
    done(dat().pz_free_func(on.pz));
    std::swap(one.ep, other.ep);
    other.free();
    done(dat().pz_free_func(param.pz_handle));
    on.close(DAT_CLOSE_GRACEFUL_FLAG);
}

void a_refused_modify_leaves_everything(void **) {
    adapter on;
    end one(on);
    DAT_EP_PARAM param = handles_of(one);
    param.pz_handle = on.zone();
    param.request_evd_handle = one.connections; // not for completions
    assert_int_equal(dat().ep_modify_func(one.ep, all_handles, &param),
                     no_handle(DAT_INVALID_HANDLE_EVD_REQUEST));
    const DAT_EP_PARAM is = ask_all(one.ep);
    assert_ptr_equal(is.pz_handle, on.pz);
    assert_ptr_equal(is.request_evd_handle, one.requests);
    done(dat().pz_free_func(param.pz_handle));
    one.free();
    close(on);
}

void posted_receives_forbid_modify(void **) {
    adapter on;
    end one(on);
    memory area(on);
    DAT_LMR_TRIPLET part = area.part(0, 64);
    done(dat().ep_post_recv_func(one.ep, 1, &part, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
    DAT_EP_PARAM param = {};
    param.ep_attr.max_recv_dtos = 100;
    assert_int_equal(dat().ep_modify_func(one.ep, DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, &param),
                     wrong_state(DAT_INVALID_STATE_EP_NOTREADY));
    one.free();
    area.free();
    close(on);
}

// -- states

void it_connects_again_after_a_reset(void **) {
    for (const char *name : {"ib", "iw"}) {
        adapter on(name);
        end one(on), other(on);
        done(dat().ep_reset_func(one.ep)); // nothing to do
        for (int turn = 0; turn != 3; ++turn) {
            connect(one, other);
            assert_int_equal(one.state(), DAT_EP_STATE_CONNECTED);
            disconnect(one, other);
            assert_int_equal(one.state(), DAT_EP_STATE_DISCONNECTED);
            done(dat().ep_reset_func(one.ep));
            done(dat().ep_reset_func(other.ep));
            assert_int_equal(one.state(), DAT_EP_STATE_UNCONNECTED);
        }
        one.free();
        other.free();
        close(on);
    }
}

void status_tells_what_is_outstanding(void **) {
    adapter on;
    end one(on), other(on);
    connect(one, other);
    memory area(on);
    DAT_LMR_TRIPLET part = area.part(0, 64);
    DAT_BOOLEAN receives, requests;
    done(dat().ep_get_status_func(one.ep, nullptr, &receives, &requests));
    assert_true(receives == DAT_TRUE && requests == DAT_TRUE);
    done(dat().ep_post_recv_func(one.ep, 1, &part, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
    net().pause();
    done(dat().ep_post_send_func(one.ep, 1, &part, cookie(2), DAT_COMPLETION_DEFAULT_FLAG));
    done(dat().ep_get_status_func(one.ep, nullptr, &receives, &requests));
    assert_true(receives == DAT_FALSE && requests == DAT_FALSE);
    DAT_COUNT allocated, span;
    done(dat().ep_recv_query_func(one.ep, &allocated, &span));
    assert_int_equal(allocated, 1);
    assert_int_equal(span, 1);
    disconnect(one, other);
    const DAT_EVENT sent = next(one.requests, DAT_DTO_COMPLETION_EVENT);
    assert_int_equal(sent.event_data.dto_completion_event_data.status, DAT_DTO_ERR_FLUSHED);
    const DAT_EVENT got = next(one.receives, DAT_DTO_COMPLETION_EVENT);
    assert_int_equal(got.event_data.dto_completion_event_data.status, DAT_DTO_ERR_FLUSHED);
    done(dat().ep_get_status_func(one.ep, nullptr, &receives, &requests));
    assert_true(receives == DAT_TRUE && requests == DAT_TRUE);
    one.free();
    other.free();
    area.free();
    close(on);
}

void freeing_it_ends_its_connection(void **) {
    for (const char *name : {"ib", "iw"}) {
        adapter on(name);
        end one(on), other(on);
        connect(one, other);
        one.free();
        next(other.connections, DAT_CONNECTION_EVENT_DISCONNECTED);
        assert_int_equal(other.state(), DAT_EP_STATE_DISCONNECTED);
        other.free();
        close(on);
    }
}

} // namespace

int main() {
    register_names();
    const CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(query_tells_what_it_was_made_of, fresh, gone),
        cmocka_unit_test_setup_teardown(attributes_are_what_was_asked_for, fresh, gone),
        cmocka_unit_test_setup_teardown(without_a_queue_it_needs_no_evd_for_it, fresh, gone),
        cmocka_unit_test_setup_teardown(what_it_uses_cannot_be_freed_before_it, fresh, gone),
        cmocka_unit_test_setup_teardown(modify_makes_it_longer, fresh, gone),
        cmocka_unit_test_setup_teardown(modify_gives_it_what_it_lacks, fresh, gone),
        cmocka_unit_test_setup_teardown(modify_to_the_same_changes_nothing, fresh, gone),
        cmocka_unit_test_setup_teardown(modify_to_others_lets_the_first_go, fresh, gone),
        cmocka_unit_test_setup_teardown(a_refused_modify_leaves_everything, fresh, gone),
        cmocka_unit_test_setup_teardown(posted_receives_forbid_modify, fresh, gone),
        cmocka_unit_test_setup_teardown(it_connects_again_after_a_reset, fresh, gone),
        cmocka_unit_test_setup_teardown(status_tells_what_is_outstanding, fresh, gone),
        cmocka_unit_test_setup_teardown(freeing_it_ends_its_connection, fresh, gone),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
