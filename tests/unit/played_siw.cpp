// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "played_siw.hpp"

#include "siw/objects.hpp"

#include <bit>
#include <cstdlib>
#include <fcntl.h>

namespace played {

verbs_context *siw_kernel::open_own(ibv_device *device) {
    return coherdma::provider::siw::open(device, fd, nullptr);
}

// Neither more nor less than what is there.
int siw_kernel::may_map(std::uint64_t offset, std::size_t bytes) {
    for (std::size_t each = 0; each < rings(); ++each)
        if (ring_memory(each).offset == offset)
            return (bytes + page - 1) / page * page == size(each) ? 0 : EINVAL;
    return EINVAL;
}

std::uint64_t siw_kernel::make_ring(std::uint32_t &entries, std::size_t slot, std::size_t behind) {
    entries = std::bit_ceil(entries);
    slots_.push_back(entries);
    std::uint64_t key = make_memory(entries * slot + behind).offset;
    if (lie)
        lie(key, entries);
    return key;
}

siw_uresp_create_qp siw_kernel::make_pair(std::uint32_t sends, std::uint32_t receives) {
    siw_uresp_create_qp is{};
    is.qp_id = ++pairs_;
    is.num_sqe = sends;
    is.sq_key = make_ring(is.num_sqe, sizeof(siw_sqe));
    is.num_rqe = receives;
    is.rq_key = receives != 0 ? make_ring(is.num_rqe, sizeof(siw_rqe)) : SIW_INVAL_UOBJ_KEY;
    return is;
}

void siw_kernel::complete(std::size_t ring, siw_cqe what) {
    auto &into = slot<siw_cqe>(ring, completed_[ring]++);
    if (into.flags != 0)
        std::abort();
    what.flags |= SIW_WQE_VALID;
    into = what;
}

int siw_kernel::answer_own(const command &to) {
    switch (to.number) {
    case IB_USER_VERBS_CMD_GET_CONTEXT: {
        const auto events = static_cast<std::uint32_t>(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        respond(to, std::array{events, std::uint32_t{1}}, siw_uresp_alloc_ctx{3, 0});
        return 0;
    }
    case IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL:
        respond(to,
                std::array{static_cast<std::uint32_t>(::open("/dev/null", O_RDONLY | O_CLOEXEC))});
        return 0;
    case IB_USER_VERBS_CMD_REG_MR: {
        const std::uint32_t stag =
            ++stags_ << 8U | to.as<siw_ureq_reg_mr>(sizeof(ib_uverbs_reg_mr)).stag_key;
        respond(to, std::array{made(to), stag, stag}, siw_uresp_reg_mr{stag, 0});
        return 0;
    }
    case IB_USER_VERBS_CMD_CREATE_CQ: {
        siw_uresp_create_cq is{};
        is.num_cqe = to.as<ib_uverbs_create_cq>().cqe;
        is.cq_key = make_ring(is.num_cqe, sizeof(siw_cqe), sizeof(siw_cq_ctrl));
        respond(to, std::array{made(to), is.num_cqe}, is);
        return 0;
    }
    case IB_USER_VERBS_CMD_CREATE_SRQ: {
        const auto asked = to.as<ib_uverbs_create_srq>();
        siw_uresp_create_srq is{};
        is.num_rqe = asked.max_wr;
        is.srq_key = make_ring(is.num_rqe, sizeof(siw_rqe));
        respond(to, std::array{made(to), asked.max_wr, asked.max_sge, std::uint32_t{0}}, is);
        return 0;
    }
    case IB_USER_VERBS_CMD_CREATE_QP: {
        const auto asked = to.as<ib_uverbs_create_qp>();
        const auto is = make_pair(asked.max_send_wr, asked.is_srq != 0 ? 0 : asked.max_recv_wr);
        const std::array<std::uint32_t, 8> granted{
            made(to),           is.qp_id,           asked.max_send_wr,     asked.max_recv_wr,
            asked.max_send_sge, asked.max_recv_sge, asked.max_inline_data, 0};
        respond(to, granted, is);
        return 0;
    }
    case IB_USER_VERBS_CMD_CREATE_QP | extended: {
        const auto asked = to.as<ib_uverbs_ex_create_qp>();
        const auto is = make_pair(asked.max_send_wr, asked.max_recv_wr);
        const std::array<std::uint32_t, 10> granted{
            made(to),           is.qp_id,           asked.max_send_wr,    asked.max_recv_wr,
            asked.max_send_sge, asked.max_recv_sge, asked.max_inline_data};
        respond(to, granted, is);
        return 0;
    }
    case IB_USER_VERBS_CMD_QUERY_QP: {
        ib_uverbs_query_qp_resp is;
        std::memset(&is, 0, sizeof is);
        is.qp_state = static_cast<std::uint8_t>(state);
        is.max_dest_rd_atomic = peer_allows_reads;
        respond(to, is);
        if (queried)
            queried();
        return 0;
    }
    case IB_USER_VERBS_CMD_MODIFY_QP:
        if (modified)
            modified();
        return 0;
    case IB_USER_VERBS_CMD_POST_SEND:
        respond(to, std::uint32_t{0});
        return rung ? rung(to.as<ib_uverbs_post_send>().qp_handle) : 0;
    default:
        return EOPNOTSUPP;
    }
}

} // namespace played
