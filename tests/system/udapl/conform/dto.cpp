// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Data transfers that go well: every byte is where it belongs, and no other was touched.

#include "cases.hpp"
#include "endpoint.hpp"

#include <algorithm>

namespace conform {

namespace {

// Halves of the pair's memory.
constexpr std::size_t source = 0;
constexpr std::size_t target = couple::size / 2;
constexpr std::size_t half = couple::size / 2;

/// A connected pair whose source has a pattern and whose target is empty.
struct place {
    couple pair;

    explicit place(const DAT_EP_ATTR *attributes = nullptr)
        : pair(attributes) {
        pair.join();
        fill(1);
    }
    void fill(unsigned seed) {
        const auto pattern = some_bytes(half, seed);
        std::copy(pattern.begin(), pattern.end(), pair.memory.data() + source);
        std::fill_n(pair.memory.data() + target, half, std::byte{0x5e});
    }
    /// Only this range of the target has changed, and has what the source has there.
    void carried(std::size_t from, std::size_t to, std::size_t length,
                 source_location loc = current_location()) const {
        const std::byte *was = pair.memory.data() + source + from;
        const std::byte *is_now = pair.memory.data() + target;
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
    place here_is;
    couple &pair = here_is.pair;
    unsigned seed = 1;
    for (const std::size_t size : sizes) {
        const scoped_trace which(concat(size, " bytes"));
        here_is.fill(++seed);
        require_success(post_receive(pair.passive, pair.memory.piece(target + 16, size + 8), size));
        require_success(post_send(pair.active, pair.memory.piece(source + 3, size), size));
        completed(pair.passive.received, pair.passive, size, size);
        completed(pair.active.requested, pair.active, size, size);
        here_is.carried(3, 16, size);
    }
}

void written() {
    place here_is;
    couple &pair = here_is.pair;
    unsigned seed = 1;
    for (const std::size_t size : sizes) {
        const scoped_trace which(concat(size, " bytes"));
        here_is.fill(++seed);
        require_success(post_write(pair.active, pair.memory.piece(source + 5, size),
                                   pair.memory.target(target + 9, size), size));
        completed(pair.active.requested, pair.active, size, size);
        // On iWARP it is done when it was sent: a message that follows says that it is there.
        require_success(post_receive(pair.passive, pair.memory.piece(0, 0), 1));
        require_success(post_send(pair.active, pair.memory.piece(0, 0), 2));
        completed(pair.passive.received, pair.passive, 1, 0);
        completed(pair.active.requested, pair.active, 2, 0);
        here_is.carried(5, 9, size);
    }
}

void read_back() {
    place here_is;
    couple &pair = here_is.pair;
    unsigned seed = 1;
    for (const std::size_t size : sizes) {
        const scoped_trace which(concat(size, " bytes"));
        here_is.fill(++seed);
        require_success(post_read(pair.active, pair.memory.piece(target + 2, size),
                                  pair.memory.target(source + 7, size), size));
        completed(pair.active.requested, pair.active, size, size);
        here_is.carried(7, 2, size);
    }
}

/// The passive side asks, too.
void both_ways() {
    place here_is;
    couple &pair = here_is.pair;
    require_success(post_receive(pair.active, pair.memory.piece(target, 5000), 1));
    require_success(post_send(pair.passive, pair.memory.piece(source, 5000), 2));
    completed(pair.active.received, pair.active, 1, 5000);
    completed(pair.passive.requested, pair.passive, 2, 5000);
    here_is.carried(0, 0, 5000);
    here_is.fill(9);
    require_success(post_read(pair.passive, pair.memory.piece(target, 300),
                              pair.memory.target(source, 300), 3));
    completed(pair.passive.requested, pair.passive, 3, 300);
    here_is.carried(0, 0, 300);
}

using iov = std::vector<DAT_LMR_TRIPLET>;

/// `count` pieces, every second of them empty if `with_empty`, of `length` bytes from `at` on.
iov scattered(const region &memory, std::size_t at, DAT_COUNT count, std::size_t length) {
    iov all;
    for (DAT_COUNT i = 0; i < count; ++i) {
        all.push_back(memory.piece(at, length));
        at += length;
    }
    return all;
}

DAT_EP_ATTR with_most_segments() {
    const adapter ia;
    DAT_EP_ATTR attributes = modest();
    attributes.max_recv_iov = attributes.max_request_iov = ia.attributes().max_iov_segments_per_dto;
    attributes.max_rdma_read_iov = ia.attributes().max_iov_segments_per_rdma_read;
    attributes.max_rdma_write_iov = ia.attributes().max_iov_segments_per_rdma_write;
    return attributes;
}

void scattered_sends() {
    const DAT_EP_ATTR attributes = with_most_segments();
    place here_is(&attributes);
    couple &pair = here_is.pair;
    for (DAT_COUNT count = 1; count <= attributes.max_request_iov; ++count) {
        const scoped_trace which(concat(count, " segments"));
        here_is.fill(static_cast<unsigned>(count));
        iov pieces = scattered(pair.memory, target, count, 24);
        require_success(dat_ep_post_recv(pair.passive, count, pieces.data(), make_context(1),
                                         DAT_COMPLETION_DEFAULT_FLAG));
        pieces = scattered(pair.memory, source, count, 24);
        require_success(dat_ep_post_send(pair.active, count, pieces.data(), make_context(2),
                                         DAT_COMPLETION_DEFAULT_FLAG));
        std::fill(pieces.begin(), pieces.end(), DAT_LMR_TRIPLET{}); // IOV_CONSUMER: it is ours
        const auto length = static_cast<std::size_t>(count) * 24;
        completed(pair.passive.received, pair.passive, 1, length);
        completed(pair.active.requested, pair.active, 2, length);
        here_is.carried(0, 0, length);
    }
}

void scattered_rdma() {
    const DAT_EP_ATTR attributes = with_most_segments();
    place here_is(&attributes);
    couple &pair = here_is.pair;
    for (DAT_COUNT count = 1; count <= attributes.max_rdma_write_iov; ++count) {
        const scoped_trace which(concat("Write of ", count, " segments"));
        here_is.fill(static_cast<unsigned>(count));
        iov pieces = scattered(pair.memory, source, count, 40);
        const auto length = static_cast<std::size_t>(count) * 40;
        const DAT_RMR_TRIPLET there = pair.memory.target(target, length);
        require_success(dat_ep_post_rdma_write(pair.active, count, pieces.data(), make_context(1),
                                               &there, DAT_COMPLETION_DEFAULT_FLAG));
        completed(pair.active.requested, pair.active, 1, length);
        require_success(
            post_read(pair.active, pair.memory.piece(target - 8, 8), there, 2)); // it is behind
        completed(pair.active.requested, pair.active, 2, 8);
        here_is.carried(0, 0, length);
    }
    for (DAT_COUNT count = 1; count <= attributes.max_rdma_read_iov; ++count) {
        const scoped_trace which(concat("Read of ", count, " segments"));
        here_is.fill(static_cast<unsigned>(count));
        iov pieces = scattered(pair.memory, target, count, 40);
        const auto length = static_cast<std::size_t>(count) * 40;
        const DAT_RMR_TRIPLET there = pair.memory.target(source, length);
        require_success(dat_ep_post_rdma_read(pair.active, count, pieces.data(), make_context(3),
                                              &there, DAT_COMPLETION_DEFAULT_FLAG));
        completed(pair.active.requested, pair.active, 3, length);
        here_is.carried(0, 0, length);
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
        place here_is;
        couple &pair = here_is.pair;
        require_success(dat_ep_post_recv(pair.passive, 0, nullptr, make_context(1),
                                         DAT_COMPLETION_DEFAULT_FLAG));
        require_success(dat_ep_post_send(pair.active, 0, nullptr, make_context(2),
                                         DAT_COMPLETION_DEFAULT_FLAG));
        completed(pair.passive.received, pair.passive, 1, 0);
        completed(pair.active.requested, pair.active, 2, 0);
    });
    add_case(cases, "dto.empty_segments", [] { // among others; their context means nothing
        place here_is;
        couple &pair = here_is.pair;
        const DAT_LMR_TRIPLET nothing{0, 0, 0xdeadbeef};
        iov pieces{nothing, pair.memory.piece(source, 10), nothing};
        require_success(post_receive(pair.passive, pair.memory.piece(target, 10), 1));
        require_success(dat_ep_post_send(pair.active, 3, pieces.data(), make_context(2),
                                         DAT_COMPLETION_DEFAULT_FLAG));
        completed(pair.passive.received, pair.passive, 1, 10);
        completed(pair.active.requested, pair.active, 2, 10);
        here_is.carried(0, 0, 10);
    });
}

void operations() {
    place here_is;
    couple &pair = here_is.pair;
    const auto was = [&](DAT_EVD_HANDLE from, DAT_DTOS operation, const char *what) {
        expect_eq(completion(from).operation, operation, what);
    };
    require_success(post_receive(pair.passive, pair.memory.piece(target, 8), 1));
    require_success(post_send(pair.active, pair.memory.piece(source, 8), 2));
    was(pair.passive.received, DAT_DTO_RECEIVE, "the operation of a receive");
    was(pair.active.requested, DAT_DTO_SEND, "the operation of a Send");
    require_success(
        post_write(pair.active, pair.memory.piece(source, 8), pair.memory.target(target, 8), 3));
    was(pair.active.requested, DAT_DTO_RDMA_WRITE, "the operation of a Write");
    require_success(
        post_read(pair.active, pair.memory.piece(target, 8), pair.memory.target(source, 8), 4));
    was(pair.active.requested, DAT_DTO_RDMA_READ, "the operation of a Read");
}

/// Completions come in the order of posting, with all 64 bits of their cookies.
void in_order() {
    place here_is;
    couple &pair = here_is.pair;
    const auto cookie = [](DAT_UINT64 i) {
        return 0xfedcba9800000000U + (i << 28) + i;
    };
    for (int round = 0; round < 20; ++round) {
        for (DAT_UINT64 i = 0; i < 4; ++i)
            require_success(
                post_receive(pair.passive, pair.memory.piece(target, 600), cookie(100 + i)));
        for (DAT_UINT64 i = 0; i < 12; ++i) {
            const auto piece = pair.memory.piece(source, 500 + i);
            const auto far = pair.memory.target(target + page, 500 + i);
            switch (i % 3) {
            case 0:
                require_success(post_send(pair.active, piece, cookie(i)));
                break;
            case 1:
                require_success(post_write(pair.active, piece, far, cookie(i)));
                break;
            default:
                require_success(post_read(pair.active, piece, far, cookie(i)));
            }
        }
        for (DAT_UINT64 i = 0; i < 12; ++i)
            completed(pair.active.requested, pair.active, cookie(i), 500 + i);
        for (DAT_UINT64 i = 0; i < 4; ++i)
            completed(pair.passive.received, pair.passive, cookie(100 + i), 500 + 3 * i);
    }
}

void visible_after_message() {
    place here_is;
    couple &pair = here_is.pair;
    for (unsigned round = 1; round <= 20; ++round) {
        here_is.fill(round);
        require_success(post_receive(pair.passive, pair.memory.piece(0, 0), 1));
        require_success(post_write(pair.active, pair.memory.piece(source, 20000),
                                   pair.memory.target(target, 20000), 2,
                                   DAT_COMPLETION_SUPPRESS_FLAG));
        require_success(post_send(pair.active, pair.memory.piece(0, 0), 3));
        completed(pair.passive.received, pair.passive, 1, 0);
        here_is.carried(0, 0, 20000);
        completed(pair.active.requested, pair.active, 3, 0);
    }
}

/// More Reads at once than the connection has in flight.
void many_reads() {
    DAT_EP_ATTR attributes = modest();
    attributes.max_request_dtos = 32;
    place here_is(&attributes);
    couple &pair = here_is.pair;
    for (DAT_UINT64 i = 0; i < 24; ++i)
        require_success(post_read(pair.active, pair.memory.piece(target + i * 1000, 1000),
                                  pair.memory.target(source + i * 1000, 1000), i));
    for (DAT_UINT64 i = 0; i < 24; ++i)
        completed(pair.active.requested, pair.active, i, 1000);
    here_is.carried(0, 0, 24000);
}

void orders(case_list &cases) {
    add_case(cases, "dto.operation", operations);
    add_case(cases, "dto.in_order", in_order);
    add_case(cases, "dto.visible_after_message", visible_after_message);
    add_case(cases, "dto.many_reads", many_reads);
    add_case(cases, "dto.one_evd_for_both", [] { // receives and requests of one EP
        couple pair;
        const unique_evd data = pair.ia.events(DAT_EVD_DTO_FLAG, 64);
        DAT_EP_HANDLE handle = nullptr;
        require_success(dat_ep_create(pair.ia, pair.zone, data, data, pair.active.connection,
                                      nullptr, &handle));
        const unique_ep one(handle);
        require_success(post_receive(one, pair.memory.piece(target, 8), 1));
        require_success(post_receive(pair.passive, pair.memory.piece(target, 8), 2));
        require_success(connect(one, destination(pair.ia.address()), pair.port));
        require_success(dat_cr_accept(pair.request(), pair.passive, 0, nullptr));
        next_event(pair.active.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
        next_event(pair.passive.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
        require_success(post_send(one, pair.memory.piece(source, 8), 3));
        completed(pair.passive.received, pair.passive, 2, 8);
        completed(data, one, 3, 8);
        require_success(post_send(pair.passive, pair.memory.piece(source, 8), 4));
        completed(data, one, 1, 8);
    });
    add_case(cases, "dto.threshold", [] { // evd_wait counts completions
        place here_is;
        couple &pair = here_is.pair;
        for (DAT_UINT64 i = 0; i < 5; ++i)
            require_success(post_write(pair.active, pair.memory.piece(source, 8),
                                       pair.memory.target(target, 8), i));
        filled<DAT_EVENT> event;
        DAT_COUNT more = -1;
        require_success(
            dat_evd_wait(pair.active.requested, dat_timeout(soon), 5, event.out(), &more));
        expect_eq(event->event_data.dto_completion_event_data.user_cookie.as_64, 0,
                  "the first cookie");
        expect_eq(more, 4, "the number of events left");
        for (DAT_UINT64 i = 1; i < 5; ++i)
            completed(pair.active.requested, pair.active, i, 8);
    });
}

void flags(case_list &cases) {
    add_case(cases, "dto.suppressed", [] {
        place here_is;
        couple &pair = here_is.pair;
        for (DAT_UINT64 round = 0; round < 30; ++round) { // more than it has room for
            for (DAT_UINT64 i = 0; i < 8; ++i)
                require_success(post_write(pair.active, pair.memory.piece(source, 8),
                                           pair.memory.target(target, 8), i,
                                           DAT_COMPLETION_SUPPRESS_FLAG));
            require_success(post_write(pair.active, pair.memory.piece(source, 8),
                                       pair.memory.target(target, 8), 99));
            completed(pair.active.requested, pair.active, 99, 8);
        }
        no_event(pair.active.requested);
    });
    add_case(cases, "dto.unsignalled", [] { // an event, which wakes no thread
        DAT_EP_ATTR attributes = modest();
        attributes.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
        couple pair;
        pair.active = endpoint(pair.ia, pair.zone, &attributes);
        pair.join();
        require_success(post_write(pair.active, pair.memory.piece(source, 8),
                                   pair.memory.target(target, 8), 7,
                                   DAT_COMPLETION_UNSIGNALLED_FLAG));
        require_success(post_write(pair.active, pair.memory.piece(source, 8),
                                   pair.memory.target(target, 8), 8));
        completed(pair.active.requested, pair.active, 7, 8);
        completed(pair.active.requested, pair.active, 8, 8);
    });
    add_case(cases, "dto.solicited", [] {
        DAT_EP_ATTR attributes = modest();
        attributes.recv_completion_flags = DAT_COMPLETION_SOLICITED_WAIT_FLAG;
        couple pair;
        pair.passive = endpoint(pair.ia, pair.zone, &attributes);
        require_success(post_receive(pair.passive, pair.memory.piece(target, 8), 1));
        pair.join_silently();
        require_success(post_send(pair.active, pair.memory.piece(source, 8), 2,
                                  DAT_COMPLETION_SOLICITED_WAIT_FLAG));
        completed(pair.passive.received, pair.passive, 1, 8);
        completed(pair.active.requested, pair.active, 2, 8);
    });
    add_case(cases, "dto.fence", [] { // what was read is sent on
        place here_is;
        couple &pair = here_is.pair;
        constexpr std::size_t between = target - page;
        for (unsigned round = 1; round <= 30; ++round) {
            here_is.fill(round);
            require_success(post_receive(pair.passive, pair.memory.piece(target, 2000), 1));
            require_success(post_read(pair.active, pair.memory.piece(between, 2000),
                                      pair.memory.target(source, 2000), 2));
            require_success(post_send(pair.active, pair.memory.piece(between, 2000), 3,
                                      DAT_COMPLETION_BARRIER_FENCE_FLAG));
            completed(pair.active.requested, pair.active, 2, 2000);
            completed(pair.active.requested, pair.active, 3, 2000);
            completed(pair.passive.received, pair.passive, 1, 2000);
            here_is.carried(0, 0, 2000);
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
