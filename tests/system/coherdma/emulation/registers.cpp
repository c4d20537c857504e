// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// registers DEVICE size MEGABYTES     memory in use during a registration, in percent of its size
// registers DEVICE cycles COUNT       growth after COUNT registrations, in kilobytes
// registers DEVICE until-refused      registers until memory runs out; prints the error
// registers DEVICE fork               a child closes inherited objects and opens the device itself
// registers DEVICE huge               registers parts of huge pages
// registers DEVICE sync               syncs while operator new fails
// registers DEVICE open               opens the device while operator new fails, and again
// registers DEVICE exit               syncs until a signal handler calls exit(3)
// registers DEVICE reopen GID_INDEX   closes the device with an MR, and registers its memory again
//
// It measures the memory of the whole system: no other program may run.

#include "../../lib/connected_qps.hpp"

#include <coherdma/coherdma.h>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <infiniband/verbs.h>
#include <new>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace verbs_test;

namespace {

/// Of operator new until it fails; -1: it does not.
int allocations_left = -1;

} // namespace

[[gnu::noinline]] void *operator new(std::size_t size) {
    if (allocations_left == 0)
        throw std::bad_alloc();
    allocations_left -= allocations_left > 0 ? 1 : 0;
    if (void *const memory = std::malloc(size))
        return memory;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void *memory) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void *memory, std::size_t) noexcept {
    std::free(memory);
}

namespace {

constexpr std::size_t MEGABYTE = 1 << 20;
constexpr int ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

using context = unique_handle<ibv_context, ibv_close_device>;
using pd_ptr = unique_handle<ibv_pd, ibv_dealloc_pd>;
using mr_ptr = unique_handle<ibv_mr, ibv_dereg_mr>;

/// max_allocations: of operator new, until it fails.
context try_open_device(const std::string &name, int max_allocations) {
    int count = 0;
    const unique_handle<ibv_device *, ibv_free_device_list> list(ibv_get_device_list(&count));
    for (int i = 0; i < count; ++i)
        if (name == ibv_get_device_name(list.get()[i])) {
            allocations_left = max_allocations;
            context opened(ibv_open_device(list.get()[i]));
            allocations_left = -1;
            return opened;
        }
    throw failure("no device " + name);
}
context open_device(const std::string &name) {
    return check(try_open_device(name, -1), name.c_str());
}

/// Anonymous and shared memory of the system, in kilobytes.
long memory_in_use() {
    std::ifstream meminfo("/proc/meminfo");
    long sum = 0, value = 0;
    for (std::string word; meminfo >> word;)
        if ((word == "AnonPages:" || word == "Shmem:") && meminfo >> value)
            sum += value;
    return sum;
}

struct memory {
    std::size_t size;
    void *addr;
    explicit memory(std::size_t size_bytes)
        : size(size_bytes)
        , addr(mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                    0)) {
        check(addr == MAP_FAILED ? -1 : 0, "mmap");
    }
    ~memory() { munmap(addr, size); }
    memory(const memory &) = delete;
    memory &operator=(const memory &) = delete;
};

mr_ptr register_memory(const pd_ptr &pd, const memory &buffer) {
    return check(mr_ptr(ibv_reg_mr(pd.get(), buffer.addr, buffer.size, ACCESS)), "ibv_reg_mr");
}

// The emulation has a copy of registered memory: prints what a registration adds, and what remains
// after the deregistration.
void measure_size(const pd_ptr &pd, std::size_t megabytes) {
    const memory buffer(megabytes * MEGABYTE);
    std::memset(buffer.addr, 1, buffer.size);
    const long before = memory_in_use();
    mr_ptr mr = register_memory(pd, buffer);
    const long during = memory_in_use();
    mr.reset();
    std::printf("registered %zu MB: %.2f %% more in use, and %.2f %% afterwards\n", megabytes,
                100.0 * static_cast<double>(during - before) * 1024 /
                    static_cast<double>(buffer.size),
                100.0 * static_cast<double>(memory_in_use() - before) * 1024 /
                    static_cast<double>(buffer.size));
}

// Registers and deregisters again and again: prints the growth, which a leak makes large.
void measure_cycles(const pd_ptr &pd, std::size_t count) {
    const memory buffer(MEGABYTE / 16);
    std::memset(buffer.addr, 1, buffer.size);
    const auto repeat = [&](std::size_t num_times) {
        for (std::size_t i = 0; i < num_times; ++i)
            register_memory(pd, buffer);
    };
    constexpr std::size_t num_warmups = 10; // allocate what is allocated once
    repeat(num_warmups);
    const long before = memory_in_use();
    repeat(count);
    std::printf("registered %zu times: %ld KB more\n", count, memory_in_use() - before);
}

