// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The device, and two endpoints of it that are connected: by verbs alone on rxe, and by rdma_cm on
// siw or if the case asks for it.

#pragma once

#include "endpoint.hpp"

#include <memory>

namespace check_corpus {

/// An open device.
struct device {
    ibv_context *context;
    ibv_gid gid{};
    int gid_index = 0;

    explicit device(const target &target);
    device(const device &) = delete;
    device &operator=(const device &) = delete;
    ~device() {
        if (context != nullptr) // the program has not closed it
            ibv_close_device(context);
    }
};

/// Takes both QPs of the device from INIT to RTS, connected to each other.
void connect_by_verbs(const device &dev, const endpoint &first, const endpoint &second);

/// Binds it to the device's address.
void bind_to_device(const target &target, rdma_cm_id &id);

/// An endpoint that is not connected, whose QP is in INIT.
struct unconnected {
    device dev;
    endpoint local;

    explicit unconnected(const target &target, const endpoint_options &options = {});
};

struct loopback_options {
    endpoint_options requester{}, responder{};
    bool by_cm = false;
};

class loopback {
    std::unique_ptr<device> device_; ///< if connected by verbs alone
    verbs_test::unique_handle<rdma_event_channel, rdma_destroy_event_channel> events_;
    verbs_test::unique_handle<rdma_cm_id, rdma_destroy_id> listener_;

  public:
    endpoint requester, responder;

    /// in_doubt: see endpoint.
    loopback(const target &target, bool in_doubt, const loopback_options &options = {});

    void disconnect() const;
    /// Takes both QPs through RESET, and connects them again. Only if connected by verbs.
    void reconnect() const;
    /// A message from the requester to the responder, whose completions stay in the CQs.
    void send_message() const;
    /// The same, and both completions are polled.
    void exchange_message() const;

  private:
    void open_and_connect(const target &target, const loopback_options &options);
    void connect_by_cm(const target &target, const loopback_options &options);
    void resolve(const target &target) const;
    rdma_cm_id *create_id() const;
};

} // namespace check_corpus
