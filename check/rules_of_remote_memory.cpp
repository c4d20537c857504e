// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What an rkey names, if both ends of the connection are in this process.

#include "rules.hpp"

#include "reports/text.hpp"

namespace coherdma::check {
namespace {

using reports::hex_number;

struct needed_access {
    int flag;
    const char *name;
};

needed_access access_of(ibv_wr_opcode opcode) noexcept {
    switch (opcode) {
    case IBV_WR_RDMA_READ:
        return {IBV_ACCESS_REMOTE_READ, "IBV_ACCESS_REMOTE_READ"};
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return {IBV_ACCESS_REMOTE_ATOMIC, "IBV_ACCESS_REMOTE_ATOMIC"};
    default:
        return {IBV_ACCESS_REMOTE_WRITE, "IBV_ACCESS_REMOTE_WRITE"};
    }
}

std::string post_of(const posted_request &request) {
    return describe_request(request) + ", is posted";
}

/// A finding of the QP with the history of the MR.
finding make_remote_finding(finding_kind kind, const known_qp &qp, const posted_request &request,
                            const known_object &mr, const std::string &title) {
    finding added = make_finding(kind, qp, title, post_of(request));
    added.events.insert(added.events.end() - 1,
                        {.description = mr.name + " was registered", .stack = mr.creation});
    return added;
}

/// An rkey that no MR has. It may be of an MW, or of memory that the books do not have: then it is
/// right.
void check_unknown_key(process_books &books, const known_qp &qp, const known_qp &peer,
                       const posted_request &request, std::uint32_t rkey, findings &result) {
    for (const auto &[number, object] : books.others)
        if (object.kind == object_kind::MW && object.context == peer.context)
            return;
    if (const known_mr *const mr = books.find_mr(peer.context, rkey)) {
        result.push_back(make_remote_finding(
            finding_kind::REMOTE_KEY, qp, request, *mr,
            hex_number(rkey) + " is the lkey of an MR; its rkey is " + hex_number(mr->rkey)));
        return;
    }
    for (const auto &[handle, ended] : books.destroyed)
        if (ended.object.kind == object_kind::MR && ended.object.context == peer.context &&
            ended.rkey == rkey) {
            finding added = make_remote_finding(finding_kind::REMOTE_KEY, qp, request, ended.object,
                                                "rkey " + hex_number(rkey) +
                                                    " is of an MR that was deregistered");
            added.events.insert(added.events.end() - 1,
                                {.description = ended.object.name + " was deregistered",
                                 .stack = ended.destruction});
            result.push_back(std::move(added));
            return;
        }
}

} // namespace

void check_remote(process_books &books, known_qp &qp, const posted_request &request,
                  std::uint32_t rkey, std::uint64_t remote_addr, std::uint64_t length,
                  findings &result) {
    const known_qp *const peer = books.find_peer(qp);
    if (peer == nullptr || length == 0) // without data, the key is not looked up
        return;
    const known_mr *const mr = books.find_remote_mr(peer->context, rkey);
    if (mr == nullptr) {
        check_unknown_key(books, qp, *peer, request, rkey, result);
        return;
    }
    const auto add = [&](finding_kind kind, const std::string &title) {
        result.push_back(make_remote_finding(kind, qp, request, *mr, title));
    };
    const std::uint64_t end = remote_addr + length;
    if (mr->end != 0 && (remote_addr < mr->begin || end > mr->end || end < remote_addr))
        add(finding_kind::REMOTE_RANGE, "a request has the remote addresses " +
                                            hex_number(remote_addr) + ".." + hex_number(end) +
                                            ", and the MR of its rkey " + hex_number(mr->begin) +
                                            ".." + hex_number(mr->end));
    const auto [flag, name] = access_of(request.opcode);
    if (mr->is_access_known && (mr->access & flag) == 0)
        add(finding_kind::REMOTE_ACCESS,
            mr->name + " was registered without " + name + ", which the request needs");
    if (mr->pd_handle != peer->pd_handle)
        add(finding_kind::REMOTE_PD, mr->name + " is of PD " + std::to_string(mr->pd_handle) +
                                         ", and " + peer->name +
                                         ", by which the request arrives, "
                                         "of PD " +
                                         std::to_string(peer->pd_handle));
}

} // namespace coherdma::check
