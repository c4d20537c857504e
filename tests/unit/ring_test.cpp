// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The rings that the plugin shares with rdma_rxe, against a kernel played by this program: an
// honest one, and one that says nonsense.

#include "rxe/ring.hpp"

#include <cerrno>
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <sys/mman.h>
#include <unistd.h>

extern "C" {
#include <cmocka.h>
}

namespace {

using namespace coherdma::provider::rxe;

// Memory as the kernel would offer it: 8 slots of 64 bytes, of which 7 serve.
struct kernel {
    static constexpr std::uint32_t size = 4096;
    int fd = memfd_create("ring", 0);
    ring_head *head = nullptr;

    kernel() {
        assert_int_equal(ftruncate(fd, size), 0);
        void *const at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_true(at != MAP_FAILED);
        head = static_cast<ring_head *>(at);
        head->log2_slot = 6;
        head->mask = 7;
    }
    kernel(const kernel &) = delete;
    kernel &operator=(const kernel &) = delete;
    ~kernel() {
        munmap(head, size);
        close(fd);
    }
    int mapped(ring &into, std::uint32_t bytes = size, std::uint64_t offset = 0) const {
        return into.map(fd, {offset, bytes, 0}, 48);
    }
};

void requests_wrap_around_and_never_overtake(void **) {
    const kernel played;
    ring ours = {};
    assert_int_equal(played.mapped(ours), 0);
    played.head->producer = played.head->consumer = 5;
    ours.start_over(true);
    for (int round = 0; round < 3; ++round) {
        for (int count = 0; count < 7; ++count) {
            assert_true(ours.vacant());
            ours.filled();
        }
        assert_false(ours.vacant());
        const std::uint32_t before = played.head->producer;
        assert_true(ours.publish());
        assert_int_equal(played.head->producer, (before + 7) & 7);
        assert_false(ours.publish());
        played.head->consumer = played.head->producer;
    }
    ours.unmap();
}

void completions_come_in_order_and_once(void **) {
    const kernel played;
    ring ours = {};
    assert_int_equal(played.mapped(ours), 0);
    ours.start_over(false);
    auto *const slots = reinterpret_cast<unsigned char *>(played.head) + sizeof(ring_head);
    for (std::uint32_t number = 0; number < 40; ++number) {
        assert_null(ours.occupied());
        std::memcpy(slots + std::size_t{played.head->producer} * 64, &number, sizeof(number));
        played.head->producer = (played.head->producer + 1) & 7;
        std::uint32_t seen;
        std::memcpy(&seen, ours.occupied(), sizeof(seen));
        assert_int_equal(seen, number);
        ours.emptied();
        ours.give_back();
        assert_int_equal(played.head->consumer, played.head->producer);
    }
    ours.unmap();
}

void what_was_not_published_can_be_taken_back(void **) {
    const kernel played;
    ring ours = {};
    assert_int_equal(played.mapped(ours), 0);
    ours.start_over(true);
    const std::uint32_t first = ours.own;
    assert_true(ours.vacant());
    const void *const slot = ours.slot(ours.own);
    ours.filled();
    ours.own = first;
    assert_false(ours.publish());
    assert_int_equal(played.head->producer, 0);
    assert_true(ours.vacant());
    assert_ptr_equal(ours.slot(ours.own), slot);
    ours.unmap();
}

void indices_that_are_nonsense_lead_to_slots(void **) {
    const kernel played;
    for (const std::uint32_t nonsense : {8U, 0x1000U, 0x7fffffffU, 0xffffffffU}) {
        for (const bool producer : {false, true}) {
            ring ours = {};
            assert_int_equal(played.mapped(ours), 0);
            played.head->producer = played.head->consumer = nonsense;
            ours.start_over(producer);
            const auto *const begin = reinterpret_cast<const unsigned char *>(ours.head);
            for (int count = 0; count < 20; ++count) {
                const void *const slot = !producer       ? ours.occupied()
                                         : ours.vacant() ? ours.slot(ours.own)
                                                         : nullptr;
                if (slot == nullptr)
                    break;
                const auto at = static_cast<const unsigned char *>(slot) - begin;
                assert_in_range(at, sizeof(ring_head), sizeof(ring_head) + 7 * 64);
                producer ? ours.filled() : ours.emptied();
                played.head->producer += producer ? 0 : 3;
            }
            ours.unmap();
        }
    }
}

void a_shape_that_is_nonsense_is_refused(void **) {
    const kernel played;
    ring ours = {};
    assert_int_equal(played.mapped(ours, 0), EPROTO);
    assert_int_equal(played.mapped(ours, sizeof(ring_head)), EPROTO);
    assert_int_equal(played.mapped(ours, sizeof(ring_head) + 8 * 64 - 1), EPROTO);
    assert_int_equal(played.mapped(ours, sizeof(ring_head) + 8 * 64), 0);
    ours.unmap();
    assert_int_equal(played.mapped(ours, kernel::size, 1), EINVAL); // no page begins there
    assert_int_equal(played.mapped(ours, kernel::size, UINT64_MAX), EPROTO);
    for (const std::uint32_t mask : {0U, 6U, 63U, 0x7fffffffU, 0xffffffffU}) {
        played.head->mask = mask;
        assert_int_equal(played.mapped(ours), EPROTO);
    }
    played.head->mask = 7;
    for (const std::uint32_t shift : {0U, 5U, 9U, 31U, 32U, 64U, 0xffffffffU}) {
        played.head->log2_slot = shift;
        assert_int_equal(played.mapped(ours), EPROTO);
    }
    assert_null(ours.head);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(requests_wrap_around_and_never_overtake),
        cmocka_unit_test(completions_come_in_order_and_once),
        cmocka_unit_test(what_was_not_published_can_be_taken_back),
        cmocka_unit_test(indices_that_are_nonsense_lead_to_slots),
        cmocka_unit_test(a_shape_that_is_nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
