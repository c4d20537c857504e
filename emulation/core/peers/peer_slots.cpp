// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The file has a slot for each process, with its rkeys and the mailboxes for its requests. A
// process has its slot by a lock that the kernel releases when it ends (slot_lock.hpp).
//
// A request: the requester, with one of its mailboxes, writes `request` and stores REQUESTED with
// the next number, sets the mailbox's bit in the owner's `pending`, and rings the owner's doorbell.
// The owner's thread copies the request, changes REQUESTED to CHECKING, checks its memory, and
// changes CHECKING to ANSWERED. The requester ends with IDLE, also if it gives up before. Each
// change is of the state with its number, so that nothing is taken for that of another request.
//
// Tickets: if a check leaves something, the owner's answer names one of its tickets, in state OPEN.
// The requester changes that to POSTED or REFUSED. If it ends before, the request counts as posted.

#include "peer_slots.hpp"

#include "core/memory/private_shm.hpp"
#include "core/memory/robust_mutex.hpp"
#include "core/memory/slot_lock.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <linux/futex.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace coherdma::emulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::uint32_t MAGIC = 0xc0e4d006; // contains the version of the layout

/// A waiting process looks as often whether the other one lives.
constexpr milliseconds LOOK_INTERVAL(50);
/// An owner whose checks left something looks as often whether the requester lives.
constexpr milliseconds REQUESTER_INTERVAL(500);

enum slot_status : std::uint32_t { FREE, LIVE, CLOSED };

enum request_phase : std::uint32_t { IDLE, REQUESTED, CHECKING, ANSWERED };
enum ticket_phase : std::uint32_t { UNUSED, OPEN, POSTED, REFUSED };
/// A phase, and above it a number, which wraps around.
using state_word = std::uint32_t;
constexpr unsigned PHASE_BITS = 2;
constexpr state_word NEXT_NUMBER = state_word{1} << PHASE_BITS;

constexpr std::uint32_t phase_of(state_word state) noexcept {
    return state & (NEXT_NUMBER - 1);
}
/// The same number in another phase.
constexpr state_word in_phase(state_word state, std::uint32_t phase) noexcept {
    return (state & ~(NEXT_NUMBER - 1)) | phase;
}

/// An answer: the index of a ticket and this, or 0: the check left nothing.
constexpr std::uint32_t HAS_TICKET = 0x80000000, HAS_FINDINGS = 0x40000000;
constexpr std::uint32_t TICKET_INDEX = 0xffff;

long futex(std::atomic<std::uint32_t> &word, int operation, std::uint32_t value,
           const timespec *timeout) noexcept {
    return syscall(SYS_futex, &word, operation, value, timeout, nullptr, FUTEX_BITSET_MATCH_ANY);
}
/// Waits while the word has this value, until the deadline; a signal may end it earlier.
void wait_on(std::atomic<std::uint32_t> &word, std::uint32_t value,
             steady_clock::time_point deadline) noexcept {
    const timespec absolute = to_timespec(deadline);
    futex(word, FUTEX_WAIT_BITSET, value, &absolute);
}
void wake_all(std::atomic<std::uint32_t> &word) noexcept {
    futex(word, FUTEX_WAKE, INT_MAX, nullptr);
}
void ring(std::atomic<std::uint32_t> &doorbell) noexcept {
    // Release: pairs with the owner's acquire of the doorbell.
    doorbell.fetch_add(1, std::memory_order_release);
    wake_all(doorbell);
}

constexpr std::uint64_t round_up(std::uint64_t value) noexcept {
    constexpr std::uint64_t MAX_PAGE = 65536;
    return (value + MAX_PAGE - 1) & ~(MAX_PAGE - 1);
}

} // namespace

struct peer_slots::mailbox {
    std::atomic<state_word> state; ///< a futex
    std::uint32_t owner;           ///< slot: another one may still have the mailbox's bit
    check_request request;
};

