// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "slot_lock.hpp"

#include "own_descriptor.hpp"

#include <fcntl.h>
#include <mutex>
#include <pthread.h>
#include <sys/mman.h>
#include <vector>

namespace coherdma::emulation {
namespace {

/// Never freed: it is used until the process ends.
struct slot_files {
    std::mutex mutex;
    std::vector<own_descriptor> open;
} *files = new slot_files;

void lock_files() {
    files->mutex.lock();
}
void unlock_files() {
    files->mutex.unlock();
}
void close_files_in_child() {
    for (const own_descriptor &file : files->open)
        file.close();
    files->open.clear();
    files->mutex.unlock();
}

struct flock byte_lock(unsigned slot) noexcept {
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = static_cast<off_t>(slot);
    lock.l_len = 1;
    return lock;
}

} // namespace

void close_at_fork(int fd) {
    static const bool has_handlers =
        pthread_atfork(lock_files, unlock_files, close_files_in_child) == 0;
    static_cast<void>(has_handlers);
    const std::lock_guard guard(files->mutex);
    files->open.emplace_back(fd);
}

void close_slot_file(int fd) noexcept {
    const std::lock_guard guard(files->mutex);
    std::erase_if(files->open, [fd](const own_descriptor &file) {
        if (file.fd() == fd)
            file.close();
        return file.fd() == fd;
    });
}

void *map_slot_file(int fd, std::size_t length, off_t offset) noexcept {
    void *const mapped = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
    if (mapped != MAP_FAILED)
        madvise(mapped, length, MADV_DONTFORK);
    return mapped;
}

bool lock_slot(int fd, unsigned slot) noexcept {
    struct flock lock = byte_lock(slot);
    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

bool is_slot_locked(int fd, unsigned slot) noexcept {
    struct flock lock = byte_lock(slot);
    return fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

} // namespace coherdma::emulation
