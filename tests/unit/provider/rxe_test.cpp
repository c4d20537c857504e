// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The rxe driver with the real libibverbs and a fake kernel: the commands it writes, errors, which
// must not cause a leak, and invalid rings and indices, which must not lead outside a ring.

#include "fake_rxe.hpp"
#include "verbs_objects.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <initializer_list>

namespace {

using fake::assert_no_leak;
using fake::command;
using fake::rxe_kernel;
using fake::wr_length, fake::wr_remote_addr, fake::wr_rkey;
namespace rxe = coherdma::provider::rxe;

// One object of each type, a CQ and an SRQ that were resized, and an RC QP in RTS.
class rxe_objects : public fake::verbs_objects {
  public:
    static constexpr int resized_cqe = 40;
    static constexpr std::uint32_t modified_srq_max_wr = 30;

    ibv_mw *mw = nullptr;
    ibv_ah *ah = nullptr;

    explicit rxe_objects(rxe_kernel &kernel)
        : verbs_objects(kernel) {
        ibv_ah_attr ah_attr{};
        ah_attr.port_num = 1;
        ibv_srq_attr srq_attr{};
        srq_attr.max_wr = modified_srq_max_wr;
        create_pd_and_mr() && check_created(mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2)) &&
            check_created(ah = ibv_create_ah(pd, &ah_attr)) && create_queues() &&
            check_result(ibv_resize_cq(cq, resized_cqe)) &&
            check_result(ibv_modify_srq(srq, &srq_attr, IBV_SRQ_MAX_WR)) &&
            modify_qp(IBV_QPS_INIT) && modify_qp(IBV_QPS_RTR) && modify_qp(IBV_QPS_RTS);
    }
    void destroy_all() {
        destroy_queues();
        destroy(ah, ibv_destroy_ah);
        destroy(mw, ibv_dealloc_mw);
        destroy_pd_and_mr();
    }
};

void each_object_is_created_and_destroyed_by_its_commands(void **) {
    rxe_kernel kernel;
    rxe_objects objects(kernel);
    assert_int_equal(objects.error, 0);
    // Of two CQs, an SRQ, three QPs (one of them with the SRQ), a resized CQ and a resized SRQ.
    constexpr std::size_t replaced_cq_ring = 0, replaced_srq_ring = 2;
    assert_int_equal(kernel.num_rings(), 2 + 1 + 3 * 2 - 1 + 2);
    std::size_t ring_bytes = 0;
    for (std::size_t ring = 0; ring < kernel.num_rings(); ++ring)
        ring_bytes += kernel.ring_size(ring);
    assert_int_equal(kernel.mapped_bytes(), ring_bytes - kernel.ring_size(replaced_cq_ring) -
                                                kernel.ring_size(replaced_srq_ring));
    objects.destroy_all();
    assert_no_leak(kernel);
    // The extended forms of two commands have the same number.
    constexpr std::array<std::uint32_t, 26> expected_commands{
        IB_USER_VERBS_CMD_GET_CONTEXT, IB_USER_VERBS_CMD_ALLOC_PD,    IB_USER_VERBS_CMD_REG_MR,
        IB_USER_VERBS_CMD_ALLOC_MW,    IB_USER_VERBS_CMD_CREATE_AH,   IB_USER_VERBS_CMD_CREATE_CQ,
        IB_USER_VERBS_CMD_CREATE_CQ,   IB_USER_VERBS_CMD_CREATE_SRQ,  IB_USER_VERBS_CMD_CREATE_QP,
        IB_USER_VERBS_CMD_CREATE_QP,   IB_USER_VERBS_CMD_CREATE_QP,   IB_USER_VERBS_CMD_RESIZE_CQ,
        IB_USER_VERBS_CMD_MODIFY_SRQ,  IB_USER_VERBS_CMD_MODIFY_QP,   IB_USER_VERBS_CMD_MODIFY_QP,
        IB_USER_VERBS_CMD_MODIFY_QP,   IB_USER_VERBS_CMD_DESTROY_QP,  IB_USER_VERBS_CMD_DESTROY_QP,
        IB_USER_VERBS_CMD_DESTROY_QP,  IB_USER_VERBS_CMD_DESTROY_SRQ, IB_USER_VERBS_CMD_DESTROY_CQ,
        IB_USER_VERBS_CMD_DESTROY_CQ,  IB_USER_VERBS_CMD_DESTROY_AH,  IB_USER_VERBS_CMD_DEALLOC_MW,
        IB_USER_VERBS_CMD_DEREG_MR,    IB_USER_VERBS_CMD_DEALLOC_PD};
    assert_int_equal(kernel.commands.size(), expected_commands.size());
    for (std::size_t i = 0; i < kernel.commands.size(); ++i)
        assert_int_equal(kernel.commands[i].number & ~fake::extended, expected_commands[i]);
}

void command_fields_match_attributes(rxe_kernel &kernel, rxe_objects &objects) {
    const auto find = [&](std::uint32_t number, std::size_t nth = 0) -> const command & {
        return kernel.find_command(number, nth);
    };
    assert_reg_mr_fields(find(IB_USER_VERBS_CMD_REG_MR), objects, IBV_ACCESS_LOCAL_WRITE);
    assert_int_equal(objects.mr->lkey, rxe_kernel::mr_lkey);
    assert_int_equal(objects.mr->rkey, rxe_kernel::mr_rkey);
    assert_int_equal(find(IB_USER_VERBS_CMD_ALLOC_MW).read<ib_uverbs_alloc_mw>().mw_type,
                     IBV_MW_TYPE_2);
    assert_int_equal(find(IB_USER_VERBS_CMD_CREATE_CQ).read<ib_uverbs_create_cq>().cqe,
                     fake::requested_cqe);
    assert_create_qp_fields(find(IB_USER_VERBS_CMD_CREATE_QP), objects);
    const auto srq_qp = find(IB_USER_VERBS_CMD_CREATE_QP, 1).read<ib_uverbs_create_qp>();
    assert_int_equal(srq_qp.is_srq, 1);
    assert_int_equal(srq_qp.srq_handle, objects.srq->handle);
    assert_int_equal(objects.qp->qp_num, rxe_kernel::qp_num);
    const auto resize = find(IB_USER_VERBS_CMD_RESIZE_CQ).read<ib_uverbs_resize_cq>();
    assert_int_equal(resize.cq_handle, objects.cq->handle);
    assert_int_equal(resize.cqe, rxe_objects::resized_cqe);
    constexpr std::size_t to_rts = 2; // after INIT and RTR
    assert_qp_to_rts(find(IB_USER_VERBS_CMD_MODIFY_QP, to_rts), objects);
}

