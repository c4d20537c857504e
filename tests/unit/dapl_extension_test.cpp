// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The extensions for InfiniBand: immediate data, atomic operations, datagrams, open_query.

#include "two.hpp"

#include <dat2/dat_ib_extensions.h>

using namespace played;

namespace {

constexpr DAT_COMPLETION_FLAGS plain = DAT_COMPLETION_DEFAULT_FLAG;

/// The next event, which brings more than DAT has words for.
struct extended {
    extended(DAT_EVD_HANDLE evd, DAT_UINT32 number)
        : event(next(evd, number)) {
        std::memcpy(&more, event.event_extension_data, sizeof more);
    }
    const DAT_DTO_COMPLETION_EVENT_DATA &dto() const {
        return event.event_data.dto_completion_event_data;
    }
    DAT_EVENT event;
    DAT_IB_EXTENSION_EVENT_DATA more;
};

void immediate_data_comes_with_a_write(void **) {
    two_ends all;
    all.here.fill(4);
    done(all.receive(0, 1));
    DAT_LMR_TRIPLET part = all.here.part(0, 500);
    const DAT_RMR_TRIPLET where = all.there.remote(0, 500);
    done(dat_ib_post_rdma_write_immed(all.one.ep, 1, &part, cookie(2), &where, 0x12345678, plain));
    const extended sent(all.one.requests, DAT_IB_DTO_EVENT);
    assert_int_equal(sent.more.type, DAT_IB_RDMA_WRITE_IMMED);
    assert_int_equal(sent.more.status, DAT_OP_SUCCESS);
    assert_int_equal(sent.dto().user_cookie.as_64, 2);
    assert_int_equal(sent.dto().transfered_length, 500);
    const extended got(all.other.receives, DAT_IB_DTO_EVENT);
    assert_int_equal(got.more.type, DAT_IB_RDMA_WRITE_IMMED_DATA);
    assert_int_equal(got.more.val.immed.data, 0x12345678);
    assert_int_equal(got.dto().user_cookie.as_64, 1);
    assert_int_equal(got.dto().operation, DAT_IB_DTO_RECV_IMMED);
    assert_memory_equal(all.there.bytes.data(), all.here.bytes.data(), 500);
    all.free();
}

void words_are_added_and_swapped(void **) {
    two_ends all;
    memory words(all.on, 64,
                 DAT_MEM_PRIV_ALL_FLAG |
                     static_cast<DAT_MEM_PRIV_FLAGS>(DAT_IB_MEM_PRIV_REMOTE_ATOMIC));
    std::uint64_t word = 40;
    std::memcpy(words.bytes.data() + 8, &word, 8);
    DAT_LMR_TRIPLET before = all.here.part(0, 8);
    const DAT_RMR_TRIPLET where = words.remote(8, 8);
    const auto brought = [&] {
        std::uint64_t value;
        std::memcpy(&value, all.here.bytes.data(), 8);
        return value;
    };
    const auto is_now = [&] {
        std::uint64_t value;
        std::memcpy(&value, words.bytes.data() + 8, 8);
        return value;
    };
    done(dat_ib_post_fetch_and_add(all.one.ep, 2, &before, cookie(1), &where, plain));
    const extended added(all.one.requests, DAT_IB_DTO_EVENT);
    assert_int_equal(added.dto().status, DAT_DTO_SUCCESS);
    assert_int_equal(added.more.type, DAT_IB_FETCH_AND_ADD);
    assert_int_equal(brought(), 40);
    assert_int_equal(is_now(), 42);
    done(dat_ib_post_cmp_and_swap(all.one.ep, 41, 7, &before, cookie(2), &where, plain));
    const extended not_swapped(all.one.requests, DAT_IB_DTO_EVENT);
    assert_int_equal(not_swapped.more.type, DAT_IB_CMP_AND_SWAP);
    assert_int_equal(brought(), 42);
    assert_int_equal(is_now(), 42);
    done(dat_ib_post_cmp_and_swap(all.one.ep, 42, 7, &before, cookie(3), &where, plain));
    const extended swapped(all.one.requests, DAT_IB_DTO_EVENT);
    assert_int_equal(swapped.dto().user_cookie.as_64, 3);
    assert_int_equal(is_now(), 7);
    words.free();
    all.free();
}

void an_extension_that_fails_says_so(void **) {
    two_ends all;
    DAT_LMR_TRIPLET part = all.here.part(0, 8);
    DAT_RMR_TRIPLET where = all.there.remote(0, 8);
    where.rmr_context = 0xdead;
    done(dat_ib_post_fetch_and_add(all.one.ep, 2, &part, cookie(1), &where, plain));
    const extended failed(all.one.requests, DAT_IB_DTO_EVENT);
    assert_int_equal(failed.more.status, DAT_IB_OP_ERR);
    assert_int_equal(failed.dto().status, DAT_DTO_ERR_REMOTE_ACCESS);
    next(all.one.connections, DAT_CONNECTION_EVENT_BROKEN);
    assert_true(eventually([&] { return all.other.state() == DAT_EP_STATE_DISCONNECTED; }));
    all.free();
}

void iwarp_has_none(void **) {
    two_ends all("iw");
    DAT_LMR_TRIPLET part = all.here.part(0, 8);
    const DAT_RMR_TRIPLET where = all.there.remote(0, 8);
    const DAT_RETURN none = error(DAT_NOT_IMPLEMENTED);
    assert_int_equal(dat_ib_post_fetch_and_add(all.one.ep, 1, &part, cookie(1), &where, plain),
                     none);
    assert_int_equal(
        dat_ib_post_rdma_write_immed(all.one.ep, 1, &part, cookie(1), &where, 1, plain), none);
    DAT_EP_ATTR attr = {};
    attr.service_type = static_cast<DAT_SERVICE_TYPE>(DAT_IB_SERVICE_TYPE_UD);
    attr.max_request_dtos = attr.max_recv_dtos = 4;
    attr.max_request_iov = attr.max_recv_iov = 1;
    DAT_EP_HANDLE made;
    assert_int_equal(dat().ep_create_func(all.on.ia, all.on.pz, all.one.receives, all.one.requests,
                                          all.one.connections, &attr, &made),
                     wrong_argument(6));
    all.free();
}

void a_device_without_atomics(void **) {
    net().devices[0].limits.atomic_cap = IBV_ATOMIC_NONE;
    two_ends all;
    DAT_LMR_TRIPLET part = all.here.part(0, 8);
    const DAT_RMR_TRIPLET where = all.there.remote(0, 8);
    assert_int_equal(dat_ib_post_fetch_and_add(all.one.ep, 1, &part, cookie(1), &where, plain),
                     error(DAT_MODEL_NOT_SUPPORTED));
    all.free();
}

void a_name_is_asked(void **) {
    DAT_IA_ATTR ia_attr = {};
    DAT_PROVIDER_ATTR provider_attr = {};
    DAT_IA_HANDLE ia;
    char name[] = "ib";
    // As the registry calls it, which has found the provider by the name.
    done(dat_extension_op(name, DAT_IB_OPEN_QUERY_OP, &ia, DAT_IA_FIELD_ALL, &ia_attr,
                          DAT_PROVIDER_FIELD_ALL, &provider_attr));
    assert_string_equal(ia_attr.adapter_name, "played0");
    assert_string_equal(provider_attr.provider_name, "coherdma");
    done(dat_ib_close_query(ia));
    assert_int_equal(dat_ib_close_query(ia), no_handle(DAT_INVALID_HANDLE_IA));
    assert_int_equal(dat_extension_op(name, DAT_IB_OPEN_QUERY_OP, nullptr, DAT_IA_FIELD_ALL,
                                      &ia_attr, DAT_PROVIDER_FIELD_ALL, &provider_attr),
                     wrong_argument(3));
}

// -- datagrams

DAT_EP_ATTR for_datagrams() {
    DAT_EP_ATTR attr = {};
    attr.service_type = static_cast<DAT_SERVICE_TYPE>(DAT_IB_SERVICE_TYPE_UD);
    attr.max_request_dtos = attr.max_recv_dtos = 4;
    attr.max_request_iov = attr.max_recv_iov = 1;
    return attr;
}

/// One who looks for another.
struct datagrams {
    datagrams()
        : one(on, &attr)
        , other(on, &attr)
        , requests(on.evd(DAT_EVD_CR_FLAG))
        , area(on) {
        done(dat().psp_create_func(on.ia, 4000, requests, DAT_PSP_CONSUMER_FLAG, &psp));
    }
    void free() {
        done(dat().psp_free_func(psp));
        one.free();
        other.free();
        area.free();
        done(dat().evd_free_func(requests));
        close(on);
    }
    void look(DAT_CONN_QUAL port, const char *words = "") const {
        place to = at(on.address);
        done(dat().ep_connect_func(
            one.ep, &to.any, port, soon, static_cast<DAT_COUNT>(std::strlen(words)),
            const_cast<char *>(words), DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
    }
    DAT_CR_HANDLE asked() const {
        const DAT_EVENT event = next(requests, DAT_IB_UD_CONNECTION_REQUEST_EVENT);
        return event.event_data.cr_arrival_event_data.cr_handle;
    }
    adapter on;
    DAT_EP_ATTR attr = for_datagrams();
    end one, other;
    DAT_EVD_HANDLE requests;
    memory area;
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
};

void datagrams_go_where_they_were_told(void **) {
    datagrams with;
    with.look(4000, "who");
    DAT_CR_HANDLE const request = with.asked();
    DAT_CR_PARAM param = {};
    done(dat().cr_query_func(request, DAT_CR_FIELD_ALL, &param));
    assert_memory_equal(param.private_data, "who", 3);
    done(dat().cr_accept_func(request, with.other.ep, 2, const_cast<char *>("me")));
    extended found(with.one.connections, DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED);
    extended asked(with.other.connections, DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED);
    assert_int_equal(found.more.type, DAT_IB_UD_REMOTE_AH);
    assert_int_equal(asked.more.type, DAT_IB_UD_PASSIVE_REMOTE_AH);
    assert_memory_equal(found.event.event_data.connect_event_data.private_data, "me", 2);
    assert_int_equal(found.more.remote_ah.qpn, pair_of(with.other.ep)->qp_num);
    assert_int_equal(asked.more.remote_ah.qpn, pair_of(with.one.ep)->qp_num);
    with.area.fill(6);
    DAT_LMR_TRIPLET to = with.area.part(1024, 140), from = with.area.part(0, 100);
    done(dat().ep_post_recv_func(with.other.ep, 1, &to, cookie(1), plain));
    done(dat_ib_post_send_ud(with.one.ep, 1, &from, &found.more.remote_ah, cookie(2), plain));
    assert_int_equal(extended(with.one.requests, DAT_IB_DTO_EVENT).more.type, DAT_IB_UD_SEND);
    const extended got(with.other.receives, DAT_IB_DTO_EVENT);
    assert_int_equal(got.more.type, DAT_IB_UD_RECV);
    assert_int_equal(got.more.remote_ah.qpn, pair_of(with.one.ep)->qp_num);
    assert_memory_equal(with.area.bytes.data() + 1024 + 40, with.area.bytes.data(), 100);
    // What is suppressed is not told, though it completes.
    done(dat_ib_post_send_ud(with.one.ep, 1, &from, &found.more.remote_ah, cookie(3),
                             DAT_COMPLETION_SUPPRESS_FLAG));
    none(with.one.requests);
    done(dat_ib_ud_ah_free(with.one.ep, &found.more.remote_ah));
    done(dat_ib_ud_ah_free(with.other.ep, &asked.more.remote_ah));
    done(dat_ib_ud_cm_free(with.one.ep, found.more.context.as_ptr));
    assert_int_equal(dat_ib_ud_cm_free(with.one.ep, found.more.context.as_ptr), wrong_argument(3));
    with.free();
}

void one_endpoint_meets_many(void **) {
    datagrams with;
    for (int turn = 0; turn != 3; ++turn) {
        with.look(4000);
        done(dat().cr_accept_func(with.asked(), with.other.ep, 0, nullptr));
        for (const end *each : {&with.one, &with.other}) {
            extended met(each->connections, DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED);
            done(dat_ib_ud_ah_free(each->ep, &met.more.remote_ah));
        }
    }
    with.free();
}

void a_datagram_peer_may_refuse(void **) {
    datagrams with;
    with.look(4000);
    done(dat().cr_reject_func(with.asked(), 0, nullptr));
    assert_int_equal(extended(with.one.connections, DAT_IB_UD_CONNECTION_REJECT_EVENT).more.type,
                     DAT_IB_UD_CONNECT_REJECT);
    with.look(9999); // nobody is there
    next(with.one.connections, DAT_IB_UD_CONNECTION_REJECT_EVENT);
    net().addresses = {-EHOSTUNREACH};
    with.look(4000);
    assert_int_equal(extended(with.one.connections, DAT_IB_UD_CONNECTION_ERROR_EVENT).more.type,
                     DAT_IB_UD_CONNECT_ERROR);
    with.free();
}

void datagrams_and_connections_do_not_meet(void **) {
    datagrams with;
    end connected(with.on);
    with.look(4000);
    DAT_CR_HANDLE const request = with.asked();
    assert_int_equal(dat().cr_accept_func(request, connected.ep, 0, nullptr),
                     no_handle(DAT_INVALID_HANDLE_EP));
    done(dat().cr_reject_func(request, 0, nullptr));
    next(with.one.connections, DAT_IB_UD_CONNECTION_REJECT_EVENT);
    connected.free();
    with.free();
}

} // namespace

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)

int main() {
    register_names();
    const CMUnitTest tests[] = {
        TEST(immediate_data_comes_with_a_write), TEST(words_are_added_and_swapped),
        TEST(an_extension_that_fails_says_so),   TEST(iwarp_has_none),
        TEST(a_device_without_atomics),          TEST(a_name_is_asked),
        TEST(datagrams_go_where_they_were_told), TEST(one_endpoint_meets_many),
        TEST(a_datagram_peer_may_refuse),        TEST(datagrams_and_connections_do_not_meet),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
