// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A program that looks at what a peer has written: after a sync, or without one, for tools that
// watch what a program does with its memory.
//
//     accessed [--without] [--spin] ADDRESS
//
// --spin: the peer says nothing, and the program looks until the data are there. Exit status: 0 it
// has seen them, 1 something else, 2 it could not be tried.

#include "../conversation.hpp"

#include <coherdma/coherdma.h>
#include <cstring>
#include <memory>
#include <string_view>

namespace {

using namespace carry;

constexpr std::size_t AT = 4096 + 4, LENGTH = 100; // neither begins nor ends with a word or a line
constexpr auto WRITTEN = std::byte{7};

/// The access.
[[gnu::noinline]] bool look(const std::byte *where) {
    const volatile std::byte *const each = where;
    if (each[LENGTH / 2] != WRITTEN)
        return false;
    return each[LENGTH - 10] == WRITTEN;
}

void write_to(const conversation &talk, bool says_so) {
    ibv_sge piece = talk.from.piece(LENGTH);
    ibv_send_wr write = talk.from.request(1, IBV_WR_RDMA_WRITE, piece, talk.to);
    write.wr.rdma.remote_addr += AT;
    check(talk.from.post(write), "post a Write");
    talk.from.sent.success("the Write");
    if (!says_so)
        return;
    ibv_send_wr send = talk.from.request(2, IBV_WR_SEND, piece, talk.to);
    piece.length = 8;
    check(talk.from.post(send), "post a Send");
    talk.from.sent.success("the Send");
    talk.to.received.success("the Receive");
}

int run(const std::string &address, bool syncs, bool spins) {
    constexpr unsigned patience = 60;
    alarm(patience);
    const auto talk = std::make_unique<conversation>(address);
    const owned<coherdma_device, coherdma_close> device(coherdma_open_device(talk->to.id->verbs));
    check(device ? 0 : -1, "ask about the device");
    std::byte *const where = &talk->to.memory[AT];
    std::memset(talk->from.memory.data(), std::to_integer<int>(WRITTEN), LENGTH);
    talk->to.post_receive(3);
    const ibv_sge all = talk->to.piece(LENGTH, AT);
    const auto sync = [&] {
        check(coherdma_sync_rdma_write(device.get(), &all, 1), "sync");
    };
    sync();
    write_to(*talk, !spins);
    bool seen = false;
    do {
        if (syncs)
            sync();
        seen = look(where);
    } while (spins && !seen);
    return seen ? 0 : 1;
}

} // namespace

int main(int count, char **words) try {
    bool syncs = true, spins = false;
    std::string address;
    for (int each = 1; each < count; ++each) {
        const std::string_view word = words[each];
        if (word == "--without")
            syncs = false;
        else if (word == "--spin")
            spins = true;
        else
            address = word;
    }
    if (address.empty() || address.front() == '-')
        throw failure("accessed [--without] [--spin] ADDRESS");
    return run(address, syncs, spins);
} catch (const std::exception &error) {
    std::fprintf(stderr, "accessed: %s\n", error.what());
    return 2;
}
