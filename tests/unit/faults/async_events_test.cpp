// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Asynchronous events that no device has had. A context without a device, whose kernel is a pipe.

#include "../cmocka.hpp"
#include "faults/async_events.hpp"

#include <array>
#include <atomic>
#include <fcntl.h>
#include <optional>
#include <poll.h>
#include <rdma/ib_user_verbs.h>
#include <unistd.h>

namespace {

using namespace coherdma::faults;
using coherdma::interposer::object;
using coherdma::interposer::object_kind;
using namespace std::chrono_literals;

constexpr int LONG_MS = 10'000, SHORT_MS = 50;

struct device {
    device() {
        std::array<int, 2> fds{};
        assert_int_equal(pipe(fds.data()), 0);
        context.async_fd = fds[0];
        kernel_fd = fds[1];
        pthread_mutex_init(&qp.mutex, nullptr);
    }
    ~device() {
        tested.remove_context(&context);
        close(context.async_fd);
        close(kernel_fd);
    }
    device(const device &) = delete;
    device &operator=(const device &) = delete;

    /// The program has these events, after 10 ms.
    void plan(std::vector<ibv_event_type> types) {
        const auto now = std::chrono::steady_clock::now();
        std::vector<async_events::due_event> due;
        for (const ibv_event_type type : types)
            due.push_back({.type = type, .time = now + 10ms, .report = [this](bool is_delivered) {
                               ++(is_delivered ? num_delivered : num_failed);
                           }});
        assert_int_equal(tested.add_context(context, std::move(due)), 0);
    }
    /// What the program reads, as libibverbs does; no value: nothing in this time.
    std::optional<ib_uverbs_async_event_desc> read_event(int timeout_ms) const {
        pollfd program = {.fd = context.async_fd, .events = POLLIN, .revents = 0};
        if (poll(&program, 1, timeout_ms) != 1)
            return std::nullopt;
        ib_uverbs_async_event_desc event = {};
        assert_int_equal(read(context.async_fd, &event, sizeof event), sizeof event);
        return event;
    }
    void write_event(ibv_event_type type, std::uint64_t element = 2) const {
        const ib_uverbs_async_event_desc event = {
            .element = element, .event_type = static_cast<std::uint32_t>(type), .reserved = 0};
        assert_int_equal(write(kernel_fd, &event, sizeof event), sizeof event);
    }
    object qp_info() {
        object info;
        info.kind = object_kind::QP;
        info.handle = &qp;
        info.context = &context;
        return info;
    }

    void destroy_qp() {
        tested.begin_destroy(qp_info());
        constexpr bool IS_DESTROYED = true;
        tested.end_destroy(qp_info(), IS_DESTROYED);
    }