// A registration for which there is no memory fails and is reported; after deregistrations it
// succeeds.
void register_until_failure(const pd_ptr &pd) {
    std::vector<std::unique_ptr<memory>> buffers;
    std::vector<mr_ptr> mrs;
    constexpr std::size_t max_registrations = 1000; // more than a guest has memory for
    for (std::size_t count = 0; count < max_registrations; ++count) {
        buffers.push_back(std::make_unique<memory>(64 * MEGABYTE));
        mr_ptr mr(ibv_reg_mr(pd.get(), buffers.back()->addr, buffers.back()->size, ACCESS));
        if (!mr) {
            std::printf("failed after %zu: %s\n", count, std::strerror(errno));
            mrs.clear();
            mr = register_memory(pd, *buffers.front());
            std::printf("succeeded after deregistration\n");
            return;
        }
        mrs.push_back(std::move(mr));
    }
    throw failure("never failed");
}

// A child that deregisters an inherited MR goes on: it opens the device and registers memory. The
// parent can still register memory, too.
void test_fork(const std::string &device, const pd_ptr &pd) {
    memory buffer(MEGABYTE);
    mr_ptr mr = register_memory(pd, buffer);
    std::fflush(nullptr);
    const pid_t child = fork();
    check(child < 0 ? -1 : 0, "fork");
    if (child == 0) {
        // The kernel may fail this call, since the MR is of another process; it must not crash.
        ibv_dereg_mr(mr.release());
        const context child_context = open_device(device);
        const pd_ptr child_pd = check(pd_ptr(ibv_alloc_pd(child_context.get())), "ibv_alloc_pd");
        memory child_buffer(MEGABYTE);
        register_memory(child_pd, child_buffer);
        std::printf("the child has registered\n");
        std::exit(0); // runs exit handlers, as programs do
    }
    int status = 0;
    waitpid(child, &status, 0);
    check(status == 0 ? 0 : ECHILD, "the child");
    register_memory(pd, buffer);
    std::printf("the parent has registered\n");
}

