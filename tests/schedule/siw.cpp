// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The siw driver under several threads, with the real libibverbs and the fake kernel of the unit
// tests. A command is one step: what the kernel does in it is not interrupted.

#include "fake_siw.hpp"
#include "schedule.hpp"

#include <array>
#include <thread>

namespace {

using schedule::require;

// The rings in the order of creation; a QP has two.
constexpr std::size_t CQ_RING = 0, CQ_EX_RING = 1;
constexpr std::uint64_t OLD_ID = 1, NEW_ID = 2;

/// A program's objects on a device.
class device {
  public:
    fake::siw_kernel kernel;
    ibv_context *context = kernel.open();
    ibv_pd *pd = ibv_alloc_pd(context);
    ibv_cq *cq = ibv_create_cq(context, 8, nullptr, nullptr, 0);

    device() = default;
    device(const device &) = delete;
    device &operator=(const device &) = delete;
    ~device() {
        require(ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0 &&
                    ibv_close_device(context) == 0,
                "an object is not destroyed");
    }

    ibv_qp *create_qp() { return create_qp(cq); }
    ibv_qp *create_qp(ibv_cq *qp_cq) {
        ibv_qp_init_attr attr{};
        attr.send_cq = attr.recv_cq = qp_cq;
        attr.cap = {.max_send_wr = 2,
                    .max_recv_wr = 2,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
        attr.qp_type = IBV_QPT_RC;
        ibv_qp *const qp = ibv_create_qp(pd, &attr);
        require(qp != nullptr, "a QP is not created");
        return qp;
    }
    /// The kernel completes a request of a QP.
    void complete(const ibv_qp &qp, std::uint64_t wr_id, std::uint16_t status = SIW_WC_SUCCESS,
                  std::size_t cq_ring = CQ_RING) {
        siw_cqe cqe{};
        cqe.id = wr_id;
        cqe.opcode = SIW_OP_WRITE;
        cqe.status = status;
        cqe.qp_id = qp.qp_num;
        kernel.add_cqe(cq_ring, cqe);
    }
    bool is_moved_to_err(const ibv_qp &qp) const {
        for (const fake::command &cmd : kernel.commands)
            if (cmd.number == IB_USER_VERBS_CMD_MODIFY_QP &&
                cmd.read<ib_uverbs_modify_qp>().qp_handle == qp.handle)
                return true;
        return false;
    }
};

/// The kernel gives the number of a destroyed QP to the next one, while the thread that destroys
/// the first discards its completions.
void number_is_used_again() {
    device device;
    ibv_qp *const old_qp = device.create_qp();
    device.complete(*old_qp, OLD_ID);
    std::thread destroyer([&] { require(ibv_destroy_qp(old_qp) == 0, "a QP is not destroyed"); });
    ibv_qp *const new_qp = device.create_qp();
    device.complete(*new_qp, NEW_ID);
    destroyer.join();
    std::array<ibv_wc, 3> wcs{};
    require(ibv_poll_cq(device.cq, 3, wcs.data()) == 1 && wcs[0].wr_id == NEW_ID,
            "not only the new QP's completion is polled");
    require(ibv_destroy_qp(new_qp) == 0, "a QP is not destroyed");
}

/// As above. Another thread polls a failed completion of the first QP, which must not move the new
/// one to ERR.
void failure_of_destroyed_qp() {
    device device;
    ibv_qp *const old_qp = device.create_qp();
    device.complete(*old_qp, OLD_ID, SIW_WC_LOC_PROT_ERR);
    std::thread destroyer([&] { require(ibv_destroy_qp(old_qp) == 0, "a QP is not destroyed"); });
    std::thread poller([&] {
        ibv_wc wc{};
        ibv_poll_cq(device.cq, 1, &wc);
    });
    ibv_qp *const new_qp = device.create_qp();
    destroyer.join();
    poller.join();
    require(!device.is_moved_to_err(*new_qp), "the new QP is moved to ERR");
    require(ibv_destroy_qp(new_qp) == 0, "a QP is not destroyed");
}

/// The CQ of the first QP is destroyed, too, while another thread discards that QP's completions in
/// it, to use the number.
void cq_of_destroyed_qp_is_destroyed() {
    device device;
    ibv_cq *const old_cq = ibv_create_cq(device.context, 8, nullptr, nullptr, 0);
    ibv_qp *const old_qp = device.create_qp(old_cq);
    std::thread destroyer([&] {
        require(ibv_destroy_qp(old_qp) == 0 && ibv_destroy_cq(old_cq) == 0,
                "an object is not destroyed");
    });
    ibv_qp *const new_qp = device.create_qp();
    destroyer.join();
    require(ibv_destroy_qp(new_qp) == 0, "a QP is not destroyed");
}

/// A thread that polls, and so holds the CQ's lock, destroys a QP and creates one; another thread
/// creates one meanwhile.
void qp_is_replaced_within_poll() {
    device device;
    ibv_cq_init_attr_ex cq_attr{};
    cq_attr.cqe = 8;
    ibv_cq_ex *const cq_ex = ibv_create_cq_ex(device.context, &cq_attr);
    ibv_cq *const cq = ibv_cq_ex_to_cq(cq_ex);
    ibv_qp *qp = device.create_qp(cq), *other_qp = nullptr;
    device.complete(*qp, OLD_ID, SIW_WC_SUCCESS, CQ_EX_RING);
    ibv_poll_cq_attr poll_attr{};
    require(ibv_start_poll(cq_ex, &poll_attr) == 0, "no completion is polled");
    std::thread other([&] { other_qp = device.create_qp(cq); });
    require(ibv_destroy_qp(qp) == 0, "a QP is not destroyed");
    qp = device.create_qp(cq);
    ibv_end_poll(cq_ex);
    other.join();
    require(ibv_destroy_qp(qp) == 0 && ibv_destroy_qp(other_qp) == 0 && ibv_destroy_cq(cq) == 0,
            "an object is not destroyed");
}

constexpr std::array PROGRAMS = {
    schedule::program{"number_is_used_again", number_is_used_again},
    schedule::program{"failure_of_destroyed_qp", failure_of_destroyed_qp},
    schedule::program{"cq_of_destroyed_qp_is_destroyed", cq_of_destroyed_qp_is_destroyed},
    schedule::program{"qp_is_replaced_within_poll", qp_is_replaced_within_poll},
};

} // namespace

int main(int argc, char **argv) {
    return schedule::run_programs(argc, argv, PROGRAMS);
}
