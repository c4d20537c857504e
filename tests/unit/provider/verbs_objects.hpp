// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The verbs objects of a program on a fake device, created and destroyed with the real libibverbs.
#pragma once

#include "../cmocka.hpp"
#include "fake_kernel.hpp"

namespace fake {

/// What verbs_objects requests of the kernel.
inline constexpr std::uint32_t requested_cqe = 20, requested_cqe_ex = 10;
inline constexpr ibv_srq_attr requested_srq_attr{.max_wr = 12, .max_sge = 2, .srq_limit = 0};
inline constexpr ibv_qp_cap requested_cap{.max_send_wr = 6,
                                          .max_recv_wr = 5,
                                          .max_send_sge = 4,
                                          .max_recv_sge = 3,
                                          .max_inline_data = 48};
/// Of the work requests that tests post.
inline constexpr std::uint32_t wr_length = 24, wr_rkey = 0x77;
inline constexpr std::uint64_t wr_remote_addr = 0xabcd0123;

/// One object of each type. Creation stops at the first error. A destroy call that fails must leave
/// the object; it is repeated once.
class verbs_objects {
  public:
    ibv_context *context = nullptr;
    ibv_pd *pd = nullptr;
    ibv_mr *mr = nullptr;
    ibv_cq *cq = nullptr;
    ibv_cq_ex *cq_ex = nullptr;
    ibv_srq *srq = nullptr;
    ibv_qp *qp = nullptr, *srq_qp = nullptr, *qp_ex = nullptr;
    ibv_qp_cap granted_cap{}; ///< of the QP created last
    int error = 0;            ///< of the last failed call
    std::array<unsigned char, 256> memory{};

    explicit verbs_objects(kernel &kernel) { check_created(context = kernel.open()); }
    verbs_objects(const verbs_objects &) = delete;
    verbs_objects &operator=(const verbs_objects &) = delete;

    bool create_pd_and_mr() {
        constexpr int access = IBV_ACCESS_LOCAL_WRITE;
        return context != nullptr && check_created(pd = ibv_alloc_pd(context)) &&
               check_created(mr = ibv_reg_mr(pd, memory.data(), memory.size(), access));
    }
    bool create_queues() {
        ibv_cq_init_attr_ex cq_attr{};
        cq_attr.cqe = requested_cqe_ex;
        ibv_srq_init_attr srq_attr{};
        srq_attr.attr = requested_srq_attr;
        return check_created(cq = ibv_create_cq(context, requested_cqe, nullptr, nullptr, 0)) &&
               check_created(cq_ex = ibv_create_cq_ex(context, &cq_attr)) &&
               check_created(srq = ibv_create_srq(pd, &srq_attr)) &&
               check_created(qp = create_qp(nullptr, cq)) &&
               check_created(srq_qp = create_qp(srq, cq)) && check_created(qp_ex = create_qp_ex());
    }
    void destroy_queues() {
        destroy(qp_ex, ibv_destroy_qp);
        destroy(srq_qp, ibv_destroy_qp);
        destroy(qp, ibv_destroy_qp);
        destroy(srq, ibv_destroy_srq);
        destroy(cq_ex != nullptr ? ibv_cq_ex_to_cq(cq_ex) : nullptr, ibv_destroy_cq);
        destroy(cq, ibv_destroy_cq);
    }
    void destroy_pd_and_mr() {
        destroy(mr, ibv_dereg_mr);
        destroy(pd, ibv_dealloc_pd);
        if (context != nullptr)
            assert_int_equal(ibv_close_device(context), 0);
    }

