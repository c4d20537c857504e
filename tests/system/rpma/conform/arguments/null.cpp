// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// NULL arguments, and other arguments whose check needs no device. Those of operations:
// null_operation.cpp.

#include "../lib/invalid.hpp"
#include "../lib/run.hpp"

namespace conform {

namespace {

void add_invalid_getters(case_list &cases) {
    const auto add = [&](const char *name, auto get) {
        add_case(cases, concat("null.", name), [get] { expect_invalid_get(get); });
    };
    add("rpma_peer_cfg_get_direct_write_to_pmem", rpma_peer_cfg_get_direct_write_to_pmem);
    add("rpma_peer_cfg_get_descriptor_size", rpma_peer_cfg_get_descriptor_size);
    add("rpma_mr_get_descriptor_size", rpma_mr_get_descriptor_size);
    add("rpma_mr_get_ptr", rpma_mr_get_ptr);
    add("rpma_mr_get_size", rpma_mr_get_size);
    add("rpma_mr_remote_get_size", rpma_mr_remote_get_size);
    add("rpma_mr_remote_get_flush_type", rpma_mr_remote_get_flush_type);
    add("rpma_srq_cfg_get_rq_size", rpma_srq_cfg_get_rq_size);
    add("rpma_srq_cfg_get_rcq_size", rpma_srq_cfg_get_rcq_size);
    add("rpma_srq_get_rcq", rpma_srq_get_rcq);
    add("rpma_conn_cfg_get_timeout", rpma_conn_cfg_get_timeout);
    add("rpma_conn_cfg_get_compl_channel", rpma_conn_cfg_get_compl_channel);
    add("rpma_conn_cfg_get_cq_size", rpma_conn_cfg_get_cq_size);
    add("rpma_conn_cfg_get_rcq_size", rpma_conn_cfg_get_rcq_size);
    add("rpma_conn_cfg_get_sq_size", rpma_conn_cfg_get_sq_size);
    add("rpma_conn_cfg_get_rq_size", rpma_conn_cfg_get_rq_size);
    add("rpma_conn_cfg_get_srq", rpma_conn_cfg_get_srq);
    add("rpma_ep_get_fd", rpma_ep_get_fd);
    add("rpma_conn_req_get_private_data", rpma_conn_req_get_private_data);
    add("rpma_conn_get_event_fd", rpma_conn_get_event_fd);
    add("rpma_conn_get_private_data", rpma_conn_get_private_data);
    add("rpma_conn_get_qp_num", rpma_conn_get_qp_num);
    add("rpma_conn_get_cq", rpma_conn_get_cq);
    add("rpma_conn_get_rcq", rpma_conn_get_rcq);
    add("rpma_conn_get_compl_fd", rpma_conn_get_compl_fd);
    add("rpma_cq_get_fd", rpma_cq_get_fd);
    const auto add_descriptor = [&]<class Object>(const char *name,
                                                  int (*get)(const Object *, void *)) {
        add_case(cases, concat("null.", name), [get] {
            unchanged<char[64]> desc;
            expect_return(get(nullptr, &desc), RPMA_E_INVAL);
            desc.expect();
            expect_return(get(fake_object<Object>(), nullptr), RPMA_E_INVAL);
            expect_return(get(nullptr, nullptr), RPMA_E_INVAL);
        });
    };
    add_descriptor("rpma_peer_cfg_get_descriptor", rpma_peer_cfg_get_descriptor);
    add_descriptor("rpma_mr_get_descriptor", rpma_mr_get_descriptor);
}

void add_invalid_deletes(case_list &cases) {
    const auto add = [&](const char *name, auto destroy) {
        add_case(cases, concat("null.", name), [destroy] { expect_invalid_delete(destroy); });
    };
    add("rpma_peer_cfg_delete", rpma_peer_cfg_delete);
    add("rpma_peer_delete", rpma_peer_delete);
    add("rpma_mr_dereg", rpma_mr_dereg);
    add("rpma_mr_remote_delete", rpma_mr_remote_delete);
    add("rpma_srq_cfg_delete", rpma_srq_cfg_delete);
    add("rpma_srq_delete", rpma_srq_delete);
    add("rpma_conn_cfg_delete", rpma_conn_cfg_delete);
    add("rpma_ep_shutdown", rpma_ep_shutdown);
    add("rpma_conn_req_delete", rpma_conn_req_delete);
    add("rpma_conn_delete", rpma_conn_delete);
}

void add_invalid_setters(case_list &cases) {
    const auto add = [&](const char *name, const std::function<int()> &call) {
        add_case(cases, concat("null.", name), [call] { expect_return(call(), RPMA_E_INVAL); });
    };
    add("rpma_peer_cfg_set_direct_write_to_pmem",
        [] { return rpma_peer_cfg_set_direct_write_to_pmem(nullptr, true); });
    add("rpma_srq_cfg_set_rq_size", [] { return rpma_srq_cfg_set_rq_size(nullptr, 1); });
    add("rpma_srq_cfg_set_rcq_size", [] { return rpma_srq_cfg_set_rcq_size(nullptr, 1); });
    add("rpma_conn_cfg_set_timeout", [] { return rpma_conn_cfg_set_timeout(nullptr, 1); });
    add("rpma_conn_cfg_set_compl_channel",
        [] { return rpma_conn_cfg_set_compl_channel(nullptr, true); });
    add("rpma_conn_cfg_set_cq_size", [] { return rpma_conn_cfg_set_cq_size(nullptr, 1); });
    add("rpma_conn_cfg_set_rcq_size", [] { return rpma_conn_cfg_set_rcq_size(nullptr, 1); });
    add("rpma_conn_cfg_set_sq_size", [] { return rpma_conn_cfg_set_sq_size(nullptr, 1); });
    add("rpma_conn_cfg_set_rq_size", [] { return rpma_conn_cfg_set_rq_size(nullptr, 1); });
    add("rpma_conn_cfg_set_srq",
        [] { return rpma_conn_cfg_set_srq(nullptr, fake_object<rpma_srq>()); });
    add("rpma_conn_disconnect", [] { return rpma_conn_disconnect(nullptr); });
    add("rpma_conn_apply_remote_peer_cfg.conn",
        [] { return rpma_conn_apply_remote_peer_cfg(nullptr, fake_object<rpma_peer_cfg>()); });
    add("rpma_conn_apply_remote_peer_cfg.pcfg",
        [] { return rpma_conn_apply_remote_peer_cfg(fake_object<rpma_conn>(), nullptr); });
    add("rpma_peer_cfg_new", [] { return rpma_peer_cfg_new(nullptr); });
    add("rpma_srq_cfg_new", [] { return rpma_srq_cfg_new(nullptr); });
    add("rpma_conn_cfg_new", [] { return rpma_conn_cfg_new(nullptr); });
    add("rpma_mr_advise", [] { return rpma_mr_advise(nullptr, 0, 1, 0, 0); });
    add("rpma_cq_wait", [] { return rpma_cq_wait(nullptr); });
}

void add_invalid_context(case_list &cases) {
    add_case(cases, "null.rpma_utils_get_ibv_context", [] {
        expect_fails<ibv_context *>(
            [](ibv_context **ctx) {
                return rpma_utils_get_ibv_context(nullptr, RPMA_UTIL_IBV_CONTEXT_LOCAL, ctx);
            },
            RPMA_E_INVAL);
        expect_return(rpma_utils_get_ibv_context("127.0.0.1", RPMA_UTIL_IBV_CONTEXT_LOCAL, nullptr),
                      RPMA_E_INVAL);
    });
    // The type is looked at before the address is.
    add_case(cases, "null.rpma_utils_get_ibv_context.type", [] {
        for (const int type : {-1, 2, 99})
            expect_fails<ibv_context *>(
                [type](ibv_context **ctx) {
                    return rpma_utils_get_ibv_context(
                        "not an address", static_cast<rpma_util_ibv_context_type>(type), ctx);
                },
                RPMA_E_INVAL);
    });
    add_case(cases, "null.rpma_utils_ibv_context_is_odp_capable", [] {
        int capable = 0;
        expect_return(rpma_utils_ibv_context_is_odp_capable(nullptr, &capable), RPMA_E_INVAL);
        expect_return(rpma_utils_ibv_context_is_odp_capable(fake_object<ibv_context>(), nullptr),
                      RPMA_E_INVAL);
    });
}

/// A function that creates an object: call(output) with each argument NULL in turn.
template <class Output>
void add_invalid_new(case_list &cases, const char *name,
                     std::initializer_list<std::function<int(Output *)>> calls,
                     const std::function<int()> &call_without_output) {
    const std::vector<std::function<int(Output *)>> all(calls);
    add_case(cases, concat("null.", name), [all, call_without_output] {
        for (const auto &call : all)
            expect_fails<Output>(call, RPMA_E_INVAL);
        expect_return(call_without_output(), RPMA_E_INVAL);
    });
}

void add_invalid_news(case_list &cases) {
    static rpma_peer *const peer = fake_object<rpma_peer>();
    add_invalid_new<rpma_peer *>(cases, "rpma_peer_new", {[](rpma_peer **out) {
                                     return rpma_peer_new(nullptr, out);
                                 }},
                                 [] { return rpma_peer_new(fake_object<ibv_context>(), nullptr); });
    using mr_local = rpma_mr_local *;
    static char memory[8];
    add_invalid_new<mr_local>(
        cases, "rpma_mr_reg",
        {[](mr_local *out) { return rpma_mr_reg(nullptr, memory, 8, RPMA_MR_USAGE_READ_SRC, out); },
         [](mr_local *out) { return rpma_mr_reg(peer, nullptr, 8, RPMA_MR_USAGE_READ_SRC, out); },
         [](mr_local *out) { return rpma_mr_reg(peer, memory, 0, RPMA_MR_USAGE_READ_SRC, out); },
         [](mr_local *out) { return rpma_mr_reg(peer, memory, 8, 0, out); },
         [](mr_local *out) { return rpma_mr_reg(peer, memory, 8, 1 << 8, out); },
         [](mr_local *out) { return rpma_mr_reg(peer, memory, 8, 0x1ff, out); },
         [](mr_local *out) {
             return rpma_mr_reg(peer, memory, 8, -1, out);
         }},
        [] { return rpma_mr_reg(peer, memory, 8, RPMA_MR_USAGE_READ_SRC, nullptr); });
    add_invalid_new<rpma_srq *>(cases, "rpma_srq_new", {[](rpma_srq **out) {
                                    return rpma_srq_new(nullptr, nullptr, out);
                                }},
                                [] { return rpma_srq_new(peer, nullptr, nullptr); });
    using ep = rpma_ep *;
    add_invalid_new<ep>(cases, "rpma_ep_listen",
                        {[](ep *out) { return rpma_ep_listen(nullptr, "127.0.0.1", "7000", out); },
                         [](ep *out) { return rpma_ep_listen(peer, nullptr, "7000", out); },
                         [](ep *out) {
                             return rpma_ep_listen(peer, "127.0.0.1", nullptr, out);
                         }},
                        [] { return rpma_ep_listen(peer, "127.0.0.1", "7000", nullptr); });
    using req_output = rpma_conn_req *;
    add_invalid_new<req_output>(
        cases, "rpma_conn_req_new",
        {[](req_output *out) {
             return rpma_conn_req_new(nullptr, "127.0.0.1", "7000", nullptr, out);
         },
         [](req_output *out) { return rpma_conn_req_new(peer, nullptr, "7000", nullptr, out); },
         [](req_output *out) {
             return rpma_conn_req_new(peer, "127.0.0.1", nullptr, nullptr, out);
         }},
        [] { return rpma_conn_req_new(peer, "127.0.0.1", "7000", nullptr, nullptr); });
    add_invalid_new<req_output>(
        cases, "rpma_ep_next_conn_req", {[](req_output *out) {
            return rpma_ep_next_conn_req(nullptr, nullptr, out);
        }},
        [] { return rpma_ep_next_conn_req(fake_object<rpma_ep>(), nullptr, nullptr); });
    using conn = rpma_conn *;
    add_invalid_new<conn>(cases, "rpma_conn_req_connect",
                          {[](conn *out) { return rpma_conn_req_connect(nullptr, nullptr, out); },
                           [](conn *out) {
                               rpma_conn_req *req = nullptr;
                               return rpma_conn_req_connect(&req, nullptr, out);
                           }},
                          [] {
                              rpma_conn_req *req = nullptr;
                              return rpma_conn_req_connect(&req, nullptr, nullptr);
                          });
    add_invalid_new<rpma_conn_event>(
        cases, "rpma_conn_next_event", {[](rpma_conn_event *out) {
            return rpma_conn_next_event(nullptr, out);
        }},
        [] { return rpma_conn_next_event(fake_object<rpma_conn>(), nullptr); });
    using cq = rpma_cq *;
    add_invalid_new<cq>(cases, "rpma_conn_wait", {[](cq *out) {
                            return rpma_conn_wait(nullptr, 0, out, nullptr);
                        }},
                        [] {
                            bool is_rcq = false;
                            return rpma_conn_wait(fake_object<rpma_conn>(), 0, nullptr, &is_rcq);
                        });
}

} // namespace

void add_null(case_list &cases) {
    add_invalid_getters(cases);
    add_invalid_deletes(cases);
    add_invalid_setters(cases);
    add_invalid_context(cases);
    add_invalid_news(cases);
}

} // namespace conform
