// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Threads that use the same objects.

#include "groups.hpp"
#include "requests.hpp"

#include <atomic>
#include <semaphore>
#include <set>

namespace differential {
namespace {

struct thread_case {
    const char *name;
    unsigned num_posters = 2;
    bool arms = false, resizes = false, destroys = false;
};

// Each WR completes once, whatever other threads do with the CQ meanwhile.
void post_by_threads(qp_pair &qps, const thread_case &options, record &record) {
    constexpr unsigned num_posts = 300;
    const unsigned num_wrs = num_posts * options.num_posters;
    endpoint &a = *qps.a;
    ibv_cq *const cq = a.send_cq.get();
    // The kernel reuses an entry of the SQ before its completion is polled.
    constexpr int max_completions = 32;
    std::counting_semaphore<> free_cqes(max_completions);
    std::atomic<bool> is_done{false};
    std::atomic<unsigned> num_errors{0};
    std::vector<std::thread> threads, others;
    for (unsigned poster = 0; poster < options.num_posters; ++poster)
        threads.emplace_back([&, poster] {
            for (unsigned i = 0; i < num_posts; ++i) {
                request request = make_request(qps, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, {{8}},
                                               poster * num_posts + i);
                request.wr.sg_list = request.sg_list.data();
                ibv_send_wr *bad_wr = nullptr;
                free_cqes.acquire();
                num_errors += ibv_post_send(a.qp, &request.wr, &bad_wr) == 0 ? 0 : 1;
            }
        });
    const auto repeat = [&](auto function) {
        others.emplace_back([&, function]() mutable {
            constexpr unsigned max_calls = 50; // spinlocks on one processor
            for (unsigned calls = 0; calls < max_calls && !is_done; ++calls)
                num_errors += function() == 0 ? 0 : 1;
        });
    };
    if (options.arms)
        repeat([cq] { return ibv_req_notify_cq(cq, 0); });
    if (options.resizes)
        repeat([cq, cqe = 64]() mutable { return ibv_resize_cq(cq, cqe = cqe == 64 ? 200 : 64); });
    if (options.destroys)
        repeat([&a] {
            ibv_qp_init_attr_ex attr = a.make_init_attr();
            ibv_qp *const qp =
                ibv_create_qp(a.pd.get(), reinterpret_cast<ibv_qp_init_attr *>(&attr));
            return qp != nullptr ? ibv_destroy_qp(qp) : errno;
        });
    std::multiset<std::uint64_t> wr_ids;
    unsigned num_failed = 0;
    wait_until(hang_limit, [&] {
        ibv_wc wc{};
        while (a.poll(cq, wc)) {
            wr_ids.insert(wc.wr_id);
            num_failed += wc.status == IBV_WC_SUCCESS ? 0 : 1;
            free_cqes.release();
        }
        return wr_ids.size() >= num_wrs;
    });
    is_done = true;
    for (std::thread &thread : threads)
        thread.join();
    for (std::thread &thread : others)
        thread.join();
    record.add("completions", wr_ids.size());
    record.add("different", std::set(wr_ids.begin(), wr_ids.end()).size());
    record.add("failed", num_failed);
    record.add("errors", num_errors);
    qps.finish(record);
}

} // namespace

void run_threads(const environment &env, runner &runner) {
    const std::vector<thread_case> cases{
        {"post"},
        {"post_arm", 2, true},
        {"post_destroy", 2, false, false, true},
        {"post_resize", 2, false, true},
        {"all", 3, true, true, true},
    };
    for (const thread_case &thread_case : cases) {
        if (thread_case.resizes && !env.options.is_rxe()) // siw resizes no CQ
            continue;
        for (unsigned i = 0; i < 3; ++i)
            runner.run(concat("threads/", thread_case.name, '/', i), [&](record &record) {
                qp_options options = make_options(env);
                const auto channel = create_channel(env);
                options.channel = channel.get();
                options.cap.max_send_wr = 64;
                qp_pair qps(env, options);
                qps.prepare(1);
                post_by_threads(qps, thread_case, record);
                ibv_cq *cq = nullptr; // A CQ waits for its events when it is destroyed.
                void *cq_context = nullptr;
                while (ibv_get_cq_event(channel.get(), &cq, &cq_context) == 0)
                    ibv_ack_cq_events(cq, 1);
            });
    }
}

} // namespace differential
