// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Data transfers that go well: every byte is where it belongs, and no other was touched.

#include "lib/cases.hpp"
#include "lib/test_ep.hpp"

#include <algorithm>
#include <cstring>
#include <dat2/dat_ib_extensions.h>

namespace conform {

namespace {

// Halves of the pair's LMR: what is sent, and where it comes.
constexpr std::size_t source_offset = 0;
constexpr std::size_t target_offset = ep_pair::size / 2;
constexpr std::size_t half_size = ep_pair::size / 2;
constexpr std::byte unwritten_byte{0x5e}; ///< with which the target is filled

/// A connected pair whose source has a pattern and whose target is empty.
struct dto_fixture {
    ep_pair eps;

    explicit dto_fixture(const DAT_EP_ATTR *attr = nullptr)
        : eps(attr) {
        eps.connect();
        fill_source_and_clear_target(1);
        sync_source();
        sync_target();
    }
    void fill_source_and_clear_target(unsigned seed) {
        const auto pattern = make_pattern(half_size, seed);
        std::copy(pattern.begin(), pattern.end(), eps.lmr.data() + source_offset);
        std::fill_n(eps.lmr.data() + target_offset, half_size, unwritten_byte);
    }
    /// The source is about to be read by the peer, the target to be written, or was written. The
    /// Provider syncs the memory of the EP's own requests.
    void sync_source(source_location loc = current_location()) const {
        eps.lmr.sync_rdma_read(source_offset, half_size, loc);
    }
    void sync_target(source_location loc = current_location()) const {
        eps.lmr.sync_rdma_write(target_offset, half_size, loc);
    }
    /// Only this range of the target has changed, and has what the source has there.
    void expect_transferred(std::size_t src_offset, std::size_t dst_offset, std::size_t length,
                            source_location loc = current_location()) const {
        const std::byte *src = eps.lmr.data() + source_offset + src_offset;
        const std::byte *dst = eps.lmr.data() + target_offset;
        const auto is_unchanged = [](std::byte byte) {
            return byte == unwritten_byte;
        };
        expect_true(std::equal(src, src + length, dst + dst_offset),
                    "the data is not what was sent", loc);
        expect_true(std::all_of(dst, dst + dst_offset, is_unchanged),
                    "something before it was written", loc);
        expect_true(std::all_of(dst + dst_offset + length, dst + half_size, is_unchanged),
                    "something behind it was written", loc);
    }
};

/// Around the sizes of cache lines, packets and pages.
constexpr std::size_t sizes[] = {0,    1,    8,    63,   64,   65,    255,   256,   1023,
                                 1024, 1025, 4095, 4096, 4097, 65535, 65536, 65537, 100000};

/// A Send of each size comes as it was sent, to a receive that is 8 bytes longer, and writes
/// nothing else.
void test_send() {
    dto_fixture fixture;
    ep_pair &eps = fixture.eps;
    unsigned seed = 1;
    for (const std::size_t size : sizes) {
        const scoped_trace trace(concat(size, " bytes"));
        fixture.fill_source_and_clear_target(++seed);
        require_success(
            post_recv(eps.passive, eps.lmr.make_lmr_triplet(target_offset + 16, size + 8), size));
        require_success(
            post_send(eps.active, eps.lmr.make_lmr_triplet(source_offset + 3, size), size));
        expect_completion(eps.passive.recv_evd, eps.passive, size, size);
        expect_completion(eps.active.request_evd, eps.active, size, size);
        fixture.expect_transferred(3, 16, size);
    }
}

/// An RDMA Write of each size writes its target and nothing else.
void test_rdma_write() {
    dto_fixture fixture;
    ep_pair &eps = fixture.eps;
    unsigned seed = 1;
    for (const std::size_t size : sizes) {
        const scoped_trace trace(concat(size, " bytes"));
        fixture.fill_source_and_clear_target(++seed);
        fixture.sync_target();
        require_success(post_rdma_write(eps.active,
                                        eps.lmr.make_lmr_triplet(source_offset + 5, size),
                                        eps.lmr.make_rmr_triplet(target_offset + 9, size), size));
        expect_completion(eps.active.request_evd, eps.active, size, size);
        // On iWARP a Write completes when it was sent. An empty message that follows arrives after
        // its data.
        require_success(post_recv(eps.passive, eps.lmr.make_lmr_triplet(0, 0), 1));
        require_success(post_send(eps.active, eps.lmr.make_lmr_triplet(0, 0), 2));
        expect_completion(eps.passive.recv_evd, eps.passive, 1, 0);
        expect_completion(eps.active.request_evd, eps.active, 2, 0);
        fixture.sync_target();
        fixture.expect_transferred(5, 9, size);
    }
}

/// An RDMA Read of each size writes its local memory and nothing else.
void test_rdma_read() {
    dto_fixture fixture;
    ep_pair &eps = fixture.eps;
    unsigned seed = 1;
    for (const std::size_t size : sizes) {
        const scoped_trace trace(concat(size, " bytes"));
        fixture.fill_source_and_clear_target(++seed);
        fixture.sync_source();
        require_success(post_rdma_read(eps.active,
                                       eps.lmr.make_lmr_triplet(target_offset + 2, size),
                                       eps.lmr.make_rmr_triplet(source_offset + 7, size), size));
        expect_completion(eps.active.request_evd, eps.active, size, size);
        fixture.expect_transferred(7, 2, size);
    }
}

/// The passive side, too, can send and read.
void test_both_ways() {
    dto_fixture fixture;
    ep_pair &eps = fixture.eps;
    require_success(post_recv(eps.active, eps.lmr.make_lmr_triplet(target_offset, 5000), 1));
    require_success(post_send(eps.passive, eps.lmr.make_lmr_triplet(source_offset, 5000), 2));
    expect_completion(eps.active.recv_evd, eps.active, 1, 5000);
    expect_completion(eps.passive.request_evd, eps.passive, 2, 5000);
    fixture.expect_transferred(0, 0, 5000);
    fixture.fill_source_and_clear_target(9);
    fixture.sync_source();
    require_success(post_rdma_read(eps.passive, eps.lmr.make_lmr_triplet(target_offset, 300),
                                   eps.lmr.make_rmr_triplet(source_offset, 300), 3));
    expect_completion(eps.passive.request_evd, eps.passive, 3, 300);
    fixture.expect_transferred(0, 0, 300);
}

/// InfiniBand's atomic operations return the peer's value and change it.
void test_atomics() {
    ep_pair eps;
    if (eps.ia.is_iwarp())
        throw case_skipped{"the device has no atomic operations"};
    const test_lmr target(eps.ia, eps.pz, page_size,
                          enum_cast<DAT_MEM_PRIV_FLAGS>(unsigned{DAT_MEM_PRIV_ALL_FLAG} |
                                                        unsigned{DAT_IB_MEM_PRIV_REMOTE_ATOMIC}));
    eps.connect();
    const auto value_at = [](const std::byte *memory) {
        DAT_UINT64 value = 0;
        std::memcpy(&value, memory, sizeof value);
        return value;
    };
    constexpr DAT_UINT64 initial = 5, sum = 8, swapped = 11;
    constexpr DAT_UINT64 unwritten_value = 0x5e5e;
    std::memcpy(target.data(), &initial, sizeof initial);
    target.sync_rdma_write(0, sizeof initial);
    const DAT_RMR_TRIPLET remote = target.make_rmr_triplet(0, sizeof initial);
    const auto expect_atomic = [&](auto post, DAT_UINT64 before, DAT_UINT64 after) {
        std::memcpy(eps.lmr.data(), &unwritten_value, sizeof unwritten_value);
        DAT_LMR_TRIPLET iov = eps.lmr.make_lmr_triplet(0, sizeof before);
        require_success(post(&iov));
        const DAT_EVENT event = next_event(eps.active.request_evd,
                                           enum_cast<DAT_EVENT_NUMBER>(unsigned{DAT_IB_DTO_EVENT}));
        expect_eq(event.event_data.dto_completion_event_data.status, DAT_DTO_SUCCESS, "the status");
        expect_eq(value_at(eps.lmr.data()), before, "the returned value");
        target.sync_rdma_write(0, sizeof after);
        expect_eq(value_at(target.data()), after, "the value");
    };
    const DAT_DTO_COOKIE cookie = {.as_64 = 1};
    expect_atomic(
        [&](DAT_LMR_TRIPLET *iov) {
            return dat_ib_post_fetch_and_add(eps.active, sum - initial, iov, cookie, &remote,
                                             DAT_COMPLETION_DEFAULT_FLAG);
        },
        initial, sum);
    expect_atomic(
        [&](DAT_LMR_TRIPLET *iov) {
            return dat_ib_post_cmp_and_swap(eps.active, sum, swapped, iov, cookie, &remote,
                                            DAT_COMPLETION_DEFAULT_FLAG);
        },
        sum, swapped);
}

using lmr_triplets = std::vector<DAT_LMR_TRIPLET>;

/// `count` adjacent segments of `length` bytes each, from `offset` on.
lmr_triplets split_lmr(const test_lmr &lmr, std::size_t offset, DAT_COUNT count,
                       std::size_t length) {
    lmr_triplets iov;
    for (DAT_COUNT i = 0; i < count; ++i) {
        iov.push_back(lmr.make_lmr_triplet(offset, length));
        offset += length;
    }
    return iov;
}

/// An EP that takes as many segments as the IA permits.
DAT_EP_ATTR max_segments_ep_attr() {
    const test_ia ia;
    DAT_EP_ATTR attr = minimal_ep_attr();
    attr.max_recv_iov = attr.max_request_iov = ia.ia_attr().max_iov_segments_per_dto;
    attr.max_rdma_read_iov = ia.ia_attr().max_iov_segments_per_rdma_read;
    attr.max_rdma_write_iov = ia.ia_attr().max_iov_segments_per_rdma_write;
    return attr;
}

/// Messages of each number of segments, up to the limit, at both ends. The iov is the consumer's
/// again once it is posted.
void test_send_segments() {
    const DAT_EP_ATTR attr = max_segments_ep_attr();
    dto_fixture fixture(&attr);
    ep_pair &eps = fixture.eps;
    for (DAT_COUNT count = 1; count <= attr.max_request_iov; ++count) {
        const scoped_trace trace(concat(count, " segments"));
        fixture.fill_source_and_clear_target(static_cast<unsigned>(count));
        lmr_triplets iov = split_lmr(eps.lmr, target_offset, count, 24);
        require_success(dat_ep_post_recv(eps.passive, count, iov.data(), make_context(1),
                                         DAT_COMPLETION_DEFAULT_FLAG));
        iov = split_lmr(eps.lmr, source_offset, count, 24);
        require_success(dat_ep_post_send(eps.active, count, iov.data(), make_context(2),
                                         DAT_COMPLETION_DEFAULT_FLAG));
        std::fill(iov.begin(), iov.end(), DAT_LMR_TRIPLET{}); // DAT_IOV_CONSUMER: no longer read
        const auto length = static_cast<std::size_t>(count) * 24;
        expect_completion(eps.passive.recv_evd, eps.passive, 1, length);
        expect_completion(eps.active.request_evd, eps.active, 2, length);
        fixture.expect_transferred(0, 0, length);
    }
}

/// RDMA Writes and Reads of each number of segments, up to the limits. The Read after a Write
/// completes when the Write's data is in place, also on iWARP.
void test_rdma_segments() {
    const DAT_EP_ATTR attr = max_segments_ep_attr();
    dto_fixture fixture(&attr);
    ep_pair &eps = fixture.eps;
    for (DAT_COUNT count = 1; count <= attr.max_rdma_write_iov; ++count) {
        const scoped_trace trace(concat("Write of ", count, " segments"));
        fixture.fill_source_and_clear_target(static_cast<unsigned>(count));
        lmr_triplets iov = split_lmr(eps.lmr, source_offset, count, 40);
        const auto length = static_cast<std::size_t>(count) * 40;
        const DAT_RMR_TRIPLET remote = eps.lmr.make_rmr_triplet(target_offset, length);
        fixture.sync_target();
        require_success(dat_ep_post_rdma_write(eps.active, count, iov.data(), make_context(1),
                                               &remote, DAT_COMPLETION_DEFAULT_FLAG));
        expect_completion(eps.active.request_evd, eps.active, 1, length);
        require_success(post_rdma_read(eps.active, eps.lmr.make_lmr_triplet(target_offset - 8, 8),
                                       remote,
                                       2)); // completes after the Write's data
        expect_completion(eps.active.request_evd, eps.active, 2, 8);
        fixture.sync_target();
        fixture.expect_transferred(0, 0, length);
    }
    for (DAT_COUNT count = 1; count <= attr.max_rdma_read_iov; ++count) {
        const scoped_trace trace(concat("Read of ", count, " segments"));
        fixture.fill_source_and_clear_target(static_cast<unsigned>(count));
        lmr_triplets iov = split_lmr(eps.lmr, target_offset, count, 40);
        const auto length = static_cast<std::size_t>(count) * 40;
        const DAT_RMR_TRIPLET remote = eps.lmr.make_rmr_triplet(source_offset, length);
        fixture.sync_source();
        require_success(dat_ep_post_rdma_read(eps.active, count, iov.data(), make_context(3),
                                              &remote, DAT_COMPLETION_DEFAULT_FLAG));
        expect_completion(eps.active.request_evd, eps.active, 3, length);
        fixture.expect_transferred(0, 0, length);
    }
}

void add_transfer_cases(case_list &cases) {
    add_case(cases, "dto.send", test_send);
    add_case(cases, "dto.rdma_write", test_rdma_write);
    add_case(cases, "dto.rdma_read", test_rdma_read);
    add_case(cases, "dto.both_ways", test_both_ways);
    add_case(cases, "dto.atomics", test_atomics);
    add_case(cases, "dto.send_segments", test_send_segments);
    add_case(cases, "dto.rdma_segments", test_rdma_segments);
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
        const DAT_LMR_TRIPLET empty_segment{0, 0, 0xdeadbeef};
        lmr_triplets iov{empty_segment, eps.lmr.make_lmr_triplet(source_offset, 10), empty_segment};
        require_success(post_recv(eps.passive, eps.lmr.make_lmr_triplet(target_offset, 10), 1));
        require_success(dat_ep_post_send(eps.active, 3, iov.data(), make_context(2),
                                         DAT_COMPLETION_DEFAULT_FLAG));
        expect_completion(eps.passive.recv_evd, eps.passive, 1, 10);
        expect_completion(eps.active.request_evd, eps.active, 2, 10);
        fixture.expect_transferred(0, 0, 10);
    });
}

