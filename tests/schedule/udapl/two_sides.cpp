// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "two_sides.hpp"

#include <algorithm>
#include <string>

namespace udapl_programs {

using fake::assert_success;
using fake::dat;
using fake::get_fabric;

namespace {

constexpr DAT_UINT32 ESTABLISHED = DAT_CONNECTION_EVENT_ESTABLISHED;

/// How an attempt may end that was not established.
const events ACTIVE_ENDS = {
    DAT_CONNECTION_EVENT_PEER_REJECTED, DAT_CONNECTION_EVENT_NON_PEER_REJECTED,
    DAT_CONNECTION_EVENT_UNREACHABLE,   DAT_CONNECTION_EVENT_TIMED_OUT,
    DAT_CONNECTION_EVENT_DISCONNECTED,  DAT_CONNECTION_EVENT_BROKEN};
const events PASSIVE_ENDS = {DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR,
                             DAT_CONNECTION_EVENT_DISCONNECTED};
const events ESTABLISHED_ENDS = {DAT_CONNECTION_EVENT_DISCONNECTED, DAT_CONNECTION_EVENT_BROKEN};

std::string name_of(DAT_EVENT_NUMBER number) {
    switch (number) {
    case DAT_CONNECTION_EVENT_ESTABLISHED:
        return "ESTABLISHED";
    case DAT_CONNECTION_EVENT_PEER_REJECTED:
        return "PEER_REJECTED";
    case DAT_CONNECTION_EVENT_NON_PEER_REJECTED:
        return "NON_PEER_REJECTED";
    case DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR:
        return "ACCEPT_COMPLETION_ERROR";
    case DAT_CONNECTION_EVENT_DISCONNECTED:
        return "DISCONNECTED";
    case DAT_CONNECTION_EVENT_BROKEN:
        return "BROKEN";
    case DAT_CONNECTION_EVENT_TIMED_OUT:
        return "TIMED_OUT";
    case DAT_CONNECTION_EVENT_UNREACHABLE:
        return "UNREACHABLE";
    default:
        return "event " + std::to_string(number);
    }
}

void require_event(bool condition, DAT_EVENT_NUMBER number, const char *text) {
    if (!condition)
        require(false, (name_of(number) + " " + text).c_str());
}

bool is_or_was_connected(DAT_EP_STATE state) {
    return state == DAT_EP_STATE_CONNECTED || state == DAT_EP_STATE_DISCONNECT_PENDING ||
           state == DAT_EP_STATE_DISCONNECTED;
}

DAT_EVENT wait(DAT_EVD_HANDLE evd) {
    DAT_EVENT event = {};
    DAT_COUNT num_more = 0;
    assert_success(dat().evd_wait_func(evd, DAT_TIMEOUT_INFINITE, 1, &event, &num_more));
    return event;
}

bool dequeue(DAT_EVD_HANDLE evd, DAT_EVENT &event) {
    return dat().evd_dequeue_func(evd, &event) == DAT_SUCCESS;
}

} // namespace

side::side(const fake::ia_fixture &owner, role in_attempts)
    : connect_evd(owner.create_evd(DAT_EVD_CONNECTION_FLAG))
    , dto_evd(owner.create_evd(DAT_EVD_DTO_FLAG))
    , ia_(owner)
    , role_(in_attempts) {
    assert_success(
        dat().ep_create_func(ia_.handle, ia_.pz, dto_evd, dto_evd, connect_evd, nullptr, &handle));
}

void side::free_ep() {
    assert_success(dat().ep_free_func(handle));
    handle = DAT_HANDLE_NULL;
}

void side::finish() {
    if (handle != DAT_HANDLE_NULL) {
        require(!is_in_attempt() || has_ended_, "the program has not waited for the end");
        free_ep();
    }
    take_events();
    for (const DAT_EVD_HANDLE evd : {connect_evd, dto_evd})
        assert_success(dat().evd_free_func(evd));
}

void side::begin_attempt() {
    in_attempt_ = true;
    was_established_ = has_ended_ = false;
}

bool side::connect(DAT_TIMEOUT timeout_us) {
    fake::socket_address addr = fake::parse_address(ia_.address);
    if (dat().ep_connect_func(handle, &addr.sa, listener::PORT, timeout_us, 0, nullptr,
                              DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG) != DAT_SUCCESS)
        return false;
    begin_attempt();
    return true;
}

bool side::accept(DAT_CR_HANDLE cr) {
    if (dat().cr_accept_func(cr, handle, 0, nullptr) != DAT_SUCCESS)
        return false;
    begin_attempt();
    return true;
}

bool side::disconnect(DAT_CLOSE_FLAGS flags) const {
    return dat().ep_disconnect_func(handle, flags) == DAT_SUCCESS;
}

void side::reset() {
    require(has_ended_, "the program has not waited for the end");
    assert_success(dat().ep_reset_func(handle));
    require(state() == DAT_EP_STATE_UNCONNECTED, "an EP that was reset is not UNCONNECTED");
    take_completions();
    has_completed_.assign(has_completed_.size(), true);
    in_attempt_ = false;
}

DAT_EP_STATE side::state() const {
    DAT_EP_STATE now = DAT_EP_STATE_UNCONNECTED;
    assert_success(dat().ep_get_status_func(handle, &now, nullptr, nullptr));
    return now;
}

void side::add(const DAT_EVENT &event) {
    const DAT_EVENT_NUMBER number = event.event_number;
    require_event(in_attempt_, number, "comes without an attempt");
    require_event(!has_ended_, number,
                  ("comes after the end of the attempt, " + name_of(end_)).c_str());
    if (number == ESTABLISHED) {
        require_event(!was_established_, number, "comes twice");
        was_established_ = true;
        require_event(handle == DAT_HANDLE_NULL || is_or_was_connected(state()), number,
                      "comes before the EP is CONNECTED");
        return;
    }
    const events &ends = was_established_        ? ESTABLISHED_ENDS
                         : role_ == role::active ? ACTIVE_ENDS
                                                 : PASSIVE_ENDS;
    require_event(ends.contains(number), number,
                  was_established_ ? "comes after ESTABLISHED" : "comes without ESTABLISHED");
    has_ended_ = true;
    end_ = number;
    if (handle != DAT_HANDLE_NULL)
        require_event(state() == DAT_EP_STATE_DISCONNECTED, number,
                      "comes, and the EP is not DISCONNECTED");
}

void side::take_events() {
    for (DAT_EVENT event = {}; dequeue(connect_evd, event);)
        add(event);
    take_completions();
}

bool side::wait_until_established() {
    require(in_attempt_ && !has_ended_, "the program waits without an attempt");
    if (!was_established_)
        add(wait(connect_evd));
    return was_established_;
}

DAT_EVENT_NUMBER side::wait_for_end(const events &allowed) {
    require(in_attempt_, "the program waits without an attempt");
    while (!has_ended_)
        add(wait(connect_evd));
    require_event(allowed.contains(end_), end_, "is not what the program expects");
    return end_;
}

void side::post_send(const fake::memory &memory) {
    DAT_LMR_TRIPLET iov = memory.lmr_triplet(0, 1);
    if (dat().ep_post_send_func(handle, 1, &iov, fake::cookie(has_completed_.size()),
                                DAT_COMPLETION_DEFAULT_FLAG) == DAT_SUCCESS)
        has_completed_.push_back(false);
}

void side::post_recv(const fake::memory &memory) {
    DAT_LMR_TRIPLET iov = memory.lmr_triplet(0, 1);
    if (dat().ep_post_recv_func(handle, 1, &iov, fake::cookie(has_completed_.size()),
                                DAT_COMPLETION_DEFAULT_FLAG) == DAT_SUCCESS)
        has_completed_.push_back(false);
}

void side::add_completion(const DAT_EVENT &event) {
    require(event.event_number == DAT_DTO_COMPLETION_EVENT, "an event is no completion");
    const auto &data = event.event_data.dto_completion_event_data;
    const auto cookie = data.user_cookie.as_64;
    require(cookie < has_completed_.size(), "a request completes that was not posted");
    require(!has_completed_[cookie], "a request completes twice, or after the reset");
    has_completed_[cookie] = true;
    num_succeeded_ += data.status == DAT_DTO_SUCCESS ? 1 : 0;
}

void side::take_completions() {
    for (DAT_EVENT event = {}; dequeue(dto_evd, event);)
        add_completion(event);
}

bool side::has_completed_all() const {
    return std::ranges::find(has_completed_, false) == has_completed_.end();
}

void side::require_all_completed() {
    take_completions();
    for (std::size_t i = 0; i != has_completed_.size(); ++i)
        while (!has_completed_[i])
            add_completion(wait(dto_evd));
}

listener::listener(const fake::ia_fixture &ia)
    : evd_(ia.create_evd(fake::operator|(DAT_EVD_CR_FLAG, DAT_EVD_SOFTWARE_FLAG))) {
    assert_success(dat().psp_create_func(ia.handle, PORT, evd_, DAT_PSP_CONSUMER_FLAG, &psp_));
}

DAT_CR_HANDLE listener::wait_for_request() const {
    DAT_EVENT event = {};
    DAT_COUNT num_more = 0;
    // It fails if the IA is closed.
    const DAT_RETURN result = dat().evd_wait_func(evd_, DAT_TIMEOUT_INFINITE, 1, &event, &num_more);
    return result == DAT_SUCCESS && event.event_number == DAT_CONNECTION_REQUEST_EVENT
               ? event.event_data.cr_arrival_event_data.cr_handle
               : DAT_HANDLE_NULL;
}

void listener::stop() {
    assert_success(fake::post_event(evd_));
    thread_.join();
    assert_success(dat().psp_free_func(psp_));
    assert_success(dat().evd_free_func(evd_));
}

fabric_user::fabric_user(transport kind)
    : ia_name(kind == transport::iwarp ? "iwarp" : "roce") {
    // The provider is registered once in a process.
    if (fake::find_table("roce") == nullptr)
        fake::register_names();
    fake::reset_fabric(nullptr);
    get_fabric().waits_forever = true;
}

fabric_user::~fabric_user() {
    fake::test_has_returned = true;
    require(fake::assert_no_leaks(nullptr) == 0, "an object is left");
}

void wait_for_any_moment() {
    constexpr unsigned MAX_YIELDS = 16;
    for (unsigned i = schedule::choose(MAX_YIELDS); i != 0; --i)
        std::this_thread::yield();
}

void reject(DAT_CR_HANDLE cr) {
    assert_success(dat().cr_reject_func(cr, 0, nullptr));
}

} // namespace udapl_programs
