// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// IAs: their attributes, whether all are there. Whether they are true is asked where it shows.

#include "lib/cases.hpp"
#include "lib/test_ia.hpp"

#include <algorithm>
#include <cstring>
#include <ifaddrs.h>
#include <string_view>

namespace conform {

namespace {

struct attr_field {
    DAT_UINT64 mask;
    std::size_t offset, size;
    const char *name;
};

template <class Struct, class Member>
attr_field make_field(DAT_UINT64 mask, Member Struct::*member, const char *name) {
    static const poisoned<Struct> sample;
    const auto *start = reinterpret_cast<const unsigned char *>(&sample.value());
    const auto *member_start = reinterpret_cast<const unsigned char *>(&(sample.value().*member));
    return {mask, static_cast<std::size_t>(member_start - start), sizeof(Member), name};
}

std::vector<attr_field> list_fields(const DAT_IA_ATTR &) {
    using attr = DAT_IA_ATTR;
    return {
        make_field(DAT_IA_FIELD_IA_ADAPTER_NAME, &attr::adapter_name, "adapter_name"),
        make_field(DAT_IA_FIELD_IA_VENDOR_NAME, &attr::vendor_name, "vendor_name"),
        make_field(DAT_IA_FIELD_IA_HARDWARE_MAJOR_VERSION, &attr::hardware_version_major,
                   "hardware major"),
        make_field(DAT_IA_FIELD_IA_HARDWARE_MINOR_VERSION, &attr::hardware_version_minor,
                   "hardware minor"),
        make_field(DAT_IA_FIELD_IA_FIRMWARE_MAJOR_VERSION, &attr::firmware_version_major,
                   "firmware major"),
        make_field(DAT_IA_FIELD_IA_FIRMWARE_MINOR_VERSION, &attr::firmware_version_minor,
                   "firmware minor"),
        make_field(DAT_IA_FIELD_IA_ADDRESS_PTR, &attr::ia_address_ptr, "ia_address_ptr"),
        make_field(DAT_IA_FIELD_IA_MAX_EPS, &attr::max_eps, "max_eps"),
        make_field(DAT_IA_FIELD_IA_MAX_DTO_PER_EP, &attr::max_dto_per_ep, "max_dto_per_ep"),
        make_field(DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_IN, &attr::max_rdma_read_per_ep_in,
                   "max_rdma_read_per_ep_in"),
        make_field(DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_OUT, &attr::max_rdma_read_per_ep_out,
                   "max_rdma_read_per_ep_out"),
        make_field(DAT_IA_FIELD_IA_MAX_EVDS, &attr::max_evds, "max_evds"),
        make_field(DAT_IA_FIELD_IA_MAX_EVD_QLEN, &attr::max_evd_qlen, "max_evd_qlen"),
        make_field(DAT_IA_FIELD_IA_MAX_IOV_SEGMENTS_PER_DTO, &attr::max_iov_segments_per_dto,
                   "max_iov_segments_per_dto"),
        make_field(DAT_IA_FIELD_IA_MAX_LMRS, &attr::max_lmrs, "max_lmrs"),
        make_field(DAT_IA_FIELD_IA_MAX_LMR_BLOCK_SIZE, &attr::max_lmr_block_size,
                   "max_lmr_block_size"),
        make_field(DAT_IA_FIELD_IA_MAX_LMR_VIRTUAL_ADDRESS, &attr::max_lmr_virtual_address,
                   "max_lmr_virtual_address"),
        make_field(DAT_IA_FIELD_IA_MAX_PZS, &attr::max_pzs, "max_pzs"),
        make_field(DAT_IA_FIELD_IA_MAX_MESSAGE_SIZE, &attr::max_message_size, "max_message_size"),
        make_field(DAT_IA_FIELD_IA_MAX_RDMA_SIZE, &attr::max_rdma_size, "max_rdma_size"),
        make_field(DAT_IA_FIELD_IA_MAX_RMRS, &attr::max_rmrs, "max_rmrs"),
        make_field(DAT_IA_FIELD_IA_MAX_RMR_TARGET_ADDRESS, &attr::max_rmr_target_address,
                   "max_rmr_target_address"),
        make_field(DAT_IA_FIELD_IA_MAX_SRQS, &attr::max_srqs, "max_srqs"),
        make_field(DAT_IA_FIELD_IA_MAX_EP_PER_SRQ, &attr::max_ep_per_srq, "max_ep_per_srq"),
        make_field(DAT_IA_FIELD_IA_MAX_RECV_PER_SRQ, &attr::max_recv_per_srq, "max_recv_per_srq"),
        make_field(DAT_IA_FIELD_IA_MAX_IOV_SEGMENTS_PER_RDMA_READ,
                   &attr::max_iov_segments_per_rdma_read, "max_iov_segments_per_rdma_read"),
        make_field(DAT_IA_FIELD_IA_MAX_IOV_SEGMENTS_PER_RDMA_WRITE,
                   &attr::max_iov_segments_per_rdma_write, "max_iov_segments_per_rdma_write"),
        make_field(DAT_IA_FIELD_IA_MAX_RDMA_READ_IN, &attr::max_rdma_read_in, "max_rdma_read_in"),
        make_field(DAT_IA_FIELD_IA_MAX_RDMA_READ_OUT, &attr::max_rdma_read_out,
                   "max_rdma_read_out"),
        make_field(DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_IN_GUARANTEED,
                   &attr::max_rdma_read_per_ep_in_guaranteed, "max_rdma_read_per_ep_in_guaranteed"),
        make_field(DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_OUT_GUARANTEED,
                   &attr::max_rdma_read_per_ep_out_guaranteed,
                   "max_rdma_read_per_ep_out_guaranteed"),
        make_field(DAT_IA_FIELD_IA_ZB_SUPPORTED, &attr::zb_supported, "zb_supported"),
        make_field(DAT_IA_FIELD_IA_EXTENSIONS_SUPPORTED, &attr::extension_supported,
                   "extension_supported"),
        make_field(DAT_IA_FIELD_IA_EXTENSION_VERSION, &attr::extension_version,
                   "extension_version"),
        make_field(DAT_IA_FIELD_IA_NUM_TRANSPORT_ATTR, &attr::num_transport_attr,
                   "num_transport_attr"),
        make_field(DAT_IA_FIELD_IA_TRANSPORT_ATTR, &attr::transport_attr, "transport_attr"),
        make_field(DAT_IA_FIELD_IA_NUM_VENDOR_ATTR, &attr::num_vendor_attr, "num_vendor_attr"),
        make_field(DAT_IA_FIELD_IA_VENDOR_ATTR, &attr::vendor_attr, "vendor_attr"),
    };
}

std::vector<attr_field> list_fields(const DAT_PROVIDER_ATTR &) {
    using attr = DAT_PROVIDER_ATTR;
    return {
        make_field(DAT_PROVIDER_FIELD_PROVIDER_NAME, &attr::provider_name, "provider_name"),
        make_field(DAT_PROVIDER_FIELD_PROVIDER_VERSION_MAJOR, &attr::provider_version_major,
                   "major version"),
        make_field(DAT_PROVIDER_FIELD_PROVIDER_VERSION_MINOR, &attr::provider_version_minor,
                   "minor version"),
        make_field(DAT_PROVIDER_FIELD_DAPL_VERSION_MAJOR, &attr::dapl_version_major,
                   "dapl_version_major"),
        make_field(DAT_PROVIDER_FIELD_DAPL_VERSION_MINOR, &attr::dapl_version_minor,
                   "dapl_version_minor"),
        make_field(DAT_PROVIDER_FIELD_LMR_MEM_TYPE_SUPPORTED, &attr::lmr_mem_types_supported,
                   "lmr_mem_types_supported"),
        make_field(DAT_PROVIDER_FIELD_IOV_OWNERSHIP, &attr::iov_ownership_on_return,
                   "iov_ownership_on_return"),
        make_field(DAT_PROVIDER_FIELD_DAT_QOS_SUPPORTED, &attr::dat_qos_supported,
                   "dat_qos_supported"),
        make_field(DAT_PROVIDER_FIELD_COMPLETION_FLAGS_SUPPORTED, &attr::completion_flags_supported,
                   "completion_flags_supported"),
        make_field(DAT_PROVIDER_FIELD_IS_THREAD_SAFE, &attr::is_thread_safe, "is_thread_safe"),
        make_field(DAT_PROVIDER_FIELD_MAX_PRIVATE_DATA_SIZE, &attr::max_private_data_size,
                   "max_private_data_size"),
        make_field(DAT_PROVIDER_FIELD_SUPPORTS_MULTIPATH, &attr::supports_multipath,
                   "supports_multipath"),
        make_field(DAT_PROVIDER_FIELD_EP_CREATOR, &attr::ep_creator, "ep_creator"),
        make_field(DAT_PROVIDER_FIELD_PZ_SUPPORT, &attr::pz_support, "pz_support"),
        make_field(DAT_PROVIDER_FIELD_OPTIMAL_BUFFER_ALIGNMENT, &attr::optimal_buffer_alignment,
                   "optimal_buffer_alignment"),
        make_field(DAT_PROVIDER_FIELD_EVD_STREAM_MERGING_SUPPORTED,
                   &attr::evd_stream_merging_supported, "evd_stream_merging_supported"),
        make_field(DAT_PROVIDER_FIELD_SRQ_SUPPORTED, &attr::srq_supported, "srq_supported"),
        make_field(DAT_PROVIDER_FIELD_SRQ_WATERMARKS_SUPPORTED, &attr::srq_watermarks_supported,
                   "srq_watermarks_supported"),
        make_field(DAT_PROVIDER_FIELD_SRQ_EP_PZ_DIFFERENCE_SUPPORTED,
                   &attr::srq_ep_pz_difference_supported, "srq_ep_pz_difference_supported"),
        make_field(DAT_PROVIDER_FIELD_SRQ_INFO_SUPPORTED, &attr::srq_info_supported,
                   "srq_info_supported"),
        make_field(DAT_PROVIDER_FIELD_EP_RECV_INFO_SUPPORTED, &attr::ep_recv_info_supported,
                   "ep_recv_info_supported"),
        make_field(DAT_PROVIDER_FIELD_LMR_SYNC_REQ, &attr::lmr_sync_req, "lmr_sync_req"),
        make_field(DAT_PROVIDER_FIELD_DTO_ASYNC_RETURN_GUARANTEED,
                   &attr::dto_async_return_guaranteed, "dto_async_return_guaranteed"),
        make_field(DAT_PROVIDER_FIELD_RDMA_WRITE_FOR_RDMA_READ_REQ,
                   &attr::rdma_write_for_rdma_read_req, "rdma_write_for_rdma_read_req"),
        make_field(DAT_PROVIDER_FIELD_RDMA_READ_LMR_RMR_CONTEXT_EXPOSURE,
                   &attr::rdma_read_lmr_rmr_context_exposure, "rdma_read_lmr_rmr_context_exposure"),
        make_field(DAT_PROVIDER_FIELD_RMR_SCOPE_SUPPORTED, &attr::rmr_scope_supported,
                   "rmr_scope_supported"),
        make_field(DAT_PROVIDER_FIELD_IS_SIGNAL_SAFE, &attr::is_signal_safe, "is_signal_safe"),
        make_field(DAT_PROVIDER_FIELD_HA_SUPPORTED, &attr::ha_supported, "ha_supported"),
        make_field(DAT_PROVIDER_FIELD_HA_LB, &attr::ha_loadbalancing, "ha_loadbalancing"),
        make_field(DAT_PROVIDER_FIELD_NUM_PROVIDER_SPECIFIC_ATTR, &attr::num_provider_specific_attr,
                   "num_provider_specific_attr"),
        make_field(DAT_PROVIDER_FIELD_PROVIDER_SPECIFIC_ATTR, &attr::provider_specific_attr,
                   "provider_specific_attr"),
    };
}

DAT_RETURN query_attr(DAT_IA_HANDLE ia, DAT_UINT64 mask, DAT_IA_ATTR *attr) {
    return dat_ia_query(ia, nullptr, mask, attr, 0, nullptr);
}
DAT_RETURN query_attr(DAT_IA_HANDLE ia, DAT_UINT64 mask, DAT_PROVIDER_ATTR *attr) {
    return dat_ia_query(ia, nullptr, 0, nullptr, mask, attr);
}

/// Its first bytes: a name need not fill its array.
bool is_written(const attr_field &field, const unsigned char *bytes) {
    const unsigned char *start = bytes + field.offset;
    return std::any_of(start, start + std::min<std::size_t>(field.size, 8),
                       [](unsigned char byte) { return byte != poison_byte; });
}

template <class Attributes>
void test_all_written(DAT_UINT64 mask) {
    const test_ia ia;
    poisoned<Attributes> all_attr;
    require_success(query_attr(ia, mask, all_attr.ptr()));
    for (const attr_field &field : list_fields(all_attr.value()))
        expect_true(is_written(field, all_attr.bytes), concat(field.name, " is not written"));
}

/// A query for a single field returns the same value as one for all of them.
template <class Attributes>
void test_each_field(DAT_UINT64 mask) {
    const test_ia ia;
    poisoned<Attributes> all_attr;
    require_success(query_attr(ia, mask, all_attr.ptr()));
    for (const attr_field &field : list_fields(all_attr.value())) {
        const scoped_trace trace(field.name);
        poisoned<Attributes> single_attr;
        if (!expect_return(query_attr(ia, field.mask, single_attr.ptr()), DAT_SUCCESS))
            continue;
        const bool is_name = field.size == DAT_NAME_MAX_LENGTH;
        const auto *actual = single_attr.bytes + field.offset,
                   *expected = all_attr.bytes + field.offset;
        expect_true(is_name
                        ? std::strncmp(reinterpret_cast<const char *>(actual),
                                       reinterpret_cast<const char *>(expected), field.size) == 0
                        : std::memcmp(actual, expected, field.size) == 0,
                    "asked for alone it is another");
    }
}

template <std::size_t Size>
void expect_name(const char (&value)[Size], bool may_be_empty, const char *name) {
    expect_true(std::memchr(value, 0, Size) != nullptr, concat(name, " has no end"));
    expect_true(may_be_empty || value[0] != '\0', concat(name, " is empty"));
}
void expect_boolean(DAT_BOOLEAN value, const char *name) {
    expect_true(value == DAT_FALSE || value == DAT_TRUE,
                concat(name, " is ", static_cast<unsigned>(value), ": no DAT_BOOLEAN"));
}

void expect_named_attributes(const DAT_NAMED_ATTR *attrs, DAT_COUNT count, const char *kind) {
    if (!expect_true(count >= 0 && count < 1000,
                     concat("the number of ", kind, " attributes is ", count)))
        return;
    if (!expect_true(count == 0 || attrs != nullptr, concat("there are no ", kind, " attributes")))
        return;
    for (DAT_COUNT i = 0; i < count; ++i)
        expect_true(attrs[i].name && attrs[i].name[0] && attrs[i].value,
                    concat(kind, " attribute ", i, " has no name or value"));
}

/// The IA's attributes are plausible: names, limits of at least 1, booleans.
void test_ia_attr() {
    const test_ia ia;
    const DAT_IA_ATTR &attr = ia.ia_attr();
    expect_name(attr.adapter_name, false, "adapter_name");
    expect_name(attr.vendor_name, true, "vendor_name");
    if (!settings().device.empty())
        expect_eq(std::string_view(attr.adapter_name), settings().device, "adapter_name");
    using limit = std::pair<long long, const char *>;
    for (const auto &[value, name] :
         {limit{attr.max_eps, "max_eps"}, limit{attr.max_dto_per_ep, "max_dto_per_ep"},
          limit{attr.max_rdma_read_per_ep_in, "max_rdma_read_per_ep_in"},
          limit{attr.max_rdma_read_per_ep_out, "max_rdma_read_per_ep_out"},
          limit{attr.max_evds, "max_evds"}, limit{attr.max_evd_qlen, "max_evd_qlen"},
          limit{attr.max_iov_segments_per_dto, "max_iov_segments_per_dto"},
          limit{attr.max_lmrs, "max_lmrs"}, limit{attr.max_lmr_block_size, "max_lmr_block_size"},
          limit{attr.max_pzs, "max_pzs"}, limit{attr.max_message_size, "max_message_size"},
          limit{attr.max_rdma_size, "max_rdma_size"},
          limit{attr.max_iov_segments_per_rdma_read, "max_iov_segments_per_rdma_read"},
          limit{attr.max_iov_segments_per_rdma_write, "max_iov_segments_per_rdma_write"},
          limit{attr.max_rdma_read_in, "max_rdma_read_in"},
          limit{attr.max_rdma_read_out, "max_rdma_read_out"}})
        expect_true(value >= 1, concat(name, " is ", value));
    expect_true(attr.max_lmr_virtual_address >= 0xffffffffU, "no 64 bit address can be registered");
    expect_true(attr.max_rdma_read_in >= attr.max_rdma_read_per_ep_in,
                "an EP may take more Reads than all");
    expect_true(attr.max_rdma_read_out >= attr.max_rdma_read_per_ep_out,
                "an EP may make more Reads than all");
    expect_boolean(attr.max_rdma_read_per_ep_in_guaranteed, "max_rdma_read_per_ep_in_guaranteed");
    expect_boolean(attr.max_rdma_read_per_ep_out_guaranteed, "max_rdma_read_per_ep_out_guaranteed");
    expect_boolean(attr.zb_supported, "zb_supported");
    expect_true(attr.extension_supported == DAT_EXTENSION_NONE ||
                    attr.extension_supported == DAT_EXTENSION_IB,
                "extension_supported is no extension that we know");
    expect_named_attributes(attr.transport_attr, attr.num_transport_attr, "transport");
    expect_named_attributes(attr.vendor_attr, attr.num_vendor_attr, "vendor");
}

/// The provider's attributes are plausible, and each enumeration is in its range.
void test_provider_attr() {
    const test_ia ia;
    const DAT_PROVIDER_ATTR &attr = ia.provider_attr();
    expect_name(attr.provider_name, false, "provider_name");
    expect_eq(attr.dapl_version_major, 2, "dapl_version_major");
    expect_eq(attr.dapl_version_minor, 0, "dapl_version_minor");
    using boolean = std::pair<DAT_BOOLEAN, const char *>;
    for (const auto &[value, name] :
         {boolean{attr.is_thread_safe, "is_thread_safe"},
          boolean{attr.supports_multipath, "supports_multipath"},
          boolean{attr.srq_supported, "srq_supported"},
          boolean{attr.srq_ep_pz_difference_supported, "srq_ep_pz_difference_supported"},
          boolean{attr.lmr_sync_req, "lmr_sync_req"},
          boolean{attr.dto_async_return_guaranteed, "dto_async_return_guaranteed"},
          boolean{attr.rdma_write_for_rdma_read_req, "rdma_write_for_rdma_read_req"},
          boolean{attr.rdma_read_lmr_rmr_context_exposure, "rdma_read_lmr_rmr_context_exposure"},
          boolean{attr.is_signal_safe, "is_signal_safe"},
          boolean{attr.ha_supported, "ha_supported"}})
        expect_boolean(value, name);
    expect_true(attr.max_private_data_size >= 56, "less private data than OFED's uDAPL takes");
    const DAT_UINT32 line = attr.optimal_buffer_alignment;
    expect_true(line != 0 && (line & (line - 1)) == 0,
                concat("optimal_buffer_alignment is ", line, ": no power of two"));
    expect_true(static_cast<unsigned>(attr.iov_ownership_on_return) <= DAT_IOV_PROVIDER_MOD,
                "iov_ownership_on_return is none of the three");
    expect_true(static_cast<unsigned>(attr.ep_creator) <= DAT_PSP_CREATES_EP_ALWAYS,
                "ep_creator is none of the three");
    expect_true(static_cast<unsigned>(attr.pz_support) <= DAT_PZ_SHAREABLE,
                "pz_support is none of the two");
    expect_true(static_cast<unsigned>(attr.rmr_scope_supported) <= DAT_RMR_SCOPE_ANY,
                "rmr_scope_supported is none of the three");
    for (std::size_t row = 0; row < 6; ++row)
        for (std::size_t column = 0; column < 6; ++column) {
            const auto &merging = attr.evd_stream_merging_supported;
            expect_boolean(merging[row][column], "an entry of evd_stream_merging_supported");
            expect_eq(merging[row][column], merging[column][row],
                      concat("merging of streams ", row, " and ", column, " the other way round"));
        }
    expect_named_attributes(attr.provider_specific_attr, attr.num_provider_specific_attr,
                            "provider");
}

std::optional<std::string> find_provider_attr(const test_ia &ia, std::string_view name) {
    const DAT_PROVIDER_ATTR &attr = ia.provider_attr();
    for (DAT_COUNT i = 0; i < attr.num_provider_specific_attr; ++i)
        if (name == attr.provider_specific_attr[i].name)
            return attr.provider_specific_attr[i].value;
    return {};
}

/// The named attributes of OFED's uDAPL exist, with values that fit the device.
void test_ib_attr_names() {
    const test_ia ia;
    for (const char *name :
         {"DAT_IB_PROVIDER_NAME", "DAT_IB_DEVICE_NAME", "DAT_IB_CONNECTIVITY_MODE",
          "DAT_IB_RDMA_READ", "DAT_IB_NODE_GUID", "DAT_IB_GID", "DAT_IB_TRANSPORT_MTU",
          "DAT_IB_PORT_STATUS", "DAT_IB_PORT_NUMBER", "DAT_EXTENSION_INTERFACE"})
        expect_true(find_provider_attr(ia, name).has_value(), concat("there is no ", name));
    expect_eq(find_provider_attr(ia, "DAT_IB_RDMA_READ").value_or(""), "TRUE", "DAT_IB_RDMA_READ");
    expect_true(find_provider_attr(ia, "DAT_IB_PORT_STATUS").value_or("").ends_with("ACTIVE"),
                "DAT_IB_PORT_STATUS does not say ACTIVE");
    expect_true(std::atoi(find_provider_attr(ia, "DAT_IB_TRANSPORT_MTU").value_or("0").c_str()) >=
                    256,
                "DAT_IB_TRANSPORT_MTU is no number of bytes");
    if (!settings().device.empty())
        expect_eq(find_provider_attr(ia, "DAT_IB_DEVICE_NAME").value_or(""), settings().device,
                  "DAT_IB_DEVICE_NAME");
    for (const char *name : {"DAT_IB_FETCH_AND_ADD", "DAT_IB_CMP_AND_SWAP", "DAT_IB_IMMED_DATA"})
        expect_eq(find_provider_attr(ia, name).value_or("FALSE"), ia.is_iwarp() ? "FALSE" : "TRUE",
                  name);
}

/// ia_address_ptr is the address of an interface of this machine.
void test_local_address() {
    const test_ia ia;
    const sockaddr_in addr = ia.ipv4_address();
    ifaddrs *list = nullptr;
    require(getifaddrs(&list) == 0, "getifaddrs");
    bool is_local = false;
    for (const ifaddrs *ifa = list; ifa; ifa = ifa->ifa_next)
        if (ifa->ifa_addr && ifa->ifa_addr->sa_family == AF_INET) {
            sockaddr_in if_addr{};
            std::memcpy(&if_addr, ifa->ifa_addr, sizeof if_addr);
            is_local = is_local || if_addr.sin_addr.s_addr == addr.sin_addr.s_addr;
        }
    freeifaddrs(list);
    expect_true(is_local, "no interface has the IA's address");
}

void add_invalid_argument_cases(case_list &cases) {
    add_case(cases, "ia.query_mask_unknown", [] {
        const test_ia ia;
        poisoned<DAT_IA_ATTR> attr;
        expect_return(query_attr(ia, DAT_IA_FIELD_ALL + 1, attr.ptr()), invalid_parameter(3));
    });
    add_case(cases, "ia.query_provider_mask_unknown", [] {
        const test_ia ia;
        poisoned<DAT_PROVIDER_ATTR> attr;
        expect_return(query_attr(ia, DAT_PROVIDER_FIELD_ALL + 1, attr.ptr()), invalid_parameter(5));
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
        poisoned<DAT_IA_ATTR> attr;
        poisoned<DAT_PROVIDER_ATTR> provider_attr;
        expect_return(dat_ia_query(ia, nullptr, 0, attr.ptr(), 0, provider_attr.ptr()),
                      DAT_SUCCESS);
    });
}

} // namespace

void add_ia_query(case_list &cases) {
    add_invalid_argument_cases(cases);
    add_case(cases, "ia.query_all_written",
             [] { test_all_written<DAT_IA_ATTR>(DAT_IA_FIELD_ALL); });
    add_case(cases, "ia.query_provider_all_written",
             [] { test_all_written<DAT_PROVIDER_ATTR>(DAT_PROVIDER_FIELD_ALL); });
    add_case(cases, "ia.query_each_alone", [] { test_each_field<DAT_IA_ATTR>(DAT_IA_FIELD_ALL); });
    add_case(cases, "ia.query_provider_each_alone",
             [] { test_each_field<DAT_PROVIDER_ATTR>(DAT_PROVIDER_FIELD_ALL); });
    add_case(cases, "ia.query_values", test_ia_attr);
    add_case(cases, "ia.query_provider_values", test_provider_attr);
    add_case(cases, "ia.query_names", test_ib_attr_names);
    add_case(cases, "ia.query_address", test_local_address);
}

} // namespace conform
