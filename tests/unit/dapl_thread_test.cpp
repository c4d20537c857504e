// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Eight threads on one IA, with objects of their own and objects that all of them use; and what is
// freed while others use it. For the thread sanitizer, and for whoever wants to see it run.

#include "dapl/clock.hpp"
#include "dapl/events.hpp"
#include "two.hpp"

#include <atomic>
#include <thread>

using namespace played;

namespace {

constexpr int threads = 8;
constexpr DAT_COMPLETION_FLAGS plain = DAT_COMPLETION_DEFAULT_FLAG;

template <class what>
void by_all(what &&work) {
    std::vector<std::thread> all;
    for (int number = 0; number != threads; ++number)
        all.emplace_back([&work, number] { work(number); });
    for (std::thread &each : all)
        each.join();
}

void all_make_and_free(void **) {
    adapter on;
    by_all([&on](int) {
        for (int turn = 0; turn != 40; ++turn) {
            DAT_CNO_HANDLE const cno = on.cno();
            DAT_EVD_HANDLE const evd = on.evd(DAT_EVD_DTO_FLAG, 8, cno);
            DAT_PZ_HANDLE const zone = on.zone();
            memory area(on, 256, DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, zone);
            DAT_RMR_HANDLE rmr;
            done(dat().rmr_create_func(zone, &rmr));
            DAT_SRQ_HANDLE const srq = on.srq(4);
            end one(on, nullptr, srq);
            DAT_EP_PARAM param = {};
            done(dat().ep_query_func(one.ep, DAT_EP_FIELD_ALL, &param));
            assert_ptr_equal(param.srq_handle, srq);
            DAT_LMR_TRIPLET part = area.part(0, 64);
            done(dat().srq_post_recv_func(srq, 1, &part, cookie(1)));
            done(dat().lmr_sync_rdma_write_func(on.ia, &part, 1));
            DAT_CONN_QUAL port;
            DAT_PSP_HANDLE psp;
            DAT_EVD_HANDLE const requests = on.evd(DAT_EVD_CR_FLAG);
            done(dat().psp_create_any_func(on.ia, &port, requests, DAT_PSP_CONSUMER_FLAG, &psp));
            done(dat().psp_free_func(psp));
            done(dat().evd_free_func(requests));
            one.free();
            done(dat().srq_free_func(srq));
            done(dat().rmr_free_func(rmr));
            area.free();
            done(dat().pz_free_func(zone));
            done(dat().evd_free_func(evd));
            done(dat().cno_free_func(cno));
        }
    });
    close(on);
}

void all_connect_and_talk(void **) {
    for (const char *name : {"ib", "iw"}) {
        fresh(nullptr);
        adapter on(name);
        by_all([&on](int) {
            for (int turn = 0; turn != 5; ++turn) {
                end one(on), other(on);
                memory here(on), there(on);
                connect(one, other);
                for (std::uint64_t word = 0; word != 20; ++word) {
                    DAT_LMR_TRIPLET from = here.part(0, 100), to = there.part(0, 100);
                    done(dat().ep_post_recv_func(other.ep, 1, &to, cookie(word), plain));
                    done(dat().ep_post_send_func(one.ep, 1, &from, cookie(word), plain));
                    completed(one.requests, word, DAT_DTO_SUCCESS, 100);
                    completed(other.receives, word, DAT_DTO_SUCCESS, 100);
                }
                disconnect(one, other);
                one.free();
                other.free();
                here.free();
                there.free();
            }
        });
        close(on);
    }
}

void all_post_to_one_endpoint(void **) {
    DAT_EP_ATTR attr = {};
    attr.max_recv_dtos = attr.max_request_dtos = 100;
    attr.max_recv_iov = attr.max_request_iov = 1;
    two_ends all("ib", &attr);
    std::atomic<int> sent = 0, received = 0;
    constexpr int each_posts = 200;
    by_all([&](int number) {
        const bool sends = number % 2 == 0;
        DAT_EVENT event;
        const auto take = [&event](DAT_EVD_HANDLE evd, std::atomic<int> &count) {
            if (dat().evd_dequeue_func(evd, &event) == DAT_SUCCESS) {
                assert_int_equal(event.event_data.dto_completion_event_data.status,
                                 DAT_DTO_SUCCESS);
                ++count;
            }
        };
        const auto tries = [&] {
            take(all.one.requests, sent);
            take(all.other.receives, received);
        };
        for (int turn = 0; turn != each_posts; ++turn)
            while ((sends ? all.send(64, 1) : all.receive(64, 1)) != DAT_SUCCESS)
                tries();
        while (sent != each_posts * threads / 2 || received != each_posts * threads / 2)
            tries();
    });
    all.free();
}

void all_wait_in_turn_for_one_evd(void **) {
    adapter on;
    DAT_EVD_HANDLE const evd = on.evd(DAT_EVD_SOFTWARE_FLAG, 10000);
    std::atomic<int> taken = 0;
    constexpr int each_posts = 200;
    by_all([&](int) {
        DAT_EVENT event = {};
        event.event_number = DAT_SOFTWARE_EVENT;
        DAT_COUNT more;
        for (int turn = 0; turn != each_posts; ++turn)
            done(dat().evd_post_se_func(evd, &event));
        while (taken < each_posts * threads) {
            const DAT_RETURN result = dat().evd_wait_func(evd, 100, 1, &event, &more);
            if (result == DAT_SUCCESS)
                ++taken;
            else
                assert_true(result == error(DAT_TIMEOUT_EXPIRED) ||
                            result == wrong_state(DAT_INVALID_STATE_EVD_WAITER));
        }
    });
    assert_int_equal(taken, each_posts * threads);
    done(dat().evd_free_func(evd));
    close(on);
}

void all_change_one_evds_cno(void **) {
    adapter on;
    DAT_CNO_HANDLE const one = on.cno(), other = on.cno();
    std::vector<DAT_EVD_HANDLE> evds;
    for (int number = 0; number != threads; ++number)
        evds.push_back(on.evd(DAT_EVD_SOFTWARE_FLAG));
    by_all([&](int number) {
        DAT_EVD_HANDLE const mine = evds[static_cast<std::size_t>(number)];
        DAT_EVENT event = {};
        event.event_number = DAT_SOFTWARE_EVENT;
        DAT_EVD_HANDLE from;
        for (int turn = 0; turn != 200; ++turn) {
            done(dat().evd_modify_cno_func(mine, turn % 3 == 0   ? DAT_HANDLE_NULL
                                                 : turn % 3 == 1 ? one
                                                                 : other));
            done(dat().evd_post_se_func(mine, &event));
            dat().cno_wait_func(turn % 2 == 0 ? one : other, 0, &from);
            done(dat().evd_dequeue_func(mine, &event));
            event = {};
            event.event_number = DAT_SOFTWARE_EVENT;
        }
        done(dat().evd_free_func(mine));
    });
    done(dat().cno_free_func(one));
    done(dat().cno_free_func(other));
    close(on);
}

/// What the CNOs count stays right, or they could not be freed; and nobody is told of a failure.
void all_change_the_cno_of_the_same_evd(void **) {
    adapter on;
    DAT_CNO_HANDLE const cnos[] = {DAT_HANDLE_NULL, on.cno(), on.cno()};
    DAT_EVD_HANDLE const evd = on.evd(DAT_EVD_SOFTWARE_FLAG | DAT_EVD_DTO_FLAG);
    std::atomic<int> ready = 0;
    by_all([&](int number) {
        for (++ready; ready != threads;) {
        }
        DAT_EVENT event = {};
        DAT_EVD_HANDLE from;
        DAT_EVD_PARAM param;
        for (int turn = 0; turn != 300; ++turn) {
            done(dat().evd_modify_cno_func(evd, cnos[(turn + number) % 3]));
            done(dat().evd_query_func(evd, DAT_EVD_FIELD_ALL, &param));
            assert_true(param.cno_handle == cnos[0] || param.cno_handle == cnos[1] ||
                        param.cno_handle == cnos[2]);
            event.event_number = DAT_SOFTWARE_EVENT;
            done(dat().evd_post_se_func(evd, &event));
            dat().cno_wait_func(cnos[1 + turn % 2], 0, &from);
            done(dat().evd_dequeue_func(evd, &event));
        }
    });
    for (DAT_CNO_HANDLE each : {cnos[2], cnos[1], cnos[0]})
        done(dat().evd_modify_cno_func(evd, each));
    done(dat().cno_free_func(cnos[1]));
    done(dat().cno_free_func(cnos[2]));
    done(dat().evd_free_func(evd));
    close(on);
}

/// One frees what the others use: each of them is told that there is no such thing any more, or
/// was faster.
void one_frees_what_others_use(void **) {
    adapter on;
    std::vector<DAT_PZ_HANDLE> zones;
    std::vector<std::atomic<DAT_PZ_HANDLE>> now(1);
    now[0] = on.zone();
    std::atomic<bool> over = false;
    by_all([&](int number) {
        if (number == 0) {
            for (int turn = 0; turn != 300; ++turn) {
                DAT_PZ_HANDLE const old = now[0];
                now[0] = on.zone();
                while (dat().pz_free_func(old) != DAT_SUCCESS)
                    std::this_thread::yield(); // somebody's RMR is in it
            }
            over = true;
            return;
        }
        DAT_HANDLE_TYPE kind;
        while (!over) {
            DAT_PZ_HANDLE const zone = now[0];
            const DAT_RETURN asked = dat().get_handle_type_func(zone, &kind);
            assert_true(asked == DAT_SUCCESS || asked == no_handle(DAT_INVALID_HANDLE1));
            DAT_RMR_HANDLE rmr;
            const DAT_RETURN made = dat().rmr_create_func(zone, &rmr);
            assert_true(made == DAT_SUCCESS || made == no_handle(DAT_INVALID_HANDLE_PZ));
            if (made == DAT_SUCCESS)
                done(dat().rmr_free_func(rmr));
        }
    });
    done(dat().pz_free_func(now[0]));
    close(on);
}

void all_open_and_close(void **) {
    by_all([](int number) {
        for (int turn = 0; turn != 10; ++turn) {
            adapter on(number % 2 == 0 ? "ib" : "iw");
            end one(on);
            if (turn % 2 == 0) {
                one.free();
                close(on);
            } else {
                on.close(DAT_CLOSE_ABRUPT_FLAG);
            }
        }
    });
}

void devices_tell_while_all_make_and_free(void **) {
    adapter on;
    std::atomic<int> at_work = threads - 1;
    by_all([&](int number) {
        if (number == 0) {
            DAT_EVENT event;
            while (at_work != 0) {
                net().report(0, IBV_EVENT_DEVICE_FATAL);
                net().report(0, IBV_EVENT_PORT_ERR);
                while (dat().evd_dequeue_func(on.async, &event) == DAT_SUCCESS) {
                }
                std::this_thread::yield();
            }
            return;
        }
        for (int turn = 0; turn != 40; ++turn) {
            end one(on);
            net().report(0, IBV_EVENT_QP_FATAL, pair_of(one.ep));
            net().report(0, IBV_EVENT_CQ_ERR, pair_of(one.ep)->recv_cq);
            one.free();
        }
        --at_work;
    });
    close(on);
}

/// It is put off again by its own run, which takes until it may end.
struct again final : coherdma::dapl::task {
    void run() noexcept override {
        ++runs;
        while (!may_end)
            std::this_thread::yield();
        coherdma::dapl::events::at(*this, coherdma::dapl::deadline::now());
    }
    std::atomic<int> runs = 0;
    std::atomic<bool> may_end = false;
};

void what_is_dropped_while_it_puts_itself_off_does_not_come(void **) {
    adapter on;
    again one;
    coherdma::dapl::events::at(one, 0);
    while (one.runs == 0)
        std::this_thread::yield();
    std::thread ends([&one] {
        usleep(20000);
        one.may_end = true;
    });
    assert_true(coherdma::dapl::events::drop(one)); // It was waiting, for the second time.
    const int runs = one.runs;
    usleep(50000);
    assert_int_equal(one.runs, runs);
    assert_false(one.waiting);
    ends.join();
    close(on);
}

} // namespace

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)

int main() {
    register_names();
    const CMUnitTest tests[] = {
        TEST(all_make_and_free),
        TEST(all_connect_and_talk),
        TEST(all_post_to_one_endpoint),
        TEST(all_wait_in_turn_for_one_evd),
        TEST(all_change_one_evds_cno),
        TEST(all_change_the_cno_of_the_same_evd),
        TEST(one_frees_what_others_use),
        TEST(all_open_and_close),
        TEST(devices_tell_while_all_make_and_free),
        TEST(what_is_dropped_while_it_puts_itself_off_does_not_come),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
