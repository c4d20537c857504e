// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Leads a program that looks up libibverbs' functions itself, by dlsym() or dlvsym(), or that binds
// its libraries among themselves (RTLD_DEEPBIND), to the interposer's. An auditing module of the
// dynamic linker (rtld-audit(7)), in a namespace of its own: it has its own copy of the C library,
// and shares nothing with the program.

#include <cstdint>
#include <cstring>
#include <link.h>

namespace {

constexpr const char *INTERPOSER_FILE = "libcoherdma-interposer.so";

const link_map *interposer = nullptr;

const char *file_name(const link_map *object) {
    const char *const slash = std::strrchr(object->l_name, '/');
    return slash != nullptr ? slash + 1 : object->l_name;
}

/// Not a copy under another name, libibverbs-0123abcd.so.1: the interposer has the functions of one
/// library.
bool is_libibverbs(const link_map *object) {
    return std::strcmp(file_name(object), "libibverbs.so.1") == 0;
}
bool is_librdmacm(const link_map *object) {
    return std::strcmp(file_name(object), "librdmacm.so.1") == 0;
}

/// The dynamic linker adds to the addresses in a dynamic section where it loaded the file, but
/// where that section is read-only (riscv64).
template <class type>
const type *to_address(const link_map *object, const ElfW(Dyn) & entry) {
    const ElfW(Addr) addr = entry.d_un.d_ptr;
    return reinterpret_cast<const type *>(addr < object->l_addr ? addr + object->l_addr : addr);
}

/// What the interposer exports.
struct dynamic_symbols {
    const ElfW(Sym) *symbols = nullptr;
    const char *names = nullptr;
    ElfW(Word) count = 0;

    explicit dynamic_symbols(const link_map *object) {
        for (const ElfW(Dyn) *entry = object->l_ld; entry->d_tag != DT_NULL; ++entry)
            if (entry->d_tag == DT_SYMTAB)
                symbols = to_address<ElfW(Sym)>(object, *entry);
            else if (entry->d_tag == DT_STRTAB)
                names = to_address<char>(object, *entry);
            else if (entry->d_tag == DT_HASH) // its second word is the number of symbols
                count = to_address<ElfW(Word)>(object, *entry)[1];
    }
};

/// The interposer's function of this name; 0: it has none.
std::uintptr_t find_replacement(const char *name) {
    const dynamic_symbols exported(interposer);
    for (ElfW(Word) i = 0; i < exported.count; ++i) {
        const ElfW(Sym) &symbol = exported.symbols[i];
        if (symbol.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC &&
            std::strcmp(exported.names + symbol.st_name, name) == 0)
            return interposer->l_addr + symbol.st_value;
    }
    return 0;
}

/// Whether the symbol is of an older interface, which a program gets only if it asks for that
/// version: ibv_open_device@IBVERBS_1.0, whose objects have other layouts.
bool is_old_version(const link_map *object, unsigned symbol_index) {
    constexpr ElfW(Half) HIDDEN = 0x8000; // not the default version of its name
    for (const ElfW(Dyn) *entry = object->l_ld; entry->d_tag != DT_NULL; ++entry)
        if (entry->d_tag == DT_VERSYM)
            return (to_address<ElfW(Half)>(object, *entry)[symbol_index] & HIDDEN) != 0;
    return false;
}

} // namespace

extern "C" {

[[gnu::visibility("default")]] unsigned la_version(unsigned version) {
    return version < LAV_CURRENT ? version : unsigned{LAV_CURRENT};
}

/// Bindings of all objects to libibverbs and librdmacm are reported, but for those of libibverbs
/// and of the interposer itself.
[[gnu::visibility("default")]] unsigned la_objopen(link_map *object, Lmid_t namespace_id,
                                                   std::uintptr_t *cookie) {
    *cookie = reinterpret_cast<std::uintptr_t>(object);
    if (namespace_id != LM_ID_BASE)
        return 0;
    if (std::strcmp(file_name(object), INTERPOSER_FILE) == 0) {
        interposer = object;
        return 0;
    }
    if (is_libibverbs(object))
        return LA_FLG_BINDTO;
    return is_librdmacm(object) ? LA_FLG_BINDTO | LA_FLG_BINDFROM : LA_FLG_BINDFROM;
}

[[gnu::visibility("default")]] std::uintptr_t la_symbind64(ElfW(Sym) * symbol, unsigned index,
                                                           std::uintptr_t *user,
                                                           std::uintptr_t *definer, unsigned *,
                                                           const char *name) {
    const auto *const caller = reinterpret_cast<const link_map *>(*user);
    const auto *const library = reinterpret_cast<const link_map *>(*definer);
    if (interposer == nullptr || caller == interposer ||
        (!is_libibverbs(library) && !is_librdmacm(library)) || is_old_version(library, index))
        return symbol->st_value;
    const std::uintptr_t replacement = find_replacement(name);
    return replacement != 0 ? replacement : symbol->st_value;
}

} // extern "C"
