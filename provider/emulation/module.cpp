// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the plugin and libcoherdma find here. A device is played from the moment it is opened, and
// all of a process by the settings of the first.

#include "cache/emulated.hpp"
#include "hooks/neighbours.hpp"
#include "hooks/parts.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <pthread.h>
#include <thread>
#include <unistd.h>

namespace coherdma::emulation {
namespace {

void close(ibv_context *context) noexcept {
    const auto free_context = find(context)->under.free_context;
    remove_device(context);
    free_context(context);
}

/// Lines move without a call of the program's, too.
void wander() noexcept {
    using std::chrono::steady_clock;
    // In stale it only looks for what has been so for long.
    const std::chrono::microseconds least{here().asked.plays == mode::STALE ? 100000 : 500};
    constexpr int SHARE = 4; // a fifth of a processor at most
    pthread_setname_np(pthread_self(), "coherdma-cache");
    for (auto rest = steady_clock::duration(least);;) {
        std::this_thread::sleep_for(rest);
        const auto begin = steady_clock::now();
        here().memory.wander();
        rest = std::max<steady_clock::duration>(least, SHARE * (steady_clock::now() - begin));
    }
}

void begin_to_wander() {
    sigset_t every, before;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    std::thread(wander).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

/// Before the program's own destructors free what is registered.
void end() noexcept {
    if (!is_begun()) // a child that opened nothing
        return;
    neighbours::leave();
    here().memory.finish();
    here().memory.leave();
    const std::size_t count = here().told.finish();
    if (count == 0 || here().asked.status == 0)
        return;
    std::fflush(nullptr);
    _exit(here().asked.status);
}

std::mutex beginning;
bool is_going = false; ///< threads and a desk, in this process

void begin_anew_in_child() {
    new (&beginning) std::mutex;
    begin_anew();
    neighbours::begin_anew();
    is_going = false;
}

void begin_all(const settings &asked) {
    static const bool once =
        std::atexit(end) == 0 && pthread_atfork(nullptr, nullptr, begin_anew_in_child) == 0;
    static_cast<void>(once);
    if (here().memory.wanders())
        begin_to_wander();
    if (asked.plays != mode::THROUGH)
        neighbours::join();
}

int begin(ibv_context *context, const handover &from) {
    const char *const name = ibv_get_device_name(context->device);
    const settings asked = read_settings(name, from.driver == RDMA_DRIVER_SIW ? "siw" : "rxe");
    if (!asked.problem.empty()) {
        std::fprintf(stderr, "coherdma: %s cannot be emulated: %s\n", name, asked.problem.c_str());
        return EINVAL;
    }
    if (asked.plays == mode::NONE)
        return 0;
    auto one = std::make_unique<played>();
    one->verbs = context;
    one->device = name;
    one->driver = from.driver;
    one->under = *from.able;
    one->deregister = from.deregister;
    one->set_operations = from.set_operations;
    add_device(std::move(one), asked);
    {
        const std::lock_guard held(beginning);
        if (!is_going)
            begin_all(asked);
        is_going = true;
    }
    if (here().asked.plays != asked.plays)
        here().told.note(std::string(name) + " is to be played as " + name_of(asked.plays) +
                         ", but this process has begun with " + name_of(here().asked.plays) +
                         ": that is played");
    play_regions(*from.able);
    play_posting(*from.able);
    play_polling(*from.able);
    play_pairs(*from.able);
    from.able->free_context = close;
    return 0;
}

// -- for libcoherdma

using ranges = const coherdma::cache::range *;

std::vector<span> spans(ranges list, std::size_t count) {
    std::vector<span> all(count);
    for (std::size_t each = 0; each < count; ++each)
        all[each] = {list[each].begin, list[each].begin + list[each].length};
    return all;
}

// A child may have inherited a handle of libcoherdma's: then it has nothing to sync.

int check(ranges list, std::size_t count, std::uintptr_t *where) noexcept try {
    return !is_begun() ? 0 : here().memory.check(spans(list, count).data(), count, where);
} catch (const std::bad_alloc &) {
    return ENOMEM;
}

void nothing() noexcept {}
bool always() noexcept {
    return true;
}
void clean(ranges list, std::size_t count, std::size_t) noexcept {
    if (is_begun())
        here().memory.sync_read(spans(list, count).data(), count);
}
void flush(ranges list, std::size_t count, std::size_t) noexcept {
    if (is_begun())
        here().memory.sync_write(spans(list, count).data(), count);
}

const coherdma::cache::path PATH = {"emulated", nothing, clean,   nothing,
                                    nothing,    flush,   nothing, always};

bool plays(const ibv_context *context) noexcept {
    return find(context) != nullptr;
}
const char *mode_name() noexcept {
    return name_of(here().asked.plays);
}
std::size_t line_size() noexcept {
    return here().asked.line;
}

} // namespace
} // namespace coherdma::emulation

using namespace coherdma::emulation;

extern "C" [[gnu::visibility("default")]] int coherdma_emulation_begin(ibv_context *context,
                                                                       const handover *from) {
    if (from->size != sizeof *from)
        return EINVAL;
    try {
        return begin(context, *from);
    } catch (const std::exception &problem) {
        std::fprintf(stderr, "coherdma: a device cannot be emulated: %s\n", problem.what());
        return ENOMEM;
    }
}

extern "C" [[gnu::visibility("default")]] const coherdma::cache::emulated coherdma_emulation = {
    sizeof(coherdma::cache::emulated), plays, check, mode_name, line_size, &PATH};
