// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Registered memory.

#include "lib/cases.hpp"
#include "lib/process.hpp"
#include "lib/test_ep.hpp"

#include <array>
#include <cstring>
#include <set>
#include <sys/mman.h>

namespace conform {

namespace {

/// What dat_lmr_create takes and gives.
struct registration {
    DAT_MEM_TYPE mem_type = DAT_MEM_TYPE_VIRTUAL;
    DAT_REGION_DESCRIPTION region_desc{};
    DAT_VLEN length = page_size;
    DAT_MEM_PRIV_FLAGS mem_priv = DAT_MEM_PRIV_ALL_FLAG;
    DAT_VA_TYPE va_type = DAT_VA_TYPE_VA;
    DAT_LMR_CONTEXT lmr_context = 0;
    DAT_RMR_CONTEXT rmr_context = 0;
    DAT_VLEN registered_size = 0;
    DAT_VADDR registered_address = 0;
    unique_lmr lmr = {};

    DAT_RETURN create(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz_handle,
                      source_location loc = current_location()) {
        DAT_LMR_HANDLE handle = nullptr;
        const DAT_RETURN ret =
            dat_lmr_create(ia, mem_type, region_desc, length, pz_handle, mem_priv, va_type, &handle,
                           &lmr_context, &rmr_context, &registered_size, &registered_address);
        if (ret == DAT_SUCCESS)
            lmr = unique_lmr(handle, loc);
        return ret;
    }
};
DAT_REGION_DESCRIPTION describe_va(void *address) {
    DAT_REGION_DESCRIPTION desc{};
    desc.for_va = address;
    return desc;
}

/// An IA with a zone and a page.
struct lmr_fixture {
    test_ia ia;
    unique_pz pz = ia.create_pz();
    mapping memory{4 * page_size};

