// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Leads a program that looks up libibverbs' functions itself, by dlsym() or dlvsym(), or that binds
// its libraries among themselves (RTLD_DEEPBIND), to the interposer's. An auditing module of the
// dynamic linker (rtld-audit(7)), in a namespace of its own: it has its own copy of the C library,
// and shares nothing with the program.

#include "dynamic_symbols.hpp"

#include <cstdint>
#include <cstring>
#include <link.h>

using coherdma::interposer::dynamic_symbols;
using coherdma::interposer::to_address;

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

/// The interposer's function of this name; 0: it has none.
std::uintptr_t find_replacement(const char *name) {
    const dynamic_symbols exported(interposer);
    for (ElfW(Word) i = 0; i < exported.count; ++i)
        if (exported.is_exported_function(i) && std::strcmp(exported.name(i), name) == 0)
            return interposer->l_addr + exported.symbols[i].st_value;
    return 0;
}

/// Whether the symbol is of an older interface, which a program gets only if it asks for that
/// version: ibv_open_device@IBVERBS_1.0, whose objects have other layouts.
bool is_old_version(const link_map *object, unsigned symbol_index) {
    constexpr ElfW(Half) HIDDEN = 0x8000; // not the default version of its name
    for (const ElfW(Dyn) *entry = object->l_ld; entry->d_tag != DT_NULL; ++entry)
        if (entry->d_tag == DT_VERSYM)
            return (to_address<ElfW(Half)>(object->l_addr, *entry)[symbol_index] & HIDDEN) != 0;
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
