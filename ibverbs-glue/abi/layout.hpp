// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// How libibverbs lays out what it shares with its drivers, release by release.
//
// The number that a driver's file name ends in, and that the names of libibverbs' private symbols
// carry, does not tell it: behind 34 alone are six layouts, behind 59 two. An epoch is a span of
// releases with one layout; it is called after the first of them. Of the releases before 36 nothing
// is known here, nor of those after 65.
//
// 64-bit machines differ only in the size of pthread_mutex_t, of which an ibv_context, a queue pair
// and a completion queue have one each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <infiniband/verbs.h>
#include <pthread.h>

namespace coherdma::abi {

enum class epoch : std::uint8_t { v36, v44, v45, v49, v57, v59, v62, v64, v65 };
inline constexpr std::size_t epochs = 9;

enum class machine : std::uint8_t { x86_64, aarch64 };

struct layout {
    epoch which;
    const char *releases; ///< of rdma-core, for people
    const char *version;  ///< of the private symbols
    const char *enlist;   ///< the name of the one that registers a driver
    // Bytes, or offsets in bytes.
    std::uint16_t context;      ///< of a verbs_context, whose last member is the ibv_context
    std::uint16_t operations;   ///< of a verbs_context_ops
    std::uint16_t comp_mask;    ///< where a verbs_qp has it; right behind is all of an ibv_qp_ex
    std::uint16_t port;         ///< of an ibv_port_attr
    std::uint16_t atomic_write; ///< where an ibv_qp_ex has wr_atomic_write; 0 if it has none
    std::uint16_t flush;        ///< where it has wr_flush; 0 if it has none
};

constexpr std::array<layout, epochs> layouts_of(machine of) noexcept {
    const char *const p34 = "IBVERBS_PRIVATE_34", *const r34 = "verbs_register_driver_34";
    const char *const p57 = "IBVERBS_PRIVATE_57", *const r57 = "verbs_register_driver_57";
    const char *const p59 = "IBVERBS_PRIVATE_59", *const r59 = "verbs_register_driver_59";
    const char *const p64 = "IBVERBS_PRIVATE_64", *const r64 = "verbs_register_driver_64";
    const char *const p65 = "IBVERBS_PRIVATE_65", *const r65 = "verbs_register_driver_65";
    std::array<layout, epochs> all{{
        {epoch::v36, "36 to 43", p34, r34, 648, 608, 344, 52, 0, 0},
        {epoch::v44, "44", p34, r34, 648, 608, 352, 52, 344, 0},
        {epoch::v45, "45 to 48", p34, r34, 648, 608, 360, 52, 344, 352},
        {epoch::v49, "49 to 56", p34, r34, 648, 608, 360, 56, 344, 352},
        {epoch::v57, "57 and 58", p57, r57, 648, 608, 360, 56, 344, 352},
        {epoch::v59, "59 to 61", p59, r59, 672, 632, 360, 56, 344, 352},
        {epoch::v62, "62 and 63", p59, r59, 680, 648, 360, 56, 344, 352},
        {epoch::v64, "64", p64, r64, 696, 664, 360, 56, 344, 352},
        {epoch::v65, "65", p65, r65, 696, 744, 360, 56, 344, 352},
    }};
    if (of == machine::aarch64) {
        constexpr std::uint16_t mutex = 48 - 40;
        for (layout &each : all) {
            each.context = static_cast<std::uint16_t>(each.context + mutex);
            each.comp_mask = static_cast<std::uint16_t>(each.comp_mask + mutex);
            if (each.atomic_write != 0)
                each.atomic_write = static_cast<std::uint16_t>(each.atomic_write + mutex);
            if (each.flush != 0)
                each.flush = static_cast<std::uint16_t>(each.flush + mutex);
        }
    }
    return all;
}

#if defined(__x86_64__) && defined(__LP64__)
inline constexpr machine this_machine = machine::x86_64;
static_assert(sizeof(pthread_mutex_t) == 40);
#elif defined(__aarch64__) && defined(__LP64__) && defined(__AARCH64EL__)
inline constexpr machine this_machine = machine::aarch64;
static_assert(sizeof(pthread_mutex_t) == 48);
#else
#    error "the layouts of libibverbs are known for x86-64 and little-endian aarch64"
#endif

inline constexpr std::array<layout, epochs> layouts = layouts_of(this_machine);

/// Has not changed, and must not: what programs see of a context is this, and ours is embedded.
static_assert(sizeof(ibv_context) == 288 + sizeof(pthread_mutex_t));
static_assert(sizeof(ibv_qp) == 120 + sizeof(pthread_mutex_t));

/// Before an ibv_context, in bytes: the size of the whole, and the address of what libibverbs alone
/// sees of it; in the latter, behind so many bytes, is the table of operations.
inline constexpr std::size_t size_before = 8, private_before = 112, operations_in_private = 24;

/// What libibverbs keeps of a context in front of what programs see of it.
constexpr std::size_t front(const layout &of) noexcept {
    return of.context - sizeof(ibv_context);
}

} // namespace coherdma::abi
