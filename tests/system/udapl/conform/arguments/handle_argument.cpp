// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Calls with a valid handle, and among their arguments one that is none: each is refused with the
// subtype of what the argument must be, and makes nothing.

#include "handle.hpp"
#include "lib/cases.hpp"

namespace conform {

namespace {

constexpr DAT_HANDLE_TYPE evd_type = DAT_HANDLE_TYPE_EVD, ep_type = DAT_HANDLE_TYPE_EP,
                          pz_type = DAT_HANDLE_TYPE_PZ;

struct handle_argument {
    const char *name;
    DAT_HANDLE_TYPE type;
    DAT_RETURN_SUBTYPE subtype;
    DAT_RETURN (*call)(DAT_HANDLE, const all_objects &);
};

/// Where calls that must fail would write a new handle.
DAT_HANDLE unwritten_handle = &unwritten_handle;

struct ep_handles {
    DAT_HANDLE pz, recv_evd, request_evd, connect_evd, srq;
};
ep_handles valid_handles(const all_objects &objects) {
    const test_ep &ep = objects.idle_ep;
    return {objects.eps.pz, ep.recv_evd, ep.request_evd, ep.connect_evd, objects.srq};
}
template <DAT_HANDLE ep_handles::*evd_handle>
DAT_RETURN create_ep(DAT_HANDLE handle, const all_objects &objects) {
    ep_handles handles = valid_handles(objects);
    handles.*evd_handle = handle;
    return dat_ep_create(objects.eps.ia, handles.pz, handles.recv_evd, handles.request_evd,
                         handles.connect_evd, nullptr, &unwritten_handle);
}
template <DAT_HANDLE ep_handles::*evd_handle>
DAT_RETURN create_ep_with_srq(DAT_HANDLE handle, const all_objects &objects) {
    ep_handles handles = valid_handles(objects);
    handles.*evd_handle = handle;
    return dat_ep_create_with_srq(objects.eps.ia, handles.pz, handles.recv_evd, handles.request_evd,
                                  handles.connect_evd, handles.srq, nullptr, &unwritten_handle);
}
template <auto field, DAT_HANDLE DAT_EP_PARAM::*evd_handle>
DAT_RETURN modify_ep(DAT_HANDLE handle, const all_objects &objects) {
    DAT_EP_PARAM param{};
    param.*evd_handle = handle;
    return dat_ep_modify(objects.idle_ep, field, &param);
}
DAT_RETURN bind_rmr(const all_objects &objects, DAT_LMR_HANDLE lmr, DAT_EP_HANDLE ep) {
    if (!objects.rmr)
        throw case_skipped{"the device has no memory windows"};
    const DAT_LMR_TRIPLET local = objects.eps.lmr.make_lmr_triplet(0, 64);
    return dat_rmr_bind(objects.rmr, lmr, &local, DAT_MEM_PRIV_REMOTE_READ_FLAG, DAT_VA_TYPE_VA, ep,
                        make_context(1), DAT_COMPLETION_DEFAULT_FLAG, nullptr);
}
DAT_RETURN create_lmr_from(DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION desc, DAT_PZ_HANDLE pz,
                           const all_objects &objects) {
    return dat_lmr_create(objects.eps.ia, type, desc, 64, pz, DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA,
                          &unwritten_handle, nullptr, nullptr, nullptr, nullptr);
}

/// NULL means something.
constexpr handle_argument optional_arguments[] = {
    {"dat_ia_open.async_evd", evd_type, DAT_INVALID_HANDLE_EVD_ASYNC,
     CALL(dat_ia_open(const_cast<char *>(settings().ia), 8, &handle, &unwritten_handle))},
    {"dat_evd_create.cno", DAT_HANDLE_TYPE_CNO, DAT_INVALID_HANDLE_CNO,
     CALL(dat_evd_create(objects.eps.ia, 8, handle, DAT_EVD_SOFTWARE_FLAG, &unwritten_handle))},
    {"dat_evd_modify_cno.cno", DAT_HANDLE_TYPE_CNO, DAT_INVALID_HANDLE_CNO,
     CALL(dat_evd_modify_cno(objects.software_evd, handle))},
    {"dat_ep_create.pz", pz_type, DAT_INVALID_HANDLE_PZ, create_ep<&ep_handles::pz>},
    {"dat_ep_create.recv_evd", evd_type, DAT_INVALID_HANDLE_EVD_RECV,
     create_ep<&ep_handles::recv_evd>},
    {"dat_ep_create.request_evd", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     create_ep<&ep_handles::request_evd>},
    {"dat_ep_create.connect_evd", evd_type, DAT_INVALID_HANDLE_EVD_CONN,
     create_ep<&ep_handles::connect_evd>},
    {"dat_ep_create_with_srq.pz", pz_type, DAT_INVALID_HANDLE_PZ,
     create_ep_with_srq<&ep_handles::pz>},
    {"dat_ep_create_with_srq.recv_evd", evd_type, DAT_INVALID_HANDLE_EVD_RECV,
     create_ep_with_srq<&ep_handles::recv_evd>},
    {"dat_ep_create_with_srq.request_evd", evd_type, DAT_INVALID_HANDLE_EVD_REQUEST,
     create_ep_with_srq<&ep_handles::request_evd>},
    {"dat_ep_create_with_srq.connect_evd", evd_type, DAT_INVALID_HANDLE_EVD_CONN,
     create_ep_with_srq<&ep_handles::connect_evd>},
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

constexpr handle_argument arguments[] = {
    {"dat_lmr_create.pz", pz_type, DAT_INVALID_HANDLE_PZ,
     CALL(create_lmr_from(DAT_MEM_TYPE_VIRTUAL, describe_lmr(objects), handle, objects))},
    {"dat_lmr_create.lmr", DAT_HANDLE_TYPE_LMR, DAT_INVALID_HANDLE_LMR,
     [](DAT_HANDLE handle, const all_objects &objects) {
         DAT_REGION_DESCRIPTION desc{};
         desc.for_lmr_handle = handle;
         return create_lmr_from(DAT_MEM_TYPE_LMR, desc, objects.eps.pz, objects);
     }},
    {"dat_rmr_bind.lmr", DAT_HANDLE_TYPE_LMR, DAT_INVALID_HANDLE_LMR,
     CALL(bind_rmr(objects, handle, objects.idle_ep))},
    {"dat_rmr_bind.ep", ep_type, DAT_INVALID_HANDLE_EP,
     CALL(bind_rmr(objects, objects.eps.lmr, handle))},
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
         DAT_SRQ_ATTR srq_attr{4, 1, DAT_SRQ_LW_DEFAULT};
         return dat_srq_create(objects.eps.ia, handle, &srq_attr, &unwritten_handle);
     }},
    {"dat_ep_create_with_srq.srq", DAT_HANDLE_TYPE_SRQ, DAT_INVALID_HANDLE_SRQ,
     create_ep_with_srq<&ep_handles::srq>},
    {"dat_ep_dup_connect.dup", ep_type, DAT_INVALID_HANDLE_EP,
     CALL(dat_ep_dup_connect(objects.idle_ep, handle, 1000000, 0, nullptr, DAT_QOS_BEST_EFFORT))},
};

/// Valid, but of another IA, or an EVD of another stream.
void add_foreign_objects(std::vector<bogus_handle> &bogus_list, const all_objects &objects,
                         const all_objects &other_objects, const handle_argument &row) {
    if (row.type != evd_type) {
        if (other_objects.live_handle(row.type))
            bogus_list.push_back({"another IA's", other_objects.live_handle(row.type)});
        return;
    }
    bogus_list.push_back({"an EVD of software events", objects.software_evd});
    // Connection and asynchronous events of another IA may come to an EVD.
    if (row.subtype == DAT_INVALID_HANDLE_EVD_CONN || row.subtype == DAT_INVALID_HANDLE_EVD_ASYNC)
        return;
    bogus_list.push_back({"another IA's EVD", other_objects.idle_ep.recv_evd});
    bogus_list.push_back({"another IA's EVD of requests", other_objects.eps.cr_evd});
}

void expect_refused(const handle_argument &row, const all_objects &objects,
                    const bogus_handle &bogus) {
    const scoped_trace trace(bogus.description);
    unwritten_handle = &unwritten_handle;
    expect_return(row.call(bogus.handle, objects), invalid_handle(row.subtype));
    expect_true(unwritten_handle == &unwritten_handle, "it wrote a handle");
}

/// The call refuses each handle that is invalid as this argument.
void expect_all_refused(const handle_argument &row) {
    const all_objects other_objects, objects;
    std::vector<bogus_handle> bogus_list = bogus_handles(objects, row.type);
    add_foreign_objects(bogus_list, objects, other_objects, row);
    if (row.subtype == DAT_INVALID_HANDLE_EVD_ASYNC) // these are no handles, but mean something
        std::erase_if(bogus_list, [](const bogus_handle &bogus) {
            return bogus.handle == DAT_EVD_ASYNC_EXISTS || bogus.handle == DAT_EVD_OUT_OF_SCOPE;
        });
    for (const bogus_handle &bogus : bogus_list)
        expect_refused(row, objects, bogus);
}

} // namespace

void add_handle_argument(case_list &cases) {
    for (const std::span<const handle_argument> rows :
         {std::span<const handle_argument>(optional_arguments),
          std::span<const handle_argument>(arguments)})
        for (const handle_argument &row : rows) {
            if (rows.data() == arguments)
                add_case(cases, concat("handle.argument.null.", row.name), [row] {
                    const all_objects objects;
                    expect_refused(row, objects, {"NULL", nullptr});
                });
            add_case(cases, concat("handle.argument.wrong.", row.name),
                     [row] { expect_all_refused(row); });
        }
}

} // namespace conform
