// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "wr_api.hpp"

#include <cstddef>
#include <cstring>

namespace coherdma::emulation {
namespace {

struct hooked_qp {
    emulated_device &device;
    qp_ex_state &state;
};

hooked_qp find_hooked_qp(const ibv_qp_ex *qp) {
    emulated_device &device = *find_device(qp->qp_base.context);
    const std::shared_lock guard(device.mutex);
    return {device, *device.qp_ex_states.at(&qp->qp_base)};
}

void wr_start(ibv_qp_ex *qp) {
    const hooked_qp hooked = find_hooked_qp(qp);
    process_state().cache.on_post_or_poll();
    hooked.state.driver.wr_start(qp);
    hooked.state.batch.clear();
}

void cancel_batch(const hooked_qp &hooked) {
    for (const std::uint64_t number : hooked.state.batch)
        hooked.device.pending_wrs.cancel(number);
    hooked.state.batch.clear();
}

/// Called in place of the driver's: if the driver refuses the batch, its WRs are not pending.
int wr_complete(ibv_qp_ex *qp) {
    const hooked_qp hooked = find_hooked_qp(qp);
    const std::vector<std::uint64_t> batch = std::move(hooked.state.batch);
    const int error = hooked.state.driver.wr_complete(qp); // unlocks the QP and its state
    if (error != 0)
        for (const std::uint64_t number : batch)
            hooked.device.pending_wrs.cancel(number);
    return error;
}

void wr_abort(ibv_qp_ex *qp) {
    const hooked_qp hooked = find_hooked_qp(qp);
    cancel_batch(hooked);
    hooked.state.driver.wr_abort(qp);
}

/// Starts a WR: calls the driver's function with a number of pending_wr_table as wr_id. rkey and
/// remote_addr: 0 if it accesses no remote memory.
template <class function, class... arguments>
void start_wr(ibv_qp_ex *qp, ibv_wr_opcode opcode, std::uint32_t rkey, std::uint64_t remote_addr,
              function driver_function, arguments... args) {
    const hooked_qp hooked = find_hooked_qp(qp);
    const std::uint64_t wr_id = qp->wr_id;
    hooked.state.opcode = opcode;
    hooked.state.wr_id = wr_id;
    hooked.state.rkey = rkey;
    hooked.state.remote_addr = remote_addr;
    const bool is_signaled = hooked.state.is_sig_all || (qp->wr_flags & IBV_SEND_SIGNALED) != 0;
    const std::uint64_t number =
        hooked.device.pending_wrs.add({wr_id, &qp->qp_base, true, is_signaled, {}, {}});
    hooked.state.batch.push_back(number);
    qp->wr_id = number;
    (hooked.state.driver.*driver_function)(qp, args...);
    qp->wr_id = wr_id;
}

void wr_send(ibv_qp_ex *qp) {
    start_wr(qp, IBV_WR_SEND, 0, 0, &ibv_qp_ex::wr_send);
}
void wr_send_imm(ibv_qp_ex *qp, __be32 imm_data) {
    start_wr(qp, IBV_WR_SEND_WITH_IMM, 0, 0, &ibv_qp_ex::wr_send_imm, imm_data);
}
void wr_send_inv(ibv_qp_ex *qp, std::uint32_t invalidate_rkey) {
    start_wr(qp, IBV_WR_SEND_WITH_INV, 0, 0, &ibv_qp_ex::wr_send_inv, invalidate_rkey);
}
void wr_local_inv(ibv_qp_ex *qp, std::uint32_t invalidate_rkey) {
    start_wr(qp, IBV_WR_LOCAL_INV, 0, 0, &ibv_qp_ex::wr_local_inv, invalidate_rkey);
}
void wr_rdma_write(ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t remote_addr) {
    start_wr(qp, IBV_WR_RDMA_WRITE, rkey, remote_addr, &ibv_qp_ex::wr_rdma_write, rkey,
             remote_addr);
}
void wr_rdma_write_imm(ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t remote_addr,
                       __be32 imm_data) {
    start_wr(qp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr, &ibv_qp_ex::wr_rdma_write_imm, rkey,
             remote_addr, imm_data);
}
void wr_rdma_read(ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t remote_addr) {
    start_wr(qp, IBV_WR_RDMA_READ, rkey, remote_addr, &ibv_qp_ex::wr_rdma_read, rkey, remote_addr);
}
void wr_atomic_cmp_swp(ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t remote_addr,
                       std::uint64_t compare, std::uint64_t swap) {
    start_wr(qp, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, remote_addr, &ibv_qp_ex::wr_atomic_cmp_swp, rkey,
             remote_addr, compare, swap);
}
void wr_atomic_fetch_add(ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t remote_addr,
                         std::uint64_t add) {
    start_wr(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, remote_addr, &ibv_qp_ex::wr_atomic_fetch_add,
             rkey, remote_addr, add);
}
void wr_bind_mw(ibv_qp_ex *qp, ibv_mw *mw, std::uint32_t rkey, const ibv_mw_bind_info *bind_info) {
    if (mw != nullptr && bind_info != nullptr)
        record_mw_bind(find_hooked_qp(qp).device, *mw, rkey, *bind_info);
    start_wr(qp, IBV_WR_BIND_MW, 0, 0, &ibv_qp_ex::wr_bind_mw, mw, rkey, bind_info);
}

/// The data of the WR that is being built are set: has the process that owns the remote memory
/// check it.
void check_current_wr_target(const hooked_qp &hooked, const ibv_qp_ex *qp, std::uint64_t length) {
    if (accesses_remote_memory(hooked.state.opcode))
        check_remote_access(hooked.device, qp->qp_base, hooked.state.opcode, hooked.state.wr_id,
                            hooked.state.rkey, hooked.state.remote_addr, length);
}

/// Called in place of the driver's: writes back the local memory of the current WR, or checks it if
/// the program has to sync it, and remembers what the device will write.
void wr_set_sge_list(ibv_qp_ex *qp, std::size_t num_sge, const ibv_sge *sg_list) {
    const hooked_qp hooked = find_hooked_qp(qp);
    pending_wr pending;
    std::uint64_t length = 0;
    for (std::size_t i = 0; i < num_sge; ++i)
        length += sg_list[i].length;
    if (process_state().config.program_syncs_local)
        pending.request = describe_wr(qp->qp_base, hooked.state.opcode, hooked.state.wr_id, length);
    for (std::size_t i = 0; i < num_sge; ++i)
        prepare_sge(hooked.device, hooked.state.opcode, sg_list[i], pending);
    if (!hooked.state.batch.empty())
        hooked.device.pending_wrs.set_local_memory(hooked.state.batch.back(), std::move(pending));
    check_current_wr_target(hooked, qp, length);
    hooked.state.driver.wr_set_sge_list(qp, num_sge, sg_list);
}
void wr_set_sge(ibv_qp_ex *qp, std::uint32_t lkey, std::uint64_t addr, std::uint32_t length) {
    const ibv_sge sge = {addr, length, lkey};
    wr_set_sge_list(qp, 1, &sge);
}
void wr_set_inline_data_list(ibv_qp_ex *qp, std::size_t num_buf, const ibv_data_buf *buf_list) {
    const hooked_qp hooked = find_hooked_qp(qp);
    std::uint64_t length = 0;
    for (std::size_t i = 0; i < num_buf; ++i)
        length += buf_list[i].length;
    check_current_wr_target(hooked, qp, length);
    hooked.state.driver.wr_set_inline_data_list(qp, num_buf, buf_list);
}
void wr_set_inline_data(ibv_qp_ex *qp, void *addr, std::size_t length) {
    const ibv_data_buf buf = {addr, length};
    wr_set_inline_data_list(qp, 1, &buf);
}

/// Replaces a function of the driver, if it has it.
template <class function>
void hook(function &driver_function, function hook_function) {
    if (driver_function != nullptr)
        driver_function = hook_function;
}

} // namespace

/// Replaces the ibv_wr_* functions of a QP.
// Atomic writes and flushes are not hooked: their data is the CPU's, not in registered memory, and
// polling returns a wr_id that is not in pending_wr_table unchanged.
void hook_wr_api(emulated_device &device, ibv_qp *qp) {
    ibv_qp_ex *const qp_ex = ibv_qp_to_qp_ex(qp);
    auto state = std::make_unique<qp_ex_state>();
    state->driver = *qp_ex;
    state->is_sig_all = device.is_sig_all(qp);
    hook(qp_ex->wr_send, wr_send);
    hook(qp_ex->wr_send_imm, wr_send_imm);
    hook(qp_ex->wr_send_inv, wr_send_inv);
    hook(qp_ex->wr_local_inv, wr_local_inv);
    hook(qp_ex->wr_rdma_write, wr_rdma_write);
    hook(qp_ex->wr_rdma_write_imm, wr_rdma_write_imm);
    hook(qp_ex->wr_rdma_read, wr_rdma_read);
    hook(qp_ex->wr_atomic_cmp_swp, wr_atomic_cmp_swp);
    hook(qp_ex->wr_atomic_fetch_add, wr_atomic_fetch_add);
    hook(qp_ex->wr_bind_mw, wr_bind_mw);
    hook(qp_ex->wr_set_sge, wr_set_sge);
    hook(qp_ex->wr_set_sge_list, wr_set_sge_list);
    hook(qp_ex->wr_set_inline_data, wr_set_inline_data);
    hook(qp_ex->wr_set_inline_data_list, wr_set_inline_data_list);
    hook(qp_ex->wr_start, wr_start);
    hook(qp_ex->wr_complete, wr_complete);
    hook(qp_ex->wr_abort, wr_abort);
    const std::unique_lock guard(device.mutex);
    device.qp_ex_states[qp] = std::move(state);
}

/// Gives the QPs of the device the driver's functions back, in a child of fork().
void unhook_wr_api(emulated_device &device) noexcept {
    // The functions are the end of ibv_qp_ex, from this member on.
    constexpr std::size_t FUNCTIONS_OFFSET = offsetof(ibv_qp_ex, wr_atomic_cmp_swp);
    for (auto &[qp, state] : device.qp_ex_states) {
        auto *const qp_ex = reinterpret_cast<unsigned char *>(
            ibv_qp_to_qp_ex(const_cast<ibv_qp *>(qp))); // hook_wr_api() got it without const
        std::memcpy(qp_ex + FUNCTIONS_OFFSET,
                    reinterpret_cast<const unsigned char *>(&state->driver) + FUNCTIONS_OFFSET,
                    sizeof state->driver - FUNCTIONS_OFFSET);
    }
}

} // namespace coherdma::emulation
