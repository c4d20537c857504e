// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "detect.hpp"

#include <cstring>

namespace coherdma::abi {
namespace {

struct probed_symbol {
    const char *name;
    const char *version; // nullptr: the private version
    abi_version first, last;
};

constexpr std::array probed_symbols{
    probed_symbol{"ibv_import_dm", "IBVERBS_1.13", abi_version::v36, abi_version::v65},
    probed_symbol{"ibv_query_qp_data_in_order", "IBVERBS_1.14", abi_version::v36, abi_version::v65},
    probed_symbol{"ibv_wr_opcode_str", nullptr, abi_version::v49, abi_version::v65},
    probed_symbol{"ibv_cmd_alloc_dmah", nullptr, abi_version::v59, abi_version::v65},
    probed_symbol{"ibv_cmd_reg_mr_ex", nullptr, abi_version::v59, abi_version::v65},
    probed_symbol{"ibv_dm_export_dmabuf_fd", "IBVERBS_1.16", abi_version::v62, abi_version::v65},
    probed_symbol{"ibv_cmd_export_dmabuf_fd", nullptr, abi_version::v62, abi_version::v65},
    probed_symbol{"ibv_cmd_create_comp_cntr", nullptr, abi_version::v65, abi_version::v65},
};
static_assert(probed_symbols.size() == std::tuple_size_v<decltype(probe_result::has_symbol)>);

// Sets the flag at each offset in turn and calls ibv_qp_to_qp_ex(). Starts after the ibv_qp, which
// that function may read as well.
std::size_t find_comp_mask_offset(ibv_qp_ex *(*to_qp_ex)(ibv_qp *)) noexcept {
    alignas(ibv_qp) std::array<unsigned char, 1024> qp{};
    std::size_t comp_mask_offset = 0;
    for (std::size_t offset = sizeof(ibv_qp); offset < qp.size();
         offset += sizeof(verbs_qp_ex_flag)) {
        std::memcpy(qp.data() + offset, &verbs_qp_ex_flag, sizeof(verbs_qp_ex_flag));
        if (to_qp_ex(reinterpret_cast<ibv_qp *>(qp.data())) != nullptr) {
            if (comp_mask_offset != 0)
                return 0;
            comp_mask_offset = offset;
        }
        std::memset(qp.data() + offset, 0, sizeof(verbs_qp_ex_flag));
    }
    return comp_mask_offset;
}

std::size_t count_mismatches(const probe_result &result, const layout &candidate,
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
        if (result.has_register_symbol[i] != expected)
            add_mismatch(candidates[i].register_symbol);
    }
    for (std::size_t i = 0; i < probed_symbols.size(); ++i) {
        const bool expected = probed_symbols[i].first <= candidate.version &&
                              candidate.version <= probed_symbols[i].last;
        if (result.has_symbol[i] != expected)
            add_mismatch(probed_symbols[i].name);
    }
    if (result.comp_mask_offset != candidate.comp_mask_offset)
        add_mismatch("ibv_qp_to_qp_ex");
    return count;
}

} // namespace

probe_result probe_abi(const abi_probe &probe) noexcept {
    probe_result result{};
    const char *private_version = nullptr;
    for (std::size_t i = 0; i < num_abi_versions; ++i) {
        const layout &layout = layouts[i];
        result.has_register_symbol[i] =
            probe.find_symbol(layout.register_symbol, layout.symbol_version) != nullptr;
        if (result.has_register_symbol[i])
            private_version = layout.symbol_version;
    }
    for (std::size_t i = 0; i < probed_symbols.size(); ++i) {
        const char *version =
            probed_symbols[i].version != nullptr ? probed_symbols[i].version : private_version;
        result.has_symbol[i] =
            version != nullptr && probe.find_symbol(probed_symbols[i].name, version) != nullptr;
    }
    result.comp_mask_offset = find_comp_mask_offset(probe.to_qp_ex);
    return result;
}

detection detect_abi(const probe_result &result,
                     const std::array<layout, num_abi_versions> &candidates) noexcept {
    detection detected{nullptr, nullptr, "verbs_register_driver"};
    bool has_register_symbol = false;
    for (const bool has_symbol : result.has_register_symbol)
        has_register_symbol = has_register_symbol || has_symbol;
    if (!has_register_symbol)
        return detected;
    std::size_t fewest = ~std::size_t{0};
    for (const layout &candidate : candidates) {
        const char *first_mismatch = nullptr;
        const std::size_t count = count_mismatches(result, candidate, candidates, first_mismatch);
        if (count == 0)
            return {&candidate, nullptr, nullptr};
        if (count < fewest) {
            fewest = count;
            detected = {nullptr, &candidate, first_mismatch};
        }
    }
    return detected;
}

} // namespace coherdma::abi
