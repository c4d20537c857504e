// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Posting what the short way leaves to the long one: lists of several segments. It must do all that
// the short one does, and say the same if it cannot.

#include "two.hpp"

using namespace played;

namespace {

constexpr DAT_COMPLETION_FLAGS plain = DAT_COMPLETION_DEFAULT_FLAG;
constexpr DAT_RETURN no_memory = error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);

/// Two ends, and requests of two segments.
struct stage : two_ends {
    using two_ends::two_ends;
    std::array<DAT_LMR_TRIPLET, 2> list(DAT_SEG_LENGTH first, DAT_SEG_LENGTH second) const {
        return {here.part(0, first), here.part(1000, second)};
    }
    DAT_RETURN receives(std::uint64_t word) const {
        DAT_LMR_TRIPLET parts[] = {there.part(0, 100), there.part(2000, 100)};
        return dat().ep_post_recv_func(other.ep, 2, parts, cookie(word), plain);
    }
};

using way = DAT_RETURN(const stage &all, DAT_LMR_TRIPLET *list, std::uint64_t word,
                       DAT_COMPLETION_FLAGS flags);

DAT_RETURN send(const stage &all, DAT_LMR_TRIPLET *list, std::uint64_t word,
                DAT_COMPLETION_FLAGS flags) {
    return dat().ep_post_send_func(all.one.ep, 2, list, cookie(word), flags);
}
DAT_RETURN send_and_invalidate(const stage &all, DAT_LMR_TRIPLET *list, std::uint64_t word,
                               DAT_COMPLETION_FLAGS flags) {
    return dat().ep_post_send_with_invalidate_func(all.one.ep, 2, list, cookie(word), flags,
                                                   DAT_TRUE, 77);
}
DAT_RETURN write(const stage &all, DAT_LMR_TRIPLET *list, std::uint64_t word,
                 DAT_COMPLETION_FLAGS flags) {
    const DAT_RMR_TRIPLET where = all.there.remote(0, 4096);
    return dat().ep_post_rdma_write_func(all.one.ep, 2, list, cookie(word), &where, flags);
}
DAT_RETURN read(const stage &all, DAT_LMR_TRIPLET *list, std::uint64_t word,
                DAT_COMPLETION_FLAGS flags) {
    const DAT_RMR_TRIPLET where = all.there.remote(0, 4096);
    return dat().ep_post_rdma_read_func(all.one.ep, 2, list, cookie(word), &where, flags);
}

constexpr struct {
    way *post;
    ibv_wr_opcode opcode;
} ways[] = {{send, IBV_WR_SEND},
            {send_and_invalidate, IBV_WR_SEND_WITH_INV},
            {write, IBV_WR_RDMA_WRITE},
            {read, IBV_WR_RDMA_READ}};

void verbs_hear_of_all_of_it(void **) {
    const struct {
        DAT_COMPLETION_FLAGS flags;
        unsigned heard;
    } all_flags[] = {
        {plain, IBV_SEND_SIGNALED},
        {DAT_COMPLETION_SUPPRESS_FLAG, 0},
        {DAT_COMPLETION_SOLICITED_WAIT_FLAG, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED},
        {DAT_COMPLETION_BARRIER_FENCE_FLAG, IBV_SEND_SIGNALED | IBV_SEND_FENCE},
    };
    const struct {
        DAT_SEG_LENGTH one, another;
        unsigned copied;
    } lengths[] = {{0, 0, 0}, {63, 1, IBV_SEND_INLINE}, {64, 1, 0}, {100, 100, 0}};
    for (const auto &[post, opcode] : ways) {
        fresh(nullptr);
        stage all;
        net().pause();
        for (const auto &[flags, heard] : all_flags)
            for (const auto &[one, another, copied] : lengths) {
                auto list = all.list(one, another);
                done(post(all, list.data(), 5, flags));
                const posted &was = net().heard.back();
                assert_int_equal(was.wr.opcode, opcode);
                assert_int_equal(was.wr.num_sge, 2);
                assert_int_equal(was.wr.send_flags,
                                 heard | (opcode == IBV_WR_RDMA_READ ? 0 : copied));
                assert_memory_equal(was.list.data(), list.data(), sizeof list);
                if (opcode == IBV_WR_SEND_WITH_INV)
                    assert_int_equal(was.wr.invalidate_rkey, 77);
                if (opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_READ) {
                    assert_int_equal(was.wr.wr.rdma.rkey, all.there.rmr_context);
                    assert_int_equal(was.wr.wr.rdma.remote_addr, all.there.begin);
                }
            }
        all.on.close(); // with all that is in it
    }
}

