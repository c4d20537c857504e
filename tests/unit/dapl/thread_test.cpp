// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Eight threads on one IA, with private and shared objects, and objects that are freed while other
// threads use them. Mainly for ThreadSanitizer.

#include "dapl/core/deadline.hpp"
#include "dapl/event/event_thread.hpp"
#include "fake/two_eps.hpp"

#include <atomic>
#include <thread>
#include <unistd.h>

using namespace fake;

namespace {

constexpr int num_threads = 8;
constexpr DAT_COMPLETION_FLAGS default_flags = DAT_COMPLETION_DEFAULT_FLAG;

template <class function>
void run_in_threads(function &&work) {
    std::vector<std::thread> threads;
    for (int index = 0; index != num_threads; ++index)
        threads.emplace_back([&work, index] { work(index); });
    for (std::thread &thread : threads)
        thread.join();
}

void threads_create_and_free_objects(void **) {
    ia_fixture ia;
    run_in_threads([&ia](int) {
        for (int i = 0; i != 40; ++i) {
            DAT_CNO_HANDLE const cno = ia.create_cno();
            DAT_EVD_HANDLE const evd = ia.create_evd(DAT_EVD_DTO_FLAG, 8, cno);
            DAT_PZ_HANDLE const pz = ia.create_pz();
            memory buffer(ia, 256, DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, pz);
            DAT_RMR_HANDLE rmr;
            assert_success(dat().rmr_create_func(pz, &rmr));
            DAT_SRQ_HANDLE const srq = ia.create_srq(4);
            ep_fixture ep(ia, nullptr, srq);
            DAT_EP_PARAM param = {};
            assert_success(dat().ep_query_func(ep.handle, DAT_EP_FIELD_ALL, &param));
            assert_ptr_equal(param.srq_handle, srq);
            DAT_LMR_TRIPLET iov = buffer.lmr_triplet(0, 64);
            assert_success(dat().srq_post_recv_func(srq, 1, &iov, cookie(1)));
            assert_success(dat().lmr_sync_rdma_write_func(ia.handle, &iov, 1));
            DAT_CONN_QUAL port;
            DAT_PSP_HANDLE psp;
            DAT_EVD_HANDLE const requests = ia.create_evd(DAT_EVD_CR_FLAG);
            assert_success(
                dat().psp_create_any_func(ia.handle, &port, requests, DAT_PSP_CONSUMER_FLAG, &psp));
            assert_success(dat().psp_free_func(psp));
            assert_success(dat().evd_free_func(requests));
            ep.free();
            assert_success(dat().srq_free_func(srq));
            assert_success(dat().rmr_free_func(rmr));
            buffer.free();
            assert_success(dat().pz_free_func(pz));
            assert_success(dat().evd_free_func(evd));
            assert_success(dat().cno_free_func(cno));
        }
    });
}

void threads_connect_and_transfer(void **) {
    for (const char *ia_name : {"roce", "iwarp"}) {
        reset_fabric(nullptr);
        ia_fixture ia(ia_name);
        run_in_threads([&ia](int) {
            for (int i = 0; i != 5; ++i) {
                ep_fixture ep(ia), peer_ep(ia);
                memory local_memory(ia), remote_memory(ia);
                connect(ep, peer_ep);
                for (std::uint64_t id = 0; id != 20; ++id) {
                    DAT_LMR_TRIPLET send_iov = local_memory.lmr_triplet(0, 100),
                                    recv_iov = remote_memory.lmr_triplet(0, 100);
                    assert_success(dat().ep_post_recv_func(peer_ep.handle, 1, &recv_iov, cookie(id),
                                                           default_flags));
                    assert_success(dat().ep_post_send_func(ep.handle, 1, &send_iov, cookie(id),
                                                           default_flags));
                    assert_completion(ep.request_evd, cookie(id), DAT_DTO_SUCCESS, 100);
                    assert_completion(peer_ep.recv_evd, cookie(id), DAT_DTO_SUCCESS, 100);
                }
                disconnect(ep, peer_ep);
            }
        });
    }
}

/// Half of the threads send, half receive; a full queue is emptied by any of them.
void threads_post_to_one_ep(void **) {
    DAT_EP_ATTR attr = {};
    attr.max_recv_dtos = attr.max_request_dtos = 100;
    attr.max_recv_iov = attr.max_request_iov = 1;
    connected_eps eps("roce", &attr);
    std::atomic<int> sent = 0, received = 0;
    constexpr int each_posts = 200;
    run_in_threads([&](int index) {
        const bool sends = index % 2 == 0;
        DAT_EVENT event;
        const auto take = [&event](DAT_EVD_HANDLE evd, std::atomic<int> &count) {
            if (dat().evd_dequeue_func(evd, &event) == DAT_SUCCESS) {
                assert_int_equal(event.event_data.dto_completion_event_data.status,
                                 DAT_DTO_SUCCESS);
                ++count;
            }
        };
        const auto tries = [&] {
            take(eps.active.request_evd, sent);
            take(eps.passive.recv_evd, received);
        };
        for (int i = 0; i != each_posts; ++i)
            while ((sends ? eps.post_send(64, cookie(1)) : eps.post_recv(64, cookie(1))) !=
                   DAT_SUCCESS)
                tries();
        while (sent != each_posts * num_threads / 2 || received != each_posts * num_threads / 2)
            tries();
    });
}

/// An EVD has one waiter at a time: others get DAT_INVALID_STATE_EVD_WAITER and try again.
void threads_wait_for_one_evd(void **) {
    ia_fixture ia;
    DAT_EVD_HANDLE const evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 10000);
    std::atomic<int> taken = 0;
    constexpr int each_posts = 200;
    run_in_threads([&](int) {
        DAT_EVENT event = {};
        event.event_number = DAT_SOFTWARE_EVENT;
        DAT_COUNT nmore;
        for (int i = 0; i != each_posts; ++i)
            assert_success(dat().evd_post_se_func(evd, &event));
        while (taken < each_posts * num_threads) {
            const DAT_RETURN result = dat().evd_wait_func(evd, 100, 1, &event, &nmore);
            if (result == DAT_SUCCESS)
                ++taken;
            else
                assert_true(result == dat_error(DAT_TIMEOUT_EXPIRED) ||
                            result == invalid_state(DAT_INVALID_STATE_EVD_WAITER));
        }
    });
    assert_int_equal(taken, each_posts * num_threads);
    assert_success(dat().evd_free_func(evd));
}

