// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// QPs that are destroyed, reset and created again, at the same address, while completions remain.

#include "cases.hpp"
#include "device.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <thread>
#include <utility>

void completion_outlives_its_qp(void **) {
    device dev;
    std::vector<std::uint64_t> wr_ids;
    {
        const qp_owner qp = dev.create_connected_qp();
        dev.memory[0] = 0x5678;
        const std::uint64_t receive = post_receive(qp.get(), dev.sge(500));
        wr_ids = {post_send(qp.get(), dev.sge(0)), receive};
        post_receive(qp.get(), dev.sge(501)); // it ends with the QP
    }
    assert_int_equal(dev.memory[500], 0x5678);
    expect_wr_ids(poll_all(dev.cq), wr_ids);
    // Several of one queue, by an extended CQ.
    const cq_owner cq = dev.create_cq_ex(true);
    wr_ids.clear();
    {
        const qp_owner qp = dev.create_connected_qp({.cq = cq.get()});
        for (int i = 0; i < 3; ++i)
            wr_ids.push_back(post_receive(qp.get(), dev.sge(500)));
        set_state(qp.get(), IBV_QPS_ERR);
    }
    expect_wr_ids(poll_all_ex(cq.get()), wr_ids, IBV_WC_WR_FLUSH_ERR);
}

void address_of_a_qp_is_used_again(void **) {
    device dev;
    std::map<std::uint64_t, std::uint32_t> expected; // qp_num by wr_id
    const ibv_qp *first = nullptr;
    for (int i = 0; i < 5; ++i) { // an unsignaled request is outstanding each time, too
        const qp_owner qp = dev.create_connected_qp();
        first = first != nullptr ? first : qp.get();
        assert_ptr_equal(qp.get(), first);
        const std::uint64_t receive = post_receive(qp.get(), dev.sge(500));
        expected[post_send(qp.get(), dev.sge(0))] = expected[receive] = qp->qp_num;
        send_list list;
        add_send(list, dev.sge(0)).send_flags = 0;
        assert_int_equal(post(qp.get(), list), 0);
    }
    for (const ibv_wc &wc : poll_all(dev.cq)) {
        assert_int_equal(wc.qp_num, expected.at(wc.wr_id));
        expected.erase(wc.wr_id);
    }
    assert_true(expected.empty());
}

void qp_is_reset_and_used_again(void **) {
    device dev;
    const qp_owner qp = dev.create_connected_qp({.depth = 4});
    const std::uint64_t receive = post_receive(qp.get(), dev.sge(500));
    const std::uint64_t send = post_send(qp.get(), dev.sge(0));
    // Without a receive, these wait; the reset ends them.
    for (int i = 0; i < 3; ++i)
        post_send(qp.get(), dev.sge(0));
    set_state(qp.get(), IBV_QPS_RESET);
    connect(qp.get(), qp->qp_num);
    std::vector<std::uint64_t> receives, sends;
    for (int i = 0; i < 4; ++i) {
        receives.push_back(post_receive(qp.get(), dev.sge(500)));
        sends.push_back(post_send(qp.get(), dev.sge(0)));
    }
    std::vector<std::uint64_t> expected = sends;
    expected.insert(expected.end(), receives.begin(), receives.end());
    expected.insert(expected.end(), {send, receive}); // the newest queue is polled first
    expect_wr_ids(poll_all(dev.cq), expected);
}

namespace {

/// One thread's QPs, of a CQ that other threads poll, too, or of its own.
class qp_user {
  public:
    qp_user(const device &dev, std::size_t word)
        : dev_(dev)
        , word_(word) {}

    void use_qps() {
        constexpr int NUM_QPS = 30;
        const cq_owner own_cq = dev_.create_cq();
        for (int i = 0; i < NUM_QPS; ++i) {
            const bool is_shared = i % 2 == 0;
            ibv_cq *const cq = is_shared ? dev_.cq : own_cq.get();
            const qp_owner qp = dev_.create_connected_qp({.cq = cq});
            for (int message = 0; message < 3; ++message) {
                posted.push_back(post_receive(qp.get(), dev_.sge(500 + word_)));
                posted.push_back(post_send(qp.get(), dev_.sge(word_)));
            }
            poll(cq);
        }
        poll(own_cq.get());
    }

    std::vector<std::uint64_t> posted, completed;

  private:
    void poll(ibv_cq *cq) {
        for (const ibv_wc &wc : poll_all(cq)) {
            if (wc.status != IBV_WC_SUCCESS)
                std::abort(); // cmocka's functions are not for threads
            completed.push_back(wc.wr_id);
        }
    }

    const device &dev_;
    std::size_t word_;
};

} // namespace

