// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Handles that are none: every function refuses them, with the subtype of what it wants.

#include "cases.hpp"
#include "endpoint.hpp"

#include <cstdint>

namespace conform {

namespace {

/// Objects of every kind, and handles of such that were freed.
struct place {
    couple pair;
    evd software = pair.ia.events(DAT_EVD_SOFTWARE_FLAG);
    srq queue = make_srq();
    rsp point = make_rsp();

    srq make_srq() const {
        DAT_SRQ_ATTR size{4, 1, DAT_SRQ_LW_DEFAULT};
        DAT_SRQ_HANDLE made = nullptr;
        done(dat_srq_create(pair.ia, pair.zone, &size, &made));
        return srq(made);
    }
    rsp make_rsp() const {
        DAT_RSP_HANDLE made = nullptr;
        done(dat_rsp_create(pair.ia, fresh_port(), pair.passive, pair.arrivals, &made));
        return rsp(made);
    }
};

/// A function with everything right but the handle.
struct call {
    const char *name;
    DAT_HANDLE_TYPE wants;
    DAT_RETURN_SUBTYPE subtype;
    DAT_RETURN (*with)(DAT_HANDLE, place &);
};

DAT_HANDLE good(DAT_HANDLE_TYPE kind, const place &has) {
    switch (kind) {
    case DAT_HANDLE_TYPE_IA:
        return has.pair.ia;
    case DAT_HANDLE_TYPE_EP:
        return has.pair.active;
    case DAT_HANDLE_TYPE_EVD:
        return has.software;
    case DAT_HANDLE_TYPE_LMR:
        return has.pair.memory;
    case DAT_HANDLE_TYPE_PSP:
        return has.pair.listener;
    case DAT_HANDLE_TYPE_RSP:
        return has.point;
    case DAT_HANDLE_TYPE_PZ:
        return has.pair.zone;
    case DAT_HANDLE_TYPE_CNO:
        return has.pair.notifier;
    case DAT_HANDLE_TYPE_SRQ:
        return has.queue;
    default:
        return nullptr; // of requests and windows there is none here
    }
}

/// A handle of that kind whose object was freed.
DAT_HANDLE freed(DAT_HANDLE_TYPE kind, const place &has) {
    DAT_HANDLE was = nullptr;
    switch (kind) {
    case DAT_HANDLE_TYPE_IA: {
        DAT_EVD_HANDLE async = nullptr;
        done(dat_ia_open(const_cast<char *>(given().ia), 8, &async, &was));
        done(dat_ia_close(was, DAT_CLOSE_ABRUPT_FLAG));
        return was;
    }
    case DAT_HANDLE_TYPE_EP: {
        endpoint one(has.pair.ia, has.pair.zone);
        was = one.handle;
        done(one.handle.free());
        return was;
    }
    case DAT_HANDLE_TYPE_EVD: {
        evd one = has.pair.ia.events(DAT_EVD_SOFTWARE_FLAG);
        was = one;
        done(one.free());
        return was;
    }
    case DAT_HANDLE_TYPE_PZ: {
        pz one = has.pair.ia.zone();
        was = one;
        done(one.free());
        return was;
    }
    case DAT_HANDLE_TYPE_CNO: {
        cno one = has.pair.ia.notifier();
        was = one;
        done(one.free());
        return was;
    }
    case DAT_HANDLE_TYPE_LMR: {
        region one(has.pair.ia, has.pair.zone, page);
        was = one;
        done(one.free());
        return was;
    }
    case DAT_HANDLE_TYPE_SRQ: {
        srq one = has.make_srq();
        was = one;
        done(one.free());
        return was;
    }
    default:
        return nullptr;
    }
}

DAT_HANDLE number(std::uintptr_t value) {
    return reinterpret_cast<DAT_HANDLE>(value);
}

void wrong_kinds(const call &one, place &has) {
    const DAT_RETURN want = bad_handle(one.subtype);
    const auto try_with = [&](DAT_HANDLE handle, const std::string &what) {
        const saying which(what);
        is(one.with(handle, has), want);
    };
    for (const DAT_HANDLE_TYPE other :
         {DAT_HANDLE_TYPE_EP, DAT_HANDLE_TYPE_EVD, DAT_HANDLE_TYPE_LMR, DAT_HANDLE_TYPE_PSP,
          DAT_HANDLE_TYPE_RSP, DAT_HANDLE_TYPE_PZ, DAT_HANDLE_TYPE_CNO, DAT_HANDLE_TYPE_SRQ})
        if (other != one.wants)
            try_with(good(other, has), text("a handle of type ", static_cast<int>(other)));
    if (one.wants != DAT_HANDLE_TYPE_IA)
        try_with(has.pair.ia, "an IA's handle");
    if (const DAT_HANDLE gone = freed(one.wants, has))
        try_with(gone, "one that was freed");
    for (const std::uintptr_t value :
         {std::uintptr_t{77}, std::uintptr_t{4095}, ~std::uintptr_t{0}})
        try_with(number(value), text("the number ", value));
    try_with(stray(), "memory of ours");
    if (const DAT_HANDLE right = good(one.wants, has); right && one.wants != DAT_HANDLE_TYPE_IA)
        try_with(static_cast<char *>(right) + 8, "the middle of an object");
}

using handle = DAT_HANDLE;

void add(case_list &to, const char *group, std::span<const call> all, bool null_is_wrong = true) {
    for (const call &one : all) {
        if (null_is_wrong)
            to.push_back({text(group, ".null.", one.name), [one] {
                              place has;
                              is(one.with(nullptr, has), bad_handle(one.subtype));
                          }});
        to.push_back({text(group, ".wrong.", one.name), [one] {
                          place has;
                          wrong_kinds(one, has);
                      }});
    }
}

/// Where a function writes what is of no interest.
template <class T>
T *out() {
    static T value{};
    return &value;
}
DAT_REGION_DESCRIPTION where(const place &has) {
    DAT_REGION_DESCRIPTION is{};
    is.for_va = has.pair.memory.data();
    return is;
}
DAT_RETURN create_lmr(handle ia, handle zone, const place &has) {
    return dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, where(has), page, zone, DAT_MEM_PRIV_ALL_FLAG,
                          DAT_VA_TYPE_VA, out<handle>(), out<DAT_LMR_CONTEXT>(),
                          out<DAT_RMR_CONTEXT>(), out<DAT_VLEN>(), out<DAT_VADDR>());
}

constexpr DAT_HANDLE_TYPE ia = DAT_HANDLE_TYPE_IA, evd_type = DAT_HANDLE_TYPE_EVD,
                          ep_type = DAT_HANDLE_TYPE_EP;

constexpr call of_ia[] = {
    {"dat_ia_query", ia, DAT_INVALID_HANDLE_IA,
     [](handle h, place &) {
         return dat_ia_query(h, nullptr, 0, nullptr, 0, nullptr);
     }},
    {"dat_ia_close", ia, DAT_INVALID_HANDLE_IA,
     [](handle h, place &) {
         return dat_ia_close(h, DAT_CLOSE_GRACEFUL_FLAG);
     }},
    {"dat_pz_create", ia, DAT_INVALID_HANDLE_IA,
     [](handle h, place &) {
         return dat_pz_create(h, out<handle>());
     }},
    {"dat_lmr_create", ia, DAT_INVALID_HANDLE_IA,
     [](handle h, place &has) {
         return create_lmr(h, has.pair.zone, has);
     }},
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
     [](handle h, place &) {
         return dat_evd_create(h, 8, nullptr, DAT_EVD_SOFTWARE_FLAG, out<handle>());
     }},
    {"dat_cno_create", ia, DAT_INVALID_HANDLE_IA,
     [](handle h, place &) {
         return dat_cno_create(h, {nullptr, nullptr}, out<handle>());
     }},
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
     [](handle h, place &has) {
         return dat_psp_create(h, fresh_port(), has.pair.arrivals, DAT_PSP_CONSUMER_FLAG,
                               out<handle>());
     }},
    {"dat_psp_create_any", ia, DAT_INVALID_HANDLE_IA,
     [](handle h, place &has) {
         return dat_psp_create_any(h, out<DAT_CONN_QUAL>(), has.pair.arrivals,
                                   DAT_PSP_CONSUMER_FLAG, out<handle>());
     }},
    {"dat_rsp_create", ia, DAT_INVALID_HANDLE_IA,
     [](handle h, place &has) {
         return dat_rsp_create(h, fresh_port(), has.pair.active, has.pair.arrivals, out<handle>());
     }},
    {"dat_srq_create", ia, DAT_INVALID_HANDLE_IA,
     [](handle h, place &has) {
         DAT_SRQ_ATTR size{4, 1, DAT_SRQ_LW_DEFAULT};
         return dat_srq_create(h, has.pair.zone, &size, out<handle>());
     }},
};

