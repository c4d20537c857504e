// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "between.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace coherdma::emulation {

void init_lock(pthread_mutex_t &one) noexcept {
    pthread_mutexattr_t how;
    pthread_mutexattr_init(&how);
    pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&one, &how);
    pthread_mutexattr_destroy(&how);
}

locked::locked(pthread_mutex_t &one) noexcept
    : one_(one) {
    const int error = pthread_mutex_lock(&one_);
    if (error == EOWNERDEAD)
        pthread_mutex_consistent(&one_);
    has_ = error == 0 || error == EOWNERDEAD;
}

locked::~locked() {
    if (has_)
        pthread_mutex_unlock(&one_);
}

std::uint64_t begin_of(std::int32_t process) noexcept {
    char path[32], text[1024];
    std::snprintf(path, sizeof path, "/proc/%d/stat", process);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    const ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    if (got <= 0)
        return 0;
    text[got] = '\0';
    const char *at = std::strrchr(text, ')'); // its name may have anything
    for (int field = 2; at != nullptr && field < 22; ++field)
        at = std::strchr(at + 1, ' ');
    return at != nullptr ? std::strtoull(at, nullptr, 10) : 0;
}

} // namespace coherdma::emulation