/// Each thread attaches its EVD to the two CNOs and to none in turn, and waits for them.
void threads_modify_cno_of_one_evd(void **) {
    ia_fixture ia;
    DAT_CNO_HANDLE const cno_a = ia.create_cno(), cno_b = ia.create_cno();
    std::vector<DAT_EVD_HANDLE> evds;
    for (int index = 0; index != num_threads; ++index)
        evds.push_back(ia.create_evd(DAT_EVD_SOFTWARE_FLAG));
    run_in_threads([&](int index) {
        DAT_EVD_HANDLE const evd = evds[static_cast<std::size_t>(index)];
        DAT_EVENT event = {};
        event.event_number = DAT_SOFTWARE_EVENT;
        DAT_EVD_HANDLE triggered;
        for (int i = 0; i != 200; ++i) {
            assert_success(dat().evd_modify_cno_func(evd, i % 3 == 0   ? DAT_HANDLE_NULL
                                                          : i % 3 == 1 ? cno_a
                                                                       : cno_b));
            assert_success(dat().evd_post_se_func(evd, &event));
            dat().cno_wait_func(i % 2 == 0 ? cno_a : cno_b, 0, &triggered);
            assert_success(dat().evd_dequeue_func(evd, &event));
            event = {};
            event.event_number = DAT_SOFTWARE_EVENT;
        }
        assert_success(dat().evd_free_func(evd));
    });
    assert_success(dat().cno_free_func(cno_a));
    assert_success(dat().cno_free_func(cno_b));
}

/// The CNOs' reference counts stay correct, so they can be freed; no call fails.
void threads_exchange_cno_of_one_evd(void **) {
    ia_fixture ia;
    DAT_CNO_HANDLE const cnos[] = {DAT_HANDLE_NULL, ia.create_cno(), ia.create_cno()};
    DAT_EVD_HANDLE const evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG | DAT_EVD_DTO_FLAG);
    std::atomic<int> ready = 0;
    run_in_threads([&](int index) {
        for (++ready; ready != num_threads;) {
        }
        DAT_EVENT event = {};
        DAT_EVD_HANDLE triggered;
        DAT_EVD_PARAM param;
        for (int i = 0; i != 300; ++i) {
            assert_success(dat().evd_modify_cno_func(evd, cnos[(i + index) % 3]));
            assert_success(dat().evd_query_func(evd, DAT_EVD_FIELD_ALL, &param));
            assert_true(param.cno_handle == cnos[0] || param.cno_handle == cnos[1] ||
                        param.cno_handle == cnos[2]);
            event.event_number = DAT_SOFTWARE_EVENT;
            assert_success(dat().evd_post_se_func(evd, &event));
            dat().cno_wait_func(cnos[1 + i % 2], 0, &triggered);
            assert_success(dat().evd_dequeue_func(evd, &event));
        }
    });
    for (DAT_CNO_HANDLE cno : {cnos[2], cnos[1], cnos[0]})
        assert_success(dat().evd_modify_cno_func(evd, cno));
    assert_success(dat().cno_free_func(cnos[1]));
    assert_success(dat().cno_free_func(cnos[2]));
    assert_success(dat().evd_free_func(evd));
}

