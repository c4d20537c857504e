// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a tool is told of: exactly what the device has written and the program has not synced.

#include "core/marks.hpp"
#include "emulation.hpp"

#include <set>
#include <thread>

using namespace emulation_test;

namespace {

// -- a tool that marks bytes, with some that the program may not touch

struct {
    std::set<std::uintptr_t> ours;
    span forbidden;

    [[nodiscard]] std::string in(span where) const {
        std::string all;
        for (std::uintptr_t at = where.begin; at < where.end; ++at)
            all += ours.count(at) != 0 ? '#' : '.';
        return all;
    }
} tool;

bool mark(span where) noexcept {
    if (!common(where, tool.forbidden).empty())
        return false;
    for (std::uintptr_t at = where.begin; at < where.end; ++at)
        tool.ours.insert(at);
    return true;
}
void unmark(span where) noexcept {
    for (std::uintptr_t at = where.begin; at < where.end; ++at)
        assert_true(tool.ours.erase(at) == 1); // nothing that was not marked
}
std::vector<span> defined;
void define(span where) noexcept {
    defined.push_back(where);
}
constexpr watcher BYTES = {"bytes", 1, mark, unmark, define};
constexpr watcher WORDS = {"words", 8, mark, unmark, define};

constexpr std::size_t AT = 1024;

settings playing(const char *what, std::size_t line = 64) {
    settings one;
    one.line = line;
    assert_true(parse_mode(what, one));
    return one;
}

/// A cache with one region, whose device writes.
struct written {
    written(const char *mode, const watcher &by, std::size_t line = 64)
        : one(playing(mode, line), &by) {
        tool = {};
        defined.clear();
        device = one.add(all.part(0, all.size), &number);
    }
    void write(std::size_t at, std::size_t length) const {
        std::memset((*device)(all.at + at), 0xff, length);
    }
    void told_write(std::size_t at, std::size_t length) {
        one->peer_writes(all.part(at, length), {});
        write(at, length);
    }
    [[nodiscard]] std::string marked(std::size_t at = AT, std::size_t length = 16) const {
        return tool.in(all.part(at, length));
    }

