// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "shared.hpp"

#include "lock.hpp"

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

bool understand(const char *line, mapping &one) noexcept {
    char flags[5] = {};
    unsigned major = 0, minor = 0;
    if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64, &one.begin,
                    &one.end, flags, &one.offset, &major, &minor, &one.inode) != 7)
        return false;
    one.shared = flags[3] == 's';
    one.device = makedev(major, minor);
    return true;
}

/// Goes on with what was found from an address on. False: this mapping is not the next piece.
bool take(const mapping &one, std::uint64_t begin, std::uint64_t length,
          shared_range &found) noexcept {
    const std::uint64_t next = begin + found.length;
    if (!one.shared || one.begin > next)
        return false;
    const std::uint64_t offset = one.offset + (next - one.begin);
    if (found.length == 0)
        found = {one.device, one.inode, offset, 0};
    else if (found.device != one.device || found.inode != one.inode ||
             found.offset + found.length != offset)
        return false;
    found.length = std::min(one.end - begin, length);
    return true;
}

struct closes {
    void operator()(std::FILE *file) const noexcept { std::fclose(file); }
};

/// All that are held, so that a child of a fork can let go of its parent's: a lock is an open
/// file's, and would hold on in there.
struct {
    lock guard;
    shared_meaning *first = nullptr;
    bool prepared = false;
} all;

void prepare_for_fork() noexcept {
    if (std::exchange(all.prepared, true))
        return;
    pthread_atfork([] { all.guard.lock_it(); }, [] { all.guard.unlock(); },
                   [] {
                       for (; all.first != nullptr; all.first = all.first->next)
                           close(all.first->file);
                       all.guard.unlock();
                   });
}

bool lock_with_others(int file) noexcept {
    int result;
    do
        result = flock(file, LOCK_SH);
    while (result != 0 && errno == EINTR);
    return result == 0;
}
bool lock_alone(int file) noexcept {
    return flock(file, LOCK_EX | LOCK_NB) == 0;
}

bool is_mine(const struct stat &about) noexcept {
    return S_ISREG(about.st_mode) && about.st_uid == geteuid();
}

} // namespace

bool find_shared(const void *at, std::size_t length, shared_range &found) noexcept {
    const auto begin = reinterpret_cast<std::uintptr_t>(at);
    const std::unique_ptr<std::FILE, closes> maps(std::fopen("/proc/self/maps", "re"));
    found = {};
    char line[512];
    bool whole = true; // of a line that is longer than there is room, the rest says nothing
    while (maps != nullptr && std::fgets(line, sizeof line, maps.get()) != nullptr) {
        mapping one;
        const bool begins = std::exchange(whole, std::strchr(line, '\n') != nullptr);
        if (!begins || !understand(line, one) || one.end <= begin)
            continue;
        if (!take(one, begin, length, found))
            return false;
        if (found.length == length)
            return true;
    }
    return false;
}

shared_meaning::shared_meaning(const cookie &id) noexcept {
    int end = std::snprintf(name.data(), name.size(), "/dev/shm/coherdma-lmr-%u-", geteuid());
    for (const char each : id)
        end += std::snprintf(name.data() + end, name.size() - static_cast<std::size_t>(end), "%02x",
                             static_cast<unsigned>(static_cast<unsigned char>(each)));
}

// Who is alone with the file says what the cookie means. A lock is not turned into another in one
// step: somebody may be alone in between. So all look, last, at what there is when they have it
// together; and if it is not what they mean, whether anybody is left who means it.
DAT_RETURN shared_meaning::settle(const shared_range &range) noexcept {
    for (;; close(file)) {
        file = open(name.data(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        struct stat about = {};
        if (file < 0 || fstat(file, &about) != 0)
            return errno == EACCES || errno == ELOOP ? wrong_state(DAT_NO_SUBTYPE)
                                                     : failed_with(errno, DAT_RESOURCE_MEMORY);
        if (!is_mine(about))
            return wrong_state(DAT_NO_SUBTYPE);
        shared_range said;
        for (bool alone = lock_alone(file);; alone = true) {
            if (alone && pwrite(file, &range, sizeof range, 0) != sizeof range)
                return failed_with(errno, DAT_RESOURCE_MEMORY);
            if (!lock_with_others(file))
                return failed_with(errno, DAT_RESOURCE_MEMORY);
            if ((pread(file, &said, sizeof said, 0) == sizeof said && said == range) ||
                !lock_alone(file))
                break;
        }
        // The last to leave takes the name away: then others have made another file.
        if (fstat(file, &about) == 0 && about.st_nlink != 0)
            return said == range ? DAT_SUCCESS : wrong_state(DAT_NO_SUBTYPE);
    }
}

std::unique_ptr<shared_meaning> shared_meaning::hold(const cookie &id, const shared_range &range,
                                                     DAT_RETURN &result) noexcept {
    std::unique_ptr<shared_meaning> made(new (std::nothrow) shared_meaning(id));
    const holding held(all.guard);
    prepare_for_fork();
    result = made != nullptr ? made->settle(range) : exhausted(DAT_RESOURCE_MEMORY);
    if (result != DAT_SUCCESS)
        return nullptr;
    made->next = all.first;
    all.first = made.get();
    return made;
}

shared_meaning::~shared_meaning() {
    const holding held(all.guard);
    for (shared_meaning **link = &all.first; *link != nullptr; link = &(*link)->next)
        if (*link == this) {
            *link = next;
            break;
        }
    if (file < 0)
        return;
    struct stat about = {};
    if (lock_alone(file) && fstat(file, &about) == 0 && about.st_nlink != 0 && is_mine(about))
        unlink(name.data());
    close(file);
}

} // namespace coherdma::dapl
