// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Our driver for siw, through the real libibverbs, against a kernel played by this program: what it
// writes, command by command; and what it makes of errors and lies, of which none may leave
// anything behind.

#include "played_siw_life.hpp"

#include <array>
#include <cerrno>
#include <cstdio>

namespace {

using namespace played;
using kernel = siw_kernel;
using life = siw_life;

void each_object_by_its_commands(void **) {
    kernel in;
    life all(in);
    assert_int_equal(all.error, 0);
    assert_int_equal(in.rings(), rings);
    std::size_t all_bytes = 0;
    for (std::size_t ring = 0; ring < in.rings(); ++ring)
        all_bytes += in.size(ring);
    assert_int_equal(in.mapped(), all_bytes);
    constexpr std::array<std::size_t, rings> lengths{32 * sizeof(siw_cqe) + sizeof(siw_cq_ctrl),
                                                     16 * sizeof(siw_cqe) + sizeof(siw_cq_ctrl),
                                                     16 * sizeof(siw_rqe),
                                                     8 * sizeof(siw_sqe),
                                                     8 * sizeof(siw_rqe),
                                                     8 * sizeof(siw_sqe),
                                                     8 * sizeof(siw_sqe),
                                                     8 * sizeof(siw_rqe)};
    assert_int_equal(in.mappings.size(), lengths.size());
    for (std::size_t each = 0; each < lengths.size(); ++each)
        assert_int_equal(in.mappings[each].second, lengths[each]);
    all.end();
    nothing_left(in);
    constexpr std::array<std::uint32_t, 20> script{
        IB_USER_VERBS_CMD_GET_CONTEXT, IB_USER_VERBS_CMD_ALLOC_PD,   IB_USER_VERBS_CMD_REG_MR,
        IB_USER_VERBS_CMD_REG_MR,      IB_USER_VERBS_CMD_CREATE_CQ,  IB_USER_VERBS_CMD_CREATE_CQ,
        IB_USER_VERBS_CMD_CREATE_SRQ,  IB_USER_VERBS_CMD_CREATE_QP,  IB_USER_VERBS_CMD_CREATE_QP,
        IB_USER_VERBS_CMD_CREATE_QP,   IB_USER_VERBS_CMD_MODIFY_QP,  IB_USER_VERBS_CMD_DESTROY_QP,
        IB_USER_VERBS_CMD_DESTROY_QP,  IB_USER_VERBS_CMD_DESTROY_QP, IB_USER_VERBS_CMD_DESTROY_SRQ,
        IB_USER_VERBS_CMD_DESTROY_CQ,  IB_USER_VERBS_CMD_DESTROY_CQ, IB_USER_VERBS_CMD_DEREG_MR,
        IB_USER_VERBS_CMD_DEREG_MR,    IB_USER_VERBS_CMD_DEALLOC_PD};
    assert_int_equal(in.heard.size(), script.size());
    for (std::size_t place = 0; place < in.heard.size(); ++place)
        assert_int_equal(in.heard[place].number, script[place]);
}

void fields_are_those_asked_for(void **) {
    kernel in;
    life all(in);
    assert_int_equal(in.heard[0].room, 8 + sizeof(siw_uresp_alloc_ctx));
    for (const std::size_t place : {2U, 3U}) {
        const auto mr = in.heard[place].as<ib_uverbs_reg_mr>();
        assert_int_equal(mr.start, reinterpret_cast<std::uintptr_t>(all.memory.data()));
        assert_int_equal(mr.hca_va, mr.start);
        assert_int_equal(mr.length, all.memory.size());
        assert_int_equal(mr.pd_handle, all.pd->handle);
        assert_int_equal(mr.access_flags,
                         place == 2 ? IBV_ACCESS_LOCAL_WRITE : IBV_ACCESS_REMOTE_READ);
        // Another key each time, and nothing else.
        assert_int_equal(in.heard[place].bytes.size(), sizeof(ib_uverbs_reg_mr) + 8);
        assert_int_equal(in.heard[place].as<std::uint64_t>(sizeof(ib_uverbs_reg_mr)), place - 2);
        assert_int_equal(in.heard[place].room, 12 + sizeof(siw_uresp_reg_mr));
    }
    assert_int_equal(all.mr->lkey, 0x100);
    assert_int_equal(all.again->rkey, 0x201);
    assert_int_equal(in.heard[4].as<ib_uverbs_create_cq>().cqe, 20);
    assert_int_equal(all.cq->cqe, 32);
    assert_int_equal(in.heard[5].as<ib_uverbs_create_cq>().cqe, 10);
    const auto srq = in.heard[6].as<ib_uverbs_create_srq>();
    assert_int_equal(srq.max_wr, 12);
    assert_int_equal(srq.max_sge, 2);
    const auto pair = in.heard[7].as<ib_uverbs_create_qp>();
    assert_int_equal(pair.pd_handle, all.pd->handle);
    assert_int_equal(pair.send_cq_handle, all.cq->handle);
    assert_int_equal(pair.recv_cq_handle, all.cq->handle);
    assert_int_equal(pair.max_send_wr, 6);
    assert_int_equal(pair.max_recv_wr, 5);
    assert_int_equal(pair.max_send_sge, 4);
    assert_int_equal(pair.max_recv_sge, 3);
    assert_int_equal(pair.max_inline_data, 48);
    assert_int_equal(pair.sq_sig_all, 1);
    assert_int_equal(pair.qp_type, IBV_QPT_RC);
    assert_int_equal(pair.is_srq, 0);
    const auto sharing = in.heard[8].as<ib_uverbs_create_qp>();
    assert_int_equal(sharing.is_srq, 1);
    assert_int_equal(sharing.srq_handle, all.srq->handle);
    const auto by_parts = in.heard[9].as<ib_uverbs_create_qp>();
    assert_int_equal(by_parts.max_send_wr, 6);
    assert_int_equal(by_parts.sq_sig_all, 0);
    assert_int_equal(all.granted.max_send_wr, 8); // what there is
    assert_int_equal(all.granted.max_recv_wr, 8);
    assert_int_equal(all.granted.max_inline_data, SIW_MAX_INLINE);
    const auto to_rts = in.heard[10].as<ib_uverbs_modify_qp>();
    assert_int_equal(to_rts.qp_handle, all.qp->handle);
    assert_int_equal(to_rts.attr_mask, IBV_QP_STATE);
    assert_int_equal(to_rts.qp_state, IBV_QPS_RTS);
    all.end();
    nothing_left(in);
}

// Only then libibverbs needs the longer command.
void flags_of_a_pair_are_the_kernels_to_judge(void **) {
    kernel in;
    life all(in);
    ibv_qp_init_attr_ex wanted{};
    wanted.send_cq = wanted.recv_cq = all.cq;
    wanted.cap = {6, 5, 4, 3, 0};
    wanted.qp_type = IBV_QPT_RC;
    wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    wanted.pd = all.pd;
    wanted.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
    ibv_qp *const qp = ibv_create_qp_ex(all.context, &wanted);
    assert_non_null(qp);
    assert_int_equal(in.heard.back().number, IB_USER_VERBS_EX_CMD_CREATE_QP | played::extended);
    assert_int_equal(in.heard.back().as<ib_uverbs_ex_create_qp>().create_flags,
                     IBV_QP_CREATE_BLOCK_SELF_MCAST_LB);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    in.heard.clear();
    wanted.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    wanted.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP;
    assert_null(ibv_create_qp_ex(all.context, &wanted));
    assert_int_equal(errno, EOPNOTSUPP);
    wanted.comp_mask = 0;
    assert_null(ibv_create_qp_ex(all.context, &wanted));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(in.heard.size(), 0);
    all.end();
    nothing_left(in);
}

void memory_is_known_by_its_own_address_only(void **) {
    kernel in;
    life all(in);
    in.heard.clear();
    const auto elsewhere = reinterpret_cast<std::uintptr_t>(all.memory.data()) + 4096;
    errno = 0;
    assert_null(ibv_reg_mr_iova(all.pd, all.memory.data(), 8, elsewhere, 0));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_int_equal(in.heard.size(), 0);
    all.end();
    nothing_left(in);
}

// The kernel knows neither: what is made in a parent domain is made in the one under it.
void thread_and_parent_domains_are_the_programs_own(void **) {
    kernel in;
    life all(in);
    in.heard.clear();
    ibv_td_init_attr nothing{};
    ibv_td *const thread = ibv_alloc_td(all.context, &nothing);
    assert_non_null(thread);
    ibv_parent_domain_init_attr over{};
    over.td = thread;
    assert_null(ibv_alloc_parent_domain(all.context, &over));
    assert_int_equal(errno, EINVAL);
    over.pd = all.pd;
    ibv_pd *const parent = ibv_alloc_parent_domain(all.context, &over);
    assert_non_null(parent);
    assert_int_equal(ibv_dealloc_td(thread), EBUSY);
    assert_int_equal(ibv_dealloc_pd(all.pd), EBUSY);
    assert_int_equal(in.heard.size(), 0);
    ibv_srq_init_attr shared{};
    shared.attr = {4, 1, 0};
    ibv_srq *const srq = ibv_create_srq(parent, &shared);
    assert_non_null(srq);
    assert_int_equal(in.heard.back().as<ib_uverbs_create_srq>().pd_handle, all.pd->handle);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    in.heard.clear();
    assert_int_equal(ibv_dealloc_pd(parent), 0);
    assert_int_equal(ibv_dealloc_td(thread), 0);
    assert_int_equal(in.heard.size(), 0);
    all.end();
    nothing_left(in);
}

void an_error_at_any_command_leaves_nothing(void **) {
    std::size_t commands = 0;
    {
        kernel in;
        life all(in);
        all.end();
        commands = in.heard.size();
    }
    for (std::size_t fails = 0; fails < commands; ++fails) {
        kernel in;
        in.fails = fails;
        life all(in);
        all.end();
        if (all.error != in.error)
            std::fprintf(stderr, "command %zu fails: errno %d\n", fails, all.error);
        assert_int_equal(all.error, in.error);
        nothing_left(in);
    }
}

void a_lie_about_any_ring_is_an_error_and_leaves_nothing(void **) {
    using lies_so = void (*)(std::uint64_t &, std::uint32_t &);
    struct told {
        int error;
        lies_so lie;
    };
    // What is only not so, the kernel refuses to map.
    constexpr std::array<told, 10> lies{{
        {EPROTO,
         [](std::uint64_t &, std::uint32_t &slots) {
             slots = 0;
         }},
        {EPROTO,
         [](std::uint64_t &, std::uint32_t &slots) {
             slots -= 1;
         }},
        {EPROTO,
         [](std::uint64_t &, std::uint32_t &slots) {
             slots += 1;
         }},
        {EPROTO,
         [](std::uint64_t &, std::uint32_t &slots) {
             slots = 0xffffffff;
         }},
        {EPROTO,
         [](std::uint64_t &, std::uint32_t &slots) {
             slots = 1U << 25;
         }},
        {EPROTO,
         [](std::uint64_t &key, std::uint32_t &) {
             key |= std::uint64_t{1} << 63;
         }},
        {EPROTO,
         [](std::uint64_t &key, std::uint32_t &) {
             key = ~std::uint64_t{0} - 4095;
         }},
        {EINVAL,
         [](std::uint64_t &, std::uint32_t &slots) {
             slots *= 512;
         }},
        {EINVAL,
         [](std::uint64_t &key, std::uint32_t &) {
             key += 1;
         }},
        {EINVAL,
         [](std::uint64_t &key, std::uint32_t &) {
             key += std::uint64_t{1} << 30;
         }},
    }};
    for (const told &each : lies)
        for (std::size_t which = 0; which < rings; ++which) {
            kernel in;
            std::size_t count = 0;
            in.lie = [&](std::uint64_t &key, std::uint32_t &slots) {
                if (count++ == which)
                    each.lie(key, slots);
            };
            life all(in);
            assert_int_equal(all.error, each.error);
            // What cannot be is not even asked for.
            assert_int_equal(in.mappings.size(), each.error == EPROTO ? which : which + 1);
            all.end();
            nothing_left(in);
        }
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(each_object_by_its_commands),
        cmocka_unit_test(fields_are_those_asked_for),
        cmocka_unit_test(flags_of_a_pair_are_the_kernels_to_judge),
        cmocka_unit_test(memory_is_known_by_its_own_address_only),
        cmocka_unit_test(thread_and_parent_domains_are_the_programs_own),
        cmocka_unit_test(an_error_at_any_command_leaves_nothing),
        cmocka_unit_test(a_lie_about_any_ring_is_an_error_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
