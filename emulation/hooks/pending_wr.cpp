// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "pending_wr.hpp"

#include <random>
#include <utility>

namespace coherdma::emulation {
namespace {

using mutex_guard = std::lock_guard<std::mutex>;

} // namespace

pending_wr_table::pending_wr_table()
    : next_number_(std::random_device{}() | std::uint64_t{0xc0e4d3a} << 32) {}

/// Returns its number, which the driver gets as wr_id.
std::uint64_t pending_wr_table::add(pending_wr wr) {
    const mutex_guard guard(mutex_);
    const std::uint64_t number = next_number_++;
    if (wr.is_send && !wr.is_signaled)
        unsignaled_[wr.queue].push_back(number);
    wrs_.emplace(number, std::move(wr));
    return number;
}

/// Adds the local memory of a pending WR: in the ibv_wr_* API its SGEs are set after it was begun.
void pending_wr_table::set_local_memory(std::uint64_t number, pending_wr wr) {
    const mutex_guard guard(mutex_);
    const auto it = wrs_.find(number);
    if (it == wrs_.end())
        return;
    it->second.sinks = std::move(wr.sinks);
    it->second.request = std::move(wr.request);
    it->second.is_reported = wr.is_reported;
}

/// The driver did not accept the WR.
void pending_wr_table::cancel(std::uint64_t number) {
    const mutex_guard guard(mutex_);
    const auto it = wrs_.find(number);
    if (it == wrs_.end())
        return;
    if (const auto unsignaled = unsignaled_.find(it->second.queue); unsignaled != unsignaled_.end())
        std::erase(unsignaled->second, number);
    wrs_.erase(it);
}

/// Removes a complete WR and, before it in the result, the unsignaled WRs posted before it to the
/// same queue. Empty: the number is unknown.
std::vector<pending_wr> pending_wr_table::complete(std::uint64_t number) {
    const mutex_guard guard(mutex_);
    std::vector<pending_wr> completed;
    const auto it = wrs_.find(number);
    if (it == wrs_.end())
        return completed;
    const auto unsignaled =
        it->second.is_send ? unsignaled_.find(it->second.queue) : unsignaled_.end();
    while (unsignaled != unsignaled_.end() && !unsignaled->second.empty() &&
           unsignaled->second.front() < number) {
        completed.push_back(std::move(wrs_.extract(unsignaled->second.front()).mapped()));
        unsignaled->second.pop_front();
    }
    // An unsignaled WR has a completion of its own if it fails.
    if (unsignaled != unsignaled_.end() && !unsignaled->second.empty() &&
        unsignaled->second.front() == number)
        unsignaled->second.pop_front();
    completed.push_back(std::move(it->second));
    wrs_.erase(it);
    return completed;
}

void pending_wr_table::remove_queue(const void *queue) {
    const mutex_guard guard(mutex_);
    std::erase_if(wrs_, [=](const auto &entry) { return entry.second.queue == queue; });
    unsignaled_.erase(queue);
}

} // namespace coherdma::emulation