// The kernel returns one invalid ring, which the driver detects (EPROTO) or the fake kernel refuses
// to map (EINVAL).
void invalid_ring_fails_without_leak(void **) {
    std::size_t num_rings = 0;
    {
        rxe_kernel kernel;
        rxe_objects objects(kernel);
        objects.destroy_all();
        num_rings = kernel.num_rings();
    }
    using corruption = void (*)(rxe::mminfo &, rxe::rxe_queue_buf &);
    constexpr std::array<corruption, 8> corruptions{
        [](rxe::mminfo &mi, rxe::rxe_queue_buf &) { mi.size = 0; },
        [](rxe::mminfo &mi, rxe::rxe_queue_buf &) { mi.size = sizeof(rxe::rxe_queue_buf); },
        [](rxe::mminfo &mi, rxe::rxe_queue_buf &) { mi.offset += 1; },
        [](rxe::mminfo &mi, rxe::rxe_queue_buf &) { mi.offset = ~std::uint64_t{0} - 4095; },
        [](rxe::mminfo &, rxe::rxe_queue_buf &buf) { buf.index_mask = 0xffffffff; },
        [](rxe::mminfo &, rxe::rxe_queue_buf &buf) { buf.index_mask -= 1; },
        [](rxe::mminfo &, rxe::rxe_queue_buf &buf) { buf.log2_elem_size = 2; },
        [](rxe::mminfo &, rxe::rxe_queue_buf &buf) {
            buf.log2_elem_size = 70;
        }};
    for (const corruption corrupt : corruptions)
        for (std::size_t ring = 0; ring < num_rings; ++ring) {
            rxe_kernel kernel;
            std::size_t count = 0;
            kernel.corrupt = [&](rxe::mminfo &mi, rxe::rxe_queue_buf &buf) {
                if (count++ == ring)
                    corrupt(mi, buf);
            };
            rxe_objects objects(kernel);
            assert_true(objects.error == EPROTO || objects.error == EINVAL);
            objects.destroy_all();
            assert_no_leak(kernel);
        }
}

// A signaled RDMA Write of the registered memory. It refers to sge.
ibv_send_wr write_wr(const rxe_objects &objects, ibv_sge &sge) {
    sge = {reinterpret_cast<std::uintptr_t>(objects.memory.data()), wr_length, objects.mr->lkey};
    ibv_send_wr wr{};
    wr.wr_id = 0x1122334455667788;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = wr_remote_addr;
    wr.wr.rdma.rkey = wr_rkey;
    return wr;
}

// The driver writes the shortest command that the kernel accepts, and one doorbell for a list of
// WRs.
void doorbell_and_req_notify_have_minimal_size(rxe_kernel &kernel, rxe_objects &objects) {
    ibv_sge sge{};
    ibv_send_wr wr = write_wr(objects, sge), second = wr, *bad_wr = nullptr;
    wr.next = &second;
    kernel.commands.clear();
    assert_int_equal(ibv_post_send(objects.qp, &wr, &bad_wr), 0);
    assert_int_equal(kernel.commands.size(), 1);
    assert_doorbell(kernel.commands[0], objects.qp);
    for (const int solicited : {0, 1}) {
        kernel.commands.clear();
        assert_int_equal(ibv_req_notify_cq(objects.cq, solicited), 0);
        assert_int_equal(kernel.commands.size(), 1);
        assert_int_equal(kernel.commands[0].number, IB_USER_VERBS_CMD_REQ_NOTIFY_CQ);
        assert_int_equal(kernel.commands[0].bytes.size(), 16 - sizeof(ib_uverbs_cmd_hdr));
        const auto notify = kernel.commands[0].read<ib_uverbs_req_notify_cq>();
        assert_int_equal(notify.cq_handle, objects.cq->handle);
        assert_int_equal(notify.solicited_only, solicited);
    }
}

void failed_doorbell_fails_post_send(rxe_kernel &kernel, rxe_objects &objects) {
    ibv_sge sge{};
    ibv_send_wr wr = write_wr(objects, sge), *bad_wr = nullptr;
    kernel.commands.clear();
    kernel.failing_command = 0;
    assert_int_equal(ibv_post_send(objects.qp, &wr, &bad_wr), ENOSPC);
    assert_ptr_equal(bad_wr, &wr);
    // The driver's short req_notify_cq command fails, so the driver calls libibverbs' function.
    kernel.commands.clear();
    assert_int_equal(ibv_req_notify_cq(objects.cq, 0), 0);
    assert_int_equal(kernel.commands.size(), 2);
}

// A QP's receive ring is created before its send ring.
constexpr std::size_t rq_ring = 3, sq_ring = 4, cq_ring = 8;

unsigned char *entry_at(const rxe_kernel &kernel, std::size_t ring, std::uint32_t number) {
    rxe::rxe_queue_buf &buf = kernel.ring(ring);
    return reinterpret_cast<unsigned char *>(&buf + 1) +
           (std::size_t{number} << buf.log2_elem_size);
}

