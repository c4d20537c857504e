// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Who hears of peers that want to connect (PSP, RSP, CSP), and what they ask for (CR).
#pragma once

#include "../ia.hpp"
#include "connection.hpp"

namespace coherdma::dapl::cm {

/// It listens at each address of its IA.
struct listener : object {
    using object::object;
    ~listener();
    /// Listens no more.
    void stop() noexcept;
    void heard(rdma_cm_event &event) noexcept;
    /// Hands the program a request. False: it could not be told.
    bool announce(struct request &one) noexcept;

    /// What the ids' context points to.
    struct ear final : party {
        explicit ear(listener &whose) noexcept
            : of(whose) {}
        void happened(rdma_cm_event &event) noexcept override { of.heard(event); }
        listener &of;
    } hears{*this};

    /// The endpoint for a new request, if it brings one. False: no more requests, please.
    bool (*endpoint)(listener &by, ep *&one) noexcept = nullptr;
    DAT_CONN_QUAL qualifier = 0;
    evd *requests = nullptr;
    std::array<rdma_cm_id *, 32> ids = {}; ///< two for each address, if datagrams have theirs
};

struct psp final : listener {
    static constexpr DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_PSP;
    using listener::listener;

    DAT_PSP_FLAGS flags = DAT_PSP_CONSUMER_FLAG;
};

struct rsp final : listener {
    static constexpr DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_RSP;
    using listener::listener;

    std::atomic<ep *> reserved = nullptr; ///< until a request has it
};

struct csp final : listener {
    static constexpr DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_CSP;
    using listener::listener;

    DAT_COMM comm = {};
    address at = {};
};

struct request final : object {
    static constexpr DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_CR;
    using object::object;
    ~request();

    connection *link = nullptr;
    ep *for_one = nullptr; ///< of an RSP, or made for it
    bool made = false;     ///< the latter
    address remote = {};
};

void end_listener(psp *one) noexcept;
void end_listener(rsp *one) noexcept;
void end_listener(csp *one) noexcept;
void end_request(request *one) noexcept;

} // namespace coherdma::dapl::cm
