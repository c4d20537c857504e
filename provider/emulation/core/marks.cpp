// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "marks.hpp"

#include <algorithm>
#include <dlfcn.h>

#ifdef COHERDMA_VALGRIND
#    include <valgrind/memcheck.h>
#endif

namespace coherdma::emulation {
namespace {

// -- the address sanitizer: a byte of its own for each 8 of the program's

constexpr std::size_t GRANULE = 8;

struct {
    void (*poison)(const volatile void *, std::size_t);
    void (*unpoison)(const volatile void *, std::size_t);
    std::size_t scale, offset;
    unsigned char ours; ///< its byte for what a program has poisoned

    /// 0: the program may use all 8. In its own memory, where it would look for another such byte.
    [[nodiscard, gnu::noinline, gnu::no_sanitize_address]] unsigned char
    of(std::uintptr_t at) const noexcept {
        return *reinterpret_cast<const unsigned char *>((at >> scale) + offset);
    }
} sanitizer;

const volatile void *pointer(std::uintptr_t at) noexcept {
    return reinterpret_cast<const volatile void *>(at);
}

bool poison(span where) noexcept {
    for (std::uintptr_t at = where.begin; at < where.end; at += GRANULE)
        if (sanitizer.of(at) != 0)
            return false;
    sanitizer.poison(pointer(where.begin), where.size());
    return true;
}

/// What has been freed meanwhile is the sanitizer's.
void unpoison(span where) noexcept {
    for (std::uintptr_t at = where.begin; at < where.end; at += GRANULE)
        if (sanitizer.of(at) == sanitizer.ours)
            sanitizer.unpoison(pointer(at), GRANULE);
}

void nothing(span) noexcept {}

template <class function>
bool look_up(const char *name, function &into) noexcept {
    into = reinterpret_cast<function>(dlsym(RTLD_DEFAULT, name));
    return into != nullptr;
}

bool find_sanitizer() noexcept {
    void (*layout)(std::size_t *, std::size_t *);
    if (!look_up("__asan_poison_memory_region", sanitizer.poison) ||
        !look_up("__asan_unpoison_memory_region", sanitizer.unpoison) ||
        !look_up("__asan_get_shadow_mapping", layout))
        return false;
    layout(&sanitizer.scale, &sanitizer.offset);
    alignas(GRANULE) static unsigned char trial[GRANULE];
    const auto at = reinterpret_cast<std::uintptr_t>(trial);
    sanitizer.poison(trial, sizeof trial);
    sanitizer.ours = sanitizer.of(at);
    sanitizer.unpoison(trial, sizeof trial);
    // Its user may have forbidden it (allow_user_poisoning=0).
    return sanitizer.ours != 0 && sanitizer.of(at) == 0;
}

constexpr watcher SANITIZER = {"the address sanitizer reports it as use-after-poison", GRANULE,
                               poison, unpoison, nothing};

// -- memcheck: whether each byte has a value

#ifdef COHERDMA_VALGRIND
void *bytes(std::uintptr_t at) noexcept {
    return reinterpret_cast<void *>(at);
}

bool undefine(span where) noexcept {
    constexpr unsigned ALL_THERE = 1;
    for (std::uintptr_t at = where.begin; at < where.end; ++at)
        if (unsigned char has; VALGRIND_GET_VBITS(bytes(at), &has, 1) != ALL_THERE)
            return false;
    VALGRIND_MAKE_MEM_UNDEFINED(bytes(where.begin), where.size());
    return true;
}

void define(span where) noexcept {
    VALGRIND_MAKE_MEM_DEFINED_IF_ADDRESSABLE(bytes(where.begin), where.size());
}

constexpr watcher MEMCHECK = {"valgrind reports it as the use of an uninitialised value", 1,
                              undefine, define, define};

/// Other tools of valgrind do not know what they are asked.
bool is_memcheck() noexcept {
    unsigned char value = 0, bits = 1;
    return RUNNING_ON_VALGRIND != 0 && VALGRIND_GET_VBITS(&value, &bits, 1) == 1;
}
#endif

} // namespace

const watcher *watcher_here() noexcept {
#ifdef COHERDMA_VALGRIND
    if (is_memcheck())
        return &MEMCHECK;
#endif
    static const bool sanitized = find_sanitizer();
    return sanitized ? &SANITIZER : nullptr;
}

#ifdef COHERDMA_VALGRIND
unwatched::unwatched() noexcept {
    VALGRIND_DISABLE_ERROR_REPORTING;
}
unwatched::~unwatched() {
    VALGRIND_ENABLE_ERROR_REPORTING;
}
#else
unwatched::unwatched() noexcept = default;
unwatched::~unwatched() = default;
#endif

void marks::put(std::uintptr_t at, span bytes) {
    if (by_ == nullptr)
        return;
    const std::size_t unit = by_->unit;
    const span all = {(bytes.begin + unit - 1) & ~(unit - 1), bytes.end & ~(unit - 1)};
    line &of = lines_[at];
    for (std::uintptr_t each = all.begin; each < all.end; each += unit) {
        const span part = {each, each + unit};
        const bool is_marked = std::any_of(of.marked.begin(), of.marked.end(), [=](span other) {
            return other.begin <= part.begin && part.end <= other.end;
        });
        if (is_marked)
            continue;
        of.marked.reserve(of.marked.size() + 1); // what is marked is always known
        if (!by_->mark(part))
            continue;
        if (!of.marked.empty() && of.marked.back().end == part.begin)
            of.marked.back().end = part.end;
        else
            of.marked.push_back(part);
    }
}

void marks::renew(std::uintptr_t at) noexcept {
    const auto found = lines_.find(at);
    if (found != lines_.end())
        for (const span each : found->second.marked)
            by_->mark(each);
}

void marks::lift(std::uintptr_t at) noexcept {
    const auto found = lines_.find(at);
    if (found == lines_.end())
        return;
    for (const span each : found->second.marked)
        by_->unmark(each);
    lines_.erase(found);
}

void marks::lift_all(span where) noexcept {
    for (auto each = lines_.begin(); each != lines_.end();) {
        const std::uintptr_t at = (each++)->first; // erasing one leaves the others
        if (where.begin <= at && at < where.end)
            lift(at);
    }
}

void marks::define(span bytes) const noexcept {
    if (by_ != nullptr && !bytes.empty())
        by_->define(bytes);
}

bool marks::is_old(std::uintptr_t at, std::chrono::steady_clock::duration age) {
    const auto now = std::chrono::steady_clock::now();
    const auto [found, is_new] = lines_.try_emplace(at, line{now, {}});
    return !is_new && now - found->second.seen >= age;
}

} // namespace coherdma::emulation
