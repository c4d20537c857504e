// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "usage.hpp"

#include "dat.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <malloc.h>
#include <thread>
#include <unistd.h>

namespace scale {

namespace {

/// Of a folder of /proc: descriptors or threads.
std::size_t count_entries(const char *folder) {
    namespace fs = std::filesystem;
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
}

/// Each descriptor, and what it is of.
std::vector<std::string> list_fds() {
    std::vector<std::string> fds;
    std::error_code ignored_error; // the folder's own
    for (const auto &each : std::filesystem::directory_iterator("/proc/self/fd"))
        fds.push_back(each.path().filename().string() + " of " +
                      std::filesystem::read_symlink(each.path(), ignored_error).string());
    return fds;
}

std::size_t resident_bytes() {
    std::size_t total_pages = 0, resident_pages = 0;
    std::ifstream("/proc/self/statm") >> total_pages >> resident_pages;
    return resident_pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::size_t count_mappings() {
    std::ifstream maps("/proc/self/maps");
    return static_cast<std::size_t>(
        std::count(std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>(), '\n'));
}

} // namespace

void use_one_heap() {
    mallopt(M_ARENA_MAX, 1);
}

usage read_usage() {
    malloc_trim(0); // What is free but still has its pages is no leak.
    const struct mallinfo2 heap = mallinfo2();
    return {heap.uordblks + heap.hblkhd,
            resident_bytes(),
            count_mappings(),
            count_entries("/proc/self/fd"),
            count_entries("/proc/self/task"),
            list_fds()};
}

void require_threads(std::size_t max_threads) {
    // The system may take a moment to forget a thread that was joined.
    for (int i = 0; i != 100 && count_entries("/proc/self/task") > max_threads; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    require(count_entries("/proc/self/task") <= max_threads,
            "there are no more threads than before");
}

void require_no_growth(const char *work, const usage &before, const usage &after) {
    // A freed chunk may stay in a thread's cache, where it counts as in use; and the system counts
    // pages per CPU, and sums them up late.
    constexpr std::size_t cached_slack = 16 << 10, resident_slack = 512 << 10;
    std::printf("%s: allocated %zu -> %zu, resident %zu -> %zu, mappings %zu -> %zu, descriptors "
                "%zu -> %zu, threads %zu -> %zu\n",
                work, before.allocated, after.allocated, before.resident, after.resident,
                before.mappings, after.mappings, before.descriptors, after.descriptors,
                before.threads, after.threads);
    require(after.allocated <= before.allocated + cached_slack,
            "no more memory is allocated than before");
    require(after.resident <= before.resident + resident_slack,
            "no more memory is resident than before");
    constexpr std::size_t mappings_slack = 2;
    require(after.mappings <= before.mappings + mappings_slack,
            "there are no more mappings than before");
    for (const std::string &each : after.files)
        if (std::find(before.files.begin(), before.files.end(), each) == before.files.end())
            std::printf("new: descriptor %s\n", each.c_str());
    require(after.descriptors <= before.descriptors, "there are no more descriptors than before");
    require_threads(before.threads);
}

} // namespace scale
