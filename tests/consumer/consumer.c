/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A program of another project, in what C and C++ have in common. Its first header is ours. */
#include <coherdma/coherdma.h>

#include <stdio.h>
#include <string.h>

int main(void) {
    struct coherdma_open_attr wanted;
    struct coherdma_device_attr about;
    struct coherdma_device *device;
    memset(&wanted, 0, sizeof wanted);
    wanted.flags = COHERDMA_OPEN_ASSUME;
    wanted.assume = COHERDMA_COHERENT;
    device = coherdma_open(&wanted, sizeof wanted);
    if (!device || coherdma_query_device(device, &about, sizeof about) != 0) {
        fprintf(stderr, "consumer: %s\n", coherdma_error());
        return 1;
    }
    printf("%s\n", about.explanation);
    coherdma_close(device);
    return 0;
}
