// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Service points that listen for connection requests (PSP, RSP, CSP), and the requests (CR).
#pragma once

#include "connection.hpp"
#include "dapl/core/unique_handle.hpp"
#include "dapl/ia/ia.hpp"

#include <arpa/inet.h>
#include <vector>

namespace coherdma::dapl::cm {

/// A service point. Listens at each address of its IA.
struct dapl_sp : object {
    using object::object;
    /// Before the object is published: sets the qualifier that was given, or chosen.
    void set_qualifier(DAT_CONN_QUAL value) noexcept { qualifier = value; }
    void handle_event(rdma_cm_event &event) noexcept;
    /// Adds a complete request to the IA and posts its event. False: the EVD is full, and the
    /// request is the caller's again.
    bool deliver(struct dapl_cr *cr) noexcept;

    /// The context of the listening ids.
    struct id_handler final : cm_handler {
        explicit id_handler(dapl_sp &owner) noexcept
            : sp(owner) {}
        void handle_event(rdma_cm_event &event) noexcept override { sp.handle_event(event); }
        dapl_sp &sp;
    } handler{*this};

    /// Sets the EP that comes with a new request (RSP, PSP of the provider). False: the request is
    /// rejected.
    bool (*provide_ep)(dapl_sp &sp, bool is_ud, dapl_ep *&ep) noexcept = nullptr;
    DAT_CONN_QUAL qualifier = 0;
    dapl_evd *cr_evd = nullptr;
    /// Of each address two: TCP and, for datagrams, UDP. Last, as the others must outlive them.
    std::vector<unique_handle<rdma_cm_id, destroy_id>> ids;
};

struct dapl_psp final : dapl_sp {
    static constexpr DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_PSP;
    static constexpr DAT_UINT32 bad_handle = DAT_INVALID_HANDLE_PSP;
    using dapl_sp::dapl_sp;

    DAT_PSP_FLAGS flags = DAT_PSP_CONSUMER_FLAG;
};

struct dapl_rsp final : dapl_sp {
    static constexpr DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_RSP;
    static constexpr DAT_UINT32 bad_handle = DAT_INVALID_HANDLE_RSP;
    using dapl_sp::dapl_sp;

    std::atomic<dapl_ep *> reserved_ep = nullptr; ///< nullptr once a request has it
    bool ep_is_ud = false;
};

struct dapl_csp final : dapl_sp {
    static constexpr DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_CSP;
    static constexpr DAT_UINT32 bad_handle = DAT_INVALID_HANDLE_CSP;
    using dapl_sp::dapl_sp;

    void set_qualifier(DAT_CONN_QUAL value) noexcept {
        dapl_sp::set_qualifier(value);
        addr.port() = htons(static_cast<std::uint16_t>(value));
    }

    DAT_COMM comm = {};
    address addr = {};
};

struct dapl_cr final : object {
    static constexpr DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_CR;
    static constexpr DAT_UINT32 bad_handle = DAT_INVALID_HANDLE_CR;
    using object::object;
    ~dapl_cr();
    /// Gives the request to another CR, which has another handle.
    void move_to(dapl_cr &cr) noexcept;

    connection *conn = nullptr; ///< nullptr: accepted, or given to another CR
    dapl_ep *ep = nullptr;      ///< of the RSP, or created by the PSP
    bool ep_created = false;    ///< by the PSP
    address remote = {};
};

// The object was removed.
void destroy_psp(dapl_psp *psp) noexcept;
void destroy_rsp(dapl_rsp *rsp) noexcept;
void destroy_csp(dapl_csp *csp) noexcept;
void destroy_cr(dapl_cr *cr) noexcept;

} // namespace coherdma::dapl::cm