constexpr call of_events[] = {
    {"dat_evd_query", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     [](handle h, place &) {
         return dat_evd_query(h, DAT_EVD_FIELD_ALL, out<DAT_EVD_PARAM>());
     }},
    {"dat_evd_modify_cno", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     [](handle h, place &has) {
         return dat_evd_modify_cno(h, has.pair.notifier);
     }},
    {"dat_evd_enable", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     [](handle h, place &) {
         return dat_evd_enable(h);
     }},
    {"dat_evd_disable", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     [](handle h, place &) {
         return dat_evd_disable(h);
     }},
    {"dat_evd_wait", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     [](handle h, place &) {
         return dat_evd_wait(h, 0, 1, out<DAT_EVENT>(), out<DAT_COUNT>());
     }},
    {"dat_evd_resize", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     [](handle h, place &) {
         return dat_evd_resize(h, 32);
     }},
    {"dat_evd_post_se", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     [](handle h, place &) {
         const DAT_EVENT event = software_event(1);
         return dat_evd_post_se(h, &event);
     }},
    {"dat_evd_dequeue", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     [](handle h, place &) {
         return dat_evd_dequeue(h, out<DAT_EVENT>());
     }},
    {"dat_evd_set_unwaitable", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     [](handle h, place &) {
         return dat_evd_set_unwaitable(h);
     }},
    {"dat_evd_clear_unwaitable", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     [](handle h, place &) {
         return dat_evd_clear_unwaitable(h);
     }},
    {"dat_evd_free", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     [](handle h, place &) {
         return dat_evd_free(h);
     }},
    {"dat_cno_modify_agent", DAT_HANDLE_TYPE_CNO, DAT_INVALID_HANDLE_CNO,
     [](handle h, place &) {
         return dat_cno_modify_agent(h, {nullptr, nullptr});
     }},
    {"dat_cno_query", DAT_HANDLE_TYPE_CNO, DAT_INVALID_HANDLE_CNO,
     [](handle h, place &) {
         return dat_cno_query(h, DAT_CNO_FIELD_ALL, out<DAT_CNO_PARAM>());
     }},
    {"dat_cno_wait", DAT_HANDLE_TYPE_CNO, DAT_INVALID_HANDLE_CNO,
     [](handle h, place &) {
         return dat_cno_wait(h, 0, out<handle>());
     }},
    {"dat_cno_free", DAT_HANDLE_TYPE_CNO, DAT_INVALID_HANDLE_CNO,
     [](handle h, place &) {
         return dat_cno_free(h);
     }},
};

