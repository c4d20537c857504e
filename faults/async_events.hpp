// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Asynchronous events that no device has had. The program reads the events of a context from its
// async_fd: the program has a socket in its place, to which a thread forwards the device's events,
// and adds those that are due.
#pragma once

#include "interposer/observer.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace coherdma::faults {

class async_events {
  public:
    using time_point = std::chrono::steady_clock::time_point;
    struct due_event {
        ibv_event_type type = {};
        time_point time;
        /// Whether the program gets it: it does not if there is no object of its kind. Called by a
        /// thread.
        std::function<void(bool)> report;
    };

    async_events();
    ~async_events();

    /// From now on the context has these events. Returns an errno: it has only those of the device.
    int add_context(ibv_context &, std::vector<due_event>);
    /// The context is about to be closed.
    void remove_context(const ibv_context *);

    /// While it creates a queue, the kernel gets the context's file.
    void begin_create(const ibv_context *);
    void end_create(const ibv_context *);

    /// A QP, CQ or SRQ exists: events of its kind are those of the newest one of the context.
    void add_object(const interposer::object &);
    /// It is about to be destroyed: its events that the program has not read are gone.
    void begin_destroy(const interposer::object &);
    /// It is destroyed, or still exists.
    void end_destroy(const interposer::object &, bool is_destroyed);

  private:
    class forwarder;

    /// Of a thread: the program gets the event. False: the context has no object of its kind.
    bool add_event(forwarder &, const ibv_context *, ibv_event_type);
    forwarder *find_forwarder(const ibv_context *);

    std::mutex mutex_; ///< protects the following
    std::map<const ibv_context *, std::unique_ptr<forwarder>> forwarders_;
    std::vector<interposer::object> objects_; ///< oldest first
};

} // namespace coherdma::faults
