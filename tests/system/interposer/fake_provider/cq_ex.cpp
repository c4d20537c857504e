// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The start_poll API, in two variants, as mlx5 has many: with the lock, and for a CQ that one
// thread uses. One that is called for a CQ of the other kind ends the program.

#include "objects.hpp"

#include <cstdio>
#include <cstdlib>

namespace fake {
namespace {

/// The CQ of a call of the variant.
template <bool IS_SINGLE_THREADED>
fake_cq &cq_of_variant(ibv_cq_ex *verbs, const char *function) noexcept {
    fake_cq &cq = to_object<fake_cq>(verbs);
    if (cq.is_single_threaded != IS_SINGLE_THREADED) {
        std::fprintf(stderr, "fake: %s of another CQ is called\n", function);
        std::abort();
    }
    return cq;
}

template <bool IS_SINGLE_THREADED>
int next_poll(ibv_cq_ex *verbs) noexcept {
    fake_cq &cq = cq_of_variant<IS_SINGLE_THREADED>(verbs, "next_poll");
    const std::lock_guard guard(lock); // completions may be added by any thread
    if (!take_wc(cq, cq.cur_wc))
        return ENOENT;
    verbs->wr_id = cq.cur_wc.wr_id;
    verbs->status = cq.cur_wc.status;
    return 0;
}

template <bool IS_SINGLE_THREADED>
int start_poll(ibv_cq_ex *verbs, ibv_poll_cq_attr *attr) noexcept {
    cq_of_variant<IS_SINGLE_THREADED>(verbs, "start_poll");
    if (attr->comp_mask != 0)
        return EINVAL;
    if (!IS_SINGLE_THREADED)
        lock.lock(); // end_poll unlocks it
    const int error = next_poll<IS_SINGLE_THREADED>(verbs);
    if (error != 0 && !IS_SINGLE_THREADED)
        lock.unlock();
    return error;
}

template <bool IS_SINGLE_THREADED>
void end_poll(ibv_cq_ex *verbs) noexcept {
    cq_of_variant<IS_SINGLE_THREADED>(verbs, "end_poll");
    if (!IS_SINGLE_THREADED)
        lock.unlock();
}

template <bool IS_SINGLE_THREADED>
void set_variant(ibv_cq_ex &verbs) {
    verbs.start_poll = start_poll<IS_SINGLE_THREADED>;
    verbs.next_poll = next_poll<IS_SINGLE_THREADED>;
    verbs.end_poll = end_poll<IS_SINGLE_THREADED>;
}

/// A function that reads a member of the current completion.
template <auto MEMBER>
auto read(ibv_cq_ex *verbs) noexcept {
    return to_object<fake_cq>(verbs).cur_wc.*MEMBER;
}

} // namespace

/// It has the ibv_wc_read_* functions of the flags and no others, as in mlx5.
void set_poll_functions(fake_cq &cq, std::uint64_t wc_flags) {
    ibv_cq_ex &verbs = cq.verbs.cq_ex;
    if (cq.is_single_threaded)
        set_variant<true>(verbs);
    else
        set_variant<false>(verbs);
    verbs.read_opcode = read<&ibv_wc::opcode>;
    verbs.read_vendor_err = read<&ibv_wc::vendor_err>;
    verbs.read_wc_flags = read<&ibv_wc::wc_flags>;
    if ((wc_flags & IBV_WC_EX_WITH_BYTE_LEN) != 0)
        verbs.read_byte_len = read<&ibv_wc::byte_len>;
    if ((wc_flags & IBV_WC_EX_WITH_IMM) != 0)
        verbs.read_imm_data = [](ibv_cq_ex *cq_ex) {
            return to_object<fake_cq>(cq_ex).cur_wc.imm_data;
        };
    if ((wc_flags & IBV_WC_EX_WITH_QP_NUM) != 0)
        verbs.read_qp_num = read<&ibv_wc::qp_num>;
    if ((wc_flags & IBV_WC_EX_WITH_SRC_QP) != 0)
        verbs.read_src_qp = read<&ibv_wc::src_qp>;
}

} // namespace fake
