// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "robust_mutex.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace coherdma::emulation {

void init_robust_mutex(pthread_mutex_t &mutex) noexcept {
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&mutex, &attr);
    pthread_mutexattr_destroy(&attr);
}

robust_lock_guard::robust_lock_guard(pthread_mutex_t &mutex) noexcept
    : mutex_(mutex) {
    const int error = pthread_mutex_lock(&mutex_);
    if (error == EOWNERDEAD)
        pthread_mutex_consistent(&mutex_);
    is_locked_ = error == 0 || error == EOWNERDEAD;
}

robust_lock_guard::~robust_lock_guard() {
    if (is_locked_)
        pthread_mutex_unlock(&mutex_);
}

/// In clock ticks: it differs from that of a later process with the same PID. 0: there is no such
/// process.
std::uint64_t process_start_time(std::int32_t pid) noexcept {
    char path[32], text[1024];
    std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    const ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0)
        return 0;
    text[length] = '\0';
    constexpr int STARTTIME = 22;              // its field in proc_pid_stat(5)
    const char *pos = std::strrchr(text, ')'); // end of field 2, which may contain any character
    for (int field = 2; pos != nullptr && field < STARTTIME; ++field)
        pos = std::strchr(pos + 1, ' ');
    return pos != nullptr ? std::strtoull(pos, nullptr, 10) : 0;
}

} // namespace coherdma::emulation
