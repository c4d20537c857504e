// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What is found at a peer's requests, and what is told of them later.

#include "emulation.hpp"

using namespace emulation_test;

namespace {

constexpr std::size_t AT = 1024;

deed peer(const char *words) {
    deed one;
    one.words = words;
    one.there = {"main (/usr/bin/peer+0x1)"};
    return one;
}

std::string text(const nlohmann::json &of, const char *name) {
    return of[name].is_null() ? "" : of[name]["words"].get<std::string>();
}

void is(const nlohmann::json &told, const char *kind, std::size_t offset, std::size_t length,
        std::size_t first) {
    assert_string_equal(told["kind"].get<std::string>().c_str(), kind);
    assert_int_equal(told["offset"].get<std::size_t>(), offset);
    assert_int_equal(told["length"].get<std::size_t>(), length);
    assert_int_equal(told["first_offset"].get<std::size_t>(), first);
}

void reads_of_dirty_lines(void **) {
    for (const std::size_t size : SIZES) {
        settings asked;
        asked.line = size;
        played one(asked);
        const memory all(2);
        const auto device = one.add(all.part(256, PAGE));
        one->peer_reads(all.part(256, PAGE), peer("a"));
        assert_int_equal(one.told().size(), 0);
        all.at[AT + 4] = all.at[AT + size] = all.at[AT + 4 * size] = 0xfe;
        one->peer_reads(all.part(256, PAGE), peer("RDMA Read, of another"));
        const auto told = one.told();
        assert_int_equal(told.size(), 2); // two rows
        is(told[0], "unsynced-read", AT - 256, 2 * size, AT - 256 + 4);
        is(told[1], "unsynced-read", AT - 256 + 4 * size, size, AT - 256 + 4 * size);
        assert_string_equal(text(told[0], "request").c_str(), "RDMA Read, of another");
        assert_string_equal(told[0]["request"]["stack"][0].get<std::string>().c_str(),
                            "main (/usr/bin/peer+0x1)");
        assert_true(told[0]["last_sync"].is_null());
        assert_string_equal(told[0]["program"].get<std::string>().substr(0, 2).c_str(), "fe");
        assert_int_not_equal(*(*device)(all.at + AT + 4), 0xfe); // to be looked at is not a move
    }
}

/// What the peer does not read, or would find the same, is not its business.
void reads_beside_dirty_bytes(void **) {
    played one;
    const memory all(1);
    const auto device = one.add(all.part(0, all.size));
    all.at[AT + 4] = 0xfe;
    one->peer_reads(all.part(AT + 5, 59), peer("a"));
    one->peer_reads(all.part(AT, 4), peer("a"));
    assert_int_equal(one.told().size(), 0);
    one->peer_reads(all.part(AT + 4, 1), peer("a"));
    assert_int_equal(one.told().size(), 1);
}

void writes_of_dirty_lines(void **) {
    for (const std::size_t size : SIZES) {
        settings asked;
        asked.line = size;
        played one(asked);
        const memory all(2);
        const auto device = one.add(all.part(0, all.size));
        const span synced = all.part(AT, 1);
        one->sync_read(&synced, 1);
        all.at[AT + 4] = 0xfe;
        one->peer_writes(all.part(AT + 8, 8), peer("RDMA Write")); // beside it, in its line
        auto told = one.told();
        assert_int_equal(told.size(), 1);
        is(told[0], "unsynced-write", AT, size, AT + 4);
        assert_string_equal(text(told[0], "request").c_str(), "RDMA Write");
        assert_string_equal(text(told[0], "last_sync").c_str(), "sync_rdma_read");
        *(*device)(all.at + AT + 8) = 0xff;
        one->sync_write(&synced, 1); // that it is in conflict is no news
        assert_int_equal(one.told().size(), 0);
        assert_int_equal(*(*device)(all.at + AT + 4), 0xfe);
    }
}

/// An atomic operation reads what is there, so that is what is said, and it writes: what is in
/// conflict by it is told once.
void atomics_of_dirty_lines(void **) {
    played one;
    const memory all(1);
    const auto device = one.add(all.part(0, all.size));
    const span word = all.part(AT, 8);
    one->peer_changes(word, peer("fetch and add"));
    assert_int_equal(one.told().size(), 0);
    all.at[AT + 4] = 0xfe;
    one->peer_changes(word, peer("fetch and add"));
    const auto told = one.told();
    assert_int_equal(told.size(), 1);
    is(told[0], "unsynced-read", AT, 64, AT + 4);
    assert_string_equal(text(told[0], "request").c_str(), "fetch and add");
    *(*device)(all.at + AT) = 0xff;
    one->sync_write(&word, 1);
    assert_int_equal(one.told().size(), 0);
}

void writes_are_remembered(void **) {
    played one;
    const memory all(1);
    const auto device = one.add(all.part(0, all.size));
    one->peer_writes(all.part(AT, 512), peer("first"));
    one->peer_writes(all.part(AT + 256, 64), peer("second"));
    assert_int_equal(one.told().size(), 0);
    std::memset((*device)(all.at + AT), 0xff, 512);
    const span middle = all.part(AT + 130, 1);
    one->sync_write(&middle, 1);
    for (const std::size_t line : {0U, 128U, 256U, 448U})
        all.at[AT + line] = 0xfe;
    const span whole = all.part(0, all.size);
    one->sync_write(&whole, 1);
    auto told = one.told();
    assert_int_equal(told.size(), 3); // not the one in the middle, which was fetched
    is(told[0], "conflict", AT, 64, AT);
    assert_string_equal(text(told[0], "request").c_str(), "first");
    is(told[1], "conflict", AT + 256, 64, AT + 256);
    assert_string_equal(text(told[1], "request").c_str(), "second");
    is(told[2], "conflict", AT + 448, 64, AT + 448);
    assert_string_equal(text(told[2], "request").c_str(), "first");
    assert_string_equal(text(told[2], "last_sync").c_str(), "sync_rdma_write");
    // And then they are over.
    *(*device)(all.at + AT) = 0xfd;
    all.at[AT + 1] = 0xfd;
    one->sync_write(&whole, 1);
    told = one.told();
    assert_int_equal(told.size(), 1);
    assert_true(told[0]["request"].is_null());
}

/// However many there are, and in however many pieces.
void the_last_writes_are_known(void **) {
    played one;
    const memory all(64);
    const auto device = one.add(all.part(0, all.size));
    one->peer_writes(all.part(0, all.size), peer("whole"));
    for (std::size_t at = 0; at < all.size; at += 128) {
        const span line = all.part(at, 1);
        one->sync_write(&line, 1);
    }
    for (std::size_t each = 0; each < 2000; ++each)
        one->peer_writes(all.part(each * 64 + 1, 1), peer(std::to_string(each).c_str()));
    for (const std::size_t each : {10U, 1999U}) {
        all.at[each * 64] = *(*device)(all.at + each * 64) = 0;
        all.at[each * 64] = 0xfe;
        *(*device)(all.at + each * 64 + 1) = 0xff;
    }
    const span whole = all.part(0, all.size);
    one->sync_read(&whole, 1);
    const auto told = one.told();
    assert_int_equal(told.size(), 2);
    assert_string_equal(text(told[0], "request").c_str(), "");
    assert_string_equal(text(told[1], "request").c_str(), "1999");
}

/// Of regions that both have it, one that has all of it.
void the_region_is_known(void **) {
    played one;
    const memory all(2);
    const auto wide = one.add(all.part(0, all.size));
    const auto narrow = one.add(all.part(AT + 10, 40));
    all.at[AT] = all.at[AT + 512] = 0xfe;
    one->peer_reads(all.part(0, all.size), peer("a"));
    const auto told = one.told();
    assert_int_equal(told.size(), 2);
    assert_int_equal(told[0]["region"].get<int>(), 1);
    assert_int_equal(told[1]["region"].get<int>(), 1);
    assert_string_equal(told[0]["device"].get<std::string>().c_str(), "rxe0");
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(reads_of_dirty_lines),      cmocka_unit_test(reads_beside_dirty_bytes),
        cmocka_unit_test(writes_of_dirty_lines),     cmocka_unit_test(writes_are_remembered),
        cmocka_unit_test(the_last_writes_are_known), cmocka_unit_test(the_region_is_known),
        cmocka_unit_test(atomics_of_dirty_lines),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
