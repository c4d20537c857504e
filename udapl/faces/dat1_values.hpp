// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Values that DAT 1.2 and 2.0 have under one name, and that differ: masks, an SRQ's state, and what
// calls return. tests/data/dat/dat12-constants.csv says what is right.
#pragma once

#include <dat2/udat.h>
#include <type_traits>

namespace coherdma::dapl::dat1 {

template <class mask>
using bits_of = std::conditional_t<sizeof(mask) == sizeof(DAT_UINT32), DAT_UINT32, DAT_UINT64>;

/// A mask of 1.2 in 2.0's bits: those from first on, of all that 1.2 knows, are by so much higher.
/// An unknown bit gives a mask that 2.0 does not know either, so the call says so in its turn.
template <class mask>
constexpr mask moved(mask given, DAT_UINT64 all, DAT_UINT64 first, unsigned by) {
    const auto bits = static_cast<DAT_UINT64>(given);
    if ((bits & ~all) != 0)
        return static_cast<mask>(bits_of<mask>(~DAT_UINT64{0}));
    return static_cast<mask>((bits & (first - 1)) | (bits & ~(first - 1)) << by);
}

/// 2.0 has VA_TYPE before them.
constexpr DAT_LMR_PARAM_MASK lmr_mask(DAT_LMR_PARAM_MASK given) {
    return moved(given, 0x3ff, 0x40, 1);
}
constexpr DAT_RMR_PARAM_MASK rmr_mask(DAT_RMR_PARAM_MASK given) {
    return moved(given, 0x1f, 0x20, 0);
}
/// 2.0 has ZB_SUPPORTED, EXTENSION and EXTENSION_VERSION before them.
constexpr DAT_IA_ATTR_MASK ia_mask(DAT_IA_ATTR_MASK given) {
    return moved(given, 0x7ffffffff, 0x80000000, 3);
}
/// 2.0 has five before them, from RDMA_READ_LMR_RMR_CONTEXT_EXPOSURE on.
constexpr DAT_PROVIDER_ATTR_MASK provider_mask(DAT_PROVIDER_ATTR_MASK given) {
    return moved(given, 0x3ffffff, 0x1000000, 5);
}
/// 2.0 has COMM before them; attributes have bits of their own, and the same.
constexpr DAT_EP_PARAM_MASK ep_mask(DAT_EP_PARAM_MASK given) {
    constexpr DAT_EP_PARAM_MASK own = DAT_EP_FIELD_EP_ATTR_ALL;
    return moved(given & ~own, 0x7ff, 0x4, 1) | (given & own);
}
/// 2.0 asks for an agent by the kind of proxy, and its ALL is a bit of its own.
constexpr DAT_CNO_PARAM_MASK cno_mask(DAT_CNO_PARAM_MASK given) {
    return moved(given, 0x3, 0x4, 0);
}

/// 1.2 has OPERATIONAL 0 and ERROR 1.
constexpr DAT_SRQ_STATE srq_state(DAT_SRQ_STATE state) {
    return static_cast<DAT_SRQ_STATE>(state == DAT_SRQ_STATE_OPERATIONAL ? 0 : 1);
}

/// A subtype in 1.2's numbers; what it does not have becomes the nearest that it has.
constexpr DAT_UINT32 subtype_of_dat1(DAT_UINT32 subtype) {
    if (subtype == DAT_INVALID_HANDLE_CSP)
        return DAT_INVALID_HANDLE_PSP;
    if (subtype == DAT_INVALID_STATE_SRQ_SHUTDOWN)
        subtype = DAT_INVALID_STATE_SRQ_ERROR;
    return subtype < DAT_INVALID_HANDLE_CSP           ? subtype
           : subtype < DAT_INVALID_STATE_SRQ_SHUTDOWN ? subtype - 1
                                                      : subtype - 2;
}

constexpr DAT_UINT32 type_of_dat1(DAT_UINT32 type) {
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

/// What OFED's 1.2 says: all bits of the type, and of the class.
inline constexpr DAT_RETURN not_implemented = 0xffff0000;

/// What a call of 2.0 returned, as one of 1.2 says it. The class, or none, stays.
constexpr DAT_RETURN translated(DAT_RETURN result) {
    const DAT_UINT32 type = DAT_GET_TYPE(result);
    if (type == DAT_NOT_IMPLEMENTED)
        return not_implemented;
    return (result & (DAT_CLASS_ERROR | DAT_CLASS_WARNING)) | type_of_dat1(type) |
           subtype_of_dat1(DAT_GET_SUBTYPE(result));
}

} // namespace coherdma::dapl::dat1
