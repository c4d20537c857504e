// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// rpma_utils_*() that need a device, and rpma_peer_*().

#include "../lib/device.hpp"
#include "../lib/invalid.hpp"

namespace conform {

namespace {

void expect_no_context(const char *address, rpma_util_ibv_context_type type) {
    const scoped_trace trace(concat("'", address, "'"));
    expect_fails<ibv_context *>(
        [&](ibv_context **ctx) { return rpma_utils_get_ibv_context(address, type, ctx); },
        RPMA_E_PROVIDER);
}

} // namespace

void add_context(case_list &cases) {
    for (const rpma_util_ibv_context_type type :
         {RPMA_UTIL_IBV_CONTEXT_LOCAL, RPMA_UTIL_IBV_CONTEXT_REMOTE}) {
        const std::string name =
            type == RPMA_UTIL_IBV_CONTEXT_LOCAL ? "context.local" : "context.remote";
        add_case(cases, name, [type] {
            ibv_context *ctx = nullptr;
            require_ok(rpma_utils_get_ibv_context(settings().address.c_str(), type, &ctx));
            require(ctx != nullptr, "no context");
            expect_eq(std::string(ibv_get_device_name(ctx->device)), settings().device,
                      "the device");
            ibv_device_attr attr{};
            expect_eq(ibv_query_device(ctx, &attr), 0, "ibv_query_device");
        });
        add_case(cases, name + ".invalid_address", [type] {
            expect_no_context("not an address", type);
            expect_no_context("198.18.0.1.1 ", type);
        });
    }
    add_case(cases, "context.remote.peer", [] {
        ibv_context *ctx = nullptr;
        require_ok(rpma_utils_get_ibv_context(settings().unused_address.c_str(),
                                              RPMA_UTIL_IBV_CONTEXT_REMOTE, &ctx));
        require(ctx != nullptr, "no context");
        expect_eq(std::string(ibv_get_device_name(ctx->device)), settings().device, "the device");
    });
    add_case(cases, "context.local.foreign_address", [] {
        expect_no_context(settings().unused_address.c_str(), RPMA_UTIL_IBV_CONTEXT_LOCAL);
    });
    add_case(cases, "context.local.no_device",
             [] { expect_no_context("127.0.0.1", RPMA_UTIL_IBV_CONTEXT_LOCAL); });
    add_case(cases, "context.odp", [] {
        ibv_context *const ctx = device_context();
        ibv_device_attr_ex attr{};
        require(ibv_query_device_ex(ctx, nullptr, &attr) == 0, "ibv_query_device_ex");
        const std::uint32_t rc_caps = attr.odp_caps.per_transport_caps.rc_odp_caps;
        const bool expected = (attr.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0 &&
                              (rc_caps & IBV_ODP_SUPPORT_WRITE) != 0 &&
                              (rc_caps & IBV_ODP_SUPPORT_READ) != 0;
        int capable = -1;
        expect_return(rpma_utils_ibv_context_is_odp_capable(ctx, &capable), 0);
        expect_eq(capable, int{expected}, "the capability");
    });
}

void add_peer(case_list &cases) {
    add_case(cases, "peer.lifetime", [] {
        rpma_peer *peer = nullptr;
        require_ok(rpma_peer_new(device_context(), &peer));
        require(peer != nullptr, "no peer");
        expect_return(rpma_peer_delete(&peer), 0);
        expect_true(peer == nullptr, "the pointer is not NULL");
        expect_return(rpma_peer_delete(&peer), 0);
    });
    add_case(cases, "peer.several", [] {
        const test_peer peer, other;
        expect_true(peer.get() != other.get(), "it is the same peer");
    });
    add_case(cases, "peer.null_output",
             [] { expect_return(rpma_peer_new(device_context(), nullptr), RPMA_E_INVAL); });
    // The PD has an MR: it stays, but not the peer. On the original's page the pointer is kept.
    add_case(cases, "peer.delete_in_use", [] {
        rpma_peer *peer = nullptr;
        rpma_mr_local *mr = nullptr;
        static char memory[4096];
        require_ok(rpma_peer_new(device_context(), &peer));
        require_ok(rpma_mr_reg(peer, memory, sizeof memory, RPMA_MR_USAGE_SEND, &mr));
        expect_return(rpma_peer_delete(&peer), RPMA_E_PROVIDER);
        expect_true(peer == nullptr, "the pointer is not NULL");
        expect_return(rpma_mr_dereg(&mr), 0);
    });
}

} // namespace conform
