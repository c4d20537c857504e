/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Compiled as C, and as C++ by calls.cpp. */
#include "calls.h"

#ifndef dat2_calls
#    define dat2_calls dat2_calls_in_c
#endif

static void call_transfers(DAT_EP_HANDLE ep, DAT_CONTEXT cookie) {
    struct call_arguments *args = &call_arguments;
    const DAT_RMR_TRIPLET *remote = &args->remote;
    dat_ib_post_fetch_and_add(ep, 0x10, &args->local, cookie, remote, DAT_COMPLETION_SUPPRESS_FLAG);
    dat_ib_post_cmp_and_swap(ep, 0x11, 0x12, &args->local, cookie, remote,
                             DAT_COMPLETION_DEFAULT_FLAG);
    dat_ib_post_rdma_write_immed(ep, 1, &args->local, cookie, remote, 0x7777,
                                 DAT_COMPLETION_SOLICITED_WAIT_FLAG |
                                     DAT_COMPLETION_BARRIER_FENCE_FLAG);
    dat_ib_post_send_ud(ep, 1, &args->local, &args->ah, cookie, DAT_COMPLETION_UNSIGNALLED_FLAG);
    dat_ib_post_recv_ud(ep, 1, &args->local, cookie, DAT_COMPLETION_DEFAULT_FLAG);
    dat_ib_ud_cm_free(ep, cookie);
    dat_ib_ud_cm_free(ep, cookie.as_ptr);
    dat_ib_ud_ah_free(ep, &args->ah);
}

static void call_queries(DAT_HANDLE handle) {
    struct call_arguments *args = &call_arguments;
    const char *name = args->name;
    dat_ib_query_counters(handle, DCNT_EP_ALL_COUNTERS, &args->result, 1);
    dat_query_counters(handle, DCNT_EVD_WAIT, &args->result, 0);
    dat_ib_print_counters(handle, DCNT_IA_PZ_CREATE, 1);
    dat_print_counters(handle, DCNT_IA_ALL_COUNTERS, 0);
    dat_ib_start_counter(handle, DCNT_IA_LNK);
    dat_ib_stop_counter(handle, DCNT_IA_DIAG);
    dat_ib_open_query(name, &args->ia, DAT_IA_FIELD_ALL, &args->ia_attr, DAT_PROVIDER_FIELD_ALL,
                      &args->provider_attr);
    dat_ib_close_query(handle);
}

static void call_group_management(DAT_HANDLE handle, DAT_CONTEXT cookie) {
    struct call_arguments *args = &call_arguments;
    dat_ib_collective_create_member(handle, args->recv_buffer, &args->member, &args->size);
    dat_ib_collective_free_member(handle, args->send_buffer);
    dat_ib_collective_create_group(&args->member, 5, 3, 0x99, &args->group, handle, args->ia,
                                   cookie);
    dat_ib_collective_free_group(handle);
    dat_ib_collective_set_clock(handle, 0x123, cookie);
    dat_ib_collective_read_clock(handle, &args->result);
    dat_ib_collective_broadcast(handle, args->send_buffer, 8, 3, cookie,
                                DAT_COMPLETION_SUPPRESS_FLAG);
    dat_ib_collective_barrier(handle, cookie, DAT_COMPLETION_SUPPRESS_FLAG);
}

static void call_data_collectives(DAT_HANDLE group, DAT_CONTEXT cookie) {
    struct call_arguments *args = &call_arguments;
    const DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_SUPPRESS_FLAG;
    const char *send_buffer = args->send_buffer;
    dat_ib_collective_scatter(group, send_buffer, 8, args->recv_buffer, 4, 3, cookie, flags);
    dat_ib_collective_scatterv(group, args->send_buffer, args->sizes, args->displacements,
                               args->recv_buffer, 4, 3, cookie, flags);
    dat_ib_collective_gather(group, args->send_buffer, 4, args->recv_buffer, 8, 3, cookie, flags);
    dat_ib_collective_gatherv(group, args->send_buffer, 4, args->recv_buffer, args->sizes,
                              args->displacements, 3, cookie, flags);
    dat_ib_collective_allgather(group, args->send_buffer, 4, args->recv_buffer, 8, cookie, flags);
    dat_ib_collective_allgatherv(group, args->send_buffer, 4, args->recv_buffer, args->sizes,
                                 args->displacements, cookie, flags);
    dat_ib_collective_alltoall(group, args->send_buffer, 8, args->recv_buffer, 8, cookie, flags);
    dat_ib_collective_alltoallv(group, args->send_buffer, args->sizes, args->displacements,
                                args->recv_buffer, args->sizes, args->displacements, cookie, flags);
}

static void call_reductions(DAT_HANDLE group, DAT_CONTEXT cookie) {
    struct call_arguments *args = &call_arguments;
    const DAT_IB_COLLECTIVE_REDUCE_DATA_OP op = DAT_IB_COLLECTIVE_REDUCE_OP_SUM;
    const DAT_IB_COLLECTIVE_DATA_TYPE type = DAT_IB_COLLECTIVE_TYPE_INT64;
    const DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_SUPPRESS_FLAG;
    dat_ib_collective_reduce(group, args->send_buffer, 8, args->recv_buffer, 8, op, type, 3, cookie,
                             flags);
    dat_ib_collective_allreduce(group, args->send_buffer, 8, args->recv_buffer, 8, op, type, cookie,
                                flags);
    dat_ib_collective_reduce_scatter(group, args->send_buffer, 8, args->recv_buffer, args->sizes,
                                     op, type, cookie, flags);
    dat_ib_collective_scan(group, args->send_buffer, 8, args->recv_buffer, 8, op, type, cookie,
                           flags);
}

void dat2_calls(void) {
    struct call_arguments *args = &call_arguments;
    DAT_CONTEXT cookie;
    cookie.as_64 = 0xc00c1e;
    dat_ia_open(args->name, 8, &args->evd, &args->ia);
    call_transfers(&args->object, cookie);
    call_queries(&args->object);
    call_group_management(&args->object, cookie);
    call_data_collectives(&args->object, cookie);
    call_reductions(&args->object, cookie);
}
