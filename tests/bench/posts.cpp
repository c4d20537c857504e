// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a provider costs: a device talks to itself, and each kind of call has an account: a part of
// callgrind's output, or what stands between two marks in strace's.
//
// posts count ADDRESS [alone]          messages, receives and writes of 8 bytes; 1 and 16 at a time
// posts race ADDRESS THREADS SECONDS   threads post writes to one queue pair: how many complete
//
// alone: one thread at a time, by a thread domain. Status 77: the provider has none; 75: to be
// tried again, as the machine was too slow.

#include "counted.hpp"
#include "system/lib/rdmacm_loopback.hpp"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using namespace verbs_test;

constexpr std::size_t most = 16;
constexpr int rounds = 16;

enum class call { none, post, post_recv, poll, poll_receive, poll_empty, arm };

// One round: what was posted has completed before it is polled, so that no call is in vain.
class exchange {
  public:
    exchange(const rdmacm_loopback &over, ibv_wr_opcode opcode, std::size_t at_a_time)
        : loop_(over)
        , count_(at_a_time)
        , is_send_(opcode == IBV_WR_SEND) {
        for (std::size_t each = 0; each < count_; ++each) {
            const bool last = each + 1 == count_;
            pieces_.at(each) = loop_.requester.make_sge(8);
            sends_.at(each) =
                loop_.requester.request(each, opcode, pieces_.at(each), loop_.responder);
            sends_.at(each).next = last ? nullptr : &sends_.at(each + 1);
            where_.at(each) = loop_.responder.make_sge(8);
            receives_.at(each) = {each, last ? nullptr : &receives_.at(each + 1), &where_.at(each),
                                  1};
        }
    }
    exchange(const exchange &) = delete;
    exchange &operator=(const exchange &) = delete;

    void operator()(const meter<call> &count) {
        ibv_send_wr *bad_send = nullptr;
        ibv_recv_wr *bad_receive = nullptr;
        const auto receive = [&] {
            return ibv_post_recv(loop_.responder.qp(), receives_.data(), &bad_receive);
        };
        const auto send = [&] {
            return ibv_post_send(loop_.requester.qp(), sends_.data(), &bad_send);
        };
        const auto arm = [&] {
            return ibv_req_notify_cq(loop_.requester.sent.cq.get(), 0);
        };
        if (is_send_)
            check(count(call::post_recv, receive), "post receives");
        check(count(call::arm, arm), "arm");
        check(count(call::post, send), "post requests");
        loop_.requester.sent.event(limit());
        pause_for_completions(); // for the other completions of a list
        poll(count, call::poll, loop_.requester.sent);
        if (is_send_)
            poll(count, call::poll_receive, loop_.responder.received);
        std::array<ibv_wc, most> none{};
        const int wanted = static_cast<int>(count_);
        const auto in_vain = [&] {
            return ibv_poll_cq(loop_.requester.sent.cq.get(), wanted, none.data());
        };
        if (count(call::poll_empty, in_vain) != 0)
            throw failure("completions of no request");
        while (loop_.requester.sent.event(milliseconds(0)))
            continue;
    }

  private:
    void poll(const meter<call> &count, call which, const completion_queue &requester) const {
        std::array<ibv_wc, most> found{};
        const int wanted = static_cast<int>(count_);
        const int got =
            count(which, [&] { return ibv_poll_cq(requester.cq.get(), wanted, found.data()); });
        if (got != wanted)
            throw failure(text("polled ", got, " completions, not ", wanted, ": try again"));
        for (std::size_t each = 0; each < count_; ++each)
            if (found.at(each).status != IBV_WC_SUCCESS)
                throw failure(ibv_wc_status_str(found.at(each).status));
    }

    const rdmacm_loopback &loop_;
    std::size_t count_;
    bool is_send_;
    std::array<ibv_sge, most> pieces_{}, where_{};
    std::array<ibv_send_wr, most> sends_{};
    std::array<ibv_recv_wr, most> receives_{};
};

