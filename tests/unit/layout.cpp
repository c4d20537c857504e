// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Whether kernel_action is laid out as this CPU's kernel has it. A file of its own, for the
// kernel's header and the C library's do not go together. Compiled, never run.

#include "cache/kernel_action.hpp"

#include <cstddef>

#include <asm/signal.h>

using coherdma::cache::kernel_action;
using kernels = struct sigaction;

static_assert(sizeof(kernel_action) == sizeof(kernels));
static_assert(offsetof(kernel_action, flags) == offsetof(kernels, sa_flags));
static_assert(offsetof(kernel_action, mask) == offsetof(kernels, sa_mask));
static_assert(sizeof(kernel_action::mask) == sizeof(sigset_t));
