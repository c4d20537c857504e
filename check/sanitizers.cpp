// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "sanitizers.hpp"

#include "sanitizer_runtimes.hpp"

#include <string_view>

namespace coherdma::check {

std::unique_ptr<sanitizers> sanitizers::find() {
    const std::optional<asan_runtime> asan = find_asan();
    static const std::optional<tsan_runtime> tsan = find_tsan();
    if (!asan && !tsan)
        return nullptr;
    auto made = std::make_unique<sanitizers>();
    if (asan)
        made->poisoned_.emplace(*asan);
    if (tsan) {
        made->device_threads_.emplace(*tsan);
        unseen_scope::runtime = &*tsan;
    }
    return made;
}

void sanitizers::begin(const known_object &queue, std::uint64_t number,
                       const posted_request &request) {
    if (poisoned_ && is_written(request))
        for (const named_memory &named : request.memory)
            poisoned_->add(number, named.begin, named.end);
    if (device_threads_)
        device_threads_->post(queue, number, request);
}

void sanitizers::end(std::uint64_t number, const posted_request &request) noexcept {
    if (poisoned_ && is_written(request))
        for (const named_memory &named : request.memory)
            poisoned_->remove(number, named.begin, named.end);
    if (device_threads_)
        device_threads_->end(number);
}

void sanitizers::end_queue(const known_object &queue) noexcept {
    if (device_threads_)
        device_threads_->end_queue(queue);
}

void sanitizers::complete(std::uint64_t number, const posted_request &request,
                          bool was_executed) noexcept {
    if (device_threads_)
        device_threads_->complete(number, request, was_executed);
}

void sanitizers::note_answer(const known_qp &qp, std::uint64_t first, std::uint64_t last) noexcept {
    if (!device_threads_)
        return;
    for (auto it = qp.sends.upper_bound(first); it != qp.sends.end() && it->first <= last; ++it)
        device_threads_->complete(it->first, it->second, true);
}

void sanitizers::note_free(std::uintptr_t begin, std::uintptr_t end, const char *call) noexcept {
    if (!poisoned_)
        return;
    const std::string_view name = call;
    if (name == "free" || name == "realloc")
        poisoned_->remove_freed(begin, end);
    else
        poisoned_->remove_unmapped(begin, end);
}

void sanitizers::end_all() noexcept {
    if (poisoned_)
        poisoned_->remove_all();
    if (device_threads_)
        device_threads_->forget_all();
}

std::vector<std::uint64_t> sanitizers::find_requests(std::uintptr_t begin,
                                                     std::uintptr_t end) const {
    return poisoned_ ? poisoned_->owners_of(begin, end) : std::vector<std::uint64_t>{};
}

} // namespace coherdma::check
