// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "queue_pairs.hpp"

#include "address.hpp"

#include <cstring>

namespace coherdma::faults {
namespace {

/// "": it has no peer.
std::string find_peer(const rdma_cm_id &id) {
    sockaddr_storage peer{};
    std::memcpy(&peer, &id.route.addr.dst_storage, sizeof peer);
    if (peer.ss_family == AF_INET)
        return print_address(reinterpret_cast<const sockaddr_in &>(peer).sin_addr);
    if (peer.ss_family == AF_INET6)
        return print_address(reinterpret_cast<const sockaddr_in6 &>(peer).sin6_addr);
    return "";
}

} // namespace

std::uint64_t queue_pairs::next_number() {
    const std::lock_guard guard(mutex_);
    return last_number_ + 1;
}

void queue_pairs::add(const void *qp) {
    const std::lock_guard guard(mutex_);
    qps_[qp] = {.number = ++last_number_, .peer = {}};
}

void queue_pairs::remove(const void *qp) {
    const std::lock_guard guard(mutex_);
    qps_.erase(qp);
}

void queue_pairs::set_peer(const void *qp, const ibv_ah_attr &path) {
    if (path.is_global == 0)
        return;
    in6_addr address{};
    std::memcpy(&address, &path.grh.dgid, sizeof address);
    const std::lock_guard guard(mutex_);
    if (const auto known = qps_.find(qp); known != qps_.end())
        known->second.peer = print_address(address);
}

void queue_pairs::add_cm_id(const rdma_cm_id *id) {
    const std::lock_guard guard(mutex_);
    cm_ids_.insert(id);
}

void queue_pairs::remove_cm_id(const rdma_cm_id *id) {
    const std::lock_guard guard(mutex_);
    cm_ids_.erase(id);
}

queue_pairs::identity queue_pairs::find(const void *qp) {
    const std::lock_guard guard(mutex_);
    const auto known = qps_.find(qp);
    if (known == qps_.end())
        return {};
    if (known->second.peer.empty())
        for (const rdma_cm_id *const id : cm_ids_)
            if (id->qp == qp)
                known->second.peer = find_peer(*id);
    return known->second;
}

} // namespace coherdma::faults
