// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// datping's server with libdat2, the provider and the fake fabric of the provider's tests. Time
// passes only when a test says so.

#include "../cmocka.hpp"
#include "dat_common/adapter.hpp"
#include "dat_common/to_string.hpp"
#include "datping/channel.hpp"
#include "datping/events.hpp"
#include "datping/limits.hpp"
#include "datping/pattern.hpp"
#include "datping/server.hpp"
#include "fake/fabric.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

using namespace tools::datping;
namespace dat = tools::dat;

extern "C" void dat_provider_init(const DAT_PROVIDER_INFO *info, const char *args);

namespace {

std::atomic<std::chrono::steady_clock::rep> now_ns = 0;

void pass_time(std::chrono::nanoseconds duration) {
    now_ns += duration.count();
}

} // namespace

/// Replaces that of the C++ library.
std::chrono::steady_clock::time_point std::chrono::steady_clock::now() noexcept {
    return time_point(nanoseconds(now_ns.load()));
}

namespace {

constexpr const char *IA_NAME = "roce0", *IA_ADDRESS = "192.0.2.1";
constexpr std::chrono::seconds TIMEOUT{10}, MAX_INTERVAL{60};
constexpr DAT_TIMEOUT EVENT_TIMEOUT_US = 120'000'000; ///< a longer wait counts as a hang

/// A stream for the server's output. The server is busy while a line is held.
class server_output {
  public:
    server_output() {
        cookie_io_functions_t functions = {};
        functions.write = [](void *self, const char *text, std::size_t length) {
            static_cast<server_output *>(self)->write({text, length});
            return static_cast<ssize_t>(length);
        };
        stream_ = fopencookie(this, "w", functions);
        assert_non_null(stream_);
        assert_int_equal(std::setvbuf(stream_, nullptr, _IONBF, 0), 0);
    }
    ~server_output() { std::fclose(stream_); }
    server_output(const server_output &) = delete;
    server_output &operator=(const server_output &) = delete;

    std::FILE *stream() { return stream_; }
    /// The next line with this text does not return to the server until release().
    void hold(std::string text) {
        const std::lock_guard guard(mutex_);
        held_text_ = std::move(text);
    }
    void release() {
        hold("");
        changed_.notify_all();
    }
    /// Returns when the server has written the text, or is held in its line.
    void wait_for(const std::string &text) {
        std::unique_lock guard(mutex_);
        changed_.wait(guard, [&] { return text_.find(text) != std::string::npos; });
    }
    std::string text() {
        const std::lock_guard guard(mutex_);
        return text_;
    }

  private:
    void write(const std::string &text) {
        std::unique_lock guard(mutex_);
        text_ += text;
        changed_.notify_all();
        changed_.wait(guard, [&] {
            return held_text_.empty() || text.find(held_text_) == std::string::npos;
        });
    }

    std::FILE *stream_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::string text_, held_text_;
};

/// A server in another thread. It ends with its last client. On the heap: a failed assertion leaves
/// the test by longjmp, and the thread goes on.
class running_server {
  public:
    explicit running_server(DAT_CONN_QUAL qualifier)
        : qualifier_(qualifier) {
        opts_.server = opts_.once = true;
        opts_.ia = IA_NAME;
        opts_.qualifier = qualifier;
        opts_.size = MAX_SERVER_SIZE;
        opts_.interval = MAX_INTERVAL;
        opts_.timeout = TIMEOUT;
        thread_ = std::thread([this] { server(opts_, result_, output_.stream()).run(); });
        output_.wait_for("listens");
    }
    ~running_server() { assert_false(thread_.joinable()); }
    running_server(const running_server &) = delete;
    running_server &operator=(const running_server &) = delete;

    DAT_CONN_QUAL qualifier() const { return qualifier_; }
    server_output &output() { return output_; }
    /// Waits until the server has ended.
    const server_result &result() {
        thread_.join();
        return result_;
    }

    static constexpr std::uint64_t MAX_SERVER_SIZE = 4096;

