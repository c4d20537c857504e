/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * dat1_talk NAME: a program of uDAPL 1.2, as it is written for OFED's library or for Solaris. It
 * connects two endpoints of this IA with each other, sends, writes, reads, and verifies each byte.
 */
#include <dat/udat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PART = 4096, WAIT = 20 * 1000 * 1000 };

static char memory[4 * PART]; /* what is sent, received, written and read */
static DAT_IA_HANDLE ia;
static DAT_PZ_HANDLE pz;
static DAT_LMR_CONTEXT local;
static DAT_RMR_CONTEXT remote;

struct side {
    DAT_EVD_HANDLE requests, connections, completions;
    DAT_EP_HANDLE ep;
};
static struct side client, server;

static void must_be(int truth, const char *what, DAT_RETURN status) {
    const char *type, *subtype;
    if (truth)
        return;
    dat_strerror(status, &type, &subtype);
    fprintf(stderr, "%s: %s %s\n", what, type, subtype);
    exit(1);
}
#define MUST(call)                                                                                 \
    do {                                                                                           \
        DAT_RETURN result = (call);                                                                \
        must_be(result == DAT_SUCCESS, #call, result);                                             \
    } while (0)

static DAT_EVENT event_of(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER wanted) {
    DAT_EVENT event;
    DAT_COUNT left;
    MUST(dat_evd_wait(evd, WAIT, 1, &event, &left));
    if (event.event_number != wanted) {
        fprintf(stderr, "event %#x, not %#x\n", event.event_number, wanted);
        exit(1);
    }
    return event;
}

static void completes(struct side *at, DAT_UINT64 cookie, DAT_VLEN length) {
    const DAT_EVENT event = event_of(at->completions, DAT_DTO_COMPLETION_EVENT);
    const DAT_DTO_COMPLETION_EVENT_DATA *data = &event.event_data.dto_completion_event_data;
    if (data->status != DAT_DTO_SUCCESS || data->ep_handle != at->ep ||
        data->user_cookie.as_64 != cookie || data->transfered_length != length) {
        fprintf(stderr, "completion %llu: status %d, cookie %llu, %llu bytes\n",
                (unsigned long long)cookie, (int)data->status,
                (unsigned long long)data->user_cookie.as_64,
                (unsigned long long)data->transfered_length);
        exit(1);
    }
}

static DAT_LMR_TRIPLET part(int number) {
    DAT_LMR_TRIPLET it;
    it.lmr_context = local;
    it.pad = 0;
    it.virtual_address = (DAT_VADDR)(memory + number * PART);
    it.segment_length = PART;
    return it;
}

static DAT_RMR_TRIPLET part_of_peer(int number) {
    DAT_RMR_TRIPLET it;
    it.rmr_context = remote;
    it.pad = 0;
    it.target_address = (DAT_VADDR)(memory + number * PART);
    it.segment_length = PART;
    return it;
}

static DAT_DTO_COOKIE cookie(DAT_UINT64 value) {
    DAT_DTO_COOKIE it;
    it.as_64 = value;
    return it;
}

static void make(struct side *it) {
    MUST(dat_evd_create(ia, 8, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &it->requests));
    MUST(dat_evd_create(ia, 8, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &it->connections));
    MUST(dat_evd_create(ia, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &it->completions));
    MUST(dat_ep_create(ia, pz, it->completions, it->completions, it->connections, NULL, &it->ep));
}

static void take_apart(struct side *it) {
    MUST(dat_ep_free(it->ep));
    MUST(dat_evd_free(it->completions));
    MUST(dat_evd_free(it->connections));
    MUST(dat_evd_free(it->requests));
}

static void connect_them(DAT_IA_ADDRESS_PTR address) {
    DAT_PSP_HANDLE psp;
    DAT_CONN_QUAL where;
    DAT_EVENT event;
    MUST(dat_psp_create_any(ia, &where, server.requests, DAT_PSP_CONSUMER_FLAG, &psp));
    MUST(dat_ep_connect(client.ep, address, where, WAIT, 0, NULL, DAT_QOS_BEST_EFFORT,
                        DAT_CONNECT_DEFAULT_FLAG));
    event = event_of(server.requests, DAT_CONNECTION_REQUEST_EVENT);
    must_be(event.event_data.cr_arrival_event_data.conn_qual == where, "conn_qual", DAT_ABORT);
    MUST(dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, server.ep, 0, NULL));
    event_of(client.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    event_of(server.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    MUST(dat_psp_free(psp));
}

static void transfer(void) {
    DAT_LMR_TRIPLET from = part(0), received = part(1), written = part(2), read = part(3);
    const DAT_RMR_TRIPLET there = part_of_peer(2);
    MUST(dat_ep_post_recv(server.ep, 1, &received, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
    MUST(dat_lmr_sync_rdma_write(ia, &written, 1));
    MUST(dat_ep_post_rdma_write(client.ep, 1, &from, cookie(2), &there,
                                DAT_COMPLETION_DEFAULT_FLAG));
    completes(&client, 2, PART);
    MUST(dat_ep_post_send(client.ep, 1, &from, cookie(3), DAT_COMPLETION_DEFAULT_FLAG));
    completes(&client, 3, PART);
    completes(&server, 1, PART);
    MUST(dat_lmr_sync_rdma_write(ia, &written, 1));
    MUST(dat_lmr_sync_rdma_read(ia, &written, 1));
    MUST(
        dat_ep_post_rdma_read(client.ep, 1, &read, cookie(4), &there, DAT_COMPLETION_DEFAULT_FLAG));
    completes(&client, 4, PART);
    must_be(memcmp(memory, memory + PART, PART) == 0, "what was received", DAT_ABORT);
    must_be(memcmp(memory, memory + 2 * PART, PART) == 0, "what was written", DAT_ABORT);
    must_be(memcmp(memory, memory + 3 * PART, PART) == 0, "what was read", DAT_ABORT);
}

int main(int count, char **words) {
    DAT_EVD_HANDLE errors = DAT_HANDLE_NULL;
    DAT_IA_ATTR attr;
    DAT_PROVIDER_ATTR provider;
    DAT_REGION_DESCRIPTION region;
    DAT_LMR_HANDLE lmr;
    DAT_VLEN length;
    DAT_VADDR address;
    int place;
    must_be(count == 2, "dat1_talk NAME", DAT_ABORT);
    for (place = 0; place < PART; ++place)
        memory[place] = (char)(place * 7 + 1);
    MUST(dat_ia_open(words[1], 8, &errors, &ia));
    MUST(dat_ia_query(ia, NULL, DAT_IA_FIELD_ALL, &attr, DAT_PROVIDER_FIELD_ALL, &provider));
    must_be(provider.dapl_version_major == 1 && provider.dapl_version_minor == 2, "1.2", DAT_ABORT);
    MUST(dat_pz_create(ia, &pz));
    region.for_va = memory;
    MUST(dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, region, sizeof memory, pz, DAT_MEM_PRIV_ALL_FLAG,
                        &lmr, &local, &remote, &length, &address));
    make(&client);
    make(&server);
    connect_them(attr.ia_address_ptr);
    transfer();
    MUST(dat_ep_disconnect(client.ep, DAT_CLOSE_GRACEFUL_FLAG));
    event_of(client.connections, DAT_CONNECTION_EVENT_DISCONNECTED);
    event_of(server.connections, DAT_CONNECTION_EVENT_DISCONNECTED);
    take_apart(&client);
    take_apart(&server);
    MUST(dat_lmr_free(lmr));
    MUST(dat_pz_free(pz));
    MUST(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
    printf("%s: talked\n", words[1]);
    return 0;
}
