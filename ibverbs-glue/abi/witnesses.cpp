// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "witnesses.hpp"

#include <cstring>

namespace coherdma::abi {
namespace {

struct mark {
    const char *symbol;
    const char *version; // nullptr: a private one
    epoch first, last;
};

constexpr std::array marks{
    mark{"ibv_import_dm", "IBVERBS_1.13", epoch::v36, epoch::v65},
    mark{"ibv_query_qp_data_in_order", "IBVERBS_1.14", epoch::v36, epoch::v65},
    mark{"ibv_wr_opcode_str", nullptr, epoch::v49, epoch::v65},
    mark{"ibv_cmd_alloc_dmah", nullptr, epoch::v59, epoch::v65},
    mark{"ibv_cmd_reg_mr_ex", nullptr, epoch::v59, epoch::v65},
    mark{"ibv_dm_export_dmabuf_fd", "IBVERBS_1.16", epoch::v62, epoch::v65},
    mark{"ibv_cmd_export_dmabuf_fd", nullptr, epoch::v62, epoch::v65},
    mark{"ibv_cmd_create_comp_cntr", nullptr, epoch::v65, epoch::v65},
};
static_assert(marks.size() == std::tuple_size_v<decltype(evidence::has)>);

constexpr std::uint32_t qp_ex_flag = 2; // of verbs_qp.comp_mask

// A queue pair of nothing but the flag, at every place in turn. Behind what programs see of one,
// because the function may look at that as well.
std::size_t find_comp_mask(ibv_qp_ex *(*extended)(ibv_qp *)) noexcept {
    alignas(ibv_qp) std::array<unsigned char, 1024> room{};
    std::size_t found = 0;
    for (std::size_t at = sizeof(ibv_qp); at < room.size(); at += sizeof(qp_ex_flag)) {
        std::memcpy(room.data() + at, &qp_ex_flag, sizeof(qp_ex_flag));
        if (extended(reinterpret_cast<ibv_qp *>(room.data())) != nullptr) {
            if (found != 0)
                return 0;
            found = at;
        }
        std::memset(room.data() + at, 0, sizeof(qp_ex_flag));
    }
    return found;
}

// The first witness against an epoch, and how many there are.
std::size_t objections(const evidence &given, const layout &candidate,
                       const std::array<layout, epochs> &known, const char *&first) noexcept {
    std::size_t count = 0;
    const auto object = [&](const char *witness) {
        if (count++ == 0)
            first = witness;
    };
    for (std::size_t other = 0; other < epochs; ++other) {
        const bool same = std::strcmp(known[other].enlist, candidate.enlist) == 0;
        if (given.enlists[other] != same)
            object(known[other].enlist);
    }
    for (std::size_t each = 0; each < marks.size(); ++each) {
        const bool should =
            marks[each].first <= candidate.which && candidate.which <= marks[each].last;
        if (given.has[each] != should)
            object(marks[each].symbol);
    }
    if (given.comp_mask != candidate.comp_mask)
        object("ibv_qp_to_qp_ex");
    return count;
}

} // namespace

evidence ask(const questions &libibverbs) noexcept {
    evidence given{};
    const char *private_version = nullptr;
    for (std::size_t each = 0; each < epochs; ++each) {
        const layout &is = layouts[each];
        given.enlists[each] = libibverbs.find(is.enlist, is.version) != nullptr;
        if (given.enlists[each])
            private_version = is.version;
    }
    for (std::size_t each = 0; each < marks.size(); ++each) {
        const char *version =
            marks[each].version != nullptr ? marks[each].version : private_version;
        given.has[each] =
            version != nullptr && libibverbs.find(marks[each].symbol, version) != nullptr;
    }
    given.comp_mask = find_comp_mask(libibverbs.extended);
    return given;
}

finding judge(const evidence &given, const std::array<layout, epochs> &known) noexcept {
    finding result{nullptr, nullptr, "verbs_register_driver"};
    bool registers = false;
    for (const bool each : given.enlists)
        registers = registers || each;
    if (!registers)
        return result;
    std::size_t fewest = ~std::size_t{0};
    for (const layout &candidate : known) {
        const char *first = nullptr;
        const std::size_t count = objections(given, candidate, known, first);
        if (count == 0)
            return {&candidate, nullptr, nullptr};
        if (count < fewest) {
            fewest = count;
            result = {nullptr, &candidate, first};
        }
    }
    return result;
}

} // namespace coherdma::abi
