// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Trials of faults of both providers, rxe's and siw's: prints "right" or "wrong" for each, and what
// was seen.
//
// upstream_bugs_both ADDRESS [TRIAL...]

#include "../../lib/rdmacm_loopback.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

namespace {

using namespace verbs_test;
using address = std::string;

// The result of ibv_post_send() of an RDMA Write by the requester.
int post_write(const rdmacm_loopback &loopback, std::uint64_t wr_id) {
    ibv_sge sge = loopback.requester.make_sge(8);
    ibv_send_wr write =
        loopback.requester.make_wr(wr_id, IBV_WR_RDMA_WRITE, sge, loopback.responder);
    return loopback.requester.post_send(write);
}

// A process that changed its user after opening the device can post and wait, although the kernel
// refuses write(), with which a provider may ring the doorbell and arm a CQ, on a uverbs file of
// other credentials.
outcome changed_user(const address &addr) {
    const rdmacm_loopback loopback(addr);
    constexpr uid_t other_user = 65534;
    check(setresuid(other_user, other_user, other_user), "become another user");
    loopback.requester.send_cq.arm();
    if (const int error = post_write(loopback, 1))
        return {false, concat("posting: ", std::strerror(error))};
    if (!loopback.requester.send_cq.wait_event(trial_timeout()))
        return {false, "no event"};
    const auto wc = loopback.requester.send_cq.wait_completion(trial_timeout());
    return {wc && wc->status == IBV_WC_SUCCESS, wc ? "posted and woken" : "no completion"};
}

// The PD and TD of a parent domain, and a PD with an MR, are in use: deallocation fails with EBUSY.
// Afterwards each can be deallocated.
outcome parent_domain_in_use(const address &addr) {
    const rdmacm_loopback loopback(addr);
    ibv_context *const dev = loopback.requester.id->verbs;
    ibv_td_init_attr attr{};
    ibv_pd *const pd = check(ibv_alloc_pd(dev), "protection domain");
    ibv_td *const td = ibv_alloc_td(dev, &attr);
    if (td == nullptr)
        return {false, concat("thread domain: ", std::strerror(errno))};
    ibv_parent_domain_init_attr parent_attr{};
    parent_attr.pd = pd;
    parent_attr.td = td;
    ibv_pd *const parent_pd = check(ibv_alloc_parent_domain(dev, &parent_attr), "parent domain");
    const int early_td_error = ibv_dealloc_td(td), early_pd_error = ibv_dealloc_pd(pd);
    std::array<std::byte, 64> memory{};
    ibv_mr *const mr = check(ibv_reg_mr(parent_pd, memory.data(), memory.size(), 0), "register");
    const int used_pd_error = ibv_dealloc_pd(pd);
    check(ibv_dereg_mr(mr), "deregister");
    const int parent_error = ibv_dealloc_pd(parent_pd), td_error = ibv_dealloc_td(td),
              pd_error = ibv_dealloc_pd(pd);
    const bool errors_ok = early_td_error == EBUSY && early_pd_error == EBUSY &&
                           used_pd_error == EBUSY && parent_error == 0 && td_error == 0 &&
                           pd_error == 0;
    return {errors_ok, concat("in use: ", early_td_error, ' ', early_pd_error, ' ', used_pd_error,
                              ", after: ", parent_error, ' ', td_error, ' ', pd_error)};
}

// Writes of a QP in a thread domain complete.
outcome write_in_thread_domain(const address &addr) {
    qp_options options;
    options.single_threaded = true;
    try {
        const rdmacm_loopback loopback(addr, options, options);
        constexpr std::uint64_t num_writes = 100;
        for (std::uint64_t wr_id = 0; wr_id < num_writes; ++wr_id) {
            check(post_write(loopback, wr_id), "post");
            if (loopback.requester.send_cq.expect_success("a write").wr_id != wr_id)
                return {false, "another write"};
        }
        return {true, concat(num_writes, " writes")};
    } catch (const failure &error) {
        return {false, error.what()};
    }
}

// A device, PD and MR can be imported by file descriptor and handles, here in the same process; the
// MR has the same keys. The original objects still work after the imported ones are released.
outcome imported_device(const address &addr) {
    const rdmacm_loopback loopback(addr);
    ibv_context *const imported = ibv_import_device(dup(loopback.requester.id->verbs->cmd_fd));
    if (imported == nullptr)
        return {false, concat("import the device: ", std::strerror(errno))};
    ibv_device_attr attributes{};
    check(ibv_query_device(imported, &attributes), "query the device");
    ibv_pd *const pd =
        check(ibv_import_pd(imported, loopback.requester.pd->handle), "import the domain");
    ibv_mr *const mr = check(ibv_import_mr(pd, loopback.requester.mr->handle), "import the memory");
    const bool same_keys = mr->lkey == loopback.requester.mr->lkey &&
                           mr->rkey == loopback.requester.mr->rkey &&
                           mr->length == loopback.requester.mr->length;
    ibv_cq *const cq = check(ibv_create_cq(imported, 8, nullptr, nullptr, 0), "completion queue");
    check(ibv_destroy_cq(cq), "destroy it");
    ibv_unimport_mr(mr);
    ibv_unimport_pd(pd);
    check(ibv_close_device(imported), "close");
    const bool is_usable = post_write(loopback, 1) == 0 &&
                           loopback.requester.send_cq.expect_success("a write").wr_id == 1;
    return {same_keys && is_usable,
            concat(same_keys ? "the same keys" : "other keys",
                   is_usable ? ", the original QP works" : ", the original QP does not work")};
}

// Threads post to one QP and poll one CQ: every WR completes once.
outcome many_threads(const address &addr) {
    constexpr std::uint64_t num_wrs = 500, num_posters = 4, num_pollers = 2,
                            max_outstanding = 60; // of the queue's 64
    const rdmacm_loopback loopback(addr);
    const endpoint &requester = loopback.requester, &responder = loopback.responder;
    std::array<std::atomic<int>, num_wrs * num_posters> completed{};
    std::atomic<std::uint64_t> num_posted{0}, num_completed{0};
    std::atomic<bool> failed{false};
    const auto deadline = std::chrono::steady_clock::now() + trial_timeout();
    const auto should_stop = [&] {
        return failed || std::chrono::steady_clock::now() > deadline;
    };
    const auto post = [&](std::uint64_t poster) {
        ibv_sge sge = requester.make_sge(8);
        for (std::uint64_t wr_id = 0; wr_id < num_wrs; ++wr_id) {
            ibv_send_wr send =
                requester.make_wr(poster * num_wrs + wr_id, IBV_WR_RDMA_WRITE, sge, responder);
            // Completions that do not fit into the CQ are lost.
            const std::uint64_t post_index = num_posted++;
            while (post_index >= num_completed + max_outstanding && !should_stop())
                std::this_thread::sleep_for(std::chrono::microseconds(100));
            int error;
            while ((error = requester.post_send(send)) == ENOMEM && !should_stop())
                std::this_thread::sleep_for(std::chrono::microseconds(100));
            if (error != 0)
                failed = true;
        }
    };
    const auto poll = [&] {
        std::array<ibv_wc, 5> wcs{};
        while (num_completed < completed.size() && !should_stop()) {
            const int num_polled =
                ibv_poll_cq(requester.send_cq.cq.get(), static_cast<int>(wcs.size()), wcs.data());
            for (int i = 0; i < num_polled; ++i) {
                const ibv_wc &wc = wcs.at(static_cast<std::size_t>(i));
                if (wc.status != IBV_WC_SUCCESS || wc.wr_id >= completed.size())
                    failed = true;
                else
                    ++completed.at(wc.wr_id), ++num_completed;
            }
            if (num_polled <= 0)
                std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
    };
    std::vector<std::thread> threads;
    for (std::uint64_t poster = 0; poster < num_posters; ++poster)
        threads.emplace_back(post, poster);
    for (std::uint64_t poller = 0; poller < num_pollers; ++poller)
        threads.emplace_back(poll);
    for (std::thread &thread : threads)
        thread.join();
    bool completed_once = !failed;
    for (const auto &num_completions : completed)
        completed_once = completed_once && num_completions == 1;
    return {completed_once, concat(num_completed, " writes", failed ? ", one failed" : "")};
}

constexpr std::array trials{
    trial<address>{"changed-user", changed_user},
    trial<address>{"thread-domain", parent_domain_in_use},
    trial<address>{"thread-domain-used", write_in_thread_domain},
    trial<address>{"import", imported_device},
    trial<address>{"many-threads", many_threads},
};

} // namespace

int main(int argc, char **argv) {
    return run_program(argc, argv, "upstream_bugs_both ADDRESS", trials,
                       [](auto words) { return address(words[1]); });
}
