/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A program of another project, in what C and C++ have in common. Its first header is ours. */
#include <coherdma/coherdma.h>

#include <stdio.h>
#include <string.h>

int main(void) {
    struct coherdma_open_attr attr;
    struct coherdma_device_attr device_attr;
    struct coherdma_device *device;
    memset(&attr, 0, sizeof attr);
    attr.flags = COHERDMA_OPEN_ASSUME;
    attr.assume = COHERDMA_COHERENT;
    device = coherdma_open_device_ex(&attr, sizeof attr);
    if (!device || coherdma_query_device(device, &device_attr, sizeof device_attr) != 0) {
        fprintf(stderr, "consumer: %s\n", coherdma_error());
        return 1;
    }
    printf("%s\n", device_attr.explanation);
    coherdma_close_device(device);
    return 0;
}
