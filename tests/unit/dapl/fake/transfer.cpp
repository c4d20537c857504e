// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Execution of work requests between two QPs: keys, bounds and access flags are checked.

#include "fabric.hpp"
#include "manager.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace fake {

namespace {

constexpr int not_ready = -1; ///< instead of an ibv_wc_status: try again later

using bytes = std::vector<unsigned char>;

struct range {
    unsigned char *addr;
    std::size_t length;
};

/// The memory of an SGE list. False: a key, a range or an access flag is wrong.
bool map_sge_list(const fake_qp &qp, const std::vector<ibv_sge> &sge_list, unsigned access,
                  std::vector<range> &ranges) {
    for (const ibv_sge &sge : sge_list) {
        if (sge.length == 0)
            continue;
        const fake_mr *const mr = get_fabric().find_mr(sge.lkey);
        if (mr == nullptr || mr->pd != qp.pd || (mr->access & access) != access ||
            sge.addr < mr->iova || sge.length > mr->length ||
            sge.addr - mr->iova > mr->length - sge.length)
            return false;
        ranges.push_back(
            {static_cast<unsigned char *>(mr->addr) + (sge.addr - mr->iova), sge.length});
    }
    return true;
}

std::size_t total_length(const std::vector<ibv_sge> &sge_list) {
    std::size_t sum = 0;
    for (const ibv_sge &it : sge_list)
        sum += it.length;
    return sum;
}

/// The data of a request: inline, or from its SGEs. False: an SGE is invalid.
bool read_payload(const fake_qp &qp, const send_wqe &wqe, bytes &data) {
    data = wqe.inline_data;
    if ((wqe.wr.send_flags & IBV_SEND_INLINE) != 0)
        return true;
    std::vector<range> ranges;
    if (!map_sge_list(qp, wqe.sge_list, 0, ranges))
        return false;
    for (const range &it : ranges)
        data.insert(data.end(), it.addr, it.addr + it.length);
    return true;
}

void write_payload(const std::vector<range> &ranges, const unsigned char *data,
                   std::size_t length) {
    if (length == 0)
        return;
    for (const range &it : ranges) {
        const std::size_t size = std::min(it.length, length);
        std::memcpy(it.addr, data, size);
        data += size;
        length -= size;
    }
}

/// The memory of an rkey; nullptr if the access is not allowed.
unsigned char *map_remote(const fake_qp &qp, std::uint32_t rkey, std::uint64_t addr,
                          std::size_t length, unsigned access) {
    if ((qp.access & access) != access)
        return nullptr;
    const auto contains = [addr, length](std::uint64_t begin, std::size_t size) {
        return addr >= begin && length <= size && addr - begin <= size - length;
    };
    if (const auto it = get_fabric().mr_by_rkey.find(rkey); it != get_fabric().mr_by_rkey.end()) {
        const fake_mr &mr = *it->second;
        return mr.pd == qp.pd && (mr.access & access) == access && contains(mr.iova, mr.length)
                   ? static_cast<unsigned char *>(mr.addr) + (addr - mr.iova)
                   : nullptr;
    }
    const auto it = get_fabric().mw_by_key.find(rkey >> 8);
    if (it == get_fabric().mw_by_key.end() || it->second->rkey != rkey ||
        it->second->mr == nullptr || it->second->pd != qp.pd)
        return nullptr;
    const fake_mw &mw = *it->second;
    const bool zero_based = (mw.bind_info.mw_access_flags & IBV_ACCESS_ZERO_BASED) != 0;
    if ((mw.bind_info.mw_access_flags & access) != access ||
        !contains(zero_based ? 0 : mw.bind_info.addr, mw.bind_info.length))
        return nullptr;
    const std::uint64_t in_region = (zero_based ? addr + mw.bind_info.addr : addr) - mw.mr->iova;
    return static_cast<unsigned char *>(mw.mr->addr) + in_region;
}

ibv_wc_opcode wc_opcode(ibv_wr_opcode wr_opcode) {
    switch (wr_opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
        return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return IBV_WC_FETCH_ADD;
    case IBV_WR_BIND_MW:
        return IBV_WC_BIND_MW;
    case IBV_WR_LOCAL_INV:
        return IBV_WC_LOCAL_INV;
    default:
        return IBV_WC_SEND;
    }
}

bool is_signaled(const fake_qp &qp, const send_wqe &wqe) {
    return qp.all_signaled || (wqe.wr.send_flags & IBV_SEND_SIGNALED) != 0;
}

/// Adds the CQE of a request, unless it succeeded and is not signaled.
void complete_send(fake_qp &qp, const send_wqe &wqe, ibv_wc_status status) {
    if (status == IBV_WC_SUCCESS && !is_signaled(qp, wqe))
        return;
    ibv_wc wc = {};
    wc.wr_id = wqe.wr.wr_id;
    wc.status = status;
    wc.opcode = wc_opcode(wqe.wr.opcode);
    wc.byte_len = static_cast<std::uint32_t>(total_length(wqe.sge_list));
    wc.qp_num = qp.qp_num;
    get_fabric().push_cqe(*static_cast<fake_cq *>(qp.send_cq), {wc, &qp, wqe.index, true}, false);
}

/// How a peer's work request completes a receive.
struct recv_info {
    std::size_t length = 0;
    ibv_wc_opcode opcode = IBV_WC_RECV;
    unsigned wc_flags = 0;
    std::uint32_t imm_data = 0; ///< or the invalidated rkey
    std::uint32_t src_qp = 0;
    bool solicited = false;
};

std::deque<recv_wqe> &recv_queue_of(fake_qp &qp) {
    return qp.srq != nullptr ? static_cast<fake_srq *>(qp.srq)->recv_queue : qp.recv_queue;
}

void complete_recv(fake_qp &qp, const recv_wqe &wqe, const recv_info &info, ibv_wc_status status) {
    ibv_wc wc = {};
    wc.wr_id = wqe.wr_id;
    wc.status = status;
    wc.opcode = info.opcode;
    wc.byte_len = static_cast<std::uint32_t>(info.length);
    wc.imm_data = info.imm_data;
    wc.wc_flags = info.wc_flags;
    wc.qp_num = qp.qp_num;
    wc.src_qp = info.src_qp;
    get_fabric().push_cqe(*static_cast<fake_cq *>(qp.recv_cq), {wc, &qp, qp.num_recvs_used, false},
                          info.solicited);
}

/// Takes the next receive of the QP or its SRQ, which must have one. May reach the SRQ's limit.
recv_wqe pop_recv_wqe(fake_qp &qp) {
    recv_wqe wqe = std::move(recv_queue_of(qp).front());
    recv_queue_of(qp).pop_front();
    if (qp.srq == nullptr) {
        ++qp.num_recvs_used;
        return wqe;
    }
    auto &srq = *static_cast<fake_srq *>(qp.srq);
    if (srq.attr.srq_limit != 0 && srq.recv_queue.size() < srq.attr.srq_limit) {
        srq.attr.srq_limit = 0;
        get_fabric().push_async_event(srq.context, IBV_EVENT_SRQ_LIMIT_REACHED, &srq);
    }
    return wqe;
}

/// Writes data to a receive. Returns the status of the sender's completion.
ibv_wc_status deliver(fake_qp &responder, const bytes &data, const recv_info &info) {
    const recv_wqe wqe = pop_recv_wqe(responder);
    std::vector<range> ranges;
    ibv_wc_status recv_status = IBV_WC_SUCCESS, send_status = IBV_WC_SUCCESS;
    if (total_length(wqe.sge_list) < data.size()) {
        recv_status = IBV_WC_LOC_LEN_ERR;
        send_status = IBV_WC_REM_INV_REQ_ERR;
    } else if (!map_sge_list(responder, wqe.sge_list, IBV_ACCESS_LOCAL_WRITE, ranges)) {
        recv_status = IBV_WC_LOC_PROT_ERR;
        send_status = IBV_WC_REM_OP_ERR;
    } else {
        write_payload(ranges, data.data(), data.size());
    }
    complete_recv(responder, wqe, info, recv_status);
    if (recv_status != IBV_WC_SUCCESS)
        get_fabric().qp_to_err(responder);
    return send_status;
}

int rnr_status(const fake_qp &requester) {
    const bool retries_forever =
        requester.attr.rnr_retry == 7 || get_fabric().device_of(requester.context).is_iwarp();
    return retries_forever ? not_ready : int{IBV_WC_RNR_RETRY_EXC_ERR};
}

/// Unbinds the MW with this rkey. False: there is none in the QP's PD.
bool invalidate(const fake_qp &qp, std::uint32_t rkey) {
    const auto it = get_fabric().mw_by_key.find(rkey >> 8);
    if (it == get_fabric().mw_by_key.end() || it->second->rkey != rkey || it->second->pd != qp.pd)
        return false;
    if (it->second->mr != nullptr)
        --it->second->mr->num_bound_mws;
    it->second->mr = nullptr;
    return true;
}

/// These execute a request between two QPs. They return the status of its completion, or not_ready.
int execute_send(fake_qp &requester, const send_wqe &wqe, fake_qp &responder) {
    bytes data;
    if (!read_payload(requester, wqe, data))
        return IBV_WC_LOC_PROT_ERR;
    if (recv_queue_of(responder).empty())
        return rnr_status(requester);
    recv_info info;
    info.length = data.size();
    info.solicited = (wqe.wr.send_flags & IBV_SEND_SOLICITED) != 0;
    if (wqe.wr.opcode == IBV_WR_SEND_WITH_INV) {
        if (!invalidate(responder, wqe.wr.invalidate_rkey))
            return IBV_WC_REM_INV_REQ_ERR;
        info.wc_flags = IBV_WC_WITH_INV;
        info.imm_data = wqe.wr.invalidate_rkey;
    } else if (wqe.wr.opcode == IBV_WR_SEND_WITH_IMM) {
        info.wc_flags = IBV_WC_WITH_IMM;
        info.imm_data = wqe.wr.imm_data;
    }
    return deliver(responder, data, info);
}

int execute_write(fake_qp &requester, const send_wqe &wqe, fake_qp &responder) {
    bytes data;
    if (!read_payload(requester, wqe, data))
        return IBV_WC_LOC_PROT_ERR;
    const bool has_imm = wqe.wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    if (has_imm && recv_queue_of(responder).empty())
        return rnr_status(requester);
    unsigned char *const addr =
        map_remote(responder, wqe.wr.wr.rdma.rkey, wqe.wr.wr.rdma.remote_addr, data.size(),
                   IBV_ACCESS_REMOTE_WRITE);
    if (addr == nullptr && !data.empty())
        return IBV_WC_REM_ACCESS_ERR;
    if (!data.empty())
        std::memcpy(addr, data.data(), data.size());
    if (!has_imm)
        return IBV_WC_SUCCESS;
    recv_info info;
    info.length = data.size();
    info.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
    info.wc_flags = IBV_WC_WITH_IMM;
    info.imm_data = wqe.wr.imm_data;
    info.solicited = (wqe.wr.send_flags & IBV_SEND_SOLICITED) != 0;
    complete_recv(responder, pop_recv_wqe(responder), info, IBV_WC_SUCCESS);
    return IBV_WC_SUCCESS;
}

int execute_read(fake_qp &requester, const send_wqe &wqe, fake_qp &responder) {
    const fake_device &dev = get_fabric().device_of(requester.context);
    constexpr std::uint32_t siw_vendor_id = 0x626d74;
    // On iWARP the sink of a Read needs remote write access, except with siw.
    const unsigned access = dev.is_iwarp() && dev.attr.vendor_id != siw_vendor_id
                                ? unsigned{IBV_ACCESS_REMOTE_WRITE}
                                : unsigned{IBV_ACCESS_LOCAL_WRITE};
    std::vector<range> ranges;
    if (!map_sge_list(requester, wqe.sge_list, access, ranges))
        return IBV_WC_LOC_PROT_ERR;
    const std::size_t length = total_length(wqe.sge_list);
    const unsigned char *const addr = map_remote(
        responder, wqe.wr.wr.rdma.rkey, wqe.wr.wr.rdma.remote_addr, length, IBV_ACCESS_REMOTE_READ);
    if (addr == nullptr && length != 0)
        return IBV_WC_REM_ACCESS_ERR;
    if (length != 0)
        write_payload(ranges, bytes(addr, addr + length).data(), length);
    return IBV_WC_SUCCESS;
}

int execute_atomic(fake_qp &requester, const send_wqe &wqe, fake_qp &responder) {
    std::vector<range> ranges;
    if (total_length(wqe.sge_list) != 8 ||
        !map_sge_list(requester, wqe.sge_list, IBV_ACCESS_LOCAL_WRITE, ranges))
        return IBV_WC_LOC_PROT_ERR;
    const auto &atomic = wqe.wr.wr.atomic;
    unsigned char *const addr =
        map_remote(responder, atomic.rkey, atomic.remote_addr, 8, IBV_ACCESS_REMOTE_ATOMIC);
    if (addr == nullptr || atomic.remote_addr % 8 != 0)
        return IBV_WC_REM_ACCESS_ERR;
    std::uint64_t old_value, new_value;
    std::memcpy(&old_value, addr, sizeof old_value);
    if (wqe.wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        new_value = old_value + atomic.compare_add;
    else
        new_value = old_value == atomic.compare_add ? atomic.swap : old_value;
    std::memcpy(addr, &new_value, sizeof new_value);
    write_payload(ranges, reinterpret_cast<const unsigned char *>(&old_value), sizeof old_value);
    return IBV_WC_SUCCESS;
}

bool is_registered(const ibv_mr *mr) {
    const auto &mrs = get_fabric().mr_by_lkey;
    return std::any_of(mrs.begin(), mrs.end(),
                       [mr](const auto &entry) { return entry.second == mr; });
}

int execute_bind(fake_qp &requester, const send_wqe &wqe) {
    // The MW and the MR may have been freed since the bind was posted.
    const auto it = get_fabric().mw_by_key.find(wqe.wr.bind_mw.rkey >> 8);
    if (it == get_fabric().mw_by_key.end() || it->second != wqe.wr.bind_mw.mw)
        return IBV_WC_MW_BIND_ERR;
    fake_mw &mw = *it->second;
    const ibv_mw_bind_info &bind_info = wqe.wr.bind_mw.bind_info;
    auto *const mr = static_cast<fake_mr *>(bind_info.mr);
    const bool is_unbind = bind_info.length == 0;
    if (!is_unbind && (!is_registered(mr) || mr->pd != requester.pd || mw.pd != requester.pd ||
                       (mr->access & IBV_ACCESS_MW_BIND) == 0 || bind_info.addr < mr->iova ||
                       bind_info.addr - mr->iova + bind_info.length > mr->length ||
                       ((bind_info.mw_access_flags & IBV_ACCESS_REMOTE_WRITE) != 0 &&
                        (mr->access & IBV_ACCESS_LOCAL_WRITE) == 0)))
        return IBV_WC_MW_BIND_ERR;
    if (mw.mr != nullptr)
        --mw.mr->num_bound_mws;
    mw.mr = is_unbind ? nullptr : mr;
    mw.bind_info = bind_info;
    mw.rkey = wqe.wr.bind_mw.rkey;
    if (mw.mr != nullptr)
        ++mw.mr->num_bound_mws;
    return IBV_WC_SUCCESS;
}

/// Datagrams without a receive are dropped.
int send_datagram(fake_qp &requester, const send_wqe &wqe) {
    bytes data(40); // room for the GRH
    bytes payload;
    if (!read_payload(requester, wqe, payload))
        return IBV_WC_LOC_PROT_ERR;
    data.insert(data.end(), payload.begin(), payload.end());
    const auto it = get_fabric().qp_by_num.find(wqe.wr.wr.ud.remote_qpn);
    if (it == get_fabric().qp_by_num.end() || it->second->qp_type != IBV_QPT_UD ||
        it->second->attr.qkey != wqe.wr.wr.ud.remote_qkey || recv_queue_of(*it->second).empty())
        return IBV_WC_SUCCESS;
    recv_info info;
    info.length = data.size();
    info.wc_flags = IBV_WC_GRH;
    info.src_qp = requester.qp_num;
    deliver(*it->second, data, info);
    return IBV_WC_SUCCESS;
}

int execute(fake_qp &requester, const send_wqe &wqe) {
    switch (wqe.wr.opcode) {
    case IBV_WR_BIND_MW:
        return execute_bind(requester, wqe);
    case IBV_WR_LOCAL_INV:
        return invalidate(requester, wqe.wr.invalidate_rkey) ? IBV_WC_SUCCESS : IBV_WC_MW_BIND_ERR;
    default:
        break;
    }
    if (requester.qp_type == IBV_QPT_UD)
        return send_datagram(requester, wqe);
    const auto it = get_fabric().qp_by_num.find(requester.dest_qp_num);
    if (it == get_fabric().qp_by_num.end() || it->second->state == IBV_QPS_ERR ||
        it->second->dest_qp_num != requester.qp_num)
        return IBV_WC_RETRY_EXC_ERR;
    fake_qp &responder = *it->second;
    if (responder.state != IBV_QPS_RTR && responder.state != IBV_QPS_RTS)
        return not_ready;
    switch (wqe.wr.opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return execute_write(requester, wqe, responder);
    case IBV_WR_RDMA_READ:
        return execute_read(requester, wqe, responder);
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return execute_atomic(requester, wqe, responder);
    default:
        return execute_send(requester, wqe, responder);
    }
}

bool can_flush(const fake_qp &qp) {
    return qp.state == IBV_QPS_ERR && get_fabric().polls_before_flush == 0;
}

/// Executes the next request, or flushes it if the QP is in error. False: none can be executed now.
bool run_one_wqe(fake_qp &requester) {
    const bool can_execute = requester.state == IBV_QPS_RTS && !get_fabric().paused;
    if (requester.send_queue.empty() || !(can_execute || can_flush(requester)))
        return false;
    if (requester.state == IBV_QPS_ERR) {
        complete_send(requester, requester.send_queue.front(), IBV_WC_WR_FLUSH_ERR);
        requester.send_queue.pop_front();
        return true;
    }
    const int status = execute(requester, requester.send_queue.front());
    if (status == not_ready)
        return false;
    const send_wqe wqe = std::move(requester.send_queue.front());
    requester.send_queue.pop_front();
    complete_send(requester, wqe, static_cast<ibv_wc_status>(status));
    if (status != IBV_WC_SUCCESS) {
        if (status == IBV_WC_REM_ACCESS_ERR)
            if (const auto it = get_fabric().qp_by_num.find(requester.dest_qp_num);
                it != get_fabric().qp_by_num.end())
                get_fabric().qp_to_err(*it->second);
        get_fabric().qp_to_err(requester);
    }
    return true;
}

} // namespace

// Executes and flushes until no QP can continue. Not reentrant: qp_to_err calls it again.
void fabric::run_work_requests() {
    if (running)
        return;
    running = true;
    for (bool progress = true; progress;) {
        progress = false;
        for (ibv_qp *const ibqp : qps)
            while (run_one_wqe(*static_cast<fake_qp *>(ibqp)))
                progress = true;
        for (ibv_qp *const ibqp : qps) {
            auto &qp = *static_cast<fake_qp *>(ibqp);
            while (can_flush(qp) && qp.srq == nullptr && !qp.recv_queue.empty())
                complete_recv(qp, pop_recv_wqe(qp), {}, IBV_WC_WR_FLUSH_ERR);
        }
    }
    running = false;
}

void fabric::qp_to_err(fake_qp &qp) {
    if (qp.state == IBV_QPS_ERR)
        return;
    qp.state = IBV_QPS_ERR;
    if (qp.srq != nullptr && !suppress_last_wqe)
        push_async_event(qp.context, IBV_EVENT_QP_LAST_WQE_REACHED, &qp);
    if (device_of(qp.context).is_iwarp())
        fail_connection(qp.qp_num);
    run_work_requests();
}

} // namespace fake
