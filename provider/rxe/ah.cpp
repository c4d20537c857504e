// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// AHs. The kernel keeps the address vector and returns its number, ah_num. Kernels before 5.18
// return no number and expect the address vector in each WQE, which is not supported.

#include "objects.hpp"

#include <cerrno>

namespace coherdma::provider::rxe {
namespace {

int destroy_ah(ibv_ah *ibah) noexcept {
    const int error = libibverbs().ibv_cmd_destroy_ah(ibah);
    if (error == 0)
        std::free(&to_rxe_ah(ibah));
    return error;
}

/// Fails on kernels before 5.18, which return no number of the AH.
ibv_ah *create_ah(ibv_pd *pd, ibv_ah_attr *attr) noexcept {
    auto ah = make_calloc_ptr<rxe_ah>();
    if (!ah)
        return nullptr;
    abi::message<abi::response::create_ah, rxe_create_ah_resp> response = {};
    if (const int error =
            libibverbs().ibv_cmd_create_ah(pd, &ah->verbs, attr, &response, response.size))
        return fail_with(error);
    ah->ah_num = response.drv_payload.ah_num;
    if (ah->ah_num == 0) {
        abi::verbs_log(abi::log_level::warning,
                       "rxe: UD needs Linux 5.18 or later: this kernel does not number AHs");
        ah->verbs.context = pd->context;
        libibverbs().ibv_cmd_destroy_ah(&ah->verbs);
        return fail_with(EOPNOTSUPP);
    }
    return &ah.release()->verbs;
}

} // namespace

void fill_ah_ops(abi::verbs_context_ops &ops) noexcept {
    ops.create_ah = create_ah;
    ops.destroy_ah = destroy_ah;
}

} // namespace coherdma::provider::rxe