constexpr call of_ep[] = {
    {"dat_ep_query", ep_type, DAT_INVALID_HANDLE_EP,
     [](handle h, place &) {
         return dat_ep_query(h, DAT_EP_FIELD_ALL, out<DAT_EP_PARAM>());
     }},
    {"dat_ep_modify", ep_type, DAT_INVALID_HANDLE_EP,
     [](handle h, place &has) {
         DAT_EP_PARAM wish{};
         wish.pz_handle = has.pair.zone;
         return dat_ep_modify(h, DAT_EP_FIELD_PZ_HANDLE, &wish);
     }},
    {"dat_ep_get_status", ep_type, DAT_INVALID_HANDLE_EP,
     [](handle h, place &) {
         return dat_ep_get_status(h, out<DAT_EP_STATE>(), out<DAT_BOOLEAN>(), out<DAT_BOOLEAN>());
     }},
    {"dat_ep_connect", ep_type, DAT_INVALID_HANDLE_EP,
     [](handle h, place &has) {
         return connect(h, destination(has.pair.ia.address()), has.pair.port);
     }},
    {"dat_ep_dup_connect", ep_type, DAT_INVALID_HANDLE_EP,
     [](handle h, place &has) {
         return dat_ep_dup_connect(h, has.pair.active, 1000000, 0, nullptr, DAT_QOS_BEST_EFFORT);
     }},
    {"dat_ep_disconnect", ep_type, DAT_INVALID_HANDLE_EP,
     [](handle h, place &) {
         return dat_ep_disconnect(h, DAT_CLOSE_ABRUPT_FLAG);
     }},
    {"dat_ep_reset", ep_type, DAT_INVALID_HANDLE_EP,
     [](handle h, place &) {
         return dat_ep_reset(h);
     }},
    {"dat_ep_free", ep_type, DAT_INVALID_HANDLE_EP,
     [](handle h, place &) {
         return dat_ep_free(h);
     }},
    {"dat_ep_post_recv", ep_type, DAT_INVALID_HANDLE_EP,
     [](handle h, place &has) {
         return post_receive(h, has.pair.memory.piece(0, 8), 1);
     }},
    {"dat_ep_post_send", ep_type, DAT_INVALID_HANDLE_EP,
     [](handle h, place &has) {
         return post_send(h, has.pair.memory.piece(0, 8), 1);
     }},
    {"dat_ep_post_rdma_write", ep_type, DAT_INVALID_HANDLE_EP,
     [](handle h, place &has) {
         return post_write(h, has.pair.memory.piece(0, 8), has.pair.memory.target(page, 8), 1);
     }},
    {"dat_ep_post_rdma_read", ep_type, DAT_INVALID_HANDLE_EP,
     [](handle h, place &has) {
         return post_read(h, has.pair.memory.piece(0, 8), has.pair.memory.target(page, 8), 1);
     }},
    {"dat_ep_recv_query", ep_type, DAT_INVALID_HANDLE_EP,
     [](handle h, place &) {
         return dat_ep_recv_query(h, out<DAT_COUNT>(), out<DAT_COUNT>());
     }},
    {"dat_ep_set_watermark", ep_type, DAT_INVALID_HANDLE_EP,
     [](handle h, place &) {
         return dat_ep_set_watermark(h, 2, 4);
     }},
};

