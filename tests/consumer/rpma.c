/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A program that is built with the installed librpma. */
#include <librpma.h>
#include <librpma_coherdma.h>
#include <stdio.h>

int main(void) {
    struct coherdma_qp_attr attr;
    const int ret = rpma_coherdma_query_conn(NULL, &attr, sizeof attr);
    return ret == rpma_conn_disconnect(NULL) && puts(rpma_err_2str(ret)) >= 0 ? 0 : 1;
}