/// Each completion says which operation completed.
void test_operations() {
    dto_fixture fixture;
    ep_pair &eps = fixture.eps;
    const auto expect_operation = [&](DAT_EVD_HANDLE evd, DAT_DTOS operation, const char *message) {
        expect_eq(next_completion(evd).operation, operation, message);
    };
    require_success(post_recv(eps.passive, eps.lmr.make_lmr_triplet(target_offset, 8), 1));
    require_success(post_send(eps.active, eps.lmr.make_lmr_triplet(source_offset, 8), 2));
    expect_operation(eps.passive.recv_evd, DAT_DTO_RECEIVE, "the operation of a receive");
    expect_operation(eps.active.request_evd, DAT_DTO_SEND, "the operation of a Send");
    require_success(post_rdma_write(eps.active, eps.lmr.make_lmr_triplet(source_offset, 8),
                                    eps.lmr.make_rmr_triplet(target_offset, 8), 3));
    expect_operation(eps.active.request_evd, DAT_DTO_RDMA_WRITE, "the operation of a Write");
    require_success(post_rdma_read(eps.active, eps.lmr.make_lmr_triplet(target_offset, 8),
                                   eps.lmr.make_rmr_triplet(source_offset, 8), 4));
    expect_operation(eps.active.request_evd, DAT_DTO_RDMA_READ, "the operation of a Read");
    fixture.sync_target();
}