constexpr call of_others[] = {
    {"dat_cr_query", DAT_HANDLE_TYPE_CR, DAT_INVALID_HANDLE_CR,
     [](handle h, place &) {
         return dat_cr_query(h, DAT_CR_FIELD_ALL, out<DAT_CR_PARAM>());
     }},
    {"dat_cr_accept", DAT_HANDLE_TYPE_CR, DAT_INVALID_HANDLE_CR,
     [](handle h, place &has) {
         return dat_cr_accept(h, has.pair.active, 0, nullptr);
     }},
    {"dat_cr_reject", DAT_HANDLE_TYPE_CR, DAT_INVALID_HANDLE_CR,
     [](handle h, place &) {
         return dat_cr_reject(h, 0, nullptr);
     }},
    {"dat_cr_handoff", DAT_HANDLE_TYPE_CR, DAT_INVALID_HANDLE_CR,
     [](handle h, place &has) {
         return dat_cr_handoff(h, has.pair.port);
     }},
    {"dat_lmr_query", DAT_HANDLE_TYPE_LMR, DAT_INVALID_HANDLE_LMR,
     [](handle h, place &) {
         return dat_lmr_query(h, DAT_LMR_FIELD_ALL, out<DAT_LMR_PARAM>());
     }},
    {"dat_lmr_free", DAT_HANDLE_TYPE_LMR, DAT_INVALID_HANDLE_LMR,
     [](handle h, place &) {
         return dat_lmr_free(h);
     }},
    {"dat_rmr_create", DAT_HANDLE_TYPE_PZ, DAT_INVALID_HANDLE_PZ,
     [](handle h, place &) {
         return dat_rmr_create(h, out<handle>());
     }},
    {"dat_rmr_query", DAT_HANDLE_TYPE_RMR, DAT_INVALID_HANDLE_RMR,
     [](handle h, place &) {
         return dat_rmr_query(h, DAT_RMR_FIELD_ALL, out<DAT_RMR_PARAM>());
     }},
    {"dat_rmr_bind", DAT_HANDLE_TYPE_RMR, DAT_INVALID_HANDLE_RMR,
     [](handle h, place &has) {
         const DAT_LMR_TRIPLET piece = has.pair.memory.piece(0, 64);
         return dat_rmr_bind(h, has.pair.memory, &piece, DAT_MEM_PRIV_REMOTE_READ_FLAG,
                             DAT_VA_TYPE_VA, has.pair.active, context(1),
                             DAT_COMPLETION_DEFAULT_FLAG, out<DAT_RMR_CONTEXT>());
     }},
    {"dat_rmr_free", DAT_HANDLE_TYPE_RMR, DAT_INVALID_HANDLE_RMR,
     [](handle h, place &) {
         return dat_rmr_free(h);
     }},
    {"dat_psp_query", DAT_HANDLE_TYPE_PSP, DAT_INVALID_HANDLE_PSP,
     [](handle h, place &) {
         return dat_psp_query(h, DAT_PSP_FIELD_ALL, out<DAT_PSP_PARAM>());
     }},
    {"dat_psp_free", DAT_HANDLE_TYPE_PSP, DAT_INVALID_HANDLE_PSP,
     [](handle h, place &) {
         return dat_psp_free(h);
     }},
    {"dat_rsp_query", DAT_HANDLE_TYPE_RSP, DAT_INVALID_HANDLE_RSP,
     [](handle h, place &) {
         return dat_rsp_query(h, DAT_RSP_FIELD_ALL, out<DAT_RSP_PARAM>());
     }},
    {"dat_rsp_free", DAT_HANDLE_TYPE_RSP, DAT_INVALID_HANDLE_RSP,
     [](handle h, place &) {
         return dat_rsp_free(h);
     }},
    {"dat_pz_query", DAT_HANDLE_TYPE_PZ, DAT_INVALID_HANDLE_PZ,
     [](handle h, place &) {
         return dat_pz_query(h, DAT_PZ_FIELD_ALL, out<DAT_PZ_PARAM>());
     }},
    {"dat_pz_free", DAT_HANDLE_TYPE_PZ, DAT_INVALID_HANDLE_PZ,
     [](handle h, place &) {
         return dat_pz_free(h);
     }},
    {"dat_srq_query", DAT_HANDLE_TYPE_SRQ, DAT_INVALID_HANDLE_SRQ,
     [](handle h, place &) {
         return dat_srq_query(h, DAT_SRQ_FIELD_ALL, out<DAT_SRQ_PARAM>());
     }},
    {"dat_srq_post_recv", DAT_HANDLE_TYPE_SRQ, DAT_INVALID_HANDLE_SRQ,
     [](handle h, place &has) {
         DAT_LMR_TRIPLET piece = has.pair.memory.piece(0, 8);
         return dat_srq_post_recv(h, 1, &piece, context(1));
     }},
    {"dat_srq_resize", DAT_HANDLE_TYPE_SRQ, DAT_INVALID_HANDLE_SRQ,
     [](handle h, place &) {
         return dat_srq_resize(h, 8);
     }},
    {"dat_srq_set_lw", DAT_HANDLE_TYPE_SRQ, DAT_INVALID_HANDLE_SRQ,
     [](handle h, place &) {
         return dat_srq_set_lw(h, 1);
     }},
    {"dat_srq_free", DAT_HANDLE_TYPE_SRQ, DAT_INVALID_HANDLE_SRQ,
     [](handle h, place &) {
         return dat_srq_free(h);
     }},
};

