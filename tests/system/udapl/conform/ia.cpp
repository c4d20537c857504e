// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// IAs: opening and closing them.

#include "cases.hpp"
#include "process.hpp"
#include "test_ia.hpp"

namespace conform {

namespace {

constexpr DAT_RETURN no_such_name = dat_error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);

/// What dat_ia_open takes, each as it should be.
struct opening {
    const char *name = settings().ia;
    DAT_COUNT qlen = 8;
    DAT_EVD_HANDLE async = nullptr;
    DAT_UINT32 major = DAT_VERSION_MAJOR, minor = DAT_VERSION_MINOR;
    DAT_BOOLEAN thread_safe = DAT_FALSE;
    DAT_IA_HANDLE ia = nullptr;

    DAT_RETURN open() {
        return dat_ia_openv(const_cast<char *>(name), qlen, &async, &ia, major, minor, thread_safe);
    }
    DAT_RETURN close(DAT_CLOSE_FLAGS how = DAT_CLOSE_GRACEFUL_FLAG) {
        return dat_ia_close(ia, how);
    }
};

/// It must not open, and says so with one of these.
void refused(opening one, std::initializer_list<DAT_RETURN> with,
             source_location loc = current_location()) {
    const DAT_RETURN got = one.open();
    expect_return(got, with, loc);
    if (got == DAT_SUCCESS)
        one.close();
}

void names(case_list &cases) {
    add_case(cases, "ia.open_name_null",
             [] { refused({.name = nullptr}, {invalid_parameter(1)}); });
    add_case(cases, "ia.open_name_empty", [] { refused({.name = ""}, {no_such_name}); });
    add_case(cases, "ia.open_name_unknown", [] { refused({.name = "unknown0"}, {no_such_name}); });
    add_case(cases, "ia.open_name_longest", [] {
        const std::string name(DAT_NAME_MAX_LENGTH - 1, 'x');
        refused({.name = name.c_str()}, {no_such_name});
    });
    add_case(cases, "ia.open_name_too_long", [] {
        const std::string name(DAT_NAME_MAX_LENGTH, 'x');
        refused({.name = name.c_str()}, {invalid_parameter(1)});
    });
    add_case(cases, "ia.open_name_prefix", [] { // of one that is known
        const std::string known = settings().ia;
        const std::string name = known.substr(0, known.size() - 1);
        refused({.name = name.c_str()}, {no_such_name});
    });
    add_case(cases, "ia.open_handle_null", [] {
        DAT_EVD_HANDLE async = nullptr;
        expect_return(dat_ia_open(const_cast<char *>(settings().ia), 8, &async, nullptr),
                      invalid_handle(DAT_INVALID_HANDLE_IA));
    });
    add_case(cases, "ia.open_async_null", [] {
        DAT_IA_HANDLE ia = nullptr;
        expect_return(dat_ia_open(const_cast<char *>(settings().ia), 8, nullptr, &ia),
                      invalid_parameter(3));
    });
    add_case(cases, "ia.open_major_unknown", [] {
        for (const DAT_UINT32 major : {0U, 1U, 3U})
            refused({.major = major},
                    {no_such_name, dat_error(DAT_PROVIDER_NOT_FOUND, DAT_MAJOR_NOT_FOUND)});
    });
    add_case(cases, "ia.open_minor_unknown", [] {
        refused({.minor = 7},
                {no_such_name, dat_error(DAT_PROVIDER_NOT_FOUND, DAT_MINOR_NOT_FOUND)});
    });
    add_case(cases, "ia.open_qlen_not_positive", [] {
        refused({.qlen = 0}, {invalid_parameter(2)});
        refused({.qlen = -1}, {invalid_parameter(2)});
    });
    add_case(cases, "ia.open_qlen_too_large", [] {
        refused({.qlen = 0x7fffffff}, {insufficient_resources(DAT_RESOURCE_TEVD),
                                       insufficient_resources(DAT_RESOURCE_MEMORY)});
    });
    add_case(cases, "ia.open_thread_safe", [] {
        opening one{.thread_safe = DAT_TRUE};
        require_success(one.open());
        poisoned<DAT_PROVIDER_ATTR> attributes;
        expect_return(
            dat_ia_query(one.ia, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL, attributes.ptr()),
            DAT_SUCCESS);
        expect_eq(attributes->is_thread_safe, DAT_TRUE, "is_thread_safe");
        expect_return(one.close(), DAT_SUCCESS);
    });
    add_case(cases, "ia.open_thread_safe_or_not", [] {
        opening safe{.thread_safe = DAT_TRUE}, unsafe;
        require_success(safe.open());
        require_success(unsafe.open());
        poisoned<DAT_PROVIDER_ATTR> attributes;
        require_success(
            dat_ia_query(unsafe.ia, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL, attributes.ptr()));
        expect_eq(attributes->is_thread_safe, DAT_FALSE, "is_thread_safe");
        expect_return(unsafe.close(), DAT_SUCCESS);
        expect_return(safe.close(), DAT_SUCCESS);
    });
}

DAT_EVD_HANDLE queried_async(DAT_IA_HANDLE ia) {
    DAT_EVD_HANDLE async = stray_handle();
    require_success(dat_ia_query(ia, &async, 0, nullptr, 0, nullptr));
    return async;
}

void asynchronous(case_list &cases) {
    add_case(cases, "ia.async_evd_made", [] {
        opening one{.qlen = 5};
        require_success(one.open());
        require(one.async != nullptr, "there is no asynchronous EVD");
        expect_eq(queried_async(one.ia), one.async, "the EVD that dat_ia_query names");
        DAT_EVD_PARAM is_now{};
        expect_return(dat_evd_query(one.async, DAT_EVD_FIELD_ALL, &is_now), DAT_SUCCESS);
        expect_eq(is_now.evd_flags, DAT_EVD_ASYNC_FLAG, "its flags");
        expect_eq(is_now.ia_handle, one.ia, "its IA");
        expect_true(is_now.evd_qlen >= 5, "its queue is shorter than asked for");
        expect_no_event(one.async);
        expect_return(one.close(), DAT_SUCCESS);
    });
    add_case(cases, "ia.async_evd_elsewhere", [] { // another instance has it
        test_ia first;
        opening second{.async = DAT_EVD_ASYNC_EXISTS};
        require_success(second.open());
        expect_eq(queried_async(second.ia), DAT_EVD_OUT_OF_SCOPE,
                  "the EVD that dat_ia_query names");
        expect_return(second.close(), DAT_SUCCESS);
    });
    add_case(cases, "ia.async_evd_no_handle", [] {
        opening one{.async = stray_handle()};
        const DAT_RETURN got = one.open();
        expect_return(got, invalid_handle(DAT_INVALID_HANDLE_EVD_ASYNC));
        if (got == DAT_SUCCESS)
            one.close(DAT_CLOSE_ABRUPT_FLAG);
    });
    add_case(cases, "ia.async_evd_of_another_kind", [] {
        test_ia first;
        const unique_evd software = first.create_evd(DAT_EVD_SOFTWARE_FLAG);
        opening second{.async = software};
        const DAT_RETURN got = second.open();
        expect_return(got, invalid_handle(DAT_INVALID_HANDLE_EVD_ASYNC));
        if (got == DAT_SUCCESS)
            second.close(DAT_CLOSE_ABRUPT_FLAG);
    });
}

/// Closes with an object alive that `make` made: gracefully that is refused, and the IA goes on.
template <class Make>
void closes_over(Make make) {
    opening one;
    require_success(one.open());
    make(one);
    expect_return(one.close(DAT_CLOSE_GRACEFUL_FLAG), invalid_state(DAT_INVALID_STATE_IA_IN_USE));
    expect_eq(queried_async(one.ia), one.async, "the asynchronous EVD after that");
    expect_return(one.close(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    expect_return(one.close(DAT_CLOSE_ABRUPT_FLAG), invalid_handle(DAT_INVALID_HANDLE_IA));
}

DAT_PZ_HANDLE zone_in(const opening &one) {
    DAT_PZ_HANDLE zone = nullptr;
    require_success(dat_pz_create(one.ia, &zone));
    return zone;
}
DAT_EVD_HANDLE events_in(const opening &one, DAT_EVD_FLAGS flags) {
    DAT_EVD_HANDLE made = nullptr;
    require_success(dat_evd_create(one.ia, 16, nullptr, flags, &made));
    return made;
}

void closing(case_list &cases) {
    add_case(cases, "ia.close_twice", [] {
        opening one;
        require_success(one.open());
        expect_return(one.close(), DAT_SUCCESS);
        expect_return(one.close(), invalid_handle(DAT_INVALID_HANDLE_IA));
    });
    add_case(cases, "ia.close_flags_wrong", [] {
        opening one;
        require_success(one.open());
        expect_return(one.close(enum_cast<DAT_CLOSE_FLAGS>(2)), invalid_parameter(2));
        expect_return(one.close(), DAT_SUCCESS);
    });
    add_case(cases, "ia.close_over_pz", [] { closes_over(zone_in); });
    add_case(cases, "ia.close_over_evd",
             [] { closes_over([](opening &one) { events_in(one, DAT_EVD_SOFTWARE_FLAG); }); });
    add_case(cases, "ia.close_over_cno", [] {
        closes_over([](opening &one) {
            DAT_CNO_HANDLE made = nullptr;
            require_success(dat_cno_create(one.ia, {nullptr, nullptr}, &made));
        });
    });
    add_case(cases, "ia.close_over_psp", [] {
        closes_over([](opening &one) {
            const DAT_EVD_HANDLE arrivals = events_in(one, DAT_EVD_CR_FLAG);
            DAT_PSP_HANDLE made = nullptr;
            require_success(dat_psp_create(one.ia, 32001, arrivals, DAT_PSP_CONSUMER_FLAG, &made));
        });
    });
    add_case(cases, "ia.close_over_lmr", [] {
        static mapping memory(page); // outlives its registration
        closes_over([](opening &one) {
            DAT_REGION_DESCRIPTION where{};
            where.for_va = memory.data();
            DAT_LMR_HANDLE made = nullptr;
            DAT_LMR_CONTEXT local = 0;
            DAT_RMR_CONTEXT remote = 0;
            DAT_VLEN size = 0;
            DAT_VADDR start = 0;
            require_success(dat_lmr_create(one.ia, DAT_MEM_TYPE_VIRTUAL, where, page, zone_in(one),
                                           DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &made, &local,
                                           &remote, &size, &start));
        });
    });
    add_case(cases, "ia.close_over_ep", [] {
        closes_over([](opening &one) {
            const DAT_EVD_HANDLE data = events_in(one, DAT_EVD_DTO_FLAG);
            const DAT_EVD_HANDLE life = events_in(one, DAT_EVD_CONNECTION_FLAG);
            DAT_EP_HANDLE made = nullptr;
            require_success(dat_ep_create(one.ia, zone_in(one), data, data, life, nullptr, &made));
        });
    });
}

void once() {
    opening one;
    require_success(one.open());
    require_success(one.close());
}

void several(case_list &cases) {
    add_case(cases, "ia.two_at_once", [] {
        opening one, two;
        require_success(one.open());
        require_success(two.open());
        expect_true(one.ia != two.ia, "both have the same handle");
        expect_true(one.async != two.async, "both have the same asynchronous EVD");
        expect_return(one.close(), DAT_SUCCESS);
        DAT_PZ_HANDLE zone = nullptr;
        expect_return(dat_pz_create(one.ia, &zone), invalid_handle(DAT_INVALID_HANDLE_IA));
        require_success(dat_pz_create(two.ia, &zone));
        expect_return(dat_pz_free(zone), DAT_SUCCESS);
        expect_return(two.close(), DAT_SUCCESS);
    });
    add_case(cases, "ia.reopened", [] { // nothing piles up in the process
#if defined(COHERDMA_ASAN) || defined(COHERDMA_TSAN)
        throw case_skipped{"a sanitizer keeps memory that has been freed"};
#endif
        once(); // what is loaded once for all
        const std::size_t files = count_open_files(), threads = count_threads();
        const std::size_t memory = count_resident_pages();
        for (int i = 0; i < 100; ++i)
            once();
        expect_true(wait_until([&] { return count_open_files() <= files; }),
                    concat("there are ", count_open_files(), " open files, not ", files));
        expect_true(wait_until([&] { return count_threads() <= threads; }),
                    concat("there are ", count_threads(), " threads, not ", threads));
        expect_true(count_resident_pages() < memory + 256,
                    concat("memory grew by ", count_resident_pages() - memory, " pages"));
    });
    add_case(cases, "ia.closed_abruptly_leaves_no_file", [] {
        once();
        const std::size_t files = count_open_files(), threads = count_threads();
        opening one;
        require_success(one.open());
        const DAT_EVD_HANDLE data = events_in(one, DAT_EVD_DTO_FLAG);
        const DAT_EVD_HANDLE life = events_in(one, DAT_EVD_CONNECTION_FLAG);
        DAT_EP_HANDLE made = nullptr;
        require_success(dat_ep_create(one.ia, zone_in(one), data, data, life, nullptr, &made));
        expect_return(one.close(DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
        expect_true(wait_until([&] { return count_open_files() <= files; }),
                    concat(count_open_files() - files, " files are left open"));
        expect_true(wait_until([&] { return count_threads() <= threads; }), "threads are left");
    });
}

} // namespace

void add_ia(case_list &cases) {
    names(cases);
    asynchronous(cases);
    closing(cases);
    several(cases);
}

} // namespace conform
