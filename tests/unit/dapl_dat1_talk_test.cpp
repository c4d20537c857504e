// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A program of DAT 1.2 talks with one of 2.0: both have their IAs open in this process.

#include "dat1.hpp"

#include "faces/dat1_calls.hpp"

#include <dat2/dat_ib_extensions.h>

using namespace played;
namespace dat1 = by1::dat1;

namespace {

constexpr DAT_COMPLETION_FLAGS plain = DAT_COMPLETION_DEFAULT_FLAG;

/// One end by 1.2 and the other by 2.0, connected: the first asks.
struct old_and_new {
    explicit old_and_new(const char *name = "ib")
        : one(name)
        , other(name)
        , old_end(one)
        , new_end(other)
        , here(one)
        , there(other) {
        DAT_EVD_HANDLE const requests = other.evd(DAT_EVD_CR_FLAG);
        DAT_CONN_QUAL port = 0;
        DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
        done(dat().psp_create_any_func(other.ia, &port, requests, DAT_PSP_CONSUMER_FLAG, &psp));
        place to = at(other.address);
        std::string words = "from 1.2";
        done(by1::dat().ep_connect_func(old_end.ep, &to.any, port, DAT_TIMEOUT_INFINITE, 8,
                                        words.data(), DAT_QOS_BEST_EFFORT,
                                        DAT_CONNECT_DEFAULT_FLAG));
        const DAT_EVENT event = next(requests, DAT_CONNECTION_REQUEST_EVENT);
        DAT_CR_HANDLE const request = event.event_data.cr_arrival_event_data.cr_handle;
        DAT_CR_PARAM asked = {};
        done(dat().cr_query_func(request, DAT_CR_FIELD_ALL, &asked));
        assert_memory_equal(asked.private_data, words.data(), 8);
        words = "from 2.0";
        done(dat().cr_accept_func(request, new_end.ep, 8, words.data()));
        next(new_end.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
        const dat1::event now = by1::next(old_end.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
        const auto &data = now.event_data.connect_event_data;
        assert_ptr_equal(data.ep_handle, old_end.ep);
        assert_true(data.private_data_size >= 8);
        assert_memory_equal(data.private_data, words.data(), 8);
        done(dat().psp_free_func(psp));
        done(dat().evd_free_func(requests));
    }
    void free() {
        done(by1::dat().ep_disconnect_func(old_end.ep, DAT_CLOSE_ABRUPT_FLAG));
        by1::next(old_end.connections, DAT_CONNECTION_EVENT_DISCONNECTED);
        next(new_end.connections, DAT_CONNECTION_EVENT_DISCONNECTED);
        old_end.free();
        new_end.free();
        here.free();
        there.free();
        one.close();
        close(other);
    }
    dat1::rmr_triplet target(std::size_t offset, DAT_VLEN length) const {
        return {there.rmr_context, 0, there.begin + offset, length};
    }

    by1::adapter one;
    adapter other;
    by1::end old_end;
    end new_end;
    by1::memory here;
    memory there;
};

void sends_both_ways(void **) {
    for (const char *name : {"ib", "iw"}) {
        fresh(nullptr);
        old_and_new all(name);
        all.here.fill(3);
        DAT_LMR_TRIPLET into = all.there.part(0, 4096);
        done(dat().ep_post_recv_func(all.new_end.ep, 1, &into, cookie(1), plain));
        dat1::lmr_triplet from = all.here.part(0, 4096);
        done(by1::dat().ep_post_send_func(all.old_end.ep, 1, &from, cookie(2), plain));
        by1::completed(by1::taken(all.old_end.requests, DAT_DTO_COMPLETION_EVENT), all.old_end.ep,
                       2, 4096);
        completed(all.new_end.receives, 1, DAT_DTO_SUCCESS, 4096);
        assert_memory_equal(all.here.bytes.data(), all.there.bytes.data(), 4096);

        all.there.fill(77);
        done(by1::dat().ep_post_recv_func(all.old_end.ep, 1, &from, cookie(3), plain));
        into = all.there.part(0, 100);
        done(dat().ep_post_send_func(all.new_end.ep, 1, &into, cookie(4), plain));
        by1::completed(by1::next(all.old_end.receives, DAT_DTO_COMPLETION_EVENT), all.old_end.ep, 3,
                       100);
        completed(all.new_end.requests, 4, DAT_DTO_SUCCESS, 100);
        assert_memory_equal(all.here.bytes.data(), all.there.bytes.data(), 100);
        all.free();
    }
}

void writes_and_reads(void **) {
    old_and_new all;
    all.here.fill(5);
    dat1::lmr_triplet part = all.here.part(64, 1000);
    dat1::rmr_triplet where = all.target(100, 1000);
    done(by1::dat().ep_post_rdma_write_func(all.old_end.ep, 1, &part, cookie(1), &where, plain));
    by1::completed(by1::next(all.old_end.requests, DAT_DTO_COMPLETION_EVENT), all.old_end.ep, 1,
                   1000);
    assert_memory_equal(all.there.bytes.data() + 100, all.here.bytes.data() + 64, 1000);
    part = all.here.part(2000, 1000);
    done(by1::dat().ep_post_rdma_read_func(all.old_end.ep, 1, &part, cookie(2), &where, plain));
    by1::completed(by1::next(all.old_end.requests, DAT_DTO_COMPLETION_EVENT), all.old_end.ep, 2,
                   1000);
    assert_memory_equal(all.here.bytes.data() + 2000, all.here.bytes.data() + 64, 1000);
    // The other way round: 1.2's keys and addresses are 2.0's.
    DAT_LMR_TRIPLET from = all.there.part(0, 50);
    const DAT_RMR_TRIPLET to = {all.here.begin, 50, all.here.rmr_context};
    done(dat().ep_post_rdma_write_func(all.new_end.ep, 1, &from, cookie(3), &to, plain));
    completed(all.new_end.requests, 3, DAT_DTO_SUCCESS, 50);
    assert_memory_equal(all.here.bytes.data(), all.there.bytes.data(), 50);
    all.free();
}

void lists_of_segments(void **) {
    old_and_new all;
    all.here.fill(9);
    dat1::lmr_triplet from[4];
    for (std::size_t at = 0; at != 4; ++at)
        from[at] = all.here.part(at * 1000, 100 + at);
    const dat1::rmr_triplet where = all.target(0, 406);
    done(by1::dat().ep_post_rdma_write_func(all.old_end.ep, 4, from, cookie(1), &where, plain));
    by1::completed(by1::next(all.old_end.requests, DAT_DTO_COMPLETION_EVENT), all.old_end.ep, 1,
                   406);
    const unsigned char *to = all.there.bytes.data();
    for (std::size_t at = 0; at != 4; to += 100 + at, ++at)
        assert_memory_equal(to, all.here.bytes.data() + at * 1000, 100 + at);
    // What verbs were told of them, to the last member.
    const auto &heard = net().heard.back();
    assert_int_equal(heard.list.size(), 4);
    assert_int_equal(heard.list[3].addr, all.here.begin + 3000);
    assert_int_equal(heard.list[3].length, 103);
    assert_int_equal(heard.list[3].lkey, all.here.lmr_context);
    // And none at all.
    DAT_LMR_TRIPLET into = all.there.part(0, 64);
    done(dat().ep_post_recv_func(all.new_end.ep, 1, &into, cookie(2), plain));
    done(by1::dat().ep_post_send_func(all.old_end.ep, 0, nullptr, cookie(3), plain));
    by1::completed(by1::next(all.old_end.requests, DAT_DTO_COMPLETION_EVENT), all.old_end.ep, 3, 0);
    completed(all.new_end.receives, 2, DAT_DTO_SUCCESS, 0);
    all.free();
}

// A word beside a Write needs a receive, which 1.2 has no event of its own for.
void a_peers_immediate_data_end_a_receive(void **) {
    old_and_new all;
    dat1::lmr_triplet into = all.here.part(0, 64);
    done(by1::dat().ep_post_recv_func(all.old_end.ep, 1, &into, cookie(7), plain));
    DAT_LMR_TRIPLET from = all.there.part(0, 32);
    DAT_RMR_TRIPLET to = {all.here.begin, 32, all.here.rmr_context};
    done(dat_ib_post_rdma_write_immed(all.new_end.ep, 1, &from, cookie(8), &to, 0x1234, plain));
    by1::completed(by1::next(all.old_end.receives, DAT_DTO_COMPLETION_EVENT), all.old_end.ep, 7,
                   32);
    next(all.new_end.requests, DAT_IB_DTO_EVENT);
    all.free();
}

// 1.2 listens, and refuses without a word: its call has no place for any.
void it_rejects_and_accepts(void **) {
    by1::adapter one;
    adapter other;
    end asks(other), asks_again(other);
    by1::end answers(one);
    DAT_EVD_HANDLE const requests = one.evd(DAT_EVD_CR_FLAG);
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    done(by1::dat().psp_create_func(one.ia, 7001, requests, DAT_PSP_CONSUMER_FLAG, &psp));
    DAT_PSP_PARAM listens = {};
    done(by1::dat().psp_query_func(psp, DAT_PSP_FIELD_ALL, &listens));
    assert_int_equal(listens.conn_qual, 7001);
    assert_ptr_equal(listens.evd_handle, requests);
    for (const end *each : {&asks, &asks_again}) {
        place to = at(one.address);
        done(dat().ep_connect_func(each->ep, &to.any, 7001, DAT_TIMEOUT_INFINITE, 0, nullptr,
                                   DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG));
        const dat1::event event = by1::next(requests, DAT_CONNECTION_REQUEST_EVENT);
        const auto &data = event.event_data.cr_arrival_event_data;
        assert_ptr_equal(data.sp_handle.psp_handle, psp);
        assert_int_equal(data.conn_qual, 7001);
        assert_non_null(data.local_ia_address_ptr);
        if (each == &asks) {
            done(by1::dat().cr_reject_func(data.cr_handle));
            next(each->connections, DAT_CONNECTION_EVENT_PEER_REJECTED);
            assert_int_equal(by1::dat().cr_reject_func(data.cr_handle),
                             no_handle(DAT_INVALID_HANDLE_CR));
        } else {
            done(by1::dat().cr_accept_func(data.cr_handle, answers.ep, 0, nullptr));
            next(each->connections, DAT_CONNECTION_EVENT_ESTABLISHED);
            by1::next(answers.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
        }
    }
    done(by1::dat().psp_free_func(psp));
    done(by1::dat().evd_free_func(requests));
    done(dat().ep_disconnect_func(asks_again.ep, DAT_CLOSE_ABRUPT_FLAG));
    by1::next(answers.connections, DAT_CONNECTION_EVENT_DISCONNECTED);
    asks.free();
    asks_again.free();
    answers.free();
    one.close();
    close(other);
}

const dat1::remote_calls &beyond() {
    const auto *const calls = static_cast<const dat1::remote_calls *>(by1::dat().extension);
    assert_int_equal(calls->magic, 0x616d6472656f6863);
    return *calls;
}

void words_are_written_and_flushed(void **) {
    old_and_new all;
    const dat1::remote_calls &more = beyond();
    DAT_COHERDMA_WAYS ways = {};
    done(more.query_ways(all.old_end.ep, &ways));
    assert_int_equal(ways.atomic_write, DAT_COHERDMA_WAY_INLINE);
    assert_int_equal(ways.flush, DAT_COHERDMA_WAY_READ);
    const std::uint64_t word = 0x0102030405060708;
    const dat1::rmr_triplet where = all.target(800, 8), odd = all.target(801, 8);
    done(more.post_atomic_write(all.old_end.ep, &word, nullptr, cookie(1), &where, plain));
    by1::completed(by1::next(all.old_end.requests, DAT_DTO_COMPLETION_EVENT), all.old_end.ep, 1, 8);
    assert_memory_equal(all.there.bytes.data() + 800, &word, 8);
    assert_int_equal(more.post_atomic_write(all.old_end.ep, &word, nullptr, cookie(1), &odd, plain),
                     by1::wrong_argument(5));
    // Of a range that 2.0 has no length for, the end is what is flushed; below valgrind's heap
    // there is no room for one.
    const DAT_VLEN huge = all.there.begin > UINT64_C(5) << 32 ? UINT64_C(5) << 32 : 0;
    dat1::rmr_triplet range = all.target(0, huge + 808);
    range.target_address -= huge;
    const dat1::lmr_triplet into = all.here.part(0, 64);
    std::memset(all.here.bytes.data(), 0xee, 64);
    done(more.post_flush(all.old_end.ep, &into, cookie(2), &range, plain));
    by1::completed(by1::next(all.old_end.requests, DAT_DTO_COMPLETION_EVENT), all.old_end.ep, 2,
                   huge != 0 ? UINT32_MAX : 808);
    assert_memory_equal(all.here.bytes.data(), &word, 8);
    assert_int_equal(all.here.bytes[8], 0xee);
    assert_int_equal(more.post_flush(all.old_end.ep, nullptr, cookie(2), &range, plain),
                     by1::wrong_argument(2));
    all.free();
}

// What has failed says so, and what goes with it.
void failures_are_told(void **) {
    old_and_new all;
    dat1::lmr_triplet part = all.here.part(0, 64);
    const dat1::rmr_triplet nowhere = {0x666, 0, 1, 64};
    done(by1::dat().ep_post_rdma_write_func(all.old_end.ep, 1, &part, cookie(1), &nowhere, plain));
    by1::completed(by1::next(all.old_end.requests, DAT_DTO_COMPLETION_EVENT), all.old_end.ep, 1, 0,
                   DAT_DTO_ERR_REMOTE_ACCESS);
    by1::next(all.old_end.connections, DAT_CONNECTION_EVENT_BROKEN);
    next(all.new_end.connections, DAT_CONNECTION_EVENT_DISCONNECTED);
    all.old_end.free();
    all.new_end.free();
    all.here.free();
    all.there.free();
    all.one.close();
    close(all.other);
}

} // namespace

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)

int main() {
    by1::register_names();
    const CMUnitTest tests[] = {
        TEST(sends_both_ways),
        TEST(writes_and_reads),
        TEST(lists_of_segments),
        TEST(a_peers_immediate_data_end_a_receive),
        TEST(it_rejects_and_accepts),
        TEST(failures_are_told),
        TEST(words_are_written_and_flushed),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
