// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// To be preloaded to a uDAPL program: appends to the file in DAT_CALLS, in their order, which
// transfers it posts and which memory it syncs.

#include <cstdlib>
#include <cstring>
#include <dat2/udat.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

namespace {

void note(const char *call) {
    const char *const name = std::getenv("DAT_CALLS");
    const int file = name ? open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (file < 0 || write(file, call, std::strlen(call)) < 0)
        std::abort();
    close(file);
}

/// The function of that name in the library.
template <class Function>
Function *next(const char *name) {
    return reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
}

} // namespace

extern "C" {

DAT_RETURN dat_ep_post_send(DAT_EP_HANDLE ep, DAT_COUNT count, DAT_LMR_TRIPLET *from,
                            DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags) {
    note("send ");
    return next<decltype(dat_ep_post_send)>("dat_ep_post_send")(ep, count, from, cookie, flags);
}

DAT_RETURN dat_ep_post_recv(DAT_EP_HANDLE ep, DAT_COUNT count, DAT_LMR_TRIPLET *to,
                            DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags) {
    note("receive ");
    return next<decltype(dat_ep_post_recv)>("dat_ep_post_recv")(ep, count, to, cookie, flags);
}

DAT_RETURN dat_ep_post_rdma_read(DAT_EP_HANDLE ep, DAT_COUNT count, DAT_LMR_TRIPLET *to,
                                 DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *from,
                                 DAT_COMPLETION_FLAGS flags) {
    note("read ");
    return next<decltype(dat_ep_post_rdma_read)>("dat_ep_post_rdma_read")(ep, count, to, cookie,
                                                                          from, flags);
}

DAT_RETURN dat_ep_post_rdma_write(DAT_EP_HANDLE ep, DAT_COUNT count, DAT_LMR_TRIPLET *from,
                                  DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *to,
                                  DAT_COMPLETION_FLAGS flags) {
    note("write ");
    return next<decltype(dat_ep_post_rdma_write)>("dat_ep_post_rdma_write")(ep, count, from, cookie,
                                                                            to, flags);
}

DAT_RETURN dat_lmr_sync_rdma_read(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *list, DAT_VLEN count) {
    note("sync-read ");
    return next<decltype(dat_lmr_sync_rdma_read)>("dat_lmr_sync_rdma_read")(ia, list, count);
}

DAT_RETURN dat_lmr_sync_rdma_write(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *list, DAT_VLEN count) {
    note("sync-write ");
    return next<decltype(dat_lmr_sync_rdma_write)>("dat_lmr_sync_rdma_write")(ia, list, count);
}
}
