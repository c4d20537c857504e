// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "sanitizers.hpp"

#include "process.hpp"
#include "sanitizer_runtimes.hpp"

#include <string_view>

namespace coherdma::check {

std::unique_ptr<sanitizers> sanitizers::find() {
    const std::optional<asan_runtime> asan = find_asan();
    static const std::optional<tsan_runtime> tsan = find_tsan();
    const std::optional<msan_runtime> msan = find_msan();
    if (!asan && !tsan && !msan)
        return nullptr;
    auto made = std::make_unique<sanitizers>();
    if (asan)
        made->poisoned_.emplace(*asan);
    if (tsan) {
        made->device_threads_.emplace(*tsan);
        unseen_scope::runtime = &*tsan;
    }
    if (msan) {
        made->initialized_.emplace(*msan);
        static_cast<void>(find_function(checking_scope::disable_checks,
                                        "__msan_scoped_disable_interceptor_checks") &&
                          find_function(checking_scope::enable_checks,
                                        "__msan_scoped_enable_interceptor_checks"));
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
    if (initialized_)
        initialized_->post(number, request);
}

void sanitizers::unpoison(std::uint64_t number, const posted_request &request) noexcept {
    if (poisoned_ && is_written(request))
        for (const named_memory &named : request.memory)
            poisoned_->remove(number, named.begin, named.end);
}

void sanitizers::stop(std::uint64_t number, const posted_request &request) noexcept {
    unpoison(number, request);
    if (device_threads_)
        device_threads_->stop(number);
    if (initialized_)
        initialized_->stop(number);
}

void sanitizers::drop(std::uint64_t number, const posted_request &request) noexcept {
    if (initialized_)
        initialized_->drop(number);
    end(number, request);
}

void sanitizers::end(std::uint64_t number, const posted_request &request) noexcept {
    unpoison(number, request);
    if (device_threads_)
        device_threads_->end(number);
    if (initialized_)
        initialized_->end(number);
}

void sanitizers::end_queue(const known_object &queue) noexcept {
    if (device_threads_)
        device_threads_->end_queue(queue);
}

void sanitizers::complete(std::uint64_t number, const posted_request &request,
                          std::optional<std::size_t> byte_len) noexcept {
    if (device_threads_)
        device_threads_->complete(number, request, byte_len.has_value());
    if (initialized_ && byte_len)
        initialized_->complete(number, *byte_len);
}

void sanitizers::note_object(const interposer::object &created) noexcept {
    if (initialized_)
        initialized_->add_object(created);
}

void sanitizers::note_registration(const interposer::registration &asked) noexcept {
    constexpr int BY_PEERS = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    if (initialized_ && asked.kind == interposer::memory_kind::PROGRAM &&
        (asked.access & BY_PEERS) != 0 && asked.length != SIZE_MAX)
        initialized_->add(reinterpret_cast<std::uintptr_t>(asked.addr), asked.length);
}

void sanitizers::note_completion(const ibv_wc &wc) noexcept {
    if (initialized_)
        initialized_->add(reinterpret_cast<std::uintptr_t>(&wc), sizeof wc);
}

std::optional<std::uintptr_t>
sanitizers::find_uninitialized(const posted_request &request) const noexcept {
    return initialized_ ? initialized_->find_uninitialized(request) : std::nullopt;
}

void sanitizers::note_answer(const known_qp &qp, std::uint64_t first, std::uint64_t last) noexcept {
    if (!device_threads_)
        return;
    for (auto it = qp.sends.upper_bound(first); it != qp.sends.end() && it->first <= last; ++it)
        if (!is_written(it->second)) // a Read need not be complete
            device_threads_->complete(it->first, it->second, true);
}

void sanitizers::note_free(std::uintptr_t begin, std::uintptr_t end, const char *call) noexcept {
    if (initialized_)
        initialized_->note_free(begin, end);
    if (!poisoned_)
        return;
    const std::string_view name = call;
    if (name == "free" || name == "realloc")
        poisoned_->remove_freed(begin, end);
    else
        poisoned_->remove_unmapped(begin, end);
}

void sanitizers::before_fork() noexcept {
    if (device_threads_)
        device_threads_->before_fork();
}

void sanitizers::unpoison_all() const noexcept {
    if (poisoned_)
        poisoned_->unpoison_all();
    if (initialized_)
        initialized_->unpoison_all();
}

std::vector<std::uint64_t> sanitizers::find_requests(std::uintptr_t begin,
                                                     std::uintptr_t end) const {
    return poisoned_ ? poisoned_->owners_of(begin, end) : std::vector<std::uint64_t>{};
}

} // namespace coherdma::check
