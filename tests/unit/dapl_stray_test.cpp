// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Completions that a device should not have told of: again, of nothing that was posted, too late,
// or with the wrong words. The program hears of each of its requests once.

#include "two.hpp"

using namespace played;

namespace {

constexpr DAT_COMPLETION_FLAGS plain = DAT_COMPLETION_DEFAULT_FLAG;

/// Of the nth that was posted, counted from the last.
ibv_wc completion_of(std::size_t nth, ibv_wc_status status = IBV_WC_SUCCESS) {
    const posted &was = net().heard.at(net().heard.size() - 1 - nth);
    ibv_wc wc = {};
    wc.wr_id = was.wr.wr_id;
    wc.status = status;
    wc.opcode = was.received ? IBV_WC_RECV : IBV_WC_SEND;
    wc.byte_len = 64;
    wc.qp_num = was.pair != nullptr ? was.pair->qp_num : 0;
    return wc;
}

/// There is none: so says who is asked at once, and who waits.
void nothing(DAT_EVD_HANDLE evd) {
    DAT_EVENT event;
    assert_int_equal(dat().evd_dequeue_func(evd, &event), DAT_QUEUE_EMPTY);
    none(evd);
}

struct stage : two_ends {
    using two_ends::two_ends;
    ibv_cq *of_requests() const { return pair_of(one.ep)->send_cq; }
    ibv_cq *of_receives() const { return pair_of(other.ep)->recv_cq; }
    DAT_RETURN write(std::uint64_t word, DAT_COMPLETION_FLAGS flags = plain) const {
        DAT_LMR_TRIPLET part = here.part(0, 128);
        const DAT_RMR_TRIPLET where = there.remote(0, 128);
        return dat().ep_post_rdma_write_func(one.ep, 1, &part, cookie(word), &where, flags);
    }
    DAT_RETURN read(std::uint64_t word) const {
        DAT_LMR_TRIPLET part = here.part(0, 128);
        const DAT_RMR_TRIPLET where = there.remote(0, 128);
        return dat().ep_post_rdma_read_func(one.ep, 1, &part, cookie(word), &where, plain);
    }
    /// Nothing is outstanding, and there is room for as much as ever.
    void still_works() const {
        DAT_BOOLEAN idle;
        done(dat().ep_get_status_func(one.ep, nullptr, nullptr, &idle));
        assert_int_equal(idle, DAT_TRUE);
        done(dat().ep_get_status_func(other.ep, nullptr, &idle, nullptr));
        assert_int_equal(idle, DAT_TRUE);
        DAT_EP_PARAM param;
        done(dat().ep_query_func(one.ep, DAT_EP_FIELD_ALL, &param));
        std::uint64_t count = 0;
        while (write(count, plain) == DAT_SUCCESS)
            ++count;
        assert_int_equal(count, param.ep_attr.max_request_dtos);
        for (std::uint64_t word = 0; word != count; ++word)
            completed(one.requests, word, DAT_DTO_SUCCESS, 128);
        for (count = 0; receive(64, count) == DAT_SUCCESS;)
            ++count;
        assert_int_equal(count, param.ep_attr.max_recv_dtos);
        for (std::uint64_t word = 0; word != count; ++word) {
            done(send(64, word));
            completed(one.requests, word, DAT_DTO_SUCCESS, 64);
            completed(other.receives, word, DAT_DTO_SUCCESS, 64);
        }
    }
};

void requests_that_are_told_again(void **) {
    for (const char *name : {"ib", "iw"}) {
        fresh(nullptr);
        stage all(name);
        for (std::uint64_t word = 0; word != 100; ++word) {
            done(word % 2 == 0 ? all.read(word) : all.write(word));
            const ibv_wc again = completion_of(0);
            net().complete(all.of_requests(), again); // at once, and
            completed(all.one.requests, word, DAT_DTO_SUCCESS, 128);
            net().complete(all.of_requests(), again); // later
            if (word % 16 == 0)
                nothing(all.one.requests);
        }
        nothing(all.one.requests);
        all.still_works();
        all.free();
    }
}

void as_late_as_others_have_come(void **) {
    stage all;
    for (std::uint64_t word = 0; word != 40; ++word) {
        done(all.write(word));
        completed(all.one.requests, word, DAT_DTO_SUCCESS, 128);
        // Sixteen may be outstanding.
        if (word >= 16)
            net().complete(all.of_requests(), completion_of(16));
    }
    nothing(all.one.requests);
    all.still_works();
    all.free();
}

void receives_that_are_told_again(void **) {
    stage all;
    for (std::uint64_t word = 0; word != 40; ++word) {
        done(all.receive(64, word));
        const ibv_wc again = completion_of(0);
        done(all.send(64, word));
        net().complete(all.of_receives(), again);
        completed(all.one.requests, word, DAT_DTO_SUCCESS, 64);
        completed(all.other.receives, word, DAT_DTO_SUCCESS, 64);
        net().complete(all.of_receives(), again);
    }
    nothing(all.other.receives);
    all.still_works();
    all.free();
}

void failures_that_are_told_again(void **) {
    stage all;
    net().pause();
    for (std::uint64_t word = 0; word != 4; ++word)
        done(all.read(word));
    const ibv_wc second = completion_of(2, IBV_WC_WR_FLUSH_ERR);
    net().fail(pair_of(all.one.ep));
    net().complete(all.of_requests(), second);
    for (std::uint64_t word = 0; word != 4; ++word) {
        completed(all.one.requests, word, DAT_DTO_ERR_FLUSHED);
        net().complete(all.of_requests(), second);
    }
    nothing(all.one.requests);
    DAT_BOOLEAN idle;
    done(dat().ep_get_status_func(all.one.ep, nullptr, nullptr, &idle));
    assert_int_equal(idle, DAT_TRUE);
    net().deliver();
    all.one.free();
    all.other.free();
    all.here.free();
    all.there.free();
    close(all.on);
}

void what_nobody_has_posted(void **) {
    stage all;
    done(all.receive(64, 1));
    const ibv_wc receive = completion_of(0);
    done(all.send(64, 2));
    const ibv_wc request = completion_of(0);
    completed(all.one.requests, 2, DAT_DTO_SUCCESS, 64);
    completed(all.other.receives, 1, DAT_DTO_SUCCESS, 64);
    for (const ibv_wc_status status : {IBV_WC_SUCCESS, IBV_WC_WR_FLUSH_ERR, IBV_WC_REM_OP_ERR}) {
        const std::pair<ibv_cq *, ibv_wc> queues[] = {{all.of_requests(), request},
                                                      {all.of_receives(), receive}};
        for (auto [by, wc] : queues) {
            wc.status = status;
            for (int ahead = 1; ahead != 10; ++ahead) { // to be posted in the future
                wc.wr_id += 64;
                net().complete(by, wc);
            }
            wc.wr_id = 0;
            net().complete(by, wc);
        }
    }
    nothing(all.one.requests);
    nothing(all.other.receives);
    all.still_works();
    all.free();
}

void what_the_device_has_refused(void **) {
    stage all;
    done(all.write(1));
    completed(all.one.requests, 1, DAT_DTO_SUCCESS, 128);
    ibv_wc wc = completion_of(0);
    net().wrong.fail("ibv_post_send", ENOMEM);
    assert_int_equal(all.write(2), error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
    net().wrong.stop();
    wc.wr_id += 64;
    net().complete(all.of_requests(), wc);
    nothing(all.one.requests);
    all.still_works();
    all.free();
}

// siw's kernel, if it is not kept from it, does not wait for a Read's answer.
void what_is_behind_a_read_first(void **) {
    stage all;
    for (std::uint64_t turn = 0; turn != 40; ++turn) {
        net().pause();
        done(all.read(1));
        const ibv_wc first = completion_of(0);
        done(all.write(2));
        net().complete(all.of_requests(), completion_of(0));
        completed(all.one.requests, 2, DAT_DTO_SUCCESS, 128);
        net().complete(all.of_requests(), first);
        completed(all.one.requests, 1, DAT_DTO_SUCCESS, 128);
        net().deliver(); // which tells of both
        nothing(all.one.requests);
    }
    all.still_works();
    all.free();
}

void words_of_another_operation(void **) {
    stage all;
    for (const ibv_wc_opcode opcode :
         {IBV_WC_RECV, IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_BIND_MW, static_cast<ibv_wc_opcode>(77)}) {
        net().pause();
        done(all.write(1));
        ibv_wc wc = completion_of(0);
        wc.opcode = opcode;
        wc.wc_flags = IBV_WC_WITH_INV | IBV_WC_WITH_IMM;
        net().complete(all.of_requests(), wc);
        const auto told = completed(all.one.requests, 1, DAT_DTO_SUCCESS, 128);
        assert_int_equal(told.operation, DAT_DTO_RDMA_WRITE);
        net().deliver();
        done(all.receive(64, 2));
        wc = completion_of(0);
        wc.opcode = IBV_WC_SEND;
        net().complete(all.of_receives(), wc);
        assert_int_equal(completed(all.other.receives, 2, DAT_DTO_SUCCESS, 64).operation,
                         DAT_DTO_RECEIVE);
        done(all.send(64, 3)); // takes it from the device
        completed(all.one.requests, 3, DAT_DTO_SUCCESS, 64);
        nothing(all.one.requests);
        nothing(all.other.receives);
    }
    all.still_works();
    all.free();
}

void an_srqs_that_are_told_again(void **) {
    adapter on;
    DAT_SRQ_HANDLE const srq = on.srq(4);
    end one(on), other(on, nullptr, srq);
    memory area(on);
    DAT_LMR_TRIPLET part = area.part(0, 64);
    connect(one, other);
    const auto post = [&](std::uint64_t word) {
        return dat().srq_post_recv_func(srq, 1, &part, cookie(word));
    };
    ibv_cq *const by = pair_of(other.ep)->recv_cq;
    std::vector<ibv_wc> told;
    const auto tell_again = [&](std::size_t nth) {
        told[nth].qp_num = pair_of(other.ep)->qp_num;
        net().complete(by, told[nth]);
    };
    for (std::uint64_t word = 0; word != 4; ++word) {
        done(post(word));
        told.push_back(completion_of(0));
    }
    for (std::uint64_t word = 0; word != 40; ++word) {
        done(dat().ep_post_send_func(one.ep, 1, &part, cookie(word), plain));
        completed(one.requests, word, DAT_DTO_SUCCESS, 64);
        tell_again(word);
        assert_ptr_equal(completed(other.receives, word, DAT_DTO_SUCCESS, 64).ep_handle, other.ep);
        done(post(word + 4));
        told.push_back(completion_of(0));
        tell_again(word); // its buffer has been posted anew
        nothing(other.receives);
        assert_int_equal(post(0), error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
    }
    DAT_SRQ_PARAM param;
    done(dat().srq_query_func(srq, DAT_SRQ_FIELD_ALL, &param));
    assert_int_equal(param.outstanding_dto_count, 4);
    disconnect(one, other);
    one.free();
    other.free();
    done(dat().srq_free_func(srq));
    area.free();
    close(on);
}

} // namespace

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)

int main() {
    register_names();
    const CMUnitTest tests[] = {
        TEST(requests_that_are_told_again), TEST(as_late_as_others_have_come),
        TEST(receives_that_are_told_again), TEST(failures_that_are_told_again),
        TEST(what_nobody_has_posted),       TEST(what_the_device_has_refused),
        TEST(what_is_behind_a_read_first),  TEST(words_of_another_operation),
        TEST(an_srqs_that_are_told_again),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
