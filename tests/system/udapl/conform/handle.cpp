// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Handles that are none: every function refuses them, with the subtype of what it wants.

#include "handle.hpp"

#include "cases.hpp"
#include "optional.hpp"

namespace conform {

namespace {

using handle = DAT_HANDLE;
constexpr DAT_HANDLE_TYPE ia = DAT_HANDLE_TYPE_IA, evd_type = DAT_HANDLE_TYPE_EVD,
                          ep_type = DAT_HANDLE_TYPE_EP;

void refuses_invalid(const handle_call &one, every_kind &has) {
    for (const bogus_handle &each : bogus_handles(has, one.wants)) {
        const scoped_trace which(each.description);
        expect_return(one.with(each.handle, has), invalid_handle(one.subtype));
    }
}

void add(case_list &cases, std::span<const handle_call> all) {
    for (const handle_call &one : all) {
        add_case(cases, concat("handle.null.", one.name), [one] {
            place has;
            expect_return(one.with(nullptr, has), invalid_handle(one.subtype));
        });
        add_case(cases, concat("handle.wrong.", one.name), [one] {
            every_kind has;
            refuses_invalid(one, has);
        });
    }
}

constexpr handle_call of_ia[] = {
    {"dat_ia_query", ia, DAT_INVALID_HANDLE_IA,
     CALL(dat_ia_query(h, nullptr, 0, nullptr, 0, nullptr))},
    {"dat_ia_close", ia, DAT_INVALID_HANDLE_IA, CALL(dat_ia_close(h, DAT_CLOSE_GRACEFUL_FLAG))},
    {"dat_pz_create", ia, DAT_INVALID_HANDLE_IA, CALL(dat_pz_create(h, out<handle>()))},
    {"dat_lmr_create", ia, DAT_INVALID_HANDLE_IA, CALL(create_lmr(h, has.pair.zone, has))},
    {"dat_lmr_sync_rdma_read", ia, DAT_INVALID_HANDLE_IA,
     [](handle h, place &has) {
         const DAT_LMR_TRIPLET piece = has.pair.memory.piece(0, 8);
         return dat_lmr_sync_rdma_read(h, &piece, 1);
     }},
    {"dat_lmr_sync_rdma_write", ia, DAT_INVALID_HANDLE_IA,
     [](handle h, place &has) {
         const DAT_LMR_TRIPLET piece = has.pair.memory.piece(0, 8);
         return dat_lmr_sync_rdma_write(h, &piece, 1);
     }},
    {"dat_evd_create", ia, DAT_INVALID_HANDLE_IA,
     CALL(dat_evd_create(h, 8, nullptr, DAT_EVD_SOFTWARE_FLAG, out<handle>()))},
    {"dat_cno_create", ia, DAT_INVALID_HANDLE_IA,
     CALL(dat_cno_create(h, {nullptr, nullptr}, out<handle>()))},
    {"dat_ep_create", ia, DAT_INVALID_HANDLE_IA,
     [](handle h, place &has) {
         const endpoint &like = has.pair.active;
         return dat_ep_create(h, has.pair.zone, like.received, like.requested, like.connection,
                              nullptr, out<handle>());
     }},
    {"dat_ep_create_with_srq", ia, DAT_INVALID_HANDLE_IA,
     [](handle h, place &has) {
         const endpoint &like = has.pair.active;
         return dat_ep_create_with_srq(h, has.pair.zone, like.received, like.requested,
                                       like.connection, has.queue, nullptr, out<handle>());
     }},
    {"dat_psp_create", ia, DAT_INVALID_HANDLE_IA,
     CALL(
         dat_psp_create(h, fresh_port(), has.pair.arrivals, DAT_PSP_CONSUMER_FLAG, out<handle>()))},
    {"dat_psp_create_any", ia, DAT_INVALID_HANDLE_IA,
     CALL(dat_psp_create_any(h, out<DAT_CONN_QUAL>(), has.pair.arrivals, DAT_PSP_CONSUMER_FLAG,
                             out<handle>()))},
    {"dat_rsp_create", ia, DAT_INVALID_HANDLE_IA,
     CALL(dat_rsp_create(h, fresh_port(), has.pair.active, has.pair.arrivals, out<handle>()))},
    {"dat_srq_create", ia, DAT_INVALID_HANDLE_IA,
     [](handle h, place &has) {
         DAT_SRQ_ATTR size{4, 1, DAT_SRQ_LW_DEFAULT};
         return dat_srq_create(h, has.pair.zone, &size, out<handle>());
     }},
    {"dat_cno_fd_create", ia, DAT_INVALID_HANDLE_IA,
     CALL(EXPORTED(dat_cno_fd_create)(h, out<DAT_FD>(), out<handle>()))},
    {"dat_csp_create", ia, DAT_INVALID_HANDLE_IA, CALL(create_csp(h, has.pair.arrivals, has))},
    {"dat_ib_close_query", ia, DAT_INVALID_HANDLE_IA, CALL(dat_ib_close_query(h))},
};

constexpr handle_call of_events[] = {
    {"dat_evd_query", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     CALL(dat_evd_query(h, DAT_EVD_FIELD_ALL, out<DAT_EVD_PARAM>()))},
    {"dat_evd_modify_cno", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     CALL(dat_evd_modify_cno(h, has.pair.notifier))},
    {"dat_evd_enable", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST, CALL(dat_evd_enable(h))},
    {"dat_evd_disable", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST, CALL(dat_evd_disable(h))},
    {"dat_evd_wait", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     CALL(dat_evd_wait(h, 0, 1, out<DAT_EVENT>(), out<DAT_COUNT>()))},
    {"dat_evd_resize", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST, CALL(dat_evd_resize(h, 32))},
    {"dat_evd_post_se", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     [](handle h, place &) {
         const DAT_EVENT event = software_event(1);
         return dat_evd_post_se(h, &event);
     }},
    {"dat_evd_dequeue", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     CALL(dat_evd_dequeue(h, out<DAT_EVENT>()))},
    {"dat_evd_set_unwaitable", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     CALL(dat_evd_set_unwaitable(h))},
    {"dat_evd_clear_unwaitable", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     CALL(dat_evd_clear_unwaitable(h))},
    {"dat_evd_free", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST, CALL(dat_evd_free(h))},
    {"dat_cno_modify_agent", DAT_HANDLE_TYPE_CNO, DAT_INVALID_HANDLE_CNO,
     CALL(dat_cno_modify_agent(h, {nullptr, nullptr}))},
    {"dat_cno_query", DAT_HANDLE_TYPE_CNO, DAT_INVALID_HANDLE_CNO,
     CALL(dat_cno_query(h, DAT_CNO_FIELD_ALL, out<DAT_CNO_PARAM>()))},
    {"dat_cno_wait", DAT_HANDLE_TYPE_CNO, DAT_INVALID_HANDLE_CNO,
     CALL(dat_cno_wait(h, 0, out<handle>()))},
    {"dat_cno_trigger", DAT_HANDLE_TYPE_CNO, DAT_INVALID_HANDLE_CNO,
     CALL(EXPORTED(dat_cno_trigger)(h, out<handle>()))},
    {"dat_cno_free", DAT_HANDLE_TYPE_CNO, DAT_INVALID_HANDLE_CNO, CALL(dat_cno_free(h))},
};

constexpr handle_call of_ep[] = {
    {"dat_ep_query", ep_type, DAT_INVALID_HANDLE_EP,
     CALL(dat_ep_query(h, DAT_EP_FIELD_ALL, out<DAT_EP_PARAM>()))},
    {"dat_ep_modify", ep_type, DAT_INVALID_HANDLE_EP,
     [](handle h, place &has) {
         DAT_EP_PARAM wish{};
         wish.pz_handle = has.pair.zone;
         return dat_ep_modify(h, DAT_EP_FIELD_PZ_HANDLE, &wish);
     }},
    {"dat_ep_get_status", ep_type, DAT_INVALID_HANDLE_EP,
     CALL(dat_ep_get_status(h, out<DAT_EP_STATE>(), out<DAT_BOOLEAN>(), out<DAT_BOOLEAN>()))},
    {"dat_ep_connect", ep_type, DAT_INVALID_HANDLE_EP,
     CALL(connect(h, destination(has.pair.ia.address()), has.pair.port))},
    {"dat_ep_dup_connect", ep_type, DAT_INVALID_HANDLE_EP,
     CALL(dat_ep_dup_connect(h, has.pair.active, 1000000, 0, nullptr, DAT_QOS_BEST_EFFORT))},
    {"dat_ep_disconnect", ep_type, DAT_INVALID_HANDLE_EP,
     CALL(dat_ep_disconnect(h, DAT_CLOSE_ABRUPT_FLAG))},
    {"dat_ep_reset", ep_type, DAT_INVALID_HANDLE_EP, CALL(dat_ep_reset(h))},
    {"dat_ep_free", ep_type, DAT_INVALID_HANDLE_EP, CALL(dat_ep_free(h))},
    {"dat_ep_post_recv", ep_type, DAT_INVALID_HANDLE_EP,
     CALL(post_receive(h, has.pair.memory.piece(0, 8), 1))},
    {"dat_ep_post_send", ep_type, DAT_INVALID_HANDLE_EP,
     CALL(post_send(h, has.pair.memory.piece(0, 8), 1))},
    {"dat_ep_post_rdma_write", ep_type, DAT_INVALID_HANDLE_EP,
     CALL(post_write(h, has.pair.memory.piece(0, 8), has.pair.memory.target(page, 8), 1))},
    {"dat_ep_post_rdma_read", ep_type, DAT_INVALID_HANDLE_EP,
     CALL(post_read(h, has.pair.memory.piece(0, 8), has.pair.memory.target(page, 8), 1))},
    {"dat_ep_recv_query", ep_type, DAT_INVALID_HANDLE_EP,
     CALL(dat_ep_recv_query(h, out<DAT_COUNT>(), out<DAT_COUNT>()))},
    {"dat_ep_set_watermark", ep_type, DAT_INVALID_HANDLE_EP, CALL(dat_ep_set_watermark(h, 2, 4))},
    {"dat_ep_common_connect", ep_type, DAT_INVALID_HANDLE_EP,
     CALL(EXPORTED(dat_ep_common_connect)(h, destination(has.pair.ia.address()).get(), 1000000, 0,
                                          nullptr))},
    {"dat_ep_post_send_with_invalidate", ep_type, DAT_INVALID_HANDLE_EP,
     [](handle h, place &has) {
         DAT_LMR_TRIPLET piece = has.pair.memory.piece(0, 8);
         return EXPORTED(dat_ep_post_send_with_invalidate)(
             h, 1, &piece, make_context(1), DAT_COMPLETION_DEFAULT_FLAG, DAT_TRUE, 1);
     }},
    {"dat_ep_post_rdma_read_to_rmr", ep_type, DAT_INVALID_HANDLE_EP,
     [](handle h, place &has) {
         const DAT_RMR_TRIPLET piece = has.pair.memory.target(0, 8);
         return EXPORTED(dat_ep_post_rdma_read_to_rmr)(h, &piece, make_context(1), &piece,
                                                       DAT_COMPLETION_DEFAULT_FLAG);
     }},
};

constexpr handle_call of_others[] = {
    {"dat_cr_query", DAT_HANDLE_TYPE_CR, DAT_INVALID_HANDLE_CR,
     CALL(dat_cr_query(h, DAT_CR_FIELD_ALL, out<DAT_CR_PARAM>()))},
    {"dat_cr_accept", DAT_HANDLE_TYPE_CR, DAT_INVALID_HANDLE_CR,
     CALL(dat_cr_accept(h, has.pair.active, 0, nullptr))},
    {"dat_cr_reject", DAT_HANDLE_TYPE_CR, DAT_INVALID_HANDLE_CR,
     CALL(dat_cr_reject(h, 0, nullptr))},
    {"dat_cr_handoff", DAT_HANDLE_TYPE_CR, DAT_INVALID_HANDLE_CR,
     CALL(dat_cr_handoff(h, has.pair.port))},
    {"dat_lmr_query", DAT_HANDLE_TYPE_LMR, DAT_INVALID_HANDLE_LMR,
     CALL(dat_lmr_query(h, DAT_LMR_FIELD_ALL, out<DAT_LMR_PARAM>()))},
    {"dat_lmr_free", DAT_HANDLE_TYPE_LMR, DAT_INVALID_HANDLE_LMR, CALL(dat_lmr_free(h))},
    {"dat_rmr_create", DAT_HANDLE_TYPE_PZ, DAT_INVALID_HANDLE_PZ,
     CALL(dat_rmr_create(h, out<handle>()))},
    {"dat_rmr_create_for_ep", DAT_HANDLE_TYPE_PZ, DAT_INVALID_HANDLE_PZ,
     CALL(EXPORTED(dat_rmr_create_for_ep)(h, out<handle>()))},
    {"dat_csp_query", DAT_HANDLE_TYPE_CSP, DAT_INVALID_HANDLE_CSP,
     CALL(EXPORTED(dat_csp_query)(h, DAT_CSP_FIELD_ALL, out<DAT_CSP_PARAM>()))},
    {"dat_csp_free", DAT_HANDLE_TYPE_CSP, DAT_INVALID_HANDLE_CSP, CALL(EXPORTED(dat_csp_free)(h))},
    {"dat_rmr_query", DAT_HANDLE_TYPE_RMR, DAT_INVALID_HANDLE_RMR,
     CALL(dat_rmr_query(h, DAT_RMR_FIELD_ALL, out<DAT_RMR_PARAM>()))},
    {"dat_rmr_bind", DAT_HANDLE_TYPE_RMR, DAT_INVALID_HANDLE_RMR,
     [](handle h, place &has) {
         const DAT_LMR_TRIPLET piece = has.pair.memory.piece(0, 64);
         return dat_rmr_bind(h, has.pair.memory, &piece, DAT_MEM_PRIV_REMOTE_READ_FLAG,
                             DAT_VA_TYPE_VA, has.pair.active, make_context(1),
                             DAT_COMPLETION_DEFAULT_FLAG, out<DAT_RMR_CONTEXT>());
     }},
    {"dat_rmr_free", DAT_HANDLE_TYPE_RMR, DAT_INVALID_HANDLE_RMR, CALL(dat_rmr_free(h))},
    {"dat_psp_query", DAT_HANDLE_TYPE_PSP, DAT_INVALID_HANDLE_PSP,
     CALL(dat_psp_query(h, DAT_PSP_FIELD_ALL, out<DAT_PSP_PARAM>()))},
    {"dat_psp_free", DAT_HANDLE_TYPE_PSP, DAT_INVALID_HANDLE_PSP, CALL(dat_psp_free(h))},
    {"dat_rsp_query", DAT_HANDLE_TYPE_RSP, DAT_INVALID_HANDLE_RSP,
     CALL(dat_rsp_query(h, DAT_RSP_FIELD_ALL, out<DAT_RSP_PARAM>()))},
    {"dat_rsp_free", DAT_HANDLE_TYPE_RSP, DAT_INVALID_HANDLE_RSP, CALL(dat_rsp_free(h))},
    {"dat_pz_query", DAT_HANDLE_TYPE_PZ, DAT_INVALID_HANDLE_PZ,
     CALL(dat_pz_query(h, DAT_PZ_FIELD_ALL, out<DAT_PZ_PARAM>()))},
    {"dat_pz_free", DAT_HANDLE_TYPE_PZ, DAT_INVALID_HANDLE_PZ, CALL(dat_pz_free(h))},
    {"dat_srq_query", DAT_HANDLE_TYPE_SRQ, DAT_INVALID_HANDLE_SRQ,
     CALL(dat_srq_query(h, DAT_SRQ_FIELD_ALL, out<DAT_SRQ_PARAM>()))},
    {"dat_srq_post_recv", DAT_HANDLE_TYPE_SRQ, DAT_INVALID_HANDLE_SRQ,
     [](handle h, place &has) {
         DAT_LMR_TRIPLET piece = has.pair.memory.piece(0, 8);
         return dat_srq_post_recv(h, 1, &piece, make_context(1));
     }},
    {"dat_srq_resize", DAT_HANDLE_TYPE_SRQ, DAT_INVALID_HANDLE_SRQ, CALL(dat_srq_resize(h, 8))},
    {"dat_srq_set_lw", DAT_HANDLE_TYPE_SRQ, DAT_INVALID_HANDLE_SRQ, CALL(dat_srq_set_lw(h, 1))},
    {"dat_srq_free", DAT_HANDLE_TYPE_SRQ, DAT_INVALID_HANDLE_SRQ, CALL(dat_srq_free(h))},
};

/// The handle is looked at before the arguments, of which there are none.
void extensions() {
    const every_kind all;
    if (all.pair.ia.attributes().extension_supported == DAT_EXTENSION_NONE)
        throw case_skipped{"the IA has no extensions"};
    std::vector<bogus_handle> list = bogus_handles(all, DAT_HANDLE_TYPE_EP);
    list.push_back({"NULL", nullptr});
    for (const DAT_EXTENDED_OP operation : ib_operations_of_ep)
        for (const bogus_handle &each : list) {
            const scoped_trace which(concat("operation ", operation, " of ", each.description));
            expect_return(
                dat_extension_op(each.handle, operation),
                {invalid_handle(DAT_INVALID_HANDLE_EP), invalid_handle(DAT_INVALID_HANDLE1)});
        }
}

/// Functions that take a handle of any kind.
void of_any_kind(case_list &cases) {
    static constexpr auto try_all = [](auto with) {
        const every_kind all;
        for (const bogus_handle &each : bogus_handles(all, every_kind::kinds)) {
            const scoped_trace which(each.description);
            expect_return(with(each.handle), invalid_handle(DAT_INVALID_HANDLE1));
        }
    };
    static constexpr auto set = [](handle h) {
        return dat_set_consumer_context(h, make_context(1));
    };
    static constexpr auto get = [](handle h) {
        return dat_get_consumer_context(h, out<DAT_CONTEXT>());
    };
    static constexpr auto type = [](handle h) {
        return dat_get_handle_type(h, out<DAT_HANDLE_TYPE>());
    };
    add_case(cases, "handle.null.of_any_kind", [] {
        constexpr DAT_RETURN want = invalid_handle(DAT_INVALID_HANDLE1);
        expect_return(set(nullptr), want);
        expect_return(get(nullptr), want);
        expect_return(type(nullptr), want);
    });
    add_case(cases, "handle.wrong.dat_set_consumer_context", [] { try_all(set); });
    add_case(cases, "handle.wrong.dat_get_consumer_context", [] { try_all(get); });
    add_case(cases, "handle.wrong.dat_get_handle_type", [] { try_all(type); });
}

} // namespace

void add_handle(case_list &cases) {
    for (const std::span<const handle_call> all :
         {std::span<const handle_call>(of_ia), std::span<const handle_call>(of_events),
          std::span<const handle_call>(of_ep), std::span<const handle_call>(of_others)})
        add(cases, all);
    of_any_kind(cases);
    add_case(cases, "handle.wrong.dat_extension_op", extensions);
}

} // namespace conform
