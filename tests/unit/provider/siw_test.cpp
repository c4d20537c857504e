// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The siw driver with the real libibverbs and a fake kernel: the commands it writes, and errors and
// invalid rings, which must not cause a leak.

#include "siw_objects.hpp"

#include <array>
#include <bit>
#include <cerrno>

namespace {

using namespace fake;

void each_object_is_created_and_destroyed_by_its_commands(void **) {
    siw_kernel kernel;
    siw_objects objects(kernel);
    assert_int_equal(objects.error, 0);
    assert_int_equal(kernel.num_rings(), num_rings);
    std::size_t ring_bytes = 0;
    for (std::size_t ring = 0; ring < kernel.num_rings(); ++ring)
        ring_bytes += kernel.ring_size(ring);
    assert_int_equal(kernel.mapped_bytes(), ring_bytes);
    // In the order of creation. The kernel rounds the requested entries up to a power of 2.
    constexpr std::array<std::size_t, num_rings> expected_sizes{
        32 * sizeof(siw_cqe) + sizeof(siw_cq_ctrl),
        16 * sizeof(siw_cqe) + sizeof(siw_cq_ctrl),
        16 * sizeof(siw_rqe),
        8 * sizeof(siw_sqe),
        8 * sizeof(siw_rqe),
        8 * sizeof(siw_sqe),
        8 * sizeof(siw_sqe),
        8 * sizeof(siw_rqe)};
    assert_int_equal(kernel.mappings.size(), expected_sizes.size());
    for (std::size_t i = 0; i < expected_sizes.size(); ++i)
        assert_int_equal(kernel.mappings[i].second, expected_sizes[i]);
    objects.destroy_all();
    assert_no_leak(kernel);
    constexpr std::array<std::uint32_t, 20> expected_commands{
        IB_USER_VERBS_CMD_GET_CONTEXT, IB_USER_VERBS_CMD_ALLOC_PD,   IB_USER_VERBS_CMD_REG_MR,
        IB_USER_VERBS_CMD_REG_MR,      IB_USER_VERBS_CMD_CREATE_CQ,  IB_USER_VERBS_CMD_CREATE_CQ,
        IB_USER_VERBS_CMD_CREATE_SRQ,  IB_USER_VERBS_CMD_CREATE_QP,  IB_USER_VERBS_CMD_CREATE_QP,
        IB_USER_VERBS_CMD_CREATE_QP,   IB_USER_VERBS_CMD_MODIFY_QP,  IB_USER_VERBS_CMD_DESTROY_QP,
        IB_USER_VERBS_CMD_DESTROY_QP,  IB_USER_VERBS_CMD_DESTROY_QP, IB_USER_VERBS_CMD_DESTROY_SRQ,
        IB_USER_VERBS_CMD_DESTROY_CQ,  IB_USER_VERBS_CMD_DESTROY_CQ, IB_USER_VERBS_CMD_DEREG_MR,
        IB_USER_VERBS_CMD_DEREG_MR,    IB_USER_VERBS_CMD_DEALLOC_PD};
    assert_int_equal(kernel.commands.size(), expected_commands.size());
    for (std::size_t i = 0; i < kernel.commands.size(); ++i)
        assert_int_equal(kernel.commands[i].number, expected_commands[i]);
}

void command_fields_match_attributes(siw_kernel &kernel, siw_objects &objects) {
    const auto find = [&](std::uint32_t number, std::size_t nth = 0) -> const command & {
        return kernel.find_command(number, nth);
    };
    assert_int_equal(find(IB_USER_VERBS_CMD_GET_CONTEXT).response_size,
                     sizeof(ib_uverbs_get_context_resp) + sizeof(siw_uresp_alloc_ctx));
    for (const std::size_t nth : {0U, 1U}) {
        const command &reg_mr = find(IB_USER_VERBS_CMD_REG_MR, nth);
        assert_reg_mr_fields(reg_mr, objects,
                             nth == 0 ? IBV_ACCESS_LOCAL_WRITE : IBV_ACCESS_REMOTE_READ);
        // The driver appends the STag's key only, in 8 bytes: it counts the MRs.
        assert_int_equal(reg_mr.bytes.size(), sizeof(ib_uverbs_reg_mr) + 8);
        assert_int_equal(reg_mr.read<std::uint64_t>(sizeof(ib_uverbs_reg_mr)), nth);
        assert_int_equal(reg_mr.response_size,
                         sizeof(ib_uverbs_reg_mr_resp) + sizeof(siw_uresp_reg_mr));
    }
    // The fake kernel's index in the upper 24 bits, the driver's key in the lower 8.
    assert_int_equal(objects.mr->lkey, 1 << 8 | 0);
    assert_int_equal(objects.second_mr->rkey, 2 << 8 | 1);
    const auto cq = find(IB_USER_VERBS_CMD_CREATE_CQ).read<ib_uverbs_create_cq>();
    assert_int_equal(cq.cqe, requested_cqe);
    assert_int_equal(objects.cq->cqe, std::bit_ceil(requested_cqe));
    const auto cq_ex = find(IB_USER_VERBS_CMD_CREATE_CQ, 1).read<ib_uverbs_create_cq>();
    assert_int_equal(cq_ex.cqe, requested_cqe_ex);
    const auto srq = find(IB_USER_VERBS_CMD_CREATE_SRQ).read<ib_uverbs_create_srq>();
    assert_int_equal(srq.max_wr, requested_srq_attr.max_wr);
    assert_int_equal(srq.max_sge, requested_srq_attr.max_sge);
    assert_create_qp_fields(find(IB_USER_VERBS_CMD_CREATE_QP), objects);
    const auto srq_qp = find(IB_USER_VERBS_CMD_CREATE_QP, 1).read<ib_uverbs_create_qp>();
    assert_int_equal(srq_qp.is_srq, 1);
    assert_int_equal(srq_qp.srq_handle, objects.srq->handle);
    const auto qp_ex = find(IB_USER_VERBS_CMD_CREATE_QP, 2).read<ib_uverbs_create_qp>();
    assert_int_equal(qp_ex.max_send_wr, requested_cap.max_send_wr);
    assert_int_equal(qp_ex.sq_sig_all, 0);
    // Rounded up to the ring.
    assert_int_equal(objects.granted_cap.max_send_wr, std::bit_ceil(requested_cap.max_send_wr));
    assert_int_equal(objects.granted_cap.max_recv_wr, std::bit_ceil(requested_cap.max_recv_wr));
    assert_int_equal(objects.granted_cap.max_inline_data, SIW_MAX_INLINE);
    assert_qp_to_rts(find(IB_USER_VERBS_CMD_MODIFY_QP), objects);
}

// A completion that raises an event takes a place in the CQ that the consumer does not know of. The
// kernel is asked for no more CQEs than the consumer asks for, unless that is a power of 2: max_cqe
// is none.
void cq_with_events_has_room_for_their_completion(siw_kernel &kernel, siw_objects &objects) {
    ibv_comp_channel *const channel = ibv_create_comp_channel(objects.context);
    assert_non_null(channel);
    for (const std::uint32_t num_cqe : {1U, 2U, 3U, 4U, 7U, 20U})
        for (ibv_comp_channel *const cq_channel :
             {static_cast<ibv_comp_channel *>(nullptr), channel})
            for (const bool is_ex : {false, true}) {
                ibv_cq_init_attr_ex attr{};
                attr.cqe = num_cqe;
                attr.channel = cq_channel;
                ibv_cq *const cq = is_ex ? ibv_cq_ex_to_cq(ibv_create_cq_ex(objects.context, &attr))
                                         : ibv_create_cq(objects.context, static_cast<int>(num_cqe),
                                                         nullptr, cq_channel, 0);
                assert_non_null(cq);
                assert_int_equal(attr.cqe, num_cqe);
                const std::uint32_t num_places = kernel.num_entries(kernel.num_rings() - 1);
                const bool has_events = cq_channel != nullptr;
                assert_true(cq->cqe >= static_cast<int>(num_cqe));
                assert_int_equal(cq->cqe, num_places - (has_events ? 1 : 0));
                const auto req = kernel.commands.back().read<ib_uverbs_create_cq>();
                assert_int_equal(req.cqe,
                                 num_cqe + (has_events && std::has_single_bit(num_cqe) ? 1 : 0));
                assert_int_equal(ibv_destroy_cq(cq), 0);
            }
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

// libibverbs uses the extended command for create_flags only.
void qp_create_flags_reach_kernel(siw_kernel &kernel, siw_objects &objects) {
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = attr.recv_cq = objects.cq;
    attr.cap = requested_cap;
    attr.qp_type = IBV_QPT_RC;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    attr.pd = objects.pd;
    attr.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
    ibv_qp *const qp = ibv_create_qp_ex(objects.context, &attr);
    assert_non_null(qp);
    assert_int_equal(kernel.commands.back().number,
                     IB_USER_VERBS_EX_CMD_CREATE_QP | fake::extended);
    assert_int_equal(kernel.commands.back().read<ib_uverbs_ex_create_qp>().create_flags,
                     IBV_QP_CREATE_BLOCK_SELF_MCAST_LB);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    // Invalid attributes are refused without a command.
    kernel.commands.clear();
    attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP;
    assert_null(ibv_create_qp_ex(objects.context, &attr));
    assert_int_equal(errno, EOPNOTSUPP);
    attr.comp_mask = 0;
    assert_null(ibv_create_qp_ex(objects.context, &attr));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(kernel.commands.size(), 0);
}

// The kernel creates no receive ring, as for a QP with an SRQ. It refuses an SQ of length zero.
void recv_queue_of_length_zero_has_no_ring(siw_kernel &kernel, siw_objects &objects) {
    kernel.mappings.clear();
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = objects.cq;
    attr.cap.max_send_wr = 6; // the ring has 8 entries
    attr.cap.max_send_sge = 1;
    attr.qp_type = IBV_QPT_RC;
    ibv_qp *const qp = ibv_create_qp(objects.pd, &attr);
    assert_non_null(qp);
    assert_int_equal(attr.cap.max_recv_wr, 0);
    assert_int_equal(kernel.mappings.size(), 1);
    assert_int_equal(kernel.mappings[0].second, 8 * sizeof(siw_sqe));
    ibv_recv_wr recv{9, nullptr, nullptr, 0}, *bad_recv = nullptr;
    assert_int_equal(ibv_post_recv(qp, &recv, &bad_recv), EINVAL);
    assert_ptr_equal(bad_recv, &recv);
    assert_int_equal(post_write(objects, qp, 1), 0);
    constexpr std::size_t new_sq_ring = num_rings; // after those of siw_objects
    assert_int_equal(kernel.sqe(new_sq_ring, 0).id, 1);
    ibv_qp_attr qp_attr{};
    qp_attr.qp_state = IBV_QPS_ERR;
    assert_int_equal(ibv_modify_qp(qp, &qp_attr, IBV_QP_STATE), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

void reg_mr_with_other_iova_fails(siw_kernel &kernel, siw_objects &objects) {
    kernel.commands.clear();
    const auto other_iova = reinterpret_cast<std::uintptr_t>(objects.memory.data()) + 4096;
    errno = 0;
    assert_null(ibv_reg_mr_iova(objects.pd, objects.memory.data(), 8, other_iova, 0));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_int_equal(kernel.commands.size(), 0);
}

// The kernel has neither TDs nor parent domains; objects in a parent domain are created in its PD.
void td_and_parent_domain_need_no_command(siw_kernel &kernel, siw_objects &objects) {
    kernel.commands.clear();
    ibv_td_init_attr td_attr{};
    ibv_td *const td = ibv_alloc_td(objects.context, &td_attr);
    assert_non_null(td);
    ibv_parent_domain_init_attr parent_attr{};
    parent_attr.td = td;
    assert_null(ibv_alloc_parent_domain(objects.context, &parent_attr));
    assert_int_equal(errno, EINVAL);
    parent_attr.pd = objects.pd;
    ibv_pd *const parent_domain = ibv_alloc_parent_domain(objects.context, &parent_attr);
    assert_non_null(parent_domain);
    assert_int_equal(ibv_dealloc_td(td), EBUSY);
    assert_int_equal(ibv_dealloc_pd(objects.pd), EBUSY);
    assert_int_equal(kernel.commands.size(), 0);
    ibv_srq_init_attr srq_attr{};
    srq_attr.attr = {4, 1, 0};
    ibv_srq *const srq = ibv_create_srq(parent_domain, &srq_attr);
    assert_non_null(srq);
    assert_int_equal(kernel.commands.back().read<ib_uverbs_create_srq>().pd_handle,
                     objects.pd->handle);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    kernel.commands.clear();
    assert_int_equal(ibv_dealloc_pd(parent_domain), 0);
    assert_int_equal(ibv_dealloc_td(td), 0);
    assert_int_equal(kernel.commands.size(), 0);
}

#define CORRUPT(statement)                                                                         \
    []([[maybe_unused]] std::uint64_t &key, [[maybe_unused]] std::uint32_t &num_entries) {         \
        statement;                                                                                 \
    }

void invalid_ring_fails_without_leak(void **) {
    using corrupt_function = void (*)(std::uint64_t &, std::uint32_t &);
    struct corruption {
        int error;
        corrupt_function corrupt;
    };
    // The driver detects EPROTO; the kernel refuses to map the others.
    constexpr std::array<corruption, 10> corruptions{{
        {EPROTO, CORRUPT(num_entries = 0)},
        {EPROTO, CORRUPT(num_entries -= 1)},
        {EPROTO, CORRUPT(num_entries += 1)},
        {EPROTO, CORRUPT(num_entries = 0xffffffff)},
        {EPROTO, CORRUPT(num_entries = 1U << 25)},
        {EPROTO, CORRUPT(key |= std::uint64_t{1} << 63)},
        {EPROTO, CORRUPT(key = ~std::uint64_t{0} - 4095)},
        {EINVAL, CORRUPT(num_entries *= 512)},
        {EINVAL, CORRUPT(key += 1)},
        {EINVAL, CORRUPT(key += std::uint64_t{1} << 30)},
    }};
    for (const corruption &tested : corruptions)
        for (std::size_t ring = 0; ring < num_rings; ++ring) {
            siw_kernel kernel;
            std::size_t count = 0;
            kernel.corrupt = [&](std::uint64_t &key, std::uint32_t &num_entries) {
                if (count++ == ring)
                    tested.corrupt(key, num_entries);
            };
            siw_objects objects(kernel);
            assert_int_equal(objects.error, tested.error);
            // The driver does not map a ring that it refuses.
            assert_int_equal(kernel.mappings.size(), tested.error == EPROTO ? ring : ring + 1);
            objects.destroy_all();
            assert_no_leak(kernel);
        }
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(each_object_is_created_and_destroyed_by_its_commands),
        objects_unit_test(command_fields_match_attributes),
        objects_unit_test(cq_with_events_has_room_for_their_completion),
        objects_unit_test(qp_create_flags_reach_kernel),
        objects_unit_test(recv_queue_of_length_zero_has_no_ring),
        objects_unit_test(reg_mr_with_other_iova_fails),
        objects_unit_test(td_and_parent_domain_need_no_command),
        no_leak_unit_test(siw_kernel, siw_objects),
        cmocka_unit_test(invalid_ring_fails_without_leak),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
