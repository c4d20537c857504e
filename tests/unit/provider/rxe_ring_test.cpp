// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The rings that the driver shares with rdma_rxe, with a fake kernel: valid and invalid indices and
// geometry.

#include "../cmocka.hpp"
#include "rxe/ring.hpp"

#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <sys/mman.h>
#include <unistd.h>

namespace {

using namespace coherdma::provider::rxe;

constexpr std::uint32_t num_entries = 8, max_entries = num_entries - 1; ///< one stays unused
constexpr std::uint32_t index_mask = num_entries - 1, entry_size = 64;

// A queue of the kernel, in memory that the driver can map.
struct fake_kernel {
    static constexpr std::uint32_t size = 4096;
    int fd = memfd_create("ring", 0);
    rxe_queue_buf *buf = nullptr;

    fake_kernel() {
        assert_int_equal(ftruncate(fd, size), 0);
        void *const addr = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_true(addr != MAP_FAILED);
        buf = static_cast<rxe_queue_buf *>(addr);
        buf->log2_elem_size = std::countr_zero(entry_size);
        buf->index_mask = index_mask;
    }
    fake_kernel(const fake_kernel &) = delete;
    fake_kernel &operator=(const fake_kernel &) = delete;
    ~fake_kernel() {
        munmap(buf, size);
        close(fd);
    }
    // Maps the queue in the driver. Returns 0 or errno.
    int map(ring &queue, std::uint32_t bytes = size, std::uint64_t offset = 0) const {
        return queue.map(fd, {offset, bytes, 0}, 48);
    }
};

void producer_wraps_and_stops_when_full(void **) {
    const fake_kernel kernel;
    wq_ring queue = {};
    assert_int_equal(kernel.map(queue), 0);
    kernel.buf->producer_index = kernel.buf->consumer_index = 5; // so that the first round wraps
    queue.reset();
    for (int round = 0; round < 3; ++round) {
        for (std::uint32_t count = 0; count < max_entries; ++count) {
            assert_false(queue.is_full());
            queue.advance_producer();
        }
        assert_true(queue.is_full());
        const std::uint32_t before = kernel.buf->producer_index;
        assert_true(queue.publish_new());
        assert_int_equal(kernel.buf->producer_index, (before + max_entries) & index_mask);
        assert_false(queue.publish_new()); // nothing is new
        kernel.buf->consumer_index = kernel.buf->producer_index;
    }
    queue.unmap();
}

void consumer_returns_each_entry_once_in_order(void **) {
    const fake_kernel kernel;
    cq_ring queue = {};
    assert_int_equal(kernel.map(queue), 0);
    queue.reset();
    auto *const entries = reinterpret_cast<unsigned char *>(kernel.buf) + sizeof(rxe_queue_buf);
    for (std::uint32_t number = 0; number < 40; ++number) {
        assert_null(queue.peek());
        std::memcpy(entries + std::size_t{kernel.buf->producer_index} * entry_size, &number,
                    sizeof(number));
        kernel.buf->producer_index = (kernel.buf->producer_index + 1) & index_mask;
        std::uint32_t seen;
        std::memcpy(&seen, queue.peek(), sizeof(seen));
        assert_int_equal(seen, number);
        queue.advance_consumer();
        queue.publish_consumer();
        assert_int_equal(kernel.buf->consumer_index, kernel.buf->producer_index);
    }
    queue.unmap();
}

void unpublished_entry_can_be_dropped(void **) {
    const fake_kernel kernel;
    wq_ring queue = {};
    assert_int_equal(kernel.map(queue), 0);
    queue.reset();
    const std::uint32_t first = queue.prod;
    assert_false(queue.is_full());
    const void *const wqe = queue.next_wqe();
    queue.advance_producer();
    queue.prod = first; // drops the entry
    assert_false(queue.publish_new());
    assert_int_equal(kernel.buf->producer_index, 0);
    assert_false(queue.is_full());
    assert_ptr_equal(queue.next_wqe(), wqe);
    queue.unmap();
}

// The next entry to write or to read, or nullptr.
const void *next_entry(wq_ring &ring) {
    return ring.is_full() ? nullptr : ring.next_wqe();
}
const void *next_entry(const cq_ring &ring) {
    return ring.peek();
}

template <class ring_type>
void expect_entries_within_ring(ring_type &queue, const fake_kernel &kernel, std::uint32_t invalid,
                                void (*advance)(ring_type &, const fake_kernel &)) {
    assert_int_equal(kernel.map(queue), 0);
    kernel.buf->producer_index = kernel.buf->consumer_index = invalid;
    queue.reset();
    const auto *const begin = reinterpret_cast<const unsigned char *>(queue.buf);
    for (int count = 0; count < 20; ++count) {
        const void *const entry = next_entry(queue);
        if (entry == nullptr)
            break;
        const auto offset = static_cast<const unsigned char *>(entry) - begin;
        assert_in_range(offset, sizeof(rxe_queue_buf), sizeof(rxe_queue_buf) + 7 * 64);
        advance(queue, kernel);
    }
    queue.unmap();
}

void invalid_indices_stay_within_entries(void **) {
    const fake_kernel kernel;
    for (const std::uint32_t invalid : {8U, 0x1000U, 0x7fffffffU, 0xffffffffU}) {
        wq_ring wq = {};
        expect_entries_within_ring<wq_ring>(
            wq, kernel, invalid,
            [](wq_ring &ring, const fake_kernel &) { ring.advance_producer(); });
        cq_ring cq = {};
        expect_entries_within_ring<cq_ring>(cq, kernel, invalid,
                                            [](cq_ring &ring, const fake_kernel &cq_kernel) {
                                                ring.advance_consumer();
                                                cq_kernel.buf->producer_index += 3;
                                            });
    }
}

// The kernel creates it with one entry, which stays unused.
void queue_of_length_zero_is_full_and_empty(void **) {
    const fake_kernel kernel;
    kernel.buf->index_mask = 0;
    for (const std::uint32_t index : {0U, 1U, 0xffffffffU}) {
        wq_ring wq = {};
        assert_int_equal(kernel.map(wq, sizeof(rxe_queue_buf) + entry_size), 0);
        kernel.buf->producer_index = kernel.buf->consumer_index = index;
        wq.reset();
        assert_true(wq.is_full());
        assert_false(wq.publish_new());
        assert_int_equal(kernel.buf->producer_index, index);
        wq.unmap();
        cq_ring cq = {};
        assert_int_equal(kernel.map(cq, sizeof(rxe_queue_buf) + entry_size), 0);
        cq.reset();
        assert_null(cq.peek());
        cq.unmap();
    }
}

void map_rejects_invalid_geometry(void **) {
    constexpr std::uint32_t min_size = sizeof(rxe_queue_buf) + num_entries * entry_size;
    const fake_kernel kernel;
    wq_ring queue = {};
    assert_int_equal(kernel.map(queue, 0), EPROTO);
    assert_int_equal(kernel.map(queue, sizeof(rxe_queue_buf)), EPROTO);
    assert_int_equal(kernel.map(queue, min_size - 1), EPROTO);
    assert_int_equal(kernel.map(queue, min_size), 0);
    queue.unmap();
    assert_int_equal(kernel.map(queue, fake_kernel::size, 1), EINVAL); // unaligned
    assert_int_equal(kernel.map(queue, fake_kernel::size, UINT64_MAX), EPROTO);
    for (const std::uint32_t mask : {6U, 63U, 0x7fffffffU, 0xffffffffU}) {
        kernel.buf->index_mask = mask;
        assert_int_equal(kernel.map(queue), EPROTO);
    }
    kernel.buf->index_mask = index_mask;
    for (const std::uint32_t shift : {0U, 5U, 9U, 31U, 32U, 64U, 0xffffffffU}) {
        kernel.buf->log2_elem_size = shift;
        assert_int_equal(kernel.map(queue), EPROTO);
    }
    assert_null(queue.buf);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(producer_wraps_and_stops_when_full),
        cmocka_unit_test(consumer_returns_each_entry_once_in_order),
        cmocka_unit_test(unpublished_entry_can_be_dropped),
        cmocka_unit_test(invalid_indices_stay_within_entries),
        cmocka_unit_test(queue_of_length_zero_is_full_and_empty),
        cmocka_unit_test(map_rejects_invalid_geometry),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
