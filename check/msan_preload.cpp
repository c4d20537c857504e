// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Preloaded into a program with the memory sanitizer. RDMA libraries are not compiled with it, and
// what they store is not marked as initialized: the sanitizer's versions of the C library's
// functions, which they are bound to, would report their arguments, also before main(). Here they
// are bound to the C library's own. Memory that they allocate is initialized.

#include "msan_preload.hpp"

#include "interposer/dynamic_symbols.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <malloc.h>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>

namespace {

using address = ElfW(Addr);
using coherdma::interposer::dynamic_symbols, coherdma::interposer::to_address;

constexpr std::array<std::string_view, 4> LIBRARIES = {"libibverbs.so", "librdmacm.so",
                                                       "libnl-3.so", "libnl-route-3.so"};
/// The sanitizer must know of these.
constexpr std::array<std::string_view, 22> KEPT = {
    "free",          "cfree",          "malloc_usable_size",
    "mmap",          "mmap64",         "munmap",
    "mremap",        "pthread_create", "fork",
    "vfork",         "sigaction",      "signal",
    "dlopen",        "dlclose",        "dlsym",
    "__cxa_atexit",  "atexit",         "pthread_key_create",
    "exit",          "_exit",          "pthread_atfork",
    "__tls_get_addr"};

void (*unpoison)(address begin, std::size_t length) = nullptr;

template <class type>
type *initialized(type *memory, std::size_t length) noexcept {
    if (memory != nullptr)
        unpoison(reinterpret_cast<address>(memory), length);
    return memory;
}

void *initialized_malloc(std::size_t length) noexcept {
    return initialized(std::malloc(length), length);
}
void *initialized_realloc(void *memory, std::size_t length) noexcept {
    return initialized(std::realloc(memory, length), length);
}
int initialized_posix_memalign(void **memory, std::size_t alignment, std::size_t length) noexcept {
    void *allocated = nullptr;
    const int error = posix_memalign(&allocated, alignment, length);
    if (error == 0)
        *memory = initialized(allocated, length);
    return error;
}
void *initialized_aligned_alloc(std::size_t alignment, std::size_t length) noexcept {
    return initialized(std::aligned_alloc(alignment, length), length);
}
char *initialized_strdup(const char *text) noexcept {
    static const auto duplicate =
        reinterpret_cast<decltype(&strdup)>(dlsym(RTLD_NEXT, "strdup")); // without checks
    char *const copy = duplicate(text);
    return initialized(copy, malloc_usable_size(copy));
}

/// What a library is to call by this name; nullptr: what it is bound to.
void *find_function(const char *name) noexcept {
    struct allocation {
        std::string_view name;
        void *function;
    };
    static const std::array allocations = {
        allocation{"malloc", reinterpret_cast<void *>(initialized_malloc)},
        allocation{"realloc", reinterpret_cast<void *>(initialized_realloc)},
        allocation{"posix_memalign", reinterpret_cast<void *>(initialized_posix_memalign)},
        allocation{"aligned_alloc", reinterpret_cast<void *>(initialized_aligned_alloc)},
        allocation{"strdup", reinterpret_cast<void *>(initialized_strdup)},
        allocation{"__strdup", reinterpret_cast<void *>(initialized_strdup)},
        allocation{"calloc", nullptr}, // initializes it
    };
    for (const allocation &each : allocations)
        if (each.name == name)
            return each.function;
    const bool is_kept = std::find(KEPT.begin(), KEPT.end(), name) != KEPT.end();
    return is_kept ? nullptr : dlsym(RTLD_NEXT, name);
}

struct address_range {
    address begin = UINTPTR_MAX, end = 0;
    [[nodiscard]] bool has(address addr) const noexcept { return addr >= begin && addr < end; }
};

address_range range_of(const dl_phdr_info &object) noexcept {
    address_range range;
    for (int i = 0; i < object.dlpi_phnum; ++i) {
        const ElfW(Phdr) &header = object.dlpi_phdr[i];
        if (header.p_type != PT_LOAD)
            continue;
        range.begin = std::min(range.begin, object.dlpi_addr + header.p_vaddr);
        range.end = std::max(range.end, object.dlpi_addr + header.p_vaddr + header.p_memsz);
    }
    return range;
}

/// The page may be read-only when the dynamic linker is done with it.
void store(address *slot, address value) noexcept {
    const auto page_size = static_cast<address>(sysconf(_SC_PAGESIZE));
    auto *const page =
        reinterpret_cast<void *>(reinterpret_cast<address>(slot) / page_size * page_size);
    if (mprotect(page, page_size, PROT_READ | PROT_WRITE) == 0)
        *slot = value;
}

/// Binds the slots that lead to the program's functions to those of the C library.
void bind_slots(const dl_phdr_info &object, const dynamic_symbols &symbols,
                const ElfW(Rela) * relocations, std::size_t size, const address_range &program) {
    for (std::size_t i = 0; i < size / sizeof *relocations; ++i) {
        const auto index = static_cast<ElfW(Word)>(ELF64_R_SYM(relocations[i].r_info));
        auto *const slot = reinterpret_cast<address *>(object.dlpi_addr + relocations[i].r_offset);
        if (index == 0 || !program.has(*slot) ||
            ELF64_ST_TYPE(symbols.symbols[index].st_info) != STT_FUNC)
            continue;
        if (void *const function = find_function(symbols.name(index)))
            store(slot, reinterpret_cast<address>(function));
    }
}

void bind_library(const dl_phdr_info &object, const address_range &program) {
    const ElfW(Dyn) *dynamic = nullptr;
    for (int i = 0; i < object.dlpi_phnum; ++i)
        if (object.dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic =
                reinterpret_cast<const ElfW(Dyn) *>(object.dlpi_addr + object.dlpi_phdr[i].p_vaddr);
    if (dynamic == nullptr)
        return;
    link_map map = {};
    map.l_addr = object.dlpi_addr;
    map.l_ld = const_cast<ElfW(Dyn) *>(dynamic);
    const dynamic_symbols symbols(&map);
    const ElfW(Rela) *relocations = nullptr, *plt_relocations = nullptr;
    std::size_t size = 0, plt_size = 0;
    for (const ElfW(Dyn) *entry = dynamic; entry->d_tag != DT_NULL; ++entry)
        if (entry->d_tag == DT_RELA)
            relocations = to_address<ElfW(Rela)>(object.dlpi_addr, *entry);
        else if (entry->d_tag == DT_RELASZ)
            size = entry->d_un.d_val;
        else if (entry->d_tag == DT_JMPREL)
            plt_relocations = to_address<ElfW(Rela)>(object.dlpi_addr, *entry);
        else if (entry->d_tag == DT_PLTRELSZ)
            plt_size = entry->d_un.d_val;
    bind_slots(object, symbols, relocations, size, program);
    bind_slots(object, symbols, plt_relocations, plt_size, program);
}

int visit_object(dl_phdr_info *object, std::size_t, void *data) {
    auto &program = *static_cast<address_range *>(data);
    if (program.end == 0) { // the first one
        program = range_of(*object);
        return 0;
    }
    std::string_view name = object->dlpi_name;
    name.remove_prefix(name.rfind('/') + 1);
    const bool is_driver = name.find("-rdmav") != std::string_view::npos;
    if (is_driver || std::any_of(LIBRARIES.begin(), LIBRARIES.end(),
                                 [&](std::string_view prefix) { return name.starts_with(prefix); }))
        bind_library(*object, program);
    return 0;
}

/// Before the constructors of other libraries: it is linked as the first one to be initialized.
[[gnu::constructor]] void bind_at_start() noexcept {
    unpoison = reinterpret_cast<decltype(unpoison)>(dlsym(RTLD_DEFAULT, "__msan_unpoison"));
    coherdma::check::bind_libraries();
}

} // namespace

void coherdma::check::bind_libraries() noexcept {
    if (unpoison == nullptr)
        return; // another program
    address_range program;
    dl_iterate_phdr(visit_object, &program);
}

void coherdma::check::mark_initialized(const void *memory, std::size_t length) noexcept {
    if (unpoison != nullptr && memory != nullptr)
        unpoison(reinterpret_cast<address>(memory), length);
}
