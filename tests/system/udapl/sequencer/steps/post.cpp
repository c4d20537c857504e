// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Requests and receives.

#include "steps.hpp"

#include <dat2/dat_coherdma_extensions.h>
#include <dat2/dat_ib_extensions.h>

namespace sequencer {

namespace {

/// The arguments of a post. The memory is that of any LMR, which may be freed meanwhile: then the
/// DTO fails, not the post.
struct post_arguments {
    DAT_LMR_TRIPLET iov[2] = {};
    DAT_RMR_TRIPLET remote = {};
    DAT_COUNT num_segments = 0;
    DAT_COMPLETION_FLAGS flags{};
    DAT_CONTEXT cookie = {};
};

post_arguments draw_arguments(worker &thread, const object *ia) {
    static constexpr DAT_COMPLETION_FLAGS flag_sets[] = {
        DAT_COMPLETION_DEFAULT_FLAG,        DAT_COMPLETION_DEFAULT_FLAG,
        DAT_COMPLETION_DEFAULT_FLAG,        DAT_COMPLETION_SUPPRESS_FLAG,
        DAT_COMPLETION_SOLICITED_WAIT_FLAG, DAT_COMPLETION_BARRIER_FENCE_FLAG};
    post_arguments args;
    args.num_segments = static_cast<DAT_COUNT>(thread.random.number_below(3));
    const auto address = reinterpret_cast<DAT_VADDR>(lmr_memory());
    args.remote = {address, 64, 0};
    for (DAT_LMR_TRIPLET &segment : args.iov) {
        segment = {address, 8, 0};
        if (const object *const lmr = thread.find_live(DAT_HANDLE_TYPE_LMR, ia)) {
            segment = lmr->triplet;
            segment.segment_length = 8 * (1 + thread.random.number_below(4));
        }
    }
    if (const object *const lmr = thread.find_live(DAT_HANDLE_TYPE_LMR, ia))
        args.remote = {lmr->triplet.virtual_address, 64, lmr->rmr_context};
    if (thread.random.percent_chance(20))
        if (const object *const rmr = thread.find_live(DAT_HANDLE_TYPE_RMR, ia))
            args.remote.rmr_context = rmr->bound_rmr_context;
    args.flags = thread.random.choose(flag_sets);
    args.cookie = thread.draw_cookie();
    return args;
}

/// Draws the arguments and posts. function(ep, arguments) calls DAT.
template <class function>
void post(worker &thread, const call_rule &rule, function &&post_function) {
    const object_ref ep = thread.draw(DAT_HANDLE_TYPE_EP);
    post_arguments args = draw_arguments(thread, ep.obj != nullptr ? ep.obj->ia : nullptr);
    call post_call(thread, rule);
    DAT_HANDLE const handle = post_call.use_handle(ep, "ep");
    post_call.arg("num_segments", args.num_segments);
    post_call.arg("flags", args.flags);
    // Without the EVD, the EP's default max_request_iov or max_recv_iov is 0: segments are one too
    // many.
    if (ep.obj != nullptr && (ep.obj->request_evd == nullptr || ep.obj->recv_evd == nullptr))
        post_call.allow(rules::invalid_parameter);
    // An iWARP device has exactly one segment for an RDMA Read, and no extensions of InfiniBand.
    const DAT_COUNT max_read = thread.shared.ia_attr.max_iov_segments_per_rdma_read;
    if (&rule == &rules::ep_post_rdma_read &&
        (args.num_segments > max_read || (max_read == 1 && args.num_segments == 0)))
        post_call.allow(rules::invalid_parameter);
    if (ep.obj != nullptr && ep.obj->is_datagram && &rule != &rules::ep_post_recv)
        post_call.allow_only(rules::not_supported | rules::invalid_parameter | rules::privileges);
    post_call.check_result(post_function(handle, args));
}

void send(worker &thread) {
    post(thread, rules::ep_post_send, [](DAT_EP_HANDLE ep, post_arguments &args) {
        return dat_ep_post_send(ep, args.num_segments, args.iov, args.cookie, args.flags);
    });
}

void send_with_invalidate(worker &thread) {
    const bool invalidate = thread.random.percent_chance(50);
    post(thread, rules::ep_post_send_with_invalidate,
         [invalidate](DAT_EP_HANDLE ep, post_arguments &args) {
             return dat_ep_post_send_with_invalidate(ep, args.num_segments, args.iov, args.cookie,
                                                     args.flags, invalidate ? DAT_TRUE : DAT_FALSE,
                                                     args.remote.rmr_context);
         });
}

void recv(worker &thread) {
    post(thread, rules::ep_post_recv, [](DAT_EP_HANDLE ep, post_arguments &args) {
        return dat_ep_post_recv(ep, args.num_segments, args.iov, args.cookie,
                                DAT_COMPLETION_DEFAULT_FLAG);
    });
}

void rdma_read(worker &thread) {
    post(thread, rules::ep_post_rdma_read, [](DAT_EP_HANDLE ep, post_arguments &args) {
        return dat_ep_post_rdma_read(ep, args.num_segments, args.iov, args.cookie, &args.remote,
                                     args.flags);
    });
}

void rdma_read_to_rmr(worker &thread) {
    post(thread, rules::ep_post_rdma_read_to_rmr, [](DAT_EP_HANDLE ep, post_arguments &args) {
        return dat_ep_post_rdma_read_to_rmr(ep, &args.remote, args.cookie, &args.remote,
                                            args.flags);
    });
}

void rdma_write(worker &thread) {
    post(thread, rules::ep_post_rdma_write, [](DAT_EP_HANDLE ep, post_arguments &args) {
        return dat_ep_post_rdma_write(ep, args.num_segments, args.iov, args.cookie, &args.remote,
                                      args.flags);
    });
}

/// The extensions of InfiniBand, if the device has them.
template <class function>
void post_ib(worker &thread, const call_rule &rule, function &&post_function) {
    if (thread.shared.ia_attr.extension_supported == DAT_EXTENSION_IB)
        post(thread, rule, std::forward<function>(post_function));
}

void fetch_and_add(worker &thread) {
    post_ib(thread, rules::ib_fetch_and_add, [](DAT_EP_HANDLE ep, post_arguments &args) {
        args.iov[0].segment_length = 8;
        return dat_ib_post_fetch_and_add(ep, 1 /* add */, args.iov, args.cookie, &args.remote,
                                         args.flags);
    });
}

void cmp_and_swap(worker &thread) {
    post_ib(thread, rules::ib_cmp_and_swap, [](DAT_EP_HANDLE ep, post_arguments &args) {
        args.iov[0].segment_length = 8;
        return dat_ib_post_cmp_and_swap(ep, 0 /* compare */, 1 /* swap */, args.iov, args.cookie,
                                        &args.remote, args.flags);
    });
}

void rdma_write_immed(worker &thread) {
    post_ib(thread, rules::ib_rdma_write_immed, [](DAT_EP_HANDLE ep, post_arguments &args) {
        return dat_ib_post_rdma_write_immed(ep, args.num_segments, args.iov, args.cookie,
                                            &args.remote, 1 /* immediate data */, args.flags);
    });
}

void atomic_write(worker &thread) {
    const std::uint64_t value = thread.random.next();
    post(thread, rules::atomic_write, [&value](DAT_EP_HANDLE ep, post_arguments &args) {
        args.iov[0].segment_length = 8;
        return dat_coherdma_post_atomic_write(ep, &value, args.iov, args.cookie, &args.remote,
                                              args.flags);
    });
}

void flush(worker &thread) {
    post(thread, rules::flush, [](DAT_EP_HANDLE ep, post_arguments &args) {
        args.iov[0].segment_length = 8;
        return dat_coherdma_post_flush(ep, args.iov, args.cookie, &args.remote, args.flags);
    });
}

void query_methods(worker &thread) {
    post(thread, rules::query_methods, [](DAT_EP_HANDLE ep, post_arguments &) {
        DAT_COHERDMA_METHODS methods = {};
        return dat_coherdma_query_methods(ep, &methods);
    });
}

} // namespace

std::span<const step> post_steps() {
    static constexpr step steps[] = {{send, 20},
                                     {send_with_invalidate, 4},
                                     {recv, 25},
                                     {rdma_read, 10},
                                     {rdma_read_to_rmr, 4},
                                     {rdma_write, 12},
                                     {fetch_and_add, 4},
                                     {cmp_and_swap, 4},
                                     {rdma_write_immed, 6},
                                     {atomic_write, 5},
                                     {flush, 5},
                                     {query_methods, 3}};
    return steps;
}

} // namespace sequencer
