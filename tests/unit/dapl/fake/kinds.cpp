// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "kinds.hpp"

namespace fake {

all_objects::all_objects(const ia_fixture &owner)
    : ia(owner)
    , idle_ep(ia)
    , requester_ep(ia)
    , reserved_ep(ia)
    , buffer(ia)
    , cr_evd(ia.create_evd(DAT_EVD_CR_FLAG))
    , software_evd(ia.create_evd(DAT_EVD_SOFTWARE_FLAG))
    , srq(ia.create_srq()) {
    handles_[DAT_HANDLE_TYPE_IA] = ia.handle;
    handles_[DAT_HANDLE_TYPE_PZ] = ia.pz;
    handles_[DAT_HANDLE_TYPE_EP] = idle_ep.handle;
    handles_[DAT_HANDLE_TYPE_EVD] = software_evd;
    handles_[DAT_HANDLE_TYPE_CNO] = ia.create_cno();
    handles_[DAT_HANDLE_TYPE_LMR] = buffer.lmr;
    handles_[DAT_HANDLE_TYPE_SRQ] = srq;
    assert_success(dat().rmr_create_func(ia.pz, &handles_[DAT_HANDLE_TYPE_RMR]));
    handles_[DAT_HANDLE_TYPE_CR] = request_connection(requester_ep, ia, cr_evd);
    make_listeners();
}

void all_objects::make_listeners() {
    assert_success(dat().psp_create_func(ia.handle, 5001, cr_evd, DAT_PSP_CONSUMER_FLAG,
                                         &handles_[DAT_HANDLE_TYPE_PSP]));
    assert_success(dat().rsp_create_func(ia.handle, 5002, reserved_ep.handle, cr_evd,
                                         &handles_[DAT_HANDLE_TYPE_RSP]));
    DAT_COMM comm = {AF_INET, SOCK_STREAM, IPPROTO_TCP};
    socket_address addr = parse_address(ia.address, 5003);
    assert_success(
        dat().csp_create_func(ia.handle, &comm, &addr.sa, cr_evd, &handles_[DAT_HANDLE_TYPE_CSP]));
}

void all_objects::free() {
    assert_success(dat().cr_reject_func(handles_[DAT_HANDLE_TYPE_CR], 0, nullptr));
    wait_event(requester_ep.connect_evd, DAT_CONNECTION_EVENT_PEER_REJECTED);
    assert_success(dat().psp_free_func(handles_[DAT_HANDLE_TYPE_PSP]));
    assert_success(dat().rsp_free_func(handles_[DAT_HANDLE_TYPE_RSP]));
    assert_success(dat().csp_free_func(handles_[DAT_HANDLE_TYPE_CSP]));
    idle_ep.free();
    requester_ep.free();
    reserved_ep.free();
    assert_success(dat().rmr_free_func(handles_[DAT_HANDLE_TYPE_RMR]));
    buffer.free();
    assert_success(dat().srq_free_func(srq));
    assert_success(dat().evd_free_func(cr_evd));
    assert_success(dat().evd_free_func(software_evd));
    assert_success(dat().cno_free_func(handles_[DAT_HANDLE_TYPE_CNO]));
}

} // namespace fake
