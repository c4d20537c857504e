// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the parts of the fake libraries share.
#pragma once

#include <infiniband/verbs.h>

namespace fake {

// For reset().
void reset_verbs();
void reset_posts();
void reset_manager();
void reset_syncs();

void set_post_ops(ibv_context_ops &ops);
/// nullptr with errno: refused. The QP uses its CQs, PD and SRQ.
ibv_qp *create_qp(const ibv_qp_init_attr_ex &attr);
void destroy_qp(ibv_qp *qp);

} // namespace fake
