// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A program on a fake device whose kernel writes anything into the rings, between the program's
// calls and during its commands. An input decides what both do. The driver must not access memory
// outside the rings, return more completions than asked for, or leave a ring mapped.
#pragma once

#include "fake_rxe.hpp"
#include "fake_siw.hpp"

#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <span>

namespace fake {

/// The bytes of an input; zeros after its end.
class input {
  public:
    explicit input(std::span<const unsigned char> bytes)
        : bytes_(bytes) {}

    bool empty() const { return bytes_.empty(); }
    template <class type>
    type read() {
        type value{};
        const std::size_t size = std::min(sizeof value, bytes_.size());
        std::memcpy(&value, bytes_.data(), size);
        bytes_ = bytes_.subspan(size);
        return value;
    }
    std::uint32_t below(std::uint32_t limit) { return read<std::uint8_t>() % limit; }
    bool one_of(std::uint32_t count) { return below(count) == 0; }

  private:
    std::span<const unsigned char> bytes_;
};

inline void require(bool condition) {
    if (!condition)
        std::abort();
}

/// base: rxe_kernel or siw_kernel. Fails commands, and writes to rings before it answers one.
template <class base>
class hostile_kernel : public base {
  public:
    explicit hostile_kernel(input &bytes)
        : bytes_(bytes) {}

    std::span<const std::uint32_t> qp_nums; ///< of QPs that exist

    /// Writes anything to any ring.
    void write_rings() {
        for (std::uint32_t i = bytes_.below(6); i != 0 && this->num_rings() != 0; --i) {
            const std::size_t index = bytes_.below(static_cast<std::uint32_t>(this->num_rings()));
            const std::span<unsigned char> ring = this->ring_bytes(index);
            if (bytes_.one_of(4))
                write_bytes(ring);
            else
                write_entry(index, ring);
        }
    }

  protected:
    int answer_driver(const command &cmd) override {
        if (cmd.number == IB_USER_VERBS_CMD_GET_CONTEXT)
            return base::answer_driver(cmd);
        write_rings();
        if (bytes_.one_of(8))
            return bytes_.one_of(2) ? ENOTCONN : ENOMEM;
        return base::answer_driver(cmd);
    }

  private:
    void write_bytes(std::span<unsigned char> ring) {
        const std::size_t begin = bytes_.template read<std::uint16_t>() % ring.size();
        const std::size_t length = std::min<std::size_t>(bytes_.below(64), ring.size() - begin);
        for (std::size_t i = 0; i < length; ++i)
            ring[begin + i] = bytes_.template read<std::uint8_t>();
    }
    std::uint32_t qp_num() {
        const std::uint32_t any = bytes_.template read<std::uint32_t>();
        return qp_nums.empty() || bytes_.one_of(4) ? any : qp_nums[any % qp_nums.size()];
    }
    // CQEs, if the ring is a CQ's: one, or as many as fit; and the index or flag that gives them to
    // the program.
    void write_entry(std::size_t index, std::span<unsigned char> ring) {
        if constexpr (std::is_same_v<base, rxe_kernel>) {
            rxe::rxe_queue_buf &buf = this->ring(index);
            rxe::rxe_cqe cqe{};
            cqe.wr_id = bytes_.template read<std::uint64_t>();
            cqe.status = bytes_.one_of(3) ? bytes_.template read<std::uint32_t>() : 0;
            cqe.opcode = bytes_.template read<std::uint32_t>();
            cqe.byte_len = bytes_.template read<std::uint32_t>();
            cqe.qp_num = qp_num();
            cqe.wc_flags = bytes_.template read<std::uint32_t>();
            const std::size_t entry =
                copy_entries(cqe, ring.subspan(sizeof buf), 64); // the size of a CQE
            if (bytes_.one_of(2))
                buf.producer_index = static_cast<std::uint32_t>(entry);
            else if (bytes_.one_of(2))
                buf.producer_index = bytes_.template read<std::uint32_t>();
            else
                buf.consumer_index = bytes_.template read<std::uint32_t>();
        } else {
            siw_cqe cqe{};
            cqe.id = bytes_.template read<std::uint64_t>();
            cqe.flags = static_cast<std::uint8_t>(bytes_.template read<std::uint8_t>() |
                                                  (bytes_.one_of(4) ? 0 : SIW_WQE_VALID));
            cqe.opcode = bytes_.template read<std::uint8_t>();
            cqe.status = bytes_.one_of(3) ? bytes_.template read<std::uint16_t>() : std::uint16_t{};
            cqe.bytes = bytes_.template read<std::uint32_t>();
            cqe.qp_id = qp_num();
            copy_entries(cqe, ring, sizeof cqe);
        }
    }
    // Returns the index after the last.
    template <class type>
    std::size_t copy_entries(const type &value, std::span<unsigned char> entries,
                             std::size_t entry_size) {
        const std::size_t num_entries = entries.size() / entry_size;
        const std::size_t begin = bytes_.below(256) % num_entries;
        const std::size_t end = bytes_.one_of(2) ? begin + 1 : num_entries;
        for (std::size_t i = bytes_.one_of(2) ? begin : 0; i < end; ++i)
            std::memcpy(entries.data() + i * entry_size, &value, sizeof value);
        return end;
    }

