// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Connections by the RDMA connection manager. One thread handles all ids of an event channel, so
// each step waits for the one event that can come next. Functions throw std::system_error.
#pragma once

#include "verbs_objects.hpp"

#include <rdma/rdma_cma.h>
#include <string>
#include <vector>

namespace coherdma::probe {

void destroy_id_and_qp(rdma_cm_id *id);
using unique_cm_id = unique_object<rdma_cm_id, destroy_id_and_qp>;

void throw_if_rdma_cm_failed(int result, const char *action);

/// An event that was acknowledged.
struct cm_event {
    rdma_cm_event_type type;
    rdma_cm_id *id;
    std::vector<std::uint8_t> private_data; ///< of a connection request or acceptance
};

class cm_event_channel {
  public:
    explicit cm_event_channel(std::chrono::milliseconds timeout);

    unique_cm_id create_id() const;
    /// An id that is bound to the local address, of family AF_INET or AF_INET6, and to the port in
    /// host byte order; 0: any. nullptr, with errno: not possible.
    unique_cm_id bind(const sockaddr *addr, std::uint16_t port) const;
    /// An id that is bound to a local address of the device, and to any port. family: AF_INET or
    /// AF_INET6; AF_UNSPEC: any.
    unique_cm_id bind_to_device(const std::string &device, int family) const;
    /// The next event, which must be of this type.
    cm_event wait_for(rdma_cm_event_type expected) const;
    /// The next event; false: none within the timeout, or a signal arrived.
    bool wait(cm_event &) const;
    /// Waits for the end of an established connection: ECONNRESET if the peer has ended it, ENODEV
    /// if the device is removed, for which the kernel waits until the ids are destroyed; 0: none of
    /// these within the timeout.
    int why_ended(std::chrono::milliseconds timeout) const;
    /// Resolves the address of a bound or new id, and the route to it.
    void resolve(rdma_cm_id *id, sockaddr *addr) const;

  private:
    bool wait(cm_event &, std::chrono::milliseconds timeout) const;

    std::chrono::milliseconds timeout_;
    unique_object<rdma_event_channel, rdma_destroy_event_channel> channel_;
};

/// Creates the QP of the id.
void create_qp(rdma_cm_id *id, ibv_pd *pd, ibv_cq *cq);

} // namespace coherdma::probe
