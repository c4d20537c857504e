/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Compiled as it is, and once more by calls.cpp. */
#include "calls.h"

#ifndef dat2_calls
#    define dat2_calls dat2_calls_in_c
#endif

static void transfers(DAT_EP_HANDLE ep, DAT_CONTEXT cookie) {
    struct dat2_things *it = &dat2_things;
    const DAT_RMR_TRIPLET *remote = &it->remote;
    dat_ib_post_fetch_and_add(ep, 0x10, &it->local, cookie, remote, DAT_COMPLETION_SUPPRESS_FLAG);
    dat_ib_post_cmp_and_swap(ep, 0x11, 0x12, &it->local, cookie, remote,
                             DAT_COMPLETION_DEFAULT_FLAG);
    dat_ib_post_rdma_write_immed(ep, 1, &it->local, cookie, remote, 0x7777,
                                 DAT_COMPLETION_SOLICITED_WAIT_FLAG |
                                     DAT_COMPLETION_BARRIER_FENCE_FLAG);
    dat_ib_post_send_ud(ep, 1, &it->local, &it->peer, cookie, DAT_COMPLETION_UNSIGNALLED_FLAG);
    dat_ib_post_recv_ud(ep, 1, &it->local, cookie, DAT_COMPLETION_DEFAULT_FLAG);
    dat_ib_ud_cm_free(ep, cookie);
    dat_ib_ud_cm_free(ep, cookie.as_ptr);
    dat_ib_ud_ah_free(ep, &it->peer);
}

static void inquiries(DAT_HANDLE handle) {
    struct dat2_things *it = &dat2_things;
    const char *name = it->name;
    dat_ib_query_counters(handle, DCNT_EP_ALL_COUNTERS, &it->out, 1);
    dat_query_counters(handle, DCNT_EVD_WAIT, &it->out, 0);
    dat_ib_print_counters(handle, DCNT_IA_PZ_CREATE, 1);
    dat_print_counters(handle, DCNT_IA_ALL_COUNTERS, 0);
    dat_ib_start_counter(handle, DCNT_IA_LNK);
    dat_ib_stop_counter(handle, DCNT_IA_DIAG);
    dat_ib_open_query(name, &it->ia, DAT_IA_FIELD_ALL, &it->ia_attr, DAT_PROVIDER_FIELD_ALL,
                      &it->provider_attr);
    dat_ib_close_query(handle);
}

static void groups(DAT_HANDLE handle, DAT_CONTEXT cookie) {
    struct dat2_things *it = &dat2_things;
    dat_ib_collective_create_member(handle, it->received, &it->member, &it->size);
    dat_ib_collective_free_member(handle, it->sent);
    dat_ib_collective_create_group(&it->member, 5, 3, 0x99, &it->group, handle, it->ia, cookie);
    dat_ib_collective_free_group(handle);
    dat_ib_collective_set_clock(handle, 0x123, cookie);
    dat_ib_collective_read_clock(handle, &it->out);
    dat_ib_collective_broadcast(handle, it->sent, 8, 3, cookie, DAT_COMPLETION_SUPPRESS_FLAG);
    dat_ib_collective_barrier(handle, cookie, DAT_COMPLETION_SUPPRESS_FLAG);
}

static void exchanges(DAT_HANDLE group, DAT_CONTEXT cookie) {
    struct dat2_things *it = &dat2_things;
    const DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_SUPPRESS_FLAG;
    const char *sent = it->sent;
    dat_ib_collective_scatter(group, sent, 8, it->received, 4, 3, cookie, flags);
    dat_ib_collective_scatterv(group, it->sent, it->sizes, it->places, it->received, 4, 3, cookie,
                               flags);
    dat_ib_collective_gather(group, it->sent, 4, it->received, 8, 3, cookie, flags);
    dat_ib_collective_gatherv(group, it->sent, 4, it->received, it->sizes, it->places, 3, cookie,
                              flags);
    dat_ib_collective_allgather(group, it->sent, 4, it->received, 8, cookie, flags);
    dat_ib_collective_allgatherv(group, it->sent, 4, it->received, it->sizes, it->places, cookie,
                                 flags);
    dat_ib_collective_alltoall(group, it->sent, 8, it->received, 8, cookie, flags);
    dat_ib_collective_alltoallv(group, it->sent, it->sizes, it->places, it->received, it->sizes,
                                it->places, cookie, flags);
}

static void reductions(DAT_HANDLE group, DAT_CONTEXT cookie) {
    struct dat2_things *it = &dat2_things;
    const DAT_IB_COLLECTIVE_REDUCE_DATA_OP op = DAT_IB_COLLECTIVE_REDUCE_OP_SUM;
    const DAT_IB_COLLECTIVE_DATA_TYPE type = DAT_IB_COLLECTIVE_TYPE_INT64;
    const DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_SUPPRESS_FLAG;
    dat_ib_collective_reduce(group, it->sent, 8, it->received, 8, op, type, 3, cookie, flags);
    dat_ib_collective_allreduce(group, it->sent, 8, it->received, 8, op, type, cookie, flags);
    dat_ib_collective_reduce_scatter(group, it->sent, 8, it->received, it->sizes, op, type, cookie,
                                     flags);
    dat_ib_collective_scan(group, it->sent, 8, it->received, 8, op, type, cookie, flags);
}

void dat2_calls(void) {
    struct dat2_things *it = &dat2_things;
    DAT_CONTEXT cookie;
    cookie.as_64 = 0xc00c1e;
    dat_ia_open(it->name, 8, &it->evd, &it->ia);
    transfers(&it->object, cookie);
    inquiries(&it->object);
    groups(&it->object, cookie);
    exchanges(&it->object, cookie);
    reductions(&it->object, cookie);
}
