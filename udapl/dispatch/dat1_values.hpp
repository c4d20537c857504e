// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Constants whose values differ between DAT 1.2 and 2.0: masks, SRQ states, return values.
// tests/data/dat/dat12-constants.csv has the values.
#pragma once

#include <dat2/udat.h>
#include <type_traits>

namespace coherdma::dapl::dat1 {

template <class mask_type>
using mask_bits =
    std::conditional_t<sizeof(mask_type) == sizeof(DAT_UINT32), DAT_UINT32, DAT_UINT64>;

/// Converts a mask of 1.2 to 2.0: moves the bits from first_moved up by shift. If mask has a bit
/// that is not in dat1_all, every bit of the result is set, so that the call of 2.0 refuses it.
template <class mask_type>
constexpr mask_type shift_mask(mask_type mask, DAT_UINT64 dat1_all, DAT_UINT64 first_moved,
                               unsigned shift) {
    const auto bits = static_cast<DAT_UINT64>(mask);
    if ((bits & ~dat1_all) != 0)
        return static_cast<mask_type>(mask_bits<mask_type>(~DAT_UINT64{0}));
    return static_cast<mask_type>((bits & (first_moved - 1)) | (bits & ~(first_moved - 1))
                                                                   << shift);
}

/// 2.0 inserted VA_TYPE.
constexpr DAT_LMR_PARAM_MASK dat2_lmr_mask(DAT_LMR_PARAM_MASK mask) {
    return shift_mask(mask, 0x3ff, 0x40, 1);
}
constexpr DAT_RMR_PARAM_MASK dat2_rmr_mask(DAT_RMR_PARAM_MASK mask) {
    return shift_mask(mask, 0x1f, 0x20, 0);
}
/// 2.0 inserted ZB_SUPPORTED, EXTENSION and EXTENSION_VERSION.
constexpr DAT_IA_ATTR_MASK dat2_ia_mask(DAT_IA_ATTR_MASK mask) {
    return shift_mask(mask, 0x7ffffffff, 0x80000000, 3);
}
/// 2.0 inserted five, from RDMA_READ_LMR_RMR_CONTEXT_EXPOSURE on.
constexpr DAT_PROVIDER_ATTR_MASK dat2_provider_mask(DAT_PROVIDER_ATTR_MASK mask) {
    return shift_mask(mask, 0x3ffffff, 0x1000000, 5);
}
/// 2.0 inserted COMM. The bits of the EP's attributes are the same.
constexpr DAT_EP_PARAM_MASK dat2_ep_mask(DAT_EP_PARAM_MASK mask) {
    constexpr DAT_EP_PARAM_MASK attr_mask = DAT_EP_FIELD_EP_ATTR_ALL;
    return shift_mask(mask & ~attr_mask, 0x7ff, 0x4, 1) | (mask & attr_mask);
}
/// AGENT of 1.2 is PROXY_TYPE in 2.0, which has a bit of its own for ALL.
constexpr DAT_CNO_PARAM_MASK dat2_cno_mask(DAT_CNO_PARAM_MASK mask) {
    return shift_mask(mask, 0x3, 0x4, 0);
}

/// In 1.2 OPERATIONAL is 0 and ERROR is 1.
constexpr DAT_SRQ_STATE dat1_srq_state(DAT_SRQ_STATE state) {
    return static_cast<DAT_SRQ_STATE>(state == DAT_SRQ_STATE_OPERATIONAL ? 0 : 1);
}

/// A subtype that 1.2 does not have becomes the nearest that it has.
constexpr DAT_UINT32 dat1_subtype(DAT_UINT32 subtype) {
    if (subtype == DAT_INVALID_HANDLE_CSP)
        return DAT_INVALID_HANDLE_PSP;
    if (subtype == DAT_INVALID_STATE_SRQ_SHUTDOWN)
        subtype = DAT_INVALID_STATE_SRQ_ERROR;
    return subtype < DAT_INVALID_HANDLE_CSP           ? subtype
           : subtype < DAT_INVALID_STATE_SRQ_SHUTDOWN ? subtype - 1
                                                      : subtype - 2;
}

/// The type of a DAT_RETURN: one that 1.2 does not have becomes the nearest that it has.
constexpr DAT_UINT32 dat1_type(DAT_UINT32 type) {
    switch (type) {
    case DAT_RESERVED_LMR:
        return DAT_PROTECTION_VIOLATION;
    case DAT_PORT_IN_USE:
        return DAT_CONN_QUAL_IN_USE;
    case DAT_COMM_NOT_SUPPORTED:
        return DAT_MODEL_NOT_SUPPORTED;
    default:
        return type;
    }
}

/// The value that OFED's DAT 1.2 returns: all bits of the type and of the class.
inline constexpr DAT_RETURN not_implemented = 0xffff0000;

/// Converts a return value of 2.0 to 1.2. The class is the same.
constexpr DAT_RETURN convert_result(DAT_RETURN result) {
    const DAT_UINT32 type = DAT_GET_TYPE(result);
    if (type == DAT_NOT_IMPLEMENTED)
        return not_implemented;
    return (result & (DAT_CLASS_ERROR | DAT_CLASS_WARNING)) | dat1_type(type) |
           dat1_subtype(DAT_GET_SUBTYPE(result));
}

} // namespace coherdma::dapl::dat1