    registration default_registration() const {
        return {.region_desc = describe_va(memory.data())};
    }
    DAT_RETURN create_lmr(registration &reg, source_location loc = current_location()) const {
        return reg.create(ia, pz, loc);
    }
    /// It is refused, and with one of these.
    void expect_refused(registration reg, std::initializer_list<DAT_RETURN> expected,
                        source_location loc = current_location()) const {
        expect_return(reg.create(ia, pz, loc), expected, loc);
    }
};

/// Nothing is mapped here, and the kernel maps nothing here by itself: it assigns addresses from
/// the top of the address space, or, in user mode, from 0x40000000 up. Memory that was just
/// unmapped would not do: another thread's mmap may take its address before the registration is
/// made.
std::byte *const unmapped_address = reinterpret_cast<std::byte *>(0x30000000);

constexpr auto no_access_returns = {
    dat_error(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_READ),
    dat_error(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE),
    dat_error(DAT_PROTECTION_VIOLATION, DAT_PROTECTION_READ),
    dat_error(DAT_PROTECTION_VIOLATION, DAT_PROTECTION_WRITE),
    invalid_parameter(3),
    dat_error(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED),
};
/// Returned by a provider that does not support the memory type.
const auto unsupported_returns = {not_supported, dat_error(DAT_NOT_IMPLEMENTED)};

bool supports_mem_type(const test_ia &ia, DAT_MEM_TYPE type) {
    const auto supported = static_cast<unsigned>(ia.provider_attr().lmr_mem_types_supported);
    return (supported & static_cast<unsigned>(type)) == static_cast<unsigned>(type);
}

void test_privileges() {
    const lmr_fixture fixture;
    for (const unsigned bits : {0x0U, 0x1U, 0x2U, 0x3U, 0x10U, 0x11U, 0x12U, 0x13U, 0x20U, 0x21U,
                                0x22U, 0x23U, 0x30U, 0x31U, 0x32U, 0x33U}) {
        const scoped_trace trace(concat("privileges 0x", std::hex, bits));
        registration reg = fixture.default_registration();
        reg.mem_priv = enum_cast<DAT_MEM_PRIV_FLAGS>(bits);
        const DAT_RETURN ret = fixture.create_lmr(reg);
        // Devices cannot let others write where the host may not.
        if ((bits & 0x30) == DAT_MEM_PRIV_REMOTE_WRITE_FLAG)
            expect_return(ret, {DAT_SUCCESS, invalid_parameter(6)});
        else
            expect_return(ret, DAT_SUCCESS);
        if (ret != DAT_SUCCESS)
            continue;
        DAT_LMR_PARAM param{};
        expect_return(dat_lmr_query(reg.lmr, DAT_LMR_FIELD_ALL, &param), DAT_SUCCESS);
        expect_eq(param.mem_priv, reg.mem_priv, "mem_priv");
    }
}

void add_create_cases(case_list &cases) {
    add_case(cases, "lmr.create", [] {
        const lmr_fixture fixture;
        registration reg = fixture.default_registration();
        reg.length = 100;
        reg.region_desc = describe_va(fixture.memory.data() + 24);
        require_success(fixture.create_lmr(reg));
        const auto start = reinterpret_cast<DAT_VADDR>(reg.region_desc.for_va);
        expect_true(reg.registered_address <= start,
                    "registered_address is above what was asked for");
        expect_true(reg.registered_address + reg.registered_size >= start + 100,
                    "the end is not registered");
    });
    add_case(cases, "lmr.free_keeps_data", [] {
        const lmr_fixture fixture;
        registration reg = fixture.default_registration();
        reg.length = fixture.memory.size();
        require_success(fixture.create_lmr(reg));
        const auto data = make_pattern(fixture.memory.size());
        std::memcpy(fixture.memory.data(), data.data(), data.size());
        require_success(reg.lmr.free());
        expect_true(std::memcmp(fixture.memory.data(), data.data(), data.size()) == 0,
                    "the memory has not what was written");
    });
    add_case(cases, "lmr.privileges", test_privileges);
    add_case(cases, "lmr.privilege_unknown", [] {
        const lmr_fixture fixture;
        for (const unsigned bits : {0x4U, 0x8U, 0x100U, 0x80000000U}) {
            registration reg = fixture.default_registration();
            reg.mem_priv = enum_cast<DAT_MEM_PRIV_FLAGS>(bits);
            fixture.expect_refused(std::move(reg), {invalid_parameter(6)});
        }
    });
    add_case(cases, "lmr.privilege_atomic", [] { // an extension of InfiniBand's
        const lmr_fixture fixture;
        registration reg = fixture.default_registration();
        reg.mem_priv = enum_cast<DAT_MEM_PRIV_FLAGS>(DAT_MEM_PRIV_ALL_FLAG | 0x40U);
        if (fixture.ia.is_iwarp())
            fixture.expect_refused(std::move(reg), {invalid_parameter(6), not_supported});
        else
            require_success(fixture.create_lmr(reg));
    });
    add_case(cases, "lmr.overlapping", [] {
        const lmr_fixture fixture;
        registration whole = fixture.default_registration(),
                     same_again = fixture.default_registration(),
                     inner = fixture.default_registration();
        inner.region_desc = describe_va(fixture.memory.data() + 8);
        inner.length = 16;
        for (registration *reg : {&whole, &same_again, &inner})
            require_success(fixture.create_lmr(*reg));
        expect_true(whole.lmr_context != same_again.lmr_context &&
                        whole.lmr_context != inner.lmr_context,
                    "two have the same context");
    });
    add_case(cases, "lmr.many", [] {
        const lmr_fixture fixture;
        std::vector<registration> regs(500);
        std::set<DAT_LMR_CONTEXT> contexts;
        for (registration &reg : regs) {
            reg.region_desc = describe_va(fixture.memory.data());
            require_success(fixture.create_lmr(reg));
            contexts.insert(reg.lmr_context);
        }
        expect_eq(contexts.size(), regs.size(), "the number of contexts");
    });
}

void add_invalid_argument_cases(case_list &cases) {
    add_case(cases, "lmr.type_unknown", [] {
        const lmr_fixture fixture;
        registration reg = fixture.default_registration();
        reg.mem_type = enum_cast<DAT_MEM_TYPE>(7);
        fixture.expect_refused(std::move(reg), {invalid_parameter(2)});
    });
    add_case(cases, "lmr.length_0", [] {
        const lmr_fixture fixture;
        registration reg = fixture.default_registration();
        reg.length = 0;
        fixture.expect_refused(std::move(reg), {dat_error(DAT_LENGTH_ERROR), invalid_parameter(4)});
    });
    add_case(cases, "lmr.length_0_null", [] { // dapltest's "mem case2"
        const lmr_fixture fixture;
        registration reg = fixture.default_registration();
        reg.region_desc = describe_va(nullptr);
        reg.length = 0;
        fixture.expect_refused(std::move(reg), {dat_error(DAT_LENGTH_ERROR)});
    });
    add_case(cases, "lmr.length_too_large", [] {
        const lmr_fixture fixture;
        for (const DAT_VLEN length : {DAT_VLEN{1} << 63, ~DAT_VLEN{0}}) {
            registration reg = fixture.default_registration();
            reg.length = length;
            fixture.expect_refused(std::move(reg),
                                   {invalid_parameter(4), dat_error(DAT_LENGTH_ERROR)});
        }
    });
    add_case(cases, "lmr.null", [] {
        const lmr_fixture fixture;
        registration reg = fixture.default_registration();
        reg.region_desc = describe_va(nullptr);
        fixture.expect_refused(std::move(reg), no_access_returns);
    });
    add_case(cases, "lmr.unmapped", [] {
        const lmr_fixture fixture;
        registration reg = fixture.default_registration();
        reg.region_desc = describe_va(unmapped_address);
        fixture.expect_refused(std::move(reg), no_access_returns);
    });
    add_case(cases, "lmr.unmapped_end", [] { // the first page is there
        const lmr_fixture fixture;
        const mapping memory(page_size, MAP_PRIVATE, unmapped_address);
        registration reg = fixture.default_registration();
        reg.region_desc = describe_va(memory.data());
        reg.length = 2 * page_size;
        fixture.expect_refused(std::move(reg), no_access_returns);
    });
    add_case(cases, "lmr.va_type_unknown", [] {
        const lmr_fixture fixture;
        registration reg = fixture.default_registration();
        reg.va_type = enum_cast<DAT_VA_TYPE>(5);
        fixture.expect_refused(std::move(reg), {invalid_parameter(7)});
    });
    add_case(cases, "lmr.handle_null", [] {
        const lmr_fixture fixture;
        registration reg = fixture.default_registration();
        expect_return(dat_lmr_create(fixture.ia, reg.mem_type, reg.region_desc, reg.length,
                                     fixture.pz, reg.mem_priv, reg.va_type, nullptr,
                                     &reg.lmr_context, &reg.rmr_context, &reg.registered_size,
                                     &reg.registered_address),
                      invalid_parameter(7)); // OFED's number of it
    });
    add_case(cases, "lmr.pz_of_another_ia", [] {
        const lmr_fixture fixture;
        const test_ia other_ia;
        const unique_pz pz = other_ia.create_pz();
        registration reg = fixture.default_registration();
        expect_return(reg.create(fixture.ia, pz), invalid_handle(DAT_INVALID_HANDLE_PZ));
    });
}

void test_read_only_memory() {
    const lmr_fixture fixture;
    require(mprotect(fixture.memory.data(), fixture.memory.size(), PROT_READ) == 0, "mprotect");
    registration reg = fixture.default_registration();
    fixture.expect_refused(std::move(reg),
                           {dat_error(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE),
                            dat_error(DAT_PROTECTION_VIOLATION, DAT_PROTECTION_WRITE),
                            invalid_parameter(3), invalid_parameter(6)});
    registration read_only = fixture.default_registration();
    read_only.mem_priv = DAT_MEM_PRIV_READ_FLAG;
    expect_return(fixture.create_lmr(read_only), DAT_SUCCESS);
}

void set_shared(registration &reg, const mapping &memory,
                std::array<char, DAT_LMR_COOKIE_SIZE> &cookie) {
    reg.mem_type = DAT_MEM_TYPE_SHARED_VIRTUAL;
    reg.region_desc.for_shared_memory.virtual_address = memory.data();
    reg.region_desc.for_shared_memory.shared_memory_id =
        reinterpret_cast<DAT_LMR_COOKIE>(cookie.data());
    reg.length = memory.size();
}

void add_mem_type_cases(case_list &cases) {
    add_case(cases, "lmr.read_only_memory", test_read_only_memory);
    add_case(cases, "lmr.zero_based", [] {
        const lmr_fixture fixture;
        registration reg = fixture.default_registration();
        reg.va_type = DAT_VA_TYPE_ZB;
        if (!fixture.ia.ia_attr().zb_supported) {
            fixture.expect_refused(std::move(reg), unsupported_returns);
            return;
        }
        require_success(fixture.create_lmr(reg));
        DAT_LMR_PARAM param{};
        require_success(dat_lmr_query(reg.lmr, DAT_LMR_FIELD_ALL, &param));
        expect_eq(param.va_type, DAT_VA_TYPE_ZB, "va_type");
        expect_true(param.registered_address < page_size, "its addresses do not begin at zero");
    });
    add_case(cases, "lmr.of_lmr", [] {
        const lmr_fixture fixture;
        registration first = fixture.default_registration(), second;
        require_success(fixture.create_lmr(first));
        second.mem_type = DAT_MEM_TYPE_LMR;
        second.region_desc.for_lmr_handle = first.lmr;
        second.mem_priv = DAT_MEM_PRIV_LOCAL_READ_FLAG;
        if (!supports_mem_type(fixture.ia, DAT_MEM_TYPE_LMR)) {
            fixture.expect_refused(std::move(second), unsupported_returns);
            return;
        }
        require_success(fixture.create_lmr(second));
        expect_true(first.lmr_context != second.lmr_context, "both have the same context");
        DAT_LMR_PARAM param{};
        require_success(dat_lmr_query(second.lmr, DAT_LMR_FIELD_ALL, &param));
        expect_eq(param.mem_type, DAT_MEM_TYPE_LMR, "mem_type");
        expect_eq(param.region_desc.for_lmr_handle, first.lmr, "its LMR");
        expect_eq(second.registered_address, first.registered_address, "registered_address");
        expect_return(first.lmr.free(), DAT_SUCCESS);
    });
    add_case(cases, "lmr.of_lmr_wrong", [] {
        const lmr_fixture fixture;
        if (!supports_mem_type(fixture.ia, DAT_MEM_TYPE_LMR))
            return; // lmr.of_lmr says so
        registration reg;
        reg.mem_type = DAT_MEM_TYPE_LMR;
        reg.region_desc.for_lmr_handle = fixture.pz;
        fixture.expect_refused(std::move(reg), {invalid_handle(DAT_INVALID_HANDLE_LMR)});
    });
    add_case(cases, "lmr.shared", [] {
        const lmr_fixture fixture;
        const mapping memory(4 * page_size, MAP_SHARED);
        std::array<char, DAT_LMR_COOKIE_SIZE> cookie{"conform"};
        registration first = fixture.default_registration(),
                     second = fixture.default_registration();
        for (registration *reg : {&first, &second})
            set_shared(*reg, memory, cookie);
        if (!supports_mem_type(fixture.ia, DAT_MEM_TYPE_SHARED_VIRTUAL)) {
            fixture.expect_refused(std::move(first), unsupported_returns);
            return;
        }
        require_success(fixture.create_lmr(first));
        require_success(fixture.create_lmr(second));
        expect_true(first.lmr_context != second.lmr_context, "both have the same context");
    });
    add_case(cases, "lmr.not_shared", [] {
        const lmr_fixture fixture;
        if (!supports_mem_type(fixture.ia, DAT_MEM_TYPE_SHARED_VIRTUAL))
            return; // lmr.shared says so
        std::array<char, DAT_LMR_COOKIE_SIZE> cookie{"conform"};
        registration reg = fixture.default_registration();
        set_shared(reg, fixture.memory, cookie);
        fixture.expect_refused(std::move(reg), {dat_error(DAT_INVALID_STATE)});
    });
    add_case(cases, "lmr.memlock", [] {
        const lmr_fixture fixture;
        const mapping large_memory(16 << 20);
        const memlock_limit limit(64 << 10);
        registration reg = fixture.default_registration();
        reg.region_desc = describe_va(large_memory.data());
        reg.length = large_memory.size();
        fixture.expect_refused(std::move(reg), {insufficient_resources(DAT_RESOURCE_MEMORY_REGION),
                                                insufficient_resources(DAT_RESOURCE_MEMORY)});
    });
}

void test_query() {
    const lmr_fixture fixture;
    registration reg = fixture.default_registration();
    reg.mem_priv = DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_REMOTE_READ_FLAG;
    require_success(fixture.create_lmr(reg));
    poisoned<DAT_LMR_PARAM> param;
    require_success(dat_lmr_query(reg.lmr, DAT_LMR_FIELD_ALL, param.ptr()));
    expect_eq(param->ia_handle, fixture.ia, "ia_handle");
    expect_eq(param->mem_type, DAT_MEM_TYPE_VIRTUAL, "mem_type");
    expect_eq(param->region_desc.for_va, reg.region_desc.for_va, "region_desc");
    expect_eq(param->length, reg.length, "length");
    expect_eq(param->pz_handle, fixture.pz, "pz_handle");
    expect_eq(param->mem_priv, reg.mem_priv, "mem_priv");
    expect_eq(param->va_type, DAT_VA_TYPE_VA, "va_type");
    expect_eq(param->lmr_context, reg.lmr_context, "lmr_context");
    expect_eq(param->rmr_context, reg.rmr_context, "rmr_context");
    expect_eq(param->registered_size, reg.registered_size, "registered_size");
    expect_eq(param->registered_address, reg.registered_address, "registered_address");
}

void add_query_cases(case_list &cases) {
    add_case(cases, "lmr.query", test_query);
    add_case(cases, "lmr.query_mask_unknown", [] {
        const lmr_fixture fixture;
        registration reg = fixture.default_registration();
        require_success(fixture.create_lmr(reg));
        DAT_LMR_PARAM param{};
        expect_return(dat_lmr_query(reg.lmr, enum_cast<DAT_LMR_PARAM_MASK>(0x800), &param),
                      invalid_parameter(2));
    });
    add_case(cases, "lmr.query_null", [] {
        const lmr_fixture fixture;
        registration reg = fixture.default_registration();
        require_success(fixture.create_lmr(reg));
        expect_return(dat_lmr_query(reg.lmr, DAT_LMR_FIELD_ALL, nullptr), invalid_parameter(3));
    });
}

} // namespace

void add_lmr(case_list &cases) {
    add_create_cases(cases);
    add_invalid_argument_cases(cases);
    add_mem_type_cases(cases);
    add_query_cases(cases);
}

} // namespace conform
