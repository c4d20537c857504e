// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a loaded library exports. Also compiled into the audit module, which has no C++ library.
#pragma once

#include <cstdint>
#include <link.h>

namespace coherdma::interposer {

/// An address in a dynamic section. The dynamic linker adds to it where it loaded the file, but
/// where that section is read-only (riscv64).
template <class type>
const type *to_address(ElfW(Addr) load_addr, const ElfW(Dyn) & entry) noexcept {
    const ElfW(Addr) addr = entry.d_un.d_ptr;
    return reinterpret_cast<const type *>(addr < load_addr ? addr + load_addr : addr);
}

/// The dynamic symbols of a library that was linked with --hash-style=both.
struct dynamic_symbols {
    const ElfW(Sym) *symbols = nullptr;
    const char *names = nullptr;
    ElfW(Word) count = 0;

    explicit dynamic_symbols(const link_map *object) noexcept {
        for (const ElfW(Dyn) *entry = object->l_ld; entry->d_tag != DT_NULL; ++entry)
            if (entry->d_tag == DT_SYMTAB)
                symbols = to_address<ElfW(Sym)>(object->l_addr, *entry);
            else if (entry->d_tag == DT_STRTAB)
                names = to_address<char>(object->l_addr, *entry);
            else if (entry->d_tag == DT_HASH) // its second word is the number of symbols
                count = to_address<ElfW(Word)>(object->l_addr, *entry)[1];
    }

    [[nodiscard]] bool is_exported_function(ElfW(Word) index) const noexcept {
        return symbols[index].st_shndx != SHN_UNDEF &&
               ELF64_ST_TYPE(symbols[index].st_info) == STT_FUNC;
    }
    [[nodiscard]] const char *name(ElfW(Word) index) const noexcept {
        return names + symbols[index].st_name;
    }
};

} // namespace coherdma::interposer