struct peer_slots::process_slot {
    std::atomic<std::uint32_t> status;
    std::atomic<std::uint32_t> process_number; ///< counts the processes that had the slot
    std::atomic<std::uint32_t> doorbell;       ///< a futex
    /// Changes when the owner's thread does anything; odd while it is busy.
    std::atomic<std::uint32_t> activity;
    std::array<std::atomic<std::uint64_t>, NUM_MAILBOXES / 64> pending; ///< a bit for each mailbox
    std::array<std::atomic<std::uint32_t>, NUM_MAILBOXES> answers;
    std::array<std::atomic<state_word>, NUM_TICKETS> tickets;
    rkey_table_state rkeys;
    std::array<mailbox, MAILBOXES_PER_SLOT> mailboxes;
};

struct peer_slots::shm_layout {
    std::atomic<std::uint32_t> magic; ///< 0: not initialized
    std::array<process_slot, NUM_SLOTS> slots;
};

std::size_t peer_slots::mapped_size() noexcept {
    return round_up(sizeof(shm_layout));
}
std::uint64_t peer_slots::file_size() noexcept {
    return mapped_size() + NUM_SLOTS * rkey_table::MAX_BYTES;
}

/// Maps the file, and initializes it if it is new. With an exclusive flock on it. nullptr: see
/// reason.
peer_slots::shm_layout *peer_slots::map_file(int fd, const std::string &path, std::string &reason) {
    reason = path + " is of another version of coherdma; when no emulated program runs, type: rm " +
             path;
    struct stat status = {};
    // Processes that map a file of another size would lose its end.
    if (fstat(fd, &status) != 0 ||
        (status.st_size != 0 && status.st_size != static_cast<off_t>(file_size())))
        return nullptr;
    if (status.st_size == 0 && is_file_size_limited(file_size())) {
        reason = "the file size is limited (ulimit -f)";
        return nullptr;
    }
    int error = ftruncate(fd, static_cast<off_t>(file_size())) == 0 ? 0 : errno;
    if (error == 0)
        error = allocate_shm(fd, 0, mapped_size());
    void *const mapped = error == 0 ? map_slot_file(fd, mapped_size()) : MAP_FAILED;
    if (mapped == MAP_FAILED) {
        reason = path + ": " + std::strerror(error != 0 ? error : errno);
        return nullptr;
    }
    auto *const shm = static_cast<shm_layout *>(mapped);
    const std::uint32_t magic = shm->magic.load();
    if (magic == MAGIC)
        return shm;
    if (magic != 0) { // processes of that version may use it
        munmap(mapped, mapped_size());
        return nullptr;
    }
    std::memset(mapped, 0, mapped_size());
    shm->magic.store(MAGIC); // last: if this process dies before, the next one initializes it
    return shm;
}

std::unique_ptr<peer_slots> peer_slots::open(const std::string &name, timeouts limits,
                                             std::string &reason) {
    const int fd = open_private_shm(name, reason);
    if (fd < 0)
        return nullptr;
    close_at_fork(fd);
    const std::string path = "/dev/shm/" + name;
    shm_layout *shm = nullptr;
    // The first process to lock the file initializes it. The kernel unlocks it if a process dies.
    if (flock(fd, LOCK_EX) == 0) {
        shm = map_file(fd, path, reason);
        flock(fd, LOCK_UN);
    } else {
        reason = path + ": " + std::strerror(errno);
    }
    if (shm == nullptr) {
        close_slot_file(fd);
        return nullptr;
    }
    std::unique_ptr<peer_slots> slots(new peer_slots(fd, shm, limits));
    if (slots->take_slot())
        return slots;
    reason = "more than " + std::to_string(NUM_SLOTS) + " processes emulate devices";
    return nullptr;
}

peer_slots::peer_slots(int fd, shm_layout *shm, timeouts limits)
    : fd_(fd)
    , shm_(shm)
    , timeouts_(limits) {}

peer_slots::~peer_slots() {
    if (rkeys_ != nullptr) // it has a slot
        close();
    rkeys_.reset();
    munmap(shm_, mapped_size());
    close_slot_file(fd_); // its lock ends
}

