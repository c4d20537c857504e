// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "shm_lmr.hpp"

#include "dapl/core/lock.hpp"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <utility>

namespace coherdma::dapl {

namespace {

/// A line of /proc/self/maps.
struct mapping {
    std::uint64_t begin = 0, end = 0, offset = 0, device = 0, inode = 0;
    bool shared = false;
};

/// False: the line is invalid.
bool parse_maps_line(const char *line, mapping &map) noexcept {
    char flags[5] = {};
    unsigned major = 0, minor = 0;
    if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64, &map.begin,
                    &map.end, flags, &map.offset, &major, &minor, &map.inode) != 7)
        return false;
    map.shared = flags[3] == 's';
    map.device = makedev(major, minor);
    return true;
}

/// Extends range, which begins at the address `begin`, by a mapping. False: the mapping is not
/// shared or does not continue the range.
bool append_mapping(const mapping &map, std::uint64_t begin, std::uint64_t max_length,
                    shared_range &range) noexcept {
    const std::uint64_t end = begin + range.length;
    if (!map.shared || map.begin > end)
        return false;
    const std::uint64_t offset = map.offset + (end - map.begin);
    if (range.length == 0)
        range = {map.device, map.inode, offset, 0};
    else if (range.device != map.device || range.inode != map.inode ||
             range.offset + range.length != offset)
        return false;
    range.length = std::min(map.end - begin, max_length);
    return true;
}

struct file_closer {
    void operator()(std::FILE *file) const noexcept { std::fclose(file); }
};

/// The locks of this process. The child of a fork closes the parent's files: a flock belongs to the
/// open file description, so the child would keep it.
struct {
    mutex lock;
    shm_cookie_lock *first = nullptr;
    bool has_atfork = false;
} held_locks;

/// The child closes the files of its parent's locks. The caller holds held_locks.lock.
void register_atfork() noexcept {
    if (std::exchange(held_locks.has_atfork, true))
        return;
    pthread_atfork([] { held_locks.lock.lock(); }, [] { held_locks.lock.unlock(); },
                   [] {
                       for (; held_locks.first != nullptr;
                            held_locks.first = held_locks.first->next)
                           close(held_locks.first->fd);
                       held_locks.lock.unlock();
                   });
}

bool lock_shared(int fd) noexcept {
    int result;
    do
        result = flock(fd, LOCK_SH);
    while (result != 0 && errno == EINTR);
    return result == 0;
}
bool try_lock_exclusive(int fd) noexcept {
    return flock(fd, LOCK_EX | LOCK_NB) == 0;
}

bool is_own_file(const struct stat &status) noexcept {
    return S_ISREG(status.st_mode) && status.st_uid == geteuid();
}

} // namespace

/// The range of a shared object that is mapped at an address. False: not one contiguous range.
bool find_shared_range(const void *address, std::size_t length, shared_range &range) noexcept {
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    const std::unique_ptr<std::FILE, file_closer> maps(std::fopen("/proc/self/maps", "re"));
    range = {};
    char line[512];
    bool at_line_begin = true; // fgets splits lines that do not fit; only their begin is parsed
    while (maps != nullptr && std::fgets(line, sizeof line, maps.get()) != nullptr) {
        mapping map;
        const bool is_line_begin = std::exchange(at_line_begin, std::strchr(line, '\n') != nullptr);
        if (!is_line_begin || !parse_maps_line(line, map) || map.end <= begin)
            continue;
        if (!append_mapping(map, begin, length, range))
            return false;
        if (range.length == length)
            return true;
    }
    return false;
}

shm_cookie_lock::shm_cookie_lock(const cookie &id) noexcept {
    int end = std::snprintf(path.data(), path.size(), "/dev/shm/coherdma-lmr-%u-", geteuid());
    for (const char byte : id)
        end += std::snprintf(path.data() + end, path.size() - static_cast<std::size_t>(end), "%02x",
                             static_cast<unsigned>(static_cast<unsigned char>(byte)));
}

/// The file of an LMR cookie holds the range of shared memory that the cookie stands for. Locks it,
/// shared, with this range; fails while another lock is held for another range.
// The holder of the exclusive lock writes the range. The change to a shared lock is not atomic, so
// the range is read again under the shared lock. If it differs, an exclusive lock is tried again:
// success means that no other lock is left.
DAT_RETURN shm_cookie_lock::lock_range(const shared_range &range) noexcept {
    for (;; close(fd)) {
        fd = open(path.data(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        struct stat status = {};
        if (fd < 0 || fstat(fd, &status) != 0)
            return errno == EACCES || errno == ELOOP ? invalid_state(DAT_NO_SUBTYPE)
                                                     : from_errno(errno, DAT_RESOURCE_MEMORY);
        if (!is_own_file(status))
            return invalid_state(DAT_NO_SUBTYPE);
        shared_range stored;
        for (bool exclusive = try_lock_exclusive(fd);; exclusive = true) {
            if (exclusive && pwrite(fd, &range, sizeof range, 0) != sizeof range)
                return from_errno(errno, DAT_RESOURCE_MEMORY);
            if (!lock_shared(fd))
                return from_errno(errno, DAT_RESOURCE_MEMORY);
            if ((pread(fd, &stored, sizeof stored, 0) == sizeof stored && stored == range) ||
                !try_lock_exclusive(fd))
                break;
        }
        // The last holder unlinks the file; then a new file has to be created.
        if (fstat(fd, &status) == 0 && status.st_nlink != 0)
            return stored == range ? DAT_SUCCESS : invalid_state(DAT_NO_SUBTYPE);
    }
}

/// Locks the cookie's file for LMRs of this range. nullptr: see result.
std::unique_ptr<shm_cookie_lock>
shm_cookie_lock::acquire(const cookie &id, const shared_range &range, DAT_RETURN &result) noexcept {
    std::unique_ptr<shm_cookie_lock> acquired(new (std::nothrow) shm_cookie_lock(id));
    const std::lock_guard guard(held_locks.lock);
    register_atfork();
    result = acquired != nullptr ? acquired->lock_range(range) : no_resources(DAT_RESOURCE_MEMORY);
    if (result != DAT_SUCCESS)
        return nullptr;
    acquired->next = held_locks.first;
    held_locks.first = acquired.get();
    return acquired;
}

/// The last holder removes the file.
shm_cookie_lock::~shm_cookie_lock() {
    const std::lock_guard guard(held_locks.lock);
    for (shm_cookie_lock **link = &held_locks.first; *link != nullptr; link = &(*link)->next)
        if (*link == this) {
            *link = next;
            break;
        }
    if (fd < 0)
        return;
    struct stat status = {};
    if (try_lock_exclusive(fd) && fstat(fd, &status) == 0 && status.st_nlink != 0 &&
        is_own_file(status))
        unlink(path.data());
    close(fd);
}

} // namespace coherdma::dapl
