// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Reads memory that a peer has written, with or without a sync, under ASan or valgrind.
//
//     accessed [--without] [--spin | --both] ADDRESS
//
// --spin: the peer sends no message; the program polls the memory. --both: first both ways with
// syncs, then prints "synced", and with --without reads without a sync. Exit status: 0 the data
// were right, 1 they were not, 2 error.

#include "../../lib/rdmacm_loopback.hpp"

#include <coherdma/coherdma.h>
#include <cstring>
#include <memory>
#include <string_view>
#include <unistd.h>

namespace {

using namespace verbs_test;

// Neither start nor end is aligned to a word or line.
constexpr std::size_t OFFSET = 4096 + 4, LENGTH = 100;
constexpr auto WRITTEN = std::byte{7};

/// The access that a sync must precede: ASan or valgrind reports it here. Whether the data are
/// right.
[[gnu::noinline]] bool read_data(const std::byte *data) {
    const volatile std::byte *const bytes = data;
    if (bytes[LENGTH / 2] != WRITTEN)
        return false;
    constexpr std::size_t near_end = LENGTH - 10;
    return bytes[near_end] == WRITTEN;
}

/// An RDMA Write to the responder's memory; send_message: with a Send behind it, which is received.
void write_remote_data(const rdmacm_loopback &loopback, bool send_message) {
    ibv_sge sge = loopback.requester.make_sge(LENGTH);
    ibv_send_wr write = loopback.requester.make_wr(1, IBV_WR_RDMA_WRITE, sge, loopback.responder);
    write.wr.rdma.remote_addr += OFFSET;
    check(loopback.requester.post_send(write), "post a Write");
    loopback.requester.send_cq.expect_success("the Write");
    if (!send_message)
        return;
    ibv_send_wr send = loopback.requester.make_wr(2, IBV_WR_SEND, sge, loopback.responder);
    sge.length = 8;
    check(loopback.requester.post_send(send), "post a Send");
    loopback.requester.send_cq.expect_success("the Send");
    loopback.responder.recv_cq.expect_success("the Receive");
}

/// One Write and the accesses to its data. do_sync: with a sync before each access. poll_memory:
/// the peer sends no message, and the memory is accessed until the data are there. 0: the data were
/// right.
int run(const std::string &address, bool do_sync, bool poll_memory) {
    constexpr unsigned limit_seconds = 300; // ends a hang
    alarm(limit_seconds);
    const auto loopback = std::make_unique<rdmacm_loopback>(address);
    const unique_handle<coherdma_device, coherdma_close_device> device(
        coherdma_open_device(loopback->responder.id->verbs));
    check(device ? 0 : -1, "coherdma_open_device");
    std::byte *const data = &loopback->responder.memory[OFFSET];
    std::memset(loopback->requester.memory.data(), std::to_integer<int>(WRITTEN), LENGTH);
    loopback->responder.post_recv(3);
    const coherdma_range range = {.addr = data, .length = LENGTH};
    const auto sync = [&] {
        check(coherdma_sync_after_write(device.get(), &range, 1), "sync");
    };
    sync();
    write_remote_data(*loopback, /*send_message=*/!poll_memory);
    bool is_right = false;
    do {
        if (do_sync)
            sync();
        is_right = read_data(data);
    } while (poll_memory && !is_right);
    return is_right ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) try {
    bool do_sync = true, poll_memory = false, both = false;
    std::string address;
    for (int i = 1; i < argc; ++i) {
        const std::string_view arg = argv[i];
        if (arg == "--without")
            do_sync = false;
        else if (arg == "--spin")
            poll_memory = true;
        else if (arg == "--both")
            both = true;
        else
            address = arg;
    }
    if (address.empty() || address.front() == '-')
        throw failure("accessed [--without] [--spin | --both] ADDRESS");
    if (both) {
        for (const bool poll : {false, true})
            if (const int status = run(address, /*do_sync=*/true, poll); status != 0)
                return status;
        std::fputs("synced\n", stderr);
        if (do_sync)
            return 0;
    }
    return run(address, do_sync, poll_memory);
} catch (const std::exception &e) {
    std::fprintf(stderr, "accessed: %s\n", e.what());
    return 2;
}
