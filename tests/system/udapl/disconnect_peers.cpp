// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Two processes that connect and disconnect over uDAPL, so that a test can change the network in
// between:
//
//   disconnect_peers server IA        waits for one client, and for the disconnect event
//   disconnect_peers client IA HOST   disconnects and closes its IA once it can read a line
//   disconnect_peers client-write-signaled|client-write-unsignaled IA HOST
//                                     writes the server's memory, and disconnects gracefully

#include "dat_common/adapter.hpp"
#include "dat_common/to_string.hpp"

#include <cstdio>
#include <cstring>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace tools::dat;

constexpr DAT_CONN_QUAL QUALIFIER = 7190;
constexpr DAT_TIMEOUT TIMEOUT = 120'000'000;

void print_line(const char *line) {
    std::puts(line);
    std::fflush(stdout);
}

DAT_EVENT wait_event(const evd_handle &evd, DAT_EVENT_NUMBER expected) {
    DAT_EVENT event = {};
    DAT_COUNT num_pending = 0;
    check(dat_evd_wait(evd.get(), TIMEOUT, 1, &event, &num_pending), "no event");
    if (event.event_number != expected)
        throw std::runtime_error(event_to_string(event.event_number));
    return event;
}

/// The IA and EP of this process, the server or the client.
struct endpoint_side {
    adapter ia;
    evd_handle conn_evd = ia.create_evd(8, DAT_EVD_CONNECTION_FLAG);
    evd_handle dto_evd = ia.create_evd(8, DAT_EVD_DTO_FLAG);
    pz_handle pz = ia.create_pz();
    ep_handle ep;

