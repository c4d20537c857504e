// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// PSPs, RSPs and CSPs.

#include "steps.hpp"

#include <netinet/in.h>

namespace sequencer {

namespace {

DAT_CONN_QUAL draw_conn_qual(worker &thread) {
    return min_conn_qual + thread.random.number_below(num_conn_quals);
}

/// Creates a service point with a drawn EVD, and adds it to the shared objects.
/// create_function(evd, &handle) calls DAT; fill(object) sets the members for what it was created
/// with.
template <class function, class filling>
void create(worker &thread, DAT_HANDLE_TYPE type, const object_ref &ia, call &create_call,
            function &&create_function, filling &&fill) {
    const object_ref evd = thread.draw_evd(ia.obj, DAT_EVD_CR_FLAG);
    create_call.creates(type);
    DAT_HANDLE const evd_handle = create_call.use_evd(evd, ia.obj, DAT_EVD_CR_FLAG, "evd");
    DAT_HANDLE handle = DAT_HANDLE_NULL;
    create_call.check_result(create_function(evd_handle, &handle));
    if (!create_call.has_succeeded())
        return;
    object &sp = thread.add_object(type, handle, ia.obj);
    sp.evd = evd.obj;
    fill(sp);
    if (!thread.insert_unless_full(sp))
        free_object(thread, sp.type, {&sp, handle});
}

void create_psp(worker &thread) {
    const object_ref ia = thread.draw_ia();
    const bool any = thread.random.percent_chance(40);
    DAT_CONN_QUAL qual = draw_conn_qual(thread);
    const DAT_PSP_FLAGS flags =
        thread.random.percent_chance(30) ? DAT_PSP_PROVIDER_FLAG : DAT_PSP_CONSUMER_FLAG;
    call create_call(thread, any ? rules::psp_create_any : rules::psp_create);
    DAT_HANDLE const ia_handle = create_call.use_handle(ia, "ia");
    create_call.arg("conn_qual", qual);
    create_call.arg("flags", flags);
    create(
        thread, DAT_HANDLE_TYPE_PSP, ia, create_call,
        [&](DAT_EVD_HANDLE evd, DAT_PSP_HANDLE *psp) {
            return any ? dat_psp_create_any(ia_handle, &qual, evd, flags, psp)
                       : dat_psp_create(ia_handle, qual, evd, flags, psp);
        },
        [&](object &psp) {
            psp.conn_qual = qual;
            psp.psp_flags = flags;
        });
}

void query_psp(worker &thread) {
    const object_ref psp = thread.draw(DAT_HANDLE_TYPE_PSP);
    DAT_PSP_PARAM param = {};
    if (query(thread, rules::psp_query, psp, dat_psp_query, DAT_PSP_FIELD_ALL, param))
        expect(param.conn_qual == psp.obj->conn_qual && param.psp_flags == psp.obj->psp_flags &&
                   param.evd_handle == psp.obj->evd->handle,
               "dat_psp_query returned other values than those of dat_psp_create");
}

void create_rsp(worker &thread) {
    const object_ref ia = thread.draw_ia(), ep = thread.draw(DAT_HANDLE_TYPE_EP, ia.obj);
    const DAT_CONN_QUAL qual = draw_conn_qual(thread);
    call create_call(thread, rules::rsp_create);
    DAT_HANDLE const ia_handle = create_call.use_handle(ia, "ia"),
                     ep_handle = create_call.use_handle(ep, ia.obj, "ep");
    create_call.arg("conn_qual", qual);
    create(
        thread, DAT_HANDLE_TYPE_RSP, ia, create_call,
        [&](DAT_EVD_HANDLE evd, DAT_RSP_HANDLE *rsp) {
            return dat_rsp_create(ia_handle, qual, ep_handle, evd, rsp);
        },
        [&](object &rsp) {
            rsp.conn_qual = qual;
            rsp.ep = ep.obj;
        });
}

void query_rsp(worker &thread) {
    const object_ref rsp = thread.draw(DAT_HANDLE_TYPE_RSP);
    DAT_RSP_PARAM param = {};
    if (query(thread, rules::rsp_query, rsp, dat_rsp_query, DAT_RSP_FIELD_ALL, param))
        expect(param.conn_qual == rsp.obj->conn_qual && param.evd_handle == rsp.obj->evd->handle &&
                   (param.ep_handle == rsp.obj->ep->handle || param.ep_handle == DAT_HANDLE_NULL),
               "dat_rsp_query returned other values than those of dat_rsp_create");
}

void create_csp(worker &thread) {
    const object_ref ia = thread.draw_ia();
    sockaddr_storage address = thread.shared.address;
    DAT_COMM comm = {address.ss_family, SOCK_STREAM, IPPROTO_TCP};
    const DAT_CONN_QUAL qual = draw_conn_qual(thread);
    // The port is in the same place in a sockaddr_in6.
    reinterpret_cast<sockaddr_in *>(&address)->sin_port = htons(static_cast<std::uint16_t>(qual));
    call create_call(thread, rules::csp_create);
    DAT_HANDLE const ia_handle = create_call.use_handle(ia, "ia");
    create_call.arg("port", qual);
    create(
        thread, DAT_HANDLE_TYPE_CSP, ia, create_call,
        [&](DAT_EVD_HANDLE evd, DAT_CSP_HANDLE *csp) {
            return dat_csp_create(ia_handle, &comm, reinterpret_cast<DAT_IA_ADDRESS_PTR>(&address),
                                  evd, csp);
        },
        [&](object &csp) { csp.conn_qual = qual; });
}

void query_csp(worker &thread) {
    const object_ref csp = thread.draw(DAT_HANDLE_TYPE_CSP);
    DAT_CSP_PARAM param = {};
    if (query(thread, rules::csp_query, csp, dat_csp_query, DAT_CSP_FIELD_ALL, param))
        expect(param.evd_handle == csp.obj->evd->handle, "dat_csp_query returned another EVD");
}

template <DAT_HANDLE_TYPE type>
void free_random(worker &thread) {
    free_object(thread, type, thread.draw(type));
}

} // namespace

std::span<const step> sp_steps() {
    static constexpr step steps[] = {
        {create_psp, 14}, {query_psp, 3}, {free_random<DAT_HANDLE_TYPE_PSP>, 6},
        {create_rsp, 6},  {query_rsp, 2}, {free_random<DAT_HANDLE_TYPE_RSP>, 4},
        {create_csp, 5},  {query_csp, 2}, {free_random<DAT_HANDLE_TYPE_CSP>, 4}};
    return steps;
}

} // namespace sequencer
