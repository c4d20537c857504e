// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Registered memory.

#include "cases.hpp"
#include "process.hpp"
#include "test_ia.hpp"

#include <array>
#include <set>
#include <sys/mman.h>

namespace conform {

namespace {

/// What dat_lmr_create takes and gives.
struct registration {
    DAT_MEM_TYPE type = DAT_MEM_TYPE_VIRTUAL;
    DAT_REGION_DESCRIPTION where{};
    DAT_VLEN length = page;
    DAT_MEM_PRIV_FLAGS privileges = DAT_MEM_PRIV_ALL_FLAG;
    DAT_VA_TYPE addresses = DAT_VA_TYPE_VA;
    DAT_LMR_CONTEXT local = 0;
    DAT_RMR_CONTEXT remote = 0;
    DAT_VLEN size = 0;
    DAT_VADDR start = 0;
    unique_lmr made = {};

    DAT_RETURN make(DAT_IA_HANDLE ia, DAT_PZ_HANDLE zone,
                    source_location loc = current_location()) {
        DAT_LMR_HANDLE handle = nullptr;
        const DAT_RETURN got = dat_lmr_create(ia, type, where, length, zone, privileges, addresses,
                                              &handle, &local, &remote, &size, &start);
        if (got == DAT_SUCCESS)
            made = unique_lmr(handle, loc);
        return got;
    }
};
DAT_REGION_DESCRIPTION at(void *address) {
    DAT_REGION_DESCRIPTION is{};
    is.for_va = address;
    return is;
}

/// An IA with a zone and a page.
struct lmr_fixture {
    test_ia ia;
    unique_pz zone = ia.create_pz();
    mapping memory{4 * page};

