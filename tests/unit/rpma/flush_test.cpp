// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Flushes: what they need of the connection and of the peer's memory, and what they post.

#include "connection.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>

using namespace fake;

namespace {

constexpr std::uint64_t NATIVE_FLUSH = FLUSH_GLOBAL | FLUSH_PERSISTENT;

int flush(const connection &connected, const rpma_mr_remote *remote, std::size_t offset,
          std::size_t length, rpma_flush_type type = RPMA_FLUSH_TYPE_VISIBILITY, int flags = 3) {
    return rpma_flush(connected.conn, const_cast<rpma_mr_remote *>(remote), offset, length, type,
                      flags, to_context(0x77));
}

/// The range that an RDMA Read reads, and its flags.
struct read_request {
    std::uint64_t remote_addr, local_addr;
    unsigned length, lkey, rkey;
    std::string flags;
};
read_request take_read() {
    const std::string text = take_posts();
    read_request read = {};
    char flags[20] = "";
    // "Read 0x77 signaled: 0x7f...+8 lkey 0x51, remote 0x20000 rkey 0x52"
    const bool is_signaled = text.find(" signaled") != std::string::npos;
    const std::string rest = text.substr(std::min(text.find(": "), text.size()));
    if (text.rfind("Read 0x77", 0) != 0 ||
        std::sscanf(rest.c_str(), ": %" SCNx64 "+%u lkey %x, remote %" SCNx64 " rkey %x%19s",
                    &read.local_addr, &read.length, &read.lkey, &read.remote_addr, &read.rkey,
                    flags) != 5) {
        print_error("posted: %s\n", text.c_str());
        fail();
    }
    read.flags = is_signaled ? "signaled" : "";
    return read;
}

const std::size_t lengths[] = {
    1, 2, 7, 8, 9, 15, 16, 4096, UINT32_MAX, std::size_t{UINT32_MAX} + 1, std::size_t{1} << 40};

// A flush to a peer whose device, or this one, has none: of at most eight bytes, the last ones of
// the range, and none beside it.
void flush_reads_last_bytes_of_range(void **) {
    connection connected;
    for (const std::size_t offset : {0U, 1U, 7U, 8U, 4095U, 4096U}) {
        for (const std::size_t length : lengths) {
            assert_int_equal(flush(connected, connected.remote, offset, length), 0);
            const read_request read = take_read();
            const std::uint64_t begin = REMOTE_ADDR + offset, end = begin + length;
            assert_true(read.remote_addr >= begin);
            assert_int_equal(read.remote_addr + read.length, end);
            assert_int_equal(read.length, std::min<std::size_t>(length, 8));
            assert_int_equal(read.rkey, RKEY);
            assert_int_equal(read.lkey, LKEY);
            // Not the program's memory.
            assert_true(read.local_addr != LOCAL_ADDR && read.local_addr != 0);
        }
    }
}

// Also of the last bytes of the address space, and of none behind it.
void flush_beyond_address_space_fails(void **) {
    connection connected;
    const std::uint64_t begin = UINT64_MAX - 15;
    rpma_mr_remote *remote = nullptr;
    unsigned char desc[21] = {0xf0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 16, 0,   0,
                              0,    0,    0,    0,    0,    RKEY, 0,    0,    0,  0xff};
    assert_int_equal(rpma_mr_remote_from_descriptor(desc, sizeof desc, &remote), 0);
    assert_int_equal(flush(connected, remote, 0, 16), 0);
    assert_int_equal(take_read().remote_addr, begin + 8);
    assert_int_equal(flush(connected, remote, 15, 1), 0);
    assert_int_equal(take_read().remote_addr, UINT64_MAX);
    assert_int_equal(flush(connected, remote, 0, 17), RPMA_E_PROVIDER);
    assert_int_equal(errno, EINVAL);
    assert_string_equal(take_posts().c_str(), "");
    assert_int_equal(rpma_mr_remote_delete(&remote), 0);
}

void flags_determine_completion(void **) {
    connection connected;
    for (const int flags : {1, 2, 3}) {
        assert_int_equal(
            flush(connected, connected.remote, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, flags), 0);
        assert_string_equal(take_read().flags.c_str(), flags == 1 ? "" : "signaled");
    }
}

// An RDMA Read of no bytes completes after the earlier requests, too.
void empty_flush_reads_nothing(void **) {
    for (const std::uint64_t cap_flags : {std::uint64_t{0}, NATIVE_FLUSH}) {
        settings.cap_flags_ex = cap_flags;
        connection connected;
        for (const auto &[flags, expected] :
             {std::pair(1, "Read 0x77: no memory, remote 0 rkey 0"),
              {3, "Read 0x77 signaled: no memory, remote 0 rkey 0"}}) {
            assert_int_equal(
                flush(connected, connected.remote, 8, 0, RPMA_FLUSH_TYPE_VISIBILITY, flags), 0);
            assert_string_equal(take_posts().c_str(), expected);
        }
    }
}

// To persistence: the peer declares it for the connection, and registers the memory for it. To
// visibility: it registers the memory for it.
void flush_type_needs_usage_and_declaration(void **) {
    connection connected;
    for (const bool supported : {false, true, false}) {
        connected.set_direct_write_to_pmem(supported);
        for (int usage = 1; usage <= 0xff; ++usage) {
            rpma_mr_remote *remote = create_remote(REMOTE_ADDR, usage);
            const bool is_persistent =
                supported && (usage & RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT) != 0;
            const bool is_visible = (usage & RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY) != 0;
            for (const std::size_t length : {0U, 8U}) {
                assert_int_equal(flush(connected, remote, 0, length, RPMA_FLUSH_TYPE_PERSISTENT),
                                 is_persistent ? 0 : RPMA_E_NOSUPP);
                assert_int_equal(take_posts().empty(), !is_persistent);
                assert_int_equal(flush(connected, remote, 0, length, RPMA_FLUSH_TYPE_VISIBILITY),
                                 is_visible ? 0 : RPMA_E_NOSUPP);
                assert_int_equal(take_posts().empty(), !is_visible);
            }
            assert_int_equal(rpma_mr_remote_delete(&remote), 0);
        }
    }
}

void invalid_flush_posts_nothing(void **) {
    connection connected;
    connected.set_direct_write_to_pmem(true);
    const rpma_flush_type visibility = RPMA_FLUSH_TYPE_VISIBILITY;
    assert_int_equal(rpma_flush(nullptr, connected.remote, 0, 8, visibility, 3, nullptr),
                     RPMA_E_INVAL);
    assert_int_equal(rpma_flush(connected.conn, nullptr, 0, 8, visibility, 3, nullptr),
                     RPMA_E_INVAL);
    assert_int_equal(rpma_flush(connected.conn, connected.remote, 0, 8, visibility, 0, nullptr),
                     RPMA_E_INVAL);
#ifndef COHERDMA_ASAN // In C an enumeration may have any value, in C++ not.
    const int unknown = 2;
    rpma_flush_type type;
    std::memcpy(&type, &unknown, sizeof type);
    assert_int_equal(flush(connected, connected.remote, 0, 8, type), RPMA_E_INVAL);
#endif
    assert_string_equal(take_posts().c_str(), "");
    fail_calls(POST, ENOMEM);
    assert_int_equal(flush(connected, connected.remote, 0, 8), RPMA_E_PROVIDER);
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(flush(connected, connected.remote, 0, 0), RPMA_E_PROVIDER);
    fail_none();
}

void native_flush_posts_range(void **) {
#ifdef COHERDMA_HAS_FLUSH
    settings.cap_flags_ex = NATIVE_FLUSH;
    take_calls();
    connection connected;
    const std::vector<std::string> calls = take_calls();
    // No memory to read to.
    assert_int_equal(std::count(calls.begin(), calls.end(), "mmap"), 0);
    connected.set_direct_write_to_pmem(true);
    for (const std::size_t length : lengths) {
        for (const auto &[type, name] : {std::pair(RPMA_FLUSH_TYPE_VISIBILITY, "visibility"),
                                         {RPMA_FLUSH_TYPE_PERSISTENT, "persistence"}}) {
            assert_int_equal(flush(connected, connected.remote, 0x41, length, type), 0);
            const std::string expected = std::string("Flush 0x77 signaled: ") + name + " of " +
                                         std::to_string(length) + ", remote 0x20041 rkey 0x52";
            assert_string_equal(take_posts().c_str(), expected.c_str());
        }
    }
    fail_calls(POST, ENOMEM);
    assert_int_equal(flush(connected, connected.remote, 0, 8), RPMA_E_PROVIDER);
    assert_int_equal(errno, ENOMEM);
    fail_none();
#else
    print_message("# skipped: RDMA FLUSH needs the headers of rdma-core 45\n");
    skip();
#endif
}

// One type of flush is not enough for the device to have flush.
void device_with_one_flush_type_reads(void **) {
    for (const std::uint64_t cap_flags : {FLUSH_GLOBAL, FLUSH_PERSISTENT}) {
        settings.cap_flags_ex = cap_flags;
        connection connected;
        assert_int_equal(flush(connected, connected.remote, 0, 8), 0);
        assert_int_equal(take_read().length, 8);
    }
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(flush_reads_last_bytes_of_range),
        TEST(flush_beyond_address_space_fails),
        TEST(flags_determine_completion),
        TEST(empty_flush_reads_nothing),
        TEST(flush_type_needs_usage_and_declaration),
        TEST(invalid_flush_posts_nothing),
        TEST(native_flush_posts_range),
        TEST(device_with_one_flush_type_reads),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
