// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// rpma_peer_cfg_*(). The descriptor travels to peers with other versions of librpma: a byte, which
// is not 0 if the direct write to pmem is supported.

#include "../lib/invalid.hpp"
#include "../lib/objects.hpp"
#include "../lib/run.hpp"

namespace conform {

namespace {

bool direct_write(const rpma_peer_cfg *pcfg) {
    bool supported = false;
    require_ok(rpma_peer_cfg_get_direct_write_to_pmem(pcfg, &supported));
    return supported;
}

} // namespace

void add_peer_cfg(case_list &cases) {
    add_case(cases, "peer_cfg.lifetime", [] {
        rpma_peer_cfg *pcfg = nullptr;
        require_ok(rpma_peer_cfg_new(&pcfg));
        expect_return(rpma_peer_cfg_delete(&pcfg), 0);
        expect_true(pcfg == nullptr, "the pointer is not NULL");
        expect_return(rpma_peer_cfg_delete(&pcfg), 0);
    });
    add_case(cases, "peer_cfg.direct_write_to_pmem.default", [] {
        const peer_cfg_object pcfg;
        bool supported = true;
        expect_return(rpma_peer_cfg_get_direct_write_to_pmem(pcfg.get(), &supported), 0);
        expect_eq(supported, false, "supported");
    });
    add_case(cases, "peer_cfg.direct_write_to_pmem.set", [] {
        const peer_cfg_object pcfg, other;
        for (const bool expected : {true, false, true}) {
            expect_return(rpma_peer_cfg_set_direct_write_to_pmem(pcfg.get(), expected), 0);
            expect_eq(direct_write(pcfg.get()), expected, "supported");
        }
        expect_eq(direct_write(other.get()), false, "supported of another object");
    });
    add_case(cases, "peer_cfg.descriptor", [] {
        const peer_cfg_object pcfg;
        std::size_t size = 0;
        expect_return(rpma_peer_cfg_get_descriptor_size(pcfg.get(), &size), 0);
        require(size == 1, concat("the descriptor has ", size, " bytes"));
        for (const bool supported : {false, true}) {
            require_ok(rpma_peer_cfg_set_direct_write_to_pmem(pcfg.get(), supported));
            unsigned char desc[2] = {0x5a, 0x5a};
            expect_return(rpma_peer_cfg_get_descriptor(pcfg.get(), desc), 0);
            expect_eq(desc[0], static_cast<unsigned char>(supported), "the descriptor");
            expect_eq(desc[1], 0x5a, "the byte behind the descriptor");
        }
    });
    add_case(cases, "peer_cfg.from_descriptor", [] {
        for (const unsigned value : {0u, 1u, 2u, 128u, 255u}) {
            const scoped_trace trace(concat("descriptor ", value));
            for (const std::size_t size : {std::size_t{1}, std::size_t{2}, std::size_t{100}}) {
                const unsigned char desc[100] = {static_cast<unsigned char>(value)};
                rpma_peer_cfg *pcfg = nullptr;
                expect_return(rpma_peer_cfg_from_descriptor(desc, size, &pcfg), 0);
                if (!pcfg)
                    continue;
                expect_eq(direct_write(pcfg), value != 0, "supported");
                expect_return(rpma_peer_cfg_delete(&pcfg), 0);
            }
        }
    });
    add_case(cases, "peer_cfg.from_descriptor.invalid", [] {
        const char desc[1] = {};
        using output = rpma_peer_cfg *;
        expect_fails<output>(
            [](output *out) { return rpma_peer_cfg_from_descriptor(nullptr, 1, out); },
            RPMA_E_INVAL);
        expect_return(rpma_peer_cfg_from_descriptor(desc, 1, nullptr), RPMA_E_INVAL);
        expect_return(rpma_peer_cfg_from_descriptor(nullptr, 0, nullptr), RPMA_E_INVAL);
        expect_fails<output>(
            [&](output *out) { return rpma_peer_cfg_from_descriptor(desc, 0, out); }, RPMA_E_INVAL);
    });
}

} // namespace conform