    input &bytes_;
};

/// A program that calls the driver as its input says. Objects that could not be created are NULL.
template <class base>
class hostile_program {
  public:
    explicit hostile_program(std::span<const unsigned char> bytes)
        : input_(bytes)
        , kernel_(input_) {
        context_ = kernel_.open();
        require(context_ != nullptr);
        pd_ = ibv_alloc_pd(context_);
        require(pd_ != nullptr);
        constexpr int access = IBV_ACCESS_LOCAL_WRITE;
        mr_ = ibv_reg_mr(pd_, memory_.data(), memory_.size(), access);
        if (!is_rxe)
            channel_ = ibv_create_comp_channel(context_);
        cq_ = ibv_create_cq(context_, 12, nullptr, channel_, 0);
        ibv_cq_init_attr_ex cq_attr{};
        cq_attr.cqe = 5;
        cq_ex_ = ibv_create_cq_ex(context_, &cq_attr);
        ibv_srq_init_attr srq_attr{};
        srq_attr.attr = {6, 2, 0};
        srq_ = ibv_create_srq(pd_, &srq_attr);
        if (cq_ == nullptr || cq_ex_ == nullptr)
            return;
        for (std::size_t i = 0; i < qps_.size(); ++i)
            create_qp(i);
    }
    hostile_program(const hostile_program &) = delete;
    hostile_program &operator=(const hostile_program &) = delete;
    ~hostile_program() {
        for (std::size_t i = 0; i < qps_.size(); ++i)
            destroy_qp(i);
        if (srq_ != nullptr)
            require(ibv_destroy_srq(srq_) == 0);
        for (ibv_cq *cq : {cq_, cq_ex_ != nullptr ? ibv_cq_ex_to_cq(cq_ex_) : nullptr})
            if (cq != nullptr)
                require(ibv_destroy_cq(cq) == 0);
        if (channel_ != nullptr)
            require(ibv_destroy_comp_channel(channel_) == 0);
        if (mr_ != nullptr)
            require(ibv_dereg_mr(mr_) == 0);
        require(ibv_dealloc_pd(pd_) == 0 && ibv_close_device(context_) == 0);
        require(kernel_.objects.empty() && kernel_.num_mapped() == 0);
    }

    void run() {
        if (cq_ == nullptr || cq_ex_ == nullptr)
            return;
        for (int calls = 0; calls < max_calls && !input_.empty(); ++calls) {
            kernel_.write_rings();
            call();
        }
    }

  private:
    static constexpr bool is_rxe = std::is_same_v<base, rxe_kernel>;
    static constexpr int max_calls = 200, max_new_rings = 60;

    void call() {
        const std::size_t qp_index = input_.below(static_cast<std::uint32_t>(qps_.size()));
        ibv_qp *const qp = qps_[qp_index];
        const std::uint32_t function = input_.below(16);
        if (function >= 12)
            return function % 2 == 0 ? poll_cq() : poll_cq_ex();
        if (function == 0)
            return req_notify();
        if (function == 1)
            return resize();
        if (function == 2)
            return post_srq_recv();
        if (qp == nullptr)
            return create_qp(qp_index);
        switch (function) {
        case 3:
            return destroy_qp(qp_index);
        case 4:
            return modify_qp(*qp);
        case 5:
        case 6:
            return post_recv(*qp);
        case 7:
        case 8:
            return post_batch(*qp);
        default:
            return post_send(*qp);
        }
    }

