// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "provider_config/serving_provider.hpp"

#include <dlfcn.h>
#include <filesystem>
#include <link.h>
#include <unistd.h>

namespace tools::provider_config {
namespace {

/// The path of the shared object with the function; "" if unknown.
template <class Function>
std::string find_object_of(Function *function) {
    Dl_info info = {};
    return function && dladdr(reinterpret_cast<void *>(function), &info) != 0 ? info.dli_fname : "";
}

} // namespace

/// The path of the libibverbs.so.1 that this process loads; "" if there is none.
std::string find_libibverbs() {
    void *library = dlopen("libibverbs.so.1", RTLD_LAZY);
    link_map *map = nullptr;
    std::string path;
    if (library && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0)
        path = map->l_name;
    if (library)
        dlclose(library);
    return path;
}

std::string check_root(const std::string &root) {
    if (!std::filesystem::path(root).is_absolute())
        return "must be an absolute path, not '" + root + "'";
    std::error_code error;
    return std::filesystem::is_directory(root, error) ? "" : "there is no folder " + root;
}

doctor::host host_at_root(const std::string &root) {
    doctor::host machine;
    machine.root = root;
    machine.is_root = geteuid() == 0;
    machine.environment = doctor::read_environment();
    machine.libibverbs_path = find_libibverbs();
    return machine;
}

/// The paths of the program and the shared objects that it has loaded.
std::vector<std::string> list_loaded_objects() {
    std::vector<std::string> paths;
    dl_iterate_phdr(
        [](dl_phdr_info *object, std::size_t, void *data) {
            static_cast<std::vector<std::string> *>(data)->emplace_back(object->dlpi_name);
            return 0;
        },
        &paths);
    return paths;
}

/// The path of the provider plugin that has the data path functions of the context; "" if unknown.
std::string find_serving_plugin(const ibv_context &context) {
    // Functions that a plugin does not implement are libibverbs' own.
    const std::string libibverbs = find_object_of(ibv_get_device_list);
    const ibv_context_ops &ops = context.ops;
    for (const std::string &file :
         {find_object_of(ops.post_send), find_object_of(ops.post_recv), find_object_of(ops.poll_cq),
          find_object_of(ops.req_notify_cq)}) {
        if (!file.empty() && file != libibverbs)
            return file;
    }
    return "";
}

} // namespace tools::provider_config
