// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Calls with every argument valid but a handle.

#pragma once

#include "every_kind.hpp"
#include "optional.hpp"

#include <dat2/dat_ib_extensions.h>
#include <initializer_list>

namespace conform {

/// Operations of dat_extension_op that take an EP.
constexpr std::initializer_list<DAT_EXTENDED_OP> ib_operations_of_ep = {
    DAT_IB_RDMA_WRITE_IMMED_OP, DAT_IB_FETCH_AND_ADD_OP, DAT_IB_CMP_AND_SWAP_OP,
    DAT_IB_UD_SEND_OP,          DAT_IB_UD_AH_FREE_OP,    DAT_IB_UD_CM_FREE_OP,
};

/// The function of a row: h is the handle, has the objects that the call needs.
#define CALL(...)                                                                                  \
    []([[maybe_unused]] DAT_HANDLE h, [[maybe_unused]] auto &has) -> DAT_RETURN {                  \
        return __VA_ARGS__;                                                                        \
    }

struct handle_call {
    const char *name;
    DAT_HANDLE_TYPE wants;
    DAT_RETURN_SUBTYPE subtype;
    DAT_RETURN (*with)(DAT_HANDLE, place &);
};

/// Where a function writes what is of no interest.
template <class T>
T *out() {
    static T value{};
    return &value;
}
inline DAT_REGION_DESCRIPTION where(const place &has) {
    DAT_REGION_DESCRIPTION is{};
    is.for_va = has.pair.memory.data();
    return is;
}
inline DAT_RETURN create_lmr(DAT_IA_HANDLE ia, DAT_PZ_HANDLE zone, const place &has) {
    return dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, where(has), page, zone, DAT_MEM_PRIV_ALL_FLAG,
                          DAT_VA_TYPE_VA, out<DAT_HANDLE>(), out<DAT_LMR_CONTEXT>(),
                          out<DAT_RMR_CONTEXT>(), out<DAT_VLEN>(), out<DAT_VADDR>());
}

inline DAT_RETURN create_csp(DAT_IA_HANDLE ia, DAT_EVD_HANDLE arrivals, const place &has) {
    DAT_COMM stream = {AF_INET, SOCK_STREAM, IPPROTO_TCP};
    sockaddr_in address = has.pair.ia.address();
    address.sin_port = htons(static_cast<std::uint16_t>(fresh_port()));
    return EXPORTED(dat_csp_create)(ia, &stream, destination(address).get(), arrivals,
                                    out<DAT_HANDLE>());
}

} // namespace conform
