// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// More CM events than the event thread can read, as of peers that request connections all the time:
// its timers and other watchers go on.

#include "dapl/cm/connection.hpp"
#include "fake/consumer.hpp"
#include "fake/manager.hpp"
#include "fake/tsan_ordering.hpp"

#include <atomic>
#include <sys/eventfd.h>

using namespace fake;
using namespace coherdma::dapl;

namespace {

/// A CM event of this id makes the next one, until the flood is stopped, or was not for too long.
struct event_flood final : cm::cm_handler {
    static constexpr int max_events = 100000;

    event_flood() {
        assert_int_equal(rdma_create_id(event_thread::channel(), &id,
                                        static_cast<cm_handler *>(this), RDMA_PS_TCP),
                         0);
    }
    void start() {
        tsan_release(id->context); // the event thread has it from the event
        const library_call_guard call;
        queue_event(*static_cast<fake_cm_id *>(id), RDMA_CM_EVENT_ADDR_CHANGE);
    }
    /// Returns the number of events until the flood was stopped.
    int wait_for_end() {
        assert_true(wait_until([this] { return stopped || num_events == max_events; }));
        stopped = true;
        assert_int_equal(rdma_destroy_id(id), 0);
        return num_events;
    }
    void handle_event(rdma_cm_event &) noexcept override {
        if (++num_events == 1)
            make_competitor_ready();
        if (!stopped && num_events != max_events)
            start();
    }

    std::function<void()> make_competitor_ready;
    std::atomic<bool> stopped = false;
    std::atomic<int> num_events = 0;
    rdma_cm_id *id = nullptr;
};

/// One event may be read before the competitor runs, and one more before the flood sees that.
constexpr int max_events_before = 3;

void timer_runs_among_cm_events(void **) {
    ia_fixture ia;
    event_flood flood;
    struct stopping_task final : timer_task {
        explicit stopping_task(event_flood &running)
            : flood(running) {}
        void run() noexcept override { flood.stopped = true; }
        event_flood &flood;
    } task(flood);
    flood.make_competitor_ready = [&task] {
        event_thread::schedule(task, 0);
    };
    flood.start();
    assert_in_range(flood.wait_for_end(), 1, max_events_before);
    event_thread::cancel(task);
}

void watcher_called_among_cm_events(void **) {
    ia_fixture ia;
    event_flood flood;
    unique_fd fd;
    fd.reset(eventfd(0, EFD_NONBLOCK));
    struct stopping_watcher final : fd_watcher {
        stopping_watcher(event_flood &running, int readable_fd)
            : flood(running)
            , fd(readable_fd) {}
        void handle_readable() noexcept override {
            eventfd_t value;
            eventfd_read(fd, &value);
            flood.stopped = true;
        }
        event_flood &flood;
        int fd;
    } watcher(flood, fd.get());
    assert_int_equal(event_thread::watch(fd.get(), watcher), 0);
    flood.make_competitor_ready = [&fd] {
        eventfd_write(fd.get(), 1);
    };
    flood.start();
    assert_in_range(flood.wait_for_end(), 1, max_events_before);
    event_thread::unwatch(fd.get(), watcher);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(timer_runs_among_cm_events),
        TEST(watcher_called_among_cm_events),
    };
    return run_cases(tests);
}
