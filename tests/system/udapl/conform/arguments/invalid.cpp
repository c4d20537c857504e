// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Arguments that are not valid: of IAs, EVDs, LMRs, RMRs and SRQs.

#include "invalid.hpp"

#include "lib/kernel.hpp"
#include "lib/optional.hpp"

#include <cstdint>
#include <dat2/udat_redirection.h>

namespace conform {

namespace {

kernel_counts count_objects() {
    return settings().device.empty() ? kernel_counts{} : count_kernel_objects(settings().device);
}

/// The call returns the row's error, writes no handle, creates no object in the kernel and posts
/// nothing.
void expect_refused(const invalid_call &row, const all_objects &objects) {
    const scoped_trace trace(row.description);
    const kernel_counts old_counts = count_objects();
    const long old_posted = count_posted_requests();
    unwritten_handle = &unwritten_handle; // a value that no call returns
    expect_return(row.call(objects), row.expected);
    expect_true(unwritten_handle == &unwritten_handle, "it wrote a handle");
    expect_true(count_objects() == old_counts, "the kernel has other objects than before");
    expect_eq(count_posted_requests(), old_posted, "the number of work requests posted");
}

/// Calls all rows with objects of one IA, and expects no completion. Skips the case if the device
/// lacks what is required.
void expect_all_refused(std::span<const invalid_call> rows, requirement required) {
    all_objects objects;
    if (required == requirement::memory_windows && !objects.rmr)
        throw case_skipped{"the device has no memory windows"};
    if (required == requirement::extensions &&
        objects.eps.ia.ia_attr().extension_supported == DAT_EXTENSION_NONE)
        throw case_skipped{"the IA has no extensions"};
    if (required == requirement::connection || required == requirement::extensions)
        objects.eps.connect();
    for (const invalid_call &row : rows)
        expect_refused(row, objects);
    for (const DAT_EVD_HANDLE evd : {DAT_EVD_HANDLE(objects.eps.active.request_evd),
                                     DAT_EVD_HANDLE(objects.idle_ep.request_evd)})
        expect_no_event(evd, milliseconds(10));
}

} // namespace

/// Adds a case for each function: rows of the same function follow each other.
void add_invalid(case_list &cases, std::span<const invalid_call> rows, requirement required) {
    while (!rows.empty()) {
        const std::string function = rows.front().function;
        std::size_t count = 1;
        while (count < rows.size() && rows[count].function == function)
            ++count;
        add_case(cases, "invalid." + function,
                 [rows = rows.first(count), required] { expect_all_refused(rows, required); });
        rows = rows.subspan(count);
    }
}

namespace {

DAT_RETURN open_ia(const char *name, DAT_COUNT qlen, DAT_EVD_HANDLE *async_evd) {
    return dat_ia_open(const_cast<char *>(name), qlen, async_evd, &unwritten_handle);
}
DAT_RETURN create_evd(const all_objects &objects, unsigned flags,
                      DAT_EVD_HANDLE *result = &unwritten_handle) {
    return dat_evd_create(objects.eps.ia, 1, nullptr, enum_cast<DAT_EVD_FLAGS>(flags), result);
}
DAT_RETURN wait_evd(const all_objects &objects, DAT_COUNT threshold) {
    DAT_EVENT event{};
    DAT_COUNT nmore = 0;
    return dat_evd_wait(objects.software_evd, 0, threshold, &event, &nmore);
}
DAT_COUNT query_qlen(DAT_EVD_HANDLE evd) {
    DAT_EVD_PARAM param{};
    require_success(dat_evd_query(evd, DAT_EVD_FIELD_ALL, &param));
    return param.evd_qlen;
}
/// By the provider's table: registries call it, but do not export it.
DAT_RETURN query_ha_related(const all_objects &objects, char *name, DAT_BOOLEAN *answer) {
    return DAT_IA_HA_RELATED(objects.object_address(DAT_HANDLE_TYPE_IA), name, answer);
}

constexpr invalid_call ia_calls[] = {
    {"dat_ia_open", "qlen 2147483647", insufficient_resources(DAT_RESOURCE_TEVD),
     [](const all_objects &) {
         DAT_EVD_HANDLE async_evd = nullptr;
         return open_ia(settings().ia, INT32_MAX, &async_evd);
     }},
    {"dat_ia_open", "async_evd NULL", invalid_parameter(3),
     CALL(open_ia(settings().ia, 8, nullptr))},
    {"dat_ia_close", "flags 7", invalid_parameter(2),
     CALL(dat_ia_close(objects.eps.ia, enum_cast<DAT_CLOSE_FLAGS>(7)))},
    {"dat_ia_close", "gracefully, in use", invalid_state(DAT_INVALID_STATE_IA_IN_USE),
     CALL(dat_ia_close(objects.eps.ia, DAT_CLOSE_GRACEFUL_FLAG))},
    {"dat_ia_query", "ia_attr NULL, all fields", invalid_parameter(4),
     CALL(dat_ia_query(objects.eps.ia, nullptr, DAT_IA_FIELD_ALL, nullptr, 0, nullptr))},
    {"dat_ia_query", "provider_attr NULL, all fields", invalid_parameter(6),
     CALL(dat_ia_query(objects.eps.ia, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL, nullptr))},
    {"dat_ia_ha_related", "name NULL", invalid_parameter(2),
     [](const all_objects &objects) {
         DAT_BOOLEAN answer = DAT_FALSE;
         return query_ha_related(objects, nullptr, &answer);
     }},
    {"dat_ia_ha_related", "answer NULL", invalid_parameter(3),
     CALL(query_ha_related(objects, const_cast<char *>(settings().ia), nullptr))},
};

constexpr invalid_call evd_calls[] = {
    {"dat_evd_create", "flags 0", invalid_parameter(4), CALL(create_evd(objects, 0))},
    {"dat_evd_create", "flags unknown", invalid_parameter(4),
     CALL(create_evd(objects, 0x10000 | DAT_EVD_SOFTWARE_FLAG))},
    {"dat_evd_create", "flags for asynchronous and other events", invalid_parameter(4),
     CALL(create_evd(objects, DAT_EVD_ASYNC_FLAG | DAT_EVD_DTO_FLAG))},
    {"dat_evd_create", "evd NULL", invalid_parameter(5),
     CALL(create_evd(objects, DAT_EVD_SOFTWARE_FLAG, nullptr))},
    {"dat_evd_free", "used by an EP", invalid_state(DAT_INVALID_STATE_EVD_IN_USE),
     CALL(dat_evd_free(objects.idle_ep.recv_evd))},
    {"dat_evd_free", "the IA's own", invalid_state(DAT_INVALID_STATE_EVD_IN_USE),
     CALL(dat_evd_free(objects.eps.ia.async_evd()))},
    {"dat_evd_wait", "threshold above qlen", invalid_parameter(3),
     CALL(wait_evd(objects, query_qlen(objects.software_evd) + 1))},
    {"dat_evd_wait", "no event", timeout_expired, CALL(wait_evd(objects, 1))},
};

constexpr invalid_call cno_calls[] = {
    {"dat_cno_wait", "no event", queue_empty,
     [](const all_objects &objects) {
         DAT_EVD_HANDLE evd_handle = &unwritten_handle;
         const DAT_RETURN ret = dat_cno_wait(objects.eps.cno, 0, &evd_handle);
         expect_eq(evd_handle, nullptr, "the EVD");
         return ret;
     }},
    {"dat_cno_trigger", "no event", queue_empty,
     [](const all_objects &objects) {
         DAT_EVD_HANDLE evd_handle = &unwritten_handle;
         const DAT_RETURN ret = EXPORTED(dat_cno_trigger)(objects.eps.cno, &evd_handle);
         expect_eq(evd_handle, nullptr, "the EVD");
         return ret;
     }},
    {"dat_cno_trigger", "evd NULL", invalid_parameter(2),
     CALL(EXPORTED(dat_cno_trigger)(objects.eps.cno, nullptr))},
};

struct registration {
    unsigned mem_type = DAT_MEM_TYPE_VIRTUAL;
    void *address = &unwritten_handle;
    DAT_VLEN length = 8;
    unsigned mem_priv = DAT_MEM_PRIV_ALL_FLAG;
    unsigned va_type = DAT_VA_TYPE_VA;
    DAT_LMR_HANDLE *lmr = &unwritten_handle;

