// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// libFuzzer: any types and strings of BTF, and any segments of /proc/kcore, are read or refused.

#include "coherency/kernel/btf.hpp"
#include "coherency/kernel/memory.hpp"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <linux/btf.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

using namespace coherdma::coherency;

namespace {

template <typename T>
std::string bytes_of(const T &value, std::size_t size = sizeof(T)) {
    return {reinterpret_cast<const char *>(&value), size};
}

// The first byte says how much of the text is types.
void search_btf(std::string_view text) {
    constexpr std::size_t HEADER_SIZE = offsetof(btf_header, str_len) + sizeof(__u32);
    btf_header header = {};
    header.magic = BTF_MAGIC;
    header.version = BTF_VERSION;
    header.hdr_len = HEADER_SIZE;
    header.type_len = static_cast<__u32>(text.size() * static_cast<unsigned char>(text[0]) / 256);
    header.str_off = header.type_len;
    header.str_len = static_cast<__u32>(text.size()) - header.str_off + 1;
    const std::string bytes = bytes_of(header, HEADER_SIZE) + std::string(text) + '\0';
    btf_name names[] = {
        {.type = "device", .name = "kobj"},
        {.type = "kernfs_node", .name = "dir"},
        {.type = "struct_device_flags", .name = "DEV_FLAG_DMA_COHERENT"},
    };
    if (!find_in_btf(bytes, names))
        return;
    for (const btf_name &name : names) {
        if (name.result == btf_name::search_result::no_type && name.value != 0)
            std::abort();
    }
}

// The first byte is the number of segments.
void read_memory(std::string_view text) {
    Elf64_Ehdr header = {};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_type = ET_CORE;
    header.e_phoff = sizeof header + 1;
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = static_cast<unsigned char>(text[0]);
    const std::string bytes = bytes_of(header) + std::string(text);
    const int fd = memfd_create("kcore", MFD_CLOEXEC);
    if (fd < 0 || write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
        std::abort();
    const kernel_memory memory("/proc/self/fd/" + std::to_string(fd));
    for (const std::uint64_t address :
         {std::uint64_t{0}, std::uint64_t{0xffff800000000000}, ~std::uint64_t{0}}) {
        std::uint64_t value = 0;
        if (memory.read(address, value) && !memory.is_open())
            std::abort();
    }
    close(fd);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *bytes, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char *>(bytes), size);
    if (text.empty())
        return 0;
    search_btf(text);
    read_memory(text);
    return 0;
}
