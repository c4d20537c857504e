// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A file in /dev/shm with one slot per process (slot_lock.hpp): its rkeys and one pending request.
// Mutexes are robust (EOWNERDEAD recovers). A faulty process may write anything there: what is read
// is checked like data from the network.
//
// Protocol of a slot. A process takes it with the slot's lock in the file, which it has until it
// ends, and changes the phase from FREE, or that of a dead process, to IDLE. The requester, with
// the slot's request_mutex, writes `request` and stores REQUESTED with the next number; the owner's
// thread copies the request, changes REQUESTED to CHECKING, checks its memory and changes CHECKING
// to ANSWERED. The requester, in any case, ends with IDLE: if it gives up before the check begins,
// the owner does not begin it. CLOSED is final. Each change but those of FREE and CLOSED is of the
// state with its number, so that nothing is taken for that of another request.

#include "peer_ipc.hpp"

#include "blocked_signals.hpp"
#include "requests.hpp"

#include "core/memory/private_shm.hpp"
#include "core/memory/robust_mutex.hpp"
#include "core/memory/slot_lock.hpp"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <linux/futex.h>
#include <new>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace coherdma::emulation::peer_ipc {
namespace {

constexpr std::uint32_t MAGIC = 0xc0e4d005; // contains the version of the layout
constexpr std::size_t NUM_SLOTS = 64, MAX_RKEYS = 1024, MAX_TEXT = 192, MAX_STACK_TEXT = 3200;
/// In which the owner begins a check, or another requester ends its own; and a check ends.
/// Processes can be stopped.
constexpr std::chrono::milliseconds BEGIN_TIMEOUT(300), CHECK_TIMEOUT(3000);

enum slot_phase : std::uint32_t { FREE, IDLE, REQUESTED, CHECKING, ANSWERED, CLOSED };
/// A phase, and above it the number of the request, which wraps around.
using slot_state = std::uint32_t;
constexpr unsigned PHASE_BITS = 3;
constexpr slot_state NEXT_REQUEST = slot_state{1} << PHASE_BITS;

constexpr slot_phase phase_of(slot_state state) noexcept {
    return static_cast<slot_phase>(state & (NEXT_REQUEST - 1));
}
/// The same request in another phase.
constexpr slot_state in_phase(slot_state state, slot_phase phase) noexcept {
    return (state & ~(NEXT_REQUEST - 1)) | phase;
}

struct rkey_entry {
    std::uint32_t rkey, driver_number; ///< driver_number 0: the entry is free
    std::uint64_t iova, length;
};

struct check_request {
    std::uint32_t driver_number, rkey;
    std::uint64_t remote_addr, length;
    std::uint32_t opcode;
    char text[MAX_TEXT];
    char stack[MAX_STACK_TEXT]; ///< one frame per line
};

struct process_slot {
    pthread_mutex_t request_mutex; ///< one requester at a time
    std::atomic<slot_state> state; ///< a futex
    check_request request;
    pthread_mutex_t rkeys_mutex; ///< protects rkeys
    rkey_entry rkeys[MAX_RKEYS];
};

struct shm_layout {
    std::atomic<std::uint32_t> magic; ///< 0: not initialized
    process_slot slots[NUM_SLOTS];
};

struct {
    int fd = -1;
    shm_layout *shm = nullptr;
    process_slot *own_slot = nullptr;
} ipc;

long futex(std::atomic<std::uint32_t> &word, int operation, std::uint32_t value,
           const timespec *timeout) noexcept {
    return syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

/// Maps the file, and initializes it if it is new. With an exclusive flock on it. nullptr: see
/// reason.
shm_layout *map_shm(int fd, const std::string &path, std::string &reason) {
    reason = path + " is of another version of coherdma; when no emulated program runs, type: rm " +
             path;
    struct stat status = {};
    // Processes that map a file of another size would lose its end.
    if (fstat(fd, &status) == 0 && status.st_size != 0 && status.st_size != sizeof(shm_layout))
        return nullptr;
    // Allocates now: a store to a hole raises SIGBUS if memory has run out.
    const int error = posix_fallocate(fd, 0, sizeof(shm_layout));
    void *const mapped = error == 0 ? map_slot_file(fd, sizeof(shm_layout)) : MAP_FAILED;
    if (mapped == MAP_FAILED) {
        reason = path + ": " + std::strerror(error != 0 ? error : errno);
        return nullptr;
    }
    auto *const shm = static_cast<shm_layout *>(mapped);
    const std::uint32_t magic = shm->magic.load();
    if (magic == MAGIC)
        return shm;
    if (magic != 0) { // processes of that version may use it
        munmap(mapped, sizeof(shm_layout));
        return nullptr;
    }
    std::memset(mapped, 0, sizeof(shm_layout));
    for (process_slot &slot : shm->slots) {
        init_robust_mutex(slot.request_mutex);
        init_robust_mutex(slot.rkeys_mutex);
    }
    shm->magic.store(MAGIC); // last: if this process dies before, the next one initializes it
    return shm;
}

/// Opens the file that all emulating processes of the user share, and creates it if needed. False:
/// see reason.
bool open_shm(std::string &reason) {
    const std::string name = "coherdma-emulation-" + std::to_string(geteuid());
    const int fd = open_private_shm(name, reason);
    if (fd < 0)
        return false;
    close_at_fork(fd);
    const std::string path = "/dev/shm/" + name;
    // The first process to lock the file initializes it. The kernel unlocks it if a process dies.
    if (flock(fd, LOCK_EX) == 0) {
        ipc.shm = map_shm(fd, path, reason);
        flock(fd, LOCK_UN);
    } else {
        reason = path + ": " + std::strerror(errno);
    }
    if (ipc.shm == nullptr) {
        close_slot_file(fd);
        return false;
    }
    ipc.fd = fd; // stays open: it has the lock of the slot
    return true;
}

/// Takes a free slot, or that of a dead process, for this one. nullptr: there is none.
process_slot *claim_slot() noexcept {
    for (unsigned i = 0; i < NUM_SLOTS; ++i) {
        process_slot &slot = ipc.shm->slots[i];
        // The kernel releases the lock of a process after all its threads have left their memory:
        // no thread of the slot's former process stores to it now.
        if (!lock_slot(ipc.fd, i))
            continue;
        // Its rkeys may still be read; the mutex orders that with the stores below, unless the
        // reader is stopped.
        const robust_lock_guard guard(slot.rkeys_mutex, BEGIN_TIMEOUT);
        std::memset(slot.rkeys, 0, sizeof slot.rkeys);
        slot.state.store(in_phase(slot.state.load(), IDLE));
        return &slot;
    }
    return nullptr;
}

/// The memory of this process that a request of a peer names; empty if it is not registered.
addr_range find_requested_memory(const check_request &request) {
    addr_range range;
    for_each_device([&](emulated_device &device) {
        if (device.driver_number == request.driver_number)
            range = range.empty() ? device.find_memory_by_rkey(request.rkey, request.remote_addr,
                                                               request.length)
                                  : range;
    });
    return range;
}

/// Checks the memory that a peer's request names. The request may be invalid.
void handle_request(const check_request &request) {
    constexpr std::uint32_t NUM_OPCODES = 8; // includes all that access remote memory
    const addr_range range = find_requested_memory(request);
    if (range.empty() || request.opcode >= NUM_OPCODES)
        return;
    mem_access access;
    access.text.assign(request.text, strnlen(request.text, MAX_TEXT));
    const std::string stack(request.stack, strnlen(request.stack, MAX_STACK_TEXT));
    for (std::size_t begin = 0; begin < stack.size();) {
        const std::size_t end = std::min(stack.find('\n', begin), stack.size());
        access.peer_stack.push_back(stack.substr(begin, end - begin));
        begin = end + 1;
    }
    check_peer_access(range, static_cast<ibv_wr_opcode>(request.opcode), access);
}

/// The thread of this process that answers the requests of peers.
void answer_requests(process_slot &slot) noexcept {
    pthread_setname_np(pthread_self(), "coherdma-peers");
    for (;;) {
        // Acquire: pairs with the requester's release of REQUESTED, so `request` is complete.
        slot_state state = slot.state.load(std::memory_order_acquire);
        if (phase_of(state) == CLOSED)
            return;
        if (phase_of(state) != REQUESTED) {
            futex(slot.state, FUTEX_WAIT, state, nullptr);
            continue;
        }
        // A copy: the requester of CHECKING may give up, too. If it has given up before, the copy
        // may be of two requests, and is not used.
        const check_request request = slot.request;
        const slot_state checking = in_phase(state, CHECKING);
        // Acquire, release: the copy is complete before another requester sees CHECKING.
        if (!slot.state.compare_exchange_strong(state, checking, std::memory_order_acq_rel))
            continue;
        try {
            handle_request(request);
        } catch (const std::bad_alloc &) { // the access is not checked
        }
        slot_state expected = checking;
        // Release: the check is complete before the requester sees ANSWERED.
        slot.state.compare_exchange_strong(expected, in_phase(state, ANSWERED),
                                           std::memory_order_release);
        futex(slot.state, FUTEX_WAKE, INT_MAX, nullptr);
    }
}

/// Waits while the slot is in this state, for at most the timeout. Returns the state.
slot_state wait_while(process_slot &slot, slot_state waiting_state,
                      std::chrono::milliseconds timeout) noexcept {
    const timespec deadline = to_timespec(std::chrono::steady_clock::now() + timeout);
    // Acquire: pairs with the owner's release of ANSWERED.
    slot_state state = slot.state.load(std::memory_order_acquire);
    while (state == waiting_state) {
        if (syscall(SYS_futex, &slot.state, FUTEX_WAIT_BITSET, waiting_state, &deadline, nullptr,
                    FUTEX_BITSET_MATCH_ANY) < 0 &&
            errno == ETIMEDOUT)
            return slot.state.load(std::memory_order_acquire);
        state = slot.state.load(std::memory_order_acquire);
    }
    return state;
}

/// Has the owner of the slot check its memory, and waits until it has. With the request_mutex of
/// the slot. False: it did not, in time.
bool send_request(process_slot &slot, const check_request &request) noexcept {
    // The former requester may have died: its check, if it has not begun, would be of a mixture.
    // Acquire: the owner's copy of its request is complete.
    slot_state state = slot.state.load(std::memory_order_acquire);
    if (phase_of(state) == REQUESTED)
        slot.state.compare_exchange_strong(state, in_phase(state, IDLE), std::memory_order_acq_rel);
    slot.request = request;
    slot_state requested;
    do {
        if (phase_of(state) == CLOSED)
            return true; // nothing uses its memory any more
        requested = in_phase(state + NEXT_REQUEST, REQUESTED);
        // Release: pairs with the owner's acquire.
    } while (!slot.state.compare_exchange_weak(state, requested, std::memory_order_release));
    futex(slot.state, FUTEX_WAKE, INT_MAX, nullptr);
    state = wait_while(slot, requested, BEGIN_TIMEOUT);
    // If it begins now, the exchange fails, and the check is awaited.
    if (state == requested && slot.state.compare_exchange_strong(state, in_phase(requested, IDLE)))
        return false;
    state = wait_while(slot, in_phase(requested, CHECKING), CHECK_TIMEOUT);
    const bool is_answered = state != in_phase(requested, CHECKING);
    while (phase_of(state) != CLOSED &&
           !slot.state.compare_exchange_weak(state, in_phase(requested, IDLE))) {
    }
    return is_answered;
}

/// Whether the process of the slot has published an rkey for the memory. With its rkeys_mutex.
bool has_memory(const process_slot &slot, std::uint32_t driver_number, std::uint32_t rkey,
                std::uint64_t remote_addr, std::uint64_t length) noexcept {
    for (const rkey_entry &entry : slot.rkeys)
        if (entry.driver_number == driver_number && entry.rkey == rkey &&
            remote_addr >= entry.iova && remote_addr - entry.iova <= entry.length &&
            length <= entry.length - (remote_addr - entry.iova))
            return true;
    return false;
}

/// The same place in the program posts many WRs: finding its symbols again would be slow.
struct stack_text_cache {
    std::mutex mutex;
    std::map<std::vector<void *>, std::string> texts;
    stack_text_cache *parents = nullptr; ///< of fork(): kept for leak checkers
} *stack_texts = new stack_text_cache;

/// One frame per line.
const std::string &stack_text_of(const stack_trace &stack) {
    const std::vector<void *> key(stack.frames.begin(), stack.frames.begin() + stack.depth);
    const std::lock_guard guard(stack_texts->mutex);
    const auto [it, is_new] = stack_texts->texts.try_emplace(key);
    if (is_new)
        for (const std::string &line : to_strings(stack))
            if (it->second.size() + line.size() + 1 < MAX_STACK_TEXT)
                it->second += line + "\n";
    return it->second;
}

} // namespace

/// Takes a slot for this process in the file that all emulating processes of the user share, and
/// starts the thread that answers requests of peers.
void open_slot() {
    std::string reason;
    if (open_shm(reason)) {
        reason = "there are more than 64 processes";
        ipc.own_slot = claim_slot();
    }
    if (ipc.own_slot == nullptr) {
        process_state().log.note(
            "requests of other processes on memory of this process are not checked: " + reason);
        return;
    }
    process_slot &slot = *ipc.own_slot;
    try {
        const blocked_signals scope;
        std::thread([&slot] { answer_requests(slot); }).detach();
    } catch (const std::system_error &error) {
        close_slot(); // no peer waits for an answer
        ipc.own_slot = nullptr;
        process_state().log.note(
            std::string("requests of other processes on memory of this process are not checked: ") +
            error.what());
    }
}

void reset_after_fork() {
    ipc = {};
    // A thread of the parent may have been changing the old one.
    auto *const texts = new stack_text_cache;
    texts->parents = stack_texts;
    stack_texts = texts;
}

void close_slot() noexcept {
    if (ipc.own_slot == nullptr)
        return;
    // The requester that has it is answered first, unless it is stopped.
    const robust_lock_guard guard(ipc.own_slot->request_mutex, CHECK_TIMEOUT);
    ipc.own_slot->state.store(CLOSED);
    futex(ipc.own_slot->state, FUTEX_WAKE, INT_MAX, nullptr);
}

// Only the owner changes rkeys, and it checks what a request names: if a stopped reader has the
// mutex, it goes on without.

/// Lets peers find memory of this process. Called without the mutexes of devices.hpp.
void publish_rkey(std::uint32_t driver_number, std::uint32_t rkey, const keyed_memory &memory) {
    if (ipc.own_slot == nullptr)
        return;
    const robust_lock_guard guard(ipc.own_slot->rkeys_mutex, BEGIN_TIMEOUT);
    for (rkey_entry &entry : ipc.own_slot->rkeys)
        if (entry.driver_number == 0) {
            entry = {rkey, driver_number, memory.iova, memory.range.size()};
            return;
        }
    process_state().log.note("this process has more than 1024 MRs and MWs: accesses of other "
                             "processes to the others are not checked");
}

void withdraw_rkey(std::uint32_t driver_number, std::uint32_t rkey) noexcept {
    if (ipc.own_slot == nullptr)
        return;
    const robust_lock_guard guard(ipc.own_slot->rkeys_mutex, BEGIN_TIMEOUT);
    for (rkey_entry &entry : ipc.own_slot->rkeys)
        if (entry.driver_number == driver_number && entry.rkey == rkey)
            entry = {};
}

/// A request was not checked. Said once.
static void note_unchecked() {
    static std::atomic<bool> is_noted = false;
    if (!is_noted.exchange(true))
        process_state().log.note("a process did not check a request on its memory in time: it, or "
                                 "another one that has sent it a request, is stopped or slow");
}

/// If exactly one other process has this memory: has it check the memory, and waits for the answer.
void request_check(std::uint32_t driver_number, std::uint32_t rkey, std::uint64_t remote_addr,
                   std::uint64_t length, ibv_wr_opcode opcode, const mem_access &access) {
    if (ipc.shm == nullptr)
        return;
    process_slot *owner = nullptr;
    for (unsigned i = 0; i < NUM_SLOTS; ++i) {
        process_slot &slot = ipc.shm->slots[i];
        const slot_phase phase = phase_of(slot.state.load());
        if (&slot == ipc.own_slot || phase == FREE || phase == CLOSED)
            continue;
        const robust_lock_guard guard(slot.rkeys_mutex, BEGIN_TIMEOUT);
        if (!guard || !has_memory(slot, driver_number, rkey, remote_addr, length) ||
            !is_slot_locked(ipc.fd, i))
            continue;
        if (owner != nullptr)
            return; // ambiguous
        owner = &slot;
    }
    if (owner == nullptr)
        return;
    check_request request = {};
    request.driver_number = driver_number;
    request.rkey = rkey;
    request.remote_addr = remote_addr;
    request.length = length;
    request.opcode = static_cast<std::uint32_t>(opcode);
    std::snprintf(request.text, sizeof request.text, "%s", access.text.c_str());
    std::snprintf(request.stack, sizeof request.stack, "%s", stack_text_of(access.stack).c_str());
    const robust_lock_guard guard(owner->request_mutex, CHECK_TIMEOUT);
    if (!guard || !send_request(*owner, request))
        note_unchecked();
}

} // namespace coherdma::emulation::peer_ipc
