// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Arguments that are not valid: of IAs, EVDs, LMRs, RMRs and SRQs.

#include "invalid.hpp"

#include "kernel.hpp"
#include "optional.hpp"

#include <cstdint>
#include <dat2/udat_redirection.h>

namespace conform {

namespace {

kernel_counts counts() {
    return settings().device.empty() ? kernel_counts{} : count_kernel_objects(settings().device);
}

void refuse(const invalid_call &row, const every_kind &all) {
    const scoped_trace which(row.what);
    const kernel_counts before = counts();
    const long posted = count_posted_requests();
    made = &made;
    expect_return(row.with(all), row.want);
    expect_true(made == &made, "it wrote a handle");
    expect_true(counts() == before, "the kernel has other objects than before");
    expect_eq(count_posted_requests(), posted, "the number of work requests posted");
}

void refuse_all(std::span<const invalid_call> rows, needs what) {
    every_kind all;
    if (what == needs::windows && !all.window)
        throw case_skipped{"the device has no memory windows"};
    if (what == needs::extensions &&
        all.pair.ia.attributes().extension_supported == DAT_EXTENSION_NONE)
        throw case_skipped{"the IA has no extensions"};
    if (what == needs::connection || what == needs::extensions)
        all.pair.join();
    for (const invalid_call &row : rows)
        refuse(row, all);
    for (const DAT_EVD_HANDLE each :
         {DAT_EVD_HANDLE(all.pair.active.requested), DAT_EVD_HANDLE(all.idle.requested)})
        no_event(each, milliseconds(10));
}

} // namespace

void add_invalid(case_list &cases, std::span<const invalid_call> rows, needs what) {
    while (!rows.empty()) {
        const std::string function = rows.front().function;
        std::size_t count = 1;
        while (count < rows.size() && rows[count].function == function)
            ++count;
        add_case(cases, "invalid." + function,
                 [of = rows.first(count), what] { refuse_all(of, what); });
        rows = rows.subspan(count);
    }
}

namespace {

DAT_RETURN open_ia(const char *name, DAT_COUNT qlen, DAT_EVD_HANDLE *async) {
    return dat_ia_open(const_cast<char *>(name), qlen, async, &made);
}
DAT_RETURN create_evd(const every_kind &all, unsigned flags, DAT_EVD_HANDLE *result = &made) {
    return dat_evd_create(all.pair.ia, 1, nullptr, enum_cast<DAT_EVD_FLAGS>(flags), result);
}
DAT_RETURN wait(const every_kind &all, DAT_COUNT threshold) {
    DAT_EVENT event{};
    DAT_COUNT more = 0;
    return dat_evd_wait(all.software, 0, threshold, &event, &more);
}
DAT_COUNT qlen(DAT_EVD_HANDLE of) {
    DAT_EVD_PARAM param{};
    require_success(dat_evd_query(of, DAT_EVD_FIELD_ALL, &param));
    return param.evd_qlen;
}
/// By the provider's table: registries call it, but do not export it.
DAT_RETURN related(const every_kind &all, char *name, DAT_BOOLEAN *answer) {
    return DAT_IA_HA_RELATED(all.address(DAT_HANDLE_TYPE_IA), name, answer);
}

constexpr invalid_call of_ia[] = {
    {"dat_ia_open", "qlen 2147483647", insufficient_resources(DAT_RESOURCE_TEVD),
     [](const every_kind &) {
         DAT_EVD_HANDLE async = nullptr;
         return open_ia(settings().ia, INT32_MAX, &async);
     }},
    {"dat_ia_open", "async_evd NULL", invalid_parameter(3),
     CALL(open_ia(settings().ia, 8, nullptr))},
    {"dat_ia_close", "flags 7", invalid_parameter(2),
     CALL(dat_ia_close(all.pair.ia, enum_cast<DAT_CLOSE_FLAGS>(7)))},
    {"dat_ia_close", "gracefully, in use", invalid_state(DAT_INVALID_STATE_IA_IN_USE),
     CALL(dat_ia_close(all.pair.ia, DAT_CLOSE_GRACEFUL_FLAG))},
    {"dat_ia_query", "ia_attr NULL, all fields", invalid_parameter(4),
     CALL(dat_ia_query(all.pair.ia, nullptr, DAT_IA_FIELD_ALL, nullptr, 0, nullptr))},
    {"dat_ia_query", "provider_attr NULL, all fields", invalid_parameter(6),
     CALL(dat_ia_query(all.pair.ia, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL, nullptr))},
    {"dat_ia_ha_related", "name NULL", invalid_parameter(2),
     [](const every_kind &all) {
         DAT_BOOLEAN answer = DAT_FALSE;
         return related(all, nullptr, &answer);
     }},
    {"dat_ia_ha_related", "answer NULL", invalid_parameter(3),
     CALL(related(all, const_cast<char *>(settings().ia), nullptr))},
};

constexpr invalid_call of_evd[] = {
    {"dat_evd_create", "flags 0", invalid_parameter(4), CALL(create_evd(all, 0))},
    {"dat_evd_create", "flags unknown", invalid_parameter(4),
     CALL(create_evd(all, 0x10000 | DAT_EVD_SOFTWARE_FLAG))},
    {"dat_evd_create", "flags for asynchronous and other events", invalid_parameter(4),
     CALL(create_evd(all, DAT_EVD_ASYNC_FLAG | DAT_EVD_DTO_FLAG))},
    {"dat_evd_create", "evd NULL", invalid_parameter(5),
     CALL(create_evd(all, DAT_EVD_SOFTWARE_FLAG, nullptr))},
    {"dat_evd_free", "used by an EP", invalid_state(DAT_INVALID_STATE_EVD_IN_USE),
     CALL(dat_evd_free(all.idle.received))},
    {"dat_evd_free", "the IA's own", invalid_state(DAT_INVALID_STATE_EVD_IN_USE),
     CALL(dat_evd_free(all.pair.ia.async()))},
    {"dat_evd_wait", "threshold above qlen", invalid_parameter(3),
     CALL(wait(all, qlen(all.software) + 1))},
    {"dat_evd_wait", "no event", timeout_expired, CALL(wait(all, 1))},
};

constexpr invalid_call of_cno[] = {
    {"dat_cno_wait", "no event", queue_empty,
     [](const every_kind &all) {
         DAT_EVD_HANDLE got_evd = &made;
         const DAT_RETURN got = dat_cno_wait(all.pair.notifier, 0, &got_evd);
         expect_eq(got_evd, nullptr, "the EVD");
         return got;
     }},
    {"dat_cno_trigger", "no event", queue_empty,
     [](const every_kind &all) {
         DAT_EVD_HANDLE got_evd = &made;
         const DAT_RETURN got = EXPORTED(dat_cno_trigger)(all.pair.notifier, &got_evd);
         expect_eq(got_evd, nullptr, "the EVD");
         return got;
     }},
    {"dat_cno_trigger", "evd NULL", invalid_parameter(2),
     CALL(EXPORTED(dat_cno_trigger)(all.pair.notifier, nullptr))},
};

struct registration {
    unsigned type = DAT_MEM_TYPE_VIRTUAL;
    void *address = &made;
    DAT_VLEN length = 8;
    unsigned privileges = DAT_MEM_PRIV_ALL_FLAG;
    unsigned va_type = DAT_VA_TYPE_VA;
    DAT_LMR_HANDLE *lmr = &made;

