// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Handles that are none, given to the provider's functions by its table, as dat_redirection.h and
// registries do that check nothing: a registry of ours would refuse many of them itself. All other
// arguments are 0, because the handle is looked at first.

#include "handle.hpp"
#include "lib/cases.hpp"

#include <cstdarg>

#include <dat2/udat_redirection.h>

namespace conform {

namespace {

struct provider_function {
    const char *name;
    DAT_RETURN (*call)(const DAT_PROVIDER &, DAT_HANDLE);
};

template <class... Rest>
DAT_RETURN call_with_zeros(DAT_RETURN (*function)(DAT_HANDLE, Rest...), DAT_HANDLE handle) {
    return function(handle, Rest()...);
}
template <auto member>
DAT_RETURN call_member(const DAT_PROVIDER &provider, DAT_HANDLE handle) {
    return call_with_zeros(provider.*member, handle);
}
#define FUNCTION(name)                                                                             \
    { #name, call_member < &DAT_PROVIDER::name##_func> }

constexpr provider_function ia_functions[] = {
    FUNCTION(ia_query),           FUNCTION(ia_close),
    FUNCTION(ia_ha_related),      FUNCTION(evd_create),
    FUNCTION(cno_create),         FUNCTION(cno_fd_create),
    FUNCTION(pz_create),          FUNCTION(lmr_create),
    FUNCTION(lmr_sync_rdma_read), FUNCTION(lmr_sync_rdma_write),
    FUNCTION(psp_create),         FUNCTION(psp_create_any),
    FUNCTION(rsp_create),         FUNCTION(csp_create),
    FUNCTION(ep_create),          FUNCTION(ep_create_with_srq),
    FUNCTION(srq_create),
};
constexpr provider_function evd_functions[] = {
    FUNCTION(evd_wait),           FUNCTION(evd_dequeue), FUNCTION(evd_post_se),
    FUNCTION(evd_modify_cno),     FUNCTION(evd_enable),  FUNCTION(evd_disable),
    FUNCTION(evd_set_unwaitable), FUNCTION(evd_resize),  FUNCTION(evd_clear_unwaitable),
    FUNCTION(evd_query),          FUNCTION(evd_free),
};
constexpr provider_function cno_functions[] = {
    FUNCTION(cno_wait),  FUNCTION(cno_trigger), FUNCTION(cno_modify_agent),
    FUNCTION(cno_query), FUNCTION(cno_free),
};
constexpr provider_function ep_functions[] = {
    FUNCTION(ep_connect),
    FUNCTION(ep_common_connect),
    FUNCTION(ep_dup_connect),
    FUNCTION(ep_disconnect),
    FUNCTION(ep_query),
    FUNCTION(ep_modify),
    FUNCTION(ep_get_status),
    FUNCTION(ep_recv_query),
    FUNCTION(ep_set_watermark),
    FUNCTION(ep_reset),
    FUNCTION(ep_free),
    FUNCTION(ep_post_send),
    FUNCTION(ep_post_recv),
    FUNCTION(ep_post_send_with_invalidate),
    FUNCTION(ep_post_rdma_read),
    FUNCTION(ep_post_rdma_read_to_rmr),
    FUNCTION(ep_post_rdma_write),
};
constexpr provider_function cr_functions[] = {
    FUNCTION(cr_query),
    FUNCTION(cr_accept),
    FUNCTION(cr_reject),
    FUNCTION(cr_handoff),
};
constexpr provider_function pz_functions[] = {
    FUNCTION(pz_query),
    FUNCTION(pz_free),
    FUNCTION(rmr_create),
    FUNCTION(rmr_create_for_ep),
};
constexpr provider_function lmr_functions[] = {FUNCTION(lmr_query), FUNCTION(lmr_free)};
constexpr provider_function rmr_functions[] = {FUNCTION(rmr_bind), FUNCTION(rmr_query),
                                               FUNCTION(rmr_free)};
constexpr provider_function psp_functions[] = {FUNCTION(psp_query), FUNCTION(psp_free)};
constexpr provider_function rsp_functions[] = {FUNCTION(rsp_query), FUNCTION(rsp_free)};
constexpr provider_function csp_functions[] = {FUNCTION(csp_query), FUNCTION(csp_free)};
constexpr provider_function srq_functions[] = {
    FUNCTION(srq_post_recv), FUNCTION(srq_query), FUNCTION(srq_resize),
    FUNCTION(srq_set_lw),    FUNCTION(srq_free),
};
constexpr provider_function any_functions[] = {
    FUNCTION(get_handle_type),
    FUNCTION(set_consumer_context),
    FUNCTION(get_consumer_context),
};

struct function_group {
    const char *object;
    std::size_t type;
    DAT_RETURN_SUBTYPE subtype;
    std::span<const provider_function> functions;
};
constexpr function_group groups[] = {
    {"ia", DAT_HANDLE_TYPE_IA, DAT_INVALID_HANDLE_IA, ia_functions},
    {"evd", DAT_HANDLE_TYPE_EVD, DAT_INVALID_HANDLE_EVD_REQUEST, evd_functions},
    {"cno", DAT_HANDLE_TYPE_CNO, DAT_INVALID_HANDLE_CNO, cno_functions},
    {"ep", DAT_HANDLE_TYPE_EP, DAT_INVALID_HANDLE_EP, ep_functions},
    {"cr", DAT_HANDLE_TYPE_CR, DAT_INVALID_HANDLE_CR, cr_functions},
    {"pz", DAT_HANDLE_TYPE_PZ, DAT_INVALID_HANDLE_PZ, pz_functions},
    {"lmr", DAT_HANDLE_TYPE_LMR, DAT_INVALID_HANDLE_LMR, lmr_functions},
    {"rmr", DAT_HANDLE_TYPE_RMR, DAT_INVALID_HANDLE_RMR, rmr_functions},
    {"psp", DAT_HANDLE_TYPE_PSP, DAT_INVALID_HANDLE_PSP, psp_functions},
    {"rsp", DAT_HANDLE_TYPE_RSP, DAT_INVALID_HANDLE_RSP, rsp_functions},
    {"csp", DAT_HANDLE_TYPE_CSP, DAT_INVALID_HANDLE_CSP, csp_functions},
    {"srq", DAT_HANDLE_TYPE_SRQ, DAT_INVALID_HANDLE_SRQ, srq_functions},
    {"any", all_objects::num_types, DAT_INVALID_HANDLE1, any_functions},
};

/// An object begins with its provider's table.
const DAT_PROVIDER *get_provider(const all_objects &objects) {
    return *static_cast<const DAT_PROVIDER *const *>(objects.live_handle(DAT_HANDLE_TYPE_EP));
}

/// Each function of the group, called by the provider's table and not by the registry, refuses each
/// bogus handle.
void expect_all_refused(const function_group &group) {
    const all_objects objects;
    const DAT_PROVIDER &provider = *get_provider(objects);
    const std::vector<bogus_handle> bogus_list = readable_bogus_handles(objects, group.type);
    for (const provider_function &function : group.functions)
        for (const bogus_handle &bogus : bogus_list) {
            const scoped_trace trace(concat(function.name, " of ", bogus.description));
            expect_return(function.call(provider, bogus.handle), invalid_handle(group.subtype));
        }
}

DAT_RETURN extension_op(const DAT_PROVIDER *provider, DAT_HANDLE handle, DAT_EXTENDED_OP operation,
                        ...) {
    va_list args;
    va_start(args, operation);
    const DAT_RETURN ret = provider->handle_extendedop_func(handle, operation, args);
    va_end(args);
    return ret;
}

/// dat_extension_op of the provider refuses bogus EPs and IAs, and an operation that does not
/// exist.
void expect_operations_refused() {
    const all_objects objects;
    const DAT_PROVIDER *const provider = get_provider(objects);
    for (const bogus_handle &bogus : bogus_handles(objects, DAT_HANDLE_TYPE_EP))
        for (const DAT_EXTENDED_OP operation : ib_operations_of_ep) {
            const scoped_trace trace(concat("operation ", operation, " of ", bogus.description));
            expect_return(extension_op(provider, bogus.handle, operation),
                          invalid_handle(DAT_INVALID_HANDLE_EP));
        }
    for (const bogus_handle &bogus : readable_bogus_handles(objects, DAT_HANDLE_TYPE_IA)) {
        const scoped_trace trace(concat("DAT_IB_CLOSE_QUERY_OP of ", bogus.description));
        expect_return(extension_op(provider, bogus.handle, DAT_IB_CLOSE_QUERY_OP),
                      invalid_handle(DAT_INVALID_HANDLE_IA));
    }
    expect_return(extension_op(provider, objects.idle_ep, /*operation=*/0x7777),
                  dat_error(DAT_NOT_IMPLEMENTED));
}

} // namespace

void add_handle_provider(case_list &cases) {
    for (const function_group &group : groups)
        add_case(cases, concat("handle.provider.", group.object),
                 [&group] { expect_all_refused(group); });
    add_case(cases, "handle.provider.extensions", expect_operations_refused);
}

} // namespace conform