void wqe_has_all_fields_read_by_kernel(rxe_kernel &kernel, rxe_objects &objects) {
    rxe::rxe_queue_buf &buf = kernel.ring(sq_ring);
    std::memset(entry_at(kernel, sq_ring, 0), 0xff, std::size_t{1} << buf.log2_elem_size);
    ibv_sge sge{};
    ibv_send_wr wr = write_wr(objects, sge), *bad_wr = nullptr;
    assert_int_equal(ibv_post_send(objects.qp, &wr, &bad_wr), 0);
    assert_int_equal(buf.producer_index, 1);
    rxe::rxe_send_wqe wqe{};
    std::memcpy(&wqe, entry_at(kernel, sq_ring, 0), sizeof wqe);
    assert_int_equal(wqe.wr.wr_id, wr.wr_id);
    assert_int_equal(wqe.wr.opcode, IBV_WR_RDMA_WRITE);
    assert_int_equal(wqe.wr.send_flags, IBV_SEND_SIGNALED);
    assert_int_equal(wqe.wr.wr.rdma.remote_addr, wr_remote_addr);
    assert_int_equal(wqe.wr.wr.rdma.rkey, wr_rkey);
    assert_int_equal(wqe.iova, wr_remote_addr);
    assert_int_equal(wqe.status, 0);
    assert_int_equal(wqe.state, 0);
    assert_int_equal(wqe.has_rd_atomic, 0);
    assert_int_equal(wqe.dma.length, wr_length);
    assert_int_equal(wqe.dma.resid, wr_length);
    assert_int_equal(wqe.dma.cur_sge, 0);
    assert_int_equal(wqe.dma.num_sge, 1);
    assert_int_equal(wqe.dma.sge_offset, 0);
    assert_memory_equal(entry_at(kernel, sq_ring, 0) + sizeof wqe, &sge, sizeof sge);
    ibv_recv_wr recv_wr{9, nullptr, &sge, 1}, *bad_recv_wr = nullptr;
    kernel.commands.clear();
    assert_int_equal(ibv_post_recv(objects.qp, &recv_wr, &bad_recv_wr), 0);
    assert_int_equal(kernel.commands.size(), 0);
    rxe::rxe_recv_wqe recv_wqe{};
    std::memcpy(&recv_wqe, entry_at(kernel, rq_ring, 0), sizeof recv_wqe);
    assert_int_equal(recv_wqe.wr_id, 9);
    assert_int_equal(recv_wqe.dma.length, wr_length);
    assert_int_equal(recv_wqe.dma.resid, wr_length);
    assert_int_equal(recv_wqe.dma.num_sge, 1);
    assert_int_equal(kernel.ring(rq_ring).producer_index, 1);
}

void wqe_length_is_sum_of_sges(rxe_kernel &kernel, rxe_objects &objects) {
    constexpr std::uint32_t second_length = 5, length = wr_length + second_length;
    ibv_sge sge{};
    ibv_send_wr wr = write_wr(objects, sge), *bad_wr = nullptr;
    std::array<ibv_sge, 2> sges{sge, sge};
    sges[1].addr += wr_length;
    sges[1].length = second_length;
    wr.sg_list = sges.data();
    wr.num_sge = 2;
    assert_int_equal(ibv_post_send(objects.qp, &wr, &bad_wr), 0);
    rxe::rxe_send_wqe wqe{};
    std::memcpy(&wqe, entry_at(kernel, sq_ring, 0), sizeof wqe);
    assert_int_equal(wqe.dma.length, length);
    assert_int_equal(wqe.dma.resid, length);
    assert_int_equal(wqe.dma.num_sge, 2);
    assert_memory_equal(entry_at(kernel, sq_ring, 0) + sizeof wqe, sges.data(), sizeof sges);
    ibv_recv_wr recv_wr{9, nullptr, sges.data(), 2}, *bad_recv_wr = nullptr;
    assert_int_equal(ibv_post_recv(objects.qp, &recv_wr, &bad_recv_wr), 0);
    rxe::rxe_recv_wqe recv_wqe{};
    std::memcpy(&recv_wqe, entry_at(kernel, rq_ring, 0), sizeof recv_wqe);
    assert_int_equal(recv_wqe.dma.length, length);
    assert_int_equal(recv_wqe.dma.num_sge, 2);
}

// max_inline_data is what was requested at creation.
void inline_data_is_copied_into_wqe_up_to_max_inline_data(rxe_kernel &kernel,
                                                          rxe_objects &objects) {
    constexpr std::uint32_t max_inline_data = fake::requested_cap.max_inline_data;
    for (std::size_t i = 0; i < objects.memory.size(); ++i)
        objects.memory[i] = static_cast<unsigned char>(i);
    ibv_sge sge{};
    ibv_send_wr wr = write_wr(objects, sge), *bad_wr = nullptr;
    std::array<ibv_sge, 2> sges{sge, sge};
    sges[0].length = 30;
    sges[1].addr += 30;
    sges[1].length = max_inline_data - 30;
    wr.send_flags |= IBV_SEND_INLINE;
    wr.sg_list = sges.data();
    wr.num_sge = 2;
    assert_int_equal(ibv_post_send(objects.qp, &wr, &bad_wr), 0);
    rxe::rxe_send_wqe wqe{};
    std::memcpy(&wqe, entry_at(kernel, sq_ring, 0), sizeof wqe);
    assert_int_equal(wqe.dma.length, max_inline_data);
    assert_int_equal(wqe.dma.num_sge, 0);
    assert_memory_equal(entry_at(kernel, sq_ring, 0) + sizeof wqe, objects.memory.data(),
                        max_inline_data);
    sges[1].length += 1;
    assert_int_equal(ibv_post_send(objects.qp, &wr, &bad_wr), EINVAL);
    assert_int_equal(kernel.ring(sq_ring).producer_index, 1);
}