    DAT_RETURN make(const every_kind &all) const {
        DAT_REGION_DESCRIPTION region{};
        region.for_va = address;
        return dat_lmr_create(all.pair.ia, enum_cast<DAT_MEM_TYPE>(type), region, length,
                              all.pair.zone, enum_cast<DAT_MEM_PRIV_FLAGS>(privileges),
                              enum_cast<DAT_VA_TYPE>(va_type), lmr, nullptr, nullptr, nullptr,
                              nullptr);
    }
};

constexpr invalid_call of_lmr[] = {
    {"dat_lmr_create", "mem_type 0x80", invalid_parameter(2),
     CALL(registration{.type = 0x80}.make(all))},
    {"dat_lmr_create", "mem_type 8", invalid_parameter(2), CALL(registration{.type = 8}.make(all))},
    {"dat_lmr_create", "mem_type shared, without a cookie", invalid_parameter(3),
     CALL(registration{.type = DAT_MEM_TYPE_SHARED_VIRTUAL}.make(all))},
    {"dat_lmr_create", "length 0", dat_error(DAT_LENGTH_ERROR),
     CALL(registration{.length = 0}.make(all))},
    {"dat_lmr_create", "address NULL", invalid_parameter(3),
     CALL(registration{.address = nullptr}.make(all))},
    {"dat_lmr_create", "a range behind the last address", invalid_parameter(4),
     CALL(registration{.address = reinterpret_cast<void *>(~std::uintptr_t{3})}.make(all))},
    {"dat_lmr_create", "privileges unknown", invalid_parameter(6),
     CALL(registration{.privileges = 0x1000 | DAT_MEM_PRIV_ALL_FLAG}.make(all))},
    {"dat_lmr_create", "va_type 2", invalid_parameter(7),
     CALL(registration{.va_type = 2}.make(all))},
    {"dat_lmr_create", "lmr NULL", invalid_parameter(7),
     CALL(registration{.lmr = nullptr}.make(all))},
};

struct binding {
    DAT_VADDR offset = 0;
    DAT_SEG_LENGTH length = 64;
    unsigned privileges = DAT_MEM_PRIV_REMOTE_READ_FLAG;
    unsigned va_type = DAT_VA_TYPE_VA;

