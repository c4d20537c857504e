// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "kinds.hpp"

#include <sys/mman.h>

namespace played {

namespace {

constexpr std::array<const char *, kinds> names = {"CR", "EP",  "EVD", "IA",  "LMR", "PSP",
                                                   "PZ", "RMR", "RSP", "CNO", "SRQ", "CSP"};

void done(DAT_RETURN result) {
    assert_int_equal(result, DAT_SUCCESS);
}

} // namespace

const char *name_of_kind(std::size_t kind) {
    return names.at(kind);
}

every::every(const adapter &of)
    : on(of)
    , idle(of)
    , caller(of)
    , reserved(of)
    , area(of)
    , cr(of.evd(DAT_EVD_CR_FLAG))
    , own(of.evd(DAT_EVD_SOFTWARE_FLAG))
    , srq(of.srq()) {
    living_[DAT_HANDLE_TYPE_IA] = of.ia;
    living_[DAT_HANDLE_TYPE_PZ] = of.pz;
    living_[DAT_HANDLE_TYPE_EP] = idle.ep;
    living_[DAT_HANDLE_TYPE_EVD] = own;
    living_[DAT_HANDLE_TYPE_CNO] = of.cno();
    living_[DAT_HANDLE_TYPE_LMR] = area.lmr;
    living_[DAT_HANDLE_TYPE_SRQ] = srq;
    done(dat().rmr_create_func(of.pz, &living_[DAT_HANDLE_TYPE_RMR]));
    living_[DAT_HANDLE_TYPE_CR] = ask(caller, of, cr);
    make_listeners();
    make_and_free();
}

void every::make_listeners() {
    done(dat().psp_create_func(on.ia, 5001, cr, DAT_PSP_CONSUMER_FLAG,
                               &living_[DAT_HANDLE_TYPE_PSP]));
    done(dat().rsp_create_func(on.ia, 5002, reserved.ep, cr, &living_[DAT_HANDLE_TYPE_RSP]));
    DAT_COMM comm = {AF_INET, SOCK_STREAM, IPPROTO_TCP};
    place here = at(on.address, 5003);
    done(dat().csp_create_func(on.ia, &comm, &here.any, cr, &living_[DAT_HANDLE_TYPE_CSP]));
}

// Last: what is made later may have a freed one's place, and its handle is good then.
void every::make_and_free() {
    {
        end gone(on);
        freed_[DAT_HANDLE_TYPE_EP] = gone.ep;
        freed_[DAT_HANDLE_TYPE_CR] = ask(gone, on, cr);
        done(dat().cr_reject_func(freed_[DAT_HANDLE_TYPE_CR], 0, nullptr));
        next(gone.connections, DAT_CONNECTION_EVENT_PEER_REJECTED);
        DAT_RSP_HANDLE &rsp = freed_[DAT_HANDLE_TYPE_RSP];
        done(dat().ep_reset_func(gone.ep));
        done(dat().rsp_create_func(on.ia, 5004, gone.ep, cr, &rsp));
        done(dat().rsp_free_func(rsp));
        gone.free();
    }
    DAT_CONN_QUAL port = 0;
    DAT_HANDLE &psp = freed_[DAT_HANDLE_TYPE_PSP], &csp = freed_[DAT_HANDLE_TYPE_CSP];
    done(dat().psp_create_any_func(on.ia, &port, cr, DAT_PSP_CONSUMER_FLAG, &psp));
    done(dat().psp_free_func(psp));
    DAT_COMM comm = {AF_INET, SOCK_STREAM, IPPROTO_TCP};
    place here = at(on.address, 5005);
    done(dat().csp_create_func(on.ia, &comm, &here.any, cr, &csp));
    done(dat().csp_free_func(csp));
    memory gone(on);
    freed_[DAT_HANDLE_TYPE_LMR] = gone.lmr;
    gone.free();
    DAT_HANDLE &rmr = freed_[DAT_HANDLE_TYPE_RMR];
    done(dat().rmr_create_func(on.pz, &rmr));
    done(dat().rmr_free_func(rmr));
    done(dat().srq_free_func(freed_[DAT_HANDLE_TYPE_SRQ] = on.srq()));
    done(dat().evd_free_func(freed_[DAT_HANDLE_TYPE_EVD] = on.evd(DAT_EVD_SOFTWARE_FLAG)));
    done(dat().cno_free_func(freed_[DAT_HANDLE_TYPE_CNO] = on.cno()));
    adapter other;
    freed_[DAT_HANDLE_TYPE_IA] = other.ia;
    freed_[DAT_HANDLE_TYPE_PZ] = other.pz;
    other.close();
}

void every::free() {
    done(dat().cr_reject_func(living_[DAT_HANDLE_TYPE_CR], 0, nullptr));
    next(caller.connections, DAT_CONNECTION_EVENT_PEER_REJECTED);
    done(dat().psp_free_func(living_[DAT_HANDLE_TYPE_PSP]));
    done(dat().rsp_free_func(living_[DAT_HANDLE_TYPE_RSP]));
    done(dat().csp_free_func(living_[DAT_HANDLE_TYPE_CSP]));
    idle.free();
    caller.free();
    reserved.free();
    done(dat().rmr_free_func(living_[DAT_HANDLE_TYPE_RMR]));
    area.free();
    done(dat().srq_free_func(srq));
    done(dat().evd_free_func(cr));
    done(dat().evd_free_func(own));
    done(dat().cno_free_func(living_[DAT_HANDLE_TYPE_CNO]));
}

namespace {

struct alignas(64) words {
    std::uintptr_t all[8];
};

/// A page that was there, and is not any more.
void *unmapped_page() {
    static void *const page = [] {
        void *const made =
            mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        munmap(made, 4096);
        return made;
    }();
    return page;
}

void add_numbers(std::vector<bad_handle> &to) {
    for (std::uintptr_t number = 1; number != 8; ++number)
        to.push_back({"the number " + std::to_string(number),
                      reinterpret_cast<DAT_HANDLE>(number)}); // NOLINT
    to.push_back({"the last address", reinterpret_cast<DAT_HANDLE>(~std::uintptr_t{0})});
}

void add_objects(std::vector<bad_handle> &to, const every &all, std::size_t kind) {
    for (std::size_t each = 0; each != kinds; ++each) {
        const std::string name = name_of_kind(each);
        if (kind != kinds && each != kind)
            to.push_back({"a living " + name, all.living(each)});
        to.push_back({"a freed " + name, all.freed(each)});
    }
}

void add_inside(std::vector<bad_handle> &to, const every &all, std::size_t kind) {
    auto *const begin = static_cast<char *>(all.living(kind == kinds ? 0 : kind));
    for (const unsigned offset : {1U, 4U, 8U, 16U, 32U, 64U})
        to.push_back({"in the middle by " + std::to_string(offset), begin + offset});
    to.push_back({"before it", begin - 1});
}

} // namespace

std::vector<bad_handle> bad_handles(const every &all, std::size_t kind) {
    static words nothing = {}, ones = {};
    static words copy = {};
    for (std::uintptr_t &each : ones.all)
        each = ~std::uintptr_t{0};
    // As good as an object's first words are: it has its provider, and its tag.
    std::memcpy(copy.all, all.living(kind == kinds ? 0 : kind), 2 * sizeof copy.all[0]);
    const auto here = reinterpret_cast<std::uintptr_t>(&all); // on a test's stack
    std::vector<bad_handle> list = {
        {"the stack", reinterpret_cast<DAT_HANDLE>((here + 63) / 64 * 64)},
        {"zeros", &nothing},
        {"ones", &ones},
        {"a copy of an object", &copy},
        {"unmapped memory, not aligned", static_cast<char *>(unmapped_page()) + 8},
    };
    add_numbers(list);
    add_objects(list, all, kind);
    add_inside(list, all, kind);
    return list;
}

std::vector<bad_handle> worse_handles(const every &all, std::size_t kind) {
    std::vector<bad_handle> list = bad_handles(all, kind);
    list.push_back({"unmapped memory", unmapped_page()});
    list.push_back({"the kernel's memory", reinterpret_cast<DAT_HANDLE>(~std::uintptr_t{63})});
    return list;
}

} // namespace played