/// Sends, Writes and Reads complete in the order of posting, with all 64 bits of their cookies; the
/// four Sends of twelve requests take the receives in order. The length of request i is 500 + i.
void test_completion_order() {
    dto_fixture fixture;
    ep_pair &eps = fixture.eps;
    const auto cookie = [](DAT_UINT64 i) {
        return 0xfedcba9800000000U + (i << 28) + i;
    };
    for (int round = 0; round < 20; ++round) {
        for (DAT_UINT64 i = 0; i < 4; ++i)
            require_success(post_recv(eps.passive, eps.lmr.make_lmr_triplet(target_offset, 600),
                                      cookie(100 + i)));
        for (DAT_UINT64 i = 0; i < 12; ++i) {
            const auto local = eps.lmr.make_lmr_triplet(source_offset, 500 + i);
            const auto remote = eps.lmr.make_rmr_triplet(target_offset + page_size, 500 + i);
            switch (i % 3) {
            case 0:
                require_success(post_send(eps.active, local, cookie(i)));
                break;
            case 1:
                require_success(post_rdma_write(eps.active, local, remote, cookie(i)));
                break;
            default:
                require_success(post_rdma_read(eps.active, local, remote, cookie(i)));
            }
        }
        for (DAT_UINT64 i = 0; i < 12; ++i)
            expect_completion(eps.active.request_evd, eps.active, cookie(i), 500 + i);
        for (DAT_UINT64 i = 0; i < 4; ++i)
            expect_completion(eps.passive.recv_evd, eps.passive, cookie(100 + i), 500 + 3 * i);
    }
    fixture.sync_target();
}

