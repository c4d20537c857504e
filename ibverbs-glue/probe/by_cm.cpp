// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Both ends in one thread, on one channel of events: what comes next is always for the one or the
// other, so each step says what it waits for.

#include "loopback.hpp"
#include "owned.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

namespace coherdma::probe {
namespace {

using channel = owned<rdma_event_channel, rdma_destroy_event_channel>;
using addresses = owned<ifaddrs, freeifaddrs>;

// With its queue pair, if it has one.
void release(rdma_cm_id *id) {
    if (id->qp)
        rdma_destroy_qp(id);
    rdma_destroy_id(id);
}
using identifier = owned<rdma_cm_id, release>;

void must(int result, const char *what) {
    if (result != 0)
        throw_error(errno, what);
}

identifier make_id(rdma_event_channel *events) {
    rdma_cm_id *id = nullptr;
    must(rdma_create_id(events, &id, nullptr, RDMA_PS_TCP), "an end of a connection");
    return identifier(id);
}

// Listening, at an address of the machine's that leads to the device.
identifier listen(rdma_event_channel *events, const std::string &device) {
    ifaddrs *list = nullptr;
    must(getifaddrs(&list), "asking for this machine's addresses");
    const addresses all(list);
    for (const ifaddrs *each = list; each; each = each->ifa_next) {
        const int family = each->ifa_addr ? each->ifa_addr->sa_family : AF_UNSPEC;
        if (family != AF_INET && family != AF_INET6)
            continue;
        sockaddr_storage address = {};
        std::memcpy(&address, each->ifa_addr,
                    family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
        identifier id = make_id(events);
        if (rdma_bind_addr(id.get(), reinterpret_cast<sockaddr *>(&address)) == 0 && id->verbs &&
            device == ibv_get_device_name(id->verbs->device) && rdma_listen(id.get(), 1) == 0)
            return id;
    }
    throw_error(EADDRNOTAVAIL, "looking for an address of the device");
}

class by_cm final : public loopback {
  public:
    explicit by_cm(const wish &wanted)
        : patience(wanted.patience)
        , events(got(rdma_create_event_channel(), "asking for the connection manager"))
        , door(listen(events.get(), ibv_get_device_name(wanted.context->device)))
        , reads(make_id(events.get())) {
        must(fcntl(events->fd, F_SETFL, O_NONBLOCK), "preparing to wait");
        const int time = static_cast<int>(patience.count());
        must(rdma_resolve_addr(reads.get(), nullptr, rdma_get_local_addr(door.get()), time),
             "finding the device's own address");
        wait_for(RDMA_CM_EVENT_ADDR_RESOLVED);
        must(rdma_resolve_route(reads.get(), time), "finding the way");
        wait_for(RDMA_CM_EVENT_ROUTE_RESOLVED);

        // The connection manager opens the device itself, so this is another domain than the
        // caller's, on the same device.
        protection.reset(got(ibv_alloc_pd(reads->verbs), "a domain"));
        completions.reset(got(ibv_create_cq(reads->verbs, 4, nullptr, nullptr, 0), "a queue"));
        source = register_memory(protection.get(), wanted.source);
        sink = register_memory(protection.get(), wanted.sink);
        make_pair(reads.get());

        rdma_conn_param how = {};
        how.initiator_depth = 1;
        how.responder_resources = 1;
        must(rdma_connect(reads.get(), &how), "connecting the device to itself");
        answers.reset(wait_for(RDMA_CM_EVENT_CONNECT_REQUEST));
        make_pair(answers.get());
        must(rdma_accept(answers.get(), &how), "accepting the connection");
        wait_for(RDMA_CM_EVENT_ESTABLISHED);
        wait_for(RDMA_CM_EVENT_ESTABLISHED);
    }
    ~by_cm() override {
        reads.reset(); // before what their queue pairs use
        answers.reset();
    }

    int move() override {
        return read_over(reads->qp, completions.get(), source.get(), sink.get(), patience);
    }

  private:
    void make_pair(rdma_cm_id *id) {
        ibv_qp_init_attr one = one_transfer(completions.get());
        must(rdma_create_qp(id, protection.get(), &one), "a queue pair");
    }

    rdma_cm_id *wait_for(rdma_cm_event_type wanted) {
        pollfd ready = {events->fd, POLLIN, 0};
        const int time = static_cast<int>(patience.count());
        rdma_cm_event *event = nullptr;
        if (poll(&ready, 1, time) <= 0 || rdma_get_cm_event(events.get(), &event) != 0)
            throw_error(ETIMEDOUT, "waiting for the connection manager");
        const rdma_cm_event_type type = event->event;
        rdma_cm_id *id = event->id;
        rdma_ack_cm_event(event);
        if (type != wanted)
            throw_error(EPROTO, rdma_event_str(type));
        return id;
    }

    std::chrono::milliseconds patience;
    channel events;
    identifier door, reads, answers;
    owned_domain protection;
    owned_queue completions;
    owned_region source, sink;
};

} // namespace

std::unique_ptr<loopback> connect_by_cm(const wish &wanted) {
    return std::make_unique<by_cm>(wanted);
}

} // namespace coherdma::probe