    DAT_RETURN make(const every_kind &all) const {
        const DAT_LMR_TRIPLET piece = {all.pair.memory.address() + offset, length,
                                       all.pair.memory.lmr_context()};
        return bind(all, &piece);
    }
    DAT_RETURN bind(const every_kind &all, const DAT_LMR_TRIPLET *piece) const {
        return dat_rmr_bind(all.window, all.pair.memory, piece,
                            enum_cast<DAT_MEM_PRIV_FLAGS>(privileges),
                            enum_cast<DAT_VA_TYPE>(va_type), all.idle, make_context(1),
                            DAT_COMPLETION_DEFAULT_FLAG, nullptr);
    }
};

constexpr invalid_call of_rmr[] = {
    {"dat_rmr_create", "rmr NULL", invalid_parameter(2),
     CALL(dat_rmr_create(all.pair.zone, nullptr))},
    {"dat_rmr_create_for_ep", "rmr NULL", invalid_parameter(2),
     CALL(EXPORTED(dat_rmr_create_for_ep)(all.pair.zone, nullptr))},
    {"dat_rmr_query", "mask unknown", invalid_parameter(2),
     [](const every_kind &all) {
         DAT_RMR_PARAM param{};
         return dat_rmr_query(all.window, enum_cast<DAT_RMR_PARAM_MASK>(0x80), &param);
     }},
    {"dat_rmr_query", "param NULL", invalid_parameter(3),
     CALL(dat_rmr_query(all.window, DAT_RMR_FIELD_ALL, nullptr))},
    {"dat_rmr_bind", "triplet NULL", invalid_parameter(3), CALL(binding{}.bind(all, nullptr))},
    {"dat_rmr_bind", "a byte longer than the LMR", invalid_parameter(3),
     CALL(binding{.length = couple::size + 1}.make(all))},
    {"dat_rmr_bind", "a byte behind the LMR", invalid_parameter(3),
     CALL(binding{.offset = couple::size - 63}.make(all))},
    {"dat_rmr_bind", "a byte before the LMR", invalid_parameter(3),
     CALL(binding{.offset = ~DAT_VADDR{0}}.make(all))},
    {"dat_rmr_bind", "privileges unknown", invalid_parameter(4),
     CALL(binding{.privileges = 0x80}.make(all))},
    {"dat_rmr_bind", "va_type 3", invalid_parameter(5), CALL(binding{.va_type = 3}.make(all))},
    {"dat_rmr_bind", "EP not connected", invalid_state(DAT_INVALID_STATE_EP_UNCONNECTED),
     [](const every_kind &all) {
         const DAT_RETURN got = binding{}.make(all);
         const bool lacking = all.pair.ia.attributes().max_rmrs == 0 && got == not_supported;
         return lacking ? invalid_state(DAT_INVALID_STATE_EP_UNCONNECTED) : got;
     }},
};

DAT_RETURN create_srq(const every_kind &all, DAT_SRQ_ATTR attributes,
                      DAT_SRQ_HANDLE *queue = &made) {
    return dat_srq_create(all.pair.ia, all.pair.zone, &attributes, queue);
}
DAT_SRQ_PARAM queried_srq(const every_kind &all) {
    DAT_SRQ_PARAM param{};
    require_success(dat_srq_query(all.queue, DAT_SRQ_FIELD_ALL, &param));
    return param;
}

constexpr invalid_call of_srq[] = {
    {"dat_srq_create", "max_recv_iov 0", invalid_parameter(3), CALL(create_srq(all, {1, 0, 0}))},
    {"dat_srq_create", "low_watermark -1", invalid_parameter(3), CALL(create_srq(all, {4, 1, -1}))},
    {"dat_srq_create", "low_watermark above max_recv_dtos", invalid_parameter(3),
     CALL(create_srq(all, {4, 1, 5}))},
    {"dat_srq_create", "max_recv_dtos above the device's", insufficient_resources(DAT_RESOURCE_SRQ),
     CALL(create_srq(all, {all.pair.ia.attributes().max_recv_per_srq + 1, 1, 0}))},
    {"dat_srq_create", "max_recv_iov above the device's", insufficient_resources(DAT_RESOURCE_SRQ),
     CALL(create_srq(all, {4, all.pair.ia.attributes().max_iov_segments_per_dto + 1, 0}))},
    {"dat_srq_create", "srq NULL", invalid_parameter(4), CALL(create_srq(all, {4, 1, 0}, nullptr))},
    {"dat_srq_set_lw", "low_watermark above max_recv_dtos", invalid_parameter(2),
     CALL(dat_srq_set_lw(all.queue, queried_srq(all).max_recv_dtos + 1))},
    {"dat_srq_post_recv", "num_segments above max_recv_iov", invalid_parameter(2),
     [](const every_kind &all) {
         std::vector<DAT_LMR_TRIPLET> pieces(
             static_cast<std::size_t>(queried_srq(all).max_recv_iov) + 1);
         return dat_srq_post_recv(all.queue, static_cast<DAT_COUNT>(pieces.size()), pieces.data(),
                                  make_context(1));
     }},
};

DAT_RETURN synced(const every_kind &all, DAT_LMR_CONTEXT key) {
    DAT_LMR_TRIPLET list[2] = {all.pair.memory.piece(0, 64), all.pair.memory.piece(64, 64)};
    list[1].lmr_context = key;
    const DAT_RETURN read = dat_lmr_sync_rdma_read(all.pair.ia, list, 2);
    expect_return(dat_lmr_sync_rdma_write(all.pair.ia, list, 2), read);
    return read;
}

constexpr invalid_call of_sync[] = {
    {"dat_lmr_sync_rdma", "lmr_context is an rmr_context", invalid_parameter(2),
     [](const every_kind &all) {
         const region &memory = all.pair.memory;
         return memory.rmr_context() != memory.lmr_context() ? synced(all, memory.rmr_context())
                                                             : invalid_parameter(2);
     }},
    {"dat_lmr_sync_rdma", "lmr_context 0xdeadbeef", invalid_parameter(2),
     CALL(synced(all, 0xdeadbeef))},
    {"dat_lmr_sync_rdma", "lmr_context 0", invalid_parameter(2), CALL(synced(all, 0))},
};

} // namespace

void add_invalid(case_list &cases) {
    add_invalid(cases, of_ia);
    add_invalid(cases, of_evd);
    add_invalid(cases, of_cno);
    add_invalid(cases, of_lmr);
    add_invalid(cases, of_rmr, needs::windows);
    add_invalid(cases, of_srq);
    add_invalid(cases, of_sync);
}

} // namespace conform
