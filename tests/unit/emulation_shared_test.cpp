// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Memory that processes share has one device's copy for all of them. Two caches of this process
// stand for two processes where nobody has to die.

#include "core/mappings.hpp"
#include "emulation.hpp"

#include <csignal>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <thread>

using namespace emulation_test;

namespace {

constexpr std::size_t AT = 1024, PAGES = 4;

/// Shared memory at two addresses, as two processes or one may have it.
struct twice {
    twice()
        : file(memfd_create("test", MFD_CLOEXEC)) {
        assert_int_equal(ftruncate(file, static_cast<off_t>(PAGES * PAGE)), 0);
        for (unsigned char *&each : at)
            each = map();
        for (std::size_t each = 0; each < PAGES * PAGE; ++each)
            at[0][each] = static_cast<unsigned char>(each % 251 + 1);
    }
    ~twice() {
        for (unsigned char *const each : at)
            munmap(each, PAGES * PAGE);
        close(file);
    }
    [[nodiscard]] unsigned char *map() const {
        void *const made = mmap(nullptr, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        assert_true(made != MAP_FAILED);
        return static_cast<unsigned char *>(made);
    }
    [[nodiscard]] span part(std::size_t which, std::size_t offset, std::size_t length) const {
        const auto begin = reinterpret_cast<std::uintptr_t>(at[which]) + offset;
        return {begin, begin + length};
    }

    int file;
    unsigned char *at[2];
};

/// The file for it.
std::string name_of(const twice &all) {
    const object_name is = shared_mappings(all.part(0, 0, PAGE)).at(0).of;
    std::ostringstream name;
    name << "coherdma-emulation-" << geteuid() << '-' << std::hex << is.device << '-' << is.inode;
    return name.str();
}
bool is_there(const std::string &name) {
    return access(("/dev/shm/" + name).c_str(), F_OK) == 0;
}

void read_sync(played &one, span where) {
    one->sync_read(&where, 1);
}
void write_sync(played &one, span where) {
    one->sync_write(&where, 1);
}

void mappings_are_known(void **) {
    const twice all;
    const auto one = shared_mappings(all.part(0, PAGE, 2 * PAGE));
    const auto other = shared_mappings(all.part(1, 0, PAGES * PAGE));
    assert_true(one.size() == 1 && other.size() == 1);
    assert_true(one[0].of == other[0].of && one[0].of.inode != 0);
    assert_true(one[0].offset == PAGE && other[0].offset == 0);
    assert_true(one[0].where.begin == all.part(0, PAGE, 0).begin);
    assert_int_equal(one[0].where.size(), 2 * PAGE);
    const memory own(1);
    assert_int_equal(shared_mappings(own.part(0, PAGE)).size(), 0);
}

/// Each step by another of both.
void lines_are_the_same(played &one, played &other, const twice &all, const device_side &device,
                        const device_side &same) {
    all.at[1][AT] = 0xfe; // another address, or another process
    assert_int_not_equal(*device(all.at[0] + AT), 0xfe);
    one->peer_reads(all.part(0, AT, 1), {});
    assert_int_equal(one.told().size(), 1); // nobody has synced
    read_sync(other, all.part(1, AT, 1));
    assert_int_equal(*device(all.at[0] + AT), 0xfe);
    assert_int_equal(*same(all.at[1] + AT), 0xfe);
    one->peer_reads(all.part(0, AT, 1), {});
    assert_int_equal(one.told().size(), 0);
    *device(all.at[0] + AT + 64) = 0xff;
    assert_int_not_equal(all.at[1][AT + 64], 0xff);
    write_sync(other, all.part(1, AT + 64, 1));
    assert_int_equal(all.at[0][AT + 64], 0xff);
    write_sync(one, all.part(0, AT + 64, 1));
    one->finish();
    other->finish();
    assert_int_equal(one.told().size(), 0);
    assert_int_equal(other.told().size(), 0);
}

void two_processes_have_the_same_lines(void **) {
    const twice all;
    played one, other;
    const auto device = one.add(all.part(0, 0, 2 * PAGE));
    const auto same = other.add(all.part(1, PAGE / 2, 3 * PAGE)); // not quite the same pages
    lines_are_the_same(one, other, all, *device, *same);
}

void two_addresses_have_the_same_lines(void **) {
    const twice all;
    played one;
    const auto device = one.add(all.part(0, 0, 2 * PAGE));
    const auto same = one.add(all.part(1, PAGE / 2, 3 * PAGE));
    lines_are_the_same(one, one, all, *device, *same);
}

void who_comes_later_finds_it_as_it_is(void **) {
    const twice all;
    played one;
    std::uint32_t first, second;
    const auto device = one.add(all.part(0, 0, PAGE), &first);
    *(*device)(all.at[0] + AT) = 0xff;
    {
        played other;
        const auto same = other.add(all.part(1, 0, PAGE), &second);
        assert_int_equal(*(*same)(all.at[1] + AT), 0xff);
        other->remove(second); // the other has it still
        assert_int_equal(other.told().size(), 0);
    }
    one->remove(first);
    const auto told = one.told();
    assert_int_equal(told.size(), 1);
    assert_string_equal(told[0]["kind"].get<std::string>().c_str(), "stale");
    const auto anew = one.add(all.part(0, 0, PAGE));
    assert_memory_equal((*anew)(all.at[0]), all.at[0], PAGE);
}

void what_is_stale_is_told_by_the_last(void **) {
    const twice all;
    played one;
    const auto device = one.add(all.part(0, 0, PAGE));
    {
        played other;
        const auto same = other.add(all.part(1, 0, PAGE));
        *(*device)(all.at[0] + AT) = 0xff;
        one->finish();
        assert_int_equal(one.told().size(), 0);
    }
    one->finish();
    assert_int_equal(one.told().size(), 1);
}

/// It shares its pages with what is not shared.
void parts_may_be_shared(void **) {
    const twice all;
    unsigned char *const at = all.at[0] + PAGE;
    assert_true(mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                     0) == at);
    played one, other;
    const auto device = one.add(all.part(0, 0, 3 * PAGE));
    const auto same = other.add(all.part(1, 0, 3 * PAGE));
    for (const std::size_t page : {0U, 1U, 2U}) {
        all.at[0][page * PAGE + 8] = 0xfe;
        read_sync(one, all.part(0, page * PAGE + 8, 1));
        assert_int_equal(*(*device)(all.at[0] + page * PAGE + 8), 0xfe);
        assert_true((*(*same)(all.at[1] + page * PAGE + 8) == 0xfe) == (page != 1));
    }
}

/// A page that is let go may be another's at the same address next time.
void addresses_come_again(void **) {
    const twice all;
    played one, other;
    std::uint32_t number;
    const auto kept = one.add(all.part(0, 0, PAGE));
    const auto same = other.add(all.part(1, 0, PAGES * PAGE));
    const auto whole = one.add(all.part(0, 0, 2 * PAGE), &number);
    one->remove(number);
    unsigned char *const at = all.at[0] + PAGE;
    assert_true(mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                     0) == at);
    const auto next = one.add(all.part(0, 0, 2 * PAGE));
    at[8] = 0xfe;
    read_sync(one, all.part(0, PAGE + 8, 1));
    assert_int_equal(*(*next)(at + 8), 0xfe);
    assert_int_not_equal(*(*same)(all.at[1] + PAGE + 8), 0xfe);
}

