// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "page_guard.hpp"

#include "threads.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <new>
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <utility>

namespace coherdma::check {
namespace {

/// A process can have some 65,000 mappings, and each range may need two more.
constexpr std::size_t MAX_RANGES = 4096;

struct sigaction old_action;
stack_bounds main_stack; ///< empty: not known
std::atomic<page_guard::access_handler *> current_handler = nullptr;

std::uintptr_t page_size() noexcept {
    static const auto size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    return size;
}

std::uintptr_t page_of(std::uintptr_t addr) noexcept {
    return addr & ~(page_size() - 1);
}

struct page_range {
    std::uintptr_t begin, end;
};

/// Those that lie completely in the range.
page_range whole_pages(std::uintptr_t begin, std::uintptr_t end) noexcept {
    const std::uintptr_t first = page_of(begin + page_size() - 1);
    return {.begin = first < begin ? UINTPTR_MAX : first, .end = page_of(end)};
}

/// Those that lie at least partly in the range.
page_range all_pages(std::uintptr_t begin, std::uintptr_t end) noexcept {
    const std::uintptr_t last = page_of(UINTPTR_MAX);
    return {.begin = page_of(begin), .end = end > last ? last : page_of(end + page_size() - 1)};
}

constexpr int OPEN = PROT_READ | PROT_WRITE;

void set_protection(std::uintptr_t begin, std::uintptr_t end, int protection) noexcept {
    const int saved_errno = errno;
    const auto set = [protection](std::uintptr_t addr, std::size_t length) {
        return mprotect(reinterpret_cast<void *>(addr), length, protection) == 0;
    };
    // If it fails, an access is not noticed: the pages are of huge size, or mapped otherwise. But
    // none stays protected because there is a hole before it.
    if (!set(begin, end - begin) && protection == OPEN)
        for (; begin < end; begin += page_size())
            set(begin, page_size());
    errno = saved_errno;
}

/// Whether the handler runs on an alternate stack that is too small to look for frames.
bool is_on_small_stack() noexcept {
    constexpr std::size_t NEEDED = 32 << 10;
    stack_t stack = {};
    return sigaltstack(nullptr, &stack) == 0 && (stack.ss_flags & SS_ONSTACK) != 0 &&
           stack.ss_size < NEEDED;
}

refused_access describe(std::uintptr_t addr, const void *context) noexcept {
    refused_access access = {.addr = addr, .has_small_stack = is_on_small_stack()};
    [[maybe_unused]] const mcontext_t &machine =
        static_cast<const ucontext_t *>(context)->uc_mcontext;
#if defined __x86_64__
    constexpr greg_t WRITE = 2; // of the page fault's error code
    access.code = reinterpret_cast<const void *>(machine.gregs[REG_RIP]);
    access.is_write = (machine.gregs[REG_ERR] & WRITE) != 0;
#elif defined __aarch64__
    access.code = reinterpret_cast<const void *>(machine.pc);
#endif
    return access;
}

/// Whether the thread makes the access for the first time. Another thread may have ended the
/// protection meanwhile.
bool is_first(const refused_access &access) noexcept {
    // initial-exec: a handler must not allocate it.
    [[gnu::tls_model("initial-exec")]] static thread_local refused_access last;
    const bool is_repeated = last.addr == access.addr && last.code == access.code;
    last = access;
    return !is_repeated;
}

/// As if the program had not been checked.
void call_old_handler(int number, siginfo_t *info, void *context) noexcept {
    const struct sigaction action = old_action;
    if ((action.sa_flags & static_cast<int>(SA_RESETHAND)) != 0) {
        old_action.sa_flags &= ~SA_SIGINFO;
        old_action.sa_handler = SIG_DFL;
    }
    if ((action.sa_flags & SA_SIGINFO) != 0) {
        action.sa_sigaction(number, info, context);
    } else if (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN) {
        action.sa_handler(number);
    } else {
        sigaction(number, &action, nullptr);
        if (info->si_code <= 0) // it was sent; else the access is repeated
            raise(number);
    }
}

void handle_fault(int number, siginfo_t *info, void *context) noexcept {
    const int saved_errno = errno;
    const auto addr = reinterpret_cast<std::uintptr_t>(info->si_addr);
    bool can_access = false;
    if (info->si_code == SEGV_ACCERR) {
        const refused_access access = describe(addr, context);
        can_access = current_handler.load()(access) || is_first(access);
    }
    if (!can_access)
        call_old_handler(number, info, context);
    errno = saved_errno;
}

/// Whether this is the process's handler. The program may have installed another.
bool is_installed() noexcept {
    struct sigaction current = {};
    return sigaction(SIGSEGV, nullptr, &current) == 0 && (current.sa_flags & SA_SIGINFO) != 0 &&
           current.sa_sigaction == handle_fault;
}

/// A thread that blocks the signal would end the process by its access.
void unblock_signal() noexcept {
    static thread_local bool is_unblocked = false;
    if (std::exchange(is_unblocked, true))
        return;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

/// Whether the range is on a stack: the kernel cannot call the handler if that is protected.
bool is_on_stack(page_range range) noexcept {
    const auto overlaps = [&](const stack_bounds &stack) {
        return range.begin < stack.end && stack.begin < range.end;
    };
    return overlaps(bounds_of_stack()) || overlaps(main_stack);
}

} // namespace

bool page_guard::start(access_handler *handler) noexcept {
    current_handler.store(handler);
    if (gettid() == getpid())
        main_stack = bounds_of_stack();
    struct sigaction action = {};
    action.sa_sigaction = handle_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER; // the checker may fault in it
    sigemptyset(&action.sa_mask);
    if (!is_installed() && sigaction(SIGSEGV, &action, &old_action) != 0)
        return false;
    return is_started_ = true;
}

bool page_guard::protect(std::uintptr_t begin, std::uintptr_t end, memory_use use) {
    const page_range pages = whole_pages(begin, end);
    if (!is_started_ || num_suspensions_ != 0 || num_ranges_ == MAX_RANGES ||
        pages.begin >= pages.end || is_on_stack(pages))
        return false;
    if (!is_installed()) { // the program's handler would get the accesses
        is_started_ = false;
        forget(0, UINTPTR_MAX);
        return false;
    }
    unblock_signal();
    ++num_ranges_;
    (use == memory_use::SOURCE ? sources_ : targets_)
        .add(pages.begin, pages.end, [&](std::uintptr_t part_begin, std::uintptr_t part_end) {
            apply(part_begin, part_end, use);
        });
    return true;
}

void page_guard::release(std::uintptr_t begin, std::uintptr_t end, memory_use use) noexcept try {
    const page_range pages = whole_pages(begin, end);
    --num_ranges_;
    (use == memory_use::SOURCE ? sources_ : targets_)
        .remove(pages.begin, pages.end, [&](std::uintptr_t part_begin, std::uintptr_t part_end) {
            apply(part_begin, part_end, use);
        });
} catch (const std::bad_alloc &) { // they stay protected, and an access opens them
}

bool page_guard::is_protected(std::uintptr_t addr) const noexcept {
    return sources_.overlaps(addr, addr + 1) || targets_.overlaps(addr, addr + 1);
}

void page_guard::open(std::uintptr_t begin, std::uintptr_t end) noexcept {
    const page_range pages = all_pages(begin, end);
    set_protection(pages.begin, pages.end, OPEN);
}

void page_guard::forget(std::uintptr_t begin, std::uintptr_t end) noexcept {
    const page_range pages = all_pages(begin, end);
    for (range_counts *const counts : {&sources_, &targets_}) {
        try {
            counts->forget(pages.begin, pages.end, open);
        } catch (const std::bad_alloc &) { // an access opens them
        }
    }
}

int page_guard::protection_of(std::uintptr_t page) const noexcept {
    if (targets_.overlaps(page, page + 1))
        return PROT_NONE;
    return sources_.overlaps(page, page + 1) ? PROT_READ : OPEN;
}

/// Protects pages as the counts say. They have one count of this use.
void page_guard::apply(std::uintptr_t begin, std::uintptr_t end, memory_use use) const noexcept {
    const range_counts &others = use == memory_use::SOURCE ? targets_ : sources_;
    if (!others.overlaps(begin, end))
        set_protection(begin, end, protection_of(begin));
    else
        for_each_run(begin, end, set_protection);
}

template <class function>
void page_guard::for_each_run(std::uintptr_t begin, std::uintptr_t end,
                              function func) const noexcept {
    const page_range pages = all_pages(begin, end);
    for (std::uintptr_t page = pages.begin; page < pages.end;) {
        const std::uintptr_t first = page;
        const int protection = protection_of(page);
        while (page < pages.end && protection_of(page) == protection)
            page += page_size();
        func(first, page, protection);
    }
}

void page_guard::open_protected(std::uintptr_t begin, std::uintptr_t end) const noexcept {
    for_each_run(begin, end, [](std::uintptr_t run_begin, std::uintptr_t run_end, int protection) {
        if (protection != OPEN)
            set_protection(run_begin, run_end, OPEN);
    });
}

/// What the program has protected itself stays as it is.
void page_guard::protect_again(std::uintptr_t begin, std::uintptr_t end) const noexcept {
    for_each_run(begin, end, [](std::uintptr_t run_begin, std::uintptr_t run_end, int protection) {
        if (protection != OPEN)
            set_protection(run_begin, run_end, protection);
    });
}

} // namespace coherdma::check
