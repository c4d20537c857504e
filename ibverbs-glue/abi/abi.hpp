// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a driver for libibverbs needs of it, whichever release it is, and with no symbol of its that
// is not public. A driver's file, compiled once, then serves every release from 36 to 65:
//
//     its constructor       enlist(driver), a static verbs_device_ops
//     match_device          return ready() && ...
//     alloc_device          calloc of a struct that begins with a verbs_device
//     alloc_context         open_context<own>(), library().get_context(), set_operations(), and
//                           return in_front()
//     free_context          close_context()
//     the other operations  library() for the kernel's part of it
//
// layout.hpp says what differs between releases, witnesses.hpp how they are told apart.
//
// No exceptions, no C++ library, no thread; nothing is allocated but contexts.
#pragma once

#include "log.hpp"
#include "messages.hpp"
#include "objects.hpp"