void lines_of_another_length_are_separate(void **) {
    const twice all;
    settings longer;
    longer.line = 128;
    played one, other(longer);
    const auto device = one.add(all.part(0, 0, PAGE));
    const auto apart = other.add(all.part(1, 0, PAGE));
    all.at[1][AT] = 0xfe;
    read_sync(other, all.part(1, AT, 1));
    assert_int_equal(*(*apart)(all.at[1] + AT), 0xfe);
    assert_int_not_equal(*(*device)(all.at[0] + AT), 0xfe);
}

/// A child that registers, writes and dies; with what lock?
void who_dies_holds_nothing(void **) {
    const twice all;
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        auto *const other = new played;
        other->remove_files();
        const auto same = other->add(all.part(1, 0, PAGES * PAGE));
        *(*same)(all.at[1] + AT) = 0xff;
        std::thread([&] { // dies with the lock, as likely as not
            const span where = all.part(1, 0, PAGES * PAGE);
            for (bool told = false;; told = true) {
                (*other)->sync_write(&where, 1);
                if (!told && write(ready[1], "", 1) != 1)
                    _exit(1);
            }
        })
            .join();
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    played one;
    const auto device = one.add(all.part(0, PAGE, PAGE)); // the object stays in use
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, nullptr, 0), child);
    all.at[0][8] = 0xfe;
    const auto fresh = one.add(all.part(0, 0, PAGE)); // nobody has it who lives
    assert_int_equal(*(*fresh)(all.at[0] + 8), 0xfe);
    all.at[0][16] = 0xfe;
    read_sync(one, all.part(0, 16, 1));
    assert_int_equal(*(*fresh)(all.at[0] + 16), 0xfe);
    close(ready[0]);
    close(ready[1]);
}