void lists_are_moved(void **) {
    stage all;
    all.here.fill(1);
    all.there.fill(2);
    auto list = all.list(70, 30);
    done(write(all, list.data(), 1, plain));
    const auto written = completed(all.one.requests, 1, DAT_DTO_SUCCESS, 100);
    assert_int_equal(written.operation, DAT_DTO_RDMA_WRITE);
    assert_memory_equal(all.there.bytes.data(), all.here.bytes.data(), 70);
    assert_memory_equal(all.there.bytes.data() + 70, all.here.bytes.data() + 1000, 30);
    all.there.fill(3);
    done(read(all, list.data(), 2, plain));
    const auto got = completed(all.one.requests, 2, DAT_DTO_SUCCESS, 100);
    assert_int_equal(got.operation, DAT_DTO_RDMA_READ);
    assert_memory_equal(all.there.bytes.data(), all.here.bytes.data(), 70);
    assert_memory_equal(all.there.bytes.data() + 70, all.here.bytes.data() + 1000, 30);
    all.free();
}

void there_is_room_for_what_was_asked_for(void **) {
    DAT_EP_ATTR attr = {};
    attr.max_recv_dtos = 3;
    attr.max_request_dtos = 4;
    attr.max_recv_iov = attr.max_request_iov = 2;
    for (const auto &[post, opcode] : ways) {
        fresh(nullptr);
        stage all("ib", &attr);
        net().pause();
        auto list = all.list(10, 10);
        for (std::uint64_t word = 0; word != 4; ++word)
            done(post(all, list.data(), word, plain));
        assert_int_equal(post(all, list.data(), 9, plain), no_memory);
        for (std::uint64_t word = 0; word != 3; ++word)
            done(all.receives(word));
        assert_int_equal(all.receives(9), no_memory);
        all.on.close();
    }
}

void a_device_that_refuses_leaves_the_ring(void **) {
    for (const auto &[post, opcode] : ways) {
        fresh(nullptr);
        stage all;
        auto list = all.list(10, 10);
        for (int turn = 0; turn != 40; ++turn) { // more than there is room for
            net().wrong.fail("ibv_post_send", ENOMEM);
            assert_int_equal(post(all, list.data(), 1, plain), no_memory);
            net().wrong.fail("ibv_post_recv", ENOMEM);
            assert_int_equal(all.receives(1), no_memory);
        }
        net().wrong.stop();
        done(all.receives(3));
        done(send(all, list.data(), 4, plain));
        completed(all.one.requests, 4, DAT_DTO_SUCCESS, 20);
        completed(all.other.receives, 3, DAT_DTO_SUCCESS, 20);
        all.free();
    }
}

void receives_that_have_no_place(void **) {
    adapter on;
    DAT_SRQ_HANDLE const srq = on.srq(4);
    end shares(on, nullptr, srq);
    memory area(on);
    DAT_LMR_TRIPLET list[5];
    for (std::size_t at = 0; at != 5; ++at)
        list[at] = area.part(100 * at, 10);
    // As many as an endpoint of its own could have, and more.
    for (const DAT_COUNT segments : {0, 1, 2, 5})
        assert_int_equal(dat().ep_post_recv_func(shares.ep, segments, list, cookie(1), plain),
                         wrong_state(DAT_INVALID_STATE_SRQ_IN_USE));
    end whole(on);
    DAT_EP_HANDLE without;
    done(dat().ep_create_func(on.ia, DAT_HANDLE_NULL, whole.receives, whole.requests,
                              whole.connections, nullptr, &without));
    for (const DAT_COUNT segments : {0, 1, 2})
        assert_int_equal(dat().ep_post_recv_func(without, segments, list, cookie(1), plain),
                         wrong_state(DAT_INVALID_STATE_EP_UNCONFIGURED));
    done(dat().ep_free_func(without));
    whole.free();
    shares.free();
    done(dat().srq_free_func(srq));
    area.free();
    close(on);
}

void devices_that_cannot_invalidate(void **) {
    for (const char *name : {"ib", "iw"}) {
        fresh(nullptr);
        for (hardware &each : net().devices)
            each.limits.device_cap_flags &= ~unsigned{IBV_DEVICE_MEM_MGT_EXTENSIONS};
        stage all(name);
        net().pause();
        auto list = all.list(10, 10);
        // With iWARP each can.
        assert_int_equal(send_and_invalidate(all, list.data(), 1, plain),
                         name[1] == 'w' ? DAT_RETURN{DAT_SUCCESS} : error(DAT_MODEL_NOT_SUPPORTED));
        assert_int_equal(dat().ep_post_send_with_invalidate_func(all.one.requests, 2, list.data(),
                                                                 cookie(1), plain, DAT_TRUE, 77),
                         no_handle(DAT_INVALID_HANDLE_EP));
        all.on.close();
    }
}

} // namespace

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)

int main() {
    register_names();
    const CMUnitTest tests[] = {
        TEST(verbs_hear_of_all_of_it),
        TEST(lists_are_moved),
        TEST(there_is_room_for_what_was_asked_for),
        TEST(a_device_that_refuses_leaves_the_ring),
        TEST(receives_that_have_no_place),
        TEST(devices_that_cannot_invalidate),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
