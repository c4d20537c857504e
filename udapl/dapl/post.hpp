// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Posting a request: the way that all of them take.
#pragma once

#include "ep.hpp"
#include "result.hpp"

#include <array>
#include <cstdint>

namespace coherdma::dapl {

struct posting {
    ibv_wr_opcode opcode;
    std::uint16_t operation; ///< DAT_DTOS or DAT_IB_DTOS
    bool may_be_inline;
};

/// Those of verbs, for each of DAT's that verbs knows.
constexpr std::array<unsigned, 16> verbs_flags = [] {
    std::array<unsigned, 16> all = {};
    for (unsigned each = 0; each != all.size(); ++each)
        all[each] =
            ((each & DAT_COMPLETION_SUPPRESS_FLAG) == 0 ? unsigned{IBV_SEND_SIGNALED} : 0) |
            ((each & DAT_COMPLETION_SOLICITED_WAIT_FLAG) != 0 ? unsigned{IBV_SEND_SOLICITED} : 0) |
            ((each & DAT_COMPLETION_BARRIER_FENCE_FLAG) != 0 ? unsigned{IBV_SEND_FENCE} : 0);
    return all;
}();
constexpr unsigned flags_of(DAT_COMPLETION_FLAGS flags) {
    return verbs_flags[static_cast<unsigned>(flags) % verbs_flags.size()];
}

/// A DAT 2.0 segment is a verbs segment, so the list goes as it is.
struct description {
    DAT_COUNT segments;
    DAT_LMR_TRIPLET *iov;
    std::uint32_t length;
    DAT_UINT64 cookie;
    unsigned flags;          ///< of verbs
    void *subject = nullptr; ///< of what is no plain DTO
};

/// Why there is no record to be had for a request.
DAT_RETURN no_room(const ep &one) noexcept;

/// The record and what of the request is known of any; aim puts into it what only its opcode has.
template <class how>
[[gnu::always_inline]] inline void fill(record &next, ibv_send_wr &wanted, const posting &what,
                                        const description &of, const how &aim) noexcept {
    next.told.user_cookie.as_64 = of.cookie;
    next.told.transfered_length = of.length;
    next.told.operation = static_cast<DAT_DTOS>(what.operation);
    if (what.operation >= DAT_DTO_BIND_MW)
        next.subject = of.subject;
    aim(wanted);
    wanted.wr_id = reinterpret_cast<std::uintptr_t>(&next);
    wanted.sg_list = reinterpret_cast<ibv_sge *>(of.iov);
    wanted.opcode = what.opcode;
    wanted.send_flags = of.flags;
}

template <class how>
inline DAT_RETURN post(ep &one, const posting &what, const description &of,
                       const how &aim) noexcept {
    ibv_send_wr wanted = {}, *refused;
    wanted.num_sge = of.segments;
    const holding held(one.requests.guard);
    record *const next = one.requests.next();
    if (next == nullptr)
        return no_room(one);
    fill(*next, wanted, what, of, aim);
    if (what.may_be_inline && of.length - 1 < one.inline_limit)
        wanted.send_flags |= IBV_SEND_INLINE;
    one.requests.posted(*next);
    if (const int error = ibv_post_send(one.qp, &wanted, &refused)) {
        one.requests.not_posted();
        return failed_with(error, DAT_RESOURCE_MEMORY);
    }
    return DAT_SUCCESS;
}

/// How long a list is. False: longer than a segment can say.
inline bool sum(const DAT_LMR_TRIPLET *iov, DAT_COUNT segments, std::uint32_t &length) noexcept {
    std::uint64_t all = 0;
    for (DAT_COUNT at = 0; at != segments; ++at)
        all += iov[at].segment_length;
    length = static_cast<std::uint32_t>(all);
    return length == all;
}

} // namespace coherdma::dapl
