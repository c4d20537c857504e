// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "process_memory.hpp"

#include "objects.hpp"
#include "observers.hpp"

#include <atomic>
#include <cstddef>
#include <dlfcn.h>

namespace coherdma::interposer {
namespace {

decltype(&free) original_free = nullptr;
decltype(&realloc) original_realloc = nullptr;
int (*original_munmap)(void *, std::size_t) = nullptr;
std::size_t (*original_usable_size)(void *) = nullptr;

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

void observed_free(void *memory) noexcept {
    if (memory == nullptr || unobserved_scope::is_active())
        return original_free(memory);
    const std::size_t length = original_usable_size(memory);
    const auto *const begin = static_cast<const std::byte *>(memory);
    const auto *const destroyed = static_cast<const std::byte *>(destruction_scope::current());
    if (destroyed != nullptr && destroyed >= begin && destroyed < begin + length)
        return kept.add(memory);
    notify(memory, length, "free");
    original_free(memory);
}

void *observed_realloc(void *memory, std::size_t new_length) noexcept {
    if (memory == nullptr || unobserved_scope::is_active())
        return original_realloc(memory, new_length);
    const std::size_t length = original_usable_size(memory);
    if (new_length > length) // it may move
        notify(memory, length, "realloc");
    return original_realloc(memory, new_length);
}

int observed_munmap(void *addr, std::size_t length) noexcept {
    if (!unobserved_scope::is_active())
        notify(addr, length, "munmap");
    return original_munmap(addr, length);
}

template <class function>
void find(function &original, const char *name) noexcept {
    original = reinterpret_cast<function>(dlsym(RTLD_DEFAULT, name));
}

} // namespace

std::array<memory_function, 3> find_memory_functions() noexcept {
    find(original_free, "free");
    find(original_realloc, "realloc");
    find(original_munmap, "munmap");
    find(original_usable_size, "malloc_usable_size");
    return {{{.name = "free",
              .original = reinterpret_cast<void *>(original_free),
              .replacement = reinterpret_cast<void *>(observed_free)},
             {.name = "realloc",
              .original = reinterpret_cast<void *>(original_realloc),
              .replacement = reinterpret_cast<void *>(observed_realloc)},
             {.name = "munmap",
              .original = reinterpret_cast<void *>(original_munmap),
              .replacement = reinterpret_cast<void *>(observed_munmap)}}};
}

} // namespace coherdma::interposer
