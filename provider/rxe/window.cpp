// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "objects.hpp"

#include <cerrno>

namespace coherdma::provider::rxe {
namespace {

ibv_mw *alloc(ibv_pd *domain, ibv_mw_type type) noexcept {
    fresh<ibv_mw> window;
    if (!window)
        return nullptr;
    abi::message<abi::command::alloc_mw> command = {};
    abi::message<abi::response::alloc_mw> response = {};
    if (const int error = library().alloc_mw(domain, type, &*window, &command, command.size,
                                             &response, response.size)) {
        errno = error;
        return nullptr;
    }
    return window.take();
}

int dealloc(ibv_mw *window) noexcept {
    const int error = library().dealloc_mw(window);
    if (error == 0)
        std::free(window);
    return error;
}

// Of type 1: a request of its own, with the key that the window has after it.
int bind(ibv_qp *qp, ibv_mw *window, ibv_mw_bind *how) noexcept {
    const ibv_mw_bind_info &info = how->bind_info;
    if (window->type != IBV_MW_TYPE_1 || (info.mr == nullptr && info.length != 0))
        return EINVAL;
    if (info.mr != nullptr &&
        (info.mr->context != window->context || info.mr->pd->handle != window->pd->handle))
        return EPERM;
    ibv_send_wr request = {}, *bad = nullptr;
    request.wr_id = how->wr_id;
    request.opcode = IBV_WR_BIND_MW;
    request.send_flags = how->send_flags;
    request.bind_mw.mw = window;
    request.bind_mw.rkey = ibv_inc_rkey(window->rkey);
    request.bind_mw.bind_info = info;
    const int error = ibv_post_send(qp, &request, &bad);
    if (error == 0)
        window->rkey = request.bind_mw.rkey;
    return error;
}

} // namespace

void fill_window(abi::operations &able) noexcept {
    able.alloc_mw = alloc;
    able.dealloc_mw = dealloc;
    able.bind_mw = bind;
}

} // namespace coherdma::provider::rxe
