// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// malloc() and free() of a program whose addresses are used again at once, by any thread: what is
// freed last is allocated first.

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <sched.h>
#include <sys/mman.h>

namespace {

struct block { ///< before the memory that the program gets; its alignment
    block *next;
    std::size_t size_class;
};
static_assert(sizeof(block) == 16);

constexpr std::size_t MIN_CLASS = 6, NUM_CLASSES = 48, CHUNK = 1 << 20;
constexpr std::size_t ALIGNED = ~std::size_t{0}; ///< size_class: `next` is the block itself

std::atomic_flag is_locked = ATOMIC_FLAG_INIT; // fork() of this program has one thread
std::array<block *, NUM_CLASSES> free_blocks;
unsigned char *chunk = nullptr;
std::size_t chunk_left = 0;

class lock {
  public:
    lock() {
        while (is_locked.test_and_set(std::memory_order_acquire))
            sched_yield();
    }
    ~lock() { is_locked.clear(std::memory_order_release); }
    lock(const lock &) = delete;
    lock &operator=(const lock &) = delete;
};

void *map(std::size_t size) {
    void *const mapped =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return mapped == MAP_FAILED ? nullptr : mapped;
}

block *new_block(std::size_t size_class) {
    const std::size_t size = std::size_t{1} << size_class;
    if (size > CHUNK)
        return static_cast<block *>(map(size));
    if (chunk_left < size) {
        chunk = static_cast<unsigned char *>(map(CHUNK));
        chunk_left = chunk != nullptr ? CHUNK : 0;
        if (chunk == nullptr)
            return nullptr;
    }
    chunk_left -= size;
    return reinterpret_cast<block *>(chunk + chunk_left);
}

} // namespace

extern "C" {

void *malloc(std::size_t size) {
    const std::size_t size_class = std::max<std::size_t>(
        MIN_CLASS, static_cast<std::size_t>(std::bit_width(size + sizeof(block) - 1)));
    if (size > PTRDIFF_MAX || size_class >= NUM_CLASSES) {
        errno = ENOMEM;
        return nullptr;
    }
    const lock guard;
    block *allocated = free_blocks[size_class];
    if (allocated != nullptr)
        free_blocks[size_class] = allocated->next;
    else
        allocated = new_block(size_class);
    if (allocated == nullptr) {
        errno = ENOMEM;
        return nullptr;
    }
    allocated->size_class = size_class;
    return allocated + 1;
}

void free(void *memory) {
    if (memory == nullptr)
        return;
    block *freed = static_cast<block *>(memory) - 1;
    if (freed->size_class == ALIGNED)
        freed = freed->next;
    const lock guard;
    freed->next = free_blocks[freed->size_class];
    free_blocks[freed->size_class] = freed;
}

void *aligned_alloc(std::size_t alignment, std::size_t size) {
    void *const memory = malloc(size + alignment + sizeof(block));
    if (memory == nullptr || alignment <= sizeof(block))
        return memory;
    const auto addr = reinterpret_cast<std::uintptr_t>(memory) + sizeof(block);
    auto *const aligned =
        reinterpret_cast<block *>((addr + alignment - 1) & ~(std::uintptr_t{alignment} - 1));
    aligned[-1] = {static_cast<block *>(memory) - 1, ALIGNED};
    return aligned;
}
void *memalign(std::size_t alignment, std::size_t size) {
    return aligned_alloc(alignment, size);
}
int posix_memalign(void **memory, std::size_t alignment, std::size_t size) {
    *memory = aligned_alloc(alignment, size);
    return *memory != nullptr ? 0 : ENOMEM;
}
void *calloc(std::size_t count, std::size_t size) {
    std::size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return nullptr;
    }
    void *const memory = malloc(bytes);
    return memory != nullptr ? std::memset(memory, 0, bytes) : nullptr;
}
void *realloc(void *former, std::size_t size) {
    void *const memory = malloc(size);
    if (former == nullptr || memory == nullptr)
        return memory;
    const block &header = static_cast<block *>(former)[-1];
    const block &whole = header.size_class == ALIGNED ? *header.next : header;
    const auto *const end =
        reinterpret_cast<const unsigned char *>(&whole) + (std::size_t{1} << whole.size_class);
    const auto available =
        static_cast<std::size_t>(end - static_cast<const unsigned char *>(former));
    std::memcpy(memory, former, available < size ? available : size);
    free(former);
    return memory;
}

} // extern "C"
