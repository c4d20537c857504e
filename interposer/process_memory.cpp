// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "process_memory.hpp"

#include "dynamic_symbols.hpp"
#include "objects.hpp"
#include "observers.hpp"

#include <atomic>
#include <cstddef>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>

namespace coherdma::interposer {
namespace {

decltype(&free) original_free = nullptr;
decltype(&realloc) original_realloc = nullptr;
int (*original_munmap)(void *, std::size_t) = nullptr;
void *(*original_mremap)(void *, std::size_t, std::size_t, int, void *) = nullptr;
decltype(&mmap) original_mmap = nullptr;
std::size_t (*original_usable_size)(void *) = nullptr;
/// Whether the allocator is a sanitizer's, which says itself what is freed: also by operator
/// delete, and by the calls of a program that it is linked into.
bool has_free_hook = false;

/// Memory of destroyed objects, in the order in which they were destroyed. The oldest is freed.
class kept_memory {
  public:
    void add(void *memory) noexcept {
        const std::size_t index = next_.fetch_add(1, std::memory_order_relaxed) % slots_.size();
        // Acquire, release: the thread that frees it has the other thread's last stores to it.
        if (void *const oldest = slots_[index].exchange(memory, std::memory_order_acq_rel))
            original_free(oldest);
    }

  private:
    std::array<std::atomic<void *>, 256> slots_{};
    std::atomic<std::size_t> next_ = 0;
};
constinit kept_memory kept;

void notify(const void *addr, std::size_t length, const char *call) noexcept {
    const int saved_errno = errno;
    const unobserved_scope scope;
    for (observer *const loaded : loaded_observers())
        loaded->before_free(addr, length, call);
    errno = saved_errno;
}

/// The sanitizer's allocator is about to free it.
void on_sanitizer_free(const volatile void *memory) noexcept {
    auto *const freed = const_cast<void *>(memory);
    if (freed != nullptr && !unobserved_scope::is_active())
        notify(freed, original_usable_size(freed), "free");
}
void on_sanitizer_malloc(const volatile void *, std::size_t) noexcept {}

void install_free_hook() noexcept {
    using malloc_hook = void (*)(const volatile void *, std::size_t);
    using free_hook = void (*)(const volatile void *);
    using install_function = int (*)(malloc_hook, free_hook);
    const auto install = reinterpret_cast<install_function>(
        dlsym(RTLD_DEFAULT, "__sanitizer_install_malloc_and_free_hooks"));
    has_free_hook = install != nullptr && install(on_sanitizer_malloc, on_sanitizer_free) != 0;
}

void observed_free(void *memory) noexcept {
    if (memory == nullptr || unobserved_scope::is_active())
        return original_free(memory);
    const std::size_t length = original_usable_size(memory);
    const auto *const begin = static_cast<const std::byte *>(memory);
    const auto *const destroyed = static_cast<const std::byte *>(destruction_scope::current());
    if (destroyed != nullptr && destroyed >= begin && destroyed < begin + length)
        return kept.add(memory);
    if (!has_free_hook)
        notify(memory, length, "free");
    original_free(memory);
}

void *observed_realloc(void *memory, std::size_t new_length) noexcept {
    if (memory == nullptr || unobserved_scope::is_active())
        return original_realloc(memory, new_length);
    const std::size_t length = original_usable_size(memory);
    if (new_length > length || new_length == 0) // it may move, or is freed
        notify(memory, length, "realloc");
    const unobserved_scope scope; // of the sanitizer's hook
    return original_realloc(memory, new_length);
}

int observed_munmap(void *addr, std::size_t length) noexcept {
    if (!unobserved_scope::is_active())
        notify(addr, length, "munmap");
    return original_munmap(addr, length);
}

/// new_addr: undefined without MREMAP_FIXED; it is passed on.
void *observed_mremap(void *addr, std::size_t length, std::size_t new_length, int flags,
                      void *new_addr) noexcept {
    if (!unobserved_scope::is_active()) {
        const std::size_t kept_length = (flags & MREMAP_FIXED) == 0 ? new_length : 0;
        constexpr int DONTUNMAP = 4; // since Linux 5.7: it moves, and leaves empty pages
        if (((flags & MREMAP_MAYMOVE) != 0 && new_length > length) || (flags & DONTUNMAP) != 0)
            notify(addr, length, "mremap"); // it may move
        else if (kept_length < length)
            notify(static_cast<std::byte *>(addr) + kept_length, length - kept_length, "mremap");
    }
    return original_mremap(addr, length, new_length, flags, new_addr);
}

void *observed_mmap(void *addr, std::size_t length, int protection, int flags, int fd,
                    off_t offset) noexcept {
    if ((flags & MAP_FIXED) != 0 && !unobserved_scope::is_active())
        notify(addr, length, "mmap"); // it replaces what is mapped there
    return original_mmap(addr, length, protection, flags, fd, offset);
}

/// The library that a call of the function is bound to. Not by dlsym(): of a program that takes the
/// function's address, it may return one in the program.
template <class function>
const link_map *find(function &original, const char *name) noexcept {
    void *const program = dlopen(nullptr, RTLD_NOW);
    for (auto *library = static_cast<const link_map *>(program); library != nullptr;
         library = library->l_next) {
        const bool is_file = library == program || std::strchr(library->l_name, '/') != nullptr;
        if (!is_file) // the vDSO: its tables may have other addresses
            continue;
        const dynamic_symbols symbols(library);
        for (ElfW(Word) i = 0; i < symbols.count; ++i)
            if (symbols.is_exported_function(i) && std::strcmp(symbols.name(i), name) == 0) {
                original =
                    reinterpret_cast<function>(library->l_addr + symbols.symbols[i].st_value);
                return library;
            }
    }
    return nullptr;
}

/// Of an allocator that has no malloc_usable_size(): at least a byte is freed.
std::size_t unknown_usable_size(void *) noexcept {
    return 1;
}

} // namespace

std::array<memory_function, 5> find_memory_functions() noexcept {
    const link_map *const allocator = find(original_free, "free");
    find(original_realloc, "realloc");
    find(original_munmap, "munmap");
    find(original_mremap, "mremap");
    find(original_mmap, "mmap");
    if (find(original_usable_size, "malloc_usable_size") != allocator)
        original_usable_size = unknown_usable_size; // it would be of another allocator
    install_free_hook();
    const auto led_to = [](auto *original, auto *replacement) {
        return memory_function{.original = reinterpret_cast<void *>(original),
                               .replacement = reinterpret_cast<void *>(replacement)};
    };
    return {led_to(original_free, observed_free), led_to(original_realloc, observed_realloc),
            led_to(original_munmap, observed_munmap), led_to(original_mremap, observed_mremap),
            led_to(original_mmap, observed_mmap)};
}

} // namespace coherdma::interposer