/// Takes a free slot, or that of a dead process, for this one. False: there is none.
bool peer_slots::take_slot() {
    // The kernel releases the lock of a process after all its threads have left their memory: no
    // thread of the slot's former process stores to it now.
    while (own_index_ < NUM_SLOTS && !lock_slot(fd_, own_index_))
        ++own_index_;
    if (own_index_ == NUM_SLOTS)
        return false;
    process_slot &slot = own_slot();
    slot.status.store(FREE);
    // First: a request that an owner still takes from a mailbox is of the number before.
    for (mailbox &each : slot.mailboxes)
        each.state.store(in_phase(each.state.load() + NEXT_NUMBER, IDLE));
    slot.process_number.fetch_add(1);
    slot.activity.store((slot.activity.load() + 2) & ~std::uint32_t{1});
    for (auto &word : slot.pending)
        word.store(0);
    // Their numbers go on: requesters may have tickets of the former process.
    for (auto &state : slot.tickets)
        state.store(in_phase(state.load() + NEXT_NUMBER, UNUSED));
    for (unsigned i = NUM_TICKETS; i > 0; --i)
        free_tickets_.push_back(i - 1);
    rkeys_ = std::make_unique<rkey_table>(table_place(own_index_));
    slot.status.store(LIVE);
    return true;
}

peer_slots::process_slot &peer_slots::own_slot() const noexcept {
    return shm_->slots[own_index_];
}

rkey_table_place peer_slots::table_place(unsigned slot) const noexcept {
    return {.fd = fd_,
            .offset = mapped_size() + slot * rkey_table::MAX_BYTES,
            .state = &shm_->slots[slot].rkeys};
}

// -- the owner

void peer_slots::answer_requests(const check_function &check) {
    {
        const std::lock_guard guard(kept_mutex_);
        has_thread_ = true;
    }
    process_slot &slot = own_slot();
    for (;;) {
        // Acquire: pairs with ring(): what was written before is visible.
        const std::uint32_t doorbell = slot.doorbell.load(std::memory_order_acquire);
        const bool is_closed = slot.status.load() == CLOSED;
        slot.activity.store((slot.activity.load() + 1) | 1); // busy
        const bool has_answered = answer_pending(check);
        end_decided(is_closed ? scan::AT_END : has_answered ? scan::FIRST : scan::ALL);
        slot.activity.store((slot.activity.load() | 1) + 1);
        if (is_closed)
            break;
        bool has_kept;
        {
            const std::lock_guard guard(kept_mutex_);
            has_kept = !kept_.empty();
        }
        if (has_kept)
            wait_on(slot.doorbell, doorbell, steady_clock::now() + REQUESTER_INTERVAL);
        else
            futex(slot.doorbell, FUTEX_WAIT, doorbell, nullptr);
    }
    const std::lock_guard guard(kept_mutex_);
    has_thread_ = false;
    answers_ended_.notify_all();
}

/// Requesters wait longer.
void peer_slots::show_progress() noexcept {
    own_slot().activity.fetch_add(2);
}

/// Returns whether there was a request.
bool peer_slots::answer_pending(const check_function &check) {
    process_slot &slot = own_slot();
    bool has_answered = false;
    for (unsigned word = 0; word < slot.pending.size(); ++word)
        // Acquire: pairs with the requester's release of the bit.
        for (std::uint64_t bits = slot.pending[word].exchange(0, std::memory_order_acquire);
             bits != 0; bits &= bits - 1) {
            answer_mailbox(word * 64 + static_cast<unsigned>(std::countr_zero(bits)), check);
            has_answered = true;
        }
    return has_answered;
}

