// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// direct_verbs [pd]: opens the first device, and twice asks the library of another driver for the
// memory of its QP, or for its PD. Exits with 0 if the library refuses that, as it does without the
// interposer.

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    struct ibv_device **const devices = ibv_get_device_list(NULL);
    struct ibv_context *const context =
        devices != NULL && devices[0] != NULL ? ibv_open_device(devices[0]) : NULL;
    struct ibv_pd *const pd = context != NULL ? ibv_alloc_pd(context) : NULL;
    struct ibv_cq *const cq = pd != NULL ? ibv_create_cq(context, 1, NULL, NULL, 0) : NULL;
    struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
    struct ibv_qp *const qp = cq != NULL ? ibv_create_qp(pd, &attr) : NULL;
    if (qp == NULL) {
        perror("no QP");
        return 1;
    }
    struct mlx5dv_qp queue = {0};
    struct mlx5dv_pd domain = {0};
    struct mlx5dv_obj objects = {.qp = {.in = qp, .out = &queue}, .pd = {.in = pd, .out = &domain}};
    const int asks_for_pd = argc > 1 && strcmp(argv[1], "pd") == 0;
    for (int i = 0; i < 2; ++i)
        if (mlx5dv_init_obj(&objects, asks_for_pd ? MLX5DV_OBJ_PD : MLX5DV_OBJ_QP) == 0)
            return 1;
    ibv_free_device_list(devices);
    return ibv_destroy_qp(qp) | ibv_destroy_cq(cq) | ibv_dealloc_pd(pd) | ibv_close_device(context);
}