/// Handles that are not the first parameter; of these NULL means something.
constexpr call optional_arguments[] = {
    {"dat_evd_create.cno", DAT_HANDLE_TYPE_CNO, DAT_INVALID_HANDLE_CNO,
     [](handle h, place &has) {
         return dat_evd_create(has.pair.ia, 8, h, DAT_EVD_SOFTWARE_FLAG, out<handle>());
     }},
    {"dat_evd_modify_cno.cno", DAT_HANDLE_TYPE_CNO, DAT_INVALID_HANDLE_CNO,
     [](handle h, place &has) {
         return dat_evd_modify_cno(has.software, h);
     }},
    {"dat_ep_create.pz", DAT_HANDLE_TYPE_PZ, DAT_INVALID_HANDLE_PZ,
     [](handle h, place &has) {
         const endpoint &like = has.pair.active;
         return dat_ep_create(has.pair.ia, h, like.received, like.requested, like.connection,
                              nullptr, out<handle>());
     }},
    {"dat_ep_create.recv_evd", evd_type, DAT_INVALID_HANDLE_EVD_RECV,
     [](handle h, place &has) {
         const endpoint &like = has.pair.active;
         return dat_ep_create(has.pair.ia, has.pair.zone, h, like.requested, like.connection,
                              nullptr, out<handle>());
     }},
    {"dat_ep_create.request_evd", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     [](handle h, place &has) {
         const endpoint &like = has.pair.active;
         return dat_ep_create(has.pair.ia, has.pair.zone, like.received, h, like.connection,
                              nullptr, out<handle>());
     }},
    {"dat_ep_create.connect_evd", evd_type, DAT_INVALID_HANDLE_EVD_CONN,
     [](handle h, place &has) {
         const endpoint &like = has.pair.active;
         return dat_ep_create(has.pair.ia, has.pair.zone, like.received, like.requested, h, nullptr,
                              out<handle>());
     }},
};

