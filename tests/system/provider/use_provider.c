/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * use_provider DEVICE: calls coherdma_use_provider() and opens the device. Prints the result of the
 * call; without DEVICE it only calls.
 */
#include <coherdma/coherdma.h>
#include <coherdma/experimental.h>

#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

static int can_open(const char *name) {
    int count = 0, is_opened = 0;
    struct ibv_device **devices = ibv_get_device_list(&count);
    for (int i = 0; devices && i < count; ++i) {
        struct ibv_context *context = NULL;
        if (strcmp(ibv_get_device_name(devices[i]), name) == 0)
            context = ibv_open_device(devices[i]);
        if (context) {
            is_opened = 1;
            ibv_close_device(context);
        }
    }
    if (devices)
        ibv_free_device_list(devices);
    return is_opened;
}

int main(int argc, char **argv) {
    int error = coherdma_use_provider();
    if (error != 0)
        printf("refused: %s: %s\n", strerror(error), coherdma_error());
    else
        puts("loaded");
    if (argc > 1 && !can_open(argv[1])) {
        printf("cannot open %s\n", argv[1]);
        return 1;
    }
    return 0;
}
