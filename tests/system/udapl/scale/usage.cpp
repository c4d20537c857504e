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

std::size_t entries(const char *folder) {
    namespace fs = std::filesystem;
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
}

/// Each descriptor, and what it is of.
std::vector<std::string> files() {
    std::vector<std::string> all;
    std::error_code gone; // the folder's own
    for (const auto &each : std::filesystem::directory_iterator("/proc/self/fd"))
        all.push_back(each.path().filename().string() + " of " +
                      std::filesystem::read_symlink(each.path(), gone).string());
    return all;
}

std::size_t resident() {
    std::size_t all = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> all >> resident;
    return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::size_t mappings() {
    std::ifstream maps("/proc/self/maps");
    return static_cast<std::size_t>(
        std::count(std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>(), '\n'));
}

} // namespace

void one_heap() {
    mallopt(M_ARENA_MAX, 1);
}

usage now() {
    malloc_trim(0); // What is free but still has its pages is no leak.
    const struct mallinfo2 heap = mallinfo2();
    return {heap.uordblks + heap.hblkhd, resident(), mappings(), entries("/proc/self/fd"),
            entries("/proc/self/task"),  files()};
}

void need_threads(std::size_t most) {
    // The system may take a moment to forget a thread that was joined.
    for (int i = 0; i != 100 && entries("/proc/self/task") > most; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    need(entries("/proc/self/task") <= most, "there are no more threads than before");
}

void not_more(const char *work, const usage &before, const usage &after) {
    // A freed chunk may stay in a thread's cache, where it counts as in use; and the system counts
    // pages per CPU, and sums them up late.
    constexpr std::size_t cached = 16 << 10, late = 512 << 10;
    std::printf("%s: allocated %zu -> %zu, resident %zu -> %zu, mappings %zu -> %zu, descriptors "
                "%zu -> %zu, threads %zu -> %zu\n",
                work, before.allocated, after.allocated, before.resident, after.resident,
                before.mappings, after.mappings, before.descriptors, after.descriptors,
                before.threads, after.threads);
    need(after.allocated <= before.allocated + cached, "no more memory is allocated than before");
    need(after.resident <= before.resident + late, "no more memory is resident than before");
    need(after.mappings <= before.mappings + 2, "there are no more mappings than before");
    for (const std::string &each : after.files)
        if (std::find(before.files.begin(), before.files.end(), each) == before.files.end())
            std::printf("new: descriptor %s\n", each.c_str());
    need(after.descriptors <= before.descriptors, "there are no more descriptors than before");
    need_threads(before.threads);
}

} // namespace scale