void threads_use_addresses_again(void **) {
    constexpr std::size_t NUM_THREADS = 16;
    device dev;
    std::vector<qp_user> users;
    for (std::size_t i = 0; i < NUM_THREADS; ++i)
        users.emplace_back(dev, i);
    std::vector<std::thread> threads;
    for (qp_user &user : users)
        threads.emplace_back([&user] { user.use_qps(); });
    for (std::thread &thread : threads)
        thread.join();
    std::vector<std::uint64_t> posted, completed;
    for (const ibv_wc &wc : poll_all(dev.cq))
        completed.push_back(wc.wr_id);
    for (const qp_user &user : users) {
        posted.insert(posted.end(), user.posted.begin(), user.posted.end());
        completed.insert(completed.end(), user.completed.begin(), user.completed.end());
    }
    std::sort(posted.begin(), posted.end());
    std::sort(completed.begin(), completed.end());
    assert_true(completed == posted);
}

namespace {

/// What is done once, in a thread of its own, when the provider reports this event.
std::function<void()> at_event;
const char *awaited_event = "";

} // namespace

extern "C" [[gnu::visibility("default")]] void fake_event(const char *event) {
    if (at_event == nullptr || std::strcmp(event, awaited_event) != 0)
        return;
    std::thread(std::exchange(at_event, nullptr)).join();
}

void address_of_a_cq_is_used_again_at_once(void **) {
    device dev;
    ibv_cq *const old_cq = dev.create_cq().release();
    cq_owner cq;
    std::vector<std::uint64_t> wr_ids;
    awaited_event = "CQ freed";
    at_event = [&] {
        cq = dev.create_cq();
        const qp_owner qp = dev.create_connected_qp({.cq = cq.get()});
        const std::uint64_t receive = post_receive(qp.get(), dev.sge(500));
        wr_ids = {post_send(qp.get(), dev.sge(0)), receive};
    };
    assert_int_equal(ibv_destroy_cq(old_cq), 0);
    assert_ptr_equal(cq.get(), old_cq);
    expect_wr_ids(poll_all(cq.get()), wr_ids);
}

void address_of_a_qp_is_used_again_at_once(void **) {
    device dev;
    ibv_qp *const old_qp = dev.create_connected_qp().release();
    const std::uint64_t old_receive = post_receive(old_qp, dev.sge(500));
    std::vector<std::uint64_t> wr_ids = {post_send(old_qp, dev.sge(0)), old_receive};
    post_receive(old_qp, dev.sge(501)); // it ends with the QP
    qp_owner qp;
    awaited_event = "QP freed";
    at_event = [&] {
        qp = dev.create_connected_qp();
        const std::uint64_t receive = post_receive(qp.get(), dev.sge(500));
        wr_ids.insert(wr_ids.begin(), {post_send(qp.get(), dev.sge(0)), receive});
    };
    assert_int_equal(ibv_destroy_qp(old_qp), 0);
    assert_ptr_equal(qp.get(), old_qp);
    expect_wr_ids(poll_all(dev.cq), wr_ids);
    const std::uint64_t receive = post_receive(qp.get(), dev.sge(500));
    expect_wr_ids(poll_all(dev.cq), {});
    const std::uint64_t send = post_send(qp.get(), dev.sge(0));
    expect_wr_ids(poll_all(dev.cq), {send, receive});
}

namespace {

/// Another thread polls while ibv_destroy_cq() fails, as a QP uses the CQ.
void poll_while_destroy_fails(device &dev, cq_owner cq, std::vector<ibv_wc> (*poll)(ibv_cq *)) {
    const qp_owner qp = dev.create_connected_qp({.cq = cq.get()});
    const std::uint64_t receive = post_receive(qp.get(), dev.sge(500));
    const std::uint64_t send = post_send(qp.get(), dev.sge(0));
    std::vector<ibv_wc> polled;
    awaited_event = "CQ in use";
    at_event = [&] {
        polled = poll(cq.get());
    };
    assert_int_equal(ibv_destroy_cq(cq.get()), EBUSY);
    expect_wr_ids(polled, {send, receive});
}

} // namespace

void cq_is_polled_while_destroy_fails(void **) {
    device dev;
    poll_while_destroy_fails(dev, dev.create_cq(), poll_all);
    poll_while_destroy_fails(dev, dev.create_cq_ex(false), poll_all_ex);
}

void completion_outlives_its_srq(void **) {
    device dev;
    std::vector<std::uint64_t> wr_ids;
    {
        const srq_owner srq = dev.create_srq(4);
        const qp_owner qp = dev.create_connected_qp({.srq = srq.get()});
        receive_list receives;
        receives.add(dev.sge(500));
        receives.add(dev.sge(501)); // it ends with the SRQ
        assert_int_equal(post(srq.get(), receives), 0);
        wr_ids = {post_send(qp.get(), dev.sge(0)), receives[0].wr_id};
    }
    const srq_owner srq = dev.create_srq(4); // at the same address
    expect_wr_ids(poll_all(dev.cq), wr_ids);
}