/// One thread frees the PZ that the others use: their calls succeed or return DAT_INVALID_HANDLE.
void free_during_use_by_other_threads(void **) {
    ia_fixture ia;
    std::vector<DAT_PZ_HANDLE> zones;
    std::vector<std::atomic<DAT_PZ_HANDLE>> current_pz(1);
    current_pz[0] = ia.create_pz();
    std::atomic<bool> stopped = false;
    run_in_threads([&](int index) {
        if (index == 0) {
            for (int i = 0; i != 300; ++i) {
                DAT_PZ_HANDLE const old_pz = current_pz[0];
                current_pz[0] = ia.create_pz();
                while (dat().pz_free_func(old_pz) != DAT_SUCCESS)
                    std::this_thread::yield(); // in use by an RMR of another thread
            }
            stopped = true;
            return;
        }
        DAT_HANDLE_TYPE kind;
        while (!stopped) {
            DAT_PZ_HANDLE const pz = current_pz[0];
            const DAT_RETURN type_result = dat().get_handle_type_func(pz, &kind);
            assert_true(type_result == DAT_SUCCESS ||
                        type_result == invalid_handle(DAT_INVALID_HANDLE1));
            DAT_RMR_HANDLE rmr;
            const DAT_RETURN create_result = dat().rmr_create_func(pz, &rmr);
            assert_true(create_result == DAT_SUCCESS ||
                        create_result == invalid_handle(DAT_INVALID_HANDLE_PZ));
            if (create_result == DAT_SUCCESS)
                assert_success(dat().rmr_free_func(rmr));
        }
    });
    assert_success(dat().pz_free_func(current_pz[0]));
}

void threads_open_and_close_ias(void **) {
    run_in_threads([](int index) {
        for (int i = 0; i != 10; ++i) {
            ia_fixture ia(index % 2 == 0 ? "roce" : "iwarp");
            ep_fixture ep(ia);
            if (i % 2 == 0) {
                ep.free();
                close(ia);
            } else {
                ia.close(DAT_CLOSE_ABRUPT_FLAG);
            }
        }
    });
}

/// One thread queues and reads asynchronous events while others create and free the objects of such
/// events.
void async_events_during_create_and_free(void **) {
    ia_fixture ia;
    std::atomic<int> num_working = num_threads - 1;
    run_in_threads([&](int index) {
        if (index == 0) {
            DAT_EVENT event;
            while (num_working != 0) {
                get_fabric().queue_async_event(0, IBV_EVENT_DEVICE_FATAL);
                get_fabric().queue_async_event(0, IBV_EVENT_PORT_ERR);
                while (dat().evd_dequeue_func(ia.async_evd, &event) == DAT_SUCCESS) {
                }
                std::this_thread::yield();
            }
            return;
        }
        for (int i = 0; i != 40; ++i) {
            ep_fixture ep(ia);
            get_fabric().queue_async_event(0, IBV_EVENT_QP_FATAL, qp_of(ep.handle));
            get_fabric().queue_async_event(0, IBV_EVENT_CQ_ERR, qp_of(ep.handle)->recv_cq);
        }
        --num_working;
    });
}

/// run() blocks until may_end, then schedules the task again.
struct rescheduling_task final : coherdma::dapl::timer_task {
    void run() noexcept override {
        ++runs;
        while (!may_end)
            std::this_thread::yield();
        coherdma::dapl::event_thread::schedule(*this, coherdma::dapl::dat_deadline::now_ns());
    }
    std::atomic<int> runs = 0;
    std::atomic<bool> may_end = false;
};

/// cancel() also ends a task that its run() has scheduled again.
void dropped_timer_does_not_fire(void **) {
    ia_fixture ia;
    rescheduling_task task;
    coherdma::dapl::event_thread::schedule(task, 0);
    while (task.runs == 0)
        std::this_thread::yield();
    std::thread ender([&task] {
        usleep(20000);
        task.may_end = true;
    });
    assert_true(coherdma::dapl::event_thread::cancel(task)); // run() scheduled it again
    const int runs = task.runs;
    usleep(50000);
    assert_int_equal(task.runs, runs);
    assert_false(task.scheduled);
    ender.join();
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(threads_create_and_free_objects),
        TEST(threads_connect_and_transfer),
        TEST(threads_post_to_one_ep),
        TEST(threads_wait_for_one_evd),
        TEST(threads_modify_cno_of_one_evd),
        TEST(threads_exchange_cno_of_one_evd),
        TEST(free_during_use_by_other_threads),
        TEST(threads_open_and_close_ias),
        TEST(async_events_during_create_and_free),
        TEST(dropped_timer_does_not_fire),
    };
    return run_cases(tests);
}
