// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "abi.h"

// Operations that C++ programs use: assignment, copying, combining of flags.
static_assert(std::is_copy_assignable<DAT_PROVIDER_ATTR>::value,
              "DAT_PROVIDER_ATTR can be assigned");
static_assert(std::is_trivially_copyable<DAT_EVENT>::value, "DAT_EVENT can be copied by memcpy");
static_assert(std::is_standard_layout<DAT_PROVIDER>::value, "DAT_PROVIDER has the layout of C");
static_assert(std::is_same<std::underlying_type<DAT_EVD_FLAGS>::type, unsigned int>::value,
              "DAT_EVD_FLAGS has 32 bits");
