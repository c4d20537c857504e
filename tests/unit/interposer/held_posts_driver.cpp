// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "held_posts_driver.hpp"

#include "../cmocka.hpp"

#include <thread>

using namespace coherdma::interposer;

namespace {

int driver_post_send(ibv_qp *qp, ibv_send_wr *wrs, ibv_send_wr **bad_wr) {
    fake_qp &fake = to_fake(qp);
    ++num_waiting;
    std::this_thread::yield(); // another thread may come first, if nothing prevents it
    const std::lock_guard guard(fake.mutex);
    --num_waiting;
    assert_true(fake.exists.load());
    posting_thread = pthread_self();
    for (ibv_send_wr *wr = wrs; wr != nullptr; wr = wr->next) {
        if (const int error = answer ? answer(*wr) : 0) {
            *bad_wr = wr;
            return returns_success ? 0 : error;
        }
        std::string line = "post " + std::to_string(wr->wr.rdma.remote_addr);
        if ((wr->send_flags & IBV_SEND_INLINE) != 0)
            for (int i = 0; i < wr->num_sge; ++i)
                line += ' ' + std::string(reinterpret_cast<const char *>(wr->sg_list[i].addr),
                                          wr->sg_list[i].length);
        else
            for (int i = 0; i < wr->num_sge; ++i)
                line += ' ' + std::to_string(wr->sg_list[i].length);
        fake.order.push_back(wr->wr.rdma.remote_addr);
        posted_wr_ids.push_back(wr->wr_id);
        if (writes_posts)
            called.add(line);
        if (num_shared_posts != nullptr)
            ++*num_shared_posts;
    }
    return 0;
}
int driver_bind_mw(ibv_qp *, ibv_mw *, ibv_mw_bind *) {
    called.add("bind_mw");
    return 0;
}
int driver_poll_cq(ibv_cq *, int num_entries, ibv_wc *wcs) {
    int count = 0;
    for (; count < num_entries && !completions.empty(); ++count) {
        wcs[count] = completions.front();
        completions.erase(completions.begin());
    }
    return count;
}

template <class object>
object *make() {
    return new object{};
}
template <class object>
int destroy_logged(object *destroyed, const char *call) {
    called.add(call);
    delete destroyed;
    return 0;
}

ibv_pd *make_pd() {
    ibv_pd *const pd = make<ibv_pd>();
    pd->context = &context;
    return pd;
}

ibv_qp *make_qp(ibv_pd *pd, ibv_cq *cq, ibv_qp_type type) {
    auto *const fake = new fake_qp;
    ibv_qp &qp = fake->verbs.qp_base;
    qp.context = &context;
    qp.pd = pd;
    qp.send_cq = qp.recv_cq = cq;
    qp.qp_type = type;
    qp.qp_num = 17;
    fake->verbs.wr_start = [](ibv_qp_ex *qp_ex) {
        to_fake(&qp_ex->qp_base).mutex.lock();
        called.add("wr_start");
    };
    fake->verbs.wr_complete = [](ibv_qp_ex *qp_ex) {
        called.add("wr_complete");
        to_fake(&qp_ex->qp_base).mutex.unlock();
        return 0;
    };
    fake->verbs.wr_abort = [](ibv_qp_ex *qp_ex) {
        called.add("wr_abort");
        to_fake(&qp_ex->qp_base).mutex.unlock();
    };
    return &qp;
}

libibverbs_functions make_libibverbs() {
    libibverbs_functions made = {};
    made.open_device = [](ibv_device *) {
        extended = {};
        extended.sz = sizeof extended;
        context.abi_compat = __VERBS_ABI_IS_EXTENDED;
        context.device = &device;
        context.ops.post_send = driver_post_send;
        context.ops.bind_mw = driver_bind_mw;
        context.ops.poll_cq = driver_poll_cq;
        context.ops.alloc_mw = [](ibv_pd *, ibv_mw_type) {
            ibv_mw *const mw = make<ibv_mw>();
            mw->context = &context;
            return mw;
        };
        context.ops.dealloc_mw = [](ibv_mw *mw) {
            return destroy_logged(mw, "dealloc_mw");
        };
        extended.alloc_parent_domain = [](ibv_context *, ibv_parent_domain_init_attr *) {
            return make_pd();
        };
        extended.create_qp_ex = [](ibv_context *, ibv_qp_init_attr_ex *attr) {
            return make_qp(attr->pd, attr->send_cq, attr->qp_type);
        };
        return &context;
    };
    made.close_device = [](ibv_context *) {
        called.add("close_device");
        return 0;
    };
    made.alloc_pd = [](ibv_context *) {
        return make_pd();
    };
    made.dealloc_pd = [](ibv_pd *pd) {
        delete pd;
        return 0;
    };
    made.reg_mr = [](ibv_pd *, void *, std::size_t, int) {
        ibv_mr *const mr = make<ibv_mr>();
        mr->context = &context;
        return mr;
    };
    made.reg_mr_iova2 = [](ibv_pd *pd, void *addr, std::size_t length, std::uint64_t, unsigned) {
        return libibverbs().reg_mr(pd, addr, length, 0);
    };
    made.rereg_mr = [](ibv_mr *, int, ibv_pd *, void *, std::size_t, int) {
        called.add("rereg_mr");
        return 0;
    };
    made.dereg_mr = [](ibv_mr *mr) {
        return destroy_logged(mr, "dereg_mr");
    };
    made.create_cq = [](ibv_context *, int, void *, ibv_comp_channel *, int) {
        ibv_cq *const cq = make<ibv_cq>();
        cq->context = &context;
        return cq;
    };
    made.destroy_cq = [](ibv_cq *cq) {
        delete cq;
        return 0;
    };
    made.create_qp = [](ibv_pd *pd, ibv_qp_init_attr *attr) {
        return make_qp(pd, attr->send_cq, attr->qp_type);
    };
    made.modify_qp = [](ibv_qp *qp, ibv_qp_attr *attr, int mask) {
        called.add("modify_qp");
        if ((mask & IBV_QP_STATE) != 0)
            qp->state = attr->qp_state;
        return 0;
    };
    made.query_qp = [](ibv_qp *, ibv_qp_attr *attr, int, ibv_qp_init_attr *) {
        attr->qp_state = kernel_state;
        return 0;
    };
    made.destroy_qp = [](ibv_qp *qp) {
        called.add("destroy_qp");
        fake_qp &fake = to_fake(qp);
        fake.exists = false;
        delete &fake;
        return 0;
    };
    made.qp_to_qp_ex = [](ibv_qp *qp) {
        return &to_fake(qp).verbs;
    };
    made.create_ah = [](ibv_pd *, ibv_ah_attr *) {
        ibv_ah *const ah = make<ibv_ah>();
        ah->context = &context;
        return ah;
    };
    made.destroy_ah = [](ibv_ah *ah) {
        return destroy_logged(ah, "destroy_ah");
    };
    return made;
}

} // namespace

const libibverbs_functions &coherdma::interposer::libibverbs() noexcept {
    static const libibverbs_functions functions = make_libibverbs();
    return functions;
}