// The operand has 8 bytes, in one or more SGEs, and its address is a multiple of 8.
void invalid_atomic_is_refused(rxe_kernel &kernel, rxe_objects &objects) {
    const rxe::rxe_queue_buf &buf = kernel.ring(sq_ring);
    for (const ibv_wr_opcode opcode : {IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP}) {
        ibv_sge sge{};
        ibv_send_wr wr = write_wr(objects, sge), *bad_wr = nullptr;
        std::array<ibv_sge, 5> sges{sge, sge, sge, sge, sge};
        wr.opcode = opcode;
        wr.sg_list = sges.data();
        const std::uint32_t first = buf.producer_index;
        const auto post = [&](std::uint64_t remote_addr, int num_sge, std::uint32_t length) {
            for (ibv_sge &wr_sge : sges)
                wr_sge.length = length;
            wr.num_sge = num_sge;
            wr.wr.atomic = {remote_addr, 5, 6, wr_rkey};
            bad_wr = nullptr;
            return ibv_post_send(objects.qp, &wr, &bad_wr);
        };
        kernel.commands.clear();
        for (const auto &[remote_addr, num_sge, length] :
             std::initializer_list<std::array<unsigned, 3>>{{0x1000, 0, 8},
                                                            {0x1000, 1, 7},
                                                            {0x1000, 2, 3},
                                                            {0x1000, 5, 8}, // above max_send_sge
                                                            {0x1001, 1, 8},
                                                            {0x1004, 1, 8}}) {
            assert_int_equal(post(remote_addr, static_cast<int>(num_sge), length), EINVAL);
            assert_ptr_equal(bad_wr, &wr);
        }
        assert_int_equal(post(0x1000, -1, 8), EINVAL);
        assert_int_equal(buf.producer_index, first);
        assert_int_equal(kernel.commands.size(), 0);
        assert_int_equal(post(0x1008, 2, 4), 0);
        assert_int_equal(buf.producer_index, first + 1);
        rxe::rxe_send_wqe wqe{};
        std::memcpy(&wqe, entry_at(kernel, sq_ring, first), sizeof wqe);
        assert_int_equal(wqe.wr.opcode, opcode);
        assert_int_equal(wqe.wr.wr.atomic.remote_addr, 0x1008);
        assert_int_equal(wqe.dma.length, 8);
        assert_int_equal(wqe.dma.num_sge, 2);
    }
}

