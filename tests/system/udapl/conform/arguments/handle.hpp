// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Calls with every argument valid but a handle.

#pragma once

#include "lib/all_objects.hpp"
#include "lib/optional.hpp"

#include <dat2/dat_ib_extensions.h>
#include <initializer_list>

namespace conform {

/// Operations of dat_extension_op that take an EP.
constexpr std::initializer_list<DAT_EXTENDED_OP> ib_operations_of_ep = {
    DAT_IB_RDMA_WRITE_IMMED_OP, DAT_IB_FETCH_AND_ADD_OP, DAT_IB_CMP_AND_SWAP_OP,
    DAT_IB_UD_SEND_OP,          DAT_IB_UD_AH_FREE_OP,    DAT_IB_UD_CM_FREE_OP,
};

/// The function of a row: handle is the one under test, objects has all that the call needs.
#define CALL(...)                                                                                  \
    []([[maybe_unused]] DAT_HANDLE handle, [[maybe_unused]] auto &objects) -> DAT_RETURN {         \
        return __VA_ARGS__;                                                                        \
    }

struct handle_call {
    const char *name;
    DAT_HANDLE_TYPE type;
    DAT_RETURN_SUBTYPE subtype;
    DAT_RETURN (*call)(DAT_HANDLE, live_objects &);
};

/// Where a function writes what is of no interest.
template <class T>
T *ignored() {
    static T value{};
    return &value;
}
inline DAT_REGION_DESCRIPTION describe_lmr(const live_objects &objects) {
    DAT_REGION_DESCRIPTION desc{};
    desc.for_va = objects.eps.lmr.data();
    return desc;
}
inline DAT_RETURN create_lmr(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, const live_objects &objects) {
    return dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, describe_lmr(objects), page_size, pz,
                          DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, ignored<DAT_HANDLE>(),
                          ignored<DAT_LMR_CONTEXT>(), ignored<DAT_RMR_CONTEXT>(),
                          ignored<DAT_VLEN>(), ignored<DAT_VADDR>());
}

inline DAT_RETURN create_csp(DAT_IA_HANDLE ia, DAT_EVD_HANDLE cr_evd, const live_objects &objects) {
    DAT_COMM comm = {AF_INET, SOCK_STREAM, IPPROTO_TCP};
    sockaddr_in address = objects.eps.ia.ipv4_address();
    address.sin_port = htons(static_cast<std::uint16_t>(unused_port()));
    return EXPORTED(dat_csp_create)(ia, &comm, ia_address(address).ptr(), cr_evd,
                                    ignored<DAT_HANDLE>());
}

} // namespace conform
