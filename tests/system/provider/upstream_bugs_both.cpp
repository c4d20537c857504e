// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Trials of faults of both providers, rxe's and siw's: prints "right" or "wrong" for each, and what
// was seen.
//
// upstream_bugs_both ADDRESS [TRIAL...]

#include "../lib/rdmacm_loopback.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

namespace {

using namespace verbs_test;
using address = std::string;

int post_write(const rdmacm_loopback &loop, std::uint64_t number) {
    ibv_sge sge = loop.requester.make_sge(8);
    ibv_send_wr write = loop.requester.request(number, IBV_WR_RDMA_WRITE, sge, loop.responder);
    return loop.requester.post(write);
}

// The kernel refuses write() on a uverbs file by a process whose credentials changed after it was
// opened.
outcome changed_user(const address &addr) {
    const rdmacm_loopback loop(addr);
    constexpr uid_t other_user = 65534;
    check(setresuid(other_user, other_user, other_user), "become another user");
    loop.requester.sent.arm(false);
    if (const int error = post_write(loop, 1))
        return {false, text("posting: ", std::strerror(error))};
    if (!loop.requester.sent.event(limit()))
        return {false, "no event"};
    const auto done = loop.requester.sent.completion(limit());
    return {done && done->status == IBV_WC_SUCCESS, done ? "posted and woken" : "no completion"};
}

// A PD or TD in use cannot be deallocated.
outcome thread_domain(const address &addr) {
    const rdmacm_loopback loop(addr);
    ibv_context *const dev = loop.requester.id->verbs;
    ibv_td_init_attr attr{};
    ibv_pd *const pd = check(ibv_alloc_pd(dev), "protection domain");
    ibv_td *const td = ibv_alloc_td(dev, &attr);
    if (td == nullptr)
        return {false, text("thread domain: ", std::strerror(errno))};
    ibv_parent_domain_init_attr parent_attr{};
    parent_attr.pd = pd;
    parent_attr.td = td;
    ibv_pd *const parent = check(ibv_alloc_parent_domain(dev, &parent_attr), "parent domain");
    const int early_td = ibv_dealloc_td(td), early_pd = ibv_dealloc_pd(pd);
    std::array<std::byte, 64> memory{};
    ibv_mr *const mr = check(ibv_reg_mr(parent, memory.data(), memory.size(), 0), "register");
    const int used = ibv_dealloc_pd(pd);
    check(ibv_dereg_mr(mr), "deregister");
    const int last = ibv_dealloc_pd(parent), thread = ibv_dealloc_td(td),
              first = ibv_dealloc_pd(pd);
    const bool right = early_td == EBUSY && early_pd == EBUSY && used == EBUSY && last == 0 &&
                       thread == 0 && first == 0;
    return {right, text("in use: ", early_td, ' ', early_pd, ' ', used, ", after: ", last, ' ',
                        thread, ' ', first)};
}

outcome thread_domain_used(const address &addr) {
    qp_options single_threaded;
    single_threaded.single_threaded = true;
    try {
        const rdmacm_loopback loop(addr, single_threaded, single_threaded);
        for (std::uint64_t number = 0; number < 100; ++number) {
            check(post_write(loop, number), "post");
            if (loop.requester.sent.expect_success("a write").wr_id != number)
                return {false, "another write"};
        }
        return {true, "100 writes"};
    } catch (const failure &error) {
        return {false, error.what()};
    }
}

// What another process does that has received the file descriptor and two handles.
outcome imported_device(const address &addr) {
    const rdmacm_loopback loop(addr);
    ibv_context *const again = ibv_import_device(dup(loop.requester.id->verbs->cmd_fd));
    if (again == nullptr)
        return {false, text("import the device: ", std::strerror(errno))};
    ibv_device_attr attributes{};
    check(ibv_query_device(again, &attributes), "query the device");
    ibv_pd *const pd = check(ibv_import_pd(again, loop.requester.pd->handle), "import the domain");
    ibv_mr *const mr = check(ibv_import_mr(pd, loop.requester.mr->handle), "import the memory");
    const bool same = mr->lkey == loop.requester.mr->lkey && mr->rkey == loop.requester.mr->rkey &&
                      mr->length == loop.requester.mr->length;
    ibv_cq *const cq = check(ibv_create_cq(again, 8, nullptr, nullptr, 0), "completion queue");
    check(ibv_destroy_cq(cq), "destroy it");
    ibv_unimport_mr(mr);
    ibv_unimport_pd(pd);
    check(ibv_close_device(again), "close");
    const bool works =
        post_write(loop, 1) == 0 && loop.requester.sent.expect_success("a write").wr_id == 1;
    return {same && works, text(same ? "the same keys" : "other keys", works ? ", goes on" : "")};
}

// Threads post to one QP and poll one CQ: every WR completes once.
outcome many_threads(const address &addr) {
    constexpr std::uint64_t each = 500, posters = 4, pollers = 2, room = 60; // of the queue's 64
    const rdmacm_loopback loop(addr);
    const endpoint &requester = loop.requester, &responder = loop.responder;
    std::array<std::atomic<int>, each * posters> completed{};
    std::atomic<std::uint64_t> posted{0}, count{0};
    std::atomic<bool> failed{false};
    const auto until = std::chrono::steady_clock::now() + limit();
    const auto over = [&] {
        return failed || std::chrono::steady_clock::now() > until;
    };
    const auto post = [&](std::uint64_t poster) {
        ibv_sge sge = requester.make_sge(8);
        for (std::uint64_t id = 0; id < each; ++id) {
            ibv_send_wr send =
                requester.request(poster * each + id, IBV_WR_RDMA_WRITE, sge, responder);
            // Completions that do not fit into the CQ are lost.
            const std::uint64_t turn = posted++;
            while (turn >= count + room && !over())
                std::this_thread::sleep_for(std::chrono::microseconds(100));
            int error;
            while ((error = requester.post(send)) == ENOMEM && !over())
                std::this_thread::sleep_for(std::chrono::microseconds(100));
            if (error != 0)
                failed = true;
        }
    };
    const auto poll = [&] {
        std::array<ibv_wc, 5> some{};
        while (count < completed.size() && !over()) {
            const int got =
                ibv_poll_cq(requester.sent.cq.get(), static_cast<int>(some.size()), some.data());
            for (int i = 0; i < got; ++i) {
                const ibv_wc &wc = some.at(static_cast<std::size_t>(i));
                if (wc.status != IBV_WC_SUCCESS || wc.wr_id >= completed.size())
                    failed = true;
                else
                    ++completed.at(wc.wr_id), ++count;
            }
            if (got <= 0)
                std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
    };
    std::vector<std::thread> threads;
    for (std::uint64_t poster = 0; poster < posters; ++poster)
        threads.emplace_back(post, poster);
    for (std::uint64_t poller = 0; poller < pollers; ++poller)
        threads.emplace_back(poll);
    for (std::thread &thread : threads)
        thread.join();
    bool once = !failed;
    for (const auto &times : completed)
        once = once && times == 1;
    return {once, text(count, " writes", failed ? ", one failed" : "")};
}

constexpr std::array trials{
    trial<address>{"changed-user", changed_user},
    trial<address>{"thread-domain", thread_domain},
    trial<address>{"thread-domain-used", thread_domain_used},
    trial<address>{"import", imported_device},
    trial<address>{"many-threads", many_threads},
};

} // namespace

int main(int argc, char **argv) {
    return run_program(argc, argv, "upstream_bugs_both ADDRESS", trials,
                       [](auto words) { return address(words[1]); });
}
