// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "trace.hpp"

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

constexpr std::array<std::string_view, 5> OF_RDMA = {"libibverbs.so", "libcoherdma", "libdat2.so",
                                                     "libdaplcoherdma", "librdmacm.so"};

/// What is at a return address: of the call before it, since the next function may begin there.
struct place {
    Dl_info info{};
    const link_map *file = nullptr;
    std::uintptr_t offset = 0;
    bool known = false;

    explicit place(const void *returns_to) noexcept {
        const auto at = reinterpret_cast<std::uintptr_t>(returns_to) - 1;
        void *map = nullptr;
        known = dladdr1(reinterpret_cast<void *>(at), &info, &map, RTLD_DL_LINKMAP) != 0;
        file = static_cast<const link_map *>(map);
        offset = at - (file != nullptr ? file->l_addr : 0);
    }

    [[nodiscard]] std::string_view base_name() const noexcept {
        const std::string_view path = known && info.dli_fname != nullptr ? info.dli_fname : "";
        return path.substr(path.rfind('/') + 1);
    }
    [[nodiscard]] bool is_of_rdma() const noexcept {
        return std::any_of(OF_RDMA.begin(), OF_RDMA.end(), [&](std::string_view each) {
            return base_name().substr(0, each.size()) == each;
        });
    }
    [[nodiscard]] std::string function() const {
        if (!known || info.dli_sname == nullptr)
            return "??";
        int error = 0;
        char *const plain = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &error);
        std::string name = plain != nullptr ? plain : info.dli_sname;
        std::free(plain);
        return name;
    }
    /// The program itself is called what its first argument says, which may be anything.
    [[nodiscard]] std::string path() const {
        if (file != nullptr && file->l_name != nullptr && file->l_name[0] != '\0')
            return file->l_name;
        std::array<char, 4096> path;
        const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
        return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length))
                          : std::string(info.dli_fname);
    }
};

int first_outside(const trace &of) noexcept {
    int first = 0;
    while (first < of.depth && place(of.at[static_cast<std::size_t>(first)]).is_of_rdma())
        ++first;
    return first;
}

std::string worded(const void *frame) {
    const place one(frame);
    std::array<char, 32> offset;
    std::snprintf(offset.data(), offset.size(), "%#zx", static_cast<std::size_t>(one.offset));
    return one.function() + " (" + (one.known ? one.path() + "+" : "") + offset.data() + ")";
}

} // namespace

trace trace::here() noexcept {
    std::array<void *, 40> all;
    const int count = backtrace(all.data(), static_cast<int>(all.size()));
    static const char own = 0;
    Dl_info ours{};
    dladdr(&own, &ours);
    const auto begin = all.begin(), end = begin + count;
    const auto is_ours = [&](const void *frame) {
        return place(frame).info.dli_fbase == ours.dli_fbase;
    };
    auto first = std::find_if(begin, end, is_ours); // a sanitizer's may come before
    first = first != end ? std::find_if_not(first, end, is_ours) : begin;
    trace from;
    from.depth = std::min(static_cast<int>(end - first), static_cast<int>(from.at.size()));
    std::copy_n(first, from.depth, from.at.begin());
    return from;
}

void *first_of_program(const trace &of) noexcept {
    const int first = first_outside(of);
    return first < of.depth ? of.at[static_cast<std::size_t>(first)] : nullptr;
}

std::vector<std::string> in_words(const trace &of) {
    std::vector<std::string> words;
    for (int each = first_outside(of); each < of.depth; ++each)
        words.push_back(worded(of.at[static_cast<std::size_t>(each)]));
    return words;
}

} // namespace coherdma::emulation
