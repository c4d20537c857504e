// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "abi.h"

// What a program makes of them: copies, assigns, keeps flags together.
static_assert(std::is_copy_assignable<DAT_PROVIDER_ATTR>::value, "attributes can be assigned");
static_assert(std::is_trivially_copyable<DAT_EVENT>::value, "events can be copied as bytes");
static_assert(std::is_standard_layout<DAT_PROVIDER>::value, "the table is as in C");
static_assert(std::is_same<std::underlying_type<DAT_EVD_FLAGS>::type, unsigned int>::value,
              "every 32 bits are flags");
