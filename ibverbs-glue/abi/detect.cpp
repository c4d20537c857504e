// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "detect.hpp"

#include <algorithm>
#include <cstring>

namespace coherdma::abi {
namespace {

// A symbol that some ABI versions have: those from first to last.
struct distinctive_symbol {
    const char *name;
    const char *symbol_version; // nullptr: the private one, layout::symbol_version
    abi_version first, last;
};

constexpr std::array distinctive_symbols{
    distinctive_symbol{"ibv_import_dm", "IBVERBS_1.13", abi_version::v36, abi_version::v65},
    distinctive_symbol{"ibv_query_qp_data_in_order", "IBVERBS_1.14", abi_version::v36,
                       abi_version::v65},
    distinctive_symbol{"ibv_wr_opcode_str", nullptr, abi_version::v49, abi_version::v65},
    distinctive_symbol{"ibv_cmd_alloc_dmah", nullptr, abi_version::v59, abi_version::v65},
    distinctive_symbol{"ibv_cmd_reg_mr_ex", nullptr, abi_version::v59, abi_version::v65},
    distinctive_symbol{"ibv_dm_export_dmabuf_fd", "IBVERBS_1.16", abi_version::v62,
                       abi_version::v65},
    distinctive_symbol{"ibv_cmd_export_dmabuf_fd", nullptr, abi_version::v62, abi_version::v65},
    distinctive_symbol{"ibv_cmd_create_comp_cntr", nullptr, abi_version::v65, abi_version::v65},
};
static_assert(distinctive_symbols.size() == std::tuple_size_v<decltype(abi_traits::has_symbol)>);

/// The offset of verbs_qp.comp_mask: where VERBS_QP_EX makes ibv_qp_to_qp_ex(), the argument,
/// succeed. 0: not found. Sets the flag at each offset in turn, after the ibv_qp, which that
/// function may read as well.
std::size_t find_comp_mask_offset(ibv_qp_ex *(*to_qp_ex)(ibv_qp *)) noexcept {
    alignas(ibv_qp) std::array<unsigned char, 1024> qp{};
    std::size_t comp_mask_offset = 0;
    for (std::size_t offset = sizeof(ibv_qp); offset < qp.size();
         offset += sizeof(verbs_qp_ex_flag)) {
        std::memcpy(qp.data() + offset, &verbs_qp_ex_flag, sizeof(verbs_qp_ex_flag));
        if (to_qp_ex(reinterpret_cast<ibv_qp *>(qp.data())) != nullptr) {
            if (comp_mask_offset != 0)
                return 0; // ambiguous
            comp_mask_offset = offset;
        }
        std::memset(qp.data() + offset, 0, sizeof(verbs_qp_ex_flag));
    }
    return comp_mask_offset;
}

/// How many traits of libibverbs are not those of the candidate; first_mismatch: the symbol of the
/// first of them. candidates: all layouts, whose registration symbols are those of the traits.
std::size_t count_mismatches(const abi_traits &traits, const layout &candidate,
                             const std::array<layout, num_abi_versions> &candidates,
                             const char *&first_mismatch) noexcept {
    std::size_t count = 0;
    const auto add_mismatch = [&](const char *symbol) {
        if (count++ == 0)
            first_mismatch = symbol;
    };
    for (std::size_t i = 0; i < num_abi_versions; ++i) {
        const bool expected =
            std::strcmp(candidates[i].register_symbol, candidate.register_symbol) == 0;
        if (traits.has_register_symbol[i] != expected)
            add_mismatch(candidates[i].register_symbol);
    }
    for (std::size_t i = 0; i < distinctive_symbols.size(); ++i) {
        const bool expected = distinctive_symbols[i].first <= candidate.version &&
                              candidate.version <= distinctive_symbols[i].last;
        if (traits.has_symbol[i] != expected)
            add_mismatch(distinctive_symbols[i].name);
    }
    if (traits.comp_mask_offset != candidate.comp_mask_offset)
        add_mismatch("ibv_qp_to_qp_ex");
    return count;
}

} // namespace

/// Looks up the symbols that only some releases have, and finds the offset of comp_mask.
abi_traits find_abi_traits(const detection_functions &functions) noexcept {
    abi_traits traits{};
    const char *private_version = nullptr; // of the symbols for providers
    for (std::size_t i = 0; i < num_abi_versions; ++i) {
        const layout &layout = layouts[i];
        traits.has_register_symbol[i] =
            functions.find_symbol(layout.register_symbol, layout.symbol_version) != nullptr;
        if (traits.has_register_symbol[i])
            private_version = layout.symbol_version;
    }
    for (std::size_t i = 0; i < distinctive_symbols.size(); ++i) {
        const char *symbol_version = distinctive_symbols[i].symbol_version != nullptr
                                         ? distinctive_symbols[i].symbol_version
                                         : private_version;
        traits.has_symbol[i] =
            symbol_version != nullptr &&
            functions.find_symbol(distinctive_symbols[i].name, symbol_version) != nullptr;
    }
    traits.comp_mask_offset = find_comp_mask_offset(functions.to_qp_ex);
    return traits;
}

/// The candidate that has all traits; if there is none, the closest, for a message.
detection detect_abi(const abi_traits &traits,
                     const std::array<layout, num_abi_versions> &candidates) noexcept {
    const bool has_any_register_symbol =
        std::find(traits.has_register_symbol.begin(), traits.has_register_symbol.end(), true) !=
        traits.has_register_symbol.end();
    if (!has_any_register_symbol)
        return {.detected = nullptr, .closest = nullptr, .mismatch = "verbs_register_driver"};
    detection result{};
    std::size_t fewest_mismatches = ~std::size_t{0};
    for (const layout &candidate : candidates) {
        const char *first_mismatch = nullptr;
        const std::size_t num_mismatches =
            count_mismatches(traits, candidate, candidates, first_mismatch);
        if (num_mismatches == 0)
            return {.detected = &candidate, .closest = nullptr, .mismatch = nullptr};
        if (num_mismatches < fewest_mismatches) {
            fewest_mismatches = num_mismatches;
            result = {.detected = nullptr, .closest = &candidate, .mismatch = first_mismatch};
        }
    }
    return result;
}

} // namespace coherdma::abi
