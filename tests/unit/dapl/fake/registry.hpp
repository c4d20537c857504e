// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A fake libdat2: records the providers that are added, and numbers IAs.
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

namespace fake {

struct provider_entry {
    const DAT_PROVIDER *table;
    DAT_PROVIDER_INFO info;
};

struct registry {
    std::vector<provider_entry> providers; ///< those not removed
    /// The consumer's handle of an IA is its index here, counted from 1.
    std::vector<DAT_IA_HANDLE> ia_handles;
    bool assign_handles = true;
    DAT_RETURN add_result = DAT_SUCCESS; ///< returned by dat_registry_add_provider
};

registry &fake_registry();

DAT_PROVIDER_INFO make_info(const std::string &name, bool thread_safe = true, DAT_UINT32 major = 2,
                            DAT_UINT32 minor = 0);

/// The table of this IA name, or nullptr.
const DAT_PROVIDER *find_table(const std::string &name);

} // namespace fake
