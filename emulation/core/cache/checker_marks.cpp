// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "checker_marks.hpp"

#include <algorithm>
#include <dlfcn.h>

#ifdef COHERDMA_VALGRIND
#    include <valgrind/memcheck.h>
#endif

namespace coherdma::emulation {
namespace {

// -- ASan: a shadow byte for each 8 bytes of the program

constexpr std::size_t GRANULE = 8;

struct {
    void (*poison_region)(const volatile void *, std::size_t);
    void (*unpoison_region)(const volatile void *, std::size_t);
    std::size_t scale, offset;
    unsigned char user_poison; ///< the shadow byte of memory poisoned by the program

    /// 0: all 8 bytes are accessible. ASan must not check this access to its own memory.
    [[nodiscard, gnu::noinline, gnu::no_sanitize_address]] unsigned char
    shadow_byte(std::uintptr_t addr) const noexcept {
        return *reinterpret_cast<const unsigned char *>((addr >> scale) + offset);
    }
} asan;

const volatile void *pointer_to(std::uintptr_t addr) noexcept {
    return reinterpret_cast<const volatile void *>(addr);
}

/// Poisons the bytes for ASan. False: the program must not access some of them anyway.
bool asan_mark(addr_range range) noexcept {
    for (std::uintptr_t addr = range.begin; addr < range.end; addr += GRANULE)
        if (asan.shadow_byte(addr) != 0)
            return false;
    asan.poison_region(pointer_to(range.begin), range.size());
    return true;
}

/// Memory freed since has another shadow byte, which stays.
void asan_unmark(addr_range range) noexcept {
    for (std::uintptr_t addr = range.begin; addr < range.end; addr += GRANULE)
        if (asan.shadow_byte(addr) == asan.user_poison)
            asan.unpoison_region(pointer_to(addr), GRANULE);
}

/// ASan does not track initialization.
void asan_make_defined(addr_range) noexcept {}

template <class function>
bool find_symbol(const char *name, function &symbol) noexcept {
    symbol = reinterpret_cast<function>(dlsym(RTLD_DEFAULT, name));
    return symbol != nullptr;
}

/// Whether ASan runs this program, and lets it poison memory. Sets `asan`.
bool find_asan() noexcept {
    void (*get_shadow_mapping)(std::size_t *, std::size_t *);
    if (!find_symbol("__asan_poison_memory_region", asan.poison_region) ||
        !find_symbol("__asan_unpoison_memory_region", asan.unpoison_region) ||
        !find_symbol("__asan_get_shadow_mapping", get_shadow_mapping))
        return false;
    get_shadow_mapping(&asan.scale, &asan.offset);
    alignas(GRANULE) static unsigned char sample[GRANULE];
    const auto addr = reinterpret_cast<std::uintptr_t>(sample);
    asan.poison_region(sample, sizeof sample);
    asan.user_poison = asan.shadow_byte(addr);
    asan.unpoison_region(sample, sizeof sample);
    // With allow_user_poisoning=0 it has no effect.
    return asan.user_poison != 0 && asan.shadow_byte(addr) == 0;
}

constexpr memory_checker ASAN = {"the address sanitizer reports it as use-after-poison", GRANULE,
                                 asan_mark, asan_unmark, asan_make_defined};

// -- memcheck: whether each byte is initialized

#ifdef COHERDMA_VALGRIND
void *memcheck_pointer(std::uintptr_t addr) noexcept {
    return reinterpret_cast<void *>(addr);
}

/// Makes the bytes uninitialized for valgrind. False: the program must not access some of them
/// anyway.
bool memcheck_mark(addr_range range) noexcept {
    constexpr unsigned IS_ADDRESSABLE = 1;
    for (std::uintptr_t addr = range.begin; addr < range.end; ++addr)
        if (unsigned char vbits;
            VALGRIND_GET_VBITS(memcheck_pointer(addr), &vbits, 1) != IS_ADDRESSABLE)
            return false;
    VALGRIND_MAKE_MEM_UNDEFINED(memcheck_pointer(range.begin), range.size());
    return true;
}

void memcheck_make_defined(addr_range range) noexcept {
    VALGRIND_MAKE_MEM_DEFINED_IF_ADDRESSABLE(memcheck_pointer(range.begin), range.size());
}

constexpr memory_checker MEMCHECK = {"valgrind reports it as the use of an uninitialised value", 1,
                                     memcheck_mark, memcheck_make_defined, memcheck_make_defined};

/// Other valgrind tools do not implement the request.
bool is_memcheck() noexcept {
    unsigned char value = 0, vbits = 1;
    return RUNNING_ON_VALGRIND != 0 && VALGRIND_GET_VBITS(&value, &vbits, 1) == 1;
}
#endif

} // namespace

/// The checker that runs this program; nullptr: none.
const memory_checker *running_checker() noexcept {
#ifdef COHERDMA_VALGRIND
    if (is_memcheck())
        return &MEMCHECK;
#endif
    static const bool has_asan = find_asan();
    return has_asan ? &ASAN : nullptr;
}

#ifdef COHERDMA_VALGRIND
scoped_checker_disable::scoped_checker_disable() noexcept {
    VALGRIND_DISABLE_ERROR_REPORTING;
}
scoped_checker_disable::~scoped_checker_disable() {
    VALGRIND_ENABLE_ERROR_REPORTING;
}
#else
scoped_checker_disable::scoped_checker_disable() noexcept = default;
scoped_checker_disable::~scoped_checker_disable() = default;
#endif

/// Marks the whole units of the checker in these bytes, which are all of one line.
void checker_marks::add(std::uintptr_t line_addr, addr_range bytes) {
    if (checker_ == nullptr)
        return;
    const std::size_t unit = checker_->unit;
    const addr_range whole_units = {(bytes.begin + unit - 1) & ~(unit - 1),
                                    bytes.end & ~(unit - 1)};
    line_state &line = lines_[line_addr];
    for (std::uintptr_t addr = whole_units.begin; addr < whole_units.end; addr += unit) {
        const addr_range part = {addr, addr + unit};
        const bool is_marked =
            std::any_of(line.marked.begin(), line.marked.end(), [=](addr_range marked) {
                return marked.begin <= part.begin && part.end <= marked.end;
            });
        if (is_marked)
            continue;
        line.marked.reserve(line.marked.size() + 1); // before mark(): recording must not throw
        if (!checker_->mark(part))
            continue;
        if (!line.marked.empty() && line.marked.back().end == part.begin)
            line.marked.back().end = part.end;
        else
            line.marked.push_back(part);
    }
}

/// The emulation has stored to the line, which a checker may take for the program's initialization.
void checker_marks::renew(std::uintptr_t line_addr) noexcept {
    const auto it = lines_.find(line_addr);
    if (it != lines_.end())
        for (const addr_range marked : it->second.marked)
            checker_->mark(marked);
}

void checker_marks::remove(std::uintptr_t line_addr) noexcept {
    const auto it = lines_.find(line_addr);
    if (it == lines_.end())
        return;
    for (const addr_range marked : it->second.marked)
        checker_->unmark(marked);
    lines_.erase(it);
}

void checker_marks::remove_all(addr_range lines) noexcept {
    for (auto it = lines_.lower_bound(lines.begin); it != lines_.end() && it->first < lines.end;)
        remove((it++)->first); // which invalidates the iterator
}

void checker_marks::make_defined(addr_range bytes) const noexcept {
    if (checker_ != nullptr && !bytes.empty())
        checker_->make_defined(bytes);
}

/// The line is stale now. Whether it was when this function was first called for it, that long ago.
bool checker_marks::is_stale_for(std::uintptr_t line_addr,
                                 std::chrono::steady_clock::duration age) {
    const auto now = std::chrono::steady_clock::now();
    const auto [it, is_new] = lines_.try_emplace(line_addr, line_state{now, {}});
    return !is_new && now - it->second.stale_since >= age;
}

} // namespace coherdma::emulation