    registration one() const { return {.where = at(memory.data())}; }
    DAT_RETURN make(registration &it, source_location loc = current_location()) const {
        return it.make(ia, zone, loc);
    }
    /// It is refused, and with one of these.
    void refuses(registration it, std::initializer_list<DAT_RETURN> with,
                 source_location loc = current_location()) const {
        expect_return(it.make(ia, zone, loc), with, loc);
    }
};

/// Nothing is mapped here, and the kernel maps nothing here by itself: it assigns addresses from
/// the top of the address space, or, in user mode, from 0x40000000 up. Memory that was just
/// unmapped would not do: another thread's mmap may take its address before the registration is
/// made.
std::byte *const unmapped = reinterpret_cast<std::byte *>(0x30000000);

constexpr auto no_privilege = {
    dat_error(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_READ),
    dat_error(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE),
    dat_error(DAT_PROTECTION_VIOLATION, DAT_PROTECTION_READ),
    dat_error(DAT_PROTECTION_VIOLATION, DAT_PROTECTION_WRITE),
    invalid_parameter(3),
    dat_error(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_MALFORMED),
};
/// What a provider says that does not have it at all.
const auto lacking = {not_supported, dat_error(DAT_NOT_IMPLEMENTED)};

bool offers(const test_ia &ia, DAT_MEM_TYPE type) {
    const auto all = static_cast<unsigned>(ia.provider_attr().lmr_mem_types_supported);
    return (all & static_cast<unsigned>(type)) == static_cast<unsigned>(type);
}

void every_privilege() {
    const lmr_fixture fixture;
    for (const unsigned bits : {0x0U, 0x1U, 0x2U, 0x3U, 0x10U, 0x11U, 0x12U, 0x13U, 0x20U, 0x21U,
                                0x22U, 0x23U, 0x30U, 0x31U, 0x32U, 0x33U}) {
        const scoped_trace which(concat("privileges 0x", std::hex, bits));
        registration it = fixture.one();
        it.privileges = enum_cast<DAT_MEM_PRIV_FLAGS>(bits);
        const DAT_RETURN got = fixture.make(it);
        // Devices cannot let others write where the host may not.
        if ((bits & 0x30) == DAT_MEM_PRIV_REMOTE_WRITE_FLAG)
            expect_return(got, {DAT_SUCCESS, invalid_parameter(6)});
        else
            expect_return(got, DAT_SUCCESS);
        if (got != DAT_SUCCESS)
            continue;
        DAT_LMR_PARAM is_now{};
        expect_return(dat_lmr_query(it.made, DAT_LMR_FIELD_ALL, &is_now), DAT_SUCCESS);
        expect_eq(is_now.mem_priv, it.privileges, "mem_priv");
    }
}

void creation(case_list &cases) {
    add_case(cases, "lmr.create", [] {
        const lmr_fixture fixture;
        registration it = fixture.one();
        it.length = 100;
        it.where = at(fixture.memory.data() + 24);
        require_success(fixture.make(it));
        const auto start = reinterpret_cast<DAT_VADDR>(it.where.for_va);
        expect_true(it.start <= start, "registered_address is above what was asked for");
        expect_true(it.start + it.size >= start + 100, "the end is not registered");
    });
    add_case(cases, "lmr.privileges", every_privilege);
    add_case(cases, "lmr.privilege_unknown", [] {
        const lmr_fixture fixture;
        for (const unsigned bits : {0x4U, 0x8U, 0x100U, 0x80000000U}) {
            registration it = fixture.one();
            it.privileges = enum_cast<DAT_MEM_PRIV_FLAGS>(bits);
            fixture.refuses(std::move(it), {invalid_parameter(6)});
        }
    });
    add_case(cases, "lmr.privilege_atomic", [] { // an extension of InfiniBand's
        const lmr_fixture fixture;
        registration it = fixture.one();
        it.privileges = enum_cast<DAT_MEM_PRIV_FLAGS>(DAT_MEM_PRIV_ALL_FLAG | 0x40U);
        if (fixture.ia.is_iwarp())
            fixture.refuses(std::move(it), {invalid_parameter(6), not_supported});
        else
            require_success(fixture.make(it));
    });
    add_case(cases, "lmr.overlapping", [] {
        const lmr_fixture fixture;
        registration whole = fixture.one(), same_again = fixture.one(), inner = fixture.one();
        inner.where = at(fixture.memory.data() + 8);
        inner.length = 16;
        for (registration *it : {&whole, &same_again, &inner})
            require_success(fixture.make(*it));
        expect_true(whole.local != same_again.local && whole.local != inner.local,
                    "two have the same context");
    });
    add_case(cases, "lmr.many", [] {
        const lmr_fixture fixture;
        std::vector<registration> all(500);
        std::set<DAT_LMR_CONTEXT> contexts;
        for (registration &it : all) {
            it.where = at(fixture.memory.data());
            require_success(fixture.make(it));
            contexts.insert(it.local);
        }
        expect_eq(contexts.size(), all.size(), "the number of contexts");
    });
}

void wrong_arguments(case_list &cases) {
    add_case(cases, "lmr.type_unknown", [] {
        const lmr_fixture fixture;
        registration it = fixture.one();
        it.type = enum_cast<DAT_MEM_TYPE>(7);
        fixture.refuses(std::move(it), {invalid_parameter(2)});
    });
    add_case(cases, "lmr.length_0", [] {
        const lmr_fixture fixture;
        registration it = fixture.one();
        it.length = 0;
        fixture.refuses(std::move(it), {dat_error(DAT_LENGTH_ERROR), invalid_parameter(4)});
    });
    add_case(cases, "lmr.length_0_null", [] { // dapltest's "mem case2"
        const lmr_fixture fixture;
        registration it = fixture.one();
        it.where = at(nullptr);
        it.length = 0;
        fixture.refuses(std::move(it), {dat_error(DAT_LENGTH_ERROR)});
    });
    add_case(cases, "lmr.length_too_large", [] {
        const lmr_fixture fixture;
        for (const DAT_VLEN length : {DAT_VLEN{1} << 63, ~DAT_VLEN{0}}) {
            registration it = fixture.one();
            it.length = length;
            fixture.refuses(std::move(it), {invalid_parameter(4), dat_error(DAT_LENGTH_ERROR)});
        }
    });
    add_case(cases, "lmr.null", [] {
        const lmr_fixture fixture;
        registration it = fixture.one();
        it.where = at(nullptr);
        fixture.refuses(std::move(it), no_privilege);
    });
    add_case(cases, "lmr.unmapped", [] {
        const lmr_fixture fixture;
        registration it = fixture.one();
        it.where = at(unmapped);
        fixture.refuses(std::move(it), no_privilege);
    });
    add_case(cases, "lmr.unmapped_end", [] { // the first page is there
        const lmr_fixture fixture;
        const mapping memory(page, MAP_PRIVATE, unmapped);
        registration it = fixture.one();
        it.where = at(memory.data());
        it.length = 2 * page;
        fixture.refuses(std::move(it), no_privilege);
    });
    add_case(cases, "lmr.va_type_unknown", [] {
        const lmr_fixture fixture;
        registration it = fixture.one();
        it.addresses = enum_cast<DAT_VA_TYPE>(5);
        fixture.refuses(std::move(it), {invalid_parameter(7)});
    });
    add_case(cases, "lmr.handle_null", [] {
        const lmr_fixture fixture;
        registration it = fixture.one();
        expect_return(dat_lmr_create(fixture.ia, it.type, it.where, it.length, fixture.zone,
                                     it.privileges, it.addresses, nullptr, &it.local, &it.remote,
                                     &it.size, &it.start),
                      invalid_parameter(7)); // OFED's number of it
    });
    add_case(cases, "lmr.pz_of_another_ia", [] {
        const lmr_fixture fixture;
        const test_ia other;
        const unique_pz zone = other.create_pz();
        registration it = fixture.one();
        expect_return(it.make(fixture.ia, zone), invalid_handle(DAT_INVALID_HANDLE_PZ));
    });
}

void read_only() {
    const lmr_fixture fixture;
    require(mprotect(fixture.memory.data(), fixture.memory.size(), PROT_READ) == 0, "mprotect");
    registration it = fixture.one();
    fixture.refuses(std::move(it), {dat_error(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE),
                                    dat_error(DAT_PROTECTION_VIOLATION, DAT_PROTECTION_WRITE),
                                    invalid_parameter(3), invalid_parameter(6)});
    registration to_read = fixture.one();
    to_read.privileges = DAT_MEM_PRIV_READ_FLAG;
    expect_return(fixture.make(to_read), DAT_SUCCESS);
}

void share(registration &it, const mapping &memory, std::array<char, DAT_LMR_COOKIE_SIZE> &cookie) {
    it.type = DAT_MEM_TYPE_SHARED_VIRTUAL;
    it.where.for_shared_memory.virtual_address = memory.data();
    it.where.for_shared_memory.shared_memory_id = reinterpret_cast<DAT_LMR_COOKIE>(cookie.data());
    it.length = memory.size();
}

void kinds(case_list &cases) {
    add_case(cases, "lmr.read_only_memory", read_only);
    add_case(cases, "lmr.zero_based", [] {
        const lmr_fixture fixture;
        registration it = fixture.one();
        it.addresses = DAT_VA_TYPE_ZB;
        if (!fixture.ia.ia_attr().zb_supported) {
            fixture.refuses(std::move(it), lacking);
            return;
        }
        require_success(fixture.make(it));
        DAT_LMR_PARAM is_now{};
        require_success(dat_lmr_query(it.made, DAT_LMR_FIELD_ALL, &is_now));
        expect_eq(is_now.va_type, DAT_VA_TYPE_ZB, "va_type");
        expect_true(is_now.registered_address < page, "its addresses do not begin at zero");
    });
    add_case(cases, "lmr.of_lmr", [] {
        const lmr_fixture fixture;
        registration first = fixture.one(), second;
        require_success(fixture.make(first));
        second.type = DAT_MEM_TYPE_LMR;
        second.where.for_lmr_handle = first.made;
        second.privileges = DAT_MEM_PRIV_LOCAL_READ_FLAG;
        if (!offers(fixture.ia, DAT_MEM_TYPE_LMR)) {
            fixture.refuses(std::move(second), lacking);
            return;
        }
        require_success(fixture.make(second));
        expect_true(first.local != second.local, "both have the same context");
        DAT_LMR_PARAM is_now{};
        require_success(dat_lmr_query(second.made, DAT_LMR_FIELD_ALL, &is_now));
        expect_eq(is_now.mem_type, DAT_MEM_TYPE_LMR, "mem_type");
        expect_eq(is_now.region_desc.for_lmr_handle, first.made, "its LMR");
        expect_eq(second.start, first.start, "registered_address");
        expect_return(first.made.free(), DAT_SUCCESS);
    });
    add_case(cases, "lmr.of_lmr_wrong", [] {
        const lmr_fixture fixture;
        if (!offers(fixture.ia, DAT_MEM_TYPE_LMR))
            return; // lmr.of_lmr says so
        registration it;
        it.type = DAT_MEM_TYPE_LMR;
        it.where.for_lmr_handle = fixture.zone;
        fixture.refuses(std::move(it), {invalid_handle(DAT_INVALID_HANDLE_LMR)});
    });
    add_case(cases, "lmr.shared", [] {
        const lmr_fixture fixture;
        const mapping memory(4 * page, MAP_SHARED);
        std::array<char, DAT_LMR_COOKIE_SIZE> cookie{"conform"};
        registration first = fixture.one(), second = fixture.one();
        for (registration *it : {&first, &second})
            share(*it, memory, cookie);
        if (!offers(fixture.ia, DAT_MEM_TYPE_SHARED_VIRTUAL)) {
            fixture.refuses(std::move(first), lacking);
            return;
        }
        require_success(fixture.make(first));
        require_success(fixture.make(second));
        expect_true(first.local != second.local, "both have the same context");
    });
    add_case(cases, "lmr.not_shared", [] {
        const lmr_fixture fixture;
        if (!offers(fixture.ia, DAT_MEM_TYPE_SHARED_VIRTUAL))
            return; // lmr.shared says so
        std::array<char, DAT_LMR_COOKIE_SIZE> cookie{"conform"};
        registration it = fixture.one();
        share(it, fixture.memory, cookie);
        fixture.refuses(std::move(it), {dat_error(DAT_INVALID_STATE)});
    });
    add_case(cases, "lmr.memlock", [] {
        const lmr_fixture fixture;
        const mapping large(16 << 20);
        const memlock_limit limit(64 << 10);
        registration it = fixture.one();
        it.where = at(large.data());
        it.length = large.size();
        fixture.refuses(std::move(it), {insufficient_resources(DAT_RESOURCE_MEMORY_REGION),
                                        insufficient_resources(DAT_RESOURCE_MEMORY)});
    });
}

void queried_in_full() {
    const lmr_fixture fixture;
    registration it = fixture.one();
    it.privileges = DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_REMOTE_READ_FLAG;
    require_success(fixture.make(it));
    poisoned<DAT_LMR_PARAM> is_now;
    require_success(dat_lmr_query(it.made, DAT_LMR_FIELD_ALL, is_now.ptr()));
    expect_eq(is_now->ia_handle, fixture.ia, "ia_handle");
    expect_eq(is_now->mem_type, DAT_MEM_TYPE_VIRTUAL, "mem_type");
    expect_eq(is_now->region_desc.for_va, it.where.for_va, "region_desc");
    expect_eq(is_now->length, it.length, "length");
    expect_eq(is_now->pz_handle, fixture.zone, "pz_handle");
    expect_eq(is_now->mem_priv, it.privileges, "mem_priv");
    expect_eq(is_now->va_type, DAT_VA_TYPE_VA, "va_type");
    expect_eq(is_now->lmr_context, it.local, "lmr_context");
    expect_eq(is_now->rmr_context, it.remote, "rmr_context");
    expect_eq(is_now->registered_size, it.size, "registered_size");
    expect_eq(is_now->registered_address, it.start, "registered_address");
}

void queries(case_list &cases) {
    add_case(cases, "lmr.query", queried_in_full);
    add_case(cases, "lmr.query_mask_unknown", [] {
        const lmr_fixture fixture;
        registration it = fixture.one();
        require_success(fixture.make(it));
        DAT_LMR_PARAM is_now{};
        expect_return(dat_lmr_query(it.made, enum_cast<DAT_LMR_PARAM_MASK>(0x800), &is_now),
                      invalid_parameter(2));
    });
    add_case(cases, "lmr.query_null", [] {
        const lmr_fixture fixture;
        registration it = fixture.one();
        require_success(fixture.make(it));
        expect_return(dat_lmr_query(it.made, DAT_LMR_FIELD_ALL, nullptr), invalid_parameter(3));
    });
}

} // namespace

void add_lmr(case_list &cases) {
    creation(cases);
    wrong_arguments(cases);
    kinds(cases);
    queries(cases);
}

} // namespace conform
