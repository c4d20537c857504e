// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "device_threads.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace coherdma::check {
namespace {

constexpr std::size_t MAX_FIBERS = 512; ///< the sanitizer has room for some thousand threads

/// The call that posted the request and its callers, innermost first: they are the device's.
std::span<void *const> calls_of(const posted_request &request) noexcept {
    const std::span all(request.stack.frames.begin(),
                        static_cast<std::size_t>(request.stack.depth));
    const auto first = std::find(all.begin(), all.end(), first_program_frame(request.stack));
    return first != all.end() ? all.subspan(static_cast<std::size_t>(first - all.begin())) : all;
}

} // namespace

/// Sends and receives of a QP are executed independently.
device_threads::queue_thread &device_threads::thread_of(const known_object &queue,
                                                        bool is_receive) {
    const fiber_key key = {queue.number, is_receive};
    const auto it = threads_.find(key);
    if (it != threads_.end())
        return it->second;
    queue_thread &added = threads_.size() < MAX_FIBERS ? threads_[key] : common_thread_;
    if (added.name.empty())
        added.name = "RDMA device " + queue.device + ", " + queue.name;
    return added;
}

void *device_threads::fiber_of(queue_thread &thread) const noexcept {
    if (thread.fiber != nullptr)
        return thread.fiber;
    thread.fiber = runtime_.create_fiber(0);
    runtime_.set_fiber_name(thread.fiber, thread.name.c_str());
    if (thread.has_ended)
        become(thread.fiber, [&] { runtime_.acquire(&thread.end); });
    return thread.fiber;
}

void device_threads::end_fiber(queue_thread &thread) const noexcept {
    if (thread.fiber == nullptr)
        return;
    become(thread.fiber, [&] { runtime_.release(&thread.end); });
    runtime_.destroy_fiber(std::exchange(thread.fiber, nullptr));
    thread.has_ended = true;
}

void device_threads::before_fork() noexcept {
    for (auto &[key, thread] : threads_)
        end_fiber(thread);
    end_fiber(common_thread_);
}

void device_threads::post(const known_object &queue, std::uint64_t number,
                          const posted_request &request) {
    request_state &added = posted_[number];
    added.thread = &thread_of(queue, request.is_receive);
    static_cast<void>(fiber_of(*added.thread)); // its creation is this post, in reports
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
        become(fiber_of(*state.thread), [&] {
            runtime_.acquire(&state.post);
            access(request);
            runtime_.release(&state.completion);
        });
    }
    seen([&] { runtime_.acquire(state.was_executed ? &state.completion : &state.post); });
}

void device_threads::stop(std::uint64_t number) noexcept {
    if (const auto it = posted_.find(number); it != posted_.end())
        it->second.is_stopped = true;
}

void device_threads::end_queue(const known_object &queue) noexcept {
    for (const bool is_receive : {false, true})
        if (const auto it = threads_.find({queue.number, is_receive}); it != threads_.end()) {
            end_fiber(it->second);
            threads_.erase(it);
        }
}

} // namespace coherdma::check
