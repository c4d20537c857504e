// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The layout of the structures that libibverbs shares with providers, by release of rdma-core.
//
// The number in a provider's file name and in the private symbol versions does not determine the
// layout: 34 covers four of these, 59 two. An abi_version is a range of releases with one layout,
// named after the first. Releases before 36 and after 65 are not supported.
//
// 64-bit machines differ only in sizeof(pthread_mutex_t): ibv_context, ibv_qp and ibv_cq contain
// one each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <infiniband/verbs.h>
#include <pthread.h>

namespace coherdma::abi {

enum class abi_version : std::uint8_t { v36, v44, v45, v49, v57, v59, v62, v64, v65 };
inline constexpr std::size_t num_abi_versions = 9;

enum class arch : std::uint8_t { x86_64, aarch64 };

struct layout {
    abi_version version;
    const char *releases;        ///< of rdma-core, for messages
    const char *symbol_version;  ///< of the private symbols
    const char *register_symbol; ///< the name of verbs_register_driver_*
    // Sizes and offsets in bytes.
    std::uint16_t context_size;     ///< of verbs_context, whose last member is the ibv_context
    std::uint16_t ops_size;         ///< of verbs_context_ops
    std::uint16_t comp_mask_offset; ///< in verbs_qp, directly after the ibv_qp_ex
    std::uint16_t port_attr_size;   ///< of ibv_port_attr
    std::uint16_t wr_atomic_write_offset; ///< in ibv_qp_ex; 0: no such member
    std::uint16_t wr_flush_offset;        ///< in ibv_qp_ex; 0: no such member
};

/// One row per abi_version.
constexpr std::array<layout, num_abi_versions> layouts_for(arch arch) noexcept {
    constexpr const char *private_34 = "IBVERBS_PRIVATE_34";
    constexpr const char *private_57 = "IBVERBS_PRIVATE_57";
    constexpr const char *private_59 = "IBVERBS_PRIVATE_59";
    constexpr const char *private_64 = "IBVERBS_PRIVATE_64";
    constexpr const char *private_65 = "IBVERBS_PRIVATE_65";
    constexpr const char *register_34 = "verbs_register_driver_34";
    constexpr const char *register_57 = "verbs_register_driver_57";
    constexpr const char *register_59 = "verbs_register_driver_59";
    constexpr const char *register_64 = "verbs_register_driver_64";
    constexpr const char *register_65 = "verbs_register_driver_65";
    // The numbers: context_size, ops_size, comp_mask_offset, port_attr_size,
    // wr_atomic_write_offset, wr_flush_offset.
    std::array<layout, num_abi_versions> table{{
        {abi_version::v36, "36 to 43", private_34, register_34, 648, 608, 344, 52, 0, 0},
        {abi_version::v44, "44", private_34, register_34, 648, 608, 352, 52, 344, 0},
        {abi_version::v45, "45 to 48", private_34, register_34, 648, 608, 360, 52, 344, 352},
        {abi_version::v49, "49 to 56", private_34, register_34, 648, 608, 360, 56, 344, 352},
        {abi_version::v57, "57 and 58", private_57, register_57, 648, 608, 360, 56, 344, 352},
        {abi_version::v59, "59 to 61", private_59, register_59, 672, 632, 360, 56, 344, 352},
        {abi_version::v62, "62 and 63", private_59, register_59, 680, 648, 360, 56, 344, 352},
        {abi_version::v64, "64", private_64, register_64, 696, 664, 360, 56, 344, 352},
        {abi_version::v65, "65", private_65, register_65, 696, 744, 360, 56, 344, 352},
    }};
    if (arch == arch::aarch64) {
        // The rows are those of x86-64. Everything that follows a pthread_mutex_t moves by this.
        constexpr std::uint16_t mutex_growth = 48 - 40;
        const auto move = [](std::uint16_t &size_or_offset) {
            if (size_or_offset != 0)
                size_or_offset = static_cast<std::uint16_t>(size_or_offset + mutex_growth);
        };
        for (layout &row : table) {
            move(row.context_size);
            move(row.comp_mask_offset);
            move(row.wr_atomic_write_offset);
            move(row.wr_flush_offset);
        }
    }
    return table;
}

#if defined(__x86_64__) && defined(__LP64__)
inline constexpr arch host_arch = arch::x86_64;
static_assert(sizeof(pthread_mutex_t) == 40);
#elif defined(__aarch64__) && defined(__LP64__) && defined(__AARCH64EL__)
inline constexpr arch host_arch = arch::aarch64;
static_assert(sizeof(pthread_mutex_t) == 48);
#else
#    error "the layouts of libibverbs are known for x86-64 and little-endian aarch64 only"
#endif

inline constexpr std::array<layout, num_abi_versions> layouts = layouts_for(host_arch);

// Part of the public ABI. Driver contexts embed an ibv_context.
static_assert(sizeof(ibv_context) == 288 + sizeof(pthread_mutex_t));
static_assert(sizeof(ibv_qp) == 120 + sizeof(pthread_mutex_t));

/// Bytes from verbs_context.sz and verbs_context.priv to the ibv_context, and the offset of the
/// verbs_context_ops in verbs_ex_private.
inline constexpr std::size_t sz_before_context = 8, priv_before_context = 112,
                             ops_offset_in_priv = 24;

/// The offset of the ibv_context in verbs_context.
constexpr std::size_t context_offset(const layout &layout) noexcept {
    return layout.context_size - sizeof(ibv_context);
}

} // namespace coherdma::abi
