// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// registers DEVICE size MEGABYTES     how much more is in use while so much is registered, in
// percent registers DEVICE cycles COUNT       how much more after so many registrations, in
// kilobytes registers DEVICE until-refused      regions until there is no memory: the error's name
// registers DEVICE fork               a child ends what it inherited, and opens the device itself
//
// Where nothing else runs: memory in use is that of the whole system.

#include "verbs.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace carry;

namespace {

constexpr std::size_t MEGABYTE = 1 << 20;
constexpr int ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

using context = owned<ibv_context, ibv_close_device>;
using domain = owned<ibv_pd, ibv_dealloc_pd>;
using region = owned<ibv_mr, ibv_dereg_mr>;

context open_device(const std::string &name) {
    int count = 0;
    const owned<ibv_device *, ibv_free_device_list> list(ibv_get_device_list(&count));
    for (int each = 0; each < count; ++each)
        if (name == ibv_get_device_name(list.get()[each]))
            return check(context(ibv_open_device(list.get()[each])), name.c_str());
    throw failure("no device " + name);
}

/// Pages that are nobody's file, in kilobytes.
long in_use() {
    std::ifstream facts("/proc/meminfo");
    long sum = 0, value = 0;
    for (std::string word; facts >> word;)
        if ((word == "AnonPages:" || word == "Shmem:") && facts >> value)
            sum += value;
    return sum;
}

struct memory {
    std::size_t size;
    void *at;
    explicit memory(std::size_t bytes)
        : size(bytes)
        , at(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
        check(at == MAP_FAILED ? -1 : 0, "mmap");
    }
    ~memory() { munmap(at, size); }
    memory(const memory &) = delete;
    memory &operator=(const memory &) = delete;
};

region registered(const domain &in, const memory &what) {
    return check(region(ibv_reg_mr(in.get(), what.at, what.size, ACCESS)), "ibv_reg_mr");
}

void size(const domain &in, std::size_t megabytes) {
    const memory all(megabytes * MEGABYTE);
    std::memset(all.at, 1, all.size);
    const long before = in_use();
    region one = registered(in, all);
    const long between = in_use();
    one.reset();
    std::printf(
        "registered %zu MB: %.2f %% more in use, and %.2f %% afterwards\n", megabytes,
        100.0 * static_cast<double>(between - before) * 1024 / static_cast<double>(all.size),
        100.0 * static_cast<double>(in_use() - before) * 1024 / static_cast<double>(all.size));
}

void cycles(const domain &in, std::size_t count) {
    const memory all(MEGABYTE / 16);
    std::memset(all.at, 1, all.size);
    const auto repeat = [&](std::size_t times) {
        for (std::size_t each = 0; each < times; ++each)
            registered(in, all);
    };
    repeat(10); // what is made once is there
    const long before = in_use();
    repeat(count);
    std::printf("registered %zu times: %ld KB more\n", count, in_use() - before);
}

void until_refused(const domain &in) {
    std::vector<std::unique_ptr<memory>> all;
    std::vector<region> regions;
    for (std::size_t count = 0; count < 1000; ++count) {
        all.push_back(std::make_unique<memory>(64 * MEGABYTE));
        region next(ibv_reg_mr(in.get(), all.back()->at, all.back()->size, ACCESS));
        if (!next) {
            std::printf("refused after %zu: %s\n", count, std::strerror(errno));
            regions.clear();
            next = registered(in, *all.front());
            std::printf("and again when others are gone\n");
            return;
        }
        regions.push_back(std::move(next));
    }
    throw failure("never refused");
}

void fork_and_open(const std::string &device, const domain &in) {
    memory all(MEGABYTE);
    region one = registered(in, all);
    std::fflush(nullptr);
    const pid_t child = fork();
    check(child < 0 ? -1 : 0, "fork");
    if (child == 0) {
        // The kernel may refuse: the region is another process's. It must not be a crash.
        ibv_dereg_mr(one.release());
        const context own = open_device(device);
        const domain own_domain = check(domain(ibv_alloc_pd(own.get())), "ibv_alloc_pd");
        memory more(MEGABYTE);
        registered(own_domain, more);
        std::printf("the child has registered\n");
        std::exit(0); // as a program does
    }
    int status = 0;
    waitpid(child, &status, 0);
    check(status == 0 ? 0 : ECHILD, "the child");
    registered(in, all);
    std::printf("the parent has registered\n");
}

} // namespace

int main(int count, char **words) {
    const std::string what = count > 2 ? words[2] : "";
    const std::size_t number = count > 3 ? std::strtoul(words[3], nullptr, 10) : 0;
    try {
        const context device = open_device(count > 1 ? words[1] : "");
        const domain in = check(domain(ibv_alloc_pd(device.get())), "ibv_alloc_pd");
        if (what == "size")
            size(in, number);
        else if (what == "cycles")
            cycles(in, number);
        else if (what == "until-refused")
            until_refused(in);
        else if (what == "fork")
            fork_and_open(words[1], in);
        else
            throw failure("size, cycles, until-refused or fork");
    } catch (const failure &problem) {
        std::fprintf(stderr, "registers: %s\n", problem.what());
        return 1;
    }
    return 0;
}
