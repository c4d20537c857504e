// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "process.hpp"

#include <dirent.h>
#include <fstream>
#include <linux/capability.h>
#include <memory>
#include <stdexcept>
#include <sys/syscall.h>
#include <unistd.h>

namespace conform {

namespace {

std::size_t entries(const char *folder) {
    const std::unique_ptr<DIR, int (*)(DIR *)> all(opendir(folder), closedir);
    if (!all)
        throw std::runtime_error("opendir");
    std::size_t count = 0;
    while (const dirent *each = readdir(all.get()))
        count += each->d_name[0] != '.';
    return count;
}

/// CAP_IPC_LOCK, which makes the limit void: whether it is in effect.
void pin_at_will(bool may) {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct sets[2]{};
    if (syscall(SYS_capget, &header, sets) != 0)
        throw std::runtime_error("capget");
    constexpr unsigned bit = 1U << CAP_IPC_LOCK;
    sets[0].effective =
        may ? sets[0].effective | (sets[0].permitted & bit) : sets[0].effective & ~bit;
    if (syscall(SYS_capset, &header, sets) != 0)
        throw std::runtime_error("capset");
}

} // namespace

memlock_limit::memlock_limit(std::size_t bytes) {
    if (getrlimit(RLIMIT_MEMLOCK, &before_) != 0)
        throw std::runtime_error("getrlimit");
    rlimit now = before_;
    now.rlim_cur = bytes;
    if (setrlimit(RLIMIT_MEMLOCK, &now) != 0)
        throw std::runtime_error("setrlimit");
    pin_at_will(false);
}
memlock_limit::~memlock_limit() {
    pin_at_will(true);
    setrlimit(RLIMIT_MEMLOCK, &before_);
}

std::size_t open_files() {
    return entries("/proc/self/fd");
}
std::size_t living_threads() {
    return entries("/proc/self/task");
}
std::size_t resident_pages() {
    std::ifstream counts("/proc/self/statm");
    std::size_t all = 0, resident = 0;
    counts >> all >> resident;
    return resident;
}

} // namespace conform
