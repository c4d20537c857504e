// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Handles that are none: every function refuses them, with the subtype of what it wants.

#include "handle.hpp"

#include "lib/cases.hpp"
#include "lib/optional.hpp"

namespace conform {

namespace {

constexpr DAT_HANDLE_TYPE ia = DAT_HANDLE_TYPE_IA, evd_type = DAT_HANDLE_TYPE_EVD,
                          ep_type = DAT_HANDLE_TYPE_EP;

void expect_bogus_refused(const handle_call &row, all_objects &objects) {
    for (const bogus_handle &bogus : bogus_handles(objects, row.type)) {
        const scoped_trace trace(bogus.description);
        expect_return(row.call(bogus.handle, objects), invalid_handle(row.subtype));
    }
}

/// For each function: a case with NULL, and a case with handles that are not of its type.
void add_handle_cases(case_list &cases, std::span<const handle_call> rows) {
    for (const handle_call &row : rows) {
        add_case(cases, concat("handle.null.", row.name), [row] {
            live_objects objects;
            expect_return(row.call(nullptr, objects), invalid_handle(row.subtype));
        });
        add_case(cases, concat("handle.wrong.", row.name), [row] {
            all_objects objects;
            expect_bogus_refused(row, objects);
        });
    }
}

constexpr handle_call ia_calls[] = {
    {"dat_ia_query", ia, DAT_INVALID_HANDLE_IA,
     CALL(dat_ia_query(handle, nullptr, 0, nullptr, 0, nullptr))},
    {"dat_ia_close", ia, DAT_INVALID_HANDLE_IA,
     CALL(dat_ia_close(handle, DAT_CLOSE_GRACEFUL_FLAG))},
    {"dat_pz_create", ia, DAT_INVALID_HANDLE_IA,
     CALL(dat_pz_create(handle, ignored<DAT_HANDLE>()))},
    {"dat_lmr_create", ia, DAT_INVALID_HANDLE_IA,
     CALL(create_lmr(handle, objects.eps.pz, objects))},
    {"dat_lmr_sync_rdma_read", ia, DAT_INVALID_HANDLE_IA,
     [](DAT_HANDLE handle, live_objects &objects) {
         const DAT_LMR_TRIPLET local = objects.eps.lmr.make_lmr_triplet(0, 8);
         return dat_lmr_sync_rdma_read(handle, &local, 1);
     }},
    {"dat_lmr_sync_rdma_write", ia, DAT_INVALID_HANDLE_IA,
     [](DAT_HANDLE handle, live_objects &objects) {
         const DAT_LMR_TRIPLET local = objects.eps.lmr.make_lmr_triplet(0, 8);
         return dat_lmr_sync_rdma_write(handle, &local, 1);
     }},
    {"dat_evd_create", ia, DAT_INVALID_HANDLE_IA,
     CALL(dat_evd_create(handle, 8, nullptr, DAT_EVD_SOFTWARE_FLAG, ignored<DAT_HANDLE>()))},
    {"dat_cno_create", ia, DAT_INVALID_HANDLE_IA,
     CALL(dat_cno_create(handle, {nullptr, nullptr}, ignored<DAT_HANDLE>()))},
    {"dat_ep_create", ia, DAT_INVALID_HANDLE_IA,
     [](DAT_HANDLE handle, live_objects &objects) {
         const test_ep &ep = objects.eps.active;
         return dat_ep_create(handle, objects.eps.pz, ep.recv_evd, ep.request_evd, ep.connect_evd,
                              nullptr, ignored<DAT_HANDLE>());
     }},
    {"dat_ep_create_with_srq", ia, DAT_INVALID_HANDLE_IA,
     [](DAT_HANDLE handle, live_objects &objects) {
         const test_ep &ep = objects.eps.active;
         return dat_ep_create_with_srq(handle, objects.eps.pz, ep.recv_evd, ep.request_evd,
                                       ep.connect_evd, objects.srq, nullptr, ignored<DAT_HANDLE>());
     }},
    {"dat_psp_create", ia, DAT_INVALID_HANDLE_IA,
     CALL(dat_psp_create(handle, unused_port(), objects.eps.cr_evd, DAT_PSP_CONSUMER_FLAG,
                         ignored<DAT_HANDLE>()))},
    {"dat_psp_create_any", ia, DAT_INVALID_HANDLE_IA,
     CALL(dat_psp_create_any(handle, ignored<DAT_CONN_QUAL>(), objects.eps.cr_evd,
                             DAT_PSP_CONSUMER_FLAG, ignored<DAT_HANDLE>()))},
    {"dat_rsp_create", ia, DAT_INVALID_HANDLE_IA,
     CALL(dat_rsp_create(handle, unused_port(), objects.eps.active, objects.eps.cr_evd,
                         ignored<DAT_HANDLE>()))},
    {"dat_srq_create", ia, DAT_INVALID_HANDLE_IA,
     [](DAT_HANDLE handle, live_objects &objects) {
         DAT_SRQ_ATTR srq_attr{4, 1, DAT_SRQ_LW_DEFAULT};
         return dat_srq_create(handle, objects.eps.pz, &srq_attr, ignored<DAT_HANDLE>());
     }},
    {"dat_cno_fd_create", ia, DAT_INVALID_HANDLE_IA,
     CALL(EXPORTED(dat_cno_fd_create)(handle, ignored<DAT_FD>(), ignored<DAT_HANDLE>()))},
    {"dat_csp_create", ia, DAT_INVALID_HANDLE_IA,
     CALL(create_csp(handle, objects.eps.cr_evd, objects))},
    {"dat_ib_close_query", ia, DAT_INVALID_HANDLE_IA, CALL(dat_ib_close_query(handle))},
};

constexpr handle_call event_calls[] = {
    {"dat_evd_query", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     CALL(dat_evd_query(handle, DAT_EVD_FIELD_ALL, ignored<DAT_EVD_PARAM>()))},
    {"dat_evd_modify_cno", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     CALL(dat_evd_modify_cno(handle, objects.eps.cno))},
    {"dat_evd_enable", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST, CALL(dat_evd_enable(handle))},
    {"dat_evd_disable", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST, CALL(dat_evd_disable(handle))},
    {"dat_evd_wait", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     CALL(dat_evd_wait(handle, 0, 1, ignored<DAT_EVENT>(), ignored<DAT_COUNT>()))},
    {"dat_evd_resize", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST, CALL(dat_evd_resize(handle, 32))},
    {"dat_evd_post_se", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     [](DAT_HANDLE handle, live_objects &) {
         const DAT_EVENT event = make_software_event(1);
         return dat_evd_post_se(handle, &event);
     }},
    {"dat_evd_dequeue", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     CALL(dat_evd_dequeue(handle, ignored<DAT_EVENT>()))},
    {"dat_evd_set_unwaitable", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     CALL(dat_evd_set_unwaitable(handle))},
    {"dat_evd_clear_unwaitable", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     CALL(dat_evd_clear_unwaitable(handle))},
    {"dat_evd_free", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST, CALL(dat_evd_free(handle))},
    {"dat_cno_modify_agent", DAT_HANDLE_TYPE_CNO, DAT_INVALID_HANDLE_CNO,
     CALL(dat_cno_modify_agent(handle, {nullptr, nullptr}))},
    {"dat_cno_query", DAT_HANDLE_TYPE_CNO, DAT_INVALID_HANDLE_CNO,
     CALL(dat_cno_query(handle, DAT_CNO_FIELD_ALL, ignored<DAT_CNO_PARAM>()))},
    {"dat_cno_wait", DAT_HANDLE_TYPE_CNO, DAT_INVALID_HANDLE_CNO,
     CALL(dat_cno_wait(handle, 0, ignored<DAT_HANDLE>()))},
    {"dat_cno_trigger", DAT_HANDLE_TYPE_CNO, DAT_INVALID_HANDLE_CNO,
     CALL(EXPORTED(dat_cno_trigger)(handle, ignored<DAT_HANDLE>()))},
    {"dat_cno_free", DAT_HANDLE_TYPE_CNO, DAT_INVALID_HANDLE_CNO, CALL(dat_cno_free(handle))},
};

constexpr handle_call ep_calls[] = {
    {"dat_ep_query", ep_type, DAT_INVALID_HANDLE_EP,
     CALL(dat_ep_query(handle, DAT_EP_FIELD_ALL, ignored<DAT_EP_PARAM>()))},
    {"dat_ep_modify", ep_type, DAT_INVALID_HANDLE_EP,
     [](DAT_HANDLE handle, live_objects &objects) {
         DAT_EP_PARAM param{};
         param.pz_handle = objects.eps.pz;
         return dat_ep_modify(handle, DAT_EP_FIELD_PZ_HANDLE, &param);
     }},
    {"dat_ep_get_status", ep_type, DAT_INVALID_HANDLE_EP,
     CALL(dat_ep_get_status(handle, ignored<DAT_EP_STATE>(), ignored<DAT_BOOLEAN>(),
                            ignored<DAT_BOOLEAN>()))},
    {"dat_ep_connect", ep_type, DAT_INVALID_HANDLE_EP,
     CALL(connect_ep(handle, ia_address(objects.eps.ia.ipv4_address()), objects.eps.port))},
    {"dat_ep_dup_connect", ep_type, DAT_INVALID_HANDLE_EP,
     CALL(
         dat_ep_dup_connect(handle, objects.eps.active, 1000000, 0, nullptr, DAT_QOS_BEST_EFFORT))},
    {"dat_ep_disconnect", ep_type, DAT_INVALID_HANDLE_EP,
     CALL(dat_ep_disconnect(handle, DAT_CLOSE_ABRUPT_FLAG))},
    {"dat_ep_reset", ep_type, DAT_INVALID_HANDLE_EP, CALL(dat_ep_reset(handle))},
    {"dat_ep_free", ep_type, DAT_INVALID_HANDLE_EP, CALL(dat_ep_free(handle))},
    {"dat_ep_post_recv", ep_type, DAT_INVALID_HANDLE_EP,
     CALL(post_recv(handle, objects.eps.lmr.make_lmr_triplet(0, 8), 1))},
    {"dat_ep_post_send", ep_type, DAT_INVALID_HANDLE_EP,
     CALL(post_send(handle, objects.eps.lmr.make_lmr_triplet(0, 8), 1))},
    {"dat_ep_post_rdma_write", ep_type, DAT_INVALID_HANDLE_EP,
     CALL(post_rdma_write(handle, objects.eps.lmr.make_lmr_triplet(0, 8),
                          objects.eps.lmr.make_rmr_triplet(page_size, 8), 1))},
    {"dat_ep_post_rdma_read", ep_type, DAT_INVALID_HANDLE_EP,
     CALL(post_rdma_read(handle, objects.eps.lmr.make_lmr_triplet(0, 8),
                         objects.eps.lmr.make_rmr_triplet(page_size, 8), 1))},
    {"dat_ep_recv_query", ep_type, DAT_INVALID_HANDLE_EP,
     CALL(dat_ep_recv_query(handle, ignored<DAT_COUNT>(), ignored<DAT_COUNT>()))},
    {"dat_ep_set_watermark", ep_type, DAT_INVALID_HANDLE_EP,
     CALL(dat_ep_set_watermark(handle, 2, 4))},
    {"dat_ep_common_connect", ep_type, DAT_INVALID_HANDLE_EP,
     CALL(EXPORTED(dat_ep_common_connect)(handle, ia_address(objects.eps.ia.ipv4_address()).ptr(),
                                          1000000, 0, nullptr))},
    {"dat_ep_post_send_with_invalidate", ep_type, DAT_INVALID_HANDLE_EP,
     [](DAT_HANDLE handle, live_objects &objects) {
         DAT_LMR_TRIPLET local = objects.eps.lmr.make_lmr_triplet(0, 8);
         return EXPORTED(dat_ep_post_send_with_invalidate)(
             handle, 1, &local, make_context(1), DAT_COMPLETION_DEFAULT_FLAG, DAT_TRUE, 1);
     }},
    {"dat_ep_post_rdma_read_to_rmr", ep_type, DAT_INVALID_HANDLE_EP,
     [](DAT_HANDLE handle, live_objects &objects) {
         const DAT_RMR_TRIPLET rmr_triplet = objects.eps.lmr.make_rmr_triplet(0, 8);
         return EXPORTED(dat_ep_post_rdma_read_to_rmr)(handle, &rmr_triplet, make_context(1),
                                                       &rmr_triplet, DAT_COMPLETION_DEFAULT_FLAG);
     }},
};

constexpr handle_call other_calls[] = {
    {"dat_cr_query", DAT_HANDLE_TYPE_CR, DAT_INVALID_HANDLE_CR,
     CALL(dat_cr_query(handle, DAT_CR_FIELD_ALL, ignored<DAT_CR_PARAM>()))},
    {"dat_cr_accept", DAT_HANDLE_TYPE_CR, DAT_INVALID_HANDLE_CR,
     CALL(dat_cr_accept(handle, objects.eps.active, 0, nullptr))},
    {"dat_cr_reject", DAT_HANDLE_TYPE_CR, DAT_INVALID_HANDLE_CR,
     CALL(dat_cr_reject(handle, 0, nullptr))},
    {"dat_cr_handoff", DAT_HANDLE_TYPE_CR, DAT_INVALID_HANDLE_CR,
     CALL(dat_cr_handoff(handle, objects.eps.port))},
    {"dat_lmr_query", DAT_HANDLE_TYPE_LMR, DAT_INVALID_HANDLE_LMR,
     CALL(dat_lmr_query(handle, DAT_LMR_FIELD_ALL, ignored<DAT_LMR_PARAM>()))},
    {"dat_lmr_free", DAT_HANDLE_TYPE_LMR, DAT_INVALID_HANDLE_LMR, CALL(dat_lmr_free(handle))},
    {"dat_rmr_create", DAT_HANDLE_TYPE_PZ, DAT_INVALID_HANDLE_PZ,
     CALL(dat_rmr_create(handle, ignored<DAT_HANDLE>()))},
    {"dat_rmr_create_for_ep", DAT_HANDLE_TYPE_PZ, DAT_INVALID_HANDLE_PZ,
     CALL(EXPORTED(dat_rmr_create_for_ep)(handle, ignored<DAT_HANDLE>()))},
    {"dat_csp_query", DAT_HANDLE_TYPE_CSP, DAT_INVALID_HANDLE_CSP,
     CALL(EXPORTED(dat_csp_query)(handle, DAT_CSP_FIELD_ALL, ignored<DAT_CSP_PARAM>()))},
    {"dat_csp_free", DAT_HANDLE_TYPE_CSP, DAT_INVALID_HANDLE_CSP,
     CALL(EXPORTED(dat_csp_free)(handle))},
    {"dat_rmr_query", DAT_HANDLE_TYPE_RMR, DAT_INVALID_HANDLE_RMR,
     CALL(dat_rmr_query(handle, DAT_RMR_FIELD_ALL, ignored<DAT_RMR_PARAM>()))},
    {"dat_rmr_bind", DAT_HANDLE_TYPE_RMR, DAT_INVALID_HANDLE_RMR,
     [](DAT_HANDLE handle, live_objects &objects) {
         const DAT_LMR_TRIPLET local = objects.eps.lmr.make_lmr_triplet(0, 64);
         return dat_rmr_bind(handle, objects.eps.lmr, &local, DAT_MEM_PRIV_REMOTE_READ_FLAG,
                             DAT_VA_TYPE_VA, objects.eps.active, make_context(1),
                             DAT_COMPLETION_DEFAULT_FLAG, ignored<DAT_RMR_CONTEXT>());
     }},
    {"dat_rmr_free", DAT_HANDLE_TYPE_RMR, DAT_INVALID_HANDLE_RMR, CALL(dat_rmr_free(handle))},
    {"dat_psp_query", DAT_HANDLE_TYPE_PSP, DAT_INVALID_HANDLE_PSP,
     CALL(dat_psp_query(handle, DAT_PSP_FIELD_ALL, ignored<DAT_PSP_PARAM>()))},
    {"dat_psp_free", DAT_HANDLE_TYPE_PSP, DAT_INVALID_HANDLE_PSP, CALL(dat_psp_free(handle))},
    {"dat_rsp_query", DAT_HANDLE_TYPE_RSP, DAT_INVALID_HANDLE_RSP,
     CALL(dat_rsp_query(handle, DAT_RSP_FIELD_ALL, ignored<DAT_RSP_PARAM>()))},
    {"dat_rsp_free", DAT_HANDLE_TYPE_RSP, DAT_INVALID_HANDLE_RSP, CALL(dat_rsp_free(handle))},
    {"dat_pz_query", DAT_HANDLE_TYPE_PZ, DAT_INVALID_HANDLE_PZ,
     CALL(dat_pz_query(handle, DAT_PZ_FIELD_ALL, ignored<DAT_PZ_PARAM>()))},
    {"dat_pz_free", DAT_HANDLE_TYPE_PZ, DAT_INVALID_HANDLE_PZ, CALL(dat_pz_free(handle))},
    {"dat_srq_query", DAT_HANDLE_TYPE_SRQ, DAT_INVALID_HANDLE_SRQ,
     CALL(dat_srq_query(handle, DAT_SRQ_FIELD_ALL, ignored<DAT_SRQ_PARAM>()))},
    {"dat_srq_post_recv", DAT_HANDLE_TYPE_SRQ, DAT_INVALID_HANDLE_SRQ,
     [](DAT_HANDLE handle, live_objects &objects) {
         DAT_LMR_TRIPLET local = objects.eps.lmr.make_lmr_triplet(0, 8);
         return dat_srq_post_recv(handle, 1, &local, make_context(1));
     }},
    {"dat_srq_resize", DAT_HANDLE_TYPE_SRQ, DAT_INVALID_HANDLE_SRQ,
     CALL(dat_srq_resize(handle, 8))},
    {"dat_srq_set_lw", DAT_HANDLE_TYPE_SRQ, DAT_INVALID_HANDLE_SRQ,
     CALL(dat_srq_set_lw(handle, 1))},
    {"dat_srq_free", DAT_HANDLE_TYPE_SRQ, DAT_INVALID_HANDLE_SRQ, CALL(dat_srq_free(handle))},
};

/// dat_extension_op checks the handle before the operation's arguments: here there are none, and it
/// returns an invalid handle.
void test_extension_op() {
    const all_objects objects;
    if (objects.eps.ia.ia_attr().extension_supported == DAT_EXTENSION_NONE)
        throw case_skipped{"the IA has no extensions"};
    std::vector<bogus_handle> bogus_list = bogus_handles(objects, DAT_HANDLE_TYPE_EP);
    bogus_list.push_back({"NULL", nullptr});
    for (const DAT_EXTENDED_OP operation : ib_operations_of_ep)
        for (const bogus_handle &bogus : bogus_list) {
            const scoped_trace trace(concat("operation ", operation, " of ", bogus.description));
            expect_return(
                dat_extension_op(bogus.handle, operation),
                {invalid_handle(DAT_INVALID_HANDLE_EP), invalid_handle(DAT_INVALID_HANDLE1)});
        }
}

/// Functions that take a handle of any kind.
void add_any_type_cases(case_list &cases) {
    static constexpr auto expect_all_refused = [](auto fn) {
        const all_objects objects;
        for (const bogus_handle &bogus : bogus_handles(objects, all_objects::num_types)) {
            const scoped_trace trace(bogus.description);
            expect_return(fn(bogus.handle), invalid_handle(DAT_INVALID_HANDLE1));
        }
    };
    static constexpr auto set_context = [](DAT_HANDLE handle) {
        return dat_set_consumer_context(handle, make_context(1));
    };
    static constexpr auto get_context = [](DAT_HANDLE handle) {
        return dat_get_consumer_context(handle, ignored<DAT_CONTEXT>());
    };
    static constexpr auto get_type = [](DAT_HANDLE handle) {
        return dat_get_handle_type(handle, ignored<DAT_HANDLE_TYPE>());
    };
    add_case(cases, "handle.null.of_any_kind", [] {
        constexpr DAT_RETURN expected = invalid_handle(DAT_INVALID_HANDLE1);
        expect_return(set_context(nullptr), expected);
        expect_return(get_context(nullptr), expected);
        expect_return(get_type(nullptr), expected);
    });
    add_case(cases, "handle.wrong.dat_set_consumer_context",
             [] { expect_all_refused(set_context); });
    add_case(cases, "handle.wrong.dat_get_consumer_context",
             [] { expect_all_refused(get_context); });
    add_case(cases, "handle.wrong.dat_get_handle_type", [] { expect_all_refused(get_type); });
}

} // namespace

void add_handle(case_list &cases) {
    for (const std::span<const handle_call> rows :
         {std::span<const handle_call>(ia_calls), std::span<const handle_call>(event_calls),
          std::span<const handle_call>(ep_calls), std::span<const handle_call>(other_calls)})
        add_handle_cases(cases, rows);
    add_any_type_cases(cases);
    add_case(cases, "handle.wrong.dat_extension_op", test_extension_op);
}

} // namespace conform
