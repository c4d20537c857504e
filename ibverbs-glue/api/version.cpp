// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include <coherdma/coherdma.h>

const char *coherdma_version(void) {
    return COHERDMA_VERSION;
}
