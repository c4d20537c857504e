// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the plugin calls, and the cache operations for libcoherdma. A device is emulated from the
// moment it is opened, and all devices of a process with the settings of the first.

#include "cache/emulated_cache.hpp"
#include "hooks/peer_ipc.hpp"
#include "hooks/wr_api.hpp"

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

void free_context(ibv_context *ctx) noexcept {
    const auto driver_free_context = find_device(ctx)->driver_ops.free_context;
    remove_device(ctx);
    driver_free_context(ctx);
}

/// Moves, poisons or marks lines while the program makes no call.
void run_background_thread() noexcept {
    using std::chrono::steady_clock;
    // Mode stale only marks lines that have been stale for a second.
    const std::chrono::microseconds min_pause{
        process_state().config.mode == cache_mode::STALE ? 100000 : 500};
    constexpr int PAUSE_FACTOR = 4; // uses at most a fifth of a CPU
    pthread_setname_np(pthread_self(), "coherdma-cache");
    for (auto pause = steady_clock::duration(min_pause);;) {
        std::this_thread::sleep_for(pause);
        const auto begin = steady_clock::now();
        process_state().cache.run_background_step();
        pause = std::max<steady_clock::duration>(min_pause,
                                                 PAUSE_FACTOR * (steady_clock::now() - begin));
    }
}

/// The thread handles no signal of the program.
void start_background_thread() {
    sigset_t all_signals, old_mask;
    sigfillset(&all_signals);
    pthread_sigmask(SIG_SETMASK, &all_signals, &old_mask);
    std::thread(run_background_thread).detach();
    pthread_sigmask(SIG_SETMASK, &old_mask, nullptr);
}

/// Handler of atexit(), called before the program's destructors free registered memory, and of
/// at_quick_exit().
void report_at_exit() noexcept {
    if (!has_process_state()) // a child of fork() that opened no device
        return;
    peer_ipc::close_slot();
    process_state().cache.on_process_end();
    process_state().cache.unlink_shm();
    const std::size_t num_findings = process_state().log.write_summary();
    if (num_findings == 0 || process_state().config.exit_status == 0)
        return;
    std::fflush(nullptr);
    _exit(process_state().config.exit_status);
}

std::mutex start_mutex;
bool is_started = false; ///< the threads and the slot of this process

/// The child has no threads and no slot; threads of the parent may have held any mutex.
void reset_child_after_fork() {
    new (&start_mutex) std::mutex;
    reset_devices_after_fork();
    peer_ipc::reset_after_fork();
    is_started = false;
}

/// At the first device of this process: arranges for the report at its end, starts the thread that
/// poisons, evicts or marks lines, and opens the connection to the emulations in other processes.
void start_process(const settings &config) {
    static const bool has_handlers = std::atexit(report_at_exit) == 0 &&
                                     std::at_quick_exit(report_at_exit) == 0 &&
                                     pthread_atfork(nullptr, nullptr, reset_child_after_fork) == 0;
    static_cast<void>(has_handlers);
    if (process_state().cache.needs_thread())
        start_background_thread();
    if (config.mode != cache_mode::PASSTHROUGH)
        peer_ipc::open_slot();
}

// -- for libcoherdma

using range_array = const coherdma::cache::range *;

addr_range to_addr_range(const coherdma::cache::range &range) noexcept {
    return {range.addr, range.addr + range.length};
}

/// emulated_cache::check_mapped. After fork() the child may use an inherited handle of libcoherdma:
/// there is nothing to check.

int check_readable(range_array ranges, std::size_t count, std::uintptr_t *bad_addr) noexcept try {
    int error = 0;
    for (std::size_t i = 0; i < count && error == 0 && has_process_state(); ++i) {
        const addr_range range = to_addr_range(ranges[i]);
        error = process_state().cache.check_readable(&range, 1, bad_addr);
    }
    return error;
} catch (const std::bad_alloc &) {
    return ENOMEM;
}

/// Without memory a sync is incomplete, which the caller cannot be told.
void note_out_of_memory() noexcept {
    constexpr char TEXT[] = "coherdma: emulation: out of memory: a sync is incomplete, so the "
                            "program or a peer may read stale data\n";
    static std::atomic_flag is_noted;
    if (!is_noted.test_and_set() && write(STDERR_FILENO, TEXT, sizeof TEXT - 1) < 0)
        return; // the message is lost
}

