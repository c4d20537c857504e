// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "initialized_memory.hpp"

#include <algorithm>

namespace coherdma::check {
namespace {

void *to_pointer(std::uintptr_t addr) noexcept {
    return reinterpret_cast<void *>(addr);
}

std::size_t size_of(object_kind kind) noexcept {
    switch (kind) {
    case object_kind::CONTEXT:
        return sizeof(ibv_context);
    case object_kind::PD:
        return sizeof(ibv_pd);
    case object_kind::MR:
        return sizeof(ibv_mr);
    case object_kind::MW:
        return sizeof(ibv_mw);
    case object_kind::CHANNEL:
        return sizeof(ibv_comp_channel);
    case object_kind::CQ:
        return sizeof(ibv_cq);
    case object_kind::SRQ:
        return sizeof(ibv_srq);
    case object_kind::QP:
        return sizeof(ibv_qp);
    case object_kind::AH:
        return sizeof(ibv_ah);
    case object_kind::CM_ID: // librdmacm clears it
        break;
    }
    return 0;
}

} // namespace

void initialized_memory::add_object(const interposer::object &object) const noexcept {
    runtime_.unpoison(object.handle, size_of(object.kind));
}

void initialized_memory::add(std::uintptr_t begin, std::size_t length) const noexcept {
    runtime_.unpoison(to_pointer(begin), length);
}

void initialized_memory::post(std::uint64_t number, const posted_request &request) {
    if (!is_written(request) || request.memory.empty())
        return;
    target_list &targets = posted_[number];
    for (const named_memory &named : request.memory) {
        const std::size_t length = named.end - named.begin;
        if (length == 0)
            continue;
        void *const memory = to_pointer(named.begin);
        targets.push_back({.begin = named.begin,
                           .end = named.end,
                           .was_initialized = runtime_.test_shadow(memory, length) == -1});
        runtime_.poison(memory, length);
    }
}

/// The device has not written it, or only in part.
void initialized_memory::restore(const target &restored) const noexcept {
    if (restored.was_initialized)
        runtime_.unpoison(to_pointer(restored.begin), restored.end - restored.begin);
}

void initialized_memory::stop(std::uint64_t number) noexcept {
    const auto it = posted_.find(number);
    if (it == posted_.end())
        return;
    for (target &stopped : it->second) {
        restore(stopped);
        stopped.was_initialized = false; // the program may have others there from now on
    }
}

void initialized_memory::complete(std::uint64_t number, std::size_t length) noexcept {
    const auto it = posted_.find(number);
    if (it == posted_.end())
        return;
    for (target &written : it->second) {
        const std::size_t part = std::min<std::size_t>(length, written.end - written.begin);
        runtime_.unpoison(to_pointer(written.begin), part);
        written.begin += part;
        length -= part;
    }
}

void initialized_memory::end(std::uint64_t number) noexcept {
    const auto it = posted_.find(number);
    if (it == posted_.end())
        return;
    for (const target &left : it->second)
        restore(left);
    posted_.erase(it);
}

void initialized_memory::unpoison_all() const noexcept {
    for (const auto &[number, targets] : posted_)
        for (const target &left : targets)
            runtime_.unpoison(to_pointer(left.begin), left.end - left.begin);
}

void initialized_memory::note_free(std::uintptr_t begin, std::uintptr_t end) noexcept {
    for (auto &[number, targets] : posted_)
        std::erase_if(targets,
                      [=](const target &freed) { return freed.begin < end && begin < freed.end; });
}

std::optional<std::uintptr_t>
initialized_memory::find_uninitialized(const posted_request &request) const noexcept {
    if (is_written(request))
        return std::nullopt;
    for (const named_memory &named : request.memory) {
        if (named.begin == named.end)
            continue;
        const std::intptr_t offset =
            runtime_.test_shadow(to_pointer(named.begin), named.end - named.begin);
        if (offset >= 0)
            return named.begin + static_cast<std::uintptr_t>(offset);
    }
    return std::nullopt;
}

} // namespace coherdma::check
