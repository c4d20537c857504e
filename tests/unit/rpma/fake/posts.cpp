// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// QPs, and the requests that are posted to them.

#include "rdma.hpp"
#include "state.hpp"

#include "../../dapl/fake/tsan_ordering.hpp"

#include <arpa/inet.h>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <utility>

namespace fake {

namespace {

std::mutex lock; // of posts and wr_ids
std::string posts;
std::vector<std::uint64_t> wr_ids;

[[gnu::format(printf, 1, 2)]] std::string format(const char *text, ...) {
    char line[200];
    std::va_list args;
    va_start(args, text);
    std::vsnprintf(line, sizeof line, text, args);
    va_end(args);
    return line;
}

int record(std::uint64_t wr_id, const std::string &text) {
    if (const int error = call(POST))
        return error;
    last.wr_id = wr_id;
    const tsan_ignore ignore;
    const std::lock_guard guard(lock);
    wr_ids.push_back(wr_id);
    posts += (posts.empty() ? "" : " | ") + text;
    return 0;
}

std::string to_text(const ibv_sge *sg_list, int num_sge, unsigned send_flags) {
    if (num_sge == 0)
        return sg_list == nullptr ? "no memory" : "a list of no memory";
    if ((send_flags & IBV_SEND_INLINE) != 0)
        return "inline " +
               std::string(reinterpret_cast<const char *>(sg_list->addr), sg_list->length);
    std::string text;
    for (int i = 0; i != num_sge; ++i)
        text += format("%s%#" PRIx64 "+%" PRIu32 " lkey %#x", i == 0 ? "" : ", ", sg_list[i].addr,
                       sg_list[i].length, sg_list[i].lkey);
    return text;
}

std::string to_text(unsigned send_flags) {
    std::string text;
    for (const auto &[flag, name] : {std::pair<unsigned, const char *>{IBV_SEND_FENCE, " fence"},
                                     {IBV_SEND_SIGNALED, " signaled"},
                                     {IBV_SEND_SOLICITED, " solicited"}})
        text += (send_flags & flag) != 0 ? name : "";
    return text;
}

int post_send(ibv_qp *qp, ibv_send_wr *wr, ibv_send_wr **) {
    check_object(qp, "QP");
    if (wr->next != nullptr)
        add_violation("a list of several requests is posted");
    std::string text;
    switch (wr->opcode) {
    case IBV_WR_RDMA_READ:
        text = "Read";
        break;
    case IBV_WR_RDMA_WRITE:
        text = "Write";
        break;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        text = "Write with " + format("%#x", ntohl(wr->imm_data));
        break;
    case IBV_WR_SEND:
        text = "Send";
        break;
    case IBV_WR_SEND_WITH_IMM:
        text = "Send with " + format("%#x", ntohl(wr->imm_data));
        break;
    default:
        text = format("opcode %d", static_cast<int>(wr->opcode));
    }
    text += format(" %#" PRIx64, wr->wr_id) + to_text(wr->send_flags) + ": " +
            to_text(wr->sg_list, wr->num_sge, wr->send_flags);
    if (wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_SEND_WITH_IMM)
        text += format(", remote %#" PRIx64 " rkey %#x", wr->wr.rdma.remote_addr, wr->wr.rdma.rkey);
    return record(wr->wr_id, text);
}

std::string to_text(const ibv_recv_wr &wr) {
    if (wr.next != nullptr)
        add_violation("a list of several receives is posted");
    return format("Receive %#" PRIx64 ": ", wr.wr_id) + to_text(wr.sg_list, wr.num_sge, 0);
}
int post_recv(ibv_qp *qp, ibv_recv_wr *wr, ibv_recv_wr **) {
    check_object(qp, "QP");
    return record(wr->wr_id, to_text(*wr));
}
int post_srq_recv(ibv_srq *srq, ibv_recv_wr *wr, ibv_recv_wr **) {
    check_object(srq, "SRQ");
    return record(wr->wr_id, "SRQ " + to_text(*wr));
}

// A QP with native operations, which wr_complete() posts.
struct fake_qp {
    ibv_qp_ex ex = {}; ///< the first member: ibv_qp is its first
    bool has_ops = false;
    std::string request;
};
fake_qp &to_fake_qp(ibv_qp_ex *qp) {
    return *reinterpret_cast<fake_qp *>(qp);
}

void wr_start(ibv_qp_ex *qp) {
    to_fake_qp(qp).request.clear();
}
int wr_complete(ibv_qp_ex *qp) {
    return record(qp->wr_id, to_fake_qp(qp).request);
}
void wr_atomic_write(ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t remote_addr,
                     const void *value) {
    to_fake_qp(qp).request = format("Atomic Write %#" PRIx64, qp->wr_id) + to_text(qp->wr_flags) +
                             ": " + std::string(static_cast<const char *>(value), 8) +
                             format(", remote %#" PRIx64 " rkey %#x", remote_addr, rkey);
}
#ifdef COHERDMA_HAS_FLUSH
void wr_flush(ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t remote_addr, std::size_t length,
              std::uint8_t type, std::uint8_t level) {
    to_fake_qp(qp).request = format("Flush %#" PRIx64, qp->wr_id) + to_text(qp->wr_flags) +
                             format(": %s of %zu, remote %#" PRIx64 " rkey %#x",
                                    type == IBV_FLUSH_PERSISTENT ? "persistence"
                                    : type == IBV_FLUSH_GLOBAL   ? "visibility"
                                                                 : "unknown type",
                                    length, remote_addr, rkey) +
                             (level == IBV_FLUSH_RANGE ? "" : ", not the range");
}
#endif

} // namespace

void set_post_ops(ibv_context_ops &ops) {
    ops.post_send = post_send;
    ops.post_recv = post_recv;
    ops.post_srq_recv = post_srq_recv;
}

void reset_posts() {
    posts.clear();
    wr_ids.clear();
}

std::string take_posts() {
    return std::exchange(posts, "");
}

std::vector<std::uint64_t> take_wr_ids() {
    return std::exchange(wr_ids, {});
}

ibv_qp *create_qp(const ibv_qp_init_attr_ex &attr) {
    last.qp.push_back(attr);
    const std::uint64_t ops =
        (attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0 ? attr.send_ops_flags : 0;
    int error = call("rdma_create_qp_ex");
    if (error == 0 && ops != 0 && !settings.has_send_ops)
        error = EOPNOTSUPP;
    if (error != 0) {
        errno = error;
        return nullptr;
    }
    auto *const qp = new fake_qp;
    qp->has_ops = ops != 0;
    ibv_qp &ibqp = qp->ex.qp_base;
    ibqp.context = context();
    ibqp.qp_num = QP_NUM;
    ibqp.qp_type = attr.qp_type;
    ibqp.send_cq = attr.send_cq;
    ibqp.recv_cq = attr.recv_cq;
    ibqp.srq = attr.srq;
    qp->ex.wr_start = wr_start;
    qp->ex.wr_complete = wr_complete;
    if ((ops & IBV_QP_EX_WITH_ATOMIC_WRITE) != 0)
        qp->ex.wr_atomic_write = wr_atomic_write;
#ifdef COHERDMA_HAS_FLUSH
    if ((ops & IBV_QP_EX_WITH_FLUSH) != 0)
        qp->ex.wr_flush = wr_flush;
#endif
    add_object(&ibqp, "QP", {attr.send_cq, attr.recv_cq, attr.srq, attr.pd});
    return &ibqp;
}

void destroy_qp(ibv_qp *qp) {
    const bool was_live = is_live(qp);
    remove_object(qp, "QP");
    if (was_live)
        delete reinterpret_cast<fake_qp *>(qp);
}

} // namespace fake

using namespace fake;

extern "C" {

ibv_qp_ex *ibv_qp_to_qp_ex(ibv_qp *qp) {
    check_object(qp, "QP");
    auto *const result = reinterpret_cast<fake_qp *>(qp);
    return result->has_ops ? &result->ex : nullptr;
}

int ibv_query_qp(ibv_qp *qp, ibv_qp_attr *attr, int, ibv_qp_init_attr *) {
    check_object(qp, "QP");
    attr->cap.max_inline_data = settings.max_inline_data;
    return call("ibv_query_qp");
}
}
