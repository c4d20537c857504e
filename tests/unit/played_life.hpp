// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a program makes of a played device and takes down again, through the real libibverbs.
#pragma once

#include "played_kernel.hpp"

#include <csetjmp>
#include <cstdarg>

extern "C" {
#include <cmocka.h>
}

namespace played {

/// One of each object. An error ends the making; what is refused to be taken down must still be
/// there, and goes the second time.
class life {
  public:
    ibv_context *context = nullptr;
    ibv_pd *pd = nullptr;
    ibv_mr *mr = nullptr;
    ibv_cq *cq = nullptr;
    ibv_cq_ex *parts = nullptr;
    ibv_srq *srq = nullptr;
    ibv_qp *qp = nullptr, *sharing = nullptr, *by_parts = nullptr;
    ibv_qp_cap granted{}; ///< to the pairs that were made last
    int error = 0;        ///< what the first failure said
    std::array<unsigned char, 256> memory{};

    explicit life(kernel &in) { made(context = in.open()); }
    life(const life &) = delete;
    life &operator=(const life &) = delete;

    bool make_domain() {
        constexpr int access = IBV_ACCESS_LOCAL_WRITE;
        return context != nullptr && made(pd = ibv_alloc_pd(context)) &&
               made(mr = ibv_reg_mr(pd, memory.data(), memory.size(), access));
    }
    bool make_queues() {
        ibv_cq_init_attr_ex by_the_part{};
        by_the_part.cqe = 10;
        ibv_srq_init_attr shared{};
        shared.attr = {12, 2, 0};
        return made(cq = ibv_create_cq(context, 20, nullptr, nullptr, 0)) &&
               made(parts = ibv_create_cq_ex(context, &by_the_part)) &&
               made(srq = ibv_create_srq(pd, &shared)) && made(qp = pair(nullptr)) &&
               made(sharing = pair(srq)) && made(by_parts = pair_of_parts());
    }
    void end_queues() {
        gone(by_parts, ibv_destroy_qp);
        gone(sharing, ibv_destroy_qp);
        gone(qp, ibv_destroy_qp);
        gone(srq, ibv_destroy_srq);
        gone(parts != nullptr ? ibv_cq_ex_to_cq(parts) : nullptr, ibv_destroy_cq);
        gone(cq, ibv_destroy_cq);
    }
    void end_domain() {
        gone(mr, ibv_dereg_mr);
        gone(pd, ibv_dealloc_pd);
        if (context != nullptr)
            assert_int_equal(ibv_close_device(context), 0);
    }

    bool to(ibv_qp_state state) {
        ibv_qp_attr attributes{};
        attributes.qp_state = state;
        return did(ibv_modify_qp(qp, &attributes, IBV_QP_STATE));
    }

    template <class type>
    bool made(type *object) {
        if (object == nullptr)
            error = errno;
        return object != nullptr;
    }
    bool did(int result) {
        if (result != 0)
            error = result;
        return result == 0;
    }
    template <class type>
    void gone(type *object, int (*verb)(type *)) {
        if (object == nullptr)
            return;
        if (const int result = verb(object); result != 0) {
            error = result;
            assert_int_equal(verb(object), 0);
        }
    }

  private:
    ibv_qp *pair(ibv_srq *of) {
        ibv_qp_init_attr wanted{};
        wanted.send_cq = wanted.recv_cq = cq;
        wanted.srq = of;
        wanted.cap = {6, 5, 4, 3, 48};
        wanted.qp_type = IBV_QPT_RC;
        wanted.sq_sig_all = 1;
        ibv_qp *const one = ibv_create_qp(pd, &wanted);
        granted = wanted.cap;
        return one;
    }
    ibv_qp *pair_of_parts() {
        ibv_qp_init_attr_ex wanted{};
        wanted.send_cq = wanted.recv_cq = cq;
        wanted.cap = {6, 5, 4, 3, 48};
        wanted.qp_type = IBV_QPT_RC;
        wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        wanted.pd = pd;
        wanted.send_ops_flags = IBV_QP_EX_WITH_SEND;
        ibv_qp *const one = ibv_create_qp_ex(context, &wanted);
        granted = wanted.cap;
        return one;
    }
};

inline void nothing_left(const kernel &in) {
    assert_int_equal(in.objects.size(), 0);
    assert_int_equal(in.mapped(), 0);
}

} // namespace played
