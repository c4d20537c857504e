// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// libdat2, played: it knows the tables of the providers that were added, and gives IAs numbers.
#pragma once

#include <dat2/dat_registry.h>
#include <dat2/udat.h>
#include <string>
#include <vector>

extern "C" {
void dat_provider_init(const DAT_PROVIDER_INFO *info, const char *words);
void dat_provider_fini(const DAT_PROVIDER_INFO *info);
DAT_RETURN dapl_extensions(DAT_HANDLE handle, DAT_EXTENDED_OP operation, va_list arguments);
}

namespace played {

struct entry {
    const DAT_PROVIDER *table;
    DAT_PROVIDER_INFO info;
};

struct registry {
    std::vector<entry> added; ///< and not removed
    /// What programs have for an IA: its place here, counted from 1.
    std::vector<DAT_IA_HANDLE> numbers;
    bool gives_numbers = true;
    DAT_RETURN answer = DAT_SUCCESS; ///< to what is added
};

registry &known_providers();

DAT_PROVIDER_INFO info_of(const std::string &name, bool thread_safe = true, DAT_UINT32 major = 2,
                          DAT_UINT32 minor = 0);

/// The table under this name, or nullptr.
const DAT_PROVIDER *table_of(const std::string &name);

} // namespace played
