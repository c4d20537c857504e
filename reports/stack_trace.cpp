// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "stack_trace.hpp"

#include "symbols.hpp"

#include <algorithm>
#include <cstdint>
#include <dlfcn.h>
#include <execinfo.h>
#include <string_view>
#include <sys/auxv.h>
#include <utility>

namespace coherdma::reports {
namespace {

/// Files that begin so are libraries by which programs use RDMA: verbs and uDAPL; and communication
/// libraries above them.
constexpr std::array<std::string_view, 22> RDMA_LIBRARIES = {
    "libibverbs.so", "libcoherdma",    "libdat2.so",   "libdat.so",  "libdaplcoherdma",
    "librdmacm.so",  "librpma.so",     "libucp.so",    "libuct",     "libucs",
    "libucm",        "libucc",         "libfabric.so", "libmpi",     "libopen-pal.so",
    "mca_",          "libopen-rte.so", "liboshmem.so", "libpmix.so", "libmca_",
    "libnccl",       "libnixl"};

/// The file that the call before a return address is in, without its folder; "" if unknown.
std::string_view file_of_call(const void *return_addr, Dl_info &info) noexcept {
    const auto addr = reinterpret_cast<std::uintptr_t>(return_addr) - 1;
    info = {};
    const std::string_view path =
        dladdr(reinterpret_cast<void *>(addr), &info) != 0 && info.dli_fname != nullptr
            ? info.dli_fname
            : "";
    return path.substr(path.rfind('/') + 1);
}

bool is_in_rdma_library(const void *return_addr) noexcept {
    Dl_info info;
    const std::string_view file = file_of_call(return_addr, info);
    return file.find("-rdmav") != std::string_view::npos || // a driver of libibverbs
           std::any_of(RDMA_LIBRARIES.begin(), RDMA_LIBRARIES.end(),
                       [&](std::string_view prefix) { return file.starts_with(prefix); });
}

/// Also in a program that it is linked into.
bool is_in_sanitizer(const void *return_addr) noexcept {
    Dl_info info;
    const std::string_view file = file_of_call(return_addr, info);
    const std::string_view name = info.dli_sname != nullptr ? info.dli_sname : "";
    return file.starts_with("libasan.so") || file.starts_with("libtsan.so") ||
           file.starts_with("libclang_rt.") || name.starts_with("_ZN11__sanitizer") ||
           name.starts_with("__interceptor_") || name.starts_with("_ZN6__asan") ||
           name.starts_with("_ZN6__msan") || name.starts_with("_ZN6__tsan");
}

/// In what calls main() or the function of a thread: libc, a sanitizer, and _start of the program.
bool is_in_startup_code(const void *return_addr) noexcept {
    constexpr std::uintptr_t max_start_size = 64;
    if (reinterpret_cast<std::uintptr_t>(return_addr) - getauxval(AT_ENTRY) < max_start_size)
        return true;
    Dl_info info;
    const std::string_view file = file_of_call(return_addr, info);
    return file.starts_with("libc.so") || is_in_sanitizer(return_addr);
}

/// ibv_post_send(), memset() and others are inlined into the program, as is the C++ library.
bool is_of_system_header(const std::string &frame) noexcept {
    return frame.find("/infiniband/verbs.h:") != std::string::npos ||
           frame.find("/rdma/rdma_verbs.h:") != std::string::npos ||
           frame.find(" (/usr/include/") != std::string::npos ||
           frame.find("/include/c++/") != std::string::npos;
}

/// A sanitizer may be linked into the program: its frames have no source lines.
bool is_of_allocator(const std::string &frame) noexcept {
    constexpr std::array<std::string_view, 9> NAMES = {
        "__sanitizer::", "__asan::", "__msan::",  "__tsan::",       "__interceptor_",
        "free (",        "cfree (",  "realloc (", "operator delete"};
    return std::any_of(NAMES.begin(), NAMES.end(),
                       [&](std::string_view name) { return frame.starts_with(name); });
}

/// The frames of the program in a stack, from the innermost one: [begin, end).
struct program_frames {
    int begin = 0, end = 0;
};

/// Those from the first outside RDMA libraries to main() or the function of the thread. If there is
/// none, as in a thread of a library: the outermost one that is not startup code.
program_frames find_program_frames(const stack_trace &trace) noexcept {
    const auto frame = [&](int i) {
        return trace.frames[static_cast<std::size_t>(i)];
    };
    program_frames shown = {0, trace.depth};
    while (shown.end > 1 && is_in_startup_code(frame(shown.end - 1)))
        --shown.end;
    while (shown.begin + 1 < shown.end &&
           (is_in_rdma_library(frame(shown.begin)) || is_in_sanitizer(frame(shown.begin))))
        ++shown.begin;
    return shown;
}

} // namespace

namespace {

/// Frames before the first of this module; 0: it has none.
int count_others(const stack_trace &trace) noexcept {
    static const char symbol_of_module = 0;
    Dl_info module{};
    dladdr(&symbol_of_module, &module);
    const auto begin = trace.frames.begin(), end = begin + trace.depth;
    const auto first = std::find_if(begin, end, [&](const void *return_addr) {
        Dl_info info;
        file_of_call(return_addr, info);
        return info.dli_fbase == module.dli_fbase;
    });
    return first != end ? static_cast<int>(first - begin) : 0;
}

} // namespace

/// Of the calling thread, without the frames of this module.
stack_trace stack_trace::capture() noexcept {
    std::array<void *, 128> stack;
    const int count = backtrace(stack.data(), static_cast<int>(stack.size()));
    static const char symbol_of_module = 0;
    Dl_info module{};
    dladdr(&symbol_of_module, &module);
    const auto begin = stack.begin(), end = stack.begin() + count;
    const auto is_in_module = [&](const void *return_addr) {
        Dl_info info;
        file_of_call(return_addr, info);
        return info.dli_fbase == module.dli_fbase;
    };
    auto first = std::find_if(begin, end, is_in_module); // frames of a sanitizer may precede
    first = first != end ? std::find_if_not(first, end, is_in_module) : begin;
    return of_calls(first, end);
}

/// MPI and UCX alone may have more frames than there is room for.
stack_trace stack_trace::of_calls(void *const *begin, void *const *end) noexcept {
    stack_trace trace;
    constexpr auto max_depth = std::tuple_size<decltype(trace.frames)>();
    while (static_cast<std::size_t>(end - begin) > max_depth &&
           (is_in_rdma_library(*begin) || is_in_sanitizer(*begin)))
        ++begin;
    trace.depth = std::min(static_cast<int>(end - begin), static_cast<int>(max_depth));
    std::copy_n(begin, trace.depth, trace.frames.begin());
    return trace;
}

stack_trace stack_trace::capture_all() noexcept {
    stack_trace trace;
    trace.depth = backtrace(trace.frames.data(), static_cast<int>(trace.frames.size()));
    // Frames of a sanitizer, whose backtrace() calls that of the C library, are the same each time.
    static const int num_others = count_others(trace);
    trace.depth -= num_others;
    if (num_others != 0)
        std::move(trace.frames.begin() + num_others,
                  trace.frames.begin() + num_others + trace.depth, trace.frames.begin());
    return trace;
}

stack_trace stack_trace::of_interrupted(const void *instruction) noexcept {
    std::array<void *, 128> stack;
    const int count = backtrace(stack.data(), static_cast<int>(stack.size()));
    void **begin = stack.data();
    void **const end = begin + count;
    begin = std::find(begin, end, instruction);
    if (begin == end) // the machine does not say which
        return capture();
    *begin = static_cast<char *>(*begin) + 1; // as if it were a call, which frames are behind
    while (begin + 1 < end && is_in_startup_code(*begin)) // memcpy(), or a sanitizer's
        ++begin;
    return of_calls(begin, end);
}

stack_trace stack_trace::of_instruction(const void *instruction) noexcept {
    stack_trace trace;
    trace.depth = instruction != nullptr ? 1 : 0;
    trace.frames.front() = static_cast<char *>(const_cast<void *>(instruction)) + 1;
    return trace;
}

stack_trace stack_trace::of_allocation(const void *memory) noexcept {
    using get_alloc_stack = std::size_t (*)(void *, void **, std::size_t, int *);
    static const auto get_stack =
        reinterpret_cast<get_alloc_stack>(dlsym(RTLD_DEFAULT, "__asan_get_alloc_stack"));
    stack_trace trace;
    int thread_id = 0;
    if (get_stack == nullptr)
        return trace;
    trace.depth = static_cast<int>(get_stack(const_cast<void *>(memory), trace.frames.data(),
                                             trace.frames.size(), &thread_id));
    for (void *&frame : trace.frames) // they are in the calls, not behind them
        frame = static_cast<char *>(frame) + 1;
    return trace;
}

bool is_of_udapl(const stack_trace &trace) noexcept {
    return std::any_of(trace.frames.begin(), trace.frames.begin() + trace.depth,
                       [](const void *return_addr) {
                           Dl_info info;
                           return file_of_call(return_addr, info).starts_with("libdaplcoherdma");
                       });
}

std::string_view caller_of_verbs(const stack_trace &trace) noexcept {
    for (int i = 0; i < trace.depth; ++i) {
        Dl_info info;
        const std::string_view file = file_of_call(trace.frames[static_cast<std::size_t>(i)], info);
        if (!file.starts_with("libcoherdma-") && !file.starts_with("libibverbs."))
            return file;
    }
    return "";
}

void *first_program_frame(const stack_trace &trace) noexcept {
    const program_frames shown = find_program_frames(trace);
    return shown.begin < shown.end ? trace.frames[static_cast<std::size_t>(shown.begin)] : nullptr;
}

std::vector<std::string> to_strings(const stack_trace &trace) {
    const program_frames shown = find_program_frames(trace);
    std::vector<std::string> lines;
    std::string outermost;
    for (int i = shown.begin; i < shown.end; ++i)
        for (std::string &line : describe_call(trace.frames[static_cast<std::size_t>(i)]))
            if (!lines.empty() || (!is_of_system_header(line) && !is_of_allocator(line)))
                lines.push_back(std::move(line));
            else
                outermost = std::move(line);
    if (lines.empty() && !outermost.empty()) // its function is better than nothing
        lines.push_back(std::move(outermost));
    return lines;
}

} // namespace coherdma::reports
