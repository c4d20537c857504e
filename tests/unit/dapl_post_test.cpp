// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Transfers: what is moved, what verbs are told, what the completions say.

#include "two.hpp"

using namespace played;

namespace {

constexpr DAT_COMPLETION_FLAGS plain = DAT_COMPLETION_DEFAULT_FLAG;

const ibv_send_wr &last_heard() {
    return net().heard.back().wr;
}

void a_send_comes_as_it_was(void **) {
    for (const char *name : {"ib", "iw"})
        for (const DAT_SEG_LENGTH length : {0U, 1U, 64U, 65U, 4096U}) {
            fresh(nullptr);
            two_ends all(name);
            all.here.fill(length);
            done(all.receive(4096, 1));
            done(all.send(length, 2));
            const auto sent = completed(all.one.requests, 2, DAT_DTO_SUCCESS, length);
            assert_int_equal(sent.operation, DAT_DTO_SEND);
            assert_ptr_equal(sent.ep_handle, all.one.ep);
            const auto got = completed(all.other.receives, 1, DAT_DTO_SUCCESS, length);
            assert_int_equal(got.operation, DAT_DTO_RECEIVE);
            assert_ptr_equal(got.ep_handle, all.other.ep);
            assert_memory_equal(all.here.bytes.data(), all.there.bytes.data(), length);
            all.free();
        }
}

void short_requests_are_inline(void **) {
    const struct {
        DAT_SEG_LENGTH length;
        bool copied;
    } lengths[] = {{1, true}, {64, true}, {65, false}, {0, false}};
    two_ends all;
    const DAT_RMR_TRIPLET where = all.there.remote(0, 4096);
    for (const auto &each : lengths) {
        DAT_LMR_TRIPLET part = all.here.part(0, each.length);
        done(dat().ep_post_rdma_write_func(all.one.ep, 1, &part, cookie(1), &where, plain));
        assert_int_equal((last_heard().send_flags & IBV_SEND_INLINE) != 0, each.copied);
        completed(all.one.requests, 1, DAT_DTO_SUCCESS, each.length);
        done(dat().ep_post_rdma_read_func(all.one.ep, 1, &part, cookie(2), &where, plain));
        assert_int_equal(last_heard().send_flags & IBV_SEND_INLINE, 0); // what it brings is not
        completed(all.one.requests, 2, DAT_DTO_SUCCESS, each.length);
    }
    all.free();
}

void flags_are_what_verbs_hear(void **) {
    const struct {
        DAT_COMPLETION_FLAGS flags;
        unsigned heard;
    } all_flags[] = {
        {DAT_COMPLETION_DEFAULT_FLAG, IBV_SEND_SIGNALED},
        {DAT_COMPLETION_SUPPRESS_FLAG, 0},
        {DAT_COMPLETION_SOLICITED_WAIT_FLAG, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED},
        {DAT_COMPLETION_BARRIER_FENCE_FLAG, IBV_SEND_SIGNALED | IBV_SEND_FENCE},
        {DAT_COMPLETION_UNSIGNALLED_FLAG, IBV_SEND_SIGNALED},
    };
    two_ends all;
    for (const auto &each : all_flags) {
        done(all.receive(128, 1));
        done(all.send(128, 2, each.flags));
        assert_int_equal(last_heard().send_flags, each.heard);
        if ((each.flags & DAT_COMPLETION_SUPPRESS_FLAG) == 0)
            completed(all.one.requests, 2, DAT_DTO_SUCCESS, 128);
        none(all.one.requests);
        completed(all.other.receives, 1, DAT_DTO_SUCCESS, 128);
    }
    all.free();
}

void suppressed_ones_end_with_the_next(void **) {
    DAT_EP_ATTR attr = {};
    attr.max_recv_dtos = attr.max_request_dtos = 4;
    attr.max_recv_iov = attr.max_request_iov = 1;
    two_ends all("ib", &attr);
    const DAT_RMR_TRIPLET where = all.there.remote(0, 4096);
    DAT_LMR_TRIPLET part = all.here.part(0, 128);
    for (std::uint64_t turn = 0; turn != 5; ++turn) {
        for (int each = 0; each != 3; ++each)
            done(dat().ep_post_rdma_write_func(all.one.ep, 1, &part, cookie(0), &where,
                                               DAT_COMPLETION_SUPPRESS_FLAG));
        done(dat().ep_post_rdma_write_func(all.one.ep, 1, &part, cookie(turn), &where, plain));
        assert_int_equal(
            dat().ep_post_rdma_write_func(all.one.ep, 1, &part, cookie(9), &where, plain),
            error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY)); // until it is dequeued
        completed(all.one.requests, turn, DAT_DTO_SUCCESS, 128);
    }
    all.free();
}

