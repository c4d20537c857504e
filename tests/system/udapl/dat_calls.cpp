// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Preloaded into a uDAPL program: appends the posts and syncs of the program to the file DAT_CALLS,
// in order.

#include <cstdlib>
#include <cstring>
#include <dat2/udat.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

namespace {

void record_call(const char *call) {
    const char *const name = std::getenv("DAT_CALLS");
    const int file = name ? open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (file < 0 || write(file, call, std::strlen(call)) < 0)
        std::abort();
    close(file);
}

/// The function that is interposed.
template <class Function>
Function *real_function(const char *name) {
    return reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
}

} // namespace

extern "C" {

DAT_RETURN dat_ep_post_send(DAT_EP_HANDLE ep, DAT_COUNT count, DAT_LMR_TRIPLET *src,
                            DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags) {
    record_call("send ");
    return real_function<decltype(dat_ep_post_send)>("dat_ep_post_send")(ep, count, src, cookie,
                                                                         flags);
}

DAT_RETURN dat_ep_post_recv(DAT_EP_HANDLE ep, DAT_COUNT count, DAT_LMR_TRIPLET *dst,
                            DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags) {
    record_call("receive ");
    return real_function<decltype(dat_ep_post_recv)>("dat_ep_post_recv")(ep, count, dst, cookie,
                                                                         flags);
}

DAT_RETURN dat_ep_post_rdma_read(DAT_EP_HANDLE ep, DAT_COUNT count, DAT_LMR_TRIPLET *dst,
                                 DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *src,
                                 DAT_COMPLETION_FLAGS flags) {
    record_call("read ");
    return real_function<decltype(dat_ep_post_rdma_read)>("dat_ep_post_rdma_read")(
        ep, count, dst, cookie, src, flags);
}

DAT_RETURN dat_ep_post_rdma_write(DAT_EP_HANDLE ep, DAT_COUNT count, DAT_LMR_TRIPLET *src,
                                  DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *dst,
                                  DAT_COMPLETION_FLAGS flags) {
    record_call("write ");
    return real_function<decltype(dat_ep_post_rdma_write)>("dat_ep_post_rdma_write")(
        ep, count, src, cookie, dst, flags);
}

DAT_RETURN dat_lmr_sync_rdma_read(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *list, DAT_VLEN count) {
    record_call("sync-read ");
    return real_function<decltype(dat_lmr_sync_rdma_read)>("dat_lmr_sync_rdma_read")(ia, list,
                                                                                     count);
}

DAT_RETURN dat_lmr_sync_rdma_write(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *list, DAT_VLEN count) {
    record_call("sync-write ");
    return real_function<decltype(dat_lmr_sync_rdma_write)>("dat_lmr_sync_rdma_write")(ia, list,
                                                                                       count);
}
}