void peer_slots::answer_mailbox(unsigned index, const check_function &check) {
    const unsigned requester = index / MAILBOXES_PER_SLOT;
    mailbox &asked = shm_->slots[requester].mailboxes[index % MAILBOXES_PER_SLOT];
    // Before the state: if that is not another one below, the process of this number sent it.
    const std::uint32_t requester_number = shm_->slots[requester].process_number.load();
    // Acquire: pairs with the requester's release of REQUESTED, so `request` is complete.
    state_word state = asked.state.load(std::memory_order_acquire);
    if (phase_of(state) != REQUESTED)
        return;
    // A copy: the requester of CHECKING may give up, too. If it has given up before, the copy may
    // be of two requests, and is not used.
    const check_request request = asked.request;
    const state_word checking = in_phase(state, CHECKING);
    if (asked.owner != own_index_ ||
        !asked.state.compare_exchange_strong(state, checking, std::memory_order_acq_rel))
        return;
    show_progress();
    std::uint32_t word = 0;
    try {
        auto left = check(request);
        if (left != nullptr) {
            const std::uint32_t findings = left->has_findings() ? HAS_FINDINGS : 0;
            word = keep(requester, requester_number, std::move(left));
            word |= word != 0 ? findings : 0;
        }
    } catch (const std::bad_alloc &) { // the access is not checked
    }
    own_slot().answers[index].store(word, std::memory_order_relaxed);
    state_word expected = checking;
    // Release: the answer is complete before the requester sees ANSWERED.
    if (asked.state.compare_exchange_strong(expected, in_phase(state, ANSWERED),
                                            std::memory_order_release))
        return wake_all(asked.state);
    // It has given up: it posts the request unchecked.
    if (word != 0)
        own_slot().tickets[word & TICKET_INDEX].store(
            in_phase(own_slot().tickets[word & TICKET_INDEX].load(), REFUSED));
}

/// Returns the answer that names its ticket, or 0: there is none, and it is done with.
std::uint32_t peer_slots::keep(unsigned requester, std::uint32_t requester_number,
                               std::unique_ptr<unposted_request> left) {
    std::unique_lock guard(kept_mutex_);
    if (is_closed_)
        return 0;
    if (free_tickets_.empty()) {
        guard.unlock();
        end_decided(scan::ALL);
        guard.lock();
    }
    if (free_tickets_.empty()) {
        guard.unlock();
        left->on_post(); // as it probably will be
        return 0;
    }
    const unsigned index = free_tickets_.back();
    const state_word number = in_phase(own_slot().tickets[index].load() + NEXT_NUMBER, OPEN);
    kept_.push_back({.ticket_index = index,
                     .ticket_number = number,
                     .requester = requester,
                     .requester_number = requester_number,
                     .left = std::move(left)});
    free_tickets_.pop_back();
    own_slot().tickets[index].store(number);
    return HAS_TICKET | index;
}

peer_slots::outcome peer_slots::outcome_of(const kept_request &kept) const noexcept {
    // Acquire: none is needed but for the order of reports.
    const state_word state = own_slot().tickets[kept.ticket_index].load(std::memory_order_acquire);
    if (state == kept.ticket_number)
        return outcome::NONE;
    return state == in_phase(kept.ticket_number, REFUSED) ? outcome::REFUSED : outcome::POSTED;
}

/// The process that sent the request has ended.
bool peer_slots::is_requester_gone(const kept_request &kept) const noexcept {
    return shm_->slots[kept.requester].process_number.load() != kept.requester_number ||
           !is_slot_locked(fd_, kept.requester);
}

/// Does what the outcomes require.
void peer_slots::end_decided(scan which) noexcept {
    std::list<kept_request> decided;
    {
        const std::lock_guard guard(kept_mutex_);
        is_closed_ = is_closed_ || which == scan::AT_END;
        const auto now = steady_clock::now();
        const bool looks_for_gone = which != scan::FIRST && now >= next_look_;
        if (looks_for_gone)
            next_look_ = now + REQUESTER_INTERVAL;
        for (auto it = kept_.begin(); it != kept_.end();) {
            const bool is_decided = outcome_of(*it) != outcome::NONE || which == scan::AT_END ||
                                    (looks_for_gone && is_requester_gone(*it));
            if (!is_decided && which == scan::FIRST)
                break; // most are decided in their order
            if (!is_decided) {
                ++it;
                continue;
            }
            decided.splice(decided.end(), kept_, it++);
        }
    }
    for (const kept_request &kept : decided) { // without the mutex: reports may take long
        show_progress();
        const bool is_refused = outcome_of(kept) == outcome::REFUSED;
        try {
            if (is_refused)
                kept.left->on_refuse();
            else
                kept.left->on_post();
        } catch (const std::bad_alloc &) { // its findings are lost
        }
        const std::lock_guard guard(kept_mutex_);
        free_tickets_.push_back(kept.ticket_index); // has room: it was there before
    }
}

