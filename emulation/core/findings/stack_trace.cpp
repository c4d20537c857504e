// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "stack_trace.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <string_view>
#include <unistd.h>

namespace coherdma::emulation {
namespace {

constexpr std::array<std::string_view, 5> RDMA_LIBRARIES = {
    "libibverbs.so", "libcoherdma", "libdat2.so", "libdaplcoherdma", "librdmacm.so"};

/// The call before a return address: another function may begin at the return address itself.
struct call_site {
    Dl_info info{};
    const link_map *map = nullptr;
    std::uintptr_t offset = 0;
    bool is_known = false;

    explicit call_site(const void *return_addr) noexcept {
        const auto addr = reinterpret_cast<std::uintptr_t>(return_addr) - 1;
        void *extra_info = nullptr;
        is_known =
            dladdr1(reinterpret_cast<void *>(addr), &info, &extra_info, RTLD_DL_LINKMAP) != 0;
        map = static_cast<const link_map *>(extra_info);
        offset = addr - (map != nullptr ? map->l_addr : 0);
    }

    [[nodiscard]] std::string_view base_name() const noexcept {
        const std::string_view path = is_known && info.dli_fname != nullptr ? info.dli_fname : "";
        return path.substr(path.rfind('/') + 1);
    }
    [[nodiscard]] bool is_in_rdma_library() const noexcept {
        return std::any_of(RDMA_LIBRARIES.begin(), RDMA_LIBRARIES.end(),
                           [&](std::string_view prefix) {
                               return base_name().substr(0, prefix.size()) == prefix;
                           });
    }
    [[nodiscard]] std::string function_name() const {
        if (!is_known || info.dli_sname == nullptr)
            return "??";
        int status = 0;
        char *const demangled = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
        std::string name = demangled != nullptr ? demangled : info.dli_sname;
        std::free(demangled);
        return name;
    }
    /// For the program itself dli_fname is argv[0], which may be any string.
    [[nodiscard]] std::string path() const {
        if (map != nullptr && map->l_name != nullptr && map->l_name[0] != '\0')
            return map->l_name;
        std::array<char, 4096> path;
        const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
        return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length))
                          : std::string(info.dli_fname);
    }
};

int first_program_index(const stack_trace &trace) noexcept {
    int i = 0;
    while (i < trace.depth &&
           call_site(trace.frames[static_cast<std::size_t>(i)]).is_in_rdma_library())
        ++i;
    return i;
}

std::string frame_to_string(const void *return_addr) {
    const call_site call(return_addr);
    std::array<char, 32> offset;
    std::snprintf(offset.data(), offset.size(), "%#zx", static_cast<std::size_t>(call.offset));
    return call.function_name() + " (" + (call.is_known ? call.path() + "+" : "") + offset.data() +
           ")";
}

} // namespace

stack_trace stack_trace::capture() noexcept {
    std::array<void *, 40> stack;
    const int count = backtrace(stack.data(), static_cast<int>(stack.size()));
    static const char symbol_of_module = 0;
    Dl_info module{};
    dladdr(&symbol_of_module, &module);
    const auto begin = stack.begin(), end = stack.begin() + count;
    const auto is_in_module = [&](const void *return_addr) {
        return call_site(return_addr).info.dli_fbase == module.dli_fbase;
    };
    auto first = std::find_if(begin, end, is_in_module); // frames of a sanitizer may precede
    first = first != end ? std::find_if_not(first, end, is_in_module) : begin;
    stack_trace trace;
    trace.depth = std::min(static_cast<int>(end - first), static_cast<int>(trace.frames.size()));
    std::copy_n(first, trace.depth, trace.frames.begin());
    return trace;
}

void *first_program_frame(const stack_trace &trace) noexcept {
    const int i = first_program_index(trace);
    return i < trace.depth ? trace.frames[static_cast<std::size_t>(i)] : nullptr;
}

std::vector<std::string> to_strings(const stack_trace &trace) {
    std::vector<std::string> lines;
    for (int i = first_program_index(trace); i < trace.depth; ++i)
        lines.push_back(frame_to_string(trace.frames[static_cast<std::size_t>(i)]));
    return lines;
}

} // namespace coherdma::emulation
