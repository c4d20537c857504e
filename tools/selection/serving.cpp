// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "selection/serving.hpp"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

namespace tools::selection {
namespace {

template <class function>
std::string file_with(function *code) {
    Dl_info about = {};
    return code && dladdr(reinterpret_cast<void *>(code), &about) != 0 ? about.dli_fname : "";
}

} // namespace

std::string find_libibverbs() {
    void *library = dlopen("libibverbs.so.1", RTLD_LAZY);
    link_map *facts = nullptr;
    std::string path;
    if (library && dlinfo(library, RTLD_DI_LINKMAP, &facts) == 0)
        path = facts->l_name;
    if (library)
        dlclose(library);
    return path;
}

doctor::host machine_at(const std::string &root) {
    doctor::host here;
    here.root = root;
    here.is_root = geteuid() == 0;
    here.environment = doctor::environment();
    here.library = find_libibverbs();
    return here;
}

std::vector<std::string> loaded_files() {
    std::vector<std::string> all;
    dl_iterate_phdr(
        [](dl_phdr_info *each, std::size_t, void *into) {
            static_cast<std::vector<std::string> *>(into)->emplace_back(each->dlpi_name);
            return 0;
        },
        &all);
    return all;
}

std::string serving_file(const ibv_context &context) {
    // What a plugin does not have is libibverbs' own, and only says that.
    const std::string own = file_with(ibv_get_device_list);
    const ibv_context_ops &has = context.ops;
    for (const std::string &file : {file_with(has.post_send), file_with(has.post_recv),
                                    file_with(has.poll_cq), file_with(has.req_notify_cq)}) {
        if (!file.empty() && file != own)
            return file;
    }
    return "";
}

} // namespace tools::selection