    // The first without, the second with an SRQ, the third with ibv_wr_*. Both CQs are used.
    void create_qp(std::size_t index) {
        if (kernel_.num_rings() > max_new_rings || qps_[index] != nullptr)
            return;
        ibv_qp_init_attr_ex attr{};
        attr.send_cq = cq_;
        attr.recv_cq = index == 2 ? ibv_cq_ex_to_cq(cq_ex_) : cq_;
        attr.cap = {6, 5, 4, 3, 48};
        attr.qp_type = IBV_QPT_RC;
        attr.sq_sig_all = 1;
        attr.comp_mask = IBV_QP_INIT_ATTR_PD;
        attr.pd = pd_;
        if (index == 2) {
            attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
            attr.send_ops_flags =
                IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ;
            qps_[index] = ibv_create_qp_ex(context_, &attr);
        } else {
            ibv_qp_init_attr init_attr{nullptr,  attr.send_cq, attr.recv_cq,   nullptr,
                                       attr.cap, attr.qp_type, attr.sq_sig_all};
            init_attr.srq = index == 1 ? srq_ : nullptr;
            qps_[index] = ibv_create_qp(pd_, &init_attr);
        }
        set_qp_nums();
    }
    void destroy_qp(std::size_t index) {
        if (qps_[index] != nullptr)
            require(ibv_destroy_qp(qps_[index]) == 0);
        qps_[index] = nullptr;
        set_qp_nums();
    }
    void set_qp_nums() {
        std::size_t count = 0;
        for (const ibv_qp *qp : qps_)
            if (qp != nullptr)
                qp_nums_[count++] = qp->qp_num;
        kernel_.qp_nums = {qp_nums_.data(), count};
    }
    void modify_qp(ibv_qp &qp) {
        ibv_qp_attr attr{};
        attr.qp_state = static_cast<ibv_qp_state>(input_.below(IBV_QPS_ERR + 1));
        ibv_modify_qp(&qp, &attr, IBV_QP_STATE);
    }
    void req_notify() {
        ibv_req_notify_cq(input_.one_of(2) ? cq_ : ibv_cq_ex_to_cq(cq_ex_),
                          static_cast<int>(input_.below(2)));
    }
    // rxe only; siw has no resize.
    void resize() {
        if (!is_rxe || kernel_.num_rings() > max_new_rings)
            return;
        if (input_.one_of(2) && srq_ != nullptr) {
            ibv_srq_attr attr{};
            attr.max_wr = 1 + input_.below(20);
            ibv_modify_srq(srq_, &attr, IBV_SRQ_MAX_WR);
        } else {
            ibv_resize_cq(cq_, static_cast<int>(1 + input_.below(20)));
        }
    }

