// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "driver_functions.hpp"

#include <cstdio>
#include <cstdlib>
#include <link.h>
#include <string>
#include <string_view>

namespace coherdma::interposer {
namespace {

/// A library that a package of a program has under another name, libibverbs-0123abcd.so.1 for
/// libibverbs.so.1, and may have loaded for itself only.
void *find_renamed(const char *file_name) noexcept {
    struct {
        std::string_view prefix; ///< "libibverbs"
        std::string path;        ///< of the library; "": it is not loaded
    } searched;
    searched.prefix = file_name;
    searched.prefix = searched.prefix.substr(0, searched.prefix.find('.'));
    // Only finds it: dlopen() in here would take the dynamic linker's locks in the wrong order.
    dl_iterate_phdr(
        [](dl_phdr_info *object, std::size_t, void *data) {
            auto &search = *static_cast<decltype(searched) *>(data);
            const std::string_view path = object->dlpi_name;
            const std::string_view name = path.substr(path.rfind('/') + 1);
            if (!name.starts_with(search.prefix) ||
                name.find_first_of("-.") != search.prefix.size()) // libmlx5, not libmlx5extra
                return 0;
            search.path = path;
            return 1;
        },
        &searched);
    void *const library = searched.path.empty() ? nullptr
                                                : dlopen(searched.path.c_str(),
                                                         RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    return library != nullptr ? library : RTLD_NEXT;
}

libibverbs_functions find_functions() noexcept {
    const symbol_table symbols("libibverbs.so.1");
    libibverbs_functions functions = {};
    symbols.find(functions.open_device, "ibv_open_device", "IBVERBS_1.1");
    symbols.find(functions.import_device, "ibv_import_device", "IBVERBS_1.10");
    symbols.find(functions.close_device, "ibv_close_device", "IBVERBS_1.1");
    symbols.find(functions.alloc_pd, "ibv_alloc_pd", "IBVERBS_1.1");
    symbols.find(functions.import_pd, "ibv_import_pd", "IBVERBS_1.10");
    symbols.find(functions.dealloc_pd, "ibv_dealloc_pd", "IBVERBS_1.1");
    symbols.find(functions.unimport_pd, "ibv_unimport_pd", "IBVERBS_1.10");
    symbols.find(functions.reg_mr, "ibv_reg_mr", "IBVERBS_1.1");
    symbols.find(functions.reg_mr_iova, "ibv_reg_mr_iova", "IBVERBS_1.7");
    symbols.find(functions.reg_mr_iova2, "ibv_reg_mr_iova2", "IBVERBS_1.8");
    symbols.find(functions.reg_dmabuf_mr, "ibv_reg_dmabuf_mr", "IBVERBS_1.12");
    symbols.find(functions.reg_mr_ex, "ibv_reg_mr_ex", "IBVERBS_1.15");
    symbols.find(functions.reg_buf_mr, "ibv_reg_buf_mr", "IBVERBS_1.17");
    symbols.find(functions.rereg_mr, "ibv_rereg_mr", "IBVERBS_1.1");
    symbols.find(functions.import_mr, "ibv_import_mr", "IBVERBS_1.10");
    symbols.find(functions.dereg_mr, "ibv_dereg_mr", "IBVERBS_1.1");
    symbols.find(functions.unimport_mr, "ibv_unimport_mr", "IBVERBS_1.10");
    symbols.find(functions.create_comp_channel, "ibv_create_comp_channel", "IBVERBS_1.0");
    symbols.find(functions.destroy_comp_channel, "ibv_destroy_comp_channel", "IBVERBS_1.0");
    symbols.find(functions.create_cq, "ibv_create_cq", "IBVERBS_1.1");
    symbols.find(functions.destroy_cq, "ibv_destroy_cq", "IBVERBS_1.1");
    symbols.find(functions.get_cq_event, "ibv_get_cq_event", "IBVERBS_1.1");
    symbols.find(functions.ack_cq_events, "ibv_ack_cq_events", "IBVERBS_1.1");
    symbols.find(functions.get_async_event, "ibv_get_async_event", "IBVERBS_1.1");
    symbols.find(functions.ack_async_event, "ibv_ack_async_event", "IBVERBS_1.1");
    symbols.find(functions.create_srq, "ibv_create_srq", "IBVERBS_1.1");
    symbols.find(functions.modify_srq, "ibv_modify_srq", "IBVERBS_1.1");
    symbols.find(functions.destroy_srq, "ibv_destroy_srq", "IBVERBS_1.1");
    symbols.find(functions.create_qp, "ibv_create_qp", "IBVERBS_1.1");
    symbols.find(functions.modify_qp, "ibv_modify_qp", "IBVERBS_1.1");
    symbols.find(functions.query_qp, "ibv_query_qp", "IBVERBS_1.1");
    symbols.find(functions.destroy_qp, "ibv_destroy_qp", "IBVERBS_1.1");
    symbols.find(functions.qp_to_qp_ex, "ibv_qp_to_qp_ex", "IBVERBS_1.6");
    symbols.find(functions.create_ah, "ibv_create_ah", "IBVERBS_1.1");
    symbols.find(functions.create_ah_from_wc, "ibv_create_ah_from_wc", "IBVERBS_1.1");
    symbols.find(functions.destroy_ah, "ibv_destroy_ah", "IBVERBS_1.1");
    symbols.find(functions.query_device, "ibv_query_device", "IBVERBS_1.1");
    symbols.find(functions.query_port, "ibv_query_port", "IBVERBS_1.1");
    symbols.find(functions.query_gid_ex, "_ibv_query_gid_ex", "IBVERBS_1.11");
    symbols.find(functions.query_gid, "ibv_query_gid", "IBVERBS_1.1");
    symbols.find(functions.query_pkey, "ibv_query_pkey", "IBVERBS_1.1");
    symbols.find(functions.query_srq, "ibv_query_srq", "IBVERBS_1.1");
    symbols.find(functions.resize_cq, "ibv_resize_cq", "IBVERBS_1.1");
    symbols.find(functions.attach_mcast, "ibv_attach_mcast", "IBVERBS_1.1");
    symbols.find(functions.detach_mcast, "ibv_detach_mcast", "IBVERBS_1.1");
    if (functions.open_device == nullptr) {
        std::fprintf(stderr, "coherdma: cannot observe this program: the functions of its "
                             "libibverbs are not found\n");
        std::_Exit(EXIT_FAILURE);
    }
    return functions;
}

} // namespace

symbol_table::symbol_table(const char *file_name) noexcept
    : library_(dlopen(file_name, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE)) {
    if (library_ == nullptr)
        library_ = find_renamed(file_name);
}

const libibverbs_functions &libibverbs() noexcept {
    static const libibverbs_functions functions = find_functions();
    return functions;
}

} // namespace coherdma::interposer