    const memory all{2};
    played one;
    std::unique_ptr<device_side> device;
    std::uint32_t number = 0;
};

#define assert_marked(is, wanted) assert_string_equal((is).c_str(), wanted)

void what_peers_tell_of_is_marked(void **) {
    for (const std::size_t size : SIZES) {
        written is("stale", BYTES, size);
        const unsigned char there = is.all.at[AT + 3];
        is.told_write(AT + 2, 9);
        *(*is.device)(is.all.at + AT + 3) = there; // of a Write, and the same as before
        assert_marked(is.marked(), "................");
        is.one->heard();
        assert_marked(is.marked(), "..#########.....");
        assert_int_equal(tool.ours.size(), 9);
        is.one->heard();
        assert_int_equal(tool.ours.size(), 9);
    }
}

void what_has_not_come_is_not_marked(void **) {
    written is("stale", BYTES);
    is.one->peer_writes(is.all.part(AT, 80), {});
    is.write(AT, 16); // the first line
    is.one->heard();
    assert_int_equal(tool.ours.size(), 64);
    is.write(AT + 64, 16);
    is.one->heard();
    assert_int_equal(tool.ours.size(), 80);
    is.told_write(AT + 256, 4); // in the line of one that has not
    is.one->peer_writes(is.all.part(AT + 264, 4), {});
    is.one->heard();
    assert_marked(is.marked(AT + 256), "####............");
}

void what_is_found_is_marked(void **) {
    written is("stale", BYTES);
    is.write(AT + 1, 2);
    is.write(AT + 9, 1); // six bytes between: of one Write
    is.write(AT + 32, 1);
    is.one->heard();
    assert_marked(is.marked(), ".#########......");
    assert_marked(is.marked(AT + 30, 4), "..#.");
}

void only_whole_words_are_marked(void **) {
    written is("stale", WORDS);
    is.told_write(AT + 4, 22);
    is.told_write(AT + 40, 7);
    is.one->heard();
    assert_marked(is.marked(AT, 48), "........################........................");
}

void what_is_beyond_the_region_is_not_marked(void **) {
    tool = {};
    const memory all(1);
    played one(playing("stale", 256), &BYTES);
    const auto device = one.add(all.part(AT + 3, 10));
    std::memset((*device)(all.at + AT), 0xff, 256);
    one->heard();
    assert_marked(tool.in(all.part(AT, 16)), "...##########...");
    assert_int_equal(tool.ours.size(), 10);
}

void what_may_not_be_touched_is_not_marked(void **) {
    written is("stale", WORDS);
    tool.forbidden = is.all.part(AT + 12, 1);
    is.told_write(AT, 32);
    is.one->heard();
    assert_marked(is.marked(AT, 32), "########........################");
    const span where = is.all.part(AT, 1);
    is.one->sync_write(&where, 1);
    assert_int_equal(tool.ours.size(), 0);
}

/// The program is told of these by other means.
void what_is_dirty_is_not_marked(void **) {
    written is("stale", BYTES);
    is.told_write(AT, 8);
    is.all.at[AT + 20] = 0xfe;
    is.one->heard();
    assert_int_equal(tool.ours.size(), 0);
}

void marks_go_with_a_sync(void **) {
    written is("stale", BYTES);
    const span where = is.all.part(AT, 16);
    is.told_write(AT, 16);
    is.one->heard();
    is.one->sync_read(&where, 1); // it does not fetch
    assert_int_equal(tool.ours.size(), 16);
    is.one->sync_write(&where, 1);
    assert_int_equal(tool.ours.size(), 0);
    assert_int_equal(is.all.at[AT], 0xff);
    assert_true(defined.size() == 1 && defined[0].size() == 16);
    is.one->heard();
    assert_int_equal(tool.ours.size(), 0);
}

void marks_go_with_what_arrives(void **) {
    written is("stale", BYTES);
    is.told_write(AT, 16);
    is.one->heard();
    is.one->arrived(is.all.part(AT + 2, 6));
    assert_int_equal(tool.ours.size(), 0);
    assert_true(defined.size() == 1 && defined[0].size() == 6);
}

void marks_go_with_their_region(void **) {
    written is("stale", BYTES);
    const auto other = is.one.add(is.all.part(PAGE, PAGE));
    is.told_write(AT, 16);
    is.told_write(PAGE, 4);
    is.one->heard();
    assert_int_equal(tool.ours.size(), 20);
    is.one->remove(is.number);
    assert_int_equal(tool.ours.size(), 0);
    is.one->heard(); // it is of the other, still
    assert_int_equal(tool.ours.size(), 4);
}

void marks_go_with_lines_that_move(void **) {
    written is("evict:3", BYTES);
    is.told_write(AT, 16);
    is.one->heard();
    assert_int_equal(tool.ours.size(), 16);
    for (std::size_t each = 0; each < 2 * PAGE / 64; ++each) // 64 lines each
        is.one->wander();
    assert_int_equal(is.all.at[AT], 0xff);
    assert_int_equal(tool.ours.size(), 0);
}

void poison_is_marked(void **) {
    written is("poison", BYTES);
    is.told_write(AT, 4);
    is.one->heard();
    is.told_write(AT + 8, 4);
    tool.ours.clear(); // as if to write there had taken them
    is.one->step();
    assert_marked(is.marked(), "####............");
    is.one->heard();
    assert_marked(is.marked(), "####....####....");
    const span where = is.all.part(AT, 1);
    is.one->sync_write(&where, 1);
    assert_int_equal(tool.ours.size(), 0);
}

/// Not at once: a program may sync and look, in turns.
void what_is_old_is_marked(void **) {
    using namespace std::chrono_literals;
    for (const char *const mode : {"stale", "poison"}) {
        written is(mode, BYTES);
        is.write(AT, 16);
        const span where = is.all.part(AT, 1);
        for (int each = 0; each < 2; ++each)
            is.one->wander();
        assert_int_equal(tool.ours.size(), 0);
        is.one->sync_write(&where, 1);
        std::memset((*is.device)(is.all.at + AT), 0xfe, 16);
        std::this_thread::sleep_for(1100ms);
        is.one->wander(); // it was synced between
        assert_int_equal(tool.ours.size(), 0);
        std::this_thread::sleep_for(1100ms);
        is.one->wander();
        assert_int_equal(tool.ours.size(), 16);
    }
}

void nothing_is_marked_for_nobody(void **) {
    tool = {};
    const memory all(1);
    played one(playing("stale"));
    const auto device = one.add(all.part(0, all.size));
    one->peer_writes(all.part(AT, 16), {});
    std::memset((*device)(all.at + AT), 0xff, 16);
    one->heard();
    assert_int_equal(tool.ours.size(), 0);
    assert_false(one->wanders());
}

// -- the tool that runs this test, if there is one

const watcher *here() {
    const watcher *const by = watcher_here();
    if (by == nullptr) {
        print_message("# skipped: neither the address sanitizer nor valgrind runs this\n");
        skip();
    }
    return by;
}

/// Whether the program may not use any, or all, of it as it stands.
bool is_free(const void *where, std::size_t length) {
    const auto at = reinterpret_cast<std::uintptr_t>(where);
    const span all = {at, at + length};
    if (!watcher_here()->mark(all))
        return false;
    watcher_here()->unmark(all);
    return true;
}

void what_the_tool_forbids_stays(void **) {
    const watcher &by = *here();
    auto *const block = static_cast<unsigned char *>(std::calloc(1, 64));
    assert_true(is_free(block, 64));
    assert_false(is_free(block + 64, 8)); // beyond its end
    const auto at = reinterpret_cast<std::uintptr_t>(block);
    assert_true(by.mark({at, at + 32}));
    block[40] = 1; // this may be used
    std::free(block);
    by.unmark({at, at + 32});
    assert_false(is_free(block, 32));
}

void the_emulation_may_use_it(void **) {
    const watcher &by = *here();
    settings asked = playing("stale");
    played one(asked, &by);
    const memory all(1);
    const auto device = one.add(all.part(0, all.size));
    one->peer_writes(all.part(AT, 64), {});
    std::memset((*device)(all.at + AT), 0xff, 64);
    one->heard();
    assert_false(by.unit == 8 && by.mark(all.part(AT, 64))); // it is marked
    const span where = all.part(AT, 1);
    one->sync_write(&where, 1);
    assert_memory_equal(all.at, (*device)(all.at), all.size); // and may be used again
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(what_peers_tell_of_is_marked),
        cmocka_unit_test(what_has_not_come_is_not_marked),
        cmocka_unit_test(what_is_found_is_marked),
        cmocka_unit_test(only_whole_words_are_marked),
        cmocka_unit_test(what_is_beyond_the_region_is_not_marked),
        cmocka_unit_test(what_may_not_be_touched_is_not_marked),
        cmocka_unit_test(what_is_dirty_is_not_marked),
        cmocka_unit_test(marks_go_with_a_sync),
        cmocka_unit_test(marks_go_with_what_arrives),
        cmocka_unit_test(marks_go_with_their_region),
        cmocka_unit_test(marks_go_with_lines_that_move),
        cmocka_unit_test(poison_is_marked),
        cmocka_unit_test(what_is_old_is_marked),
        cmocka_unit_test(nothing_is_marked_for_nobody),
        cmocka_unit_test(what_the_tool_forbids_stays),
        cmocka_unit_test(the_emulation_may_use_it),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