constexpr call arguments[] = {
    {"dat_lmr_create.pz", DAT_HANDLE_TYPE_PZ, DAT_INVALID_HANDLE_PZ,
     [](handle h, place &has) {
         return create_lmr(has.pair.ia, h, has);
     }},
    {"dat_psp_create.evd", evd_type, DAT_INVALID_HANDLE_EVD_CR,
     [](handle h, place &has) {
         return dat_psp_create(has.pair.ia, fresh_port(), h, DAT_PSP_CONSUMER_FLAG, out<handle>());
     }},
    {"dat_psp_create_any.evd", evd_type, DAT_INVALID_HANDLE_EVD_CR,
     [](handle h, place &has) {
         return dat_psp_create_any(has.pair.ia, out<DAT_CONN_QUAL>(), h, DAT_PSP_CONSUMER_FLAG,
                                   out<handle>());
     }},
    {"dat_rsp_create.ep", ep_type, DAT_INVALID_HANDLE_EP,
     [](handle h, place &has) {
         return dat_rsp_create(has.pair.ia, fresh_port(), h, has.pair.arrivals, out<handle>());
     }},
    {"dat_rsp_create.evd", evd_type, DAT_INVALID_HANDLE_EVD_CR,
     [](handle h, place &has) {
         return dat_rsp_create(has.pair.ia, fresh_port(), has.pair.active, h, out<handle>());
     }},
    {"dat_srq_create.pz", DAT_HANDLE_TYPE_PZ, DAT_INVALID_HANDLE_PZ,
     [](handle h, place &has) {
         DAT_SRQ_ATTR size{4, 1, DAT_SRQ_LW_DEFAULT};
         return dat_srq_create(has.pair.ia, h, &size, out<handle>());
     }},
    {"dat_ep_create_with_srq.srq", DAT_HANDLE_TYPE_SRQ, DAT_INVALID_HANDLE_SRQ,
     [](handle h, place &has) {
         const endpoint &like = has.pair.active;
         return dat_ep_create_with_srq(has.pair.ia, has.pair.zone, like.received, like.requested,
                                       like.connection, h, nullptr, out<handle>());
     }},
    {"dat_ep_dup_connect.dup", ep_type, DAT_INVALID_HANDLE_EP,
     [](handle h, place &has) {
         return dat_ep_dup_connect(has.pair.active, h, 1000000, 0, nullptr, DAT_QOS_BEST_EFFORT);
     }},
};

/// Functions that take a handle of any kind.
void of_any_kind(case_list &to) {
    static constexpr auto try_all = [](auto with) {
        const adapter one;
        pz zone = one.zone();
        const DAT_HANDLE gone = zone;
        done(zone.free());
        for (const DAT_HANDLE wrong :
             {gone, number(77), number(4095), number(~std::uintptr_t{0}), stray()})
            is(with(wrong), bad_handle(DAT_INVALID_HANDLE1));
    };
    static constexpr auto set = [](handle h) {
        return dat_set_consumer_context(h, context(1));
    };
    static constexpr auto get = [](handle h) {
        return dat_get_consumer_context(h, out<DAT_CONTEXT>());
    };
    static constexpr auto type = [](handle h) {
        return dat_get_handle_type(h, out<DAT_HANDLE_TYPE>());
    };
    to.push_back({"handle.null.of_any_kind", [] {
                      constexpr DAT_RETURN want = bad_handle(DAT_INVALID_HANDLE1);
                      is(set(nullptr), want);
                      is(get(nullptr), want);
                      is(type(nullptr), want);
                  }});
    to.push_back({"handle.wrong.dat_set_consumer_context", [] {
                      try_all(set);
                  }});
    to.push_back({"handle.wrong.dat_get_consumer_context", [] {
                      try_all(get);
                  }});
    to.push_back({"handle.wrong.dat_get_handle_type", [] {
                      try_all(type);
                  }});
}

} // namespace

void add_handle(case_list &to) {
    for (const std::span<const call> all :
         {std::span<const call>(of_ia), std::span<const call>(of_events),
          std::span<const call>(of_ep), std::span<const call>(of_others)})
        add(to, "handle", all);
    add(to, "handle.argument", optional_arguments, false);
    add(to, "handle.argument", arguments);
    of_any_kind(to);
}

} // namespace conform
