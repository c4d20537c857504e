// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Memory shared by processes has one copy on the device side. Two caches of this process simulate
// two processes; a real one is used where it must die.

#include "cache_fixture.hpp"
#include "core/memory/shared_mappings.hpp"
#include "pid_namespace.hpp"

#include <csignal>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace emulation_test;

namespace {

constexpr std::size_t PAGES = 4;

/// Shared memory mapped at two addresses, as in two processes or in one.
struct shared_pages {
    shared_pages()
        : fd(memfd_create("test", MFD_CLOEXEC)) {
        assert_int_equal(ftruncate(fd, static_cast<off_t>(PAGES * PAGE)), 0);
        for (unsigned char *&view : bytes)
            view = map();
        for (std::size_t i = 0; i < PAGES * PAGE; ++i)
            bytes[0][i] = static_cast<unsigned char>(i % 251 + 1);
    }
    ~shared_pages() {
        for (unsigned char *const view : bytes)
            munmap(view, PAGES * PAGE);
        close(fd);
    }
    [[nodiscard]] unsigned char *map() const {
        void *const mapped = mmap(nullptr, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_true(mapped != MAP_FAILED);
        return static_cast<unsigned char *>(mapped);
    }
    [[nodiscard]] addr_range part(std::size_t index, std::size_t offset, std::size_t length) const {
        const auto begin = reinterpret_cast<std::uintptr_t>(bytes[index]) + offset;
        return {begin, begin + length};
    }

    int fd;
    unsigned char *bytes[2]; ///< by view
};

/// The name of the file with the device pages of this memory.
std::string shm_name(const shared_pages &pages) {
    const shm_id id = find_shared_mappings(pages.part(0, 0, PAGE)).at(0).id;
    std::ostringstream name;
    name << "coherdma-emulation-" << geteuid() << '-' << std::hex << id.device << '-' << id.inode;
    return name.str();
}
bool shm_exists(const std::string &name) {
    return access(("/dev/shm/" + name).c_str(), F_OK) == 0;
}

void sync_writeback(test_cache &cache, addr_range range) {
    cache->sync_writeback(&range, 1);
}
void sync_invalidate(test_cache &cache, addr_range range) {
    cache->sync_invalidate(&range, 1);
}

void shared_mappings_are_found(void **) {
    const shared_pages pages;
    const auto first = find_shared_mappings(pages.part(0, PAGE, 2 * PAGE));
    const auto second = find_shared_mappings(pages.part(1, 0, PAGES * PAGE));
    assert_true(first.size() == 1 && second.size() == 1);
    assert_true(first[0].id == second[0].id && first[0].id.inode != 0);
    assert_true(first[0].offset == PAGE && second[0].offset == 0);
    assert_true(first[0].range.begin == pages.part(0, PAGE, 0).begin);
    assert_int_equal(first[0].range.size(), 2 * PAGE);
    const program_pages anonymous(1);
    assert_int_equal(find_shared_mappings(anonymous.part(0, PAGE)).size(), 0);
}

/// Two caches of the same shared memory, mapped at two addresses, share the device's pages:
/// accesses and syncs through one are seen through the other.
void check_shared_lines(test_cache &cache, test_cache &other, const shared_pages &pages,
                        const device_side &device, const device_side &same) {
    pages.bytes[1][LINE_OFFSET] = CPU_DATA; // by the other address or process
    assert_int_not_equal(*device.copy_of(pages.bytes[0] + LINE_OFFSET), CPU_DATA);
    cache->check_peer_rdma_read(pages.part(0, LINE_OFFSET, 1), {});
    assert_int_equal(cache.new_findings().size(), 1); // not synced
    sync_writeback(other, pages.part(1, LINE_OFFSET, 1));
    assert_int_equal(*device.copy_of(pages.bytes[0] + LINE_OFFSET), CPU_DATA);
    assert_int_equal(*same.copy_of(pages.bytes[1] + LINE_OFFSET), CPU_DATA);
    cache->check_peer_rdma_read(pages.part(0, LINE_OFFSET, 1), {});
    assert_int_equal(cache.new_findings().size(), 0);
    *device.copy_of(pages.bytes[0] + LINE_OFFSET + 64) = DEVICE_DATA;
    assert_int_not_equal(pages.bytes[1][LINE_OFFSET + 64], DEVICE_DATA);
    sync_invalidate(other, pages.part(1, LINE_OFFSET + 64, 1));
    assert_int_equal(pages.bytes[0][LINE_OFFSET + 64], DEVICE_DATA);
    sync_invalidate(cache, pages.part(0, LINE_OFFSET + 64, 1));
    end_process(cache);
    end_process(other);
    assert_int_equal(cache.new_findings().size(), 0);
    assert_int_equal(other.new_findings().size(), 0);
}

void processes_share_device_lines(void **) {
    const shared_pages pages;
    test_cache cache, other;
    const auto device = cache.add_mr(pages.part(0, 0, 2 * PAGE));
    const auto same = other.add_mr(pages.part(1, PAGE / 2, 3 * PAGE)); // overlapping pages
    check_shared_lines(cache, other, pages, *device, *same);
}

void addresses_share_device_lines(void **) {
    const shared_pages pages;
    test_cache cache;
    const auto device = cache.add_mr(pages.part(0, 0, 2 * PAGE));
    const auto same = cache.add_mr(pages.part(1, PAGE / 2, 3 * PAGE));
    check_shared_lines(cache, cache, pages, *device, *same);
}

void later_mr_sees_device_data(void **) {
    const shared_pages pages;
    test_cache cache;
    std::uint32_t first, second;
    const auto device = cache.add_mr(pages.part(0, 0, PAGE), &first);
    *device->copy_of(pages.bytes[0] + LINE_OFFSET) = DEVICE_DATA;
    {
        test_cache other;
        const auto same = other.add_mr(pages.part(1, 0, PAGE), &second);
        assert_int_equal(*same->copy_of(pages.bytes[1] + LINE_OFFSET), DEVICE_DATA);
        other->remove_mr(second); // the first still has the page
        assert_int_equal(other.new_findings().size(), 0);
    }
    cache->remove_mr(first);
    const auto findings = cache.new_findings();
    assert_int_equal(findings.size(), 1);
    assert_string_equal(findings[0]["kind"].get<std::string>().c_str(), "stale");
    const auto added = cache.add_mr(pages.part(0, 0, PAGE));
    assert_memory_equal(added->copy_of(pages.bytes[0]), pages.bytes[0], PAGE);
}

void last_process_reports_stale_line(void **) {
    const shared_pages pages;
    test_cache cache;
    const auto device = cache.add_mr(pages.part(0, 0, PAGE));
    {
        test_cache other;
        const auto same = other.add_mr(pages.part(1, 0, PAGE));
        *device->copy_of(pages.bytes[0] + LINE_OFFSET) = DEVICE_DATA;
        end_process(cache);
        assert_int_equal(cache.new_findings().size(), 0);
    }
    end_process(cache);
    assert_int_equal(cache.new_findings().size(), 1);
}

/// As on arm64 before Linux 7.0, the last process that has the pages discards their changes when it
/// ends; no process sees those of its private memory.
void last_process_discards_changes(void **) {
    const shared_pages pages;
    settings config;
    config.dereg_discards = true;
    test_cache cache(config);
    const auto device = cache.add_mr(pages.part(0, 0, 64));
    const program_pages private_pages(1);
    const auto private_device = cache.add_mr(private_pages.part(0, PAGE));
    const unsigned char old = pages.bytes[0][LINE_OFFSET];
    pages.bytes[0][LINE_OFFSET] = CPU_DATA; // on the page, outside of the MR
    pages.bytes[0][0] = CPU_DATA;
    sync_writeback(cache, pages.part(0, 0, 1));
    private_pages.bytes[LINE_OFFSET] = CPU_DATA;
    {
        test_cache other(config);
        const auto same = other.add_mr(pages.part(1, 0, 64));
        end_process(other);
        assert_int_equal(other.new_findings().size(), 0);
        assert_int_equal(pages.bytes[0][LINE_OFFSET], CPU_DATA);
    }
    end_process(cache);
    const auto findings = cache.new_findings();
    assert_int_equal(findings.size(), 1);
    assert_string_equal(findings[0]["kind"].get<std::string>().c_str(), "discarded");
    assert_int_equal(findings[0]["offset"].get<std::size_t>(), LINE_OFFSET);
    assert_int_equal(pages.bytes[1][LINE_OFFSET], old);
    assert_int_equal(pages.bytes[1][0], CPU_DATA);
    assert_int_equal(private_pages.bytes[LINE_OFFSET], CPU_DATA);
}

/// An MR of shared and private pages.
void mr_may_be_partly_shared(void **) {
    const shared_pages pages;
    unsigned char *const private_page = pages.bytes[0] + PAGE;
    assert_true(mmap(private_page, PAGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == private_page);
    test_cache cache, other;
    const auto device = cache.add_mr(pages.part(0, 0, 3 * PAGE));
    const auto same = other.add_mr(pages.part(1, 0, 3 * PAGE));
    for (const std::size_t page : {0U, 1U, 2U}) {
        pages.bytes[0][page * PAGE + 8] = CPU_DATA;
        sync_writeback(cache, pages.part(0, page * PAGE + 8, 1));
        assert_int_equal(*device->copy_of(pages.bytes[0] + page * PAGE + 8), CPU_DATA);
        assert_true((*same->copy_of(pages.bytes[1] + page * PAGE + 8) == CPU_DATA) == (page != 1));
    }
}

/// After removal, other memory is mapped at the same address.
void reused_address_gets_new_pages(void **) {
    const shared_pages pages;
    test_cache cache, other;
    std::uint32_t mr_number;
    const auto first = cache.add_mr(pages.part(0, 0, PAGE));
    const auto same = other.add_mr(pages.part(1, 0, PAGES * PAGE));
    const auto second = cache.add_mr(pages.part(0, 0, 2 * PAGE), &mr_number);
    cache->remove_mr(mr_number);
    unsigned char *const private_page = pages.bytes[0] + PAGE;
    assert_true(mmap(private_page, PAGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == private_page);
    const auto next = cache.add_mr(pages.part(0, 0, 2 * PAGE));
    private_page[8] = CPU_DATA;
    sync_writeback(cache, pages.part(0, PAGE + 8, 1));
    assert_int_equal(*next->copy_of(private_page + 8), CPU_DATA);
    assert_int_not_equal(*same->copy_of(pages.bytes[1] + PAGE + 8), CPU_DATA);
}

void line_size_separates_device_pages(void **) {
    const shared_pages pages;
    settings longer;
    longer.line_size = 128;
    test_cache cache, other(longer);
    const auto device = cache.add_mr(pages.part(0, 0, PAGE));
    const auto separate = other.add_mr(pages.part(1, 0, PAGE));
    pages.bytes[1][LINE_OFFSET] = CPU_DATA;
    sync_writeback(other, pages.part(1, LINE_OFFSET, 1));
    assert_int_equal(*separate->copy_of(pages.bytes[1] + LINE_OFFSET), CPU_DATA);
    assert_int_not_equal(*device->copy_of(pages.bytes[0] + LINE_OFFSET), CPU_DATA);
}

/// A child that syncs without end is killed, possibly while it holds the lock.
void lock_recovered_after_owner_death(void **) {
    const shared_pages pages;
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        auto *const other = new test_cache;
        other->remove_files();
        const auto same = other->add_mr(pages.part(1, 0, PAGES * PAGE));
        *same->copy_of(pages.bytes[1] + LINE_OFFSET) = DEVICE_DATA;
        std::thread([&] { // mostly holds the lock when it dies
            const addr_range range = pages.part(1, 0, PAGES * PAGE);
            for (bool is_ready = false;; is_ready = true) {
                (*other)->sync_invalidate(&range, 1);
                if (!is_ready && write(ready[1], "", 1) != 1)
                    _exit(1);
            }
        })
            .join();
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    test_cache cache;
    const auto device = cache.add_mr(pages.part(0, PAGE, PAGE)); // keeps the object in use
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, nullptr, 0), child);
    pages.bytes[0][8] = CPU_DATA;
    const auto reused = cache.add_mr(pages.part(0, 0, PAGE)); // its last live user is gone
    assert_int_equal(*reused->copy_of(pages.bytes[0] + 8), CPU_DATA);
    pages.bytes[0][16] = CPU_DATA;
    sync_writeback(cache, pages.part(0, 16, 1));
    assert_int_equal(*reused->copy_of(pages.bytes[0] + 16), CPU_DATA);
    close(ready[0]);
    close(ready[1]);
}

/// Containers can have one /dev/shm, and each its process IDs.
void pid_namespaces_share_device_lines(void **) {
    const shared_pages pages;
    test_cache cache;
    const auto device = cache.add_mr(pages.part(0, 0, PAGE));
    *device->copy_of(pages.bytes[0] + LINE_OFFSET) = DEVICE_DATA;
    const int status = run_in_pid_namespace([&] {
        auto *const other = new test_cache;
        other->remove_files();
        const auto same = other->add_mr(pages.part(1, 0, 2 * PAGE));
        return *same->copy_of(pages.bytes[1] + LINE_OFFSET) == DEVICE_DATA ? 0 : 1;
    });
    if (status == NOT_PERMITTED)
        return skip();
    assert_int_equal(status, 0);
    assert_int_equal(*device->copy_of(pages.bytes[0] + LINE_OFFSET), DEVICE_DATA);
    // The process has ended without cleanup: its page is that of the program again.
    const auto added = cache.add_mr(pages.part(0, PAGE, PAGE));
    pages.bytes[0][PAGE + 8] = CPU_DATA;
    sync_writeback(cache, pages.part(0, PAGE + 8, 1));
    assert_int_equal(*added->copy_of(pages.bytes[0] + PAGE + 8), CPU_DATA);
}

/// A process dies, and a child that it has forked lives on: the pages of the process are free.
void child_of_fork_keeps_no_slot(void **) {
    const shared_pages pages;
    int ready[2], done[2];
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    assert_int_equal(pipe2(done, O_CLOEXEC), 0);
    const pid_t child = fork();
    if (child == 0) {
        auto *const other = new test_cache;
        other->remove_files();
        const auto same = other->add_mr(pages.part(1, 0, PAGE));
        *same->copy_of(pages.bytes[1] + LINE_OFFSET) = DEVICE_DATA;
        const pid_t grandchild = fork();
        if (grandchild == 0) {
            close(done[1]);
            char byte;
            _exit(write(ready[1], "", 1) == 1 && read(done[0], &byte, 1) == 0 ? 0 : 1);
        }
        char byte;
        const bool is_ready = read(ready[0], &byte, 1) == 1;
        _exit(is_ready ? 0 : 1); // exits without cleanup
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    test_cache cache;
    const auto device = cache.add_mr(pages.part(0, 0, PAGE));
    assert_memory_equal(device->copy_of(pages.bytes[0]), pages.bytes[0], PAGE);
    for (const int fd : {ready[0], ready[1], done[0], done[1]})
        close(fd); // the grandchild ends
}

void shared_object_removed_after_last_user(void **) {
    const shared_pages pages;
    const std::string name = shm_name(pages);
    {
        test_cache cache, other;
        std::uint32_t mr_number;
        const auto device = cache.add_mr(pages.part(0, 0, PAGE), &mr_number);
        const auto same = other.add_mr(pages.part(1, 0, PAGE));
        cache->remove_mr(mr_number);
        assert_int_equal(cache->memory_bytes(), 0);
        assert_true(shm_exists(name));
        other->unlink_shm();
        assert_false(shm_exists(name));
    }
    const pid_t child = fork();
    if (child == 0) {
        auto *const other = new test_cache;
        other->remove_files();
        const auto same = other->add_mr(pages.part(1, 0, PAGE));
        _exit(shm_exists(name) ? 0 : 1); // exits without cleanup
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    const shared_pages other_pages;
    test_cache cache;
    const auto device = cache.add_mr(other_pages.part(0, 0, PAGE));
    assert_false(shm_exists(name)); // removed at the next creation
}

/// The file has other contents or is empty.
void foreign_shm_file_is_not_used(void **) {
    for (const std::size_t length : {std::size_t{0}, PAGE}) {
        const shared_pages pages;
        const std::string name = shm_name(pages);
        const int other = shm_open(name.c_str(), O_RDWR | O_CREAT, 0600);
        const std::vector<char> foreign(length, 'x');
        assert_int_equal(write(other, foreign.data(), length), length);
        assert_int_equal(flock(other, LOCK_SH), 0);
        test_cache cache;
        const auto device = cache.add_mr(pages.part(0, 0, PAGE));
        pages.bytes[0][LINE_OFFSET] = CPU_DATA;
        sync_writeback(cache, pages.part(0, LINE_OFFSET, 1));
        assert_int_equal(*device->copy_of(pages.bytes[0] + LINE_OFFSET), CPU_DATA);
        shm_unlink(name.c_str());
        close(other);
    }
}

void shared_memory_is_not_poisoned(void **) {
    const shared_pages pages;
    settings config;
    assert_true(parse_mode("poison", config));
    test_cache cache(config);
    const auto device = cache.add_mr(pages.part(0, 0, PAGE));
    const unsigned char old = pages.bytes[0][LINE_OFFSET];
    cache->check_peer_rdma_write(pages.part(0, LINE_OFFSET, 1), {});
    *device->copy_of(pages.bytes[0] + LINE_OFFSET) = DEVICE_DATA;
    cache->on_post_or_poll();
    cache->run_background_step();
    assert_int_equal(pages.bytes[1][LINE_OFFSET], old);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(shared_mappings_are_found),
        cmocka_unit_test(processes_share_device_lines),
        cmocka_unit_test(addresses_share_device_lines),
        cmocka_unit_test(later_mr_sees_device_data),
        cmocka_unit_test(last_process_reports_stale_line),
        cmocka_unit_test(last_process_discards_changes),
        cmocka_unit_test(mr_may_be_partly_shared),
        cmocka_unit_test(reused_address_gets_new_pages),
        cmocka_unit_test(line_size_separates_device_pages),
        cmocka_unit_test(lock_recovered_after_owner_death),
        cmocka_unit_test(pid_namespaces_share_device_lines),
        cmocka_unit_test(child_of_fork_keeps_no_slot),
        cmocka_unit_test(shared_object_removed_after_last_user),
        cmocka_unit_test(foreign_shm_file_is_not_used),
        cmocka_unit_test(shared_memory_is_not_poisoned),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
