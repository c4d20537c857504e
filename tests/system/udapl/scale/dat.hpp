// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What uDAPL programs do all the time. Whatever goes wrong ends the program with a word about it.
#pragma once

#include <cstddef>
#include <dat2/udat.h>
#include <span>

namespace scale {

[[noreturn]] void end_with(const char *what, const char *why);
/// The call must have been successful; what: the call.
void must(DAT_RETURN result, const char *what);
void need(bool holds, const char *what);

struct adapter {
    explicit adapter(const char *name);
    ~adapter();
    adapter(const adapter &) = delete;
    adapter &operator=(const adapter &) = delete;

    DAT_EVD_HANDLE events(DAT_COUNT length, DAT_EVD_FLAGS flags) const;

    DAT_IA_HANDLE handle = DAT_HANDLE_NULL;
    DAT_PZ_HANDLE zone = DAT_HANDLE_NULL;
    DAT_IA_ADDRESS_PTR address = nullptr;

  private:
    DAT_EVD_HANDLE errors_ = DAT_HANDLE_NULL;
};

/// Registered memory.
struct region {
    DAT_LMR_HANDLE handle = DAT_HANDLE_NULL;
    DAT_LMR_TRIPLET all = {};

    region(const adapter &ia, std::span<std::byte> memory);
    void end() const { must(dat_lmr_free(handle), "dat_lmr_free"); }
    DAT_LMR_TRIPLET part(std::size_t offset, std::size_t size) const;
};

/// The next event, which must be of that number and come within a minute.
DAT_EVENT next(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number);
/// The cookie of the next completion, which must be a success of that length.
DAT_UINT64 completed(DAT_EVD_HANDLE evd, std::size_t length);

DAT_DTO_COOKIE cookie(DAT_UINT64 value);

} // namespace scale
