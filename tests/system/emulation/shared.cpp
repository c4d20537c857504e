// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Two processes share memory that both register, and it is one for the device, too: this one writes
// and the other syncs, then a peer of this one's reads; the peer writes, the other syncs, and this
// one looks.
//
//     shared [--without] ADDRESS                  --without: the other does not sync
//
// Exit status: 0 all data was right, 1 some was not, 2 it could not be tried.

#include "../conversation.hpp"

#include <coherdma/coherdma.h>
#include <cstring>
#include <memory>
#include <string_view>
#include <sys/mman.h>
#include <sys/socket.h>

namespace {

using namespace carry;

constexpr std::size_t SIZE = 8192, AT = 100, LENGTH = 3000;

/// The other process has a conversation of its own, to have the device open.
struct process {
    std::unique_ptr<conversation> talk;
    owned<coherdma_device, coherdma_close> device;
    owned<ibv_mr, ibv_dereg_mr> region;
    std::byte *memory;

    process(const std::string &address, std::byte *shared)
        : talk(std::make_unique<conversation>(address))
        , device(coherdma_open_device(talk->to.id->verbs))
        , region(talk->to.registered(shared, SIZE))
        , memory(shared) {
        check(device ? 0 : -1, "ask about the device");
    }
    [[nodiscard]] ibv_sge all() const {
        return {reinterpret_cast<std::uintptr_t>(memory + AT), LENGTH, region->lkey};
    }
    void request(ibv_wr_opcode opcode) const {
        ibv_sge piece = talk->from.piece(LENGTH);
        ibv_send_wr request = talk->from.request(1, opcode, piece, talk->to);
        request.wr.rdma.remote_addr = all().addr;
        request.wr.rdma.rkey = region->rkey;
        check(talk->from.post(request), "post");
        talk->from.sent.success("the request");
    }
};

/// Both are as far.
void meet(int other) {
    char byte = 0;
    if (write(other, &byte, 1) != 1 || read(other, &byte, 1) != 1)
        throw failure("the other process is gone");
}

bool has(const std::byte *where, std::byte wanted) {
    for (std::size_t each = 0; each < LENGTH; ++each)
        if (where[each] != wanted)
            return false;
    return true;
}

int serve(const std::string &address, std::byte *shared, int other, bool syncs) {
    const process mine(address, shared);
    const ibv_sge all = mine.all();
    meet(other); // both have registered
    meet(other); // it has written
    if (syncs)
        check(coherdma_sync_rdma_read(mine.device.get(), &all, 1), "sync");
    meet(other);
    meet(other); // it has been read and written by a peer
    if (syncs)
        check(coherdma_sync_rdma_write(mine.device.get(), &all, 1), "sync");
    meet(other);
    return 0;
}

int run(const std::string &address, std::byte *shared, int other) {
    const process mine(address, shared);
    constexpr auto FIRST = std::byte{5}, SECOND = std::byte{9};
    std::byte *const peer = mine.talk->from.memory.data();
    meet(other);
    std::memset(shared + AT, std::to_integer<int>(FIRST), LENGTH);
    meet(other);
    meet(other); // it has synced
    mine.request(IBV_WR_RDMA_READ);
    const bool read = has(peer, FIRST);
    std::memset(peer, std::to_integer<int>(SECOND), LENGTH);
    mine.request(IBV_WR_RDMA_WRITE);
    meet(other);
    meet(other);
    const bool written = has(shared + AT, SECOND);
    std::printf("read %s, written %s\n", read ? "right" : "wrong", written ? "right" : "wrong");
    return read && written ? 0 : 1;
}

int both(const std::string &address, bool syncs) {
    constexpr unsigned patience = 60;
    void *const shared =
        mmap(nullptr, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(shared == MAP_FAILED ? -1 : 0, "shared memory");
    int pair[2];
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socket pair");
    const pid_t child = fork(); // before anything of verbs: a process like any other
    check(child < 0 ? -1 : 0, "fork");
    alarm(patience);
    auto *const memory = static_cast<std::byte *>(shared);
    close(pair[child == 0 ? 0 : 1]);
    if (child == 0)
        return serve(address, memory, pair[1], syncs);
    const int status = run(address, memory, pair[0]);
    int its = 0;
    check(waitpid(child, &its, 0) == child ? 0 : -1, "wait for the other process");
    return its == 0 ? status : 2;
}

} // namespace

int main(int count, char **words) try {
    const bool syncs = count < 2 || std::string_view(words[1]) != "--without";
    if (count != (syncs ? 2 : 3))
        throw failure("shared [--without] ADDRESS");
    return both(words[count - 1], syncs);
} catch (const std::exception &error) {
    std::fprintf(stderr, "shared: %s\n", error.what());
    return 2;
}
