// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Arguments that are not valid: of EPs and of what is posted to them.

#include "invalid.hpp"

#include "lib/optional.hpp"

#include <dat2/dat_ib_extensions.h>

namespace conform {

namespace {

// -- attributes

struct invalid_attr {
    const char *description;
    void (*change)(DAT_EP_ATTR &, const DAT_IA_ATTR &);
};

constexpr invalid_attr invalid_attrs[] = {
    {"service_type 77", SET(service_type, enum_cast<DAT_SERVICE_TYPE>(77))},
    {"qos that is not supported", SET(qos, DAT_QOS_HIGH_THROUGHPUT)},
    {"max_message_size above the limit", SET(max_message_size, limits.max_message_size + 1)},
    {"max_rdma_size above the limit", SET(max_rdma_size, limits.max_rdma_size + 1)},
    {"max_request_dtos -1", SET(max_request_dtos, -1)},
    {"max_request_dtos above the limit", SET(max_request_dtos, limits.max_dto_per_ep + 1)},
    {"max_request_dtos 0, with an EVD", SET(max_request_dtos, 0)},
    {"max_recv_dtos -1", SET(max_recv_dtos, -1)},
    {"max_recv_dtos above the limit", SET(max_recv_dtos, limits.max_dto_per_ep + 1)},
    {"max_request_iov -1", SET(max_request_iov, -1)},
    {"max_request_iov above the limit", SET(max_request_iov, limits.max_iov_segments_per_dto + 1)},
    {"max_request_iov 0", SET(max_request_iov, 0)},
    {"max_recv_iov -1", SET(max_recv_iov, -1)},
    {"max_recv_iov above the limit", SET(max_recv_iov, limits.max_iov_segments_per_dto + 1)},
    {"max_rdma_read_in -1", SET(max_rdma_read_in, -1)},
    {"max_rdma_read_in above the limit", SET(max_rdma_read_in, limits.max_rdma_read_per_ep_in + 1)},
    {"max_rdma_read_out -1", SET(max_rdma_read_out, -1)},
    {"max_rdma_read_out above the limit",
     SET(max_rdma_read_out, limits.max_rdma_read_per_ep_out + 1)},
    {"max_rdma_read_iov -1", SET(max_rdma_read_iov, -1)},
    {"max_rdma_read_iov above the limit",
     SET(max_rdma_read_iov, limits.max_iov_segments_per_rdma_read + 1)},
    {"max_rdma_write_iov above the limit",
     SET(max_rdma_write_iov, limits.max_iov_segments_per_rdma_write + 1)},
};

/// Nothing of it is limited by the limit's neighbor.
DAT_EP_ATTR minimal_ep_attr() {
    DAT_EP_ATTR attr{};
    attr.max_recv_dtos = attr.max_request_dtos = 4;
    attr.max_recv_iov = attr.max_request_iov = 2;
    return attr;
}

/// The limit is the largest number, and limit + 1 has become 0, which means the default and is
/// valid.
bool is_wrapped(const invalid_attr &row, const DAT_EP_ATTR &attr) {
    const std::string description = row.description;
    return (description.starts_with("max_message_size") && attr.max_message_size == 0) ||
           (description.starts_with("max_rdma_size") && attr.max_rdma_size == 0);
}

/// create(objects, &attr), a call that creates an EP, refuses each invalid attribute, and writes no
/// handle.
template <class Create>
void expect_attributes_refused(Create create, DAT_RETURN expected) {
    const all_objects objects;
    for (const invalid_attr &row : invalid_attrs) {
        const scoped_trace trace(row.description);
        DAT_EP_ATTR attr = minimal_ep_attr();
        row.change(attr, objects.eps.ia.ia_attr());
        unwritten_handle = &unwritten_handle;
        if (!is_wrapped(row, attr))
            expect_return(create(objects, &attr), expected);
        expect_true(unwritten_handle == &unwritten_handle, "it wrote a handle");
    }
}

DAT_RETURN create_ep(const all_objects &objects, const DAT_EP_ATTR *attr,
                     DAT_EP_HANDLE *result = &unwritten_handle) {
    return dat_ep_create(objects.eps.ia, objects.eps.pz, objects.idle_ep.recv_evd,
                         objects.idle_ep.request_evd, objects.idle_ep.connect_evd, attr, result);
}
DAT_RETURN create_ep_with_srq(const all_objects &objects, const DAT_EP_ATTR *attr,
                              DAT_EP_HANDLE *result = &unwritten_handle) {
    return dat_ep_create_with_srq(objects.eps.ia, objects.eps.pz, objects.idle_ep.recv_evd,
                                  objects.idle_ep.request_evd, objects.idle_ep.connect_evd,
                                  objects.srq, attr, result);
}

void add_attributes(case_list &cases) {
    add_case(cases, "invalid.dat_ep_create.attributes", [] {
        expect_attributes_refused([](const all_objects &objects,
                                     const DAT_EP_ATTR *attr) { return create_ep(objects, attr); },
                                  invalid_parameter(6));
    });
    add_case(cases, "invalid.dat_ep_create_with_srq.attributes", [] {
        expect_attributes_refused(
            [](const all_objects &objects, const DAT_EP_ATTR *attr) {
                return create_ep_with_srq(objects, attr);
            },
            invalid_parameter(7));
    });
}

// -- endpoints. `eps` is connected, `idle_ep` is not.

DAT_RETURN modify_ep(DAT_EP_HANDLE handle, DAT_EP_PARAM_MASK mask, DAT_COUNT max_request_dtos = 0) {
    DAT_EP_PARAM param{};
    param.ep_attr.max_request_dtos = max_request_dtos;
    return dat_ep_modify(handle, mask, &param);
}

constexpr invalid_call ep_calls[] = {
    {"dat_ep_create", "ep NULL", invalid_parameter(7), CALL(create_ep(objects, nullptr, nullptr))},
    {"dat_ep_create_with_srq", "ep NULL", invalid_parameter(8),
     CALL(create_ep_with_srq(objects, nullptr, nullptr))},
    {"dat_ep_query", "mask unknown", invalid_parameter(2),
     [](const all_objects &objects) {
         DAT_EP_PARAM param{};
         return dat_ep_query(objects.eps.active, DAT_EP_PARAM_MASK{1} << 31, &param);
     }},
    {"dat_ep_query", "param NULL", invalid_parameter(3),
     CALL(dat_ep_query(objects.eps.active, DAT_EP_FIELD_ALL, nullptr))},
    {"dat_ep_modify", "mask unknown", invalid_parameter(2),
     CALL(modify_ep(objects.idle_ep, DAT_EP_PARAM_MASK{1} << 31))},
    {"dat_ep_modify", "the IA", invalid_parameter(2),
     CALL(modify_ep(objects.idle_ep, DAT_EP_FIELD_IA_HANDLE))},
    {"dat_ep_modify", "the state", invalid_parameter(2),
     CALL(modify_ep(objects.idle_ep, DAT_EP_FIELD_EP_STATE))},
    {"dat_ep_modify", "param NULL, of an attribute", invalid_parameter(3),
     CALL(dat_ep_modify(objects.idle_ep, DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, nullptr))},
    {"dat_ep_modify", "max_request_dtos -1", invalid_parameter(3),
     CALL(modify_ep(objects.idle_ep, DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS, -1))},
    {"dat_ep_modify", "connected", invalid_state(DAT_INVALID_STATE_EP_CONNECTED),
     CALL(modify_ep(objects.eps.active, DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS))},
    {"dat_ep_set_watermark", "soft -2", invalid_parameter(2),
     CALL(dat_ep_set_watermark(objects.eps.active, -2, 0))},
    {"dat_ep_set_watermark", "hard -2", invalid_parameter(3),
     CALL(dat_ep_set_watermark(objects.eps.active, 0, -2))},
    {"dat_ep_set_watermark", "EP without an SRQ",
     invalid_state(DAT_INVALID_STATE_EP_RECV_WATERMARK),
     CALL(dat_ep_set_watermark(objects.eps.active, 1, 2))},
    {"dat_ep_reset", "connected", invalid_state(DAT_INVALID_STATE_EP_CONNECTED),
     CALL(dat_ep_reset(objects.eps.active))},
    {"dat_ep_free", "reserved", invalid_state(DAT_INVALID_STATE_EP_RESERVED),
     CALL(dat_ep_free(objects.reserved_ep))},
};

// -- posting

constexpr DAT_COMPLETION_FLAGS no_flag = DAT_COMPLETION_DEFAULT_FLAG;

enum class dto_type { send, invalidate, write, read, immediate };

DAT_RETURN post_dto(dto_type type, DAT_EP_HANDLE handle, DAT_COUNT num_segments,
                    DAT_LMR_TRIPLET *iov, const DAT_RMR_TRIPLET *remote) {
    switch (type) {
    case dto_type::send:
        return dat_ep_post_send(handle, num_segments, iov, make_context(1), no_flag);
    case dto_type::invalidate:
        return EXPORTED(dat_ep_post_send_with_invalidate)(handle, num_segments, iov,
                                                          make_context(1), no_flag, DAT_TRUE, 1);
    case dto_type::write:
        return dat_ep_post_rdma_write(handle, num_segments, iov, make_context(1), remote, no_flag);
    case dto_type::read:
        return dat_ep_post_rdma_read(handle, num_segments, iov, make_context(1), remote, no_flag);
    default:
        return dat_ib_post_rdma_write_immed(handle, num_segments, iov, make_context(1), remote, 7,
                                            no_flag);
    }
}

struct post_args {
    explicit post_args(const all_objects &objects, std::size_t count = 2)
        : iov(count, objects.eps.lmr.make_lmr_triplet(0, 64))
        , remote(objects.eps.lmr.make_rmr_triplet(page_size, 64)) {}
    DAT_COUNT count() const { return static_cast<DAT_COUNT>(iov.size()); }

