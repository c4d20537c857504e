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

/// A library's table DT_GNU_HASH does not say how many symbols there are: the last one ends the
/// last chain.
inline ElfW(Word) count_symbols(const ElfW(Word) * gnu_hash) noexcept {
    constexpr ElfW(Word) NUM_HEADER_WORDS = 4, END_OF_CHAIN = 1;
    const ElfW(Word) num_buckets = gnu_hash[0], first_symbol = gnu_hash[1], num_bloom = gnu_hash[2];
    const ElfW(Word) *const buckets =
        gnu_hash + NUM_HEADER_WORDS + num_bloom * (sizeof(ElfW(Addr)) / sizeof(ElfW(Word)));
    const ElfW(Word) *const chains = buckets + num_buckets;
    ElfW(Word) last = 0;
    for (ElfW(Word) i = 0; i < num_buckets; ++i)
        last = buckets[i] > last ? buckets[i] : last;
    if (last < first_symbol)
        return first_symbol;
    while ((chains[last - first_symbol] & END_OF_CHAIN) == 0)
        ++last;
    return last + 1;
}

/// The dynamic symbols of a library.
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
            else if (entry->d_tag == DT_GNU_HASH && count == 0)
                count = count_symbols(to_address<ElfW(Word)>(object->l_addr, *entry));
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