    ibv_context context{};
    ibv_qp qp{};
    int kernel_fd = -1;
    std::atomic<int> num_delivered = 0, num_failed = 0;
    async_events tested; // its threads end first
};

void those_of_the_device_come(void **) {
    device tested;
    tested.plan({});
    tested.write_event(IBV_EVENT_LID_CHANGE);
    tested.write_event(IBV_EVENT_GID_CHANGE);
    const auto first = tested.read_event(LONG_MS), second = tested.read_event(LONG_MS);
    assert_int_equal(first->event_type, IBV_EVENT_LID_CHANGE);
    assert_int_equal(first->element, 2);
    assert_int_equal(second->event_type, IBV_EVENT_GID_CHANGE);
    tested.tested.remove_context(&tested.context);
}

void those_of_a_port(void **) {
    device tested;
    tested.plan({IBV_EVENT_PORT_ERR});
    const auto event = tested.read_event(LONG_MS);
    assert_int_equal(event->event_type, IBV_EVENT_PORT_ERR);
    assert_int_equal(event->element, 1);
    assert_int_equal(tested.num_delivered, 1);
    assert_false(tested.read_event(SHORT_MS).has_value());
}

void those_of_a_qp(void **) {
    device tested;
    tested.tested.add_object(tested.qp_info());
    tested.plan({IBV_EVENT_QP_FATAL});
    const auto event = tested.read_event(LONG_MS);
    assert_ptr_equal(event->element, &tested.qp);
    ++tested.qp.events_completed; // it is acknowledged
    tested.destroy_qp();
    assert_int_equal(tested.qp.events_completed, 0); // as many as the kernel has reported
}

void none_without_a_qp(void **) {
    device tested;
    tested.plan({IBV_EVENT_QP_FATAL, IBV_EVENT_CQ_ERR, IBV_EVENT_PORT_ERR});
    assert_int_equal(tested.read_event(LONG_MS)->event_type, IBV_EVENT_PORT_ERR);
    assert_int_equal(tested.num_failed, 2);
}

void those_of_a_destroyed_qp_are_gone(void **) {
    device tested;
    tested.tested.add_object(tested.qp_info());
    tested.plan({IBV_EVENT_LID_CHANGE, IBV_EVENT_QP_FATAL, IBV_EVENT_PORT_ERR});
    while (tested.num_delivered != 3)
        usleep(1000);
    tested.destroy_qp();
    assert_int_equal(tested.read_event(LONG_MS)->event_type, IBV_EVENT_LID_CHANGE);
    assert_int_equal(tested.read_event(LONG_MS)->event_type, IBV_EVENT_PORT_ERR);
    assert_false(tested.read_event(SHORT_MS).has_value());
    assert_int_equal(tested.qp.events_completed, 0);
}

void unread_ones_of_the_device_count_as_acknowledged(void **) {
    device tested;
    tested.tested.add_object(tested.qp_info());
    tested.plan({});
    tested.write_event(IBV_EVENT_QP_FATAL, reinterpret_cast<std::uintptr_t>(&tested.qp));
    tested.write_event(IBV_EVENT_PORT_ERR);
    usleep(SHORT_MS * 1000); // the thread has taken them: the kernel has reported one of the QP
    tested.destroy_qp();
    assert_int_equal(tested.qp.events_completed, 1);
    assert_int_equal(tested.read_event(LONG_MS)->event_type, IBV_EVENT_PORT_ERR);
}

void none_is_taken_while_a_qp_is_destroyed(void **) {
    device tested;
    tested.tested.add_object(tested.qp_info());
    tested.plan({});
    tested.tested.begin_destroy(tested.qp_info());
    tested.write_event(IBV_EVENT_PORT_ERR);
    assert_false(tested.read_event(SHORT_MS).has_value());
    tested.tested.end_destroy(tested.qp_info(), true);
    assert_int_equal(tested.read_event(LONG_MS)->event_type, IBV_EVENT_PORT_ERR);
}

void the_file_keeps_its_flags(void **) {
    device tested;
    const int kernels_fd = tested.context.async_fd;
    assert_int_equal(fcntl(kernels_fd, F_SETFL, 0), 0);
    tested.plan({});
    assert_int_not_equal(tested.context.async_fd, kernels_fd);
    assert_false((fcntl(tested.context.async_fd, F_GETFL) & O_NONBLOCK) != 0);
    tested.tested.remove_context(&tested.context);
    assert_int_equal(tested.context.async_fd, kernels_fd);
    assert_false((fcntl(kernels_fd, F_GETFL) & O_NONBLOCK) != 0);
}

void the_kernel_gets_its_file(void **) {
    device tested;
    const int kernels_fd = tested.context.async_fd;
    tested.plan({});
    const int programs_fd = tested.context.async_fd;
    tested.tested.begin_create(&tested.context);
    tested.tested.begin_create(&tested.context); // another thread
    assert_int_equal(tested.context.async_fd, kernels_fd);
    tested.tested.end_create(&tested.context);
    assert_int_equal(tested.context.async_fd, kernels_fd);
    tested.tested.end_create(&tested.context);
    assert_int_equal(tested.context.async_fd, programs_fd);
}

void more_than_the_socket_takes(void **) {
    constexpr int COUNT = 2000;
    device tested;
    tested.plan({});
    for (int i = 0; i < COUNT; ++i)
        tested.write_event(IBV_EVENT_LID_CHANGE);
    for (int i = 0; i < COUNT; ++i)
        assert_true(tested.read_event(LONG_MS).has_value());
}

void a_context_ends_while_events_wait(void **) {
    device tested;
    tested.plan({IBV_EVENT_PORT_ERR});
    tested.tested.remove_context(&tested.context);
    tested.plan({}); // of another context at its address
    tested.write_event(IBV_EVENT_LID_CHANGE);
    assert_int_equal(tested.read_event(LONG_MS)->event_type, IBV_EVENT_LID_CHANGE);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(those_of_the_device_come),
        cmocka_unit_test(those_of_a_port),
        cmocka_unit_test(those_of_a_qp),
        cmocka_unit_test(none_without_a_qp),
        cmocka_unit_test(those_of_a_destroyed_qp_are_gone),
        cmocka_unit_test(unread_ones_of_the_device_count_as_acknowledged),
        cmocka_unit_test(none_is_taken_while_a_qp_is_destroyed),
        cmocka_unit_test(the_file_keeps_its_flags),
        cmocka_unit_test(the_kernel_gets_its_file),
        cmocka_unit_test(more_than_the_socket_takes),
        cmocka_unit_test(a_context_ends_while_events_wait),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
