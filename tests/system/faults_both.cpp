// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What providers for rxe and for siw lack alike, each tried: prints "right" or "wrong" for each,
// and what it saw.
//
// faults_both ADDRESS [FAULT...]

#include "conversation.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

namespace {

using namespace carry;
using address = std::string;

int post_write(const conversation &talk, std::uint64_t number) {
    ibv_sge piece = talk.from.piece(8);
    ibv_send_wr write = talk.from.request(number, IBV_WR_RDMA_WRITE, piece, talk.to);
    return talk.from.post(write);
}

// The kernel refuses write() to who has other rights than who opened the file.
outcome changed_user(const address &where) {
    const conversation talk(where);
    constexpr uid_t nobody = 65534;
    check(setresuid(nobody, nobody, nobody), "become another user");
    talk.from.sent.arm(false);
    if (const int error = post_write(talk, 1))
        return {false, text("posting: ", std::strerror(error))};
    if (!talk.from.sent.event(milliseconds(1000)))
        return {false, "no event"};
    const auto done = talk.from.sent.completion(milliseconds(1000));
    return {done && done->status == IBV_WC_SUCCESS, done ? "posted and woken" : "no completion"};
}

// Domains stay as long as something is over them.
outcome thread_domain(const address &where) {
    const conversation talk(where);
    ibv_context *const on = talk.from.id->verbs;
    ibv_td_init_attr one{};
    ibv_pd *const pd = check(ibv_alloc_pd(on), "protection domain");
    ibv_td *const td = ibv_alloc_td(on, &one);
    if (td == nullptr)
        return {false, text("thread domain: ", std::strerror(errno))};
    ibv_parent_domain_init_attr over{};
    over.pd = pd;
    over.td = td;
    ibv_pd *const parent = check(ibv_alloc_parent_domain(on, &over), "parent domain");
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

outcome thread_domain_used(const address &where) {
    wish alone;
    alone.alone = true;
    try {
        const conversation talk(where, alone, alone);
        for (std::uint64_t number = 0; number < 100; ++number) {
            check(post_write(talk, number), "post");
            if (talk.from.sent.success("a write").wr_id != number)
                return {false, "another write"};
        }
        return {true, "100 writes"};
    } catch (const failure &error) {
        return {false, error.what()};
    }
}

// What another process would do that was sent the file descriptor and two numbers.
outcome imported(const address &where) {
    const conversation talk(where);
    ibv_context *const again = ibv_import_device(dup(talk.from.id->verbs->cmd_fd));
    if (again == nullptr)
        return {false, text("import the device: ", std::strerror(errno))};
    ibv_device_attr attributes{};
    check(ibv_query_device(again, &attributes), "query the device");
    ibv_pd *const pd = check(ibv_import_pd(again, talk.from.pd->handle), "import the domain");
    ibv_mr *const mr = check(ibv_import_mr(pd, talk.from.mr->handle), "import the memory");
    const bool same = mr->lkey == talk.from.mr->lkey && mr->rkey == talk.from.mr->rkey &&
                      mr->length == talk.from.mr->length;
    ibv_cq *const cq = check(ibv_create_cq(again, 8, nullptr, nullptr, 0), "completion queue");
    check(ibv_destroy_cq(cq), "destroy it");
    ibv_unimport_mr(mr);
    ibv_unimport_pd(pd);
    check(ibv_close_device(again), "close");
    const bool on = post_write(talk, 1) == 0 && talk.from.sent.success("a write").wr_id == 1;
    return {same && on, text(same ? "the same keys" : "other keys", on ? ", goes on" : "")};
}

// Threads that post on one queue pair and poll one queue: every request completes, once.
outcome crowded(const address &where) {
    constexpr std::uint64_t each = 500, posters = 4, pollers = 2, room = 60; // of the queue's 64
    const conversation talk(where);
    const end &from = talk.from, &to = talk.to;
    std::array<std::atomic<int>, each * posters> completed{};
    std::atomic<std::uint64_t> posted{0}, count{0};
    std::atomic<bool> failed{false};
    const auto until = std::chrono::steady_clock::now() + milliseconds(20000);
    const auto over = [&] {
        return failed || std::chrono::steady_clock::now() > until;
    };
    const auto post = [&](std::uint64_t poster) {
        ibv_sge piece = from.piece(8);
        for (std::uint64_t id = 0; id < each; ++id) {
            ibv_send_wr send = from.request(poster * each + id, IBV_WR_RDMA_WRITE, piece, to);
            // Completions that do not fit are lost.
            const std::uint64_t turn = posted++;
            while (turn >= count + room && !over())
                std::this_thread::sleep_for(std::chrono::microseconds(100));
            int error;
            while ((error = from.post(send)) == ENOMEM && !over())
                std::this_thread::sleep_for(std::chrono::microseconds(100));
            if (error != 0)
                failed = true;
        }
    };
    const auto poll = [&] {
        std::array<ibv_wc, 5> some{};
        while (count < completed.size() && !over()) {
            const int got =
                ibv_poll_cq(from.sent.cq.get(), static_cast<int>(some.size()), some.data());
            for (int place = 0; place < got; ++place) {
                const ibv_wc &is = some.at(static_cast<std::size_t>(place));
                if (is.status != IBV_WC_SUCCESS || is.wr_id >= completed.size())
                    failed = true;
                else
                    ++completed.at(is.wr_id), ++count;
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

constexpr std::array faults{
    fault<address>{"changed-user", changed_user},
    fault<address>{"thread-domain", thread_domain},
    fault<address>{"thread-domain-used", thread_domain_used},
    fault<address>{"imported", imported},
    fault<address>{"crowded", crowded},
};

} // namespace

int main(int count, char **words) try {
    if (count < 2)
        throw failure("faults_both ADDRESS [FAULT...]");
    const std::span<char *const> names(words + 2, static_cast<std::size_t>(count - 2));
    return try_each(std::span<const fault<address>>(faults), names,
                    [=] { return address(words[1]); });
} catch (const std::exception &error) {
    std::fprintf(stderr, "faults_both: %s\n", error.what());
    return 1;
}