/// An RDMA Write without a completion, then an empty message: when this arrives, the Write's data
/// is there.
void test_write_visible_after_send() {
    dto_fixture fixture;
    ep_pair &eps = fixture.eps;
    for (unsigned round = 1; round <= 20; ++round) {
        fixture.fill_source_and_clear_target(round);
        fixture.sync_target();
        require_success(post_recv(eps.passive, eps.lmr.make_lmr_triplet(0, 0), 1));
        require_success(post_rdma_write(eps.active, eps.lmr.make_lmr_triplet(source_offset, 20000),
                                        eps.lmr.make_rmr_triplet(target_offset, 20000), 2,
                                        DAT_COMPLETION_SUPPRESS_FLAG));
        require_success(post_send(eps.active, eps.lmr.make_lmr_triplet(0, 0), 3));
        expect_completion(eps.passive.recv_evd, eps.passive, 1, 0);
        fixture.sync_target();
        fixture.expect_transferred(0, 0, 20000);
        expect_completion(eps.active.request_evd, eps.active, 3, 0);
    }
}

/// 24 Reads are posted, of which the connection has 2 in flight (max_rdma_read_out): all complete,
/// in order.
void test_many_reads() {
    DAT_EP_ATTR attr = minimal_ep_attr();
    attr.max_request_dtos = 32;
    dto_fixture fixture(&attr);
    ep_pair &eps = fixture.eps;
    fixture.sync_source();
    for (DAT_UINT64 i = 0; i < 24; ++i)
        require_success(
            post_rdma_read(eps.active, eps.lmr.make_lmr_triplet(target_offset + i * 1000, 1000),
                           eps.lmr.make_rmr_triplet(source_offset + i * 1000, 1000), i));
    for (DAT_UINT64 i = 0; i < 24; ++i)
        expect_completion(eps.active.request_evd, eps.active, i, 1000);
    fixture.expect_transferred(0, 0, 24000);
}