  private:
    DAT_CONN_QUAL qualifier_;
    options opts_;
    server_output output_;
    server_result result_;
    std::thread thread_;
};

/// A client that takes each step of the protocol when the test says so.
class test_client {
  public:
    test_client(const running_server &server, const hello &request)
        : ia_(IA_NAME)
        , pz_(ia_.create_pz())
        , dto_evd_(ia_.create_evd(NUM_EVENTS, DAT_EVD_DTO_FLAG))
        , conn_evd_(ia_.create_evd(NUM_EVENTS, DAT_EVD_CONNECTION_FLAG))
        , channel_(channel::side::CLIENT, ia_, pz_.get(), dto_evd_.get(), conn_evd_.get(),
                   request.size, 1) {
        channel_.post_receive();
        auto bytes = encode(request);
        const dat::address destination = dat::resolve(IA_ADDRESS).front();
        assert_int_equal(dat_ep_connect(channel_.ep(), const_cast<sockaddr *>(destination.get()),
                                        server.qualifier(), EVENT_TIMEOUT_US,
                                        static_cast<DAT_COUNT>(bytes.size()), bytes.data(),
                                        DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
                         DAT_SUCCESS);
    }

    void expect_conn_event(DAT_EVENT_NUMBER expected) {
        assert_string_equal(dat::event_to_string(wait(conn_evd_.get()).event_number).c_str(),
                            dat::event_to_string(expected).c_str());
    }
    /// Exchanges the buffers.
    void expect_established() {
        expect_conn_event(DAT_CONNECTION_EVENT_ESTABLISHED);
        message msg;
        msg.type = message::kind::ADVERTISE;
        msg.readable = channel_.outgoing_for_peer();
        msg.writable = channel_.incoming_for_peer();
        send(msg);
        expect_reply(message::kind::ADVERTISE);
    }
    /// Returns when START is at the server.
    void start_round() {
        channel_.post_receive();
        fill(channel_.outgoing(), ++round_);
        message msg;
        msg.type = message::kind::START;
        msg.mode = mode::PINGPONG;
        msg.round = round_;
        send(msg);
    }
    void expect_done() { expect_reply(message::kind::DONE); }
    void run_round() {
        start_round();
        expect_done();
    }
    void finish() {
        message msg;
        msg.type = message::kind::BYE;
        send(msg);
        assert_int_equal(dat_ep_disconnect(channel_.ep(), DAT_CLOSE_GRACEFUL_FLAG), DAT_SUCCESS);
        expect_conn_event(DAT_CONNECTION_EVENT_DISCONNECTED);
    }

  private:
    static constexpr DAT_COUNT NUM_EVENTS = 16;

    static DAT_EVENT wait(DAT_EVD_HANDLE evd) {
        DAT_EVENT event = {};
        DAT_COUNT num_pending = 0;
        assert_int_equal(dat_evd_wait(evd, EVENT_TIMEOUT_US, 1, &event, &num_pending), DAT_SUCCESS);
        return event;
    }
    /// The completion of that kind; those of others may be first.
    std::size_t wait_completion(dto_kind kind) {
        while (!lengths_[static_cast<std::size_t>(kind)]) {
            const DAT_DTO_COMPLETION_EVENT_DATA dto =
                wait(dto_evd_.get()).event_data.dto_completion_event_data;
            assert_int_equal(dto.status, DAT_DTO_SUCCESS);
            lengths_[static_cast<std::size_t>(channel::kind_of(dto.user_cookie))] =
                dto.transfered_length;
        }
        return *std::exchange(lengths_[static_cast<std::size_t>(kind)], {});
    }
    void send(const message &msg) {
        channel_.post_send(msg);
        wait_completion(dto_kind::SEND);
    }
    void expect_reply(message::kind expected) {
        const auto msg = channel_.decode_received(wait_completion(dto_kind::RECV));
        assert_true(msg && msg->type == expected && msg->mismatch.count == 0);
    }

    dat::adapter ia_;
    dat::pz_handle pz_;
    dat::evd_handle dto_evd_, conn_evd_;
    channel channel_;
    std::uint64_t round_ = 0;
    std::optional<std::size_t> lengths_[4]; ///< of completions, by dto_kind
};

hello make_request(std::uint64_t size, std::chrono::milliseconds max_silence = {}) {
    hello request;
    request.size = size;
    request.max_silence_ms = static_cast<std::uint32_t>(max_silence.count());
    return request;
}

/// The message of a client waits in the EVD while the server is busy, for longer than the timeout.
void busy_server_keeps_client_that_has_sent(void **) {
    const auto server = std::make_unique<running_server>(1);
    test_client client(*server, make_request(64));
    client.expect_established();
    client.run_round();
    server->output().hold("rejected");
    test_client too_large(*server, make_request(running_server::MAX_SERVER_SIZE + 1));
    server->output().wait_for("rejected");
    client.start_round();
    pass_time(2 * TIMEOUT);
    server->output().release();
    client.expect_done();
    client.finish();
    too_large.expect_conn_event(DAT_CONNECTION_EVENT_PEER_REJECTED);
    const server_result &result = server->result();
    assert_int_equal(result.served, 1);
    assert_string_equal(result.clients[0].problem.c_str(), "");
    assert_int_equal(result.clients[0].rounds, 2);
}

void silent_client_is_ended(void **) {
    const auto server = std::make_unique<running_server>(2);
    test_client client(*server, make_request(64, MAX_INTERVAL));
    client.expect_established();
    pass_time(2 * TIMEOUT);
    client.expect_conn_event(DAT_CONNECTION_EVENT_DISCONNECTED);
    assert_string_equal(server->result().clients[0].problem.c_str(), "sent nothing for too long");
}

/// Clients in all slots, each with a completed round, that may pause for MAX_INTERVAL.
std::vector<std::unique_ptr<test_client>> take_all_slots(const running_server &server) {
    std::vector<std::unique_ptr<test_client>> clients;
    while (clients.size() < MAX_CLIENTS) {
        clients.push_back(std::make_unique<test_client>(server, make_request(64, MAX_INTERVAL)));
        clients.back()->expect_established();
        clients.back()->run_round();
    }
    return clients;
}

/// Clients that pause cannot keep others away for longer than the server's timeout.
void client_that_paused_longest_gives_way(void **) {
    const auto server = std::make_unique<running_server>(3);
    auto clients = take_all_slots(*server);
    pass_time(TIMEOUT / 2);
    clients.front()->run_round();
    pass_time(TIMEOUT / 2 + std::chrono::seconds{1});
    // A round after a connection event is in a later pass, in which the server reads the clock.
    test_client too_large(*server, make_request(running_server::MAX_SERVER_SIZE + 1));
    too_large.expect_conn_event(DAT_CONNECTION_EVENT_PEER_REJECTED);
    for (auto it = clients.begin() + 2; it != clients.end(); ++it)
        (*it)->run_round();
    // The first has paused for less than the timeout, the second for longer.
    test_client another(*server, make_request(64));
    another.expect_established();
    another.run_round();
    clients[1]->expect_conn_event(DAT_CONNECTION_EVENT_DISCONNECTED);
    test_client rejected(*server, make_request(64));
    rejected.expect_conn_event(DAT_CONNECTION_EVENT_PEER_REJECTED);
    another.finish();
    clients.erase(clients.begin() + 1);
    for (auto &client : clients)
        client->finish();
    const server_result &result = server->result();
    assert_int_equal(result.served, MAX_CLIENTS + 1);
    assert_int_equal(result.failed, 1);
    assert_int_equal(result.rejected, 2);
    for (const served_client &client : result.clients)
        assert_true(client.problem.empty() ||
                    client.problem == "paused for 11 s, and another client needed its slot");
}

} // namespace

int main() {
    setenv("DAT_OVERRIDE", "/dev/null", 1); // no dat.conf
    DAT_PROVIDER_INFO info = {};
    std::strcpy(info.ia_name, IA_NAME);
    info.dapl_version_major = DAT_VERSION_MAJOR;
    info.dapl_version_minor = DAT_VERSION_MINOR;
    info.is_thread_safe = DAT_FALSE;
    dat_provider_init(&info, "roce0 0");
    fake::get_fabric().waits_forever = true;
    const CMUnitTest tests[] = {
        cmocka_unit_test(busy_server_keeps_client_that_has_sent),
        cmocka_unit_test(silent_client_is_ended),
        cmocka_unit_test(client_that_paused_longest_gives_way),
    };
    return cmocka_run_group_tests_name("datping_server", tests, nullptr, nullptr);
}
