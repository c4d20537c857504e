// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// libibverbs' interface to providers (rdma-core's driver.h) for releases 36 to 65, through public
// symbols only. A provider compiled once loads with each of these releases:
//
//     constructor           register_driver(ops), ops a static verbs_device_ops
//     match_device          return is_supported()
//     alloc_device          calloc of a struct that begins with a verbs_device
//     alloc_context         init_and_alloc_context<T>(), libibverbs().ibv_cmd_get_context(),
//                           set_ops(); return to_verbs_context()
//     free_context          uninit_and_free_context()
//     other operations      libibverbs().ibv_cmd_*()
//
// layout.hpp lists what differs between releases; detect.hpp finds the release.
//
// No exceptions, no C++ library, no threads; only contexts are allocated.
#pragma once

#include "context.hpp"
#include "log.hpp"
#include "messages.hpp"