    bool modify_qp(ibv_qp_state state) {
        ibv_qp_attr attr{};
        attr.qp_state = state;
        return check_result(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
    }

    /// Both return whether a call succeeded, and record its error.
    template <class type>
    bool check_created(type *object) {
        if (object == nullptr)
            error = errno;
        return object != nullptr;
    }
    bool check_result(int result) {
        if (result != 0)
            error = result;
        return result == 0;
    }
    template <class type>
    void destroy(type *object, int (*destroy_verb)(type *)) {
        if (object == nullptr)
            return;
        if (const int result = destroy_verb(object); result != 0) {
            error = result;
            assert_int_equal(destroy_verb(object), 0);
        }
    }

    /// An RC QP whose completions go to a CQ.
    ibv_qp *create_qp(ibv_srq *qp_srq, ibv_cq *qp_cq, ibv_qp_type type = IBV_QPT_RC) {
        ibv_qp_init_attr attr{};
        attr.send_cq = attr.recv_cq = qp_cq;
        attr.srq = qp_srq;
        attr.cap = requested_cap;
        attr.qp_type = type;
        attr.sq_sig_all = 1;
        ibv_qp *const new_qp = ibv_create_qp(pd, &attr);
        granted_cap = attr.cap;
        return new_qp;
    }

  private:
    ibv_qp *create_qp_ex() {
        ibv_qp_init_attr_ex attr{};
        attr.send_cq = attr.recv_cq = cq;
        attr.cap = requested_cap;
        attr.qp_type = IBV_QPT_RC;
        attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        attr.pd = pd;
        attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
        ibv_qp *const new_qp = ibv_create_qp_ex(context, &attr);
        granted_cap = attr.cap;
        return new_qp;
    }
};

inline void assert_no_leak(const kernel &kernel) {
    assert_int_equal(kernel.objects.size(), 0);
    assert_int_equal(kernel.mapped_bytes(), 0);
}

/// Runs a test with all objects of a device, and checks that none is leaked.
template <class kernel_type, class objects_type>
void run(void (*test)(kernel_type &, objects_type &)) {
    kernel_type kernel;
    objects_type objects(kernel);
    test(kernel, objects);
    objects.destroy_all();
    assert_no_leak(kernel);
}
template <auto test>
void run_with_objects(void **) {
    run(test);
}
#define objects_unit_test(test)                                                                    \
    { #test, fake::run_with_objects < test>, nullptr, nullptr, nullptr }

// Creates and destroys all objects once for each command of that sequence, which fails.
template <class kernel_type, class objects_type>
void no_leak_after_any_failed_command(void **) {
    std::size_t num_commands = 0;
    {
        kernel_type kernel;
        objects_type objects(kernel);
        objects.destroy_all();
        num_commands = kernel.commands.size();
    }
    for (std::size_t index = 0; index < num_commands; ++index) {
        kernel_type kernel;
        kernel.failing_command = index;
        objects_type objects(kernel);
        objects.destroy_all();
        if (objects.error != kernel.error)
            fail_msg("command %zu fails: errno %d", index, objects.error);
        assert_no_leak(kernel);
    }
}
#define no_leak_unit_test(kernel_type, objects_type)                                               \
    {                                                                                              \
        "no_leak_after_any_failed_command",                                                        \
            fake::no_leak_after_any_failed_command<kernel_type, objects_type>, nullptr, nullptr,   \
            nullptr                                                                                \
    }

/// Asserts that the command has the attributes of create_qp().
inline void assert_create_qp_fields(const command &cmd, const verbs_objects &objects) {
    const auto qp = cmd.read<ib_uverbs_create_qp>();
    assert_int_equal(qp.pd_handle, objects.pd->handle);
    assert_int_equal(qp.send_cq_handle, objects.cq->handle);
    assert_int_equal(qp.recv_cq_handle, objects.cq->handle);
    assert_int_equal(qp.max_send_wr, requested_cap.max_send_wr);
    assert_int_equal(qp.max_recv_wr, requested_cap.max_recv_wr);
    assert_int_equal(qp.max_send_sge, requested_cap.max_send_sge);
    assert_int_equal(qp.max_recv_sge, requested_cap.max_recv_sge);
    assert_int_equal(qp.max_inline_data, requested_cap.max_inline_data);
    assert_int_equal(qp.sq_sig_all, 1);
    assert_int_equal(qp.qp_type, IBV_QPT_RC);
    assert_int_equal(qp.is_srq, 0);
}

inline void assert_qp_to_rts(const command &cmd, const verbs_objects &objects) {
    const auto modify = cmd.read<ib_uverbs_modify_qp>();
    assert_int_equal(modify.qp_handle, objects.qp->handle);
    assert_int_equal(modify.attr_mask, IBV_QP_STATE);
    assert_int_equal(modify.qp_state, IBV_QPS_RTS);
}

inline void assert_reg_mr_fields(const command &cmd, const verbs_objects &objects, int access) {
    const auto mr = cmd.read<ib_uverbs_reg_mr>();
    assert_int_equal(mr.start, reinterpret_cast<std::uintptr_t>(objects.memory.data()));
    assert_int_equal(mr.hca_va, mr.start);
    assert_int_equal(mr.length, objects.memory.size());
    assert_int_equal(mr.pd_handle, objects.pd->handle);
    assert_int_equal(mr.access_flags, access);
}

/// Asserts that the command is a doorbell of 32 bytes: no WR, and a WQE size that the kernel
/// accepts.
inline void assert_doorbell(const command &cmd, const ibv_qp *qp) {
    assert_int_equal(cmd.number, IB_USER_VERBS_CMD_POST_SEND);
    assert_int_equal(cmd.bytes.size(), 32 - sizeof(ib_uverbs_cmd_hdr));
    assert_int_not_equal(cmd.response, 0);
    const auto doorbell = cmd.read<ib_uverbs_post_send>();
    assert_int_equal(doorbell.qp_handle, qp->handle);
    assert_int_equal(doorbell.wr_count, 0);
    assert_int_equal(doorbell.sge_count, 0);
    assert_in_range(doorbell.wqe_size, sizeof(ib_uverbs_send_wr), 4096);
}

} // namespace fake
