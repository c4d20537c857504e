// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// IAs: opening and closing them.

#include "lib/cases.hpp"
#include "lib/process.hpp"
#include "lib/test_ep.hpp"

#include <cstring>

namespace conform {

namespace {

constexpr DAT_RETURN name_not_registered =
    dat_error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);

/// What dat_ia_open takes, all valid, and the IA that it opened.
struct raw_ia {
    const char *name = settings().ia;
    DAT_COUNT qlen = 8;
    DAT_EVD_HANDLE async_evd = nullptr;
    DAT_UINT32 major = DAT_VERSION_MAJOR, minor = DAT_VERSION_MINOR;
    DAT_BOOLEAN thread_safe = DAT_FALSE;
    DAT_IA_HANDLE handle = nullptr;

    DAT_RETURN open() {
        return dat_ia_openv(const_cast<char *>(name), qlen, &async_evd, &handle, major, minor,
                            thread_safe);
    }
    DAT_RETURN close(DAT_CLOSE_FLAGS flags = DAT_CLOSE_GRACEFUL_FLAG) {
        return dat_ia_close(handle, flags);
    }
};

/// Opening returns one of these errors.
void expect_open_refused(raw_ia ia, std::initializer_list<DAT_RETURN> expected,
                         source_location loc = current_location()) {
    const DAT_RETURN ret = ia.open();
    expect_return(ret, expected, loc);
    if (ret == DAT_SUCCESS)
        ia.close();
}

void add_open_cases(case_list &cases) {
    add_case(cases, "ia.open_name_null",
             [] { expect_open_refused({.name = nullptr}, {invalid_parameter(1)}); });
    add_case(cases, "ia.open_name_empty",
             [] { expect_open_refused({.name = ""}, {name_not_registered}); });
    add_case(cases, "ia.open_name_unknown",
             [] { expect_open_refused({.name = "unknown0"}, {name_not_registered}); });
    add_case(cases, "ia.open_name_longest", [] {
        const std::string name(DAT_NAME_MAX_LENGTH - 1, 'x');
        expect_open_refused({.name = name.c_str()}, {name_not_registered});
    });
    add_case(cases, "ia.open_name_too_long", [] {
        const std::string name(DAT_NAME_MAX_LENGTH, 'x');
        expect_open_refused({.name = name.c_str()}, {invalid_parameter(1)});
    });
    add_case(cases, "ia.open_name_prefix", [] { // of one that is known
        const std::string known = settings().ia;
        const std::string name = known.substr(0, known.size() - 1);
        expect_open_refused({.name = name.c_str()}, {name_not_registered});
    });
    add_case(cases, "ia.open_handle_null", [] {
        DAT_EVD_HANDLE async_evd = nullptr;
        expect_return(dat_ia_open(const_cast<char *>(settings().ia), 8, &async_evd, nullptr),
                      invalid_handle(DAT_INVALID_HANDLE_IA));
    });
    add_case(cases, "ia.open_async_null", [] {
        DAT_IA_HANDLE ia = nullptr;
        expect_return(dat_ia_open(const_cast<char *>(settings().ia), 8, nullptr, &ia),
                      invalid_parameter(3));
    });
    add_case(cases, "ia.open_major_unknown", [] {
        for (const DAT_UINT32 major : {0U, 1U, 3U})
            expect_open_refused(
                {.major = major},
                {name_not_registered, dat_error(DAT_PROVIDER_NOT_FOUND, DAT_MAJOR_NOT_FOUND)});
    });
    add_case(cases, "ia.open_minor_unknown", [] {
        expect_open_refused({.minor = 7}, {name_not_registered,
                                           dat_error(DAT_PROVIDER_NOT_FOUND, DAT_MINOR_NOT_FOUND)});
    });
    add_case(cases, "ia.open_qlen_not_positive", [] {
        expect_open_refused({.qlen = 0}, {invalid_parameter(2)});
        expect_open_refused({.qlen = -1}, {invalid_parameter(2)});
    });
    add_case(cases, "ia.open_qlen_too_large", [] {
        expect_open_refused({.qlen = 0x7fffffff}, {insufficient_resources(DAT_RESOURCE_TEVD),
                                                   insufficient_resources(DAT_RESOURCE_MEMORY)});
    });
    add_case(cases, "ia.open_thread_safe", [] {
        raw_ia ia{.thread_safe = DAT_TRUE};
        require_success(ia.open());
        poisoned<DAT_PROVIDER_ATTR> attr;
        expect_return(
            dat_ia_query(ia.handle, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL, attr.ptr()),
            DAT_SUCCESS);
        expect_eq(attr->is_thread_safe, DAT_TRUE, "is_thread_safe");
        expect_return(ia.close(), DAT_SUCCESS);
    });
    add_case(cases, "ia.open_thread_safe_or_not", [] {
        raw_ia safe_ia{.thread_safe = DAT_TRUE}, unsafe_ia;
        require_success(safe_ia.open());
        require_success(unsafe_ia.open());
        poisoned<DAT_PROVIDER_ATTR> attr;
        require_success(dat_ia_query(unsafe_ia.handle, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL,
                                     attr.ptr()));
        expect_eq(attr->is_thread_safe, DAT_FALSE, "is_thread_safe");
        expect_return(unsafe_ia.close(), DAT_SUCCESS);
        expect_return(safe_ia.close(), DAT_SUCCESS);
    });
}

DAT_EVD_HANDLE query_async_evd(DAT_IA_HANDLE ia) {
    DAT_EVD_HANDLE async_evd = stray_handle();
    require_success(dat_ia_query(ia, &async_evd, 0, nullptr, 0, nullptr));
    return async_evd;
}

void add_async_evd_cases(case_list &cases) {
    add_case(cases, "ia.async_evd_made", [] {
        raw_ia ia{.qlen = 5};
        require_success(ia.open());
        require(ia.async_evd != nullptr, "there is no asynchronous EVD");
        expect_eq(query_async_evd(ia.handle), ia.async_evd, "the EVD that dat_ia_query names");
        DAT_EVD_PARAM param{};
        expect_return(dat_evd_query(ia.async_evd, DAT_EVD_FIELD_ALL, &param), DAT_SUCCESS);
        expect_eq(param.evd_flags, DAT_EVD_ASYNC_FLAG, "its flags");
        expect_eq(param.ia_handle, ia.handle, "its IA");
        expect_true(param.evd_qlen >= 5, "its queue is shorter than asked for");
        expect_no_event(ia.async_evd);
        expect_return(ia.close(), DAT_SUCCESS);
    });
    add_case(cases, "ia.async_evd_elsewhere", [] { // another instance has it
        test_ia first_ia;
        raw_ia second_ia{.async_evd = DAT_EVD_ASYNC_EXISTS};
        require_success(second_ia.open());
        expect_eq(query_async_evd(second_ia.handle), DAT_EVD_OUT_OF_SCOPE,
                  "the EVD that dat_ia_query names");
        expect_return(second_ia.close(), DAT_SUCCESS);
    });
    add_case(cases, "ia.async_evd_no_handle", [] {
        raw_ia ia{.async_evd = stray_handle()};
        const DAT_RETURN ret = ia.open();
        expect_return(ret, invalid_handle(DAT_INVALID_HANDLE_EVD_ASYNC));
        if (ret == DAT_SUCCESS)
            ia.close(DAT_CLOSE_ABRUPT_FLAG);
    });
    add_case(cases, "ia.async_evd_of_another_kind", [] {
        test_ia first_ia;
        const unique_evd software_evd = first_ia.create_evd(DAT_EVD_SOFTWARE_FLAG);
        raw_ia second_ia{.async_evd = software_evd};
        const DAT_RETURN ret = second_ia.open();
        expect_return(ret, invalid_handle(DAT_INVALID_HANDLE_EVD_ASYNC));
        if (ret == DAT_SUCCESS)
            second_ia.close(DAT_CLOSE_ABRUPT_FLAG);
    });
}

/// create(ia) creates an object, which is not freed. A graceful close is refused, and the IA can be
/// used on; an abrupt one frees both.
template <class Make>
void test_close_in_use(Make create) {
    raw_ia ia;
    require_success(ia.open());
    create(ia);
    expect_return(ia.close(DAT_CLOSE_GRACEFUL_FLAG), invalid_state(DAT_INVALID_STATE_IA_IN_USE));
    expect_eq(query_async_evd(ia.handle), ia.async_evd, "the asynchronous EVD after that");
    expect_return(ia.close(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    expect_return(ia.close(DAT_CLOSE_ABRUPT_FLAG), invalid_handle(DAT_INVALID_HANDLE_IA));
}

DAT_PZ_HANDLE create_pz(const raw_ia &ia) {
    DAT_PZ_HANDLE pz = nullptr;
    require_success(dat_pz_create(ia.handle, &pz));
    return pz;
}
DAT_EVD_HANDLE create_evd(const raw_ia &ia, DAT_EVD_FLAGS flags) {
    DAT_EVD_HANDLE handle = nullptr;
    require_success(dat_evd_create(ia.handle, 16, nullptr, flags, &handle));
    return handle;
}

void add_close_cases(case_list &cases) {
    add_case(cases, "ia.close_twice", [] {
        raw_ia ia;
        require_success(ia.open());
        expect_return(ia.close(), DAT_SUCCESS);
        expect_return(ia.close(), invalid_handle(DAT_INVALID_HANDLE_IA));
    });
    add_case(cases, "ia.close_flags_wrong", [] {
        raw_ia ia;
        require_success(ia.open());
        expect_return(ia.close(enum_cast<DAT_CLOSE_FLAGS>(2)), invalid_parameter(2));
        expect_return(ia.close(), DAT_SUCCESS);
    });
    add_case(cases, "ia.close_over_pz", [] { test_close_in_use(create_pz); });
    add_case(cases, "ia.close_over_evd",
             [] { test_close_in_use([](raw_ia &ia) { create_evd(ia, DAT_EVD_SOFTWARE_FLAG); }); });
    add_case(cases, "ia.close_over_cno", [] {
        test_close_in_use([](raw_ia &ia) {
            DAT_CNO_HANDLE handle = nullptr;
            require_success(dat_cno_create(ia.handle, {nullptr, nullptr}, &handle));
        });
    });
    add_case(cases, "ia.close_over_psp", [] {
        test_close_in_use([](raw_ia &ia) {
            const DAT_EVD_HANDLE cr_evd = create_evd(ia, DAT_EVD_CR_FLAG);
            DAT_PSP_HANDLE handle = nullptr;
            require_success(
                dat_psp_create(ia.handle, 32001, cr_evd, DAT_PSP_CONSUMER_FLAG, &handle));
        });
    });
    add_case(cases, "ia.close_over_lmr", [] {
        static mapping memory(page_size); // outlives its registration
        test_close_in_use([](raw_ia &ia) {
            DAT_REGION_DESCRIPTION desc{};
            desc.for_va = memory.data();
            DAT_LMR_HANDLE handle = nullptr;
            DAT_LMR_CONTEXT lmr_context = 0;
            DAT_RMR_CONTEXT rmr_context = 0;
            DAT_VLEN size = 0;
            DAT_VADDR start = 0;
            require_success(dat_lmr_create(ia.handle, DAT_MEM_TYPE_VIRTUAL, desc, page_size,
                                           create_pz(ia), DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA,
                                           &handle, &lmr_context, &rmr_context, &size, &start));
        });
    });
    add_case(cases, "ia.close_over_ep", [] {
        test_close_in_use([](raw_ia &ia) {
            const DAT_EVD_HANDLE dto_evd = create_evd(ia, DAT_EVD_DTO_FLAG);
            const DAT_EVD_HANDLE connect_evd = create_evd(ia, DAT_EVD_CONNECTION_FLAG);
            DAT_EP_HANDLE handle = nullptr;
            require_success(dat_ep_create(ia.handle, create_pz(ia), dto_evd, dto_evd, connect_evd,
                                          nullptr, &handle));
        });
    });
}

void open_and_close() {
    raw_ia ia;
    require_success(ia.open());
    require_success(ia.close());
}

void add_reopen_cases(case_list &cases) {
    add_case(cases, "ia.two_at_once", [] {
        raw_ia ia, second_ia;
        require_success(ia.open());
        require_success(second_ia.open());
        expect_true(ia.handle != second_ia.handle, "both have the same handle");
        expect_true(ia.async_evd != second_ia.async_evd, "both have the same asynchronous EVD");
        expect_return(ia.close(), DAT_SUCCESS);
        DAT_PZ_HANDLE pz = nullptr;
        expect_return(dat_pz_create(ia.handle, &pz), invalid_handle(DAT_INVALID_HANDLE_IA));
        require_success(dat_pz_create(second_ia.handle, &pz));
        expect_return(dat_pz_free(pz), DAT_SUCCESS);
        expect_return(second_ia.close(), DAT_SUCCESS);
    });
    add_case(cases, "ia.reopened", [] { // nothing piles up in the process
#if defined(COHERDMA_ASAN) || defined(COHERDMA_TSAN)
        throw case_skipped{"a sanitizer keeps memory that has been freed"};
#endif
        open_and_close(); // what is loaded once for all
        const std::size_t files = count_open_files(), threads = count_threads();
        const std::size_t memory = count_resident_pages();
        for (int i = 0; i < 100; ++i)
            open_and_close();
        expect_true(wait_until([&] { return count_open_files() <= files; }),
                    concat("there are ", count_open_files(), " open files, not ", files));
        expect_true(wait_until([&] { return count_threads() <= threads; }),
                    concat("there are ", count_threads(), " threads, not ", threads));
        expect_true(count_resident_pages() < memory + 256,
                    concat("memory grew by ", count_resident_pages() - memory, " pages"));
    });
    add_case(cases, "ia.close_abrupt_keeps_data", [] { // of an LMR that was not freed
        const mapping memory(4 * page_size);
        raw_ia ia;
        require_success(ia.open());
        DAT_REGION_DESCRIPTION desc{};
        desc.for_va = memory.data();
        DAT_LMR_HANDLE lmr = nullptr;
        DAT_LMR_CONTEXT lmr_context = 0;
        DAT_RMR_CONTEXT rmr_context = 0;
        DAT_VLEN length = 0;
        DAT_VADDR address = 0;
        require_success(dat_lmr_create(ia.handle, DAT_MEM_TYPE_VIRTUAL, desc, memory.size(),
                                       create_pz(ia), DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &lmr,
                                       &lmr_context, &rmr_context, &length, &address));
        const auto data = make_pattern(memory.size());
        std::memcpy(memory.data(), data.data(), data.size());
        expect_return(ia.close(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
        expect_true(std::memcmp(memory.data(), data.data(), data.size()) == 0,
                    "the memory has not what was written");
    });
    add_case(cases, "ia.closed_abruptly_leaves_no_file", [] {
        open_and_close();
        const std::size_t files = count_open_files(), threads = count_threads();
        raw_ia ia;
        require_success(ia.open());
        const DAT_EVD_HANDLE dto_evd = create_evd(ia, DAT_EVD_DTO_FLAG);
        const DAT_EVD_HANDLE connect_evd = create_evd(ia, DAT_EVD_CONNECTION_FLAG);
        DAT_EP_HANDLE handle = nullptr;
        require_success(dat_ep_create(ia.handle, create_pz(ia), dto_evd, dto_evd, connect_evd,
                                      nullptr, &handle));
        expect_return(ia.close(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
        expect_true(wait_until([&] { return count_open_files() <= files; }),
                    concat(count_open_files() - files, " files are left open"));
        expect_true(wait_until([&] { return count_threads() <= threads; }), "threads are left");
    });
}

} // namespace

void add_ia(case_list &cases) {
    add_open_cases(cases);
    add_async_evd_cases(cases);
    add_close_cases(cases);
    add_reopen_cases(cases);
}

} // namespace conform