void nothing_is_left(void **) {
    const twice all;
    const std::string name = name_of(all);
    {
        played one, other;
        std::uint32_t number;
        const auto device = one.add(all.part(0, 0, PAGE), &number);
        const auto same = other.add(all.part(1, 0, PAGE));
        one->remove(number);
        assert_int_equal(one->bytes(), 0);
        assert_true(is_there(name));
        other->leave();
        assert_false(is_there(name));
    }
    const pid_t child = fork();
    if (child == 0) {
        auto *const other = new played;
        other->remove_files();
        const auto same = other->add(all.part(1, 0, PAGE));
        _exit(is_there(name) ? 0 : 1); // badly
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    const twice others;
    played one;
    const auto device = one.add(others.part(0, 0, PAGE));
    assert_false(is_there(name)); // it went when the next was made
}

/// Its file has something else, or is too short.
void what_is_no_file_of_ours_is_not_used(void **) {
    for (const std::size_t length : {std::size_t{0}, PAGE}) {
        const twice all;
        const std::string name = name_of(all);
        const int other = shm_open(name.c_str(), O_RDWR | O_CREAT, 0600);
        const std::vector<char> rubbish(length, 'x');
        assert_int_equal(write(other, rubbish.data(), length), length);
        assert_int_equal(flock(other, LOCK_SH), 0);
        played one;
        const auto device = one.add(all.part(0, 0, PAGE));
        all.at[0][AT] = 0xfe;
        read_sync(one, all.part(0, AT, 1));
        assert_int_equal(*(*device)(all.at[0] + AT), 0xfe);
        shm_unlink(name.c_str());
        close(other);
    }
}

void poison_is_not_for_others(void **) {
    const twice all;
    settings asked;
    assert_true(parse_mode("poison", asked));
    played one(asked);
    const auto device = one.add(all.part(0, 0, PAGE));
    const unsigned char old = all.at[0][AT];
    one->peer_writes(all.part(0, AT, 1), {});
    *(*device)(all.at[0] + AT) = 0xff;
    one->step();
    one->wander();
    assert_int_equal(all.at[1][AT], old);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(mappings_are_known),
        cmocka_unit_test(two_processes_have_the_same_lines),
        cmocka_unit_test(two_addresses_have_the_same_lines),
        cmocka_unit_test(who_comes_later_finds_it_as_it_is),
        cmocka_unit_test(what_is_stale_is_told_by_the_last),
        cmocka_unit_test(parts_may_be_shared),
        cmocka_unit_test(addresses_come_again),
        cmocka_unit_test(lines_of_another_length_are_separate),
        cmocka_unit_test(who_dies_holds_nothing),
        cmocka_unit_test(nothing_is_left),
        cmocka_unit_test(what_is_no_file_of_ours_is_not_used),
        cmocka_unit_test(poison_is_not_for_others),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
