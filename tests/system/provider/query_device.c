/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * query_device DEVICE: prints what coherdmadv_query_device() reports, and fails if a capability is
 * not what the verb does. Another provider: prints the error.
 *
 * query_device --by-name DEVICE: opens the device only by its name, and prints its coherency.
 */
#include <coherdma/coherdma.h>
#include <coherdma/coherdmadv.h>

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <stdio.h>
#include <string.h>

static struct ibv_context *open_device(const char *name) {
    int count = 0;
    struct ibv_context *context = NULL;
    struct ibv_device **devices = ibv_get_device_list(&count);
    for (int i = 0; devices && i < count; ++i)
        if (!context && strcmp(ibv_get_device_name(devices[i]), name) == 0)
            context = ibv_open_device(devices[i]);
    if (devices)
        ibv_free_device_list(devices);
    return context;
}

static int has_memory_window(struct ibv_context *context) {
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_mw *mw = pd ? ibv_alloc_mw(pd, IBV_MW_TYPE_1) : NULL;
    int is_supported = mw != NULL;
    if (mw)
        ibv_dealloc_mw(mw);
    if (pd)
        ibv_dealloc_pd(pd);
    return is_supported;
}

static int has_cq_ex(struct ibv_context *context) {
    struct ibv_cq_init_attr_ex attr = {0};
    struct ibv_cq_ex *cq;
    attr.cqe = 1;
    cq = ibv_create_cq_ex(context, &attr);
    if (cq)
        ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
    return cq != NULL;
}

static int has_resize_cq(struct ibv_context *context) {
    struct ibv_cq *cq = ibv_create_cq(context, 1, NULL, NULL, 0);
    int is_supported = cq && ibv_resize_cq(cq, 100) == 0;
    if (cq)
        ibv_destroy_cq(cq);
    return is_supported;
}

static int has_thread_domain(struct ibv_context *context) {
    struct ibv_td_init_attr attr = {0};
    struct ibv_td *td = ibv_alloc_td(context, &attr);
    if (td)
        ibv_dealloc_td(td);
    return td != NULL;
}

static int check_caps(struct ibv_context *context, uint32_t caps) {
    const struct {
        uint32_t cap;
        int (*is_supported)(struct ibv_context *);
        const char *name;
    } checks[] = {
        {COHERDMADV_CAP_MEMORY_WINDOW, has_memory_window, "memory window"},
        {COHERDMADV_CAP_CQ_EX, has_cq_ex, "extended CQ"},
        {COHERDMADV_CAP_RESIZE_CQ, has_resize_cq, "resize CQ"},
        {COHERDMADV_CAP_THREAD_DOMAIN, has_thread_domain, "thread domain"},
    };
    int num_differences = 0;
    for (size_t i = 0; i < sizeof checks / sizeof *checks; ++i) {
        int reported = (caps & checks[i].cap) != 0;
        if (reported != checks[i].is_supported(context)) {
            printf("%s: reported %d\n", checks[i].name, reported);
            ++num_differences;
        }
    }
    return num_differences;
}

static int print_by_name(const char *name) {
    struct coherdma_open_attr open_attr = {0};
    struct coherdma_device_attr attr = {0};
    struct coherdma_device *device;
    char byte = 0;
    struct coherdma_range range = {.addr = &byte, .length = 1};
    int error;
    open_attr.name = name;
    device = coherdma_open_device_ex(&open_attr, sizeof open_attr);
    if (!device) {
        printf("cannot open the device: %s\n", coherdma_error());
        return 1;
    }
    error = coherdma_query_device(device, &attr, sizeof attr);
    if (error == 0)
        printf("%s line %u\n", attr.explanation, attr.line_size);
    if (error == 0)
        error =
            coherdma_sync_after_write(device, &range, 1); /* usable although no context is open */
    coherdma_close_device(device);
    return error != 0;
}

int main(int argc, char **argv) {
    struct ibv_context *context;
    struct coherdmadv_device_attr attr;
    int error, num_differences;
    if (argc > 2 && strcmp(argv[1], "--by-name") == 0)
        return print_by_name(argv[2]);
    context = open_device(argc > 1 ? argv[1] : "");
    if (!context) {
        printf("cannot open the device: %s\n", strerror(errno));
        return 1;
    }
    error = coherdmadv_query_device(context, &attr, sizeof attr);
    if (error != 0) {
        printf("refused: %s: %s\n", strerror(error), coherdma_error());
        ibv_close_device(context);
        return 0;
    }
    printf("%s %s mode '%s' line %u: %s\n",
           attr.driver_id == RDMA_DRIVER_RXE   ? "rxe"
           : attr.driver_id == RDMA_DRIVER_SIW ? "siw"
                                               : "?",
           coherdma_coherency_str(attr.coherency), attr.mode, attr.line_size, attr.evidence);
    num_differences =
        attr.comp_mask & COHERDMADV_DEVICE_ATTR_DRIVER ? check_caps(context, attr.caps) : 0;
    ibv_close_device(context);
    return num_differences != 0;
}