    DAT_RETURN create(const all_objects &objects) const {
        DAT_REGION_DESCRIPTION region_desc{};
        region_desc.for_va = address;
        return dat_lmr_create(objects.eps.ia, enum_cast<DAT_MEM_TYPE>(mem_type), region_desc,
                              length, objects.eps.pz, enum_cast<DAT_MEM_PRIV_FLAGS>(mem_priv),
                              enum_cast<DAT_VA_TYPE>(va_type), lmr, nullptr, nullptr, nullptr,
                              nullptr);
    }
};

constexpr invalid_call lmr_calls[] = {
    {"dat_lmr_create", "mem_type 0x80", invalid_parameter(2),
     CALL(registration{.mem_type = 0x80}.create(objects))},
    {"dat_lmr_create", "mem_type 8", invalid_parameter(2),
     CALL(registration{.mem_type = 8}.create(objects))},
    {"dat_lmr_create", "mem_type shared, without a cookie", invalid_parameter(3),
     CALL(registration{.mem_type = DAT_MEM_TYPE_SHARED_VIRTUAL}.create(objects))},
    {"dat_lmr_create", "length 0", dat_error(DAT_LENGTH_ERROR),
     CALL(registration{.length = 0}.create(objects))},
    {"dat_lmr_create", "address NULL", invalid_parameter(3),
     CALL(registration{.address = nullptr}.create(objects))},
    {"dat_lmr_create", "a range behind the last address", invalid_parameter(4),
     CALL(registration{.address = reinterpret_cast<void *>(~std::uintptr_t{3})}.create(objects))},
    {"dat_lmr_create", "privileges unknown", invalid_parameter(6),
     CALL(registration{.mem_priv = 0x1000 | DAT_MEM_PRIV_ALL_FLAG}.create(objects))},
    {"dat_lmr_create", "va_type 2", invalid_parameter(7),
     CALL(registration{.va_type = 2}.create(objects))},
    {"dat_lmr_create", "lmr NULL", invalid_parameter(7),
     CALL(registration{.lmr = nullptr}.create(objects))},
};

struct binding {
    DAT_VADDR offset = 0;
    DAT_SEG_LENGTH length = 64;
    unsigned privileges = DAT_MEM_PRIV_REMOTE_READ_FLAG;
    unsigned va_type = DAT_VA_TYPE_VA;

