// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Descriptors of memory and of configurations: their bytes, and any others that a peer may send.

#include "fake/rdma.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <sys/mman.h>
#include <unistd.h>

using namespace fake;

namespace {

constexpr std::size_t MR_DESC_SIZE = 21;

/// The bytes of a value, the lowest first.
template <class value_type>
value_type get_little_endian(const unsigned char *bytes) {
    value_type value = 0;
    for (std::size_t i = sizeof value; i-- != 0;)
        value = static_cast<value_type>(value << 8 | bytes[i]);
    return value;
}

/// A page, and behind it one that cannot be read.
class guarded_page {
  public:
    guarded_page()
        : size_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE)))
        , begin_(static_cast<unsigned char *>(mmap(nullptr, 2 * size_, PROT_READ | PROT_WRITE,
                                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
        assert_int_equal(mprotect(begin_ + size_, size_, PROT_NONE), 0);
    }
    ~guarded_page() { munmap(begin_, 2 * size_); }
    guarded_page(const guarded_page &) = delete;
    /// The last bytes of the page.
    unsigned char *last(std::size_t length) { return begin_ + size_ - length; }

  private:
    std::size_t size_;
    unsigned char *begin_;
};

void mr_descriptor_is_little_endian(void **) {
    rpma_peer *peer = create_peer();
    rpma_mr_local *mr = nullptr;
    auto *const memory = reinterpret_cast<void *>(std::uintptr_t{0x1020304050});
    for (const int usage : {1, 2, 4, 8, 16, 32, 64, 128, 0xff}) {
        assert_int_equal(rpma_mr_reg(peer, memory, 0x6070809, usage, &mr), 0);
        std::size_t size = 0;
        assert_int_equal(rpma_mr_get_descriptor_size(mr, &size), 0);
        assert_int_equal(size, MR_DESC_SIZE);
        std::array<unsigned char, MR_DESC_SIZE + 1> desc = {};
        desc.back() = 0xaa;
        assert_int_equal(rpma_mr_get_descriptor(mr, desc.data()), 0);
        const unsigned char expected[] = {0x50,
                                          0x40,
                                          0x30,
                                          0x20,
                                          0x10,
                                          0,
                                          0,
                                          0, // address
                                          9,
                                          8,
                                          7,
                                          6,
                                          0,
                                          0,
                                          0,
                                          0, // size
                                          0x52,
                                          0,
                                          0,
                                          0, // rkey
                                          static_cast<unsigned char>(usage),
                                          0xaa};
        assert_memory_equal(desc.data(), expected, sizeof expected);
        assert_int_equal(rpma_mr_dereg(&mr), 0);
    }
    assert_int_equal(rpma_peer_delete(&peer), 0);
}

void check_mr_remote(const unsigned char *desc, std::size_t length) {
    rpma_mr_remote *mr = nullptr;
    const int ret = rpma_mr_remote_from_descriptor(desc, length, &mr);
    if (length < MR_DESC_SIZE || desc[MR_DESC_SIZE - 1] == 0) {
        assert_int_equal(ret, RPMA_E_INVAL);
        assert_null(mr);
        return;
    }
    const auto addr = get_little_endian<std::uint64_t>(desc);
    const auto size = get_little_endian<std::uint64_t>(desc + 8);
    if (size == 0 || addr + (size - 1) < addr) {
        assert_int_equal(ret, RPMA_E_NOSUPP);
        assert_null(mr);
        return;
    }
    assert_int_equal(ret, 0);
    std::size_t mr_size = 0;
    assert_int_equal(rpma_mr_remote_get_size(mr, &mr_size), 0);
    assert_int_equal(mr_size, size);
    int flush_type = 0;
    assert_int_equal(rpma_mr_remote_get_flush_type(mr, &flush_type), 0);
    assert_int_equal(flush_type, desc[MR_DESC_SIZE - 1] & (RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY |
                                                           RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT));
    assert_int_equal(rpma_mr_remote_delete(&mr), 0);
    assert_null(mr);
}

void any_mr_descriptor_is_parsed_or_refused(void **) {
    guarded_page page;
    std::mt19937 random(70);
    for (std::size_t length = 0; length <= 64; ++length) {
        unsigned char *const desc = page.last(length);
        for (int round = 0; round != 200; ++round) {
            std::generate(desc, desc + length, [&] { return random() & 0xff; });
            // Otherwise few ranges would be possible.
            if (round % 2 == 0 && length >= MR_DESC_SIZE)
                desc[7] = desc[15] = 0;
            check_mr_remote(desc, length);
        }
    }
}

// The range may end with the last byte of the address space, and not beyond it.
void range_of_mr_descriptor_ends_in_address_space(void **) {
    const auto check = [](std::uint64_t addr, std::uint64_t size, int expected) {
        std::array<unsigned char, MR_DESC_SIZE> desc = {};
        for (std::size_t i = 0; i != 8; ++i) {
            desc[i] = static_cast<unsigned char>(addr >> 8 * i);
            desc[8 + i] = static_cast<unsigned char>(size >> 8 * i);
        }
        desc[20] = RPMA_MR_USAGE_READ_SRC;
        rpma_mr_remote *mr = nullptr;
        assert_int_equal(rpma_mr_remote_from_descriptor(desc.data(), desc.size(), &mr), expected);
        assert_int_equal(rpma_mr_remote_delete(&mr), 0);
    };
    check(0, 1, 0);
    check(0, UINT64_MAX, 0);
    check(1, UINT64_MAX, 0);
    check(2, UINT64_MAX, RPMA_E_NOSUPP);
    check(UINT64_MAX, 1, 0);
    check(UINT64_MAX, 2, RPMA_E_NOSUPP);
    check(0x1000, 0, RPMA_E_NOSUPP);
}

void peer_cfg_descriptor_is_one_byte(void **) {
    rpma_peer_cfg *cfg = nullptr;
    assert_int_equal(rpma_peer_cfg_new(&cfg), 0);
    std::size_t size = 0;
    assert_int_equal(rpma_peer_cfg_get_descriptor_size(cfg, &size), 0);
    assert_int_equal(size, 1);
    for (const bool supported : {false, true}) {
        unsigned char desc[] = {0xaa, 0xbb};
        assert_int_equal(rpma_peer_cfg_set_direct_write_to_pmem(cfg, supported), 0);
        assert_int_equal(rpma_peer_cfg_get_descriptor(cfg, desc), 0);
        assert_int_equal(desc[0], supported ? 1 : 0);
        assert_int_equal(desc[1], 0xbb);
    }
    assert_int_equal(rpma_peer_cfg_delete(&cfg), 0);
}

void any_peer_cfg_descriptor_is_parsed_or_refused(void **) {
    guarded_page page;
    for (std::size_t length = 0; length <= 64; ++length) {
        unsigned char *const desc = page.last(length);
        for (unsigned value = 0; value <= 0xff; ++value) {
            std::fill(desc, desc + length, static_cast<unsigned char>(value));
            rpma_peer_cfg *cfg = nullptr;
            const int ret = rpma_peer_cfg_from_descriptor(desc, length, &cfg);
            assert_int_equal(ret, length == 0 ? RPMA_E_INVAL : 0);
            if (length == 0) {
                assert_null(cfg);
                continue;
            }
            bool supported = value == 0;
            assert_int_equal(rpma_peer_cfg_get_direct_write_to_pmem(cfg, &supported), 0);
            assert_int_equal(supported, value != 0);
            assert_int_equal(rpma_peer_cfg_delete(&cfg), 0);
        }
    }
}

void null_argument_is_invalid(void **) {
    char desc[MR_DESC_SIZE] = {1};
    rpma_mr_remote *mr = nullptr;
    assert_int_equal(rpma_mr_remote_from_descriptor(nullptr, sizeof desc, &mr), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_remote_from_descriptor(desc, sizeof desc, nullptr), RPMA_E_INVAL);
    std::size_t size = 0;
    int flush_type = 0;
    assert_int_equal(rpma_mr_remote_get_size(nullptr, &size), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_remote_get_flush_type(nullptr, &flush_type), RPMA_E_INVAL);
    rpma_peer_cfg *cfg = nullptr;
    bool supported = false;
    assert_int_equal(rpma_peer_cfg_new(nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_peer_cfg_from_descriptor(nullptr, 1, &cfg), RPMA_E_INVAL);
    assert_int_equal(rpma_peer_cfg_from_descriptor(desc, 1, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_peer_cfg_get_descriptor(nullptr, desc), RPMA_E_INVAL);
    assert_int_equal(rpma_peer_cfg_get_descriptor_size(nullptr, &size), RPMA_E_INVAL);
    assert_int_equal(rpma_peer_cfg_set_direct_write_to_pmem(nullptr, true), RPMA_E_INVAL);
    assert_int_equal(rpma_peer_cfg_get_direct_write_to_pmem(nullptr, &supported), RPMA_E_INVAL);
    assert_int_equal(rpma_peer_cfg_new(&cfg), 0);
    assert_int_equal(rpma_peer_cfg_get_descriptor(cfg, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_peer_cfg_get_descriptor_size(cfg, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_peer_cfg_get_direct_write_to_pmem(cfg, nullptr), RPMA_E_INVAL);
    assert_int_equal(rpma_peer_cfg_delete(&cfg), 0);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(mr_descriptor_is_little_endian),
        TEST(any_mr_descriptor_is_parsed_or_refused),
        TEST(range_of_mr_descriptor_ends_in_address_space),
        TEST(peer_cfg_descriptor_is_one_byte),
        TEST(any_peer_cfg_descriptor_is_parsed_or_refused),
        TEST(null_argument_is_invalid),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
