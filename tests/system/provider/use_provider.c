/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * use_provider DEVICE: calls coherdma_use_provider() and opens the device. Prints the result of the
 * call; without DEVICE it only calls.
 */
#include <coherdma/coherdma.h>

#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

static int opens(const char *name) {
    int count = 0, found = 0;
    struct ibv_device **all = ibv_get_device_list(&count);
    for (int each = 0; all && each < count; ++each) {
        struct ibv_context *context = NULL;
        if (strcmp(ibv_get_device_name(all[each]), name) == 0)
            context = ibv_open_device(all[each]);
        if (context) {
            found = 1;
            ibv_close_device(context);
        }
    }
    if (all)
        ibv_free_device_list(all);
    return found;
}

int main(int count, char **words) {
    int error = coherdma_use_provider();
    if (error != 0)
        printf("refused: %s: %s\n", strerror(error), coherdma_error());
    else
        puts("loaded");
    if (count > 1 && !opens(words[1])) {
        printf("cannot open %s\n", words[1]);
        return 1;
    }
    return 0;
}