// Only an MW of type 2 can be zero-based.
void zero_based_bind_of_type_1_mw_is_refused(rxe_kernel &kernel, rxe_objects &objects) {
    ibv_mw *const mw = ibv_alloc_mw(objects.pd, IBV_MW_TYPE_1);
    if (mw == nullptr)
        return fail();
    const std::uint32_t rkey = mw->rkey, first = kernel.ring(sq_ring).producer_index;
    ibv_mw_bind bind{};
    bind.bind_info = {objects.mr, reinterpret_cast<std::uintptr_t>(objects.memory.data()), 8,
                      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED};
    assert_int_equal(ibv_bind_mw(objects.qp, mw, &bind), EINVAL);
    assert_int_equal(mw->rkey, rkey);
    assert_int_equal(kernel.ring(sq_ring).producer_index, first);
    bind.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
    assert_int_equal(ibv_bind_mw(objects.qp, mw, &bind), 0);
    assert_int_equal(mw->rkey, ibv_inc_rkey(rkey));
    rxe::rxe_send_wqe wqe{};
    std::memcpy(&wqe, entry_at(kernel, sq_ring, first), sizeof wqe);
    assert_int_equal(wqe.wr.opcode, IBV_WR_BIND_MW);
    assert_int_equal(wqe.wr.wr.mw.access, IBV_ACCESS_REMOTE_WRITE);
    // An MW of type 2 can be zero-based.
    ibv_send_wr wr{}, *bad_wr = nullptr;
    wr.opcode = IBV_WR_BIND_MW;
    wr.bind_mw.mw = objects.mw;
    wr.bind_mw.rkey = ibv_inc_rkey(objects.mw->rkey);
    wr.bind_mw.bind_info = bind.bind_info;
    wr.bind_mw.bind_info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
    assert_int_equal(ibv_post_send(objects.qp, &wr, &bad_wr), 0);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

std::vector<unsigned char> copy_ring(const rxe_kernel &kernel, std::size_t ring) {
    const auto *const bytes = reinterpret_cast<const unsigned char *>(&kernel.ring(ring));
    return {bytes, bytes + kernel.ring_size(ring)};
}

// For any index and any contents of the entries, polling ends, stays within the array, and writes
// only the consumer index.
void invalid_cqes_are_polled_safely(rxe_kernel &kernel, rxe_objects &objects) {
    rxe::rxe_queue_buf &buf = kernel.ring(cq_ring);
    for (std::uint32_t round = 0; round < 2000; ++round) {
        const std::uint32_t random = (round + 1) * 2654435761U;
        for (std::uint32_t number = 0; number <= buf.index_mask; ++number)
            std::memset(entry_at(kernel, cq_ring, number), static_cast<int>(random >> 24U), 64);
        buf.producer_index = random >> (round % 32);
        auto before = copy_ring(kernel, cq_ring);
        std::array<ibv_wc, 6> wcs;
        std::memset(wcs.data(), 0x5a, sizeof wcs);
        const auto unused_wc = wcs[5];
        const int num_polled = ibv_poll_cq(objects.cq, 5, wcs.data());
        assert_in_range(num_polled, 0, 5);
        assert_memory_equal(&wcs[5], &unused_wc, sizeof unused_wc);
        assert_true(buf.consumer_index <= buf.index_mask);
        std::memcpy(&before.at(offsetof(rxe::rxe_queue_buf, consumer_index)), &buf.consumer_index,
                    4);
        auto after = copy_ring(kernel, cq_ring);
        // The kernel ignores the last byte of a CQE; the driver may mark CQEs there.
        for (std::size_t i = 0; i <= buf.index_mask; ++i) {
            const std::size_t last_byte = sizeof buf + i * 64 + sizeof(rxe::rxe_cqe) - 1;
            before.at(last_byte) = after.at(last_byte) = 0;
        }
        assert_true(before == after);
    }
}

// Adds a completion to the CQ, as the kernel does.
void add_cqe(rxe_kernel &kernel, std::uint64_t wr_id, ibv_wc_status status = IBV_WC_SUCCESS,
             std::size_t ring = cq_ring, std::uint32_t qp_num = rxe_kernel::qp_num) {
    rxe::rxe_queue_buf &buf = kernel.ring(ring);
    rxe::rxe_cqe cqe{};
    cqe.wr_id = wr_id;
    cqe.status = static_cast<std::uint32_t>(status);
    cqe.qp_num = qp_num;
    std::memcpy(entry_at(kernel, ring, buf.producer_index), &cqe, sizeof cqe);
    buf.producer_index = (buf.producer_index + 1) & buf.index_mask;
}

// A thread that polls with ibv_start_poll() may destroy or reset a QP before ibv_end_poll(), also
// if the CQ is for one thread and so has no lock.
void qp_is_destroyed_within_poll(rxe_kernel &kernel, rxe_objects &objects) {
    constexpr std::uint32_t other_qp_num = rxe_kernel::qp_num - 1; // no QP has it
    for (const std::uint32_t flags : {0U, unsigned{IBV_CREATE_CQ_ATTR_SINGLE_THREADED}}) {
        ibv_cq_init_attr_ex cq_attr{};
        cq_attr.cqe = fake::requested_cqe_ex;
        cq_attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
        cq_attr.flags = flags;
        ibv_cq_ex *const cq = ibv_create_cq_ex(objects.context, &cq_attr);
        assert_non_null(cq);
        const std::size_t ring = kernel.num_rings() - 1;
        ibv_qp *const qp = objects.create_qp(nullptr, ibv_cq_ex_to_cq(cq));
        assert_non_null(qp);
        for (std::uint64_t wr_id = 1; wr_id <= 3; ++wr_id)
            add_cqe(kernel, wr_id, IBV_WC_SUCCESS, ring, wr_id == 2 ? qp->qp_num : other_qp_num);
        ibv_poll_cq_attr attr{};
        assert_int_equal(ibv_start_poll(cq, &attr), 0);
        assert_int_equal(cq->wr_id, 1);
        assert_int_equal(ibv_destroy_qp(qp), 0);
        assert_int_equal(ibv_next_poll(cq), 0);
        assert_int_equal(cq->wr_id, 3);
        assert_int_equal(ibv_next_poll(cq), ENOENT);
        ibv_end_poll(cq);
        assert_int_equal(ibv_start_poll(cq, &attr), ENOENT); // the lock is free
        assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
    }
}

// The kernel moves a QP of any type to ERR if a request fails. It flushes the receives that are
// posted before, and with each command that moves it to ERR again those posted until then.
void receive_of_failed_ud_qp_is_flushed(rxe_kernel &kernel, rxe_objects &objects) {
    ibv_qp *const qp = objects.create_qp(nullptr, objects.cq, IBV_QPT_UD);
    assert_non_null(qp);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    ibv_sge sge{};
    ibv_recv_wr wr{}, *bad_wr = nullptr;
    wr.sg_list = &sge;
    ibv_wc wc{};
    const auto count_err_commands = [&] {
        const auto is_err = [&](const command &cmd) {
            const auto modify = cmd.read<ib_uverbs_modify_qp>();
            return cmd.number == IB_USER_VERBS_CMD_MODIFY_QP && modify.qp_handle == qp->handle &&
                   modify.qp_state == IBV_QPS_ERR;
        };
        return std::count_if(kernel.commands.begin(), kernel.commands.end(), is_err);
    };
    for (const ibv_qp_state state : {IBV_QPS_RTS, IBV_QPS_ERR}) {
        kernel.state = state;
        add_cqe(kernel, 1, IBV_WC_LOC_PROT_ERR, cq_ring, qp->qp_num);
        assert_int_equal(ibv_poll_cq(objects.cq, 1, &wc), 1);
        const auto before = count_err_commands();
        assert_int_equal(before, state == IBV_QPS_ERR ? 1 : 0);
        assert_int_equal(ibv_post_recv(qp, &wr, &bad_wr), 0);
        assert_int_equal(count_err_commands() - before, before);
    }
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

// The kernel has moved the completions to the new ring when it is mapped. If that fails once, the
// old one makes room for it; if it fails again, polls find nothing.
void ring_of_resized_queue_that_cannot_be_mapped(rxe_kernel &kernel, rxe_objects &objects) {
    ibv_wc wc{};
    for (const unsigned num_failing : {1U, 2U}) {
        kernel.num_failing_mappings = num_failing;
        const bool is_mapped = num_failing == 1;
        assert_int_equal(ibv_resize_cq(objects.cq, 50), is_mapped ? 0 : ENOMEM);
        add_cqe(kernel, 1, IBV_WC_SUCCESS, kernel.num_rings() - 1);
        assert_int_equal(ibv_poll_cq(objects.cq, 1, &wc), is_mapped ? 1 : 0);
    }
    assert_int_equal(ibv_resize_cq(objects.cq, 50), 0);
    add_cqe(kernel, 1, IBV_WC_SUCCESS, kernel.num_rings() - 1);
    assert_int_equal(ibv_poll_cq(objects.cq, 1, &wc), 1);
}

// The kernel refuses to resize an SRQ below the receives that it has. Older ones have freed the
// queue by then, and the next receive uses it.
void srq_is_not_resized_below_its_receives(rxe_kernel &kernel, rxe_objects &objects) {
    constexpr std::uint32_t num_receives = 9;
    ibv_sge sge{};
    ibv_recv_wr wr{}, *bad_wr = nullptr;
    wr.sg_list = &sge;
    for (std::uint32_t i = 0; i < num_receives; ++i)
        assert_int_equal(ibv_post_srq_recv(objects.srq, &wr, &bad_wr), 0);
    ibv_srq_attr attr{};
    attr.max_wr = 7; // the kernel's ring then has 8 entries, of which one is unused
    const std::size_t num_commands = kernel.commands.size();
    assert_int_equal(ibv_modify_srq(objects.srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
    assert_int_equal(kernel.commands.size(), num_commands);
    attr.max_wr = 8; // 16 entries
    assert_int_equal(ibv_modify_srq(objects.srq, &attr, IBV_SRQ_MAX_WR), 0);
}

// Also when the ring has wrapped around.
void failed_completion_after_others_is_polled_once(rxe_kernel &kernel, rxe_objects &objects) {
    std::array<ibv_wc, 8> wcs{};
    const auto poll = [&] {
        return ibv_poll_cq(objects.cq, static_cast<int>(wcs.size()), wcs.data());
    };
    std::uint64_t wr_id = 0;
    for (int round = 0; round < 20; ++round) {
        for (int i = 0; i < 5; ++i) {
            add_cqe(kernel, wr_id);
            assert_int_equal(poll(), 1);
            assert_int_equal(wcs[0].wr_id, wr_id++);
        }
        add_cqe(kernel, wr_id, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(poll(), 1);
        assert_int_equal(wcs[0].wr_id, wr_id++);
        assert_int_equal(wcs[0].status, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(poll(), 0);
    }
}

// A reset QP's CQEs that are not polled yet are marked as discarded; here all are polled, and the
// entries that the kernel has not filled again must not be marked.
void reset_qp_discards_only_filled_cqes(rxe_kernel &kernel, rxe_objects &objects) {
    ibv_wc wc{};
    for (std::uint64_t wr_id = 0; wr_id < 5; ++wr_id) {
        add_cqe(kernel, wr_id);
        assert_int_equal(ibv_poll_cq(objects.cq, 1, &wc), 1);
    }
    const auto before = copy_ring(kernel, cq_ring);
    assert_true(objects.modify_qp(IBV_QPS_RESET));
    assert_true(before == copy_ring(kernel, cq_ring));
    assert_int_equal(ibv_poll_cq(objects.cq, 1, &wc), 0);
}

// For any consumer index, posts write only entries and the producer index.
void posts_with_invalid_consumer_index_stay_within_ring(rxe_kernel &kernel, rxe_objects &objects) {
    ibv_sge sge{};
    ibv_send_wr wr = write_wr(objects, sge), *bad_wr = nullptr;
    ibv_recv_wr recv_wr{9, nullptr, &sge, 1}, *bad_recv_wr = nullptr;
    for (const std::size_t ring : {sq_ring, rq_ring}) {
        rxe::rxe_queue_buf &buf = kernel.ring(ring);
        const std::size_t entries_size = std::size_t{buf.index_mask + 1} << buf.log2_elem_size;
        const std::size_t end = sizeof buf + entries_size;
        std::memset(entry_at(kernel, ring, 0) + entries_size, 0x5a, kernel.ring_size(ring) - end);
        for (const std::uint32_t invalid : {0U, 3U, 8U, 1000U, 0x80000000U, 0xffffffffU}) {
            buf.consumer_index = invalid;
            auto before = copy_ring(kernel, ring);
            int error = 0;
            for (int i = 0; i < 50 && error == 0; ++i)
                error = ring == sq_ring ? ibv_post_send(objects.qp, &wr, &bad_wr)
                                        : ibv_post_recv(objects.qp, &recv_wr, &bad_recv_wr);
            assert_int_equal(error, ENOMEM);
            assert_true(buf.producer_index <= buf.index_mask);
            std::memcpy(&before.at(offsetof(rxe::rxe_queue_buf, producer_index)),
                        &buf.producer_index, 4);
            const auto after = copy_ring(kernel, ring);
            const auto is_unchanged = [&](std::size_t begin, std::size_t range_end) {
                return std::memcmp(&before.at(begin), &after.at(begin), range_end - begin) == 0;
            };
            assert_true(is_unchanged(0, sizeof buf));
            assert_true(is_unchanged(end, before.size()));
        }
    }
}

// The kernel drops all WQEs of a QP that is reset; the driver continues at the kernel's index.
void reset_qp_continues_at_kernel_index(rxe_kernel &kernel, rxe_objects &objects) {
    ibv_sge sge{};
    ibv_send_wr wr = write_wr(objects, sge), *bad_wr = nullptr;
    rxe::rxe_queue_buf &buf = kernel.ring(sq_ring);
    for (int i = 0; i < 5; ++i)
        assert_int_equal(ibv_post_send(objects.qp, &wr, &bad_wr), 0);
    buf.consumer_index = buf.producer_index;
    assert_true(objects.modify_qp(IBV_QPS_RESET));
    kernel.commands.clear();
    assert_int_equal(ibv_post_send(objects.qp, &wr, &bad_wr), EINVAL);
    assert_ptr_equal(bad_wr, &wr);
    assert_int_equal(kernel.commands.size(), 0);
    assert_int_equal(buf.producer_index, 5);
    assert_true(objects.modify_qp(IBV_QPS_INIT) && objects.modify_qp(IBV_QPS_RTR) &&
                objects.modify_qp(IBV_QPS_RTS));
    for (std::uint32_t i = 0; i < buf.index_mask; ++i)
        assert_int_equal(ibv_post_send(objects.qp, &wr, &bad_wr), 0);
    assert_int_equal(ibv_post_send(objects.qp, &wr, &bad_wr), ENOMEM);
    assert_int_equal(buf.producer_index, (5 + buf.index_mask) & buf.index_mask);
}

ibv_qp *create_connected_qp(const rxe_objects &objects, const ibv_qp_cap &cap, ibv_qp_type type) {
    ibv_qp_init_attr init_attr{};
    init_attr.send_cq = init_attr.recv_cq = objects.cq;
    init_attr.cap = cap;
    init_attr.qp_type = type;
    ibv_qp *const qp = ibv_create_qp(objects.pd, &init_attr);
    assert_non_null(qp);
    ibv_qp_attr attr{};
    for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
        attr.qp_state = state;
        assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    }
    return qp;
}

// Posts to it are refused, also after a reset. The QP's other queue accepts posts.
void queue_of_length_zero_refuses_posts(rxe_kernel &kernel, rxe_objects &objects) {
    for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC})
        for (const std::uint32_t send_wr : {0U, 3U})
            for (const std::uint32_t recv_wr : {0U, 3U}) {
                const std::size_t new_rq_ring = kernel.num_rings(), new_sq_ring = new_rq_ring + 1;
                ibv_qp *const qp = create_connected_qp(objects, {send_wr, recv_wr, 1, 1, 0}, type);
                ibv_sge sge{};
                ibv_send_wr wr = write_wr(objects, sge), *bad_wr = nullptr;
                ibv_recv_wr recv{9, nullptr, &sge, 1}, *bad_recv = nullptr;
                assert_int_equal(ibv_post_send(qp, &wr, &bad_wr), send_wr != 0 ? 0 : ENOMEM);
                assert_ptr_equal(bad_wr, send_wr != 0 ? nullptr : &wr);
                assert_int_equal(ibv_post_recv(qp, &recv, &bad_recv), recv_wr != 0 ? 0 : ENOMEM);
                assert_ptr_equal(bad_recv, recv_wr != 0 ? nullptr : &recv);
                assert_int_equal(kernel.ring(new_sq_ring).producer_index, send_wr != 0);
                assert_int_equal(kernel.ring(new_rq_ring).producer_index, recv_wr != 0);
                ibv_qp_attr attr{};
                attr.qp_state = IBV_QPS_RESET;
                assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
                assert_int_equal(ibv_post_recv(qp, &recv, &bad_recv), EINVAL);
                attr.qp_state = IBV_QPS_INIT;
                assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
                assert_int_equal(ibv_post_recv(qp, &recv, &bad_recv), recv_wr != 0 ? 0 : ENOMEM);
                assert_int_equal(ibv_destroy_qp(qp), 0);
            }
}

// Between the calls of a batch the kernel writes the opcode of its WQE. It must not be the exponent
// of a shift, as the sanitizer finds.
void opcode_written_by_kernel_is_refused(rxe_kernel &kernel, rxe_objects &objects) {
    constexpr std::uint64_t wr_id = 0x1122334455667788;
    ibv_qp_ex *const qp = ibv_qp_to_qp_ex(objects.qp_ex);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    assert_int_equal(ibv_modify_qp(objects.qp_ex, &attr, IBV_QP_STATE), 0);
    ibv_wr_start(qp);
    qp->wr_id = wr_id;
    ibv_wr_send(qp);
    const std::size_t sq_index = kernel.num_rings() - 3; // before a new CQ's and a new SRQ's ring
    auto *const wqe = reinterpret_cast<rxe::rxe_send_wqe *>(&kernel.ring(sq_index) + 1);
    assert_int_equal(wqe->wr.wr_id, wr_id);
    wqe->wr.opcode = 0xffffffff;
    ibv_wr_set_inline_data(qp, objects.memory.data(), 8);
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
}

// A QP in RTS that can post atomics and Sends by ibv_wr_*.
ibv_qp *create_connected_qp_ex(const rxe_objects &objects) {
    ibv_qp_init_attr_ex init_attr{};
    init_attr.send_cq = init_attr.recv_cq = objects.cq;
    init_attr.cap = fake::requested_cap;
    init_attr.qp_type = IBV_QPT_RC;
    init_attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init_attr.pd = objects.pd;
    init_attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                               IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    ibv_qp *const qp = ibv_create_qp_ex(objects.context, &init_attr);
    assert_non_null(qp);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    return qp;
}

// As invalid_atomic_is_refused(); also if wr_set_sge() is not called for the atomic, but for the
// WR after it.
void invalid_atomic_of_wr_api_fails_batch(rxe_kernel &kernel, rxe_objects &objects) {
    const std::size_t new_sq_ring = kernel.num_rings() + 1; // behind the RQ's
    ibv_qp *const qp = create_connected_qp_ex(objects);
    ibv_qp_ex *const qp_ex = ibv_qp_to_qp_ex(qp);
    rxe::rxe_queue_buf &buf = kernel.ring(new_sq_ring);
    const auto set_sge = [&](std::uint32_t length) {
        ibv_wr_set_sge(qp_ex, objects.mr->lkey,
                       reinterpret_cast<std::uintptr_t>(objects.memory.data()), length);
    };
    // Posts an atomic, with data unless length is 0, between two Sends.
    const auto post = [&](bool swaps, std::uint64_t remote_addr, std::uint32_t length) {
        ibv_wr_start(qp_ex);
        ibv_wr_send(qp_ex);
        set_sge(wr_length);
        if (swaps)
            ibv_wr_atomic_cmp_swp(qp_ex, wr_rkey, remote_addr, 5, 6);
        else
            ibv_wr_atomic_fetch_add(qp_ex, wr_rkey, remote_addr, 5);
        if (length != 0)
            set_sge(length);
        ibv_wr_send(qp_ex);
        set_sge(wr_length);
        return ibv_wr_complete(qp_ex);
    };
    for (const bool swaps : {false, true}) {
        const std::uint32_t first = buf.producer_index;
        kernel.commands.clear();
        assert_int_equal(post(swaps, 0x1000, 0), EINVAL);
        assert_int_equal(post(swaps, 0x1000, 7), EINVAL);
        assert_int_equal(post(swaps, 0x1004, 8), EINVAL);
        ibv_wr_start(qp_ex);
        ibv_wr_atomic_fetch_add(qp_ex, wr_rkey, 0x1000, 5);
        assert_int_equal(ibv_wr_complete(qp_ex), EINVAL);
        assert_int_equal(buf.producer_index, first);
        assert_int_equal(kernel.commands.size(), 0);
        assert_int_equal(post(swaps, 0x1008, 8), 0);
        assert_int_equal(buf.producer_index, first + 3);
        buf.consumer_index = first + 3;
    }
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

// After a fork() two processes have the same rings. Each continues where the other has stopped.
void rings_moved_by_other_process_continue(rxe_kernel &kernel, rxe_objects &objects) {
    constexpr std::uint32_t moved = 3;
    for (const std::size_t ring : {sq_ring, rq_ring})
        kernel.ring(ring).producer_index = kernel.ring(ring).consumer_index = moved;
    ibv_sge sge{};
    ibv_send_wr wr = write_wr(objects, sge), *bad_wr = nullptr;
    ibv_recv_wr recv_wr{9, nullptr, &sge, 1}, *bad_recv_wr = nullptr;
    assert_int_equal(ibv_post_send(objects.qp, &wr, &bad_wr), 0);
    assert_int_equal(ibv_post_recv(objects.qp, &recv_wr, &bad_recv_wr), 0);
    rxe::rxe_send_wqe send_wqe{};
    rxe::rxe_recv_wqe recv_wqe{};
    std::memcpy(&send_wqe, entry_at(kernel, sq_ring, moved), sizeof send_wqe);
    std::memcpy(&recv_wqe, entry_at(kernel, rq_ring, moved), sizeof recv_wqe);
    assert_int_equal(send_wqe.wr.wr_id, wr.wr_id);
    assert_int_equal(recv_wqe.wr_id, 9);
    for (const std::size_t ring : {sq_ring, rq_ring})
        assert_int_equal(kernel.ring(ring).producer_index, moved + 1);
    for (std::uint64_t wr_id = 0; wr_id <= moved; ++wr_id)
        add_cqe(kernel, wr_id);
    kernel.ring(cq_ring).consumer_index = moved;
    ibv_wc wc{};
    assert_int_equal(ibv_poll_cq(objects.cq, 1, &wc), 1);
    assert_int_equal(wc.wr_id, moved);
    assert_int_equal(ibv_poll_cq(objects.cq, 1, &wc), 0);
}

// A full SQ is found also if the other process has filled it, past the index that this one read.
void ring_filled_by_other_process_is_full(rxe_kernel &kernel, rxe_objects &objects) {
    ibv_sge sge{};
    ibv_send_wr wr = write_wr(objects, sge), *bad_wr = nullptr;
    rxe::rxe_queue_buf &buf = kernel.ring(sq_ring);
    assert_int_equal(ibv_post_send(objects.qp, &wr, &bad_wr), 0);
    buf.consumer_index = 4;
    buf.producer_index = 2; // once around the ring
    assert_int_equal(ibv_post_send(objects.qp, &wr, &bad_wr), 0);
    assert_int_equal(buf.producer_index, 3);
    assert_int_equal(ibv_post_send(objects.qp, &wr, &bad_wr), ENOMEM);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(each_object_is_created_and_destroyed_by_its_commands),
        objects_unit_test(command_fields_match_attributes),
        no_leak_unit_test(rxe_kernel, rxe_objects),
        cmocka_unit_test(invalid_ring_fails_without_leak),
        objects_unit_test(doorbell_and_req_notify_have_minimal_size),
        objects_unit_test(failed_doorbell_fails_post_send),
        objects_unit_test(wqe_has_all_fields_read_by_kernel),
        objects_unit_test(wqe_length_is_sum_of_sges),
        objects_unit_test(inline_data_is_copied_into_wqe_up_to_max_inline_data),
        objects_unit_test(invalid_atomic_is_refused),
        objects_unit_test(zero_based_bind_of_type_1_mw_is_refused),
        objects_unit_test(invalid_cqes_are_polled_safely),
        objects_unit_test(failed_completion_after_others_is_polled_once),
        objects_unit_test(reset_qp_discards_only_filled_cqes),
        objects_unit_test(posts_with_invalid_consumer_index_stay_within_ring),
        objects_unit_test(reset_qp_continues_at_kernel_index),
        objects_unit_test(queue_of_length_zero_refuses_posts),
        objects_unit_test(opcode_written_by_kernel_is_refused),
        objects_unit_test(invalid_atomic_of_wr_api_fails_batch),
        objects_unit_test(rings_moved_by_other_process_continue),
        objects_unit_test(ring_filled_by_other_process_is_full),
        objects_unit_test(qp_is_destroyed_within_poll),
        objects_unit_test(receive_of_failed_ud_qp_is_flushed),
        objects_unit_test(ring_of_resized_queue_that_cannot_be_mapped),
        objects_unit_test(srq_is_not_resized_below_its_receives),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
