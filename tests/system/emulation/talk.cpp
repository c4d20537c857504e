// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "talk.hpp"

#include <arpa/inet.h>
#include <poll.h>

namespace synced {
namespace {

constexpr std::size_t SLOTS = 6; // for receives; one more is for what is sent
constexpr std::size_t SLOT = (sizeof(note) + talk::LONGEST + LINE - 1) / LINE * LINE;
constexpr std::size_t OWN_AT = SLOT * (SLOTS + 1);
constexpr std::byte OLD{0x5a}; // in a slot, before something comes

std::byte *lines(std::size_t length) {
    void *made = nullptr;
    if (posix_memalign(&made, LINE, length) != 0)
        throw failure("no memory");
    std::memset(made, 0, length);
    return static_cast<std::byte *>(made);
}

} // namespace

memory::memory(ibv_pd *domain, std::size_t length, unsigned access)
    : length_((length + LINE - 1) / LINE * LINE)
    , own_(lines(length_))
    , region_(check(decltype(region_)(ibv_reg_mr(domain, own_.get(), length_, access)),
                    "register memory")) {}

bytes memory::part(std::size_t offset, std::size_t length) const {
    if (offset + length > length_)
        throw failure("beyond the memory");
    return {own_.get() + offset, length};
}

ibv_sge memory::piece(bytes which) const {
    return {reinterpret_cast<std::uintptr_t>(which.data()),
            static_cast<std::uint32_t>(which.size()), region_->lkey};
}

const std::size_t talk::ROOM = OWN_AT + OWN;

void talk::end(rdma_cm_id *id) noexcept {
    rdma_destroy_qp(id);
}

talk::talk(rdma_cm_id *id, ibv_pd *domain, style how, const memory &in, std::size_t offset)
    : style_(how)
    , id_(id)
    , in_(in)
    , offset_(offset) {
    create_queues(domain);
    for (std::size_t each = 0; each < SLOTS; ++each)
        receive_into(each);
}

void talk::create_queues(ibv_pd *domain) {
    ibv_context *const device = id_->verbs;
    channel_ = check(decltype(channel_)(ibv_create_comp_channel(device)), "completion channel");
    if (style_ == style::POLLED) {
        ibv_cq_init_attr_ex wanted{};
        wanted.cqe = 64;
        wanted.channel = channel_.get();
        wanted.wc_flags = IBV_WC_STANDARD_FLAGS;
        ibv_cq_ex *const made = ibv_create_cq_ex(device, &wanted);
        check(made != nullptr ? 0 : -1, "completion queue to poll by parts");
        queue_.reset(ibv_cq_ex_to_cq(made));
    } else {
        queue_ = check(decltype(queue_)(ibv_create_cq(device, 64, nullptr, channel_.get(), 0)),
                       "completion queue");
    }
    ibv_qp_init_attr_ex wanted{};
    wanted.qp_type = IBV_QPT_RC;
    wanted.send_cq = wanted.recv_cq = queue_.get();
    wanted.cap = {16, static_cast<std::uint32_t>(SLOTS + 2), 2, 2, 0};
    wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
    wanted.pd = domain;
    if (style_ == style::SHARED) {
        ibv_srq_init_attr shared{nullptr, {static_cast<std::uint32_t>(SLOTS + 2), 2, 0}};
        shared_ = check(decltype(shared_)(ibv_create_srq(domain, &shared)), "shared queue");
        wanted.srq = shared_.get();
    }
    if (style_ == style::PARTS) {
        wanted.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        wanted.send_ops_flags =
            IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ;
    }
    check(rdma_create_qp_ex(id_.get(), &wanted), "queue pair");
    pair_.reset(id_.get());
}

bytes talk::slot(std::size_t which, std::size_t length) const {
    return in_.part(offset_ + which * SLOT, length);
}

bytes talk::own(std::size_t offset, std::size_t length) const {
    return in_.part(offset_ + OWN_AT + offset, length);
}

void talk::receive_into(std::size_t which) {
    const bytes where = slot(which, SLOT);
    std::memset(where.data(), static_cast<int>(OLD), where.size());
    ibv_sge list = piece(where);
    ibv_recv_wr request{which, nullptr, &list, 1}, *bad = nullptr;
    check(shared_ ? ibv_post_srq_recv(shared_.get(), &request, &bad)
                  : ibv_post_recv(id_->qp, &request, &bad),
          "post a receive");
}

void talk::tell(const note &what, std::span<const std::byte> data) {
    const bytes where = slot(SLOTS, sizeof what + data.size());
    note head = what;
    head.length = static_cast<std::uint32_t>(data.size());
    std::memcpy(where.data(), &head, sizeof head);
    if (!data.empty())
        std::memcpy(where.data() + sizeof head, data.data(), data.size());
    ibv_sge list = piece(where);
    ibv_send_wr request{};
    request.opcode = IBV_WR_SEND;
    request.sg_list = &list;
    request.num_sge = 1;
    request.send_flags = IBV_SEND_SIGNALED;
    run(request);
}

note talk::hear() {
    while (arrived_.empty())
        await();
    const arrival one = arrived_.front();
    arrived_.pop_front();
    note head;
    data_ = {};
    if (one.is_write) {
        head.immediate = one.immediate;
    } else {
        const bytes come = slot(one.slot, SLOT);
        std::memcpy(&head, come.data(), sizeof head);
        if (head.length > LONGEST)
            throw failure(text("a note of ", head.length, " bytes: not what was sent"));
        std::memcpy(data_room_.data(), come.data() + sizeof head, head.length);
        data_ = {data_room_.data(), head.length};
    }
    receive_into(one.slot);
    return head;
}

std::uint64_t talk::post(ibv_send_wr request) {
    request.wr_id = next_++;
    if (style_ == style::PARTS) {
        post_by_parts(request);
    } else {
        ibv_send_wr *bad = nullptr;
        check(ibv_post_send(id_->qp, &request, &bad), "post a request");
    }
    return request.wr_id;
}

void talk::post_by_parts(const ibv_send_wr &request) {
    ibv_qp_ex *const pair = ibv_qp_to_qp_ex(id_->qp);
    ibv_wr_start(pair);
    pair->wr_id = request.wr_id;
    pair->wr_flags = request.send_flags;
    switch (request.opcode) {
    case IBV_WR_SEND:
        ibv_wr_send(pair);
        break;
    case IBV_WR_RDMA_WRITE:
        ibv_wr_rdma_write(pair, request.wr.rdma.rkey, request.wr.rdma.remote_addr);
        break;
    case IBV_WR_RDMA_READ:
        ibv_wr_rdma_read(pair, request.wr.rdma.rkey, request.wr.rdma.remote_addr);
        break;
    default:
        ibv_wr_abort(pair);
        throw failure("this is not posted by parts");
    }
    if (request.num_sge == 1)
        ibv_wr_set_sge(pair, request.sg_list->lkey, request.sg_list->addr, request.sg_list->length);
    else
        ibv_wr_set_sge_list(pair, static_cast<std::size_t>(request.num_sge), request.sg_list);
    check(ibv_wr_complete(pair), "post by parts");
}

void talk::finish(std::uint64_t id) {
    while (done_.erase(id) == 0)
        await();
}

void talk::took(std::uint64_t id, ibv_wc_status status, ibv_wc_opcode opcode,
                std::uint32_t immediate) {
    if (status != IBV_WC_SUCCESS)
        throw failure(text("request ", id, ": ", ibv_wc_status_str(status)));
    if (id >= 1000)
        done_.insert(id);
    else if (id < SLOTS)
        arrived_.push_back({id, opcode == IBV_WC_RECV_RDMA_WITH_IMM, ntohl(immediate)});
    else
        throw failure(text("a completion of request ", id, ", which nobody posted"));
}

bool talk::poll() {
    if (style_ == style::POLLED)
        return poll_by_parts();
    ibv_wc all[4];
    const int count = ibv_poll_cq(queue_.get(), 4, all);
    check(count < 0 ? -1 : 0, "poll");
    for (int each = 0; each < count; ++each)
        took(all[each].wr_id, all[each].status, all[each].opcode, all[each].imm_data);
    return count != 0;
}

bool talk::poll_by_parts() {
    auto *const queue = reinterpret_cast<ibv_cq_ex *>(queue_.get());
    ibv_poll_cq_attr how{};
    int error = ibv_start_poll(queue, &how);
    if (error == ENOENT)
        return false;
    check(error, "poll by parts");
    while (error == 0) {
        const bool good = queue->status == IBV_WC_SUCCESS;
        took(queue->wr_id, queue->status, good ? ibv_wc_read_opcode(queue) : IBV_WC_SEND, 0);
        error = ibv_next_poll(queue);
    }
    ibv_end_poll(queue);
    check(error == ENOENT ? 0 : error, "poll by parts");
    return true;
}

void talk::await() {
    if (poll())
        return;
    check(ibv_req_notify_cq(queue_.get(), 0), "arm the completion queue");
    if (poll()) // it came before that
        return;
    // On siw one of some fifty runs waited for ever here, with the stock provider too: perhaps a
    // completion that comes while the queue is armed wakes nobody. It is polled for, from time to
    // time.
    constexpr int AGAIN = 100;
    pollfd ready = {channel_->fd, POLLIN, 0};
    if (::poll(&ready, 1, AGAIN) == 0)
        return;
    ibv_cq *queue = nullptr;
    void *context = nullptr;
    check(ibv_get_cq_event(channel_.get(), &queue, &context), "completion event");
    ibv_ack_cq_events(queue, 1);
}

} // namespace synced
