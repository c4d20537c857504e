// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Two processes register the same shared memory: the first writes, the second syncs, and a peer of
// the first reads; then the peer writes, the second syncs, and the first reads.
//
//     shared [--without] ADDRESS                  --without: the second process does not sync
//
// Exit status: 0 all data were right, 1 some were wrong, 2 error.

#include "../../lib/rdmacm_loopback.hpp"

#include <coherdma/coherdma.h>
#include <cstring>
#include <memory>
#include <string_view>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

using namespace verbs_test;

constexpr std::size_t SIZE = 8192, OFFSET = 100, LENGTH = 3000;

/// Each process has a loopback connection, so that it has opened the device.
struct process {
    std::unique_ptr<rdmacm_loopback> loopback;
    unique_handle<coherdma_device, coherdma_close_device> device;
    unique_handle<ibv_mr, ibv_dereg_mr> mr;
    std::byte *memory;

    process(const std::string &address, std::byte *shared)
        : loopback(std::make_unique<rdmacm_loopback>(address))
        , device(coherdma_open_device(loopback->responder.id->verbs))
        , mr(loopback->responder.register_memory(shared, SIZE))
        , memory(shared) {
        check(device ? 0 : -1, "coherdma_open_device");
    }
    [[nodiscard]] coherdma_range range() const {
        return {.addr = memory + OFFSET, .length = LENGTH};
    }
    /// By the peer, between its own memory and the range.
    void request(ibv_wr_opcode opcode) const {
        ibv_sge sge = loopback->requester.make_sge(LENGTH);
        ibv_send_wr request = loopback->requester.make_wr(1, opcode, sge, loopback->responder);
        request.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(memory + OFFSET);
        request.wr.rdma.rkey = mr->rkey;
        check(loopback->requester.post_send(request), "post");
        loopback->requester.send_cq.expect_success("the request");
    }
};

/// Returns when both processes have called it.
void wait_for_other(int socket) {
    char byte = 0;
    if (write(socket, &byte, 1) != 1 || read(socket, &byte, 1) != 1)
        throw failure("the other process is gone");
}

bool is_filled_with(const std::byte *data, std::byte expected) {
    for (std::size_t i = 0; i < LENGTH; ++i)
        if (data[i] != expected)
            return false;
    return true;
}

/// The second process, a child: only syncs the memory, between the steps of
/// run_accessing_process(). Each wait_for_other() has its counterpart there.
int run_syncing_process(const std::string &address, std::byte *shared, int socket, bool do_sync) {
    const process self(address, shared);
    const coherdma_range range = self.range();
    wait_for_other(socket); // both have registered the memory
    wait_for_other(socket); // the first process has written
    if (do_sync)
        check(coherdma_sync_before_read(self.device.get(), &range, 1), "sync");
    wait_for_other(socket);
    wait_for_other(socket); // the peer has read and written
    if (do_sync)
        check(coherdma_sync_after_write(self.device.get(), &range, 1), "sync");
    wait_for_other(socket);
    return 0;
}

/// The first process: writes the memory for its peer to read, then reads what the peer has written.
/// Returns the program's exit status.
int run_accessing_process(const std::string &address, std::byte *shared, int socket) {
    const process self(address, shared);
    constexpr auto LOCAL_DATA = std::byte{5}, PEER_DATA = std::byte{9};
    std::byte *const peer_data = self.loopback->requester.memory.data();
    wait_for_other(socket); // both have registered the memory
    std::memset(shared + OFFSET, std::to_integer<int>(LOCAL_DATA), LENGTH);
    wait_for_other(socket);
    wait_for_other(socket); // the second process has synced
    self.request(IBV_WR_RDMA_READ);
    const bool read_ok = is_filled_with(peer_data, LOCAL_DATA);
    std::memset(peer_data, std::to_integer<int>(PEER_DATA), LENGTH);
    self.request(IBV_WR_RDMA_WRITE);
    wait_for_other(socket);
    wait_for_other(socket); // the second process has synced
    const bool write_ok = is_filled_with(shared + OFFSET, PEER_DATA);
    std::printf("read %s, written %s\n", read_ok ? "right" : "wrong", write_ok ? "right" : "wrong");
    return read_ok && write_ok ? 0 : 1;
}

/// Starts the second process. Returns the program's exit status.
int run_both(const std::string &address, bool do_sync) {
    constexpr unsigned limit_seconds = 300; // ends a hang
    void *const shared =
        mmap(nullptr, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(shared == MAP_FAILED ? -1 : 0, "shared memory");
    int sockets[2];
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socket pair");
    const pid_t child = fork(); // before any verbs call, so that both are ordinary processes
    check(child < 0 ? -1 : 0, "fork");
    alarm(limit_seconds);
    auto *const memory = static_cast<std::byte *>(shared);
    close(sockets[child == 0 ? 0 : 1]);
    if (child == 0)
        return run_syncing_process(address, memory, sockets[1], do_sync);
    const int status = run_accessing_process(address, memory, sockets[0]);
    int child_status = 0;
    check(waitpid(child, &child_status, 0) == child ? 0 : -1, "wait for the other process");
    return child_status == 0 ? status : 2;
}

} // namespace

int main(int argc, char **argv) try {
    const bool do_sync = argc < 2 || std::string_view(argv[1]) != "--without";
    if (argc != (do_sync ? 2 : 3))
        throw failure("shared [--without] ADDRESS");
    return run_both(argv[argc - 1], do_sync);
} catch (const std::exception &e) {
    std::fprintf(stderr, "shared: %s\n", e.what());
    return 2;
}