/// Parts of huge pages, which the system must have, and of transparent ones.
void register_huge_pages(const pd_ptr &pd) {
    constexpr std::size_t HUGE_PAGE = 2 * MEGABYTE, COUNT = 2, PAGE = 4096;
    constexpr std::size_t PARTS[][2] = {// offset and length
                                        {0, COUNT * HUGE_PAGE},
                                        {0, PAGE},
                                        {3 * PAGE + 10, 100},
                                        {HUGE_PAGE - PAGE, 2 * PAGE}};
    for (const int flags : {0, MAP_HUGETLB}) {
        void *const pages = mmap(nullptr, COUNT * HUGE_PAGE, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
        check(pages == MAP_FAILED ? -1 : 0, "map huge pages");
        madvise(pages, COUNT * HUGE_PAGE, MADV_HUGEPAGE);
        std::memset(pages, 1, COUNT * HUGE_PAGE);
        for (const auto &[offset, length] : PARTS)
            check(mr_ptr(ibv_reg_mr(pd.get(), static_cast<std::byte *>(pages) + offset, length,
                                    ACCESS)),
                  "ibv_reg_mr of a part of a huge page");
        munmap(pages, COUNT * HUGE_PAGE);
    }
    std::printf("registered parts of huge pages\n");
}

/// operator new fails from the count-th allocation of a sync on: the sync may be incomplete, but
/// must not end the process.
void sync_without_memory(const context &verbs_context, const pd_ptr &pd) {
    constexpr int MAX_ALLOCATIONS = 100;
    const memory buffer(MEGABYTE / 16);
    const mr_ptr mr = register_memory(pd, buffer);
    const unique_handle<coherdma_device, coherdma_close_device> device =
        check(unique_handle<coherdma_device, coherdma_close_device>(
                  coherdma_open_device(verbs_context.get())),
              "coherdma_open_device");
    const coherdma_range range = {.addr = buffer.addr, .length = 4096};
    for (int count = 0; count < MAX_ALLOCATIONS; ++count) {
        for (const auto sync : {coherdma_sync_before_read, coherdma_sync_after_write}) {
            std::memset(buffer.addr, count + 1, buffer.size);
            allocations_left = count;
            const int error = sync(device.get(), &range, 1);
            allocations_left = -1;
            check(error, "a sync without memory");
        }
    }
    std::printf("synced without memory\n");
}

int count_threads(const std::string &name) {
    int count = 0;
    for (const auto &task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::string comm;
        std::getline(std::ifstream(task.path() / "comm"), comm);
        count += comm == name ? 1 : 0;
    }
    return count;
}

/// Threads have their names soon after they were started.
int count_started_threads(const std::string &name) {
    constexpr int MAX_STEPS = 1000;
    constexpr useconds_t STEP_US = 10000;
    for (int i = 0; i < MAX_STEPS && count_threads(name) == 0; ++i)
        usleep(STEP_US);
    usleep(STEP_US);
    return count_threads(name);
}

/// In processes of its own: operator new fails from the count-th allocation of an open on. The next
/// open succeeds, and does not start again what the first has started.
void open_without_memory(const std::string &name) {
    constexpr int MAX_ALLOCATIONS = 2000, REFUSED = 0, OPENED = 3;
    int count = 0, status = 0;
    for (; WEXITSTATUS(status) == REFUSED; ++count) {
        check(count < MAX_ALLOCATIONS ? 0 : -1, "open it with so many allocations");
        const pid_t child = fork();
        check(child < 0 ? -1 : 0, "fork");
        if (child == 0) {
            const bool is_opened = try_open_device(name, count) != nullptr;
            const context device = open_device(name);
            const int num_threads = count_started_threads("coherdma-cache");
            if (num_threads != 1)
                std::printf("after %d allocations: %d threads\n", count, num_threads);
            std::fflush(stdout);
            _exit(num_threads != 1 ? 1 : is_opened ? OPENED : REFUSED);
        }
        waitpid(child, &status, 0);
        check(WIFEXITED(status) ? 0 : -1, "a child");
    }
    check(WEXITSTATUS(status) == OPENED && count > 1 ? 0 : -1, "open it again");
    std::printf("opened without memory\n");
}

/// The handler may interrupt a sync.
void exit_in_handler(const context &verbs_context, const pd_ptr &pd) {
    const memory buffer(MEGABYTE / 16);
    const mr_ptr mr = register_memory(pd, buffer);
    const unique_handle<coherdma_device, coherdma_close_device> device =
        check(unique_handle<coherdma_device, coherdma_close_device>(
                  coherdma_open_device(verbs_context.get())),
              "coherdma_open_device");
    const coherdma_range range = {.addr = buffer.addr, .length = buffer.size};
    std::signal(SIGALRM, [](int) { std::exit(3); });
    constexpr itimerval SOON = {.it_interval = {}, .it_value = {.tv_sec = 0, .tv_usec = 20000}};
    check(setitimer(ITIMER_REAL, &SOON, nullptr), "setitimer");
    for (;;)
        check(coherdma_sync_before_read(device.get(), &range, 1), "a sync");
}

// The device's pages end with the context, also those of an MR that the program has not
// deregistered: the next MR of the memory begins with what the program has there.
void test_reopen(const std::string &name, int gid_index) {
    static std::array<std::byte, 4096> data;
    for (const int value : {1, 2}) {
        const verbs_test::device dev = verbs_test::open_device(name, gid_index);
        const auto reader = std::make_unique<endpoint>(dev),
                   owner = std::make_unique<endpoint>(dev);
        std::memset(data.data(), value, data.size());
        const ibv_mr *const mr = // never deregistered
            ibv_reg_mr(owner->pd.get(), data.data(), data.size(), default_mr_access);
        check(mr != nullptr ? 0 : -1, "register memory");
        connect(*reader, *owner);
        ibv_sge sge = reader->make_sge(1);
        ibv_send_wr wr = reader->make_wr(IBV_WR_RDMA_READ, sge), *bad_wr = nullptr;
        wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(data.data());
        wr.wr.rdma.rkey = mr->rkey;
        check(ibv_post_send(reader->qp.get(), &wr, &bad_wr), "post a Read");
        reader->expect_success("a Read");
        std::printf("wrote %d, read %d\n", value, std::to_integer<int>(reader->memory[0]));
    }
}

} // namespace

int main(int argc, char **argv) {
    const std::string test = argc > 2 ? argv[2] : "";
    const std::size_t value = argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 0;
    try {
        if (test == "open") {
            open_without_memory(argv[1]);
            return 0;
        }
        const context device = open_device(argc > 1 ? argv[1] : "");
        const pd_ptr pd = check(pd_ptr(ibv_alloc_pd(device.get())), "ibv_alloc_pd");
        if (test == "size")
            measure_size(pd, value);
        else if (test == "cycles")
            measure_cycles(pd, value);
        else if (test == "until-refused")
            register_until_failure(pd);
        else if (test == "fork")
            test_fork(argv[1], pd);
        else if (test == "reopen")
            test_reopen(argv[1], static_cast<int>(value));
        else if (test == "huge")
            register_huge_pages(pd);
        else if (test == "sync")
            sync_without_memory(device, pd);
        else if (test == "exit")
            exit_in_handler(device, pd);
        else
            throw failure("size, cycles, until-refused, fork, huge, sync, open, exit or reopen");
    } catch (const failure &e) {
        std::fprintf(stderr, "registers: %s\n", e.what());
        return 1;
    }
    return 0;
}
