// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Many MRs, or many outstanding Writes, of one process: emulated_scale.py runs it bare and
// emulated.
//
// emulated_scale register DEVICE COUNT STEP     COUNT MRs of 64 bytes, STEP bytes apart
// emulated_scale writes ADDRESS COUNT           COUNT Writes to a device's own memory, each to a
// line
//                                               of its own; then a sync for each
//
// Prints a line of JSON: nanoseconds for one call of each kind, and the peak of memory in
// kilobytes.

#include "system/lib/rdmacm_loopback.hpp"

#include <chrono>
#include <coherdma/coherdma.h>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <random>
#include <string>
#include <sys/mman.h>
#include <vector>

namespace {

using namespace verbs_test;

constexpr std::size_t LENGTH = 64, LINE = 256; // the largest line that is emulated
constexpr int ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

class stopwatch {
  public:
    /// Nanoseconds since the last call, for each of count calls.
    double lap(std::size_t count) {
        const auto now = std::chrono::steady_clock::now();
        const std::chrono::duration<double, std::nano> passed = now - begin_;
        begin_ = now;
        return passed.count() / static_cast<double>(count);
    }

  private:
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Of this program; getrusage() counts what the process had before it executed it.
long peak_kilobytes() {
    std::ifstream status("/proc/self/status");
    long kilobytes = 0;
    for (std::string word; status >> word;)
        if (word == "VmHWM:" && status >> kilobytes)
            break;
    return kilobytes;
}

unique_handle<ibv_context, ibv_close_device> open_device(const std::string &name) {
    const unique_handle<ibv_device *, ibv_free_device_list> list(ibv_get_device_list(nullptr));
    for (ibv_device **each = list.get(); *each != nullptr; ++each)
        if (name == ibv_get_device_name(*each))
            return check(unique_handle<ibv_context, ibv_close_device>(ibv_open_device(*each)),
                         "open the device");
    throw failure(concat("no device ", name));
}

std::byte *allocate(std::size_t size) {
    void *const pages = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    check(pages == MAP_FAILED ? -1 : 0, "allocate memory");
    return static_cast<std::byte *>(pages);
}

// Deregistered in another order than registered, as a program does that frees its memory.
void measure_registrations(const std::string &device, std::size_t count, std::size_t step) {
    const auto context = open_device(device);
    const unique_handle<ibv_pd, ibv_dealloc_pd> pd =
        check(unique_handle<ibv_pd, ibv_dealloc_pd>(ibv_alloc_pd(context.get())), "ibv_alloc_pd");
    std::byte *const memory = allocate(count * step);
    std::vector<unique_handle<ibv_mr, ibv_dereg_mr>> mrs(count);
    stopwatch watch;
    for (std::size_t i = 0; i < count; ++i) {
        mrs[i].reset(ibv_reg_mr(pd.get(), memory + i * step, LENGTH, ACCESS));
        check(mrs[i] != nullptr ? 0 : -1, "ibv_reg_mr");
    }
    const double reg_ns = watch.lap(count);
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::minstd_rand(1));
    watch.lap(count);
    for (const std::size_t i : order)
        mrs[i].reset();
    const double dereg_ns = watch.lap(count);
    std::printf("{\"ibv_reg_mr\": %.0f, \"ibv_dereg_mr\": %.0f, \"peak_kb\": %ld}\n", reg_ns,
                dereg_ns, peak_kilobytes());
}

void measure_writes(const std::string &address, std::size_t count) {
    qp_options options;
    options.cap.max_send_wr = static_cast<std::uint32_t>(count);
    rdmacm_loopback loopback(address, options);
    std::byte *const memory = allocate(count * LINE);
    const auto mr = loopback.responder.register_memory(memory, count * LINE);
    const unique_handle<coherdma_device, coherdma_close_device> device =
        check(unique_handle<coherdma_device, coherdma_close_device>(
                  coherdma_open_device(loopback.responder.id->verbs)),
              "coherdma_open_device");
    const auto poll_empty = [&] {
        ibv_wc wc;
        check(ibv_poll_cq(loopback.responder.recv_cq.cq.get(), 1, &wc), "an empty poll");
    };
    double post_ns = 0, poll_ns = 0, sync_ns = 0;
    constexpr std::size_t ROUNDS = 4, POLLS = 1000;
    for (std::size_t round = 0; round < ROUNDS; ++round) { // the first one is a warm-up
        stopwatch watch;
        for (std::size_t i = 0; i < count; ++i) {
            ibv_sge sge = loopback.requester.make_sge(LENGTH);
            ibv_send_wr wr =
                loopback.requester.make_wr(i, IBV_WR_RDMA_WRITE, sge, loopback.responder);
            wr.send_flags = i + 1 == count ? IBV_SEND_SIGNALED : 0;
            wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(memory + i * LINE);
            wr.wr.rdma.rkey = mr->rkey;
            check(loopback.requester.post_send(wr), "post a Write");
        }
        const double posted_ns = watch.lap(count);
        loopback.requester.send_cq.expect_success("the Writes");
        watch.lap(1);
        for (std::size_t i = 0; i < POLLS; ++i)
            poll_empty();
        const double polled_ns = watch.lap(POLLS);
        for (std::size_t i = 0; i < count; ++i) {
            const coherdma_range range = {.addr = memory + i * LINE, .length = LENGTH};
            check(coherdma_sync_after_write(device.get(), &range, 1), "sync");
        }
        const double synced_ns = watch.lap(count);
        if (round != 0) {
            post_ns += posted_ns / (ROUNDS - 1);
            poll_ns += polled_ns / (ROUNDS - 1);
            sync_ns += synced_ns / (ROUNDS - 1);
        }
        // The next Writes change the bytes.
        loopback.requester.memory[0] = static_cast<std::byte>(round + 1);
    }
    std::printf("{\"ibv_post_send\": %.0f, \"empty ibv_poll_cq\": %.0f, "
                "\"coherdma_sync_after_write\": %.0f, \"peak_kb\": %ld}\n",
                post_ns, poll_ns, sync_ns, peak_kilobytes());
}

} // namespace

int main(int argc, char **argv) {
    const std::string_view kind = argc > 1 ? argv[1] : "";
    const auto number = [&](int i) {
        return std::strtoul(argv[i], nullptr, 10);
    };
    try {
        if (kind == "register" && argc == 5)
            measure_registrations(argv[2], number(3), number(4));
        else if (kind == "writes" && argc == 4)
            measure_writes(argv[2], number(3));
        else
            throw failure("register DEVICE COUNT STEP, or writes ADDRESS COUNT");
    } catch (const failure &e) {
        std::fprintf(stderr, "emulated_scale: %s\n", e.what());
        return 1;
    }
}
