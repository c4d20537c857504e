// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// libdat's calls that are not in uDAPL 1.2: they reach a provider whose table has a valid
// extension.

#include "registry.hpp"

#include <dat/dat_coherdma_extensions.h>

using namespace registry_test;

namespace {

constexpr DAT_RETURN NOT_IMPLEMENTED = DAT_MAKE_ERROR(DAT_NOT_IMPLEMENTED, 0);
constexpr DAT_RETURN INVALID_EP = DAT_MAKE_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP);

stub::state *state;
stub::object ep;

struct {
    DAT_EP_HANDLE ep;
    const void *value;
    const DAT_LMR_TRIPLET *local;
    DAT_UINT64 cookie;
    const DAT_RMR_TRIPLET *remote;
    DAT_COMPLETION_FLAGS flags;
} last_call;

DAT_RETURN post_atomic_write(DAT_EP_HANDLE handle, const void *value, const DAT_LMR_TRIPLET *old,
                             DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
                             DAT_COMPLETION_FLAGS flags) {
    last_call = {handle, value, old, cookie.as_64, remote, flags};
    return 11;
}
DAT_RETURN post_flush(DAT_EP_HANDLE handle, const DAT_LMR_TRIPLET *scratch, DAT_DTO_COOKIE cookie,
                      const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags) {
    last_call = {handle, nullptr, scratch, cookie.as_64, remote, flags};
    return 12;
}
DAT_RETURN query_methods(DAT_EP_HANDLE handle, DAT_COHERDMA_METHODS *methods) {
    last_call = {handle, methods, nullptr, 0, nullptr, DAT_COMPLETION_DEFAULT_FLAG};
    return 13;
}

/// const_cast is valid because the stub's table is not const.
void set_extension(const void *extension) {
    const_cast<DAT_PROVIDER *>(ep.provider)->extension = const_cast<void *>(extension);
}

/// The extension pointer of a DAT 1.2 table may be of another provider: the registry checks that it
/// is readable, aligned, and begins with the magic number.
void provider_without_extension_gives_not_implemented(void **) {
    DAT_COHERDMA_METHODS methods;
    DAT_COHERDMA_CALLS wrong_magic = {1, post_atomic_write, post_flush, query_methods};
    const void *const invalid_extensions[] = {nullptr, reinterpret_cast<void *>(0x18),
                                              reinterpret_cast<char *>(&wrong_magic) + 4,
                                              &wrong_magic};
    for (const void *extension : invalid_extensions) {
        set_extension(extension);
        assert_int_equal(dat_coherdma_query_methods(&ep, &methods), NOT_IMPLEMENTED);
    }
}

void invalid_ep_rejected(void **) {
    DAT_COHERDMA_METHODS methods;
    stub::object unregistered;
    for (const std::uintptr_t address :
         {std::uintptr_t{0}, std::uintptr_t{1}, std::uintptr_t{0x5000},
          reinterpret_cast<std::uintptr_t>(&unregistered)})
        assert_int_equal(
            dat_coherdma_query_methods(reinterpret_cast<DAT_EP_HANDLE>(address), &methods),
            INVALID_EP);
}

void extension_calls_reach_provider(void **) {
    static const DAT_COHERDMA_CALLS calls = {DAT_COHERDMA_CALLS_MAGIC, post_atomic_write,
                                             post_flush, query_methods};
    set_extension(&calls);
    DAT_COHERDMA_METHODS methods;
    DAT_LMR_TRIPLET local = {};
    DAT_RMR_TRIPLET remote = {};
    DAT_DTO_COOKIE cookie;
    cookie.as_64 = 77;
    for (int i = 0; i < 2; ++i) {
        assert_int_equal(dat_coherdma_post_atomic_write(&ep, &calls, &local, cookie, &remote,
                                                        DAT_COMPLETION_SUPPRESS_FLAG),
                         11);
        assert_ptr_equal(last_call.value, &calls);
        assert_ptr_equal(last_call.local, &local);
        assert_int_equal(dat_coherdma_post_flush(&ep, &local, cookie, &remote,
                                                 DAT_COMPLETION_BARRIER_FENCE_FLAG),
                         12);
        assert_ptr_equal(last_call.ep, &ep);
        assert_ptr_equal(last_call.local, &local);
        assert_int_equal(last_call.cookie, 77);
        assert_ptr_equal(last_call.remote, &remote);
        assert_int_equal(last_call.flags, DAT_COMPLETION_BARRIER_FENCE_FLAG);
        assert_int_equal(dat_coherdma_query_methods(&ep, &methods), 13);
        assert_ptr_equal(last_call.value, &methods);
    }
}

int setup(void **) {
    use_conf(conf_line("good", "x"));
    state = &load_stub();
    open_ia_ok("good");
    ep.provider = state->find_table("good");
    return ep.provider == nullptr;
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(provider_without_extension_gives_not_implemented),
        cmocka_unit_test(invalid_ep_rejected),
        cmocka_unit_test(extension_calls_reach_provider),
    };
    return cmocka_run_group_tests(tests, setup, nullptr);
}
