// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// IAs: their attributes, whether all are there. Whether they are true is asked where it shows.

#include "cases.hpp"
#include "test_ia.hpp"

#include <algorithm>
#include <cstring>
#include <ifaddrs.h>
#include <string_view>

namespace conform {

namespace {

struct field {
    DAT_UINT64 mask;
    std::size_t offset, size;
    const char *name;
};

template <class Struct, class Member>
field of(DAT_UINT64 mask, Member Struct::*member, const char *name) {
    static const poisoned<Struct> any;
    const auto *start = reinterpret_cast<const unsigned char *>(&any.value());
    const auto *there = reinterpret_cast<const unsigned char *>(&(any.value().*member));
    return {mask, static_cast<std::size_t>(there - start), sizeof(Member), name};
}

std::vector<field> fields_of(const DAT_IA_ATTR &) {
    using a = DAT_IA_ATTR;
    return {
        of(DAT_IA_FIELD_IA_ADAPTER_NAME, &a::adapter_name, "adapter_name"),
        of(DAT_IA_FIELD_IA_VENDOR_NAME, &a::vendor_name, "vendor_name"),
        of(DAT_IA_FIELD_IA_HARDWARE_MAJOR_VERSION, &a::hardware_version_major, "hardware major"),
        of(DAT_IA_FIELD_IA_HARDWARE_MINOR_VERSION, &a::hardware_version_minor, "hardware minor"),
        of(DAT_IA_FIELD_IA_FIRMWARE_MAJOR_VERSION, &a::firmware_version_major, "firmware major"),
        of(DAT_IA_FIELD_IA_FIRMWARE_MINOR_VERSION, &a::firmware_version_minor, "firmware minor"),
        of(DAT_IA_FIELD_IA_ADDRESS_PTR, &a::ia_address_ptr, "ia_address_ptr"),
        of(DAT_IA_FIELD_IA_MAX_EPS, &a::max_eps, "max_eps"),
        of(DAT_IA_FIELD_IA_MAX_DTO_PER_EP, &a::max_dto_per_ep, "max_dto_per_ep"),
        of(DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_IN, &a::max_rdma_read_per_ep_in,
           "max_rdma_read_per_ep_in"),
        of(DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_OUT, &a::max_rdma_read_per_ep_out,
           "max_rdma_read_per_ep_out"),
        of(DAT_IA_FIELD_IA_MAX_EVDS, &a::max_evds, "max_evds"),
        of(DAT_IA_FIELD_IA_MAX_EVD_QLEN, &a::max_evd_qlen, "max_evd_qlen"),
        of(DAT_IA_FIELD_IA_MAX_IOV_SEGMENTS_PER_DTO, &a::max_iov_segments_per_dto,
           "max_iov_segments_per_dto"),
        of(DAT_IA_FIELD_IA_MAX_LMRS, &a::max_lmrs, "max_lmrs"),
        of(DAT_IA_FIELD_IA_MAX_LMR_BLOCK_SIZE, &a::max_lmr_block_size, "max_lmr_block_size"),
        of(DAT_IA_FIELD_IA_MAX_LMR_VIRTUAL_ADDRESS, &a::max_lmr_virtual_address,
           "max_lmr_virtual_address"),
        of(DAT_IA_FIELD_IA_MAX_PZS, &a::max_pzs, "max_pzs"),
        of(DAT_IA_FIELD_IA_MAX_MESSAGE_SIZE, &a::max_message_size, "max_message_size"),
        of(DAT_IA_FIELD_IA_MAX_RDMA_SIZE, &a::max_rdma_size, "max_rdma_size"),
        of(DAT_IA_FIELD_IA_MAX_RMRS, &a::max_rmrs, "max_rmrs"),
        of(DAT_IA_FIELD_IA_MAX_RMR_TARGET_ADDRESS, &a::max_rmr_target_address,
           "max_rmr_target_address"),
        of(DAT_IA_FIELD_IA_MAX_SRQS, &a::max_srqs, "max_srqs"),
        of(DAT_IA_FIELD_IA_MAX_EP_PER_SRQ, &a::max_ep_per_srq, "max_ep_per_srq"),
        of(DAT_IA_FIELD_IA_MAX_RECV_PER_SRQ, &a::max_recv_per_srq, "max_recv_per_srq"),
        of(DAT_IA_FIELD_IA_MAX_IOV_SEGMENTS_PER_RDMA_READ, &a::max_iov_segments_per_rdma_read,
           "max_iov_segments_per_rdma_read"),
        of(DAT_IA_FIELD_IA_MAX_IOV_SEGMENTS_PER_RDMA_WRITE, &a::max_iov_segments_per_rdma_write,
           "max_iov_segments_per_rdma_write"),
        of(DAT_IA_FIELD_IA_MAX_RDMA_READ_IN, &a::max_rdma_read_in, "max_rdma_read_in"),
        of(DAT_IA_FIELD_IA_MAX_RDMA_READ_OUT, &a::max_rdma_read_out, "max_rdma_read_out"),
        of(DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_IN_GUARANTEED,
           &a::max_rdma_read_per_ep_in_guaranteed, "max_rdma_read_per_ep_in_guaranteed"),
        of(DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_OUT_GUARANTEED,
           &a::max_rdma_read_per_ep_out_guaranteed, "max_rdma_read_per_ep_out_guaranteed"),
        of(DAT_IA_FIELD_IA_ZB_SUPPORTED, &a::zb_supported, "zb_supported"),
        of(DAT_IA_FIELD_IA_EXTENSIONS_SUPPORTED, &a::extension_supported, "extension_supported"),
        of(DAT_IA_FIELD_IA_EXTENSION_VERSION, &a::extension_version, "extension_version"),
        of(DAT_IA_FIELD_IA_NUM_TRANSPORT_ATTR, &a::num_transport_attr, "num_transport_attr"),
        of(DAT_IA_FIELD_IA_TRANSPORT_ATTR, &a::transport_attr, "transport_attr"),
        of(DAT_IA_FIELD_IA_NUM_VENDOR_ATTR, &a::num_vendor_attr, "num_vendor_attr"),
        of(DAT_IA_FIELD_IA_VENDOR_ATTR, &a::vendor_attr, "vendor_attr"),
    };
}

std::vector<field> fields_of(const DAT_PROVIDER_ATTR &) {
    using a = DAT_PROVIDER_ATTR;
    return {
        of(DAT_PROVIDER_FIELD_PROVIDER_NAME, &a::provider_name, "provider_name"),
        of(DAT_PROVIDER_FIELD_PROVIDER_VERSION_MAJOR, &a::provider_version_major, "major version"),
        of(DAT_PROVIDER_FIELD_PROVIDER_VERSION_MINOR, &a::provider_version_minor, "minor version"),
        of(DAT_PROVIDER_FIELD_DAPL_VERSION_MAJOR, &a::dapl_version_major, "dapl_version_major"),
        of(DAT_PROVIDER_FIELD_DAPL_VERSION_MINOR, &a::dapl_version_minor, "dapl_version_minor"),
        of(DAT_PROVIDER_FIELD_LMR_MEM_TYPE_SUPPORTED, &a::lmr_mem_types_supported,
           "lmr_mem_types_supported"),
        of(DAT_PROVIDER_FIELD_IOV_OWNERSHIP, &a::iov_ownership_on_return,
           "iov_ownership_on_return"),
        of(DAT_PROVIDER_FIELD_DAT_QOS_SUPPORTED, &a::dat_qos_supported, "dat_qos_supported"),
        of(DAT_PROVIDER_FIELD_COMPLETION_FLAGS_SUPPORTED, &a::completion_flags_supported,
           "completion_flags_supported"),
        of(DAT_PROVIDER_FIELD_IS_THREAD_SAFE, &a::is_thread_safe, "is_thread_safe"),
        of(DAT_PROVIDER_FIELD_MAX_PRIVATE_DATA_SIZE, &a::max_private_data_size,
           "max_private_data_size"),
        of(DAT_PROVIDER_FIELD_SUPPORTS_MULTIPATH, &a::supports_multipath, "supports_multipath"),
        of(DAT_PROVIDER_FIELD_EP_CREATOR, &a::ep_creator, "ep_creator"),
        of(DAT_PROVIDER_FIELD_PZ_SUPPORT, &a::pz_support, "pz_support"),
        of(DAT_PROVIDER_FIELD_OPTIMAL_BUFFER_ALIGNMENT, &a::optimal_buffer_alignment,
           "optimal_buffer_alignment"),
        of(DAT_PROVIDER_FIELD_EVD_STREAM_MERGING_SUPPORTED, &a::evd_stream_merging_supported,
           "evd_stream_merging_supported"),
        of(DAT_PROVIDER_FIELD_SRQ_SUPPORTED, &a::srq_supported, "srq_supported"),
        of(DAT_PROVIDER_FIELD_SRQ_WATERMARKS_SUPPORTED, &a::srq_watermarks_supported,
           "srq_watermarks_supported"),
        of(DAT_PROVIDER_FIELD_SRQ_EP_PZ_DIFFERENCE_SUPPORTED, &a::srq_ep_pz_difference_supported,
           "srq_ep_pz_difference_supported"),
        of(DAT_PROVIDER_FIELD_SRQ_INFO_SUPPORTED, &a::srq_info_supported, "srq_info_supported"),
        of(DAT_PROVIDER_FIELD_EP_RECV_INFO_SUPPORTED, &a::ep_recv_info_supported,
           "ep_recv_info_supported"),
        of(DAT_PROVIDER_FIELD_LMR_SYNC_REQ, &a::lmr_sync_req, "lmr_sync_req"),
        of(DAT_PROVIDER_FIELD_DTO_ASYNC_RETURN_GUARANTEED, &a::dto_async_return_guaranteed,
           "dto_async_return_guaranteed"),
        of(DAT_PROVIDER_FIELD_RDMA_WRITE_FOR_RDMA_READ_REQ, &a::rdma_write_for_rdma_read_req,
           "rdma_write_for_rdma_read_req"),
        of(DAT_PROVIDER_FIELD_RDMA_READ_LMR_RMR_CONTEXT_EXPOSURE,
           &a::rdma_read_lmr_rmr_context_exposure, "rdma_read_lmr_rmr_context_exposure"),
        of(DAT_PROVIDER_FIELD_RMR_SCOPE_SUPPORTED, &a::rmr_scope_supported, "rmr_scope_supported"),
        of(DAT_PROVIDER_FIELD_IS_SIGNAL_SAFE, &a::is_signal_safe, "is_signal_safe"),
        of(DAT_PROVIDER_FIELD_HA_SUPPORTED, &a::ha_supported, "ha_supported"),
        of(DAT_PROVIDER_FIELD_HA_LB, &a::ha_loadbalancing, "ha_loadbalancing"),
        of(DAT_PROVIDER_FIELD_NUM_PROVIDER_SPECIFIC_ATTR, &a::num_provider_specific_attr,
           "num_provider_specific_attr"),
        of(DAT_PROVIDER_FIELD_PROVIDER_SPECIFIC_ATTR, &a::provider_specific_attr,
           "provider_specific_attr"),
    };
}

DAT_RETURN query(DAT_IA_HANDLE ia, DAT_UINT64 mask, DAT_IA_ATTR *to) {
    return dat_ia_query(ia, nullptr, mask, to, 0, nullptr);
}
DAT_RETURN query(DAT_IA_HANDLE ia, DAT_UINT64 mask, DAT_PROVIDER_ATTR *to) {
    return dat_ia_query(ia, nullptr, 0, nullptr, mask, to);
}

/// Its first bytes: a name need not fill its array.
bool written(const field &one, const unsigned char *in) {
    const unsigned char *start = in + one.offset;
    return std::any_of(start, start + std::min<std::size_t>(one.size, 8),
                       [](unsigned char byte) { return byte != poison_byte; });
}

template <class Attributes>
void all_written(DAT_UINT64 mask) {
    const test_ia ia;
    poisoned<Attributes> all;
    require_success(query(ia, mask, all.ptr()));
    for (const field &one : fields_of(all.value()))
        expect_true(written(one, all.bytes), concat(one.name, " is not written"));
}

/// Each field asked for alone is as if all were asked for.
template <class Attributes>
void each_alone(DAT_UINT64 mask) {
    const test_ia ia;
    poisoned<Attributes> all;
    require_success(query(ia, mask, all.ptr()));
    for (const field &one : fields_of(all.value())) {
        const scoped_trace which(one.name);
        poisoned<Attributes> alone;
        if (!expect_return(query(ia, one.mask, alone.ptr()), DAT_SUCCESS))
            continue;
        const bool a_name = one.size == DAT_NAME_MAX_LENGTH;
        const auto *got = alone.bytes + one.offset, *want = all.bytes + one.offset;
        expect_true(a_name ? std::strncmp(reinterpret_cast<const char *>(got),
                                          reinterpret_cast<const char *>(want), one.size) == 0
                           : std::memcmp(got, want, one.size) == 0,
                    "asked for alone it is another");
    }
}

template <std::size_t Size>
void a_name(const char (&name)[Size], bool may_be_empty, const char *what) {
    expect_true(std::memchr(name, 0, Size) != nullptr, concat(what, " has no end"));
    expect_true(may_be_empty || name[0] != '\0', concat(what, " is empty"));
}
void a_boolean(DAT_BOOLEAN value, const char *what) {
    expect_true(value == DAT_FALSE || value == DAT_TRUE,
                concat(what, " is ", static_cast<unsigned>(value), ": no DAT_BOOLEAN"));
}

void named_attributes(const DAT_NAMED_ATTR *all, DAT_COUNT count, const char *what) {
    if (!expect_true(count >= 0 && count < 1000,
                     concat("the number of ", what, " attributes is ", count)))
        return;
    if (!expect_true(count == 0 || all != nullptr, concat("there are no ", what, " attributes")))
        return;
    for (DAT_COUNT i = 0; i < count; ++i)
        expect_true(all[i].name && all[i].name[0] && all[i].value,
                    concat(what, " attribute ", i, " has no name or value"));
}

void ia_values() {
    const test_ia ia;
    const DAT_IA_ATTR &is = ia.ia_attr();
    a_name(is.adapter_name, false, "adapter_name");
    a_name(is.vendor_name, true, "vendor_name");
    if (!settings().device.empty())
        expect_eq(std::string_view(is.adapter_name), settings().device, "adapter_name");
    using limit = std::pair<long long, const char *>;
    for (const auto &[value, what] :
         {limit{is.max_eps, "max_eps"}, limit{is.max_dto_per_ep, "max_dto_per_ep"},
          limit{is.max_rdma_read_per_ep_in, "max_rdma_read_per_ep_in"},
          limit{is.max_rdma_read_per_ep_out, "max_rdma_read_per_ep_out"},
          limit{is.max_evds, "max_evds"}, limit{is.max_evd_qlen, "max_evd_qlen"},
          limit{is.max_iov_segments_per_dto, "max_iov_segments_per_dto"},
          limit{is.max_lmrs, "max_lmrs"}, limit{is.max_lmr_block_size, "max_lmr_block_size"},
          limit{is.max_pzs, "max_pzs"}, limit{is.max_message_size, "max_message_size"},
          limit{is.max_rdma_size, "max_rdma_size"},
          limit{is.max_iov_segments_per_rdma_read, "max_iov_segments_per_rdma_read"},
          limit{is.max_iov_segments_per_rdma_write, "max_iov_segments_per_rdma_write"},
          limit{is.max_rdma_read_in, "max_rdma_read_in"},
          limit{is.max_rdma_read_out, "max_rdma_read_out"}})
        expect_true(value >= 1, concat(what, " is ", value));
    expect_true(is.max_lmr_virtual_address >= 0xffffffffU, "no 64 bit address can be registered");
    expect_true(is.max_rdma_read_in >= is.max_rdma_read_per_ep_in,
                "an EP may take more Reads than all");
    expect_true(is.max_rdma_read_out >= is.max_rdma_read_per_ep_out,
                "an EP may make more Reads than all");
    a_boolean(is.max_rdma_read_per_ep_in_guaranteed, "max_rdma_read_per_ep_in_guaranteed");
    a_boolean(is.max_rdma_read_per_ep_out_guaranteed, "max_rdma_read_per_ep_out_guaranteed");
    a_boolean(is.zb_supported, "zb_supported");
    expect_true(is.extension_supported == DAT_EXTENSION_NONE ||
                    is.extension_supported == DAT_EXTENSION_IB,
                "extension_supported is no extension that we know");
    named_attributes(is.transport_attr, is.num_transport_attr, "transport");
    named_attributes(is.vendor_attr, is.num_vendor_attr, "vendor");
}

void provider_values() {
    const test_ia ia;
    const DAT_PROVIDER_ATTR &is = ia.provider_attr();
    a_name(is.provider_name, false, "provider_name");
    expect_eq(is.dapl_version_major, 2, "dapl_version_major");
    expect_eq(is.dapl_version_minor, 0, "dapl_version_minor");
    using boolean = std::pair<DAT_BOOLEAN, const char *>;
    for (const auto &[value, what] :
         {boolean{is.is_thread_safe, "is_thread_safe"},
          boolean{is.supports_multipath, "supports_multipath"},
          boolean{is.srq_supported, "srq_supported"},
          boolean{is.srq_ep_pz_difference_supported, "srq_ep_pz_difference_supported"},
          boolean{is.lmr_sync_req, "lmr_sync_req"},
          boolean{is.dto_async_return_guaranteed, "dto_async_return_guaranteed"},
          boolean{is.rdma_write_for_rdma_read_req, "rdma_write_for_rdma_read_req"},
          boolean{is.rdma_read_lmr_rmr_context_exposure, "rdma_read_lmr_rmr_context_exposure"},
          boolean{is.is_signal_safe, "is_signal_safe"}, boolean{is.ha_supported, "ha_supported"}})
        a_boolean(value, what);
    expect_true(is.max_private_data_size >= 56, "less private data than OFED's uDAPL takes");
    const DAT_UINT32 line = is.optimal_buffer_alignment;
    expect_true(line != 0 && (line & (line - 1)) == 0,
                concat("optimal_buffer_alignment is ", line, ": no power of two"));
    expect_true(static_cast<unsigned>(is.iov_ownership_on_return) <= DAT_IOV_PROVIDER_MOD,
                "iov_ownership_on_return is none of the three");
    expect_true(static_cast<unsigned>(is.ep_creator) <= DAT_PSP_CREATES_EP_ALWAYS,
                "ep_creator is none of the three");
    expect_true(static_cast<unsigned>(is.pz_support) <= DAT_PZ_SHAREABLE,
                "pz_support is none of the two");
    expect_true(static_cast<unsigned>(is.rmr_scope_supported) <= DAT_RMR_SCOPE_ANY,
                "rmr_scope_supported is none of the three");
    for (std::size_t row = 0; row < 6; ++row)
        for (std::size_t column = 0; column < 6; ++column) {
            const auto &merging = is.evd_stream_merging_supported;
            a_boolean(merging[row][column], "an entry of evd_stream_merging_supported");
            expect_eq(merging[row][column], merging[column][row],
                      concat("merging of streams ", row, " and ", column, " the other way round"));
        }
    named_attributes(is.provider_specific_attr, is.num_provider_specific_attr, "provider");
}

std::optional<std::string> named(const test_ia &ia, std::string_view name) {
    const DAT_PROVIDER_ATTR &is = ia.provider_attr();
    for (DAT_COUNT i = 0; i < is.num_provider_specific_attr; ++i)
        if (name == is.provider_specific_attr[i].name)
            return is.provider_specific_attr[i].value;
    return {};
}

/// What programs ask for by name.
void names_of_ib() {
    const test_ia ia;
    for (const char *name :
         {"DAT_IB_PROVIDER_NAME", "DAT_IB_DEVICE_NAME", "DAT_IB_CONNECTIVITY_MODE",
          "DAT_IB_RDMA_READ", "DAT_IB_NODE_GUID", "DAT_IB_GID", "DAT_IB_TRANSPORT_MTU",
          "DAT_IB_PORT_STATUS", "DAT_IB_PORT_NUMBER", "DAT_EXTENSION_INTERFACE"})
        expect_true(named(ia, name).has_value(), concat("there is no ", name));
    expect_eq(named(ia, "DAT_IB_RDMA_READ").value_or(""), "TRUE", "DAT_IB_RDMA_READ");
    expect_true(named(ia, "DAT_IB_PORT_STATUS").value_or("").ends_with("ACTIVE"),
                "DAT_IB_PORT_STATUS does not say ACTIVE");
    expect_true(std::atoi(named(ia, "DAT_IB_TRANSPORT_MTU").value_or("0").c_str()) >= 256,
                "DAT_IB_TRANSPORT_MTU is no number of bytes");
    if (!settings().device.empty())
        expect_eq(named(ia, "DAT_IB_DEVICE_NAME").value_or(""), settings().device,
                  "DAT_IB_DEVICE_NAME");
    for (const char *name : {"DAT_IB_FETCH_AND_ADD", "DAT_IB_CMP_AND_SWAP", "DAT_IB_IMMED_DATA"})
        expect_eq(named(ia, name).value_or("FALSE"), ia.is_iwarp() ? "FALSE" : "TRUE", name);
}

/// One of an interface of this machine.
void own_address() {
    const test_ia ia;
    const sockaddr_in is = ia.ipv4_address();
    ifaddrs *all = nullptr;
    require(getifaddrs(&all) == 0, "getifaddrs");
    bool found = false;
    for (const ifaddrs *one = all; one; one = one->ifa_next)
        if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET) {
            sockaddr_in of_it{};
            std::memcpy(&of_it, one->ifa_addr, sizeof of_it);
            found = found || of_it.sin_addr.s_addr == is.sin_addr.s_addr;
        }
    freeifaddrs(all);
    expect_true(found, "no interface has the IA's address");
}

void wrong_arguments(case_list &cases) {
    add_case(cases, "ia.query_mask_unknown", [] {
        const test_ia ia;
        poisoned<DAT_IA_ATTR> attributes;
        expect_return(query(ia, DAT_IA_FIELD_ALL + 1, attributes.ptr()), invalid_parameter(3));
    });
    add_case(cases, "ia.query_provider_mask_unknown", [] {
        const test_ia ia;
        poisoned<DAT_PROVIDER_ATTR> attributes;
        expect_return(query(ia, DAT_PROVIDER_FIELD_ALL + 1, attributes.ptr()),
                      invalid_parameter(5));
    });
    add_case(cases, "ia.query_null", [] {
        const test_ia ia;
        expect_return(dat_ia_query(ia, nullptr, DAT_IA_FIELD_IA_MAX_EPS, nullptr, 0, nullptr),
                      invalid_parameter(4));
    });
    add_case(cases, "ia.query_provider_null", [] {
        const test_ia ia;
        expect_return(
            dat_ia_query(ia, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_PROVIDER_NAME, nullptr),
            invalid_parameter(6));
    });
    add_case(cases, "ia.query_nothing", [] {
        const test_ia ia;
        expect_return(dat_ia_query(ia, nullptr, 0, nullptr, 0, nullptr), DAT_SUCCESS);
        poisoned<DAT_IA_ATTR> attributes;
        poisoned<DAT_PROVIDER_ATTR> provider;
        expect_return(dat_ia_query(ia, nullptr, 0, attributes.ptr(), 0, provider.ptr()),
                      DAT_SUCCESS);
    });
}

} // namespace

void add_ia_query(case_list &cases) {
    wrong_arguments(cases);
    add_case(cases, "ia.query_all_written", [] { all_written<DAT_IA_ATTR>(DAT_IA_FIELD_ALL); });
    add_case(cases, "ia.query_provider_all_written",
             [] { all_written<DAT_PROVIDER_ATTR>(DAT_PROVIDER_FIELD_ALL); });
    add_case(cases, "ia.query_each_alone", [] { each_alone<DAT_IA_ATTR>(DAT_IA_FIELD_ALL); });
    add_case(cases, "ia.query_provider_each_alone",
             [] { each_alone<DAT_PROVIDER_ATTR>(DAT_PROVIDER_FIELD_ALL); });
    add_case(cases, "ia.query_values", ia_values);
    add_case(cases, "ia.query_provider_values", provider_values);
    add_case(cases, "ia.query_names", names_of_ib);
    add_case(cases, "ia.query_address", own_address);
}

} // namespace conform
