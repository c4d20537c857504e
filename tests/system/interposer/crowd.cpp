// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// crowd DEVICE GID_INDEX threads|children|killed COUNT
//
// So many threads or children of fork() at once send messages to themselves, each over QPs of its
// own, and check what arrives. Each child opens the device itself, while the parent has it open.
// killed: as children, but each is killed at a moment of its work that is another for each.

#include "../lib/connected_qps.hpp"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace verbs_test;

constexpr std::uint32_t LENGTH = 64;

/// Connects two QPs and sends num_messages messages.
void send_to_itself(const device &dev, int num_messages) {
    // On the heap: the memory that they register is not on the stack of a thread.
    const auto sender = std::make_unique<endpoint>(dev), receiver = std::make_unique<endpoint>(dev);
    constexpr std::uint8_t TIMEOUT = 16; // 0.3 s: a busy machine sends no message again
    connect(*sender, *receiver, endpoint::qp_access, TIMEOUT);
    for (int i = 0; i < num_messages; ++i) {
        const auto wr_id = static_cast<std::uint64_t>(i);
        receiver->post_recv(wr_id);
        std::memset(sender->memory.data(), i, LENGTH);
        ibv_sge sge = sender->make_sge(LENGTH);
        ibv_send_wr wr = sender->make_wr(IBV_WR_SEND, sge), *bad_wr = nullptr;
        wr.wr_id = wr_id;
        check(ibv_post_send(sender->qp.get(), &wr, &bad_wr), "post a send");
        for (const endpoint *const side : {sender.get(), receiver.get()})
            if (side->expect_success("a message").wr_id != wr_id)
                throw failure("a completion has another wr_id");
        if (std::memcmp(sender->memory.data(), receiver->memory.data(), LENGTH) != 0)
            throw failure("other data have arrived");
    }
}

void run_threads(const device &dev, int count) {
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i)
        threads.emplace_back([&] {
            try {
                send_to_itself(dev, 20);
            } catch (const failure &e) {
                std::fprintf(stderr, "crowd: %s\n", e.what());
                std::_Exit(1);
            }
        });
    for (std::thread &thread : threads)
        thread.join();
}

pid_t start_child(const std::string &name, int gid_index, int num_messages) {
    const pid_t child = fork();
    check(child < 0 ? -1 : 0, "fork");
    if (child != 0)
        return child;
    int status = 0;
    try {
        const device dev = open_device(name, gid_index);
        send_to_itself(dev, num_messages);
    } catch (const failure &e) {
        std::fprintf(stderr, "crowd: child: %s\n", e.what());
        status = 1;
    }
    std::exit(status);
}

void run_children(const std::string &name, int gid_index, const device &dev, int count) {
    std::vector<pid_t> children;
    for (int i = 0; i < count; ++i)
        children.push_back(start_child(name, gid_index, 5));
    send_to_itself(dev, 5);
    for (const pid_t child : children) {
        int status = 0;
        check(waitpid(child, &status, 0) == child ? 0 : -1, "wait");
        if (status != 0)
            throw failure(concat("a child has ended with status ", status));
    }
}

void kill_children(const std::string &name, int gid_index, const device &dev, int count) {
    constexpr int ENDLESS = 1 << 30;
    for (int i = 0; i < count; ++i) {
        const pid_t child = start_child(name, gid_index, ENDLESS);
        std::this_thread::sleep_for(std::chrono::milliseconds(i));
        kill(child, SIGKILL);
        int status = 0;
        check(waitpid(child, &status, 0) == child ? 0 : -1, "wait");
        if (!WIFSIGNALED(status))
            throw failure(concat("a child has ended with status ", status));
    }
    send_to_itself(dev, 5);
}

} // namespace

int main(int argc, char **argv) try {
    if (argc != 5)
        throw failure("usage: crowd DEVICE GID_INDEX threads|children|killed COUNT");
    const std::string name = argv[1], subject = argv[3];
    const int gid_index = std::atoi(argv[2]), count = std::atoi(argv[4]);
    const device dev = open_device(name, gid_index);
    if (subject == "threads")
        run_threads(dev, count);
    else if (subject == "children")
        run_children(name, gid_index, dev, count);
    else
        kill_children(name, gid_index, dev, count);
    return 0;
} catch (const std::exception &e) {
    std::fprintf(stderr, "crowd: %s\n", e.what());
    return 1;
}
