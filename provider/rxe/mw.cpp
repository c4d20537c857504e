// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "objects.hpp"

#include <cerrno>

namespace coherdma::provider::rxe {
namespace {

ibv_mw *alloc_mw(ibv_pd *pd, ibv_mw_type type) noexcept {
    auto mw = make_calloc_ptr<ibv_mw>();
    if (!mw)
        return nullptr;
    abi::message<abi::command::alloc_mw> command = {};
    abi::message<abi::response::alloc_mw> response = {};
    if (const int error = libibverbs().ibv_cmd_alloc_mw(pd, type, &*mw, &command, command.size,
                                                        &response, response.size))
        return fail_with(error);
    return mw.release();
}

int dealloc_mw(ibv_mw *mw) noexcept {
    const int error = libibverbs().ibv_cmd_dealloc_mw(mw);
    if (error == 0)
        std::free(mw);
    return error;
}

// Binds an MW of type 1: posts a bind WR with a new rkey. Only MWs of type 2 can be zero-based: the
// kernel would complete the bind of another with an error.
int bind_mw(ibv_qp *ibqp, ibv_mw *mw, ibv_mw_bind *mw_bind) noexcept {
    const ibv_mw_bind_info &info = mw_bind->bind_info;
    if (mw->type != IBV_MW_TYPE_1 || (info.mr == nullptr && info.length != 0) ||
        (info.mw_access_flags & IBV_ACCESS_ZERO_BASED) != 0)
        return EINVAL;
    if (info.mr != nullptr &&
        (info.mr->context != mw->context || info.mr->pd->handle != mw->pd->handle))
        return EPERM;
    ibv_send_wr wr = {}, *bad_wr = nullptr;
    wr.wr_id = mw_bind->wr_id;
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = mw_bind->send_flags;
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
    wr.bind_mw.bind_info = info;
    const int error = ibv_post_send(ibqp, &wr, &bad_wr);
    if (error == 0)
        mw->rkey = wr.bind_mw.rkey;
    return error;
}

} // namespace

void fill_mw_ops(abi::verbs_context_ops &ops) noexcept {
    ops.alloc_mw = alloc_mw;
    ops.dealloc_mw = dealloc_mw;
    ops.bind_mw = bind_mw;
}

} // namespace coherdma::provider::rxe
