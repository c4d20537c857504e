// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Asynchronous events that no device has had. The program reads the events of a context from its
// async_fd: that becomes a socket, to which a thread forwards the device's events, and adds those
// that are due.
#pragma once

#include "interposer/observer.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
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

    /// From now on the context has these events. Returns an errno.
    int add_context(ibv_context &, std::vector<due_event>);
    /// The context is closed.
    void remove_context(const ibv_context *);

    /// A QP, CQ or SRQ exists: events of its kind are those of the newest one of the context.
    void add_object(const interposer::object &);
    /// It is about to be destroyed: its events that the program has not read are gone.
    void remove_object(const interposer::object &);
    /// The program has read an event of the object, which it will acknowledge.
    void note_read(const interposer::object &);

  private:
    class forwarder;
    struct added_object {
        interposer::object info;
        unsigned num_unread = 0; ///< events of it that were added
    };

    std::vector<added_object>::iterator find_object(const void *handle);
    /// Of the thread. Returns what the program reads; no value: the context has no such object.
    std::optional<std::uint64_t> find_element(const ibv_context *, ibv_event_type);

    std::mutex mutex_; ///< protects the following
    std::map<const ibv_context *, std::unique_ptr<forwarder>> forwarders_;
    std::vector<added_object> objects_; ///< oldest first
};

} // namespace coherdma::faults
