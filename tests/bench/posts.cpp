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

constexpr std::size_t max_batch = 16;
constexpr int num_rounds = 16, num_warmups = 2;

/// The kinds of call that are counted, one at a time; none: none is, as in a warm-up.
enum class call_kind { none, post, post_recv, poll, poll_receive, poll_empty, arm };

// A round posts a batch and polls its completions. They have arrived before, so that one call polls
// all.
class exchange {
  public:
    exchange(const rdmacm_loopback &loopback, ibv_wr_opcode opcode, std::size_t batch_size)
        : loopback_(loopback)
        , batch_size_(batch_size)
        , is_send_(opcode == IBV_WR_SEND) {
        for (std::size_t i = 0; i < batch_size_; ++i) {
            const bool last = i + 1 == batch_size_;
            send_sges_.at(i) = loopback_.requester.make_sge(8);
            send_wrs_.at(i) =
                loopback_.requester.make_wr(i, opcode, send_sges_.at(i), loopback_.responder);
            send_wrs_.at(i).next = last ? nullptr : &send_wrs_.at(i + 1);
            recv_sges_.at(i) = loopback_.responder.make_sge(8);
            recv_wrs_.at(i) = {i, last ? nullptr : &recv_wrs_.at(i + 1), &recv_sges_.at(i), 1};
        }
    }
    exchange(const exchange &) = delete;
    exchange &operator=(const exchange &) = delete;

    void operator()(const meter<call_kind> &measure) {
        ibv_send_wr *bad_send_wr = nullptr;
        ibv_recv_wr *bad_recv_wr = nullptr;
        const auto post_recv = [&] {
            return ibv_post_recv(loopback_.responder.qp(), recv_wrs_.data(), &bad_recv_wr);
        };
        const auto post_send = [&] {
            return ibv_post_send(loopback_.requester.qp(), send_wrs_.data(), &bad_send_wr);
        };
        const auto arm = [&] {
            return ibv_req_notify_cq(loopback_.requester.send_cq.cq.get(), 0);
        };
        if (is_send_)
            check(measure(call_kind::post_recv, post_recv), "post receives");
        check(measure(call_kind::arm, arm), "arm");
        check(measure(call_kind::post, post_send), "post requests");
        loopback_.requester.send_cq.wait_event(trial_timeout());
        pause_for_completions(); // for the other completions of a list
        poll_completions(measure, call_kind::poll, loopback_.requester.send_cq);
        if (is_send_)
            poll_completions(measure, call_kind::poll_receive, loopback_.responder.recv_cq);
        std::array<ibv_wc, max_batch> no_wcs{};
        const int num_entries = static_cast<int>(batch_size_);
        const auto poll_empty = [&] {
            return ibv_poll_cq(loopback_.requester.send_cq.cq.get(), num_entries, no_wcs.data());
        };
        if (measure(call_kind::poll_empty, poll_empty) != 0)
            throw failure("completions of no request");
        while (loopback_.requester.send_cq.wait_event(milliseconds(0)))
            continue;
    }

  private:
    void poll_completions(const meter<call_kind> &measure, call_kind kind,
                          const completion_queue &cq) const {
        std::array<ibv_wc, max_batch> wcs{};
        const int num_entries = static_cast<int>(batch_size_);
        const int num_polled =
            measure(kind, [&] { return ibv_poll_cq(cq.cq.get(), num_entries, wcs.data()); });
        if (num_polled != num_entries)
            throw failure(
                concat("polled ", num_polled, " completions, not ", num_entries, ": try again"));
        for (std::size_t i = 0; i < batch_size_; ++i)
            if (wcs.at(i).status != IBV_WC_SUCCESS)
                throw failure(ibv_wc_status_str(wcs.at(i).status));
    }

    const rdmacm_loopback &loopback_;
    std::size_t batch_size_;
    bool is_send_;
    std::array<ibv_sge, max_batch> send_sges_{}, recv_sges_{};
    std::array<ibv_send_wr, max_batch> send_wrs_{};
    std::array<ibv_recv_wr, max_batch> recv_wrs_{};
};

