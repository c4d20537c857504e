// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// libdat's calls beyond uDAPL 1.2: they go to a provider that has them, which its table's extension
// tells, whatever it has there.

#include "registry.hpp"

#include <dat/dat_coherdma_extensions.h>

using namespace registry_test;

namespace {

constexpr DAT_RETURN NONE = DAT_MAKE_ERROR(DAT_NOT_IMPLEMENTED, 0);
constexpr DAT_RETURN NO_EP = DAT_MAKE_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP);

stub::state *state;
stub::object ep;

struct {
    DAT_EP_HANDLE ep;
    const void *value;
    const DAT_LMR_TRIPLET *local;
    DAT_UINT64 cookie;
    const DAT_RMR_TRIPLET *remote;
    DAT_COMPLETION_FLAGS flags;
} heard;

DAT_RETURN write(DAT_EP_HANDLE to, const void *value, const DAT_LMR_TRIPLET *old,
                 DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags) {
    heard = {to, value, old, cookie.as_64, remote, flags};
    return 11;
}
DAT_RETURN flush(DAT_EP_HANDLE to, const DAT_LMR_TRIPLET *scratch, DAT_DTO_COOKIE cookie,
                 const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags) {
    heard = {to, nullptr, scratch, cookie.as_64, remote, flags};
    return 12;
}
DAT_RETURN tell(DAT_EP_HANDLE to, DAT_COHERDMA_WAYS *ways) {
    heard = {to, ways, nullptr, 0, nullptr, DAT_COMPLETION_DEFAULT_FLAG};
    return 13;
}

/// The provider's table is its own, and here it is writable.
void extend(const void *with) {
    const_cast<DAT_PROVIDER *>(ep.provider)->extension = const_cast<void *>(with);
}

void a_provider_without_them(void **) {
    DAT_COHERDMA_WAYS ways;
    DAT_COHERDMA_CALLS strange = {1, write, flush, tell};
    const void *const nowhere[] = {nullptr, reinterpret_cast<void *>(0x18),
                                   reinterpret_cast<char *>(&strange) + 4, &strange};
    for (const void *each : nowhere) {
        extend(each);
        assert_int_equal(dat_coherdma_query_ways(&ep, &ways), NONE);
    }
}

void no_endpoint_at_all(void **) {
    DAT_COHERDMA_WAYS ways;
    stub::object nobodys;
    for (const std::uintptr_t each : {std::uintptr_t{0}, std::uintptr_t{1}, std::uintptr_t{0x5000},
                                      reinterpret_cast<std::uintptr_t>(&nobodys)})
        assert_int_equal(dat_coherdma_query_ways(reinterpret_cast<DAT_EP_HANDLE>(each), &ways),
                         NO_EP);
}

void a_provider_that_has_them(void **) {
    static const DAT_COHERDMA_CALLS calls = {DAT_COHERDMA_CALLS_MAGIC, write, flush, tell};
    extend(&calls);
    DAT_COHERDMA_WAYS ways;
    DAT_LMR_TRIPLET local = {};
    DAT_RMR_TRIPLET remote = {};
    DAT_DTO_COOKIE cookie;
    cookie.as_64 = 77;
    for (int twice = 0; twice != 2; ++twice) {
        assert_int_equal(dat_coherdma_post_atomic_write(&ep, &calls, &local, cookie, &remote,
                                                        DAT_COMPLETION_SUPPRESS_FLAG),
                         11);
        assert_ptr_equal(heard.value, &calls);
        assert_ptr_equal(heard.local, &local);
        assert_int_equal(dat_coherdma_post_flush(&ep, &local, cookie, &remote,
                                                 DAT_COMPLETION_BARRIER_FENCE_FLAG),
                         12);
        assert_ptr_equal(heard.ep, &ep);
        assert_ptr_equal(heard.local, &local);
        assert_int_equal(heard.cookie, 77);
        assert_ptr_equal(heard.remote, &remote);
        assert_int_equal(heard.flags, DAT_COMPLETION_BARRIER_FENCE_FLAG);
        assert_int_equal(dat_coherdma_query_ways(&ep, &ways), 13);
        assert_ptr_equal(heard.value, &ways);
    }
}

int set_up(void **) {
    use_conf(record("good", "x"));
    state = &stub_of();
    opened("good");
    ep.provider = state->provider("good");
    return ep.provider == nullptr;
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(a_provider_without_them),
        cmocka_unit_test(no_endpoint_at_all),
        cmocka_unit_test(a_provider_that_has_them),
    };
    return cmocka_run_group_tests(tests, set_up, nullptr);
}
