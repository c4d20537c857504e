// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Each pointer by which a loaded object calls a function that the interposer has, too, gets the
// interposer's; and the symbol table of the library that has the function says that it is there,
// for objects that the dynamic linker binds later.

#include "redirect.hpp"

#include "calls.hpp"
#include "dynamic_symbols.hpp"
#include "observers.hpp"
#include "process_memory.hpp"

#include <cerrno>
#include <cstring>
#include <new>
#include <sys/mman.h>
#include <unistd.h>
#include <unordered_map>
#include <vector>

namespace coherdma::interposer {
namespace {

using address = ElfW(Addr);

/// The interposer's function in place of a library's.
struct replacement {
    address function;
    std::vector<ElfW(Sym) *> symbols; ///< the library's
};
using replacement_map = std::unordered_map<address, replacement>; ///< by the library's function

/// How the dynamic linker has protected the page, of a loaded object.
int protection_of(const dl_phdr_info &object, address addr) noexcept {
    const address page_size = static_cast<address>(sysconf(_SC_PAGESIZE));
    int protection = PROT_NONE;
    for (int i = 0; i < object.dlpi_phnum; ++i) {
        const ElfW(Phdr) &header = object.dlpi_phdr[i];
        const address begin = object.dlpi_addr + header.p_vaddr, end = begin + header.p_memsz;
        if (header.p_type == PT_LOAD && addr >= begin && addr < end)
            protection = ((header.p_flags & PF_R) != 0 ? PROT_READ : 0) |
                         ((header.p_flags & PF_W) != 0 ? PROT_WRITE : 0) |
                         ((header.p_flags & PF_X) != 0 ? PROT_EXEC : 0);
        // Whole pages of it.
        if (header.p_type == PT_GNU_RELRO && addr >= begin && addr < end / page_size * page_size)
            return PROT_READ;
    }
    return protection;
}

/// Stores to a word of a loaded object, which may be read-only. Returns 0 or an errno.
int store(const dl_phdr_info &object, address *word, address value) noexcept {
    const auto addr = reinterpret_cast<address>(word);
    const int protection = protection_of(object, addr);
    const auto page_size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    auto *const page = reinterpret_cast<void *>(addr / page_size * page_size);
    const bool is_read_only = (protection & PROT_WRITE) == 0;
    if (is_read_only && mprotect(page, page_size, protection | PROT_WRITE) != 0)
        return errno;
    // Other threads may call through it: they get the one function or the other.
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    if (is_read_only)
        mprotect(page, page_size, protection);
    return 0;
}

const link_map *find_object(const void *function) noexcept {
    Dl_info info;
    link_map *object = nullptr;
    return dladdr1(function, &info, reinterpret_cast<void **>(&object), RTLD_DL_LINKMAP) != 0
               ? object
               : nullptr;
}

/// The symbol of a function that dlsym() returned; nullptr: it has none with this address.
ElfW(Sym) * find_symbol(address function, address load_addr) noexcept {
    Dl_info info;
    ElfW(Sym) *symbol = nullptr;
    return dladdr1(reinterpret_cast<void *>(function), &info, reinterpret_cast<void **>(&symbol),
                   RTLD_DL_SYMENT) != 0 &&
                   symbol != nullptr && load_addr + symbol->st_value == function
               ? symbol
               : nullptr;
}

/// The functions that the library of this one has, and the interposer, too. Returns 0 or an errno.
int find_replacements(const void *library_function, replacement_map &replacements) {
    const link_map *const interposer = find_object(reinterpret_cast<void *>(redirect_program));
    const link_map *const library = find_object(library_function);
    void *const handle = library != nullptr
                             ? dlopen(library->l_name, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE)
                             : nullptr;
    if (handle == nullptr || interposer == nullptr)
        return ENOENT;
    const dynamic_symbols interposer_symbols(interposer);
    for (ElfW(Word) i = 0; i < interposer_symbols.count; ++i) {
        void *const original = interposer_symbols.is_exported_function(i)
                                   ? dlsym(handle, interposer_symbols.name(i))
                                   : nullptr;
        if (original == nullptr || find_object(original) != library)
            continue; // the library does not have it, or it is redirected
        const auto addr = reinterpret_cast<address>(original);
        ElfW(Sym) *const symbol = find_symbol(addr, library->l_addr);
        if (symbol == nullptr)
            return ENOENT;
        replacements[addr] = {.function =
                                  interposer->l_addr + interposer_symbols.symbols[i].st_value,
                              .symbols = {symbol}};
    }
    return 0;
}

/// Functions of the C library, if an observer wants to know what memory is freed.
void find_memory_replacements(replacement_map &replacements) {
    bool is_asked = false;
    for (observer *const loaded : loaded_observers())
        is_asked = loaded->wants_memory_events() || is_asked;
    if (!is_asked)
        return;
    for (const memory_function &function : find_memory_functions()) {
        const auto original = reinterpret_cast<address>(function.original);
        const link_map *const library = find_object(function.original);
        if (library == nullptr)
            continue;
        replacement added = {.function = reinterpret_cast<address>(function.replacement),
                             .symbols = {}};
        const dynamic_symbols symbols(library);
        for (ElfW(Word) i = 0; i < symbols.count; ++i) // of all its names: mmap(), mmap64()
            if (symbols.is_exported_function(i) &&
                library->l_addr + symbols.symbols[i].st_value == original)
                added.symbols.push_back(const_cast<ElfW(Sym) *>(&symbols.symbols[i]));
        replacements[original] = std::move(added);
    }
}

struct redirection {
    const replacement_map &replacements;
    int error = 0;
};

/// The symbols that are in the object.
void redirect_symbols(const dl_phdr_info &object, redirection &current) {
    for (const auto &[original, replacement] : current.replacements) {
        for (ElfW(Sym) *const symbol : replacement.symbols) {
            if (protection_of(object, reinterpret_cast<address>(symbol)) == PROT_NONE)
                continue;
            if (const int error =
                    store(object, &symbol->st_value, replacement.function - object.dlpi_addr))
                current.error = error;
        }
    }
}

/// The pointers that relocations set: what the object has bound by name.
void redirect_bindings(const dl_phdr_info &object, const ElfW(Rela) * relocations, std::size_t size,
                       redirection &current) {
    for (std::size_t i = 0; i < size / sizeof *relocations; ++i) {
        const address addr = object.dlpi_addr + relocations[i].r_offset;
        if (ELF64_R_SYM(relocations[i].r_info) == 0 || addr % sizeof(address) != 0)
            continue;
        auto *const slot = reinterpret_cast<address *>(addr);
        const auto match = current.replacements.find(__atomic_load_n(slot, __ATOMIC_RELAXED));
        if (match == current.replacements.end())
            continue;
        if (const int error = store(object, slot, match->second.function))
            current.error = error;
    }
}

int redirect_object(dl_phdr_info *object, std::size_t, void *data) {
    auto &current = *static_cast<redirection *>(data);
    const ElfW(Rela) *relocations = nullptr, *plt_relocations = nullptr;
    std::size_t size = 0, plt_size = 0;
    for (int i = 0; i < object->dlpi_phnum; ++i) {
        const ElfW(Phdr) &header = object->dlpi_phdr[i];
        if (header.p_type != PT_DYNAMIC)
            continue;
        const auto *entry = reinterpret_cast<const ElfW(Dyn) *>(object->dlpi_addr + header.p_vaddr);
        for (; entry->d_tag != DT_NULL; ++entry)
            if (entry->d_tag == DT_RELA)
                relocations = to_address<ElfW(Rela)>(object->dlpi_addr, *entry);
            else if (entry->d_tag == DT_RELASZ)
                size = entry->d_un.d_val;
            else if (entry->d_tag == DT_JMPREL)
                plt_relocations = to_address<ElfW(Rela)>(object->dlpi_addr, *entry);
            else if (entry->d_tag == DT_PLTRELSZ)
                plt_size = entry->d_un.d_val;
    }
    redirect_symbols(*object, current); // first: what is bound from now on is bound to these
    if (relocations != nullptr)
        redirect_bindings(*object, relocations, size, current);
    if (plt_relocations != nullptr)
        redirect_bindings(*object, plt_relocations, plt_size, current);
    return current.error;
}

} // namespace

int redirect_program() noexcept try {
    replacement_map replacements;
    int error = find_replacements(reinterpret_cast<void *>(libibverbs().open_device), replacements);
    if (dlopen("librdmacm.so.1", RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE) != nullptr && error == 0)
        error = find_replacements(find_librdmacm(), replacements);
    if (error != 0)
        return error;
    for (const void *const function : find_direct_functions())
        if (function != nullptr)
            static_cast<void>(find_replacements(function, replacements)); // else nothing is said
    find_memory_replacements(replacements);
    // In here nothing is called that takes the dynamic linker's locks.
    redirection current = {.replacements = replacements};
    dl_iterate_phdr(redirect_object, &current);
    return current.error;
} catch (const std::bad_alloc &) {
    return ENOMEM;
}

} // namespace coherdma::interposer