    explicit endpoint_side(const char *name)
        : ia(name) {
        check(dat_ep_create(ia.get(), pz.get(), dto_evd.get(), dto_evd.get(), conn_evd.get(),
                            nullptr, ep.out_handle()),
              "no endpoint");
    }
    void wait_connected() const {
        wait_event(conn_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        print_line("connected");
    }
    void wait_disconnected() const {
        wait_event(conn_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        print_line("disconnected");
    }
};

/// What a client writes to the server.
struct shared_memory {
    static constexpr std::size_t SIZE = 64 << 20;

    explicit shared_memory(const endpoint_side &side)
        : bytes(SIZE) {
        DAT_REGION_DESCRIPTION region = {.for_va = bytes.data()};
        DAT_VLEN registered_size = 0;
        DAT_VADDR registered_address = 0;
        check(dat_lmr_create(side.ia.get(), DAT_MEM_TYPE_VIRTUAL, region, SIZE, side.pz.get(),
                             DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, lmr.out_handle(), &lmr_context,
                             &rmr_context, &registered_size, &registered_address),
              "no memory");
    }
    /// The value of the nth byte that a client writes.
    static unsigned char pattern(std::size_t n) { return static_cast<unsigned char>(n % 251 + 1); }
    DAT_VADDR address() const { return reinterpret_cast<DAT_VADDR>(bytes.data()); }

    std::vector<unsigned char> bytes;
    lmr_handle lmr;
    DAT_LMR_CONTEXT lmr_context = 0;
    DAT_RMR_CONTEXT rmr_context = 0;
};

/// The server process: accepts one client, and waits until the connection ends. name: of its IA.
/// "whole" is printed if the client has written all memory.
void accept_client_and_wait_for_end(const char *name) {
    const endpoint_side side(name);
    const evd_handle requests = side.ia.create_evd(8, DAT_EVD_CR_FLAG);
    psp_handle psp;
    check(dat_psp_create(side.ia.get(), QUALIFIER, requests.get(), DAT_PSP_CONSUMER_FLAG,
                         psp.out_handle()),
          "no listener");
    print_line("listens");
    const DAT_EVENT request = wait_event(requests, DAT_CONNECTION_REQUEST_EVENT);
    const shared_memory memory(side);
    DAT_RMR_TRIPLET target = {};
    target.virtual_address = memory.address();
    target.segment_length = shared_memory::SIZE;
    target.rmr_context = memory.rmr_context;
    check(dat_cr_accept(request.event_data.cr_arrival_event_data.cr_handle, side.ep.get(),
                        sizeof target, &target),
          "not accepted");
    side.wait_connected();
    side.wait_disconnected();
    std::size_t n = 0;
    while (n != shared_memory::SIZE && memory.bytes[n] == shared_memory::pattern(n))
        ++n;
    if (n == shared_memory::SIZE)
        print_line("whole");
}

/// Returns the memory that the server has sent with its reply.
DAT_RMR_TRIPLET connect(const endpoint_side &side, const char *host) {
    const address server = resolve(host).at(0);
    check(dat_ep_connect(side.ep.get(), const_cast<sockaddr *>(server.get()), QUALIFIER, TIMEOUT, 0,
                         nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
          "not connected");
    const DAT_EVENT event = wait_event(side.conn_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    print_line("connected");
    DAT_RMR_TRIPLET target;
    std::memcpy(&target, event.event_data.connect_event_data.private_data, sizeof target);
    return target;
}

/// The client process: connects, and disconnects when the test writes a line to its stdin. "closed"
/// is printed once its IA is closed.
void connect_and_disconnect_on_line(const char *name, const char *host) {
    {
        const endpoint_side side(name);
        connect(side, host);
        std::string line;
        std::getline(std::cin, line);
        check(dat_ep_disconnect(side.ep.get(), DAT_CLOSE_ABRUPT_FLAG), "cannot disconnect");
        side.wait_disconnected();
    }
    print_line("closed");
}

/// The client process: has the whole Write completed before it is disconnected?
void write_and_disconnect(const char *name, const char *host, bool is_signaled) {
    const endpoint_side side(name);
    shared_memory memory(side);
    for (std::size_t n = 0; n != shared_memory::SIZE; ++n)
        memory.bytes[n] = shared_memory::pattern(n);
    const DAT_RMR_TRIPLET target = connect(side, host);
    DAT_LMR_TRIPLET source = {};
    source.virtual_address = memory.address();
    source.segment_length = shared_memory::SIZE;
    source.lmr_context = memory.lmr_context;
    const DAT_DTO_COOKIE no_cookie = {};
    check(dat_ep_post_rdma_write(side.ep.get(), 1, &source, no_cookie, &target,
                                 is_signaled ? DAT_COMPLETION_DEFAULT_FLAG
                                             : DAT_COMPLETION_SUPPRESS_FLAG),
          "not posted");
    check(dat_ep_disconnect(side.ep.get(), DAT_CLOSE_GRACEFUL_FLAG), "cannot disconnect");
    wait_event(side.conn_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    DAT_EVENT event = {};
    const DAT_RETURN result = dat_evd_dequeue(side.dto_evd.get(), &event);
    if (is_signaled) {
        check(result, "no completion before the disconnect event");
        if (event.event_data.dto_completion_event_data.status != DAT_DTO_SUCCESS)
            throw std::runtime_error("the Write has failed");
    } else if (result == DAT_SUCCESS) {
        throw std::runtime_error(event_to_string(event.event_number));
    }
    print_line("disconnected");
}

} // namespace

int main(int argc, char **argv) {
    try {
        if (argc == 3 && argv[1] == std::string("server"))
            accept_client_and_wait_for_end(argv[2]);
        else if (argc == 4 && argv[1] == std::string("client"))
            connect_and_disconnect_on_line(argv[2], argv[3]);
        else if (argc == 4 && argv[1] == std::string("client-write-signaled"))
            write_and_disconnect(argv[2], argv[3], true);
        else if (argc == 4 && argv[1] == std::string("client-write-unsignaled"))
            write_and_disconnect(argv[2], argv[3], false);
        else
            throw std::runtime_error(
                "usage: disconnect_peers server IA | client[-write-...] IA HOST");
    } catch (const std::exception &e) {
        std::fprintf(stderr, "disconnect_peers: %s\n", e.what());
        return 1;
    }
    return 0;
}