struct counted_call {
    const char *name;
    ibv_wr_opcode opcode;
    call_kind kind;
};
constexpr std::array counted_calls{
    counted_call{"post a write", IBV_WR_RDMA_WRITE, call_kind::post},
    counted_call{"poll a write", IBV_WR_RDMA_WRITE, call_kind::poll},
    counted_call{"post a message", IBV_WR_SEND, call_kind::post},
    counted_call{"poll a message", IBV_WR_SEND, call_kind::poll},
    counted_call{"post a receive", IBV_WR_SEND, call_kind::post_recv},
    counted_call{"poll a receive", IBV_WR_SEND, call_kind::poll_receive},
    counted_call{"poll in vain", IBV_WR_RDMA_WRITE, call_kind::poll_empty},
    counted_call{"arm a queue", IBV_WR_RDMA_WRITE, call_kind::arm},
};

// Makes num_rounds calls of each kind. Each kind has a part of callgrind's output and a mark in
// strace's, by its name; prints "CALLS REQUESTS_OF_A_CALL NAME" for costs.py.
void count_calls(const std::string &address, bool single_threaded) {
    qp_options options;
    options.single_threaded = single_threaded;
    const rdmacm_loopback loopback(address, options, options);
    for (const std::size_t batch_size : {std::size_t{1}, max_batch})
        for (const counted_call &each : counted_calls) {
            if (batch_size != 1 &&
                (each.kind == call_kind::arm || each.kind == call_kind::poll_empty))
                continue;
            exchange round(loopback, each.opcode, batch_size);
            for (int warmup = 0; warmup < num_warmups; ++warmup)
                round(meter(call_kind::none));
            const std::string name = concat(each.name, ", ", batch_size, " at a time");
            write_mark("account " + name);
            for (int repetition = 0; repetition < num_rounds; ++repetition)
                round(meter(each.kind));
            CALLGRIND_DUMP_STATS_AT(name.c_str());
            std::printf("%d %zu %s\n", num_rounds, batch_size, name.c_str());
        }
}

// Threads post to one QP and poll its CQ for that time. Prints how many Writes completed per
// second, and whether none did in the last quarter of the time, which a stalled QP causes.
void race(const std::string &address, unsigned threads, double seconds) {
    using clock = std::chrono::steady_clock;
    const rdmacm_loopback loopback(address);
    std::atomic<std::uint64_t> completed{0};
    const auto begin = clock::now();
    const auto end =
        begin + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(seconds));
    std::atomic<clock::rep> last_completion{0};
    const auto run = [&] {
        ibv_sge sge = loopback.requester.make_sge(8);
        ibv_send_wr wr = loopback.requester.make_wr(0, IBV_WR_RDMA_WRITE, sge, loopback.responder);
        std::array<ibv_wc, max_batch> wcs{};
        while (clock::now() < end) {
            const int error = loopback.requester.post_send(wr);
            if (error != 0 && error != ENOMEM && error != -ENOMEM)
                throw failure(concat("post: error ", error));
            const int num_polled =
                ibv_poll_cq(loopback.requester.send_cq.cq.get(), max_batch, wcs.data());
            if (num_polled > 0) {
                completed += static_cast<std::uint64_t>(num_polled);
                last_completion = (clock::now() - begin).count();
            }
        }
    };
    std::vector<std::thread> threads_run;
    for (unsigned i = 0; i < threads; ++i)
        threads_run.emplace_back(run);
    for (std::thread &thread : threads_run)
        thread.join();
    const double stalled_seconds =
        seconds - std::chrono::duration<double>(clock::duration(last_completion.load())).count();
    std::printf("%llu writes per second%s\n",
                static_cast<unsigned long long>(static_cast<double>(completed.load()) / seconds),
                stalled_seconds > seconds / 4
                    ? concat(", none in the last ", stalled_seconds, " s").c_str()
                    : "");
}

} // namespace

int main(int argc, char **argv) try {
    const std::vector<std::string> args(argv + 1, argv + argc);
    if (args.size() >= 2 && args.size() <= 3 && args[0] == "count")
        count_calls(args[1], args.size() == 3 && args[2] == "alone");
    else if (args.size() == 4 && args[0] == "race")
        race(args[1], static_cast<unsigned>(std::stoul(args[2])), std::stod(args[3]));
    else
        throw failure("posts count ADDRESS [alone] | race ADDRESS THREADS SECONDS");
    return 0;
} catch (const std::exception &error) {
    std::fprintf(stderr, "posts: %s\n", error.what());
    const std::string_view message = error.what();
    return message.starts_with("thread domain: Operation not") ? 77
           : message.ends_with("again")                        ? 75
                                                               : 1;
}
