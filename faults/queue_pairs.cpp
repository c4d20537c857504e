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

std::uint64_t queue_pairs::take_number(std::uint64_t object_number) {
    const auto announced = announced_.find(object_number);
    if (announced == announced_.end())
        return ++last_number_;
    const std::uint64_t number = announced->second;
    announced_.erase(announced);
    return number;
}

std::uint64_t queue_pairs::announce(const interposer::object &qp) {
    const std::lock_guard guard(mutex_);
    return announced_[qp.number] = ++last_number_;
}

void queue_pairs::add(const interposer::object &qp) {
    const std::lock_guard guard(mutex_);
    const std::uint64_t number = take_number(qp.number);
    qps_[qp.handle] = {.object_number = qp.number,
                       .named = {.number = number, .path_peer = {}, .cm_peer = {}}};
}

void queue_pairs::remove(const interposer::object &qp) {
    const std::lock_guard guard(mutex_);
    const auto known = qps_.find(qp.handle);
    if (known != qps_.end() && known->second.object_number == qp.number)
        qps_.erase(known);
}

void queue_pairs::set_peer(const void *qp, const ibv_ah_attr &path) {
    if (path.is_global == 0)
        return;
    in6_addr address{};
    std::memcpy(&address, &path.grh.dgid, sizeof address);
    const std::lock_guard guard(mutex_);
    if (const auto known = qps_.find(qp); known != qps_.end())
        known->second.named.path_peer = print_address(address);
}

void queue_pairs::clear_peer(const void *qp) {
    const std::lock_guard guard(mutex_);
    if (const auto known = qps_.find(qp); known != qps_.end())
        known->second.named.path_peer = known->second.named.cm_peer = "";
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
    identity &named = known->second.named;
    if (named.cm_peer.empty())
        for (const rdma_cm_id *const id : cm_ids_)
            if (id->qp == qp)
                named.cm_peer = find_peer(*id);
    return named;
}

} // namespace coherdma::faults