void as_many_receives_as_were_asked_for(void **) {
    DAT_EP_ATTR attr = {};
    attr.max_recv_dtos = attr.max_request_dtos = 3;
    attr.max_recv_iov = attr.max_request_iov = 1;
    two_ends all("ib", &attr);
    for (std::uint64_t turn = 0; turn != 10; ++turn) {
        while (all.receive(64, turn) == DAT_SUCCESS) {
        }
        assert_int_equal(all.receive(64, 0),
                         error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
        done(all.send(64, turn));
        completed(all.one.requests, turn, DAT_DTO_SUCCESS, 64);
        next(all.other.receives, DAT_DTO_COMPLETION_EVENT);
    }
    all.free();
}

void lists_are_gathered_and_scattered(void **) {
    two_ends all;
    all.here.fill(9);
    DAT_LMR_TRIPLET from[4], to[4];
    for (std::size_t at = 0; at != 4; ++at) {
        from[at] = all.here.part(at * 1000, 100);
        to[at] = all.there.part(at * 500, 100);
    }
    done(dat().ep_post_recv_func(all.other.ep, 4, to, cookie(1), plain));
    done(dat().ep_post_send_func(all.one.ep, 4, from, cookie(2), plain));
    completed(all.one.requests, 2, DAT_DTO_SUCCESS, 400);
    completed(all.other.receives, 1, DAT_DTO_SUCCESS, 400);
    for (std::size_t at = 0; at != 4; ++at)
        assert_memory_equal(all.here.bytes.data() + at * 1000, all.there.bytes.data() + at * 500,
                            100);
    all.free();
}

void no_segments_are_an_empty_message(void **) {
    two_ends all;
    done(dat().ep_post_recv_func(all.other.ep, 0, nullptr, cookie(1), plain));
    done(dat().ep_post_send_func(all.one.ep, 0, nullptr, cookie(2), plain));
    completed(all.one.requests, 2, DAT_DTO_SUCCESS, 0);
    completed(all.other.receives, 1, DAT_DTO_SUCCESS, 0);
    all.free();
}

void write_and_read(void **) {
    for (const char *name : {"ib", "iw"}) {
        fresh(nullptr);
        two_ends all(name);
        all.here.fill(5);
        const DAT_RMR_TRIPLET where = all.there.remote(100, 1000);
        DAT_LMR_TRIPLET from = all.here.part(0, 1000), back = all.here.part(2000, 1000);
        done(dat().ep_post_rdma_write_func(all.one.ep, 1, &from, cookie(1), &where, plain));
        const auto written = completed(all.one.requests, 1, DAT_DTO_SUCCESS, 1000);
        assert_int_equal(written.operation, DAT_DTO_RDMA_WRITE);
        assert_memory_equal(all.there.bytes.data() + 100, all.here.bytes.data(), 1000);
        done(dat().ep_post_rdma_read_func(all.one.ep, 1, &back, cookie(2), &where, plain));
        const auto read = completed(all.one.requests, 2, DAT_DTO_SUCCESS, 1000);
        assert_int_equal(read.operation, DAT_DTO_RDMA_READ);
        assert_memory_equal(all.here.bytes.data() + 2000, all.here.bytes.data(), 1000);
        all.free();
    }
}

void read_to_what_a_peer_would_name(void **) {
    two_ends all;
    all.there.fill(8);
    const DAT_RMR_TRIPLET from = all.there.remote(0, 512);
    const DAT_RMR_TRIPLET to = all.here.remote(1024, 512);
    done(dat().ep_post_rdma_read_to_rmr_func(all.one.ep, &to, cookie(1), &from, plain));
    completed(all.one.requests, 1, DAT_DTO_SUCCESS, 512);
    assert_memory_equal(all.here.bytes.data() + 1024, all.there.bytes.data(), 512);
    all.free();
}

void send_takes_a_window_away(void **) {
    two_ends all;
    DAT_RMR_HANDLE rmr;
    DAT_RMR_CONTEXT context = 0;
    done(dat().rmr_create_func(all.on.pz, &rmr));
    const DAT_LMR_TRIPLET part = all.there.part(0, 64);
    done(dat().rmr_bind_func(rmr, all.there.lmr, &part, DAT_MEM_PRIV_REMOTE_WRITE_FLAG,
                             DAT_VA_TYPE_VA, all.other.ep, cookie(0), plain, &context));
    next(all.other.requests, DAT_RMR_BIND_COMPLETION_EVENT);
    done(all.receive(64, 1));
    DAT_LMR_TRIPLET words = all.here.part(0, 64);
    done(dat().ep_post_send_with_invalidate_func(all.one.ep, 1, &words, cookie(2), plain, DAT_TRUE,
                                                 context));
    completed(all.one.requests, 2, DAT_DTO_SUCCESS, 64);
    const auto got = completed(all.other.receives, 1, DAT_DTO_SUCCESS, 64);
    assert_int_equal(got.operation, DAT_DTO_RECEIVE_WITH_INVALIDATE);
    assert_int_equal(got.rmr_context, context);
    // Without the flag it is a send.
    done(all.receive(64, 3));
    done(dat().ep_post_send_with_invalidate_func(all.one.ep, 1, &words, cookie(4), plain, DAT_FALSE,
                                                 context));
    completed(all.one.requests, 4, DAT_DTO_SUCCESS, 64);
    assert_int_equal(completed(all.other.receives, 3, DAT_DTO_SUCCESS, 64).operation,
                     DAT_DTO_RECEIVE);
    done(dat().rmr_free_func(rmr));
    all.free();
}

// -- what goes wrong

void broken(const two_ends &all, const end &by) {
    next(by.connections, DAT_CONNECTION_EVENT_BROKEN);
    assert_true(eventually([&] {
        return all.one.state() == DAT_EP_STATE_DISCONNECTED &&
               all.other.state() == DAT_EP_STATE_DISCONNECTED;
    }));
}

void a_key_of_nobody_breaks_the_connection(void **) {
    two_ends all;
    DAT_LMR_TRIPLET part = all.here.part(0, 128);
    part.lmr_context = 0xdead;
    done(dat().ep_post_send_func(all.one.ep, 1, &part, cookie(1), plain));
    completed(all.one.requests, 1, DAT_DTO_ERR_LOCAL_PROTECTION);
    broken(all, all.one);
    done(all.send(128, 2)); // is flushed
    completed(all.one.requests, 2, DAT_DTO_ERR_FLUSHED);
    all.free();
}

void a_peers_memory_without_privilege(void **) {
    two_ends all;
    memory readable(all.on, 64, DAT_MEM_PRIV_REMOTE_READ_FLAG);
    const DAT_RMR_TRIPLET where = readable.remote(0, 64);
    DAT_LMR_TRIPLET part = all.here.part(0, 64);
    done(dat().ep_post_rdma_write_func(all.one.ep, 1, &part, cookie(1), &where, plain));
    completed(all.one.requests, 1, DAT_DTO_ERR_REMOTE_ACCESS);
    broken(all, all.one);
    readable.free();
    all.free();
}

void a_message_that_is_longer_than_the_receive(void **) {
    two_ends all;
    done(all.receive(64, 1));
    done(all.send(128, 2));
    completed(all.other.receives, 1, DAT_DTO_ERR_LOCAL_LENGTH);
    completed(all.one.requests, 2, DAT_DTO_ERR_REMOTE_RESPONDER);
    broken(all, all.one);
    all.free();
}

void a_device_that_refuses_leaves_the_ring(void **) {
    two_ends all;
    for (int turn = 0; turn != 40; ++turn) { // more than there is room for
        net().wrong.fail("ibv_post_send", ENOMEM);
        assert_int_equal(all.send(64, 1), error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
        net().wrong.fail("ibv_post_recv", ENOMEM);
        assert_int_equal(all.receive(64, 1),
                         error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
    }
    net().wrong.stop();
    DAT_BOOLEAN receives, requests;
    done(dat().ep_get_status_func(all.one.ep, nullptr, &receives, &requests));
    assert_true(receives == DAT_TRUE && requests == DAT_TRUE);
    done(all.receive(64, 5));
    done(all.send(64, 6));
    completed(all.one.requests, 6, DAT_DTO_SUCCESS, 64);
    completed(all.other.receives, 5, DAT_DTO_SUCCESS, 64);
    all.free();
}

void receives_come_before_the_connection(void **) {
    adapter on;
    end one(on), other(on);
    memory area(on);
    DAT_LMR_TRIPLET part = area.part(0, 64);
    done(dat().ep_post_recv_func(other.ep, 1, &part, cookie(3), plain));
    connect(one, other);
    done(dat().ep_post_send_func(one.ep, 1, &part, cookie(4), plain));
    completed(other.receives, 3, DAT_DTO_SUCCESS, 64);
    disconnect(one, other);
    one.free();
    other.free();
    area.free();
    close(on);
}

} // namespace

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)

int main() {
    register_names();
    const CMUnitTest tests[] = {
        TEST(a_send_comes_as_it_was),
        TEST(short_requests_are_inline),
        TEST(flags_are_what_verbs_hear),
        TEST(suppressed_ones_end_with_the_next),
        TEST(as_many_receives_as_were_asked_for),
        TEST(lists_are_gathered_and_scattered),
        TEST(no_segments_are_an_empty_message),
        TEST(write_and_read),
        TEST(read_to_what_a_peer_would_name),
        TEST(send_takes_a_window_away),
        TEST(a_key_of_nobody_breaks_the_connection),
        TEST(a_peers_memory_without_privilege),
        TEST(a_message_that_is_longer_than_the_receive),
        TEST(a_device_that_refuses_leaves_the_ring),
        TEST(receives_come_before_the_connection),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
