// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// SRQs.

#include "steps.hpp"

namespace sequencer {

namespace {

object_ref draw_srq(worker &thread) {
    return thread.draw(DAT_HANDLE_TYPE_SRQ);
}

void create(worker &thread) {
    const object_ref ia = thread.draw_ia();
    const object_ref pz = thread.draw(DAT_HANDLE_TYPE_PZ, ia.obj);
    DAT_SRQ_ATTR attr = {};
    attr.max_recv_dtos = 1 + static_cast<DAT_COUNT>(thread.random.number_below(32));
    attr.max_recv_iov = 1 + static_cast<DAT_COUNT>(thread.random.number_below(2));
    DAT_SRQ_HANDLE handle = DAT_HANDLE_NULL;
    call create_call(thread, rules::srq_create);
    create_call.creates(DAT_HANDLE_TYPE_SRQ);
    DAT_HANDLE const ia_handle = create_call.use_handle(ia, "ia"),
                     pz_handle = create_call.use_handle(pz, ia.obj, "pz");
    if (thread.random.percent_chance(2)) {
        create_call.expect_invalid_parameter();
        attr.max_recv_dtos = 0;
    }
    create_call.arg("dtos", attr.max_recv_dtos);
    create_call.check_result(dat_srq_create(ia_handle, pz_handle, &attr, &handle));
    if (!create_call.has_succeeded())
        return;
    object &srq = thread.add_object(DAT_HANDLE_TYPE_SRQ, handle, ia.obj);
    srq.pz = pz.obj;
    srq.length = attr.max_recv_dtos;
    if (!thread.insert_unless_full(srq))
        free_object(thread, srq.type, {&srq, handle});
}

void query_srq(worker &thread) {
    const object_ref srq = draw_srq(thread);
    DAT_SRQ_PARAM param = {};
    if (!query(thread, rules::srq_query, srq, dat_srq_query, DAT_SRQ_FIELD_ALL, param))
        return;
    expect(param.pz_handle == srq.obj->pz->handle, "dat_srq_query returned another PZ");
    expect(param.max_recv_dtos >= srq.obj->length || srq.obj->maybe_resized,
           "dat_srq_query returned a shorter length");
}

void post_recv(worker &thread) {
    const object_ref srq = draw_srq(thread);
    object *const lmr =
        thread.find_live(DAT_HANDLE_TYPE_LMR, srq.obj != nullptr ? srq.obj->ia : nullptr);
    DAT_LMR_TRIPLET iov = lmr != nullptr ? lmr->triplet : DAT_LMR_TRIPLET{};
    call post_call(thread, rules::srq_post_recv);
    DAT_HANDLE const handle = post_call.use_handle(srq, "srq");
    DAT_COUNT num_segments = 1;
    if (thread.random.percent_chance(2)) {
        post_call.expect_invalid_parameter();
        num_segments = -1;
    }
    post_call.check_result(dat_srq_post_recv(handle, post_call.arg("num_segments", num_segments),
                                             &iov, thread.draw_cookie()));
}

void resize(worker &thread) {
    resize_srq(thread, draw_srq(thread));
}

void set_low_watermark(worker &thread) {
    const object_ref srq = draw_srq(thread);
    call set_call(thread, rules::srq_set_lw);
    DAT_HANDLE const handle = set_call.use_handle(srq, "srq");
    const auto watermark = static_cast<DAT_COUNT>(thread.random.number_below(
        srq.obj != nullptr ? static_cast<std::size_t>(srq.obj->length) + 1 : 1));
    const DAT_RETURN result = dat_srq_set_lw(handle, set_call.arg("watermark", watermark));
    if (srq.obj != nullptr && srq.obj->maybe_resized)
        set_call.allow(rules::invalid_parameter);
    set_call.check_result(result);
}

void free_srq(worker &thread) {
    free_object(thread, DAT_HANDLE_TYPE_SRQ, draw_srq(thread));
}

} // namespace

void resize_srq(worker &thread, const object_ref &srq) {
    call resize_call(thread, rules::srq_resize);
    DAT_HANDLE const handle = resize_call.use_handle(srq, "srq");
    DAT_COUNT length = 1 + static_cast<DAT_COUNT>(thread.random.number_below(64));
    if (thread.random.percent_chance(2)) {
        resize_call.expect_invalid_parameter();
        length = -1;
    }
    if (srq.obj != nullptr)
        srq.obj->maybe_resized = true;
    resize_call.check_result(dat_srq_resize(handle, resize_call.arg("length", length)));
}

std::span<const step> srq_steps() {
    static constexpr step steps[] = {{create, 6}, {query_srq, 3},         {post_recv, 12},
                                     {resize, 5}, {set_low_watermark, 3}, {free_srq, 4}};
    return steps;
}

} // namespace sequencer
