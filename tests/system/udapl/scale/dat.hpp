// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What uDAPL programs do all the time. Whatever goes wrong ends the program with a word about it.
#pragma once

#include <cstddef>
#include <dat2/udat.h>
#include <span>

namespace scale {

[[noreturn]] void fail(const char *operation, const char *reason);
/// Ends the program unless the call of DAT, `operation`, has returned DAT_SUCCESS.
void check_dat(DAT_RETURN result, const char *operation);
/// Ends the program unless the condition holds; `requirement` says it in words.
void require(bool condition, const char *requirement);

struct scale_ia {
    explicit scale_ia(const char *name);
    ~scale_ia();
    scale_ia(const scale_ia &) = delete;
    scale_ia &operator=(const scale_ia &) = delete;

    DAT_EVD_HANDLE create_evd(DAT_COUNT min_qlen, DAT_EVD_FLAGS flags) const;

    DAT_IA_HANDLE handle = DAT_HANDLE_NULL;
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    DAT_IA_ADDRESS_PTR address = nullptr;

  private:
    DAT_EVD_HANDLE async_evd_ = DAT_HANDLE_NULL;
};

/// Registered memory.
struct registered_lmr {
    DAT_LMR_HANDLE handle = DAT_HANDLE_NULL;
    DAT_LMR_TRIPLET triplet = {};

    registered_lmr(const scale_ia &ia, std::span<std::byte> memory);
    void free() const { check_dat(dat_lmr_free(handle), "dat_lmr_free"); }
    DAT_LMR_TRIPLET make_triplet(std::size_t offset, std::size_t size) const;
};

/// The next event, which must be of that number and come within a minute.
DAT_EVENT wait_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER expected);
/// The cookie of the next completion, which must be a success of that length.
DAT_UINT64 expect_dto(DAT_EVD_HANDLE evd, std::size_t length);

DAT_DTO_COOKIE make_cookie(DAT_UINT64 value);

} // namespace scale
