// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "cache.hpp"
#include "guard.hpp"

#include <cstring>

namespace coherdma::cache {
namespace {

constexpr std::size_t LARGEST_LINE = 4096;

[[gnu::no_sanitize_address, gnu::no_sanitize_thread]] void touch(void *given) {
    const path &candidate = *static_cast<const path *>(given);
    alignas(64) unsigned char own[64] = {};
    const range all{reinterpret_cast<std::uintptr_t>(own), sizeof own, 0};
    const std::size_t line = line_size();
    candidate.before_clean();
    candidate.clean(&all, 1, line);
    candidate.after_clean();
    candidate.before_flush();
    candidate.flush(&all, 1, line);
    candidate.after_flush();
}

const path *refused(const char **why, const char *reason) noexcept {
    if (why)
        *why = reason;
    return nullptr;
}

} // namespace

bool works(const path &candidate) noexcept {
    const std::size_t line = line_size();
    if (line == 0 || line > LARGEST_LINE || !candidate.claimed())
        return false;
    path copy = candidate;
    return survives(touch, &copy);
}

const path *choose(const char *wanted, const char **why) noexcept {
    const bool any = wanted == nullptr || *wanted == '\0';
    for (const path &candidate : paths()) {
        if (!any && std::strcmp(candidate.name, wanted) != 0)
            continue;
        if (works(candidate))
            return &candidate;
        if (!any)
            return refused(why,
                           "this CPU does not have the instructions that COHERDMA_CACHE names");
    }
    return refused(
        why, any ? "this CPU has no instructions by which a user program can maintain its cache"
                 : "COHERDMA_CACHE names no way of this kind of CPU");
}

} // namespace coherdma::cache
