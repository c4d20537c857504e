// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "device_threads.hpp"

#include <algorithm>
#include <span>
#include <string>

namespace coherdma::check {
namespace {

constexpr std::size_t MAX_FIBERS = 512; ///< the sanitizer has room for some thousand threads
constexpr unsigned NO_SYNC = 1;         ///< the thread that becomes a fiber is not before it

/// The call that posted the request and its callers, innermost first: they are the device's.
std::span<void *const> calls_of(const posted_request &request) noexcept {
    const std::span all(request.stack.frames.begin(),
                        static_cast<std::size_t>(request.stack.depth));
    const auto first = std::find(all.begin(), all.end(), first_program_frame(request.stack));
    return first != all.end() ? all.subspan(static_cast<std::size_t>(first - all.begin())) : all;
}

} // namespace

/// Sends and receives of a QP are executed independently.
void *device_threads::fiber_of(const known_object &queue, bool is_receive) {
    if (const auto it = fibers_.find({queue.number, is_receive}); it != fibers_.end())
        return it->second;
    if (fibers_.size() >= MAX_FIBERS && common_fiber_ != nullptr)
        return common_fiber_;
    void *const fiber = runtime_.create_fiber(0);
    const std::string name = "RDMA device " + queue.device + ", " + queue.name;
    runtime_.set_fiber_name(fiber, name.c_str());
    if (fibers_.size() >= MAX_FIBERS)
        return common_fiber_ = fiber;
    fibers_.emplace(fiber_key{queue.number, is_receive}, fiber);
    return fiber;
}

void device_threads::post(const known_object &queue, std::uint64_t number,
                          const posted_request &request) {
    request_state &added = posted_[number];
    added.fiber = fiber_of(queue, request.is_receive);
    seen([&] { runtime_.release(&added.post); });
}

/// As the current fiber.
void device_threads::access(const posted_request &request) const noexcept {
    const std::span<void *const> calls = calls_of(request);
    for (std::size_t i = calls.size(); i > 1; --i)
        runtime_.enter_function(calls[i - 1]);
    // Without the stacks of posts it is the poll.
    void *const place = !calls.empty() ? calls.front() : __builtin_return_address(0);
    for (const named_memory &named : request.memory) {
        auto *const begin = reinterpret_cast<void *>(named.begin);
        if (named.begin < named.end)
            (is_written(request) ? runtime_.write_range
                                 : runtime_.read_range)(begin, named.end - named.begin, place);
    }
    for (std::size_t i = 1; i < calls.size(); ++i)
        runtime_.exit_function(nullptr);
}

void device_threads::complete(std::uint64_t number, const posted_request &request,
                              bool was_executed) noexcept {
    const auto it = posted_.find(number);
    if (it == posted_.end())
        return;
    request_state &state = it->second;
    if (was_executed && !state.was_executed && !state.is_stopped) {
        state.was_executed = true;
        void *const thread = runtime_.get_current_fiber();
        runtime_.switch_to_fiber(state.fiber, NO_SYNC);
        runtime_.acquire(&state.post);
        access(request);
        runtime_.release(&state.completion);
        runtime_.switch_to_fiber(thread, NO_SYNC);
    }
    seen([&] { runtime_.acquire(state.was_executed ? &state.completion : &state.post); });
}

void device_threads::stop(std::uint64_t number) noexcept {
    if (const auto it = posted_.find(number); it != posted_.end())
        it->second.is_stopped = true;
}

void device_threads::end_queue(const known_object &queue) noexcept {
    for (const bool is_receive : {false, true})
        if (const auto it = fibers_.find({queue.number, is_receive}); it != fibers_.end()) {
            runtime_.destroy_fiber(it->second);
            fibers_.erase(it);
        }
}

} // namespace coherdma::check
