// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// resolve_address NETDEV ADDRESS ROUNDS: forgets the neighbour ADDRESS and lets librdmacm resolve
// it. Each round must end long before the timeout that it is given: the kernel must not miss that
// the neighbour replies.

#include "../lib/cm_event.hpp"

#include <arpa/inet.h>
#include <cstdlib>
#include <iostream>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace verbs_test;

namespace {

constexpr int TIMEOUT_MS = 600'000;
// A request that is lost is repeated each second, three times.
constexpr int MAX_WAIT_MS = 20'000;

sockaddr_in make_address(const char *text) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    if (inet_pton(AF_INET, text, &address.sin_addr) != 1)
        throw failure(concat(text, " is no IPv4 address"));
    return address;
}

void forget_neighbour(int fd, const std::string &netdev, const sockaddr_in &address) {
    arpreq request{};
    std::memcpy(&request.arp_pa, &address, sizeof(address));
    netdev.copy(request.arp_dev, sizeof(request.arp_dev) - 1);
    if (ioctl(fd, SIOCDARP, &request) != 0 && errno != ENXIO) // ENXIO: there is no such neighbour
        check(-1, "SIOCDARP");
}

void resolve(rdma_event_channel &events, sockaddr_in address) {
    rdma_cm_id *id = nullptr;
    check(rdma_create_id(&events, &id, nullptr, RDMA_PS_TCP), "rdma_create_id");
    const unique_handle<rdma_cm_id, rdma_destroy_id> owned_id(id);
    check(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr *>(&address), TIMEOUT_MS),
          "rdma_resolve_addr");
    expect_event(events, RDMA_CM_EVENT_ADDR_RESOLVED, MAX_WAIT_MS);
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 4) {
        std::cerr << "usage: resolve_address NETDEV ADDRESS ROUNDS\n";
        return 2;
    }
    try {
        const sockaddr_in address = make_address(argv[2]);
        const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        check(fd < 0 ? -1 : 0, "socket");
        const auto events = unique_handle<rdma_event_channel, rdma_destroy_event_channel>(
            check(rdma_create_event_channel(), "rdma_create_event_channel"));
        const int rounds = std::atoi(argv[3]);
        for (int round = 0; round < rounds; ++round) {
            forget_neighbour(fd, argv[1], address);
            resolve(*events, address);
        }
        close(fd);
        std::cout << "resolved " << rounds << " times\n";
        return 0;
    } catch (const std::exception &e) {
        std::cerr << "resolve_address: " << e.what() << '\n';
        return 1;
    }
}
