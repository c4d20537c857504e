// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What takes the place of functions in the public tables of contexts, CQs and QPs.
#pragma once

#include "objects.hpp"

#include <array>
#include <type_traits>

namespace coherdma::interposer {

/// Asks the observers whether they want the events of an open context; if any does, replaces its
/// functions. Returns 0, or an errno if one refuses the context. Throws std::bad_alloc.
int observe_context(ibv_context &);

/// Finds librdmacm's functions before they are redirected; nullptr: it is not loaded.
const void *find_librdmacm() noexcept;
/// Finds the drivers' functions of direct_verbs.cpp before they are redirected; nullptr as above.
std::array<const void *, 4> find_direct_functions() noexcept;

/// Replace functions of an open context.
void hook_memory_functions(ibv_context &, extended_functions &driver);
void hook_queue_functions(ibv_context &, extended_functions &driver);
void hook_post_functions(ibv_context &) noexcept;
void hook_poll_functions(ibv_context &) noexcept;
void hook_event_functions(ibv_context &) noexcept;
void hook_query_functions(ibv_context &, extended_functions &driver) noexcept;

/// The functions of an extended CQ that find completions.
void hook_extended_poll(cq_record &, ibv_cq_ex &) noexcept;
/// The ibv_wr_* functions of a QP, which was created with these flags. Those that are replaced
/// already stay so: a driver may set some again when it modifies the QP.
void hook_wr_functions(qp_record &, ibv_qp_ex &, std::uint64_t send_ops_flags) noexcept;

/// Replaces a member of verbs_context and returns what it was; nothing, if the library's is shorter
/// or has no such function.
template <class function>
function *replace_extended(ibv_context &context, function *verbs_context::*member,
                           std::type_identity_t<function> *replacement) noexcept {
    verbs_context *const extended = verbs_get_ctx(&context);
    if (extended == nullptr)
        return nullptr;
    // The struct grows at its beginning: sz says how much of it there is, up to its end.
    const auto offset =
        static_cast<std::size_t>(reinterpret_cast<const unsigned char *>(&(extended->*member)) -
                                 reinterpret_cast<const unsigned char *>(extended));
    if (extended->sz < sizeof *extended - offset || extended->*member == nullptr)
        return nullptr;
    return std::exchange(extended->*member, replacement);
}

/// The record of an open context. There is none if no observer is loaded.
inline context_record &context_of(const ibv_context *context) noexcept {
    return tables().contexts.get(context);
}

/// The request of a WR, before the observers see it.
request make_send(const qp_record &, const ibv_send_wr &) noexcept;

} // namespace coherdma::interposer
