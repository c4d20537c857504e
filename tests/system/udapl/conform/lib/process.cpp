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

std::size_t count_entries(const char *directory) {
    const std::unique_ptr<DIR, int (*)(DIR *)> dir(opendir(directory), closedir);
    if (!dir)
        throw std::runtime_error("opendir");
    std::size_t count = 0;
    while (const dirent *entry = readdir(dir.get()))
        count += entry->d_name[0] != '.';
    return count;
}

/// CAP_IPC_LOCK, which makes the limit void: whether it is in effect.
void set_ipc_lock(bool enable) {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct sets[2]{};
    if (syscall(SYS_capget, &header, sets) != 0)
        throw std::runtime_error("capget");
    constexpr unsigned bit = 1U << CAP_IPC_LOCK;
    sets[0].effective =
        enable ? sets[0].effective | (sets[0].permitted & bit) : sets[0].effective & ~bit;
    if (syscall(SYS_capset, &header, sets) != 0)
        throw std::runtime_error("capset");
}

} // namespace

memlock_limit::memlock_limit(std::size_t bytes) {
    if (getrlimit(RLIMIT_MEMLOCK, &old_limit_) != 0)
        throw std::runtime_error("getrlimit");
    rlimit limit = old_limit_;
    limit.rlim_cur = bytes;
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0)
        throw std::runtime_error("setrlimit");
    set_ipc_lock(false);
}
memlock_limit::~memlock_limit() {
    set_ipc_lock(true);
    setrlimit(RLIMIT_MEMLOCK, &old_limit_);
}

std::size_t count_open_files() {
    return count_entries("/proc/self/fd");
}
std::size_t count_threads() {
    return count_entries("/proc/self/task");
}
std::size_t count_resident_pages() {
    std::ifstream statm("/proc/self/statm");
    std::size_t total = 0, resident = 0;
    statm >> total >> resident;
    return resident;
}

} // namespace conform