void add_order_cases(case_list &cases) {
    add_case(cases, "dto.operation", test_operations);
    add_case(cases, "dto.in_order", test_completion_order);
    add_case(cases, "dto.visible_after_message", test_write_visible_after_send);
    add_case(cases, "dto.many_reads", test_many_reads);
    add_case(cases, "dto.one_evd_for_both", [] { // receives and requests of one EP
        ep_pair eps;
        const unique_evd dto_evd = eps.ia.create_evd(DAT_EVD_DTO_FLAG, 64);
        DAT_EP_HANDLE handle = nullptr;
        require_success(dat_ep_create(eps.ia, eps.pz, dto_evd, dto_evd, eps.active.connect_evd,
                                      nullptr, &handle));
        const unique_ep ep(handle);
        require_success(post_recv(ep, eps.lmr.make_lmr_triplet(target_offset, 8), 1));
        require_success(post_recv(eps.passive, eps.lmr.make_lmr_triplet(target_offset, 8), 2));
        require_success(connect_ep(ep, ia_address(eps.ia.ipv4_address()), eps.port));
        require_success(dat_cr_accept(eps.next_cr(), eps.passive, 0, nullptr));
        next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        next_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        require_success(post_send(ep, eps.lmr.make_lmr_triplet(source_offset, 8), 3));
        expect_completion(eps.passive.recv_evd, eps.passive, 2, 8);
        expect_completion(dto_evd, ep, 3, 8);
        require_success(post_send(eps.passive, eps.lmr.make_lmr_triplet(source_offset, 8), 4));
        expect_completion(dto_evd, ep, 1, 8);
    });
    add_case(cases, "dto.threshold", [] { // evd_wait counts completions
        dto_fixture fixture;
        ep_pair &eps = fixture.eps;
        for (DAT_UINT64 i = 0; i < 5; ++i)
            require_success(post_rdma_write(eps.active, eps.lmr.make_lmr_triplet(source_offset, 8),
                                            eps.lmr.make_rmr_triplet(target_offset, 8), i));
        poisoned<DAT_EVENT> event;
        DAT_COUNT nmore = -1;
        require_success(dat_evd_wait(eps.active.request_evd, dat_timeout(event_timeout), 5,
                                     event.ptr(), &nmore));
        expect_eq(event->event_data.dto_completion_event_data.user_cookie.as_64, 0,
                  "the first cookie");
        expect_eq(nmore, 4, "the number of events left");
        for (DAT_UINT64 i = 1; i < 5; ++i)
            expect_completion(eps.active.request_evd, eps.active, i, 8);
        fixture.sync_target();
    });
}