void peer_slots::close() noexcept {
    process_slot &slot = own_slot();
    if (slot.status.exchange(CLOSED) == CLOSED)
        return;
    ring(slot.doorbell);
    {
        std::unique_lock guard(kept_mutex_);
        answers_ended_.wait_for(guard, timeouts_.end, [this] { return !has_thread_; });
    }
    end_decided(scan::AT_END);
    rkeys_->clear();
}

// -- the requester

/// A mailbox of this process that no other thread uses; waits for one.
class peer_slots::own_mailbox {
  public:
    explicit own_mailbox(peer_slots &slots)
        : slots_(slots) {
        std::unique_lock guard(slots_.mailbox_mutex_);
        auto &used = slots_.used_mailboxes_;
        slots_.mailbox_freed_.wait(guard, [&] {
            index_ =
                static_cast<unsigned>(std::find(used.begin(), used.end(), false) - used.begin());
            return index_ < used.size();
        });
        used[index_] = true;
    }
    ~own_mailbox() {
        const std::lock_guard guard(slots_.mailbox_mutex_);
        slots_.used_mailboxes_[index_] = false;
        slots_.mailbox_freed_.notify_one();
    }
    own_mailbox(const own_mailbox &) = delete;
    own_mailbox &operator=(const own_mailbox &) = delete;

    mailbox &operator*() const noexcept { return slots_.own_slot().mailboxes[index_]; }
    /// Of all mailboxes in the file.
    [[nodiscard]] unsigned number() const noexcept {
        return slots_.own_index_ * MAILBOXES_PER_SLOT + index_;
    }

  private:
    peer_slots &slots_;
    unsigned index_ = 0;
};

/// What an owner has done until now; not 0.
static std::uint64_t progress_of(std::uint32_t process_number, std::uint32_t activity) noexcept {
    return (std::uint64_t{process_number} << 32 | activity) + 1;
}

bool peer_slots::is_live(unsigned slot) const noexcept {
    return shm_->slots[slot].status.load() == LIVE && is_slot_locked(fd_, slot);
}

/// UNKNOWN: its process is stopped while it changes its table.
peer_slots::search peer_slots::find_in_table(unsigned slot, const remote_memory &memory) noexcept {
    const auto deadline = steady_clock::now() + timeouts_.begin;
    for (;;) {
        std::uint32_t sequence;
        switch (rkey_table::find(table_place(slot), memory, sequence)) {
        case rkey_table::answer::ABSENT:
            return search::ABSENT;
        case rkey_table::answer::PRESENT:
            return is_live(slot) ? search::PRESENT : search::ABSENT;
        case rkey_table::answer::BUSY:
            break;
        }
        if (!is_live(slot))
            return search::ABSENT;
        const std::uint64_t progress =
            progress_of(shm_->slots[slot].process_number.load(), sequence);
        if (stuck_tables_[slot].load() == progress)
            return search::UNKNOWN;
        if (steady_clock::now() >= deadline) {
            stuck_tables_[slot].store(progress);
            return search::UNKNOWN;
        }
        const timespec pause = {.tv_sec = 0, .tv_nsec = 100000};
        nanosleep(&pause, nullptr);
    }
}