using sync_function = void (cache_model::*)(const addr_range *, std::size_t);

/// Calls sync for each range; in a child of fork() without a device there is nothing to sync.
void sync_ranges(range_array ranges, std::size_t count, sync_function sync) noexcept {
    for (std::size_t i = 0; i < count && has_process_state(); ++i) {
        const addr_range range = to_addr_range(ranges[i]);
        try {
            (process_state().cache.*sync)(&range, 1);
        } catch (const std::bad_alloc &) {
            note_out_of_memory();
        }
    }
}

void no_fence() noexcept {}
bool is_supported() noexcept {
    return true;
}
void writeback(range_array ranges, std::size_t count, std::size_t) noexcept {
    sync_ranges(ranges, count, &cache_model::sync_writeback);
}
void writeback_invalidate(range_array ranges, std::size_t count, std::size_t) noexcept {
    sync_ranges(ranges, count, &cache_model::sync_invalidate);
}

void sync_for_device(range_array ranges, std::size_t count, bool device_writes) noexcept {
    sync_ranges(ranges, count,
                device_writes ? &cache_model::sync_sink_for_device
                              : &cache_model::sync_source_for_device);
}
void sync_for_cpu(range_array ranges, std::size_t count) noexcept {
    sync_ranges(ranges, count, &cache_model::sync_sink_for_cpu);
}

const coherdma::cache::cache_ops CACHE_OPS = {"emulated", no_fence,    writeback,
                                              no_fence,   no_fence,    writeback_invalidate,
                                              no_fence,   is_supported};

bool is_emulated(const ibv_context *ctx) noexcept {
    return find_device(ctx) != nullptr;
}
const char *current_mode() noexcept {
    return process_state().mode.c_str();
}
std::size_t line_size() noexcept {
    return process_state().config.line_size;
}

const coherdma::cache::emulated_cache EMULATED_CACHE = {sizeof(coherdma::cache::emulated_cache),
                                                        is_emulated,
                                                        check_readable,
                                                        current_mode,
                                                        line_size,
                                                        &CACHE_OPS,
                                                        sync_for_device,
                                                        sync_for_cpu};

// -- for the plugin

/// Emulates the device, if the settings request it. Returns 0 or an errno.
int begin_emulation(ibv_context *ctx, const module_args &args) {
    const char *const name = ibv_get_device_name(ctx->device);
    const settings config = read_settings(name, args.driver_id == RDMA_DRIVER_SIW ? "siw" : "rxe");
    if (!config.problem.empty()) {
        std::fprintf(stderr, "coherdma: %s: cannot emulate a non-coherent device: %s\n", name,
                     config.problem.c_str());
        return EINVAL;
    }
    if (config.mode == cache_mode::OFF)
        return 0;
    auto device = std::make_unique<emulated_device>();
    device->ctx = ctx;
    device->name = name;
    device->driver_id = args.driver_id;
    device->driver_ops = *args.ops;
    device->kernel_dereg_mr = args.kernel_dereg_mr;
    device->set_ops = args.set_ops;
    add_device(std::move(device), config);
    {
        const std::lock_guard guard(start_mutex);
        if (!is_started)
            start_process(config);
        is_started = true;
    }
    if (process_state().mode != mode_text(config))
        process_state().log.note(std::string(name) + ": mode " + mode_text(config) +
                                 " is ignored, as this process already emulates mode " +
                                 process_state().mode);
    hook_mr_ops(*args.ops);
    hook_post_ops(*args.ops);
    hook_poll_ops(*args.ops);
    hook_qp_ops(*args.ops);
    args.ops->free_context = free_context;
    *args.cache = &EMULATED_CACHE;
    return 0;
}

} // namespace
} // namespace coherdma::emulation

using namespace coherdma::emulation;

extern "C" [[gnu::visibility("default")]] int coherdma_emulation_begin(ibv_context *ctx,
                                                                       const module_args *args) {
    if (args->size != sizeof *args)
        return EINVAL;
    try {
        return begin_emulation(ctx, *args);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "coherdma: cannot emulate a non-coherent device: %s\n", error.what());
        return ENOMEM;
    }
}
