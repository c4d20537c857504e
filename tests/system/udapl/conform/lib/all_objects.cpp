// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "all_objects.hpp"

#include "optional.hpp"

#include <cstdint>
#include <cstring>
#include <dat2/dat_registry.h>
#include <netinet/in.h>
#include <sys/mman.h>

namespace conform {

unique_srq live_objects::create_srq() const {
    DAT_SRQ_ATTR srq_attr{16, 1, DAT_SRQ_LW_DEFAULT};
    DAT_SRQ_HANDLE handle = nullptr;
    require_success(dat_srq_create(eps.ia, eps.pz, &srq_attr, &handle));
    return unique_srq(handle);
}
unique_rsp live_objects::create_rsp(DAT_CONN_QUAL port, DAT_EP_HANDLE ep) const {
    DAT_RSP_HANDLE handle = nullptr;
    require_success(dat_rsp_create(eps.ia, port, ep, eps.cr_evd, &handle));
    return unique_rsp(handle);
}

DAT_RETURN free_csp(DAT_CSP_HANDLE handle) {
    return EXPORTED(dat_csp_free)(handle);
}

namespace {

/// NULL if the device has no memory windows.
unique_rmr create_rmr(DAT_PZ_HANDLE pz) {
    DAT_RMR_HANDLE handle = nullptr;
    return dat_rmr_create(pz, &handle) == DAT_SUCCESS ? unique_rmr(handle) : unique_rmr();
}

template <class Owned>
DAT_HANDLE free_and_return_handle(Owned object) {
    const DAT_HANDLE handle = object;
    if (handle)
        require_success(object.free());
    return handle;
}

DAT_HANDLE open_and_close_ia() {
    DAT_EVD_HANDLE async_evd = nullptr;
    DAT_IA_HANDLE ia = nullptr;
    require_success(dat_ia_open(const_cast<char *>(settings().ia), 8, &async_evd, &ia));
    require_success(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
    return ia;
}

} // namespace

all_objects::all_objects(source_location loc)
    : live_objects{ep_pair(nullptr, loc)}
    , rmr(create_rmr(eps.pz))
    , csp(create_csp()) {
    create_freed_handles();
}

all_objects::~all_objects() {
    const DAT_RETURN ret = dat_cr_reject(cr, 0, nullptr);
    if (std::uncaught_exceptions() != 0 || !failures().empty())
        return;
    if (expect_return(ret, DAT_SUCCESS)) {
        DAT_EVENT event{};
        DAT_COUNT nmore = 0;
        expect_return(
            dat_evd_wait(requesting_ep.connect_evd, dat_timeout(event_timeout), 1, &event, &nmore),
            DAT_SUCCESS);
    }
}

DAT_CR_HANDLE all_objects::request_connection(const test_ep &ep) {
    require_success(connect_ep(ep, ia_address(eps.ia.ipv4_address()), eps.port));
    return eps.next_cr();
}

unique_csp all_objects::create_csp() const {
    void *const symbol = dlsym(RTLD_DEFAULT, "dat_csp_create");
    if (!symbol)
        return unique_csp();
    DAT_COMM comm = {AF_INET, SOCK_STREAM, IPPROTO_TCP};
    sockaddr_in address = eps.ia.ipv4_address();
    address.sin_port = htons(static_cast<std::uint16_t>(unused_port()));
    DAT_CSP_HANDLE handle = nullptr;
    const DAT_RETURN ret = reinterpret_cast<decltype(&dat_csp_create)>(symbol)(
        eps.ia, &comm, ia_address(address).ptr(), eps.cr_evd, &handle);
    return ret == DAT_SUCCESS ? unique_csp(handle) : unique_csp();
}

// Last: an object that is made later may have the place of a freed one, whose handle is valid then.
void all_objects::create_freed_handles() {
    {
        test_ep ep(eps.ia, eps.pz);
        const DAT_CR_HANDLE rejected_cr = request_connection(ep);
        freed_handles_[DAT_HANDLE_TYPE_CR] = rejected_cr;
        require_success(dat_cr_reject(rejected_cr, 0, nullptr));
        next_event(ep.connect_evd);
        require_success(dat_ep_reset(ep));
        freed_handles_[DAT_HANDLE_TYPE_RSP] = free_and_return_handle(create_rsp(unused_port(), ep));
        freed_handles_[DAT_HANDLE_TYPE_EP] = free_and_return_handle(std::move(ep.handle));
    }
    DAT_PSP_HANDLE psp = nullptr;
    require_success(dat_psp_create(eps.ia, unused_port(), eps.cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
    freed_handles_[DAT_HANDLE_TYPE_PSP] = free_and_return_handle(unique_psp(psp));
    freed_handles_[DAT_HANDLE_TYPE_CSP] = free_and_return_handle(create_csp());
    {
        test_lmr lmr(eps.ia, eps.pz, page_size);
        freed_handles_[DAT_HANDLE_TYPE_LMR] = lmr;
        require_success(lmr.free());
    }
    freed_handles_[DAT_HANDLE_TYPE_RMR] = free_and_return_handle(create_rmr(eps.pz));
    freed_handles_[DAT_HANDLE_TYPE_SRQ] = free_and_return_handle(create_srq());
    freed_handles_[DAT_HANDLE_TYPE_EVD] =
        free_and_return_handle(eps.ia.create_evd(DAT_EVD_SOFTWARE_FLAG));
    freed_handles_[DAT_HANDLE_TYPE_CNO] = free_and_return_handle(eps.ia.create_cno());
    freed_handles_[DAT_HANDLE_TYPE_PZ] = free_and_return_handle(eps.ia.create_pz());
    freed_handles_[DAT_HANDLE_TYPE_IA] = open_and_close_ia();
}

DAT_HANDLE all_objects::live_handle(std::size_t type) const {
    switch (type) {
    case DAT_HANDLE_TYPE_IA:
        return eps.ia;
    case DAT_HANDLE_TYPE_EP:
        return idle_ep;
    case DAT_HANDLE_TYPE_EVD:
        return software_evd;
    case DAT_HANDLE_TYPE_LMR:
        return eps.lmr;
    case DAT_HANDLE_TYPE_PSP:
        return eps.psp;
    case DAT_HANDLE_TYPE_RSP:
        return rsp;
    case DAT_HANDLE_TYPE_CSP:
        return csp;
    case DAT_HANDLE_TYPE_PZ:
        return eps.pz;
    case DAT_HANDLE_TYPE_CNO:
        return eps.cno;
    case DAT_HANDLE_TYPE_SRQ:
        return srq;
    case DAT_HANDLE_TYPE_RMR:
        return rmr;
    default:
        return cr;
    }
}

DAT_HANDLE all_objects::object_address(std::size_t type) const {
    const DAT_HANDLE handle = live_handle(type);
    if (type != DAT_HANDLE_TYPE_IA)
        return handle;
    DAT_IA_HANDLE provider_ia = nullptr;
    require_success(EXPORTED(dats_get_ia_handle)(handle, &provider_ia));
    return provider_ia;
}

namespace {

constexpr std::array type_names = {"CR", "EP",  "EVD", "IA",  "LMR", "PSP",
                                   "PZ", "RMR", "RSP", "CNO", "SRQ", "CSP"};
static_assert(type_names.size() == all_objects::num_types);

struct alignas(64) cache_line {
    std::uintptr_t words[8];
};

DAT_HANDLE handle_with_value(std::uintptr_t value) {
    return reinterpret_cast<DAT_HANDLE>(value);
}

/// A page that stays unreadable. One that was unmapped could be mapped again.
char *unreadable_page() {
    static void *const page_address =
        mmap(nullptr, page_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(page_address != MAP_FAILED, "mmap");
    return static_cast<char *>(page_address);
}

/// An address that the kernel has, on every machine.
DAT_HANDLE kernel_address() {
    return handle_with_value(~std::uintptr_t{63});
}

// Numbers from 1 are IAs.
void add_numeric_values(std::vector<bogus_handle> &bogus_list, std::size_t type) {
    if (type != DAT_HANDLE_TYPE_IA && type != all_objects::num_types)
        for (std::uintptr_t value = 1; value != 8; ++value)
            bogus_list.push_back({concat("the number ", value), handle_with_value(value)});
    for (const std::uintptr_t value :
         {std::uintptr_t{77}, std::uintptr_t{4095}, ~std::uintptr_t{0}})
        bogus_list.push_back({concat("the number ", value), handle_with_value(value)});
}

void add_other_objects(std::vector<bogus_handle> &bogus_list, const all_objects &objects,
                       std::size_t type) {
    for (std::size_t other_type = 0; other_type != all_objects::num_types; ++other_type) {
        if (type != all_objects::num_types && other_type != type) {
            bogus_list.push_back(
                {concat("a living ", type_names.at(other_type)), objects.live_handle(other_type)});
            if (other_type == DAT_HANDLE_TYPE_IA)
                bogus_list.push_back({"the address of an IA", objects.object_address(other_type)});
        }
        bogus_list.push_back(
            {concat("a freed ", type_names.at(other_type)), objects.freed_handle(other_type)});
    }
    std::erase_if(bogus_list, [](const bogus_handle &value) { return !value.handle; });
}

void add_unaligned_pointers(std::vector<bogus_handle> &bogus_list, char *object) {
    if (!object) // the provider has none of that kind
        return;
    for (const unsigned offset : {1U, 4U, 8U, 16U, 32U, 64U})
        bogus_list.push_back({concat("inside an object by ", offset), object + offset});
    bogus_list.push_back({"a byte before an object", object - 1});
}

} // namespace

std::vector<bogus_handle> readable_bogus_handles(const all_objects &objects, std::size_t type) {
    static cache_line zeros = {}, ones = {}, object_copy = {};
    for (std::uintptr_t &word : ones.words)
        word = ~std::uintptr_t{0};
    const std::size_t copied_type =
        type == all_objects::num_types ? std::size_t{DAT_HANDLE_TYPE_EP} : type;
    auto *const object = static_cast<char *>(objects.object_address(copied_type));
    // As much of it as a registry and a provider look at: its table and its tag.
    if (object)
        std::memcpy(object_copy.words, object, 2 * sizeof object_copy.words[0]);
    std::vector<bogus_handle> bogus_list = {
        {"the stack", const_cast<std::uintptr_t *>(objects.zeros.data())},
        {"zeros", &zeros},
        {"ones", &ones},
        {"a copy of an object", &object_copy},
        {"memory of the program", stray_handle()},
        {"unreadable memory, not aligned", unreadable_page() + 8},
    };
    add_numeric_values(bogus_list, type);
    add_other_objects(bogus_list, objects, type);
    add_unaligned_pointers(bogus_list, object);
    // The handle of an IA is a number, and may be aligned like an object, but is not readable.
    std::erase_if(bogus_list, [](const bogus_handle &value) {
        const auto number = reinterpret_cast<std::uintptr_t>(value.handle);
        return number < page_size && number % sizeof(cache_line) == 0;
    });
    return bogus_list;
}

std::vector<bogus_handle> bogus_handles(const all_objects &objects, std::size_t type) {
    std::vector<bogus_handle> bogus_list = readable_bogus_handles(objects, type);
    bogus_list.push_back({"unreadable memory", unreadable_page()});
    bogus_list.push_back({"an address of the kernel", kernel_address()});
    return bogus_list;
}

} // namespace conform
