/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What coherdma's librpma has beyond librpma 1.3. Experimental, like <coherdma/experimental.h>.
 */
#ifndef LIBRPMA_COHERDMA_H
#define LIBRPMA_COHERDMA_H

#include <coherdma/experimental.h>
#include <librpma.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#    pragma GCC visibility push(default)
#endif

/*
 * How the connection executes rpma_atomic_write() and rpma_flush(): enum coherdma_method in
 * attr->atomic_write and attr->flush. size is that of the struct that the program was compiled
 * with.
 */
int rpma_coherdma_query_conn(const struct rpma_conn *conn, struct coherdma_qp_attr *attr,
                             size_t size);

#ifdef __GNUC__
#    pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
