// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Calls with a valid handle, and among their arguments one that is none: each is refused with the
// subtype of what the argument must be, and makes nothing.

#include "cases.hpp"
#include "handle.hpp"

namespace conform {

namespace {

constexpr DAT_HANDLE_TYPE evd_type = DAT_HANDLE_TYPE_EVD, ep_type = DAT_HANDLE_TYPE_EP,
                          pz_type = DAT_HANDLE_TYPE_PZ;

struct argument {
    const char *name;
    DAT_HANDLE_TYPE wants;
    DAT_RETURN_SUBTYPE subtype;
    DAT_RETURN (*with)(DAT_HANDLE, const all_objects &);
};

/// What calls would make.
DAT_HANDLE unwritten_handle = &unwritten_handle;

struct ep_handles {
    DAT_HANDLE pz, received, requested, connection, srq;
};
ep_handles valid(const all_objects &objects) {
    const test_ep &like = objects.idle_ep;
    return {objects.eps.pz, like.recv_evd, like.request_evd, like.connect_evd, objects.srq};
}
template <DAT_HANDLE ep_handles::*which>
DAT_RETURN create_ep(DAT_HANDLE handle, const all_objects &objects) {
    ep_handles with = valid(objects);
    with.*which = handle;
    return dat_ep_create(objects.eps.ia, with.pz, with.received, with.requested, with.connection,
                         nullptr, &unwritten_handle);
}
template <DAT_HANDLE ep_handles::*which>
DAT_RETURN create_ep_with_srq(DAT_HANDLE handle, const all_objects &objects) {
    ep_handles with = valid(objects);
    with.*which = handle;
    return dat_ep_create_with_srq(objects.eps.ia, with.pz, with.received, with.requested,
                                  with.connection, with.srq, nullptr, &unwritten_handle);
}
template <auto field, DAT_HANDLE DAT_EP_PARAM::*which>
DAT_RETURN modify_ep(DAT_HANDLE handle, const all_objects &objects) {
    DAT_EP_PARAM param{};
    param.*which = handle;
    return dat_ep_modify(objects.idle_ep, field, &param);
}
DAT_RETURN bind(const all_objects &objects, DAT_LMR_HANDLE memory, DAT_EP_HANDLE by) {
    if (!objects.rmr)
        throw case_skipped{"the device has no memory windows"};
    const DAT_LMR_TRIPLET piece = objects.eps.lmr.lmr_triplet(0, 64);
    return dat_rmr_bind(objects.rmr, memory, &piece, DAT_MEM_PRIV_REMOTE_READ_FLAG, DAT_VA_TYPE_VA,
                        by, make_context(1), DAT_COMPLETION_DEFAULT_FLAG, nullptr);
}
DAT_RETURN create_lmr_of(DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION what, DAT_PZ_HANDLE zone,
                         const all_objects &objects) {
    return dat_lmr_create(objects.eps.ia, type, what, 64, zone, DAT_MEM_PRIV_ALL_FLAG,
                          DAT_VA_TYPE_VA, &unwritten_handle, nullptr, nullptr, nullptr, nullptr);
}

/// NULL means something.
constexpr argument optional_arguments[] = {
    {"dat_ia_open.async_evd", evd_type, DAT_INVALID_HANDLE_EVD_ASYNC,
     CALL(dat_ia_open(const_cast<char *>(settings().ia), 8, &handle, &unwritten_handle))},
    {"dat_evd_create.cno", DAT_HANDLE_TYPE_CNO, DAT_INVALID_HANDLE_CNO,
     CALL(dat_evd_create(objects.eps.ia, 8, handle, DAT_EVD_SOFTWARE_FLAG, &unwritten_handle))},
    {"dat_evd_modify_cno.cno", DAT_HANDLE_TYPE_CNO, DAT_INVALID_HANDLE_CNO,
     CALL(dat_evd_modify_cno(objects.software_evd, handle))},
    {"dat_ep_create.pz", pz_type, DAT_INVALID_HANDLE_PZ, create_ep<&ep_handles::pz>},
    {"dat_ep_create.recv_evd", evd_type, DAT_INVALID_HANDLE_EVD_RECV,
     create_ep<&ep_handles::received>},
    {"dat_ep_create.request_evd", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     create_ep<&ep_handles::requested>},
    {"dat_ep_create.connect_evd", evd_type, DAT_INVALID_HANDLE_EVD_CONN,
     create_ep<&ep_handles::connection>},
    {"dat_ep_create_with_srq.pz", pz_type, DAT_INVALID_HANDLE_PZ,
     create_ep_with_srq<&ep_handles::pz>},
    {"dat_ep_create_with_srq.recv_evd", evd_type, DAT_INVALID_HANDLE_EVD_RECV,
     create_ep_with_srq<&ep_handles::received>},
    {"dat_ep_create_with_srq.request_evd", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     create_ep_with_srq<&ep_handles::requested>},
    {"dat_ep_create_with_srq.connect_evd", evd_type, DAT_INVALID_HANDLE_EVD_CONN,
     create_ep_with_srq<&ep_handles::connection>},
    {"dat_ep_modify.pz", pz_type, DAT_INVALID_HANDLE_PZ,
     modify_ep<DAT_EP_FIELD_PZ_HANDLE, &DAT_EP_PARAM::pz_handle>},
    {"dat_ep_modify.recv_evd", evd_type, DAT_INVALID_HANDLE_EVD_RECV,
     modify_ep<DAT_EP_FIELD_RECV_EVD_HANDLE, &DAT_EP_PARAM::recv_evd_handle>},
    {"dat_ep_modify.request_evd", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     modify_ep<DAT_EP_FIELD_REQUEST_EVD_HANDLE, &DAT_EP_PARAM::request_evd_handle>},
    {"dat_ep_modify.connect_evd", evd_type, DAT_INVALID_HANDLE_EVD_CONN,
     modify_ep<DAT_EP_FIELD_CONNECT_EVD_HANDLE, &DAT_EP_PARAM::connect_evd_handle>},
    {"dat_ep_modify.srq", DAT_HANDLE_TYPE_SRQ, DAT_INVALID_HANDLE_SRQ,
     modify_ep<DAT_EP_FIELD_SRQ_HANDLE, &DAT_EP_PARAM::srq_handle>},
};

constexpr argument arguments[] = {
    {"dat_lmr_create.pz", pz_type, DAT_INVALID_HANDLE_PZ,
     CALL(create_lmr_of(DAT_MEM_TYPE_VIRTUAL, describe_lmr(objects), handle, objects))},
    {"dat_lmr_create.lmr", DAT_HANDLE_TYPE_LMR, DAT_INVALID_HANDLE_LMR,
     [](DAT_HANDLE handle, const all_objects &objects) {
         DAT_REGION_DESCRIPTION what{};
         what.for_lmr_handle = handle;
         return create_lmr_of(DAT_MEM_TYPE_LMR, what, objects.eps.pz, objects);
     }},
    {"dat_rmr_bind.lmr", DAT_HANDLE_TYPE_LMR, DAT_INVALID_HANDLE_LMR,
     CALL(bind(objects, handle, objects.idle_ep))},
    {"dat_rmr_bind.ep", ep_type, DAT_INVALID_HANDLE_EP,
     CALL(bind(objects, objects.eps.lmr, handle))},
    {"dat_psp_create.evd", evd_type, DAT_INVALID_HANDLE_EVD_CR,
     CALL(dat_psp_create(objects.eps.ia, unused_port(), handle, DAT_PSP_CONSUMER_FLAG,
                         &unwritten_handle))},
    {"dat_psp_create_any.evd", evd_type, DAT_INVALID_HANDLE_EVD_CR,
     CALL(dat_psp_create_any(objects.eps.ia, ignored<DAT_CONN_QUAL>(), handle,
                             DAT_PSP_CONSUMER_FLAG, &unwritten_handle))},
    {"dat_rsp_create.ep", ep_type, DAT_INVALID_HANDLE_EP,
     CALL(dat_rsp_create(objects.eps.ia, unused_port(), handle, objects.eps.cr_evd,
                         &unwritten_handle))},
    {"dat_rsp_create.evd", evd_type, DAT_INVALID_HANDLE_EVD_CR,
     CALL(dat_rsp_create(objects.eps.ia, unused_port(), objects.idle_ep, handle,
                         &unwritten_handle))},
    {"dat_csp_create.evd", evd_type, DAT_INVALID_HANDLE_EVD_CR,
     CALL(create_csp(objects.eps.ia, handle, objects))},
    {"dat_cr_accept.ep", ep_type, DAT_INVALID_HANDLE_EP,
     CALL(dat_cr_accept(objects.cr, handle, 0, nullptr))},
    {"dat_srq_create.pz", pz_type, DAT_INVALID_HANDLE_PZ,
     [](DAT_HANDLE handle, const all_objects &objects) {
         DAT_SRQ_ATTR size{4, 1, DAT_SRQ_LW_DEFAULT};
         return dat_srq_create(objects.eps.ia, handle, &size, &unwritten_handle);
     }},
    {"dat_ep_create_with_srq.srq", DAT_HANDLE_TYPE_SRQ, DAT_INVALID_HANDLE_SRQ,
     create_ep_with_srq<&ep_handles::srq>},
    {"dat_ep_dup_connect.dup", ep_type, DAT_INVALID_HANDLE_EP,
     CALL(dat_ep_dup_connect(objects.idle_ep, handle, 1000000, 0, nullptr, DAT_QOS_BEST_EFFORT))},
};

/// Valid, but of another IA, or an EVD of another stream.
void add_strangers(std::vector<bogus_handle> &to, const all_objects &objects,
                   const all_objects &other, const argument &of) {
    if (of.wants != evd_type) {
        if (other.live_handle(of.wants))
            to.push_back({"another IA's", other.live_handle(of.wants)});
        return;
    }
    to.push_back({"an EVD of software events", objects.software_evd});
    // Connection and asynchronous events of another IA may come to an EVD.
    if (of.subtype == DAT_INVALID_HANDLE_EVD_CONN || of.subtype == DAT_INVALID_HANDLE_EVD_ASYNC)
        return;
    to.push_back({"another IA's EVD", other.idle_ep.recv_evd});
    to.push_back({"another IA's EVD of requests", other.eps.cr_evd});
}

void refuse(const argument &one, const all_objects &objects, const bogus_handle &each) {
    const scoped_trace which(each.description);
    unwritten_handle = &unwritten_handle;
    expect_return(one.with(each.handle, objects), invalid_handle(one.subtype));
    expect_true(unwritten_handle == &unwritten_handle, "it wrote a handle");
}

void refuses_all(const argument &one) {
    const all_objects other, objects;
    std::vector<bogus_handle> list = bogus_handles(objects, one.wants);
    add_strangers(list, objects, other, one);
    if (one.subtype == DAT_INVALID_HANDLE_EVD_ASYNC) // these are no handles, but mean something
        std::erase_if(list, [](const bogus_handle &each) {
            return each.handle == DAT_EVD_ASYNC_EXISTS || each.handle == DAT_EVD_OUT_OF_SCOPE;
        });
    for (const bogus_handle &each : list)
        refuse(one, objects, each);
}

} // namespace

void add_handle_argument(case_list &cases) {
    for (const std::span<const argument> all :
         {std::span<const argument>(optional_arguments), std::span<const argument>(arguments)})
        for (const argument &one : all) {
            if (all.data() == arguments)
                add_case(cases, concat("handle.argument.null.", one.name), [one] {
                    const all_objects objects;
                    refuse(one, objects, {"NULL", nullptr});
                });
            add_case(cases, concat("handle.argument.wrong.", one.name),
                     [one] { refuses_all(one); });
        }
}

} // namespace conform
