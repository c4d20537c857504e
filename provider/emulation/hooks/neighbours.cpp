// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A file in /dev/shm with a desk for each process. On it lie the keys of its memory, and one
// question at a time. A desk's lock is robust: who dies with it leaves it to the next. Whatever is
// read there may have been written by a process gone wrong: it is checked like data from the wire.
//
// Ordering. A question is written before `state` is stored with release as ASKED, and read after
// that is seen with acquire; the same for the answer.

#include "neighbours.hpp"

#include "core/between.hpp"

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace coherdma::emulation::neighbours {
namespace {

constexpr std::uint32_t MAGIC = 0xc0e4d001; // with the layout's version
constexpr std::size_t DESKS = 64, KEYS = 1024, WORDS = 192, STACK = 1600;
constexpr timespec PATIENCE = {0, 300000000}; // for a question to be answered

enum state : std::uint32_t { IDLE, ASKED, ANSWERED, CLOSED };

struct entry {
    std::uint32_t key, driver; ///< driver 0: none
    std::uint64_t iova, length;
};

struct question {
    std::uint32_t driver, key;
    std::uint64_t remote, length;
    std::uint32_t opcode;
    char words[WORDS];
    char stack[STACK]; ///< a line each
};

struct desk {
    pthread_mutex_t lock;              ///< of asking, and of the keys
    std::atomic<std::int32_t> process; ///< 0: nobody's
    std::atomic<std::uint64_t> since;  ///< when it began, for the number may come again
    std::atomic<std::uint32_t> state;  ///< a futex
    entry keys[KEYS];
    question asked;
};

struct hall {
    std::atomic<std::uint32_t> magic;
    pthread_mutex_t lock; ///< of taking a desk
    desk desks[DESKS];
};

struct {
    hall *all = nullptr;
    desk *mine = nullptr;
} here_is;

long futex(std::atomic<std::uint32_t> &word, int operation, std::uint32_t value,
           const timespec *time) noexcept {
    return syscall(SYS_futex, &word, operation, value, time, nullptr, 0);
}

bool lives(const desk &one) noexcept {
    const std::int32_t process = one.process.load();
    return process > 0 && begin_of(process) == one.since.load();
}

/// The file, made if nobody has. nullptr: *why.
hall *enter(std::string &why) {
    const std::string name = "/coherdma-emulation-" + std::to_string(geteuid());
    const int file = shm_open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct stat is = {};
    void *at = MAP_FAILED;
    // Under a lock of the file, which goes with its holder: who comes first makes what is in it.
    if (file >= 0 && lockf(file, F_LOCK, 0) == 0 && fstat(file, &is) == 0 &&
        is.st_uid == geteuid() &&
        (is.st_size == sizeof(hall) || ftruncate(file, sizeof(hall)) == 0))
        at = mmap(nullptr, sizeof(hall), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) {
        why = "/dev/shm" + name + ": " + std::strerror(errno);
        if (file >= 0)
            close(file);
        return nullptr;
    }
    auto *const all = static_cast<hall *>(at);
    if (all->magic.load() != MAGIC) {
        std::memset(at, 0, sizeof(hall));
        init_lock(all->lock);
        for (desk &each : all->desks)
            init_lock(each.lock);
        all->magic.store(MAGIC);
    }
    close(file); // and its lock
    return all;
}

desk *take_desk(hall &all) noexcept {
    const locked held(all.lock);
    for (desk &each : all.desks) {
        if (!held || lives(each))
            continue;
        const locked its(each.lock);
        std::memset(each.keys, 0, sizeof each.keys);
        each.state.store(IDLE);
        each.since.store(begin_of(getpid()));
        each.process.store(getpid());
        return &each;
    }
    return nullptr;
}

/// Where it is in this process; empty: it is not, or not any more.
span find_here(const question &asked) {
    span found;
    each_device([&](played &on) {
        if (on.driver == asked.driver)
            found = found.empty() ? on.where_remote(asked.key, asked.remote, asked.length) : found;
    });
    return found;
}

void answer(const question &asked) {
    constexpr std::uint32_t OPCODES = 8; // more than reach memory
    const span where = find_here(asked);
    if (where.empty() || asked.opcode >= OPCODES)
        return;
    deed by;
    by.words.assign(asked.words, strnlen(asked.words, WORDS));
    const std::string stack(asked.stack, strnlen(asked.stack, STACK));
    for (std::size_t at = 0; at < stack.size();) {
        const std::size_t end = std::min(stack.find('\n', at), stack.size());
        by.there.push_back(stack.substr(at, end - at));
        at = end + 1;
    }
    look_at(where, static_cast<ibv_wr_opcode>(asked.opcode), by);
}

void serve(desk &mine) noexcept {
    pthread_setname_np(pthread_self(), "coherdma-peers");
    for (;;) {
        const std::uint32_t seen = mine.state.load(std::memory_order_acquire);
        if (seen == CLOSED)
            return;
        if (seen != ASKED) {
            futex(mine.state, FUTEX_WAIT, seen, nullptr);
            continue;
        }
        const question asked = mine.asked; // a copy: who asks may lose patience and write another
        try {
            answer(asked);
        } catch (const std::bad_alloc &) { // then nobody knows
        }
        std::uint32_t still = ASKED;
        mine.state.compare_exchange_strong(still, ANSWERED, std::memory_order_release);
        futex(mine.state, FUTEX_WAKE, INT_MAX, nullptr);
    }
}

void ask(desk &whose, const question &what) noexcept {
    whose.asked = what;
    whose.state.store(ASKED, std::memory_order_release);
    futex(whose.state, FUTEX_WAKE, INT_MAX, nullptr);
    timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += PATIENCE.tv_nsec;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (whose.state.load(std::memory_order_acquire) == ASKED)
        if (syscall(SYS_futex, &whose.state, FUTEX_WAIT_BITSET, ASKED, &until, nullptr,
                    FUTEX_BITSET_MATCH_ANY) < 0 &&
            errno == ETIMEDOUT)
            break;
    std::uint32_t any = whose.state.load();
    while (any != CLOSED && !whose.state.compare_exchange_weak(any, IDLE)) {
    }
}

bool has(const desk &one, rdma_driver_id driver, std::uint32_t key, std::uint64_t remote,
         std::uint64_t length) noexcept {
    for (const entry &each : one.keys)
        if (each.driver == driver && each.key == key && remote >= each.iova &&
            remote - each.iova <= each.length && length <= each.length - (remote - each.iova))
            return true;
    return false;
}

/// The same place in the program is asked about over and over.
struct dictionary {
    std::mutex guard;
    std::map<std::vector<void *>, std::string> known;
} *spoken = new dictionary;

const std::string &words_of(const trace &where) {
    const std::vector<void *> key(where.at.begin(), where.at.begin() + where.depth);
    const std::lock_guard held(spoken->guard);
    const auto [at, is_new] = spoken->known.try_emplace(key);
    if (is_new)
        for (const std::string &line : in_words(where))
            at->second += line + "\n";
    return at->second;
}

} // namespace

void join() {
    std::string why = "there are more than 64 processes";
    here_is.all = enter(why);
    if (here_is.all != nullptr)
        here_is.mine = take_desk(*here_is.all);
    if (here_is.mine == nullptr) {
        emulation::here().told.note("requests of other processes on memory of this one are not "
                                    "looked at: " +
                                    why);
        return;
    }
    sigset_t every, before;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    std::thread([] { serve(*here_is.mine); }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void begin_anew() {
    here_is = {};
    spoken = new dictionary; // a thread of the other's may have been about to change it
}

void leave() noexcept {
    if (here_is.mine == nullptr)
        return;
    const locked held(here_is.mine->lock);
    here_is.mine->process.store(0);
    here_is.mine->state.store(CLOSED);
    futex(here_is.mine->state, FUTEX_WAKE, INT_MAX, nullptr);
}

void publish(rdma_driver_id driver, std::uint32_t key, const place &what) {
    if (here_is.mine == nullptr)
        return;
    const locked held(here_is.mine->lock);
    for (entry &each : here_is.mine->keys)
        if (each.driver == RDMA_DRIVER_UNKNOWN) {
            each = {key, driver, what.iova, what.where.size()};
            return;
        }
    emulation::here().told.note("this process has more than 1024 regions: what other processes do "
                                "with the rest is not looked at");
}

void withdraw(rdma_driver_id driver, std::uint32_t key) noexcept {
    if (here_is.mine == nullptr)
        return;
    const locked held(here_is.mine->lock);
    for (entry &each : here_is.mine->keys)
        if (each.driver == driver && each.key == key)
            each = {};
}

void tell(rdma_driver_id driver, std::uint32_t key, std::uint64_t remote, std::uint64_t length,
          ibv_wr_opcode opcode, const deed &by) {
    if (here_is.all == nullptr)
        return;
    desk *fitting = nullptr;
    for (desk &each : here_is.all->desks) {
        if (&each == here_is.mine || each.process.load() == 0)
            continue;
        const locked held(each.lock);
        if (!held || !has(each, driver, key, remote, length) || !lives(each))
            continue;
        if (fitting != nullptr)
            return; // nobody knows which is meant
        fitting = &each;
    }
    if (fitting == nullptr)
        return;
    question what = {};
    what.driver = driver;
    what.key = key;
    what.remote = remote;
    what.length = length;
    what.opcode = static_cast<std::uint32_t>(opcode);
    std::snprintf(what.words, sizeof what.words, "%s", by.words.c_str());
    std::snprintf(what.stack, sizeof what.stack, "%s", words_of(by.where).c_str());
    const locked held(fitting->lock);
    if (held)
        ask(*fitting, what);
}

} // namespace coherdma::emulation::neighbours
