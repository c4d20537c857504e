// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// libFuzzer: any descriptor that a peer may send to librpma is parsed or refused, and what is
// parsed is what it says.

#include <cstdint>
#include <cstdlib>
#include <librpma.h>

namespace {

void require(bool condition) {
    if (!condition)
        std::abort();
}

std::uint64_t get_little_endian(const unsigned char *bytes) {
    std::uint64_t value = 0;
    for (int i = 8; i-- != 0;)
        value = value << 8 | bytes[i];
    return value;
}

constexpr std::size_t SIZE_OFFSET = 8, USAGE_OFFSET = 20, MR_DESC_SIZE = 21;

void check_mr(const unsigned char *bytes, std::size_t length) {
    rpma_mr_remote *mr = nullptr;
    const int ret = rpma_mr_remote_from_descriptor(bytes, length, &mr);
    require((ret == 0) == (mr != nullptr));
    if (ret != 0) {
        require(ret == RPMA_E_INVAL || (ret == RPMA_E_NOSUPP && length >= MR_DESC_SIZE));
        return;
    }
    require(length >= MR_DESC_SIZE && bytes[USAGE_OFFSET] != 0);
    std::size_t size = 0;
    require(rpma_mr_remote_get_size(mr, &size) == 0 && size != 0 &&
            size == get_little_endian(bytes + SIZE_OFFSET));
    require(size - 1 <= UINT64_MAX - get_little_endian(bytes));
    int flush_type = 0;
    require(rpma_mr_remote_get_flush_type(mr, &flush_type) == 0);
    require(flush_type == (bytes[USAGE_OFFSET] & (RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY |
                                                  RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT)));
    require(rpma_mr_remote_delete(&mr) == 0 && mr == nullptr);
}

void check_peer_cfg(const unsigned char *bytes, std::size_t length) {
    rpma_peer_cfg *cfg = nullptr;
    const int ret = rpma_peer_cfg_from_descriptor(bytes, length, &cfg);
    require(ret == (length == 0 ? RPMA_E_INVAL : 0) && (ret == 0) == (cfg != nullptr));
    if (ret != 0)
        return;
    bool supported = bytes[0] == 0;
    require(rpma_peer_cfg_get_direct_write_to_pmem(cfg, &supported) == 0 &&
            supported == (bytes[0] != 0));
    unsigned char desc = 0xff;
    require(rpma_peer_cfg_get_descriptor(cfg, &desc) == 0 && desc == (supported ? 1 : 0));
    require(rpma_peer_cfg_delete(&cfg) == 0);
}

} // namespace

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
    // No line of the log for each invalid descriptor.
    rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED);
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *bytes, std::size_t size) {
    check_mr(bytes, size);
    check_peer_cfg(bytes, size);
    return 0;
}
