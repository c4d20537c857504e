// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Where the queues of a device are, by kernel driver: the rings of QPs, CQs and SRQs, and doorbell
// records. Sync calls maintain the data; nothing maintains the queues.
#pragma once

#include "kernel_version.hpp"
#include "rules.hpp"

#include <span>
#include <string>

namespace coherdma::coherency {

enum class queue_memory {
    program,  ///< memory of the program, which the kernel pins (ib_umem_get)
    cached,   ///< memory of the kernel, which the program maps with the cache
    uncached, ///< memory of the kernel, which the program maps as dma_mmap_coherent() does
    cpu,      ///< the CPU processes the queues
};

struct driver_queues {
    const char *driver;
    queue_memory memory;
    const char *details;
    /// Before this version the kernel mapped them with the cache.
    kernel_version uncached_since = {};
};

/// The rows of the table in coherdma(7).
std::span<const driver_queues> all_driver_queues() noexcept;

/// Why syncs do not make the device usable, or may not, as the end of a sentence; "" if they do. A
/// driver that is not known may be any. The decision must rest on evidence of the machine: who
/// declares a device non-coherent, as an administrator or by COHERDMA_OPEN_ASSUME, wants syncs.
const char *queue_problem(const decision &result, const std::string &driver,
                          const std::string &kernel_release);

} // namespace coherdma::coherency