void add_completion_flag_cases(case_list &cases) {
    add_case(cases, "dto.suppressed", [] {
        dto_fixture fixture;
        ep_pair &eps = fixture.eps;
        for (DAT_UINT64 round = 0; round < 30; ++round) { // more than it has room for
            for (DAT_UINT64 i = 0; i < 8; ++i)
                require_success(post_rdma_write(
                    eps.active, eps.lmr.make_lmr_triplet(source_offset, 8),
                    eps.lmr.make_rmr_triplet(target_offset, 8), i, DAT_COMPLETION_SUPPRESS_FLAG));
            require_success(post_rdma_write(eps.active, eps.lmr.make_lmr_triplet(source_offset, 8),
                                            eps.lmr.make_rmr_triplet(target_offset, 8), 99));
            expect_completion(eps.active.request_evd, eps.active, 99, 8);
        }
        expect_no_event(eps.active.request_evd);
        fixture.sync_target();
    });
    add_case(cases, "dto.unsignalled", [] { // an event, which wakes no thread
        DAT_EP_ATTR attr = minimal_ep_attr();
        attr.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
        ep_pair eps;
        eps.active = test_ep(eps.ia, eps.pz, &attr);
        eps.connect();
        require_success(post_rdma_write(eps.active, eps.lmr.make_lmr_triplet(source_offset, 8),
                                        eps.lmr.make_rmr_triplet(target_offset, 8), 7,
                                        DAT_COMPLETION_UNSIGNALLED_FLAG));
        require_success(post_rdma_write(eps.active, eps.lmr.make_lmr_triplet(source_offset, 8),
                                        eps.lmr.make_rmr_triplet(target_offset, 8), 8));
        expect_completion(eps.active.request_evd, eps.active, 7, 8);
        expect_completion(eps.active.request_evd, eps.active, 8, 8);
    });
    add_case(cases, "dto.solicited", [] {
        DAT_EP_ATTR attr = minimal_ep_attr();
        attr.recv_completion_flags = DAT_COMPLETION_SOLICITED_WAIT_FLAG;
        ep_pair eps;
        eps.passive = test_ep(eps.ia, eps.pz, &attr);
        require_success(post_recv(eps.passive, eps.lmr.make_lmr_triplet(target_offset, 8), 1));
        eps.connect_without_messages();
        require_success(post_send(eps.active, eps.lmr.make_lmr_triplet(source_offset, 8), 2,
                                  DAT_COMPLETION_SOLICITED_WAIT_FLAG));
        expect_completion(eps.passive.recv_evd, eps.passive, 1, 8);
        expect_completion(eps.active.request_evd, eps.active, 2, 8);
    });
    add_case(cases, "dto.fence", [] { // what was read is sent on
        dto_fixture fixture;
        ep_pair &eps = fixture.eps;
        constexpr std::size_t relay = target_offset - page_size;
        for (unsigned round = 1; round <= 30; ++round) {
            fixture.fill_source_and_clear_target(round);
            fixture.sync_source();
            require_success(
                post_recv(eps.passive, eps.lmr.make_lmr_triplet(target_offset, 2000), 1));
            require_success(post_rdma_read(eps.active, eps.lmr.make_lmr_triplet(relay, 2000),
                                           eps.lmr.make_rmr_triplet(source_offset, 2000), 2));
            require_success(post_send(eps.active, eps.lmr.make_lmr_triplet(relay, 2000), 3,
                                      DAT_COMPLETION_BARRIER_FENCE_FLAG));
            expect_completion(eps.active.request_evd, eps.active, 2, 2000);
            expect_completion(eps.active.request_evd, eps.active, 3, 2000);
            expect_completion(eps.passive.recv_evd, eps.passive, 1, 2000);
            fixture.expect_transferred(0, 0, 2000);
        }
    });
}

} // namespace

void add_dto(case_list &cases) {
    add_transfer_cases(cases);
    add_order_cases(cases);
    add_completion_flag_cases(cases);
}

} // namespace conform
