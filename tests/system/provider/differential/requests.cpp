// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "requests.hpp"

#include <arpa/inet.h>

namespace differential {

std::string shape::name() const {
    std::string text;
    for (const std::uint32_t length : lengths)
        text += (text.empty() ? "" : "+") + std::to_string(length);
    if (num_sge != static_cast<int>(lengths.size()))
        text += concat("(num_sge:", num_sge, ")");
    if (wrong_lkey)
        text += "(lkey)";
    return text.empty() ? "none" : text;
}

std::string_view opcode_name(int opcode) {
    constexpr std::array<std::string_view, num_opcodes> names{
        "WRITE",   "WRITE_IMM", "SEND", "SEND_IMM", "READ", "CMP_SWP", "FETCH_ADD", "LOCAL_INV",
        "BIND_MW", "SEND_INV",  "TSO",  "DRIVER1",  "12",   "13",      "FLUSH",     "ATOMIC_WRITE"};
    return names.at(static_cast<std::size_t>(opcode));
}

/// Of IBV_SEND_* flags, for the name of a case: a letter for each.
std::string flags_name(unsigned flags) {
    constexpr std::string_view letters = "FSOIC"; // fence, signaled, solicited, inline, checksum
    std::string text;
    for (std::size_t i = 0; i < letters.size(); ++i)
        if ((flags >> i & 1) != 0)
            text += letters[i];
    if (flags >> letters.size() != 0)
        text += concat(flags >> letters.size());
    return text.empty() ? "0" : text;
}

bool consumes_recv(int opcode) {
    return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
           opcode == IBV_WR_SEND_WITH_INV || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

// A WR of that opcode from QP a of the pair to QP b: its data, its remote address and, for
// operations with an rkey or MW, a bound MW. The caller sets wr.sg_list to the request's own list.
request make_request(qp_pair &qps, int opcode, unsigned flags, const shape &shape,
                     std::uint64_t wr_id) {
    endpoint &a = *qps.a, &b = *qps.b;
    request request;
    std::size_t offset = 64; // of the data in a's memory, with gaps between the SGEs
    for (const std::uint32_t length : shape.lengths) {
        request.sg_list.push_back(a.make_sge(length, offset));
        offset += length + 8;
    }
    if (shape.wrong_lkey)
        request.sg_list.back().lkey ^= 0x5500;
    ibv_send_wr &wr = request.wr;
    wr.wr_id = wr_id;
    wr.opcode = static_cast<ibv_wr_opcode>(opcode);
    wr.send_flags = flags;
    wr.num_sge = shape.num_sge;
    const bool is_datagram = a.options.type == IBV_QPT_UD;
    if (is_datagram) {
        wr.wr.ud.ah = a.ah.get();
        wr.wr.ud.remote_qpn = b.qp->qp_num;
        wr.wr.ud.remote_qkey = endpoint::qkey;
    } else {
        wr.wr.rdma.remote_addr = b.addr(128);
        wr.wr.rdma.rkey = b.mr->rkey;
    }
    if (opcode == IBV_WR_RDMA_WRITE_WITH_IMM || opcode == IBV_WR_SEND_WITH_IMM)
        wr.imm_data = htonl(0x12345678);
    const bool has_mws = a.env.options.is_rxe() && a.options.type == IBV_QPT_RC;
    if ((opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) &&
        !is_datagram) {
        wr.wr.atomic = {b.addr(128), 0, 7, b.mr->rkey};
        std::memcpy(&wr.wr.atomic.compare_add, b.memory.data() + 128, 8); // so that it swaps
    } else if (opcode == IBV_WR_SEND_WITH_INV) {
        if (has_mws)
            b.bind_mw();
        wr.invalidate_rkey = b.mw ? b.mw->rkey : b.mr->rkey;
    } else if (opcode == IBV_WR_LOCAL_INV && has_mws) {
        a.bind_mw();
        wr.invalidate_rkey = a.mw->rkey;
    } else if (opcode == IBV_WR_BIND_MW) {
        if (has_mws)
            a.mw = check(decltype(a.mw)(ibv_alloc_mw(a.pd.get(), IBV_MW_TYPE_2)), "MW");
        wr.bind_mw.mw = a.mw.get();
        wr.bind_mw.rkey = a.mw ? ibv_inc_rkey(a.mw->rkey) : 0;
        wr.bind_mw.bind_info = {a.mr.get(), a.addr(), 4096, IBV_ACCESS_REMOTE_WRITE};
    }
    return request;
}

// Posts the requests by the ibv_wr_* API in one ibv_wr_start() and ibv_wr_complete(); returns the
// latter's result.
int post_extended(qp_pair &qps, const std::vector<request> &requests) {
    ibv_qp_ex *const qp = ibv_qp_to_qp_ex(qps.a->qp);
    ibv_wr_start(qp);
    for (const request &request : requests) {
        const ibv_send_wr &wr = request.wr;
        qp->wr_id = wr.wr_id;
        qp->wr_flags = wr.send_flags & ~unsigned{IBV_SEND_INLINE};
        bool has_data = true;
        switch (wr.opcode) {
        case IBV_WR_RDMA_WRITE:
            ibv_wr_rdma_write(qp, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr);
            break;
        case IBV_WR_RDMA_WRITE_WITH_IMM:
            ibv_wr_rdma_write_imm(qp, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr, wr.imm_data);
            break;
        case IBV_WR_SEND:
            ibv_wr_send(qp);
            break;
        case IBV_WR_SEND_WITH_IMM:
            ibv_wr_send_imm(qp, wr.imm_data);
            break;
        case IBV_WR_SEND_WITH_INV:
            ibv_wr_send_inv(qp, wr.invalidate_rkey);
            break;
        case IBV_WR_RDMA_READ:
            ibv_wr_rdma_read(qp, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr);
            break;
        case IBV_WR_ATOMIC_CMP_AND_SWP:
            ibv_wr_atomic_cmp_swp(qp, wr.wr.atomic.rkey, wr.wr.atomic.remote_addr,
                                  wr.wr.atomic.compare_add, wr.wr.atomic.swap);
            break;
        case IBV_WR_ATOMIC_FETCH_AND_ADD:
            ibv_wr_atomic_fetch_add(qp, wr.wr.atomic.rkey, wr.wr.atomic.remote_addr,
                                    wr.wr.atomic.compare_add);
            break;
        case IBV_WR_LOCAL_INV:
            ibv_wr_local_inv(qp, wr.invalidate_rkey);
            has_data = false;
            break;
        case IBV_WR_BIND_MW:
            ibv_wr_bind_mw(qp, wr.bind_mw.mw, wr.bind_mw.rkey, &wr.bind_mw.bind_info);
            has_data = false;
            break;
        default:
            throw failure("no builder");
        }
        if (qps.a->options.type == IBV_QPT_UD)
            ibv_wr_set_ud_addr(qp, qps.a->ah.get(), qps.b->qp->qp_num, endpoint::qkey);
        const auto num_sge = static_cast<std::size_t>(wr.num_sge);
        if (!has_data)
            continue;
        if ((wr.send_flags & IBV_SEND_INLINE) == 0) {
            ibv_wr_set_sge_list(qp, num_sge, request.sg_list.data());
            continue;
        }
        std::vector<ibv_data_buf> buffers;
        for (const ibv_sge &sge : request.sg_list)
            buffers.push_back({reinterpret_cast<void *>(sge.addr), sge.length});
        ibv_wr_set_inline_data_list(qp, buffers.size(), buffers.data());
    }
    return ibv_wr_complete(qp);
}

} // namespace differential