    ibv_sge make_sge() {
        const std::uint32_t offset = input_.below(128);
        return {reinterpret_cast<std::uintptr_t>(memory_.data() + offset), input_.below(40),
                input_.read<std::uint8_t>()};
    }
    template <class wr_type>
    void make_list(std::array<wr_type, 3> &wrs, std::array<std::array<ibv_sge, 5>, 3> &sges) {
        const std::size_t count = 1 + input_.below(3);
        for (std::size_t i = 0; i < count; ++i) {
            wrs[i].wr_id = input_.read<std::uint8_t>();
            wrs[i].num_sge = static_cast<int>(input_.below(6));
            for (ibv_sge &sge : sges[i])
                sge = make_sge();
            wrs[i].sg_list = sges[i].data();
            wrs[i].next = i + 1 < count ? &wrs[i + 1] : nullptr;
        }
    }
    void post_send(ibv_qp &qp) {
        std::array<ibv_send_wr, 3> wrs{};
        std::array<std::array<ibv_sge, 5>, 3> sges{};
        make_list(wrs, sges);
        for (ibv_send_wr &wr : wrs) {
            wr.opcode = static_cast<ibv_wr_opcode>(input_.below(IBV_WR_ATOMIC_FETCH_AND_ADD + 1));
            wr.send_flags = input_.below(16);
            wr.wr.atomic.remote_addr = input_.read<std::uint16_t>();
        }
        ibv_send_wr *bad_wr = nullptr;
        const int error = ibv_post_send(&qp, wrs.data(), &bad_wr);
        require((error == 0) == (bad_wr == nullptr));
    }
    void post_recv(ibv_qp &qp) {
        std::array<ibv_recv_wr, 3> wrs{};
        std::array<std::array<ibv_sge, 5>, 3> sges{};
        make_list(wrs, sges);
        ibv_recv_wr *bad_wr = nullptr;
        const int error = ibv_post_recv(&qp, wrs.data(), &bad_wr);
        require((error == 0) == (bad_wr == nullptr));
    }
    void post_srq_recv() {
        if (srq_ == nullptr)
            return;
        std::array<ibv_recv_wr, 3> wrs{};
        std::array<std::array<ibv_sge, 5>, 3> sges{};
        make_list(wrs, sges);
        ibv_recv_wr *bad_wr = nullptr;
        const int error = ibv_post_srq_recv(srq_, wrs.data(), &bad_wr);
        require((error == 0) == (bad_wr == nullptr));
    }
    // The kernel writes between these calls, too.
    void post_batch(ibv_qp &qp) {
        ibv_qp_ex *const qp_ex = ibv_qp_to_qp_ex(&qp);
        if (&qp != qps_[2] || qp_ex == nullptr)
            return post_send(qp);
        ibv_wr_start(qp_ex);
        for (std::uint32_t i = input_.below(9); i != 0; --i) {
            kernel_.write_rings();
            qp_ex->wr_id = input_.read<std::uint8_t>();
            qp_ex->wr_flags = input_.below(16);
            switch (input_.below(3)) {
            case 0:
                ibv_wr_send(qp_ex);
                break;
            case 1:
                ibv_wr_rdma_write(qp_ex, 1, 2);
                break;
            default:
                ibv_wr_rdma_read(qp_ex, 1, 2);
            }
            kernel_.write_rings();
            const ibv_sge sges[] = {make_sge(), make_sge(), make_sge(), make_sge(), make_sge()};
            if (input_.one_of(2))
                ibv_wr_set_sge_list(qp_ex, input_.below(6), sges);
            else
                ibv_wr_set_inline_data(qp_ex, memory_.data(), input_.below(60));
        }
        kernel_.write_rings();
        if (input_.one_of(4))
            ibv_wr_abort(qp_ex);
        else
            ibv_wr_complete(qp_ex);
    }

    // Exactly as many as asked for, so that AddressSanitizer finds a write beyond them.
    void poll_cq() {
        const auto max_wc = static_cast<int>(input_.below(20));
        const auto wcs = std::make_unique<ibv_wc[]>(static_cast<std::size_t>(max_wc));
        const int count =
            ibv_poll_cq(input_.one_of(4) ? ibv_cq_ex_to_cq(cq_ex_) : cq_, max_wc, wcs.get());
        require(count >= 0 && count <= max_wc);
    }
    void poll_cq_ex() {
        ibv_poll_cq_attr attr{};
        if (ibv_start_poll(cq_ex_, &attr) != 0)
            return;
        for (std::uint32_t i = input_.below(20); i != 0; --i) {
            read_completion();
            kernel_.write_rings();
            if (ibv_next_poll(cq_ex_) != 0)
                break;
        }
        ibv_end_poll(cq_ex_);
    }
    void read_completion() {
        ibv_wc_read_opcode(cq_ex_);
        ibv_wc_read_vendor_err(cq_ex_);
        ibv_wc_read_byte_len(cq_ex_);
        ibv_wc_read_imm_data(cq_ex_);
        ibv_wc_read_qp_num(cq_ex_);
        ibv_wc_read_src_qp(cq_ex_);
        ibv_wc_read_wc_flags(cq_ex_);
        ibv_wc_read_slid(cq_ex_);
        ibv_wc_read_sl(cq_ex_);
        ibv_wc_read_dlid_path_bits(cq_ex_);
    }

    input input_;
    hostile_kernel<base> kernel_;
    std::array<unsigned char, 256> memory_{};
    ibv_context *context_ = nullptr;
    ibv_pd *pd_ = nullptr;
    ibv_mr *mr_ = nullptr;
    ibv_comp_channel *channel_ = nullptr;
    ibv_cq *cq_ = nullptr;
    ibv_cq_ex *cq_ex_ = nullptr;
    ibv_srq *srq_ = nullptr;
    std::array<ibv_qp *, 3> qps_{};
    std::array<std::uint32_t, 3> qp_nums_{};
};

template <class base>
void run_hostile_program(std::span<const unsigned char> bytes) {
    hostile_program<base> program(bytes);
    program.run();
}

} // namespace fake
