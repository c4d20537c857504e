// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Compares kernel_action with this CPU's kernel. A separate file: the headers of the kernel and of
// the C library conflict. Compiled, never run.

#include "cache/kernel_action.hpp"

#include <cstddef>

#include <asm/signal.h>

using coherdma::cache::kernel_action;
using kernel_sigaction = struct sigaction;

static_assert(sizeof(kernel_action) == sizeof(kernel_sigaction));
static_assert(offsetof(kernel_action, flags) == offsetof(kernel_sigaction, sa_flags));
static_assert(offsetof(kernel_action, mask) == offsetof(kernel_sigaction, sa_mask));
static_assert(sizeof(kernel_action::mask) == sizeof(sigset_t));