    DAT_RETURN bind_range(const all_objects &objects) const {
        const DAT_LMR_TRIPLET local = {objects.eps.lmr.address() + offset, length,
                                       objects.eps.lmr.lmr_context()};
        return bind(objects, &local);
    }
    DAT_RETURN bind(const all_objects &objects, const DAT_LMR_TRIPLET *local) const {
        return dat_rmr_bind(objects.rmr, objects.eps.lmr, local,
                            enum_cast<DAT_MEM_PRIV_FLAGS>(privileges),
                            enum_cast<DAT_VA_TYPE>(va_type), objects.idle_ep, make_context(1),
                            DAT_COMPLETION_DEFAULT_FLAG, nullptr);
    }
};

constexpr invalid_call rmr_calls[] = {
    {"dat_rmr_create", "rmr NULL", invalid_parameter(2),
     CALL(dat_rmr_create(objects.eps.pz, nullptr))},
    {"dat_rmr_create_for_ep", "rmr NULL", invalid_parameter(2),
     CALL(EXPORTED(dat_rmr_create_for_ep)(objects.eps.pz, nullptr))},
    {"dat_rmr_query", "mask unknown", invalid_parameter(2),
     [](const all_objects &objects) {
         DAT_RMR_PARAM param{};
         return dat_rmr_query(objects.rmr, enum_cast<DAT_RMR_PARAM_MASK>(0x80), &param);
     }},
    {"dat_rmr_query", "param NULL", invalid_parameter(3),
     CALL(dat_rmr_query(objects.rmr, DAT_RMR_FIELD_ALL, nullptr))},
    {"dat_rmr_bind", "triplet NULL", invalid_parameter(3), CALL(binding{}.bind(objects, nullptr))},
    {"dat_rmr_bind", "a byte longer than the LMR", invalid_parameter(3),
     CALL(binding{.length = ep_pair::size + 1}.bind_range(objects))},
    {"dat_rmr_bind", "a byte behind the LMR", invalid_parameter(3),
     CALL(binding{.offset = ep_pair::size - 63}.bind_range(objects))},
    {"dat_rmr_bind", "a byte before the LMR", invalid_parameter(3),
     CALL(binding{.offset = ~DAT_VADDR{0}}.bind_range(objects))},
    {"dat_rmr_bind", "privileges unknown", invalid_parameter(4),
     CALL(binding{.privileges = 0x80}.bind_range(objects))},
    {"dat_rmr_bind", "va_type 3", invalid_parameter(5),
     CALL(binding{.va_type = 3}.bind_range(objects))},
    {"dat_rmr_bind", "EP not connected", invalid_state(DAT_INVALID_STATE_EP_UNCONNECTED),
     [](const all_objects &objects) {
         const DAT_RETURN ret = binding{}.bind_range(objects);
         const bool is_unsupported = objects.eps.ia.ia_attr().max_rmrs == 0 && ret == not_supported;
         return is_unsupported ? invalid_state(DAT_INVALID_STATE_EP_UNCONNECTED) : ret;
     }},
};

DAT_RETURN create_srq(const all_objects &objects, DAT_SRQ_ATTR srq_attr,
                      DAT_SRQ_HANDLE *srq = &unwritten_handle) {
    return dat_srq_create(objects.eps.ia, objects.eps.pz, &srq_attr, srq);
}
DAT_SRQ_PARAM query_srq(const all_objects &objects) {
    DAT_SRQ_PARAM param{};
    require_success(dat_srq_query(objects.srq, DAT_SRQ_FIELD_ALL, &param));
    return param;
}

constexpr invalid_call srq_calls[] = {
    {"dat_srq_create", "max_recv_iov 0", invalid_parameter(3),
     CALL(create_srq(objects, {1, 0, 0}))},
    {"dat_srq_create", "low_watermark -1", invalid_parameter(3),
     CALL(create_srq(objects, {4, 1, -1}))},
    {"dat_srq_create", "low_watermark above max_recv_dtos", invalid_parameter(3),
     CALL(create_srq(objects, {4, 1, 5}))},
    {"dat_srq_create", "max_recv_dtos above the device's", insufficient_resources(DAT_RESOURCE_SRQ),
     CALL(create_srq(objects, {objects.eps.ia.ia_attr().max_recv_per_srq + 1, 1, 0}))},
    {"dat_srq_create", "max_recv_iov above the device's", insufficient_resources(DAT_RESOURCE_SRQ),
     CALL(create_srq(objects, {4, objects.eps.ia.ia_attr().max_iov_segments_per_dto + 1, 0}))},
    {"dat_srq_create", "srq NULL", invalid_parameter(4),
     CALL(create_srq(objects, {4, 1, 0}, nullptr))},
    {"dat_srq_set_lw", "low_watermark above max_recv_dtos", invalid_parameter(2),
     CALL(dat_srq_set_lw(objects.srq, query_srq(objects).max_recv_dtos + 1))},
    {"dat_srq_post_recv", "num_segments above max_recv_iov", invalid_parameter(2),
     [](const all_objects &objects) {
         std::vector<DAT_LMR_TRIPLET> iov(
             static_cast<std::size_t>(query_srq(objects).max_recv_iov) + 1);
         return dat_srq_post_recv(objects.srq, static_cast<DAT_COUNT>(iov.size()), iov.data(),
                                  make_context(1));
     }},
};

DAT_RETURN sync_with_context(const all_objects &objects, DAT_LMR_CONTEXT lmr_context) {
    DAT_LMR_TRIPLET iov[2] = {objects.eps.lmr.make_lmr_triplet(0, 64),
                              objects.eps.lmr.make_lmr_triplet(64, 64)};
    iov[1].lmr_context = lmr_context;
    const DAT_RETURN ret = dat_lmr_sync_rdma_read(objects.eps.ia, iov, 2);
    expect_return(dat_lmr_sync_rdma_write(objects.eps.ia, iov, 2), ret);
    return ret;
}

constexpr invalid_call sync_calls[] = {
    {"dat_lmr_sync_rdma_read", "lmr_context is an rmr_context", invalid_parameter(2),
     [](const all_objects &objects) {
         const test_lmr &lmr = objects.eps.lmr;
         return lmr.rmr_context() != lmr.lmr_context()
                    ? sync_with_context(objects, lmr.rmr_context())
                    : invalid_parameter(2);
     }},
    {"dat_lmr_sync_rdma_read", "lmr_context 0xdeadbeef", invalid_parameter(2),
     CALL(sync_with_context(objects, 0xdeadbeef))},
    {"dat_lmr_sync_rdma_read", "lmr_context 0", invalid_parameter(2),
     CALL(sync_with_context(objects, 0))},
};

} // namespace

void add_invalid(case_list &cases) {
    add_invalid(cases, ia_calls);
    add_invalid(cases, evd_calls);
    add_invalid(cases, cno_calls);
    add_invalid(cases, lmr_calls);
    add_invalid(cases, rmr_calls, requirement::memory_windows);
    add_invalid(cases, srq_calls);
    add_invalid(cases, sync_calls);
}

} // namespace conform