peer_slots::answer peer_slots::request_check(const check_request &request, ticket &left) {
    left = {};
    unsigned owner = NUM_SLOTS;
    std::uint32_t owner_number = 0; // its slot may get another process at any moment
    bool is_unknown = false;
    for (unsigned i = 0; i < NUM_SLOTS; ++i) {
        if (i == own_index_ || shm_->slots[i].status.load() != LIVE)
            continue;
        const std::uint32_t process_number = shm_->slots[i].process_number.load();
        const search result = find_in_table(i, request.memory);
        is_unknown = is_unknown || result == search::UNKNOWN;
        if (result != search::PRESENT)
            continue;
        if (owner != NUM_SLOTS)
            return answer::NO_OWNER; // ambiguous
        owner = i;
        owner_number = process_number;
    }
    if (owner == NUM_SLOTS)
        return is_unknown ? answer::UNCHECKED : answer::NO_OWNER;
    process_slot &slot = shm_->slots[owner];
    const std::uint64_t progress = progress_of(owner_number, slot.activity.load());
    if (silent_owners_[owner].load() == progress)
        return answer::UNCHECKED;
    const own_mailbox claimed(*this);
    mailbox &sent = *claimed;
    sent.owner = owner;
    sent.request = request;
    const state_word requested = in_phase(sent.state.load() + NEXT_NUMBER, REQUESTED);
    // Release: pairs with the owner's acquire.
    sent.state.store(requested, std::memory_order_release);
    slot.pending[claimed.number() / 64].fetch_or(std::uint64_t{1} << claimed.number() % 64,
                                                 std::memory_order_release);
    ring(slot.doorbell);
    if (!await_answer(sent, owner, owner_number, requested))
        return is_live(owner) && slot.process_number.load() == owner_number ? answer::UNCHECKED
                                                                            : answer::NO_OWNER;
    const std::uint32_t word = slot.answers[claimed.number()].load(std::memory_order_relaxed);
    const std::uint32_t index = (word & TICKET_INDEX) % NUM_TICKETS;
    const state_word number = slot.tickets[index].load();
    if ((word & HAS_TICKET) != 0 && phase_of(number) == OPEN)
        left = {.slot = owner,
                .index = index,
                .number = number,
                .has_findings = (word & HAS_FINDINGS) != 0};
    return answer::CHECKED;
}

/// False: the owner has not answered in time, or has ended.
bool peer_slots::await_answer(mailbox &sent, unsigned owner, std::uint32_t owner_number,
                              std::uint32_t requested) noexcept {
    process_slot &slot = shm_->slots[owner];
    std::uint32_t activity = slot.activity.load();
    const auto next_deadline = [&] {
        const bool is_busy = (activity & 1) != 0;
        return steady_clock::now() + (is_busy ? timeouts_.end : timeouts_.begin);
    };
    auto deadline = next_deadline();
    bool is_awaited = true;
    for (;;) {
        // Acquire: pairs with the owner's release of ANSWERED.
        state_word state = sent.state.load(std::memory_order_acquire);
        if (state == in_phase(requested, ANSWERED))
            break;
        if (!is_awaited) {
            // If it has begun or answered in between, the exchange fails.
            if (sent.state.compare_exchange_strong(state, in_phase(requested, IDLE)))
                return false;
            continue;
        }
        wait_on(sent.state, state, std::min(deadline, steady_clock::now() + LOOK_INTERVAL));
        if (sent.state.load(std::memory_order_acquire) == in_phase(requested, ANSWERED))
            break;
        if (const std::uint32_t current = slot.activity.load(); current != activity) {
            activity = current;
            deadline = next_deadline();
        }
        if (!is_slot_locked(fd_, owner) || slot.process_number.load() != owner_number) {
            is_awaited = false; // it has ended
        } else if (steady_clock::now() >= deadline) {
            silent_owners_[owner].store(progress_of(owner_number, activity));
            is_awaited = false;
        }
    }
    sent.state.store(in_phase(requested, IDLE));
    return true;
}

void peer_slots::end_request(const ticket &left, bool is_posted) noexcept {
    if (left.number == 0)
        return;
    process_slot &slot = shm_->slots[left.slot];
    state_word expected = left.number;
    // Of another process that has the slot now, or the ticket: it has another number.
    if (slot.tickets[left.index].compare_exchange_strong(
            expected, in_phase(left.number, is_posted ? POSTED : REFUSED)) &&
        (left.has_findings || !is_posted))
        ring(slot.doorbell);
}

} // namespace coherdma::emulation
