// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Data transfers that go well: every byte is where it belongs, and no other was touched.

#include "cases.hpp"
#include "test_ep.hpp"

#include <algorithm>

namespace conform {

namespace {

// Halves of the pair's memory.
constexpr std::size_t source = 0;
constexpr std::size_t target = ep_pair::size / 2;
constexpr std::size_t half = ep_pair::size / 2;

/// A connected pair whose source has a pattern and whose target is empty.
struct dto_fixture {
    ep_pair eps;

    explicit dto_fixture(const DAT_EP_ATTR *attributes = nullptr)
        : eps(attributes) {
        eps.connect();
        fill(1);
    }
    void fill(unsigned seed) {
        const auto pattern = make_pattern(half, seed);
        std::copy(pattern.begin(), pattern.end(), eps.lmr.data() + source);
        std::fill_n(eps.lmr.data() + target, half, std::byte{0x5e});
    }
    /// Only this range of the target has changed, and has what the source has there.
    void carried(std::size_t from, std::size_t to, std::size_t length,
                 source_location loc = current_location()) const {
        const std::byte *was = eps.lmr.data() + source + from;
        const std::byte *is_now = eps.lmr.data() + target;
        const auto empty = [](std::byte each) {
            return each == std::byte{0x5e};
        };
        expect_true(std::equal(was, was + length, is_now + to), "the data is not what was sent",
                    loc);
        expect_true(std::all_of(is_now, is_now + to, empty), "something before it was written",
                    loc);
        expect_true(std::all_of(is_now + to + length, is_now + half, empty),
                    "something behind it was written", loc);
    }
};

constexpr std::size_t sizes[] = {0,    1,    8,    63,   64,   65,    255,   256,   1023,
                                 1024, 1025, 4095, 4096, 4097, 65535, 65536, 65537, 100000};

void sent() {
    dto_fixture fixture;
    ep_pair &eps = fixture.eps;
    unsigned seed = 1;
    for (const std::size_t size : sizes) {
        const scoped_trace which(concat(size, " bytes"));
        fixture.fill(++seed);
        require_success(post_recv(eps.passive, eps.lmr.lmr_triplet(target + 16, size + 8), size));
        require_success(post_send(eps.active, eps.lmr.lmr_triplet(source + 3, size), size));
        expect_completion(eps.passive.recv_evd, eps.passive, size, size);
        expect_completion(eps.active.request_evd, eps.active, size, size);
        fixture.carried(3, 16, size);
    }
}

void written() {
    dto_fixture fixture;
    ep_pair &eps = fixture.eps;
    unsigned seed = 1;
    for (const std::size_t size : sizes) {
        const scoped_trace which(concat(size, " bytes"));
        fixture.fill(++seed);
        require_success(post_rdma_write(eps.active, eps.lmr.lmr_triplet(source + 5, size),
                                        eps.lmr.rmr_triplet(target + 9, size), size));
        expect_completion(eps.active.request_evd, eps.active, size, size);
        // On iWARP it is done when it was sent: a message that follows says that it is there.
        require_success(post_recv(eps.passive, eps.lmr.lmr_triplet(0, 0), 1));
        require_success(post_send(eps.active, eps.lmr.lmr_triplet(0, 0), 2));
        expect_completion(eps.passive.recv_evd, eps.passive, 1, 0);
        expect_completion(eps.active.request_evd, eps.active, 2, 0);
        fixture.carried(5, 9, size);
    }
}

void read_back() {
    dto_fixture fixture;
    ep_pair &eps = fixture.eps;
    unsigned seed = 1;
    for (const std::size_t size : sizes) {
        const scoped_trace which(concat(size, " bytes"));
        fixture.fill(++seed);
        require_success(post_rdma_read(eps.active, eps.lmr.lmr_triplet(target + 2, size),
                                       eps.lmr.rmr_triplet(source + 7, size), size));
        expect_completion(eps.active.request_evd, eps.active, size, size);
        fixture.carried(7, 2, size);
    }
}

/// The passive side asks, too.
void both_ways() {
    dto_fixture fixture;
    ep_pair &eps = fixture.eps;
    require_success(post_recv(eps.active, eps.lmr.lmr_triplet(target, 5000), 1));
    require_success(post_send(eps.passive, eps.lmr.lmr_triplet(source, 5000), 2));
    expect_completion(eps.active.recv_evd, eps.active, 1, 5000);
    expect_completion(eps.passive.request_evd, eps.passive, 2, 5000);
    fixture.carried(0, 0, 5000);
    fixture.fill(9);
    require_success(post_rdma_read(eps.passive, eps.lmr.lmr_triplet(target, 300),
                                   eps.lmr.rmr_triplet(source, 300), 3));
    expect_completion(eps.passive.request_evd, eps.passive, 3, 300);
    fixture.carried(0, 0, 300);
}

using iov = std::vector<DAT_LMR_TRIPLET>;

/// `count` pieces, every second of them empty if `with_empty`, of `length` bytes from `at` on.
iov scattered(const test_lmr &memory, std::size_t at, DAT_COUNT count, std::size_t length) {
    iov all;
    for (DAT_COUNT i = 0; i < count; ++i) {
        all.push_back(memory.lmr_triplet(at, length));
        at += length;
    }
    return all;
}

DAT_EP_ATTR with_most_segments() {
    const test_ia ia;
    DAT_EP_ATTR attributes = portable_ep_attr();
    attributes.max_recv_iov = attributes.max_request_iov = ia.ia_attr().max_iov_segments_per_dto;
    attributes.max_rdma_read_iov = ia.ia_attr().max_iov_segments_per_rdma_read;
    attributes.max_rdma_write_iov = ia.ia_attr().max_iov_segments_per_rdma_write;
    return attributes;
}

void scattered_sends() {
    const DAT_EP_ATTR attributes = with_most_segments();
    dto_fixture fixture(&attributes);
    ep_pair &eps = fixture.eps;
    for (DAT_COUNT count = 1; count <= attributes.max_request_iov; ++count) {
        const scoped_trace which(concat(count, " segments"));
        fixture.fill(static_cast<unsigned>(count));
        iov pieces = scattered(eps.lmr, target, count, 24);
        require_success(dat_ep_post_recv(eps.passive, count, pieces.data(), make_context(1),
                                         DAT_COMPLETION_DEFAULT_FLAG));
        pieces = scattered(eps.lmr, source, count, 24);
        require_success(dat_ep_post_send(eps.active, count, pieces.data(), make_context(2),
                                         DAT_COMPLETION_DEFAULT_FLAG));
        std::fill(pieces.begin(), pieces.end(), DAT_LMR_TRIPLET{}); // IOV_CONSUMER: it is ours
        const auto length = static_cast<std::size_t>(count) * 24;
        expect_completion(eps.passive.recv_evd, eps.passive, 1, length);
        expect_completion(eps.active.request_evd, eps.active, 2, length);
        fixture.carried(0, 0, length);
    }
}

void scattered_rdma() {
    const DAT_EP_ATTR attributes = with_most_segments();
    dto_fixture fixture(&attributes);
    ep_pair &eps = fixture.eps;
    for (DAT_COUNT count = 1; count <= attributes.max_rdma_write_iov; ++count) {
        const scoped_trace which(concat("Write of ", count, " segments"));
        fixture.fill(static_cast<unsigned>(count));
        iov pieces = scattered(eps.lmr, source, count, 40);
        const auto length = static_cast<std::size_t>(count) * 40;
        const DAT_RMR_TRIPLET there = eps.lmr.rmr_triplet(target, length);
        require_success(dat_ep_post_rdma_write(eps.active, count, pieces.data(), make_context(1),
                                               &there, DAT_COMPLETION_DEFAULT_FLAG));
        expect_completion(eps.active.request_evd, eps.active, 1, length);
        require_success(post_rdma_read(eps.active, eps.lmr.lmr_triplet(target - 8, 8), there,
                                       2)); // it is behind
        expect_completion(eps.active.request_evd, eps.active, 2, 8);
        fixture.carried(0, 0, length);
    }
    for (DAT_COUNT count = 1; count <= attributes.max_rdma_read_iov; ++count) {
        const scoped_trace which(concat("Read of ", count, " segments"));
        fixture.fill(static_cast<unsigned>(count));
        iov pieces = scattered(eps.lmr, target, count, 40);
        const auto length = static_cast<std::size_t>(count) * 40;
        const DAT_RMR_TRIPLET there = eps.lmr.rmr_triplet(source, length);
        require_success(dat_ep_post_rdma_read(eps.active, count, pieces.data(), make_context(3),
                                              &there, DAT_COMPLETION_DEFAULT_FLAG));
        expect_completion(eps.active.request_evd, eps.active, 3, length);
        fixture.carried(0, 0, length);
    }
}

void plain(case_list &cases) {
    add_case(cases, "dto.send", sent);
    add_case(cases, "dto.rdma_write", written);
    add_case(cases, "dto.rdma_read", read_back);
    add_case(cases, "dto.both_ways", both_ways);
    add_case(cases, "dto.send_segments", scattered_sends);
    add_case(cases, "dto.rdma_segments", scattered_rdma);
    add_case(cases, "dto.no_segment", [] { // a message of nothing
        dto_fixture fixture;
        ep_pair &eps = fixture.eps;
        require_success(dat_ep_post_recv(eps.passive, 0, nullptr, make_context(1),
                                         DAT_COMPLETION_DEFAULT_FLAG));
        require_success(
            dat_ep_post_send(eps.active, 0, nullptr, make_context(2), DAT_COMPLETION_DEFAULT_FLAG));
        expect_completion(eps.passive.recv_evd, eps.passive, 1, 0);
        expect_completion(eps.active.request_evd, eps.active, 2, 0);
    });
    add_case(cases, "dto.empty_segments", [] { // among others; their context means nothing
        dto_fixture fixture;
        ep_pair &eps = fixture.eps;
        const DAT_LMR_TRIPLET nothing{0, 0, 0xdeadbeef};
        iov pieces{nothing, eps.lmr.lmr_triplet(source, 10), nothing};
        require_success(post_recv(eps.passive, eps.lmr.lmr_triplet(target, 10), 1));
        require_success(dat_ep_post_send(eps.active, 3, pieces.data(), make_context(2),
                                         DAT_COMPLETION_DEFAULT_FLAG));
        expect_completion(eps.passive.recv_evd, eps.passive, 1, 10);
        expect_completion(eps.active.request_evd, eps.active, 2, 10);
        fixture.carried(0, 0, 10);
    });
}

void operations() {
    dto_fixture fixture;
    ep_pair &eps = fixture.eps;
    const auto was = [&](DAT_EVD_HANDLE from, DAT_DTOS operation, const char *what) {
        expect_eq(next_completion(from).operation, operation, what);
    };
    require_success(post_recv(eps.passive, eps.lmr.lmr_triplet(target, 8), 1));
    require_success(post_send(eps.active, eps.lmr.lmr_triplet(source, 8), 2));
    was(eps.passive.recv_evd, DAT_DTO_RECEIVE, "the operation of a receive");
    was(eps.active.request_evd, DAT_DTO_SEND, "the operation of a Send");
    require_success(post_rdma_write(eps.active, eps.lmr.lmr_triplet(source, 8),
                                    eps.lmr.rmr_triplet(target, 8), 3));
    was(eps.active.request_evd, DAT_DTO_RDMA_WRITE, "the operation of a Write");
    require_success(post_rdma_read(eps.active, eps.lmr.lmr_triplet(target, 8),
                                   eps.lmr.rmr_triplet(source, 8), 4));
    was(eps.active.request_evd, DAT_DTO_RDMA_READ, "the operation of a Read");
}

/// Completions come in the order of posting, with all 64 bits of their cookies.
void in_order() {
    dto_fixture fixture;
    ep_pair &eps = fixture.eps;
    const auto cookie = [](DAT_UINT64 i) {
        return 0xfedcba9800000000U + (i << 28) + i;
    };
    for (int round = 0; round < 20; ++round) {
        for (DAT_UINT64 i = 0; i < 4; ++i)
            require_success(
                post_recv(eps.passive, eps.lmr.lmr_triplet(target, 600), cookie(100 + i)));
        for (DAT_UINT64 i = 0; i < 12; ++i) {
            const auto piece = eps.lmr.lmr_triplet(source, 500 + i);
            const auto far = eps.lmr.rmr_triplet(target + page, 500 + i);
            switch (i % 3) {
            case 0:
                require_success(post_send(eps.active, piece, cookie(i)));
                break;
            case 1:
                require_success(post_rdma_write(eps.active, piece, far, cookie(i)));
                break;
            default:
                require_success(post_rdma_read(eps.active, piece, far, cookie(i)));
            }
        }
        for (DAT_UINT64 i = 0; i < 12; ++i)
            expect_completion(eps.active.request_evd, eps.active, cookie(i), 500 + i);
        for (DAT_UINT64 i = 0; i < 4; ++i)
            expect_completion(eps.passive.recv_evd, eps.passive, cookie(100 + i), 500 + 3 * i);
    }
}

void visible_after_message() {
    dto_fixture fixture;
    ep_pair &eps = fixture.eps;
    for (unsigned round = 1; round <= 20; ++round) {
        fixture.fill(round);
        require_success(post_recv(eps.passive, eps.lmr.lmr_triplet(0, 0), 1));
        require_success(post_rdma_write(eps.active, eps.lmr.lmr_triplet(source, 20000),
                                        eps.lmr.rmr_triplet(target, 20000), 2,
                                        DAT_COMPLETION_SUPPRESS_FLAG));
        require_success(post_send(eps.active, eps.lmr.lmr_triplet(0, 0), 3));
        expect_completion(eps.passive.recv_evd, eps.passive, 1, 0);
        fixture.carried(0, 0, 20000);
        expect_completion(eps.active.request_evd, eps.active, 3, 0);
    }
}

/// More Reads at once than the connection has in flight.
void many_reads() {
    DAT_EP_ATTR attributes = portable_ep_attr();
    attributes.max_request_dtos = 32;
    dto_fixture fixture(&attributes);
    ep_pair &eps = fixture.eps;
    for (DAT_UINT64 i = 0; i < 24; ++i)
        require_success(post_rdma_read(eps.active, eps.lmr.lmr_triplet(target + i * 1000, 1000),
                                       eps.lmr.rmr_triplet(source + i * 1000, 1000), i));
    for (DAT_UINT64 i = 0; i < 24; ++i)
        expect_completion(eps.active.request_evd, eps.active, i, 1000);
    fixture.carried(0, 0, 24000);
}

void orders(case_list &cases) {
    add_case(cases, "dto.operation", operations);
    add_case(cases, "dto.in_order", in_order);
    add_case(cases, "dto.visible_after_message", visible_after_message);
    add_case(cases, "dto.many_reads", many_reads);
    add_case(cases, "dto.one_evd_for_both", [] { // receives and requests of one EP
        ep_pair eps;
        const unique_evd data = eps.ia.create_evd(DAT_EVD_DTO_FLAG, 64);
        DAT_EP_HANDLE handle = nullptr;
        require_success(
            dat_ep_create(eps.ia, eps.pz, data, data, eps.active.connect_evd, nullptr, &handle));
        const unique_ep one(handle);
        require_success(post_recv(one, eps.lmr.lmr_triplet(target, 8), 1));
        require_success(post_recv(eps.passive, eps.lmr.lmr_triplet(target, 8), 2));
        require_success(connect_ep(one, ia_address(eps.ia.ipv4_address()), eps.port));
        require_success(dat_cr_accept(eps.next_cr(), eps.passive, 0, nullptr));
        next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        next_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        require_success(post_send(one, eps.lmr.lmr_triplet(source, 8), 3));
        expect_completion(eps.passive.recv_evd, eps.passive, 2, 8);
        expect_completion(data, one, 3, 8);
        require_success(post_send(eps.passive, eps.lmr.lmr_triplet(source, 8), 4));
        expect_completion(data, one, 1, 8);
    });
    add_case(cases, "dto.threshold", [] { // evd_wait counts completions
        dto_fixture fixture;
        ep_pair &eps = fixture.eps;
        for (DAT_UINT64 i = 0; i < 5; ++i)
            require_success(post_rdma_write(eps.active, eps.lmr.lmr_triplet(source, 8),
                                            eps.lmr.rmr_triplet(target, 8), i));
        poisoned<DAT_EVENT> event;
        DAT_COUNT more = -1;
        require_success(dat_evd_wait(eps.active.request_evd, dat_timeout(event_timeout), 5,
                                     event.ptr(), &more));
        expect_eq(event->event_data.dto_completion_event_data.user_cookie.as_64, 0,
                  "the first cookie");
        expect_eq(more, 4, "the number of events left");
        for (DAT_UINT64 i = 1; i < 5; ++i)
            expect_completion(eps.active.request_evd, eps.active, i, 8);
    });
}

void flags(case_list &cases) {
    add_case(cases, "dto.suppressed", [] {
        dto_fixture fixture;
        ep_pair &eps = fixture.eps;
        for (DAT_UINT64 round = 0; round < 30; ++round) { // more than it has room for
            for (DAT_UINT64 i = 0; i < 8; ++i)
                require_success(post_rdma_write(eps.active, eps.lmr.lmr_triplet(source, 8),
                                                eps.lmr.rmr_triplet(target, 8), i,
                                                DAT_COMPLETION_SUPPRESS_FLAG));
            require_success(post_rdma_write(eps.active, eps.lmr.lmr_triplet(source, 8),
                                            eps.lmr.rmr_triplet(target, 8), 99));
            expect_completion(eps.active.request_evd, eps.active, 99, 8);
        }
        expect_no_event(eps.active.request_evd);
    });
    add_case(cases, "dto.unsignalled", [] { // an event, which wakes no thread
        DAT_EP_ATTR attributes = portable_ep_attr();
        attributes.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
        ep_pair eps;
        eps.active = test_ep(eps.ia, eps.pz, &attributes);
        eps.connect();
        require_success(post_rdma_write(eps.active, eps.lmr.lmr_triplet(source, 8),
                                        eps.lmr.rmr_triplet(target, 8), 7,
                                        DAT_COMPLETION_UNSIGNALLED_FLAG));
        require_success(post_rdma_write(eps.active, eps.lmr.lmr_triplet(source, 8),
                                        eps.lmr.rmr_triplet(target, 8), 8));
        expect_completion(eps.active.request_evd, eps.active, 7, 8);
        expect_completion(eps.active.request_evd, eps.active, 8, 8);
    });
    add_case(cases, "dto.solicited", [] {
        DAT_EP_ATTR attributes = portable_ep_attr();
        attributes.recv_completion_flags = DAT_COMPLETION_SOLICITED_WAIT_FLAG;
        ep_pair eps;
        eps.passive = test_ep(eps.ia, eps.pz, &attributes);
        require_success(post_recv(eps.passive, eps.lmr.lmr_triplet(target, 8), 1));
        eps.connect_without_messages();
        require_success(post_send(eps.active, eps.lmr.lmr_triplet(source, 8), 2,
                                  DAT_COMPLETION_SOLICITED_WAIT_FLAG));
        expect_completion(eps.passive.recv_evd, eps.passive, 1, 8);
        expect_completion(eps.active.request_evd, eps.active, 2, 8);
    });
    add_case(cases, "dto.fence", [] { // what was read is sent on
        dto_fixture fixture;
        ep_pair &eps = fixture.eps;
        constexpr std::size_t between = target - page;
        for (unsigned round = 1; round <= 30; ++round) {
            fixture.fill(round);
            require_success(post_recv(eps.passive, eps.lmr.lmr_triplet(target, 2000), 1));
            require_success(post_rdma_read(eps.active, eps.lmr.lmr_triplet(between, 2000),
                                           eps.lmr.rmr_triplet(source, 2000), 2));
            require_success(post_send(eps.active, eps.lmr.lmr_triplet(between, 2000), 3,
                                      DAT_COMPLETION_BARRIER_FENCE_FLAG));
            expect_completion(eps.active.request_evd, eps.active, 2, 2000);
            expect_completion(eps.active.request_evd, eps.active, 3, 2000);
            expect_completion(eps.passive.recv_evd, eps.passive, 1, 2000);
            fixture.carried(0, 0, 2000);
        }
    });
}

} // namespace

void add_dto(case_list &cases) {
    plain(cases);
    orders(cases);
    flags(cases);
}

} // namespace conform
