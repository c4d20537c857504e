// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The played cache: lines by the table of its README, regions, and the provider's own requests.

#include "emulation.hpp"

#include <cerrno>

using namespace emulation_test;

namespace {

constexpr std::size_t AT = 1024; // a boundary of all lines

settings of_line(std::size_t size) {
    settings one;
    one.line = size;
    return one;
}

void read_sync(played &one, span where) {
    one->sync_read(&where, 1);
}

void write_sync(played &one, span where) {
    one->sync_write(&where, 1);
}

using syncing = void (*)(played &, span);

void at_first_both_are_the_same(void **) {
    for (const std::size_t size : SIZES) {
        played one(of_line(size));
        const memory all(3);
        const auto device = one.add(all.part(100, 2 * PAGE));
        assert_memory_equal((*device)(all.at), all.at, all.size); // whole pages
        for (const syncing sync : {read_sync, write_sync}) {
            sync(one, all.part(0, all.size));
            assert_memory_equal((*device)(all.at), all.at, all.size);
        }
        one->finish();
        assert_int_equal(one.told().size(), 0);
    }
}

/// Dirty: both syncs take the whole line to the device, and nothing else.
void what_the_program_writes_is_written_back(void **) {
    for (const std::size_t size : SIZES) {
        for (const syncing sync : {read_sync, write_sync}) {
            played one(of_line(size));
            const memory all(2);
            const auto device = one.add(all.part(0, all.size));
            const std::vector<unsigned char> before(all.at, all.at + all.size);
            for (const std::size_t line : {AT - size, AT, AT + size})
                all.at[line] = all.at[line + size - 1] = 0xff;
            assert_memory_equal((*device)(all.at), before.data(), all.size);
            sync(one, all.part(AT + size / 2, 1));
            assert_memory_equal((*device)(all.at + AT), all.at + AT, size);
            assert_memory_equal((*device)(all.at), before.data(), AT);
            assert_memory_equal((*device)(all.at + AT + size), &before[AT + size],
                                all.size - AT - size);
            sync(one, all.part(AT - 1, size + 2)); // a byte of each of their neighbours
            assert_memory_equal((*device)(all.at), all.at, all.size);
            assert_int_equal(one.told().size(), 0);
        }
    }
}

/// Stale: sync_rdma_write brings the whole line to the program, sync_rdma_read does not.
void what_the_device_writes_is_fetched(void **) {
    for (const std::size_t size : SIZES) {
        played one(of_line(size));
        const memory all(2);
        const auto device = one.add(all.part(0, all.size));
        const std::vector<unsigned char> before(all.at, all.at + all.size);
        for (const std::size_t line : {AT - size, AT, AT + size})
            *(*device)(all.at + line) = *(*device)(all.at + line + size - 1) = 0xff;
        read_sync(one, all.part(0, all.size));
        assert_memory_equal(all.at, before.data(), all.size);
        assert_int_equal(*(*device)(all.at + AT), 0xff);
        write_sync(one, all.part(AT + size / 2, 1));
        assert_memory_equal(all.at, before.data(), AT);
        assert_memory_equal(all.at + AT, (*device)(all.at + AT), size);
        assert_memory_equal(all.at + AT + size, &before[AT + size], all.size - AT - size);
        write_sync(one, all.part(AT - 1, size + 2));
        assert_memory_equal((*device)(all.at), all.at, all.size);
        assert_int_equal(one.told().size(), 0);
    }
}

/// In conflict: the program's wins, and it is told where and what.
void what_both_write_is_the_programs(void **) {
    for (const std::size_t size : SIZES) {
        for (const syncing sync : {read_sync, write_sync}) {
            played one(of_line(size));
            const memory all(2);
            const auto device = one.add(all.part(256, all.size - 256));
            const unsigned char old = all.at[AT + 3];
            for (const std::size_t line : {AT, AT + size}) {
                all.at[line + 3] = 0xfe;
                *(*device)(all.at + line + size - 1) = 0xff;
            }
            const std::vector<unsigned char> mine(all.at, all.at + all.size);
            sync(one, all.part(0, all.size));
            assert_memory_equal(all.at, mine.data(), all.size);
            assert_memory_equal((*device)(all.at), mine.data(), all.size);
            const auto told = one.told();
            assert_int_equal(told.size(), 1);
            assert_string_equal(told[0]["kind"].get<std::string>().c_str(), "conflict");
            assert_int_equal(told[0]["offset"].get<std::size_t>(), AT - 256);
            assert_int_equal(told[0]["length"].get<std::size_t>(), 2 * size);
            assert_int_equal(told[0]["first_offset"].get<std::size_t>(), AT - 256 + 3);
            assert_int_equal(told[0]["region"].get<int>(), 1);
            assert_int_equal(told[0]["rkey"].get<int>(), 257);
            const auto bytes = [&](const char *of) {
                return std::stoi(told[0][of].get<std::string>().substr(0, 2), nullptr, 16);
            };
            assert_int_equal(bytes("program"), 0xfe);
            assert_int_equal(bytes("device_bytes"), old);
            assert_int_equal(bytes("agreed"), old);
            sync(one, all.part(0, all.size)); // it is over
            assert_int_equal(one.told().size(), 0);
        }
    }
}

void what_both_write_alike_is_no_conflict(void **) {
    played one;
    const memory all(1);
    const auto device = one.add(all.part(0, all.size));
    all.at[AT] = *(*device)(all.at + AT) = 0;
    read_sync(one, all.part(AT, 1));
    *(*device)(all.at + AT) = 9;
    write_sync(one, all.part(AT, 1));
    assert_int_equal(all.at[AT], 9);
    assert_int_equal(one.told().size(), 0);
}

void what_is_not_registered_is_passed_over(void **) {
    played one;
    const memory all(5);
    const auto device = one.add(all.part(PAGE, PAGE));
    all.at[0] = all.at[PAGE] = all.at[4 * PAGE] = 0xff;
    read_sync(one, all.part(0, all.size));
    assert_int_equal(*(*device)(all.at + PAGE), 0xff);
    one->sync_write(nullptr, 0);
    assert_int_equal(one.told().size(), 0);
}

void what_the_provider_sends_is_written_back(void **) {
    played one;
    const memory all(1);
    const auto device = one.add(all.part(0, all.size));
    all.at[AT] = 0xff;
    one->source(all.part(AT + 1, 2));
    assert_int_equal(*(*device)(all.at + AT), 0xff);
    assert_int_equal(one.told().size(), 0);
}

void what_the_provider_receives_is_fetched(void **) {
    for (const std::size_t size : SIZES) {
        played one(of_line(size));
        const memory all(1);
        const auto device = one.add(all.part(0, all.size));
        all.at[AT + 1] = 0xfe; // before it was posted
        one->sink(all.part(AT, size));
        std::memset((*device)(all.at + AT), 0x77, 2 * size);
        const unsigned char next = all.at[AT + size];
        one->arrived(all.part(AT, size));
        assert_memory_equal(all.at + AT, (*device)(all.at + AT), size);
        assert_int_equal(all.at[AT + size], next);
        assert_int_equal(one.told().size(), 0);
    }
}

/// Data come into a line in which the program has written meanwhile: both are there afterwards.
void what_is_dirty_beside_data_stays(void **) {
    for (const bool strict : {false, true}) {
        settings asked;
        asked.strict = strict;
        played one(asked);
        const memory all(1);
        const auto device = one.add(all.part(0, all.size));
        const span data = all.part(AT + 16, 40);
        one->sink(data);
        all.at[AT + 1] = 0xfe;
        std::memset((*device)(all.at + AT + 16), 0x77, 40);
        one->arrived(data);
        assert_int_equal(all.at[AT + 1], 0xfe);
        assert_memory_equal(all.at + AT + 16, (*device)(all.at + AT + 16), 40);
        assert_int_not_equal(*(*device)(all.at + AT + 1), 0xfe);
        read_sync(one, all.part(AT, 1)); // it was dirty still
        assert_int_equal(*(*device)(all.at + AT + 1), 0xfe);
        assert_int_equal(*(*device)(all.at + AT + 16), 0x77);
        const auto told = one.told();
        assert_int_equal(told.size(), strict ? 1 : 0);
        if (strict)
            assert_string_equal(told[0]["kind"].get<std::string>().c_str(), "beside");
    }
}

void memory_that_is_gone_is_an_error(void **) {
    played one;
    const memory all(4);
    const auto device = one.add(all.part(64, all.size - 64));
    const span ranges[] = {all.part(64, 10), all.part(PAGE - 1, 2 * PAGE)};
    std::uintptr_t where = 0;
    assert_int_equal(one->check(ranges, 2, &where), 0);
    mprotect(all.at + 2 * PAGE, PAGE, PROT_NONE);
    assert_int_equal(one->check(ranges, 2, &where), EFAULT);
    assert_int_equal(where, all.begin() + 2 * PAGE);
    munmap(all.at + PAGE, PAGE);
    assert_int_equal(one->check(ranges, 2, &where), EFAULT);
    assert_int_equal(where, all.begin() + PAGE);
    write_sync(one, all.part(0, all.size)); // nobody dies of it
    one->finish();
    one->remove(1);
    assert_int_equal(one->bytes(), 0);
}

void memory_that_cannot_be_read_is_not_added(void **) {
    played one;
    const memory all(3);
    mprotect(all.at + PAGE, PAGE, PROT_NONE);
    region what;
    what.where = all.part(0, all.size);
    std::vector<cache::piece> pieces;
    assert_int_equal(one->add(what, pieces), EFAULT);
    assert_int_equal(one->bytes(), 0);
    what.where = {PAGE, PAGE + (std::uintptr_t{1} << 47)};
    assert_int_equal(one->add(what, pieces), ENOMEM);
    std::uint32_t number = 0;
    one.add(all.part(0, PAGE), &number);
    assert_int_equal(number, 1);
}

void what_may_only_be_read_is_fetched(void **) {
    skip_without_writable_proc();
    played one;
    const memory all(1);
    const auto device = one.add(all.part(0, all.size));
    *(*device)(all.at + AT) = 0xff;
    mprotect(all.at, PAGE, PROT_READ);
    write_sync(one, all.part(AT, 1));
    assert_int_equal(all.at[AT], 0xff);
}

void regions_share_pages(void **) {
    played one;
    const memory all(4);
    std::uint32_t first = 0, second = 0;
    const auto device = one.add(all.part(0, 3 * PAGE), &first);
    all.at[2 * PAGE] = 0xfe; // dirty: the second region does not clean it
    const auto other = one.add(all.part(PAGE + 100, 3 * PAGE - 100), &second);
    const std::size_t both = one->bytes();
    assert_int_equal(second, first + 1);
    *(*device)(all.at + PAGE + 200) = 0xff;
    assert_int_equal(*(*other)(all.at + PAGE + 200), 0xff);
    assert_int_not_equal(*(*other)(all.at + 2 * PAGE), 0xfe);
    one->remove(first);
    assert_int_equal(one->bytes(), both / 4 * 3);
    assert_int_equal(one.told().size(), 0); // the second has them still
    write_sync(one, all.part(0, all.size));
    assert_int_equal(all.at[PAGE + 200], 0xff);
    assert_int_equal(*(*other)(all.at + 2 * PAGE), 0xfe);
    one->remove(second);
    one->remove(second);
    assert_int_equal(one->bytes(), 0);
}

void regions_leave_nothing(void **) {
    played one;
    const memory all(40);
    for (int each = 0; each < 1000; ++each) {
        std::uint32_t number = 0;
        one.add(all.part(static_cast<std::size_t>(each), all.size / 2), &number);
        one->remove(number);
        assert_int_equal(one->bytes(), 0);
    }
}

void what_was_never_fetched_is_told_at_the_end(void **) {
    for (const bool at_exit : {false, true}) {
        played one;
        const memory all(2);
        std::uint32_t number = 0;
        const auto device = one.add(all.part(0, all.size), &number);
        *(*device)(all.at + AT + 5) = 0xff; // stale
        all.at[AT + 128] = 0xfe;            // dirty: nobody's loss
        *(*device)(all.at + AT + 256) = 0xff;
        all.at[AT + 257] = 0xfe; // in conflict, and never synced
        const unsigned char mine = all.at[AT + 5];
        if (at_exit)
            one->finish();
        else
            one->remove(number);
        const auto told = one.told();
        assert_int_equal(told.size(), 2);
        assert_string_equal(told[0]["kind"].get<std::string>().c_str(), "stale");
        assert_int_equal(told[0]["first_offset"].get<std::size_t>(), AT + 5);
        assert_int_equal(told[0]["length"].get<std::size_t>(), 64);
        assert_string_equal(told[1]["kind"].get<std::string>().c_str(), "conflict");
        assert_true(all.at[AT + 5] == mine && all.at[AT + 128] == 0xfe);
    }
}

/// However many regions have the line.
void what_was_never_fetched_is_told_once(void **) {
    played one;
    const memory all(2);
    const auto device = one.add(all.part(0, all.size));
    const auto inner = one.add(all.part(AT, 256));
    const auto behind = one.add(all.part(AT + 100, PAGE));
    *(*device)(all.at + AT + 5) = 0xff;
    *(*device)(all.at + AT + 640) = 0xff;
    *(*device)(all.at + 2 * PAGE - 1) = 0xff;
    one->finish();
    assert_int_equal(one.told().size(), 3);
}

/// As arm64's kernel does before 7.0: on all of the pages.
void what_is_dirty_may_be_dropped(void **) {
    settings asked;
    asked.discards = true;
    played one(asked);
    const memory all(2);
    std::uint32_t number = 0;
    const auto device = one.add(all.part(AT, 192), &number);
    std::uint32_t other = 0;
    const auto beside = one.add(all.part(PAGE, 100), &other);
    const std::vector<unsigned char> before(all.at, all.at + all.size);
    all.at[AT] = all.at[AT + 64] = 0xfe;
    all.at[64] = 0xfe;   // on the page, beside the region
    all.at[PAGE] = 0xfe; // of another one
    *(*device)(all.at + AT + 128) = 0xff;
    one->remove(number);
    const auto told = one.told();
    assert_int_equal(told.size(), 3);
    for (const auto &[which, kind, offset] :
         {std::tuple{0, "discarded", 64 - 1024}, std::tuple{1, "stale", 128},
          std::tuple{2, "discarded", 0}}) {
        std::size_t found = 0;
        for (const auto &each : told)
            if (each["kind"] == kind && each["offset"] == offset && each["region"] == number)
                ++found;
        if (found != 1)
            fail_msg("%d: %s at %d", which, kind, offset);
    }
    assert_int_equal(all.at[AT + 128], 0xff); // what was dropped is the device's now
    all.at[AT + 128] = before[AT + 128];
    assert_memory_equal(all.at, before.data(), PAGE);
    assert_int_equal(all.at[PAGE], 0xfe);
}

void syncs_of_clean_lines_are_told_of(void **) {
    settings asked;
    asked.redundant = true;
    played one(asked);
    const memory all(1);
    const auto device = one.add(all.part(0, all.size));
    const span both[] = {all.part(0, 10), all.part(AT, 128)};
    all.at[AT + 64] = 0xfe;
    one->sync_read(both, 2); // the second was needed
    *(*device)(all.at + AT) = 0xff;
    one->sync_write(both, 2);
    const auto told = one.told();
    assert_int_equal(told.size(), 2);
    for (const auto &each : told) {
        assert_string_equal(each["kind"].get<std::string>().c_str(), "redundant");
        assert_int_equal(each["offset"].get<int>(), 0);
        assert_int_equal(each["length"].get<int>(), 64);
    }
    read_sync(one, all.part(AT, 128)); // a stale line is not one that has to be written back
    assert_int_equal(one.told().size(), 1);
}

/// What is never fetched is told of the region that had it, whoever else has the page.
void regions_on_one_page_are_told_apart(void **) {
    played one;
    const memory all(1);
    std::uint32_t low = 0, high = 0;
    const auto device = one.add(all.part(0, 256), &low);
    const auto other = one.add(all.part(2560, 256), &high);
    *(*device)(all.at + 64) = 0xff;
    one->remove(low);
    const auto told = one.told();
    assert_int_equal(told.size(), 1);
    assert_string_equal(told[0]["kind"].get<std::string>().c_str(), "stale");
    assert_int_equal(told[0]["region"].get<std::uint32_t>(), low);
    assert_int_equal(told[0]["offset"].get<int>(), 64);
    one->remove(high);
    assert_int_equal(one.told().size(), 0);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(at_first_both_are_the_same),
        cmocka_unit_test(what_the_program_writes_is_written_back),
        cmocka_unit_test(what_the_device_writes_is_fetched),
        cmocka_unit_test(what_both_write_is_the_programs),
        cmocka_unit_test(what_both_write_alike_is_no_conflict),
        cmocka_unit_test(what_is_not_registered_is_passed_over),
        cmocka_unit_test(what_the_provider_sends_is_written_back),
        cmocka_unit_test(what_the_provider_receives_is_fetched),
        cmocka_unit_test(what_is_dirty_beside_data_stays),
        cmocka_unit_test(memory_that_is_gone_is_an_error),
        cmocka_unit_test(memory_that_cannot_be_read_is_not_added),
        cmocka_unit_test(what_may_only_be_read_is_fetched),
        cmocka_unit_test(regions_share_pages),
        cmocka_unit_test(regions_leave_nothing),
        cmocka_unit_test(what_was_never_fetched_is_told_at_the_end),
        cmocka_unit_test(what_was_never_fetched_is_told_once),
        cmocka_unit_test(what_is_dirty_may_be_dropped),
        cmocka_unit_test(syncs_of_clean_lines_are_told_of),
        cmocka_unit_test(regions_on_one_page_are_told_apart),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
