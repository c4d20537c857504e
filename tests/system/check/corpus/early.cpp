// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A program that looks at data before their completion has been polled, and says whether they are
// there:
//
//     early receive|read early|polled DRIVER DEVICE ADDRESS

#include "loopback.hpp"

#include <cstdio>
#include <functional>
#include <string_view>

using namespace check_corpus;

namespace {

/// Whether the first byte has come, which the device was asked for by post(). early: before the
/// program polls the completion.
bool has_come(const endpoint &local, ibv_cq *cq, bool early, const std::function<void()> &post) {
    constexpr std::byte OLD{1}, NEW{2};
    local.memory[0] = OLD;
    post();
    let_complete();
    if (!early)
        wait_success(cq, "the request");
    const bool is_new = local.memory[0] == NEW;
    if (early)
        wait_success(cq, "the request");
    return is_new;
}

bool run(std::string_view operation, bool early, const target &target) {
    loopback link(target, false);
    endpoint &local = link.responder, &peer = link.requester;
    peer.memory[0] = std::byte{2};
    if (operation == "receive") {
        const bool result = has_come(local, local.recv_cq, early, [&] {
            local.post_recv();
            peer.post_send(IBV_WR_SEND, peer.sge(), local);
        });
        wait_success(peer.send_cq, "the message");
        return result;
    }
    return has_come(local, local.send_cq, early,
                    [&] { local.post_send(IBV_WR_RDMA_READ, local.sge(), peer); });
}

} // namespace

int main(int argc, char **argv) try {
    if (argc != 6)
        throw failure("usage: early receive|read early|polled DRIVER DEVICE ADDRESS");
    const target target{argv[3], argv[4], argv[5]};
    const bool is_there = run(argv[1], std::string_view(argv[2]) == "early", target);
    std::puts(is_there ? "the data are there" : "the data are not there");
    return is_there ? 0 : 3;
} catch (const failure &reason) {
    std::fprintf(stderr, "early: %s\n", reason.what());
    return 1;
}