    std::vector<DAT_LMR_TRIPLET> iov;
    DAT_RMR_TRIPLET remote;
};

DAT_EP_ATTR query_ep_attr(DAT_EP_HANDLE handle) {
    DAT_EP_PARAM param{};
    require_success(dat_ep_query(handle, DAT_EP_FIELD_ALL, &param));
    return param.ep_attr;
}

template <dto_type type>
DAT_RETURN post_negative_count(const all_objects &objects) {
    post_args args(objects);
    return post_dto(type, objects.eps.active, -1, args.iov.data(), &args.remote);
}
DAT_COUNT max_segments(dto_type type, const DAT_EP_ATTR &attr) {
    const bool is_write = type == dto_type::write || type == dto_type::immediate;
    const DAT_COUNT limit = type == dto_type::read ? attr.max_rdma_read_iov
                            : is_write             ? attr.max_rdma_write_iov
                                                   : attr.max_request_iov;
    return limit > 0 ? limit : attr.max_request_iov;
}
template <dto_type type>
DAT_RETURN post_too_many_segments(const all_objects &objects) {
    const DAT_COUNT limit = max_segments(type, query_ep_attr(objects.eps.active));
    post_args args(objects, static_cast<std::size_t>(limit) + 1);
    return post_dto(type, objects.eps.active, args.count(), args.iov.data(), &args.remote);
}
template <dto_type type>
DAT_RETURN post_null_iov(const all_objects &objects) {
    const post_args args(objects);
    return post_dto(type, objects.eps.active, 1, nullptr, &args.remote);
}
/// Posts a byte more than the EP's limit, and two segments whose sum exceeds DAT_SEG_LENGTH.
/// Returns the first result that is not DAT_LENGTH_ERROR, or DAT_LENGTH_ERROR.
template <dto_type type>
DAT_RETURN post_too_long(const all_objects &objects) {
    const DAT_EP_ATTR attr = query_ep_attr(objects.eps.active);
    const DAT_VLEN limit = type == dto_type::send || type == dto_type::invalidate
                               ? attr.max_message_size
                               : attr.max_rdma_size;
    constexpr DAT_SEG_LENGTH max_segment_length = ~DAT_SEG_LENGTH{0};
    post_args args(objects);
    DAT_RETURN ret = dat_error(DAT_LENGTH_ERROR);
    if (limit < max_segment_length) {
        args.iov[0].segment_length = static_cast<DAT_SEG_LENGTH>(limit + 1);
        ret = post_dto(type, objects.eps.active, 1, args.iov.data(), &args.remote);
    }
    if (ret != dat_error(DAT_LENGTH_ERROR) || max_segments(type, attr) < 2)
        return ret;
    args.iov[0].segment_length = args.iov[1].segment_length = max_segment_length;
    return post_dto(type, objects.eps.active, 2, args.iov.data(), &args.remote);
}
template <dto_type type>
DAT_RETURN post_null_remote(const all_objects &objects) {
    return post_dto(type, objects.eps.active, 1, post_args(objects).iov.data(), nullptr);
}
template <dto_type type>
DAT_RETURN post_unconnected(const all_objects &objects) {
    post_args args(objects);
    return post_dto(type, objects.idle_ep, 1, args.iov.data(), &args.remote);
}

#define REFUSED(function, type)                                                                    \
    {function, "num_segments -1", invalid_parameter(2), post_negative_count<type>},                \
        {function, "num_segments above the EP's", invalid_parameter(2),                            \
         post_too_many_segments<type>},                                                            \
        {function, "iov NULL", invalid_parameter(3), post_null_iov<type>},                         \
        {function, "too long", dat_error(DAT_LENGTH_ERROR), post_too_long<type>}, {                \
        function, "EP not connected", invalid_state(DAT_INVALID_STATE_EP_UNCONNECTED),             \
            post_unconnected<type>                                                                 \
    }

DAT_RETURN post_rdma_read_to_rmr(const all_objects &objects, const DAT_RMR_TRIPLET *local,
                                 const DAT_RMR_TRIPLET *remote) {
    return EXPORTED(dat_ep_post_rdma_read_to_rmr)(objects.eps.active, local, make_context(1),
                                                  remote, no_flag);
}
constexpr DAT_RETURN not_writable = dat_error(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_RDMA_WRITE);

constexpr invalid_call dto_calls[] = {
    {"dat_ep_post_recv", "num_segments -1", invalid_parameter(2),
     CALL(dat_ep_post_recv(objects.eps.active, -1, post_args(objects).iov.data(), make_context(1),
                           no_flag))},
    {"dat_ep_post_recv", "num_segments above the EP's", invalid_parameter(2),
     [](const all_objects &objects) {
         const DAT_COUNT limit = query_ep_attr(objects.eps.active).max_recv_iov;
         post_args args(objects, static_cast<std::size_t>(limit) + 1);
         return dat_ep_post_recv(objects.eps.active, args.count(), args.iov.data(), make_context(1),
                                 no_flag);
     }},
    {"dat_ep_post_recv", "iov NULL", invalid_parameter(3),
     CALL(dat_ep_post_recv(objects.eps.active, 1, nullptr, make_context(1), no_flag))},
    REFUSED("dat_ep_post_send", dto_type::send),
    REFUSED("dat_ep_post_send_with_invalidate", dto_type::invalidate),
    REFUSED("dat_ep_post_rdma_write", dto_type::write),
    {"dat_ep_post_rdma_write", "remote NULL", invalid_parameter(5),
     post_null_remote<dto_type::write>},
    REFUSED("dat_ep_post_rdma_read", dto_type::read),
    {"dat_ep_post_rdma_read", "remote NULL", invalid_parameter(5),
     post_null_remote<dto_type::read>},
    {"dat_ep_post_rdma_read_to_rmr", "local NULL", invalid_parameter(2),
     [](const all_objects &objects) {
         const DAT_RMR_TRIPLET rmr_triplet = objects.eps.lmr.make_rmr_triplet(0, 64);
         return post_rdma_read_to_rmr(objects, nullptr, &rmr_triplet);
     }},
    {"dat_ep_post_rdma_read_to_rmr", "remote NULL", invalid_parameter(4),
     [](const all_objects &objects) {
         const DAT_RMR_TRIPLET rmr_triplet = objects.eps.lmr.make_rmr_triplet(0, 64);
         return post_rdma_read_to_rmr(objects, &rmr_triplet, nullptr);
     }},
    {"dat_ep_post_rdma_read_to_rmr", "rmr_context of local unknown", not_writable,
     [](const all_objects &objects) {
         DAT_RMR_TRIPLET rmr_triplet = objects.eps.lmr.make_rmr_triplet(0, 64);
         rmr_triplet.rmr_context = 0xdeadbeef;
         return post_rdma_read_to_rmr(objects, &rmr_triplet, &rmr_triplet);
     }},
    {"dat_ep_post_rdma_read_to_rmr", "local behind the LMR", not_writable,
     [](const all_objects &objects) {
         const DAT_RMR_TRIPLET rmr_triplet =
             objects.eps.lmr.make_rmr_triplet(ep_pair::size - 6, 64);
         return post_rdma_read_to_rmr(objects, &rmr_triplet, &rmr_triplet);
     }},
};

// -- extensions of InfiniBand

DAT_RETURN post_fetch_and_add(const all_objects &objects, DAT_LMR_TRIPLET *local,
                              std::size_t offset, bool has_remote = true) {
    DAT_RMR_TRIPLET remote = objects.eps.lmr.make_rmr_triplet(page_size + offset, 8);
    return dat_ib_post_fetch_and_add(objects.eps.active, 1, local, make_context(1),
                                     has_remote ? &remote : nullptr, no_flag);
}

constexpr invalid_call extension_calls[] = {
    REFUSED("dat_ib_post_rdma_write_immed", dto_type::immediate),
    {"dat_ib_post_rdma_write_immed", "remote NULL", invalid_parameter(5),
     post_null_remote<dto_type::immediate>},
    {"dat_ib_post_fetch_and_add", "local NULL", invalid_parameter(3),
     CALL(post_fetch_and_add(objects, nullptr, 0))},
    {"dat_ib_post_fetch_and_add", "remote NULL", invalid_parameter(5),
     [](const all_objects &objects) {
         DAT_LMR_TRIPLET local = objects.eps.lmr.make_lmr_triplet(0, 8);
         return post_fetch_and_add(objects, &local, 0, false);
     }},
    {"dat_ib_post_fetch_and_add", "remote not aligned", invalid_parameter(5),
     [](const all_objects &objects) {
         DAT_LMR_TRIPLET local = objects.eps.lmr.make_lmr_triplet(0, 8);
         return post_fetch_and_add(objects, &local, 4);
     }},
    {"dat_ib_post_fetch_and_add", "length 16", dat_error(DAT_LENGTH_ERROR),
     [](const all_objects &objects) {
         DAT_LMR_TRIPLET local = objects.eps.lmr.make_lmr_triplet(0, 16);
         return post_fetch_and_add(objects, &local, 0);
     }},
    {"dat_ib_post_send_ud", "num_segments -1", invalid_parameter(2),
     [](const all_objects &objects) {
         DAT_IB_ADDR_HANDLE address{};
         return dat_ib_post_send_ud(objects.eps.active, -1, post_args(objects).iov.data(), &address,
                                    make_context(1), no_flag);
     }},
    {"dat_ib_post_send_ud", "iov NULL", invalid_parameter(3),
     [](const all_objects &objects) {
         DAT_IB_ADDR_HANDLE address{};
         return dat_ib_post_send_ud(objects.eps.active, 1, nullptr, &address, make_context(1),
                                    no_flag);
     }},
    {"dat_ib_post_send_ud", "address handle NULL", invalid_parameter(4),
     CALL(dat_ib_post_send_ud(objects.eps.active, 1, post_args(objects).iov.data(), nullptr,
                              make_context(1), no_flag))},
    {"dat_ib_post_send_ud", "address handle empty", invalid_parameter(4),
     [](const all_objects &objects) {
         DAT_IB_ADDR_HANDLE address{};
         return dat_ib_post_send_ud(objects.eps.active, 1, post_args(objects).iov.data(), &address,
                                    make_context(1), no_flag);
     }},
    {"dat_ib_ud_ah_free", "address handle NULL", invalid_parameter(2),
     CALL(dat_ib_ud_ah_free(objects.eps.active, nullptr))},
    {"dat_ib_ud_cm_free", "peer NULL", invalid_parameter(2),
     CALL(dat_ib_ud_cm_free(objects.eps.active, nullptr))},
    {"dat_ib_ud_cm_free", "peer unknown", invalid_parameter(2),
     CALL(dat_ib_ud_cm_free(objects.eps.active, &unwritten_handle))},
};

constexpr invalid_call no_extension_calls[] = {
    {"dat_extension_op", "operation unknown", dat_error(DAT_NOT_IMPLEMENTED),
     CALL(dat_extension_op(objects.eps.active, 0x777))},
};

} // namespace

void add_invalid_ep(case_list &cases) {
    add_attributes(cases);
    add_invalid(cases, ep_calls, requirement::connection);
    add_invalid(cases, dto_calls, requirement::connection);
    add_invalid(cases, extension_calls, requirement::extensions);
    add_invalid(cases, no_extension_calls, requirement::connection);
}

} // namespace conform
