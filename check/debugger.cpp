// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "debugger.hpp"

#include "kinds.hpp"
#include "reports/text.hpp"

#include <cstdint>
#include <string>
#include <unwind.h>

[[gnu::visibility("default")]] const char *coherdma_check_message = nullptr;
[[gnu::visibility("default")]] const void *coherdma_check_frame = nullptr;

[[gnu::visibility("default"), gnu::noinline]] void coherdma_check_stop() noexcept {
    asm volatile("" ::: "memory"); // the variables are set, and the call is made
}

namespace coherdma::check {
namespace {

/// A frame of this thread's stack.
struct frame_search {
    const void *return_addr = nullptr;
    bool is_reached = false;
    const void *frame = nullptr;
};

/// Of _Unwind_Backtrace(): its context has the frame's instruction, and the address of the frame
/// that is inside of it.
_Unwind_Reason_Code visit_frame(_Unwind_Context *context, void *data) {
    auto &search = *static_cast<frame_search *>(data);
    if (search.is_reached) {
        search.frame = reinterpret_cast<const void *>(_Unwind_GetCFA(context));
        return _URC_END_OF_STACK;
    }
    int is_instruction = 0; // that a signal has interrupted: it is not behind a call
    const std::uintptr_t ip = _Unwind_GetIPInfo(context, &is_instruction);
    search.is_reached = ip + static_cast<std::uintptr_t>(is_instruction) ==
                        reinterpret_cast<std::uintptr_t>(search.return_addr);
    return _URC_NO_REASON;
}

/// The innermost frame of this thread that calls as the stack's first frame of the program;
/// nullptr: there is none.
const void *find_frame(const reports::stack_trace &stack) noexcept {
    frame_search search;
    search.return_addr = reports::first_program_frame(stack);
    if (search.return_addr != nullptr)
        _Unwind_Backtrace(visit_frame, &search);
    return search.frame;
}

} // namespace

void stop_debugger(const finding &reported) {
    const char *const kind = describe(reported.kind).name;
    std::string message = reports::printable(std::string(kind) + ": " + reported.title);
    const void *frame = reported.thread == 0 && !reported.events.empty()
                            ? find_frame(reported.events.back().stack)
                            : nullptr;
    if (reported.thread != 0) {
        const std::string thread = std::to_string(reported.thread);
        message += "\nThis thread only reports it. The call is made by the thread of LWP " +
                   thread + "; next: thread find " + thread;
    } else if (frame == nullptr)
        message += "\nIt is noticed here; the wrong call was made before.";
    if (frame == nullptr)
        frame = find_frame(reports::stack_trace::capture());
    coherdma_check_message = message.c_str();
    coherdma_check_frame = frame;
    coherdma_check_stop();
    coherdma_check_message = nullptr;
    coherdma_check_frame = nullptr;
}

} // namespace coherdma::check
