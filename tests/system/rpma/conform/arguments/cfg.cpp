// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// rpma_conn_cfg_*() and rpma_srq_cfg_*().

#include "../lib/invalid.hpp"
#include "../lib/objects.hpp"
#include "../lib/run.hpp"

#include <climits>
#include <cstdint>

namespace conform {

namespace {

template <class Cfg>
using size_setter = int (*)(Cfg *, std::uint32_t);
template <class Cfg>
using size_getter = int (*)(const Cfg *, std::uint32_t *);

template <class Cfg>
std::uint32_t size_of(size_getter<Cfg> get, const Cfg *cfg) {
    std::uint32_t size = 0x5a5a5a5a;
    require_ok(get(cfg, &size));
    return size;
}

/// A size: its default, any value, and only of that object.
template <class Object, class Cfg>
void add_size(case_list &cases, const std::string &name, size_setter<Cfg> set, size_getter<Cfg> get,
              std::uint32_t default_size) {
    add_case(cases, name + ".default", [=] {
        const Object cfg;
        expect_eq(size_of(get, static_cast<const Cfg *>(cfg.get())), default_size, "the size");
    });
    add_case(cases, name + ".set", [=] {
        const Object cfg, other;
        for (const std::uint32_t size :
             {0u, 1u, 11u, std::uint32_t{INT_MAX}, std::uint32_t{INT_MAX} + 1, UINT32_MAX}) {
            expect_return(set(cfg.get(), size), 0);
            expect_eq(size_of(get, static_cast<const Cfg *>(cfg.get())), size, "the size");
        }
        expect_eq(size_of(get, static_cast<const Cfg *>(other.get())), default_size,
                  "the size of another object");
    });
}

void add_timeout(case_list &cases) {
    add_case(cases, "conn_cfg.timeout.default", [] {
        const conn_cfg_object cfg;
        int timeout_ms = -1;
        expect_return(rpma_conn_cfg_get_timeout(cfg.get(), &timeout_ms), 0);
        expect_eq(timeout_ms, RPMA_DEFAULT_TIMEOUT_MS, "the timeout");
        expect_eq(timeout_ms, 1000, "the timeout");
    });
    add_case(cases, "conn_cfg.timeout.set", [] {
        const conn_cfg_object cfg;
        for (const int expected : {0, 1, 5000, INT_MAX}) {
            int timeout_ms = -1;
            expect_return(rpma_conn_cfg_set_timeout(cfg.get(), expected), 0);
            expect_return(rpma_conn_cfg_get_timeout(cfg.get(), &timeout_ms), 0);
            expect_eq(timeout_ms, expected, "the timeout");
        }
    });
    add_case(cases, "conn_cfg.timeout.negative", [] {
        const conn_cfg_object cfg;
        for (const int invalid : {-1, INT_MIN}) {
            int timeout_ms = -1;
            expect_return(rpma_conn_cfg_set_timeout(cfg.get(), invalid), RPMA_E_INVAL);
            expect_return(rpma_conn_cfg_get_timeout(cfg.get(), &timeout_ms), 0);
            expect_eq(timeout_ms, 1000, "the timeout");
        }
    });
}

void add_compl_channel(case_list &cases) {
    add_case(cases, "conn_cfg.compl_channel.default", [] {
        const conn_cfg_object cfg;
        bool shared = true;
        expect_return(rpma_conn_cfg_get_compl_channel(cfg.get(), &shared), 0);
        expect_eq(shared, false, "shared");
    });
    add_case(cases, "conn_cfg.compl_channel.set", [] {
        const conn_cfg_object cfg;
        for (const bool expected : {true, false, true}) {
            bool shared = !expected;
            expect_return(rpma_conn_cfg_set_compl_channel(cfg.get(), expected), 0);
            expect_return(rpma_conn_cfg_get_compl_channel(cfg.get(), &shared), 0);
            expect_eq(shared, expected, "shared");
        }
    });
}

void add_conn_cfg_srq(case_list &cases) {
    add_case(cases, "conn_cfg.srq.default", [] {
        const conn_cfg_object cfg;
        rpma_srq *srq = fake_object<rpma_srq>();
        expect_return(rpma_conn_cfg_get_srq(cfg.get(), &srq), 0);
        expect_true(srq == nullptr, "there is an SRQ");
    });
    add_case(cases, "conn_cfg.srq.set", [] {
        const conn_cfg_object cfg;
        rpma_srq *srq = nullptr;
        expect_return(rpma_conn_cfg_set_srq(cfg.get(), fake_object<rpma_srq>()), 0);
        expect_return(rpma_conn_cfg_get_srq(cfg.get(), &srq), 0);
        expect_true(srq == fake_object<rpma_srq>(), "it is another SRQ");
    });
    // An SRQ cannot be taken away.
    add_case(cases, "conn_cfg.srq.set_null", [] {
        const conn_cfg_object cfg;
        rpma_srq *srq = nullptr;
        expect_return(rpma_conn_cfg_set_srq(cfg.get(), nullptr), RPMA_E_INVAL);
        require_ok(rpma_conn_cfg_set_srq(cfg.get(), fake_object<rpma_srq>()));
        expect_return(rpma_conn_cfg_set_srq(cfg.get(), nullptr), RPMA_E_INVAL);
        expect_return(rpma_conn_cfg_get_srq(cfg.get(), &srq), 0);
        expect_true(srq == fake_object<rpma_srq>(), "it is another SRQ");
    });
}

template <class Cfg>
void add_lifetime(case_list &cases, const char *name, int (*create)(Cfg **),
                  int (*destroy)(Cfg **)) {
    add_case(cases, name, [create, destroy] {
        Cfg *cfg = nullptr;
        require_ok(create(&cfg));
        require(cfg != nullptr, "no object");
        expect_return(destroy(&cfg), 0);
        expect_true(cfg == nullptr, "the pointer is not NULL");
        expect_return(destroy(&cfg), 0);
    });
}

} // namespace

void add_cfg(case_list &cases) {
    add_lifetime(cases, "conn_cfg.lifetime", rpma_conn_cfg_new, rpma_conn_cfg_delete);
    add_lifetime(cases, "srq_cfg.lifetime", rpma_srq_cfg_new, rpma_srq_cfg_delete);
    using conn_cfg = conn_cfg_object;
    add_size<conn_cfg>(cases, "conn_cfg.cq_size", rpma_conn_cfg_set_cq_size,
                       rpma_conn_cfg_get_cq_size, 10);
    add_size<conn_cfg>(cases, "conn_cfg.rcq_size", rpma_conn_cfg_set_rcq_size,
                       rpma_conn_cfg_get_rcq_size, 0);
    add_size<conn_cfg>(cases, "conn_cfg.sq_size", rpma_conn_cfg_set_sq_size,
                       rpma_conn_cfg_get_sq_size, 10);
    add_size<conn_cfg>(cases, "conn_cfg.rq_size", rpma_conn_cfg_set_rq_size,
                       rpma_conn_cfg_get_rq_size, 10);
    using srq_cfg = srq_cfg_object; // 100 on the original's page
    add_size<srq_cfg>(cases, "srq_cfg.rq_size", rpma_srq_cfg_set_rq_size, rpma_srq_cfg_get_rq_size,
                      20);
    add_size<srq_cfg>(cases, "srq_cfg.rcq_size", rpma_srq_cfg_set_rcq_size,
                      rpma_srq_cfg_get_rcq_size, 20);
    add_timeout(cases);
    add_compl_channel(cases);
    add_conn_cfg_srq(cases);
}

} // namespace conform