struct counted_call {
    const char *name;
    ibv_wr_opcode opcode;
    call what;
};
constexpr std::array counted_calls{
    counted_call{"post a write", IBV_WR_RDMA_WRITE, call::post},
    counted_call{"poll a write", IBV_WR_RDMA_WRITE, call::poll},
    counted_call{"post a message", IBV_WR_SEND, call::post},
    counted_call{"poll a message", IBV_WR_SEND, call::poll},
    counted_call{"post a receive", IBV_WR_SEND, call::post_recv},
    counted_call{"poll a receive", IBV_WR_SEND, call::poll_receive},
    counted_call{"poll in vain", IBV_WR_RDMA_WRITE, call::poll_empty},
    counted_call{"arm a queue", IBV_WR_RDMA_WRITE, call::arm},
};

// Says the name of each account, how many calls and how many requests it has.
void count(const std::string &address, bool single_threaded) {
    qp_options wanted;
    wanted.single_threaded = single_threaded;
    const rdmacm_loopback loop(address, wanted, wanted);
    for (const std::size_t at_a_time : {std::size_t{1}, most})
        for (const counted_call &each : counted_calls) {
            if (at_a_time != 1 && (each.what == call::arm || each.what == call::poll_empty))
                continue;
            exchange round(loop, each.opcode, at_a_time);
            for (int warm = 0; warm < 2; ++warm)
                round(meter(call::none));
            const std::string name = text(each.name, ", ", at_a_time, " at a time");
            write_words("account " + name);
            for (int times = 0; times < rounds; ++times)
                round(meter(each.what));
            CALLGRIND_DUMP_STATS_AT(name.c_str());
            std::printf("%d %zu %s\n", rounds, at_a_time, name.c_str());
        }
}

// Threads that share a queue pair, and take completions when there is no room to post.
void race(const std::string &address, unsigned threads, double seconds) {
    using clock = std::chrono::steady_clock;
    const rdmacm_loopback loop(address);
    std::atomic<std::uint64_t> completed{0};
    const auto begin = clock::now();
    const auto over =
        begin + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(seconds));
    std::atomic<clock::rep> last{0};
    const auto run = [&] {
        ibv_sge sge = loop.requester.make_sge(8);
        ibv_send_wr request = loop.requester.request(0, IBV_WR_RDMA_WRITE, sge, loop.responder);
        std::array<ibv_wc, most> found{};
        while (clock::now() < over) {
            const int error = loop.requester.post(request);
            if (error != 0 && error != ENOMEM && error != -ENOMEM)
                throw failure(text("post: error ", error));
            const int got = ibv_poll_cq(loop.requester.sent.cq.get(), most, found.data());
            if (got > 0) {
                completed += static_cast<std::uint64_t>(got);
                last = (clock::now() - begin).count();
            }
        }
    };
    std::vector<std::thread> all;
    for (unsigned each = 0; each < threads; ++each)
        all.emplace_back(run);
    for (std::thread &each : all)
        each.join();
    const double stalled =
        seconds - std::chrono::duration<double>(clock::duration(last.load())).count();
    std::printf("%llu writes per second%s\n",
                static_cast<unsigned long long>(static_cast<double>(completed.load()) / seconds),
                stalled > seconds / 4 ? text(", none in the last ", stalled, " s").c_str() : "");
}

} // namespace

int main(int argc, char **argv) try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() >= 2 && words.size() <= 3 && words[0] == "count")
        count(words[1], words.size() == 3 && words[2] == "alone");
    else if (words.size() == 4 && words[0] == "race")
        race(words[1], static_cast<unsigned>(std::stoul(words[2])), std::stod(words[3]));
    else
        throw failure("posts count ADDRESS [alone] | race ADDRESS THREADS SECONDS");
    return 0;
} catch (const std::exception &error) {
    std::fprintf(stderr, "posts: %s\n", error.what());
    const std::string_view words = error.what();
    return words.starts_with("thread domain: Operation not") ? 77
           : words.ends_with("again")                        ? 75
                                                             : 1;
}
