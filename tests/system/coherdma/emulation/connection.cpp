// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "connection.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <poll.h>

namespace synced {
namespace {

constexpr std::size_t NUM_RECVS = 6; // receive buffers; one more for the send buffer
constexpr std::size_t SLOT_SIZE = (sizeof(message) + connection::MAX_DATA + LINE - 1) / LINE * LINE;
constexpr std::size_t BUFFER_OFFSET = SLOT_SIZE * (NUM_RECVS + 1);
constexpr std::byte UNWRITTEN{0x5a}; // fills a slot before the receive

std::byte *allocate_lines(std::size_t length) {
    void *address = nullptr;
    if (posix_memalign(&address, LINE, length) != 0)
        throw failure("no memory");
    std::memset(address, 0, length);
    return static_cast<std::byte *>(address);
}

} // namespace

registered_memory::registered_memory(ibv_pd *pd, std::size_t length, unsigned access)
    : length_((length + LINE - 1) / LINE * LINE)
    , memory_(allocate_lines(length_))
    , mr_(check(decltype(mr_)(ibv_reg_mr(pd, memory_.get(), length_, access)), "register memory")) {
}

bytes registered_memory::range(std::size_t offset, std::size_t length) const {
    if (offset + length > length_)
        throw failure("out of bounds");
    return {memory_.get() + offset, length};
}

ibv_sge registered_memory::make_sge(bytes buf) const {
    return {reinterpret_cast<std::uintptr_t>(buf.data()), static_cast<std::uint32_t>(buf.size()),
            mr_->lkey};
}

const std::size_t connection::MEMORY_SIZE = BUFFER_OFFSET + BUFFER_SIZE;

void connection::destroy_qp(rdma_cm_id *id) noexcept {
    rdma_destroy_qp(id);
}

connection::connection(rdma_cm_id *id, ibv_pd *pd, connection_style style,
                       const registered_memory &memory, std::size_t offset,
                       const local_syncer &sync_local)
    : style_(style)
    , id_(id)
    , memory_(memory)
    , offset_(offset)
    , sync_local_(sync_local) {
    create_queues(pd);
    for (std::size_t i = 0; i < NUM_RECVS; ++i)
        post_recv(i);
}

void connection::create_queues(ibv_pd *pd) {
    ibv_context *const context = id_->verbs;
    channel_ = check(decltype(channel_)(ibv_create_comp_channel(context)), "completion channel");
    if (style_ == connection_style::CQ_EX) {
        ibv_cq_init_attr_ex attr{};
        attr.cqe = 64;
        attr.channel = channel_.get();
        attr.wc_flags = IBV_WC_STANDARD_FLAGS;
        ibv_cq_ex *const cq_ex = ibv_create_cq_ex(context, &attr);
        check(cq_ex != nullptr ? 0 : -1, "extended completion queue");
        cq_.reset(ibv_cq_ex_to_cq(cq_ex));
    } else {
        cq_ = check(decltype(cq_)(ibv_create_cq(context, 64, nullptr, channel_.get(), 0)),
                    "completion queue");
    }
    ibv_qp_init_attr_ex attr{};
    attr.qp_type = IBV_QPT_RC;
    attr.send_cq = attr.recv_cq = cq_.get();
    attr.cap = {16, static_cast<std::uint32_t>(NUM_RECVS + 2), 2, 2, 0};
    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    attr.pd = pd;
    if (style_ == connection_style::SRQ) {
        ibv_srq_init_attr srq_attr{nullptr, {static_cast<std::uint32_t>(NUM_RECVS + 2), 2, 0}};
        srq_ = check(decltype(srq_)(ibv_create_srq(pd, &srq_attr)), "shared queue");
        attr.srq = srq_.get();
    }
    if (style_ == connection_style::WR_API) {
        attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        attr.send_ops_flags =
            IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ;
    }
    check(rdma_create_qp_ex(id_.get(), &attr), "queue pair");
    qp_owner_.reset(id_.get());
}

bytes connection::slot_memory(std::size_t index, std::size_t length) const {
    return memory_.range(offset_ + index * SLOT_SIZE, length);
}

bytes connection::buffer(std::size_t offset, std::size_t length) const {
    return memory_.range(offset_ + BUFFER_OFFSET + offset, length);
}

// The slot is also the wr_id.
void connection::post_recv(std::size_t slot) {
    const bytes buf = slot_memory(slot, SLOT_SIZE);
    std::memset(buf.data(), static_cast<int>(UNWRITTEN), buf.size());
    sync_message_memory(local_kind::RECV_BEFORE, buf);
    ibv_sge sge = make_sge(buf);
    ibv_recv_wr wr{slot, nullptr, &sge, 1}, *bad_wr = nullptr;
    check(srq_ ? ibv_post_srq_recv(srq_.get(), &wr, &bad_wr) : ibv_post_recv(id_->qp, &wr, &bad_wr),
          "post a receive");
}

// Syncs a message's memory if the program syncs local memory itself. --without-local skips only the
// sync of what follows the first line: with a stale header the program could not go on.
void connection::sync_message_memory(local_kind k, bytes buf) const {
    const std::size_t header = std::min(LINE, buf.size());
    const ibv_sge first = make_sge(buf.first(header)), rest = make_sge(buf.subspan(header));
    sync_local_.sync_always(k, &first, 1);
    if (rest.length != 0)
        sync_local_(k, &rest, 1);
}

// Syncs the local memory of an RDMA request, and keeps the sinks of Reads and atomics for the sync
// after their completion.
void connection::sync_before_post(const ibv_send_wr &wr) {
    const auto num_sge = static_cast<std::size_t>(wr.num_sge);
    switch (wr.opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        sync_local_(local_kind::SOURCE, wr.sg_list, num_sge);
        break;
    case IBV_WR_RDMA_READ:
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        sync_local_(local_kind::SINK_BEFORE, wr.sg_list, num_sge);
        sinks_.insert(sinks_.end(), wr.sg_list, wr.sg_list + num_sge);
        break;
    default: // a message, which is synced, or a request without data
        break;
    }
}

void connection::send_message(const message &msg, std::span<const std::byte> data) {
    const bytes buf = slot_memory(NUM_RECVS, sizeof msg + data.size());
    message header = msg;
    header.length = static_cast<std::uint32_t>(data.size());
    std::memcpy(buf.data(), &header, sizeof header);
    if (!data.empty())
        std::memcpy(buf.data() + sizeof header, data.data(), data.size());
    sync_message_memory(local_kind::SEND, buf);
    ibv_sge sge = make_sge(buf);
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_SIGNALED;
    post_and_wait(wr);
}

// The oldest message that was not taken yet, or the immediate data of a Write.
message connection::receive_message() {
    while (received_.empty())
        wait_for_completion();
    const received_message oldest = received_.front();
    received_.pop_front();
    message msg;
    data_ = {};
    if (oldest.is_write) {
        msg.immediate = oldest.immediate;
    } else {
        const bytes buf = slot_memory(oldest.slot, SLOT_SIZE);
        sync_message_memory(local_kind::RECV_AFTER, buf);
        std::memcpy(&msg, buf.data(), sizeof msg);
        if (msg.length > MAX_DATA)
            throw failure(concat("a message of ", msg.length, " bytes, more than sent"));
        std::memcpy(data_buffer_.data(), buf.data() + sizeof msg, msg.length);
        data_ = {data_buffer_.data(), msg.length};
    }
    post_recv(oldest.slot);
    return msg;
}

std::uint64_t connection::post(ibv_send_wr wr) {
    wr.wr_id = next_wr_id_++;
    sync_before_post(wr);
    if (style_ == connection_style::WR_API) {
        post_with_wr_api(wr);
    } else {
        ibv_send_wr *bad_wr = nullptr;
        check(ibv_post_send(id_->qp, &wr, &bad_wr), "post a request");
    }
    return wr.wr_id;
}

void connection::post_with_wr_api(const ibv_send_wr &wr) {
    ibv_qp_ex *const qp = ibv_qp_to_qp_ex(id_->qp);
    ibv_wr_start(qp);
    qp->wr_id = wr.wr_id;
    qp->wr_flags = wr.send_flags;
    switch (wr.opcode) {
    case IBV_WR_SEND:
        ibv_wr_send(qp);
        break;
    case IBV_WR_RDMA_WRITE:
        ibv_wr_rdma_write(qp, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr);
        break;
    case IBV_WR_RDMA_READ:
        ibv_wr_rdma_read(qp, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr);
        break;
    default:
        ibv_wr_abort(qp);
        throw failure("unsupported opcode of the ibv_wr_* API");
    }
    if (wr.num_sge == 1)
        ibv_wr_set_sge(qp, wr.sg_list->lkey, wr.sg_list->addr, wr.sg_list->length);
    else
        ibv_wr_set_sge_list(qp, static_cast<std::size_t>(wr.num_sge), wr.sg_list);
    check(ibv_wr_complete(qp), "ibv_wr_complete");
}

// Until the signaled WR has completed; then syncs the sinks of the WRs so far.
void connection::wait_completed(std::uint64_t wr_id) {
    while (completed_.erase(wr_id) == 0)
        wait_for_completion();
    if (!sinks_.empty()) // of this request and the unsignaled ones before it
        sync_local_(local_kind::SINK_AFTER, sinks_.data(), sinks_.size());
    sinks_.clear();
}

void connection::handle_completion(std::uint64_t wr_id, ibv_wc_status status, ibv_wc_opcode opcode,
                                   std::uint32_t immediate) {
    if (status != IBV_WC_SUCCESS)
        throw failure(concat("request ", wr_id, ": ", ibv_wc_status_str(status)));
    if (wr_id >= FIRST_SEND_WR_ID)
        completed_.insert(wr_id);
    else if (wr_id < NUM_RECVS)
        received_.push_back({wr_id, opcode == IBV_WC_RECV_RDMA_WITH_IMM, ntohl(immediate)});
    else
        throw failure(concat("a completion of request ", wr_id, ", which was not posted"));
}

bool connection::poll_cq() {
    if (style_ == connection_style::CQ_EX)
        return poll_cq_ex();
    ibv_wc wcs[4];
    const int count = ibv_poll_cq(cq_.get(), 4, wcs);
    check(count < 0 ? -1 : 0, "poll");
    for (int i = 0; i < count; ++i)
        handle_completion(wcs[i].wr_id, wcs[i].status, wcs[i].opcode, wcs[i].imm_data);
    return count != 0;
}

bool connection::poll_cq_ex() {
    auto *const cq = reinterpret_cast<ibv_cq_ex *>(cq_.get());
    ibv_poll_cq_attr attr{};
    int error = ibv_start_poll(cq, &attr);
    if (error == ENOENT)
        return false;
    check(error, "ibv_start_poll");
    while (error == 0) {
        const bool is_success = cq->status == IBV_WC_SUCCESS;
        handle_completion(cq->wr_id, cq->status, is_success ? ibv_wc_read_opcode(cq) : IBV_WC_SEND,
                          0);
        error = ibv_next_poll(cq);
    }
    ibv_end_poll(cq);
    check(error == ENOENT ? 0 : error, "ibv_start_poll");
    return true;
}

// Returns after completions were handled, or after a while: the caller calls it again.
void connection::wait_for_completion() {
    if (poll_cq())
        return;
    check(ibv_req_notify_cq(cq_.get(), 0), "arm the completion queue");
    if (poll_cq()) // a completion arrived before the CQ was armed
        return;
    // With siw, one of about fifty runs waited here without end, with the stock provider, too:
    // possibly a completion that is generated while the CQ is armed makes no event
    // (KNOWN_FAULTS.md). So the CQ is polled again.
    constexpr int POLL_INTERVAL_MS = 100;
    pollfd poll_fd = {channel_->fd, POLLIN, 0};
    if (::poll(&poll_fd, 1, POLL_INTERVAL_MS) == 0)
        return;
    ibv_cq *cq = nullptr;
    void *context = nullptr;
    check(ibv_get_cq_event(channel_.get(), &cq, &context), "completion event");
    ibv_ack_cq_events(cq, 1);
}

} // namespace synced
