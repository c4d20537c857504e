// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Detection of the libibverbs release, with a fake libibverbs of each release: each is recognized,
// each contradicting symbol or offset is refused, and the arguments are those that release takes.
// The last test uses the libibverbs of this machine.

#include "../cmocka.hpp"
#include "data.hpp"
#include "fake_verbs.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <rdma/ib_user_ioctl_verbs.h>
#include <sstream>
#include <unistd.h>

using namespace coherdma::abi;

namespace {

const verbs_device_ops driver_ops = {};
constexpr std::size_t v36 = 0, v44 = 1, v45 = 2, v49 = 3, v57 = 4, v59 = 5, v62 = 6, v64 = 7;

// Points VERBS_LOG_FILE at a temporary file during its lifetime.
struct temporary_log {
    char path[32] = "/tmp/abi_test.XXXXXX";
    explicit temporary_log(const char *level) {
        close(mkstemp(path));
        setenv("VERBS_LOG_LEVEL", level, 1);
        setenv("VERBS_LOG_FILE", path, 1);
    }
    temporary_log(const temporary_log &) = delete;
    temporary_log &operator=(const temporary_log &) = delete;
    ~temporary_log() {
        unlink(path);
        unsetenv("VERBS_LOG_LEVEL");
        unsetenv("VERBS_LOG_FILE");
    }
    [[nodiscard]] std::string text() const {
        std::ostringstream contents;
        contents << std::ifstream(path).rdbuf();
        return contents.str();
    }
};

void each_release_is_recognized(void **) {
    for (std::size_t version = 0; version < num_abi_versions; ++version) {
        use_release(version);
        assert_true(is_supported());
        assert_int_equal(static_cast<std::size_t>(current_layout().version), version);
        assert_true(register_driver(driver_ops));
        assert_ptr_equal(fake.registered, &driver_ops);
    }
}

// No driver is registered, and one message names the mismatching symbol.
void assert_refused(const std::string &mismatch) {
    const temporary_log log("2");
    reset_detection(fake_detection_functions);
    assert_false(register_driver(driver_ops));
    assert_false(is_supported());
    assert_null(fake.registered);
    const std::string text = log.text();
    if (text.find("unknown libibverbs") == std::string::npos ||
        text.find(mismatch) == std::string::npos)
        fail_msg("the message does not name %s: %s", mismatch.c_str(), text.c_str());
    assert_true(std::count(text.begin(), text.end(), '\n') == 1); // one message for all devices
}

// A libibverbs with a symbol that the release which it resembles does not have is an unknown one.
void unexpected_symbol_is_refused(void **) {
    const auto symbols = symbol_data();
    for (std::size_t version = 0; version < num_abi_versions; ++version) {
        for (const char *symbol :
             {"verbs_register_driver_34", "verbs_register_driver_57", "verbs_register_driver_59",
              "verbs_register_driver_64", "verbs_register_driver_65", "ibv_wr_opcode_str",
              "ibv_cmd_alloc_dmah", "ibv_cmd_reg_mr_ex", "ibv_dm_export_dmabuf_fd",
              "ibv_cmd_export_dmabuf_fd", "ibv_cmd_create_comp_cntr"}) {
            const bool present = std::strcmp(symbol, "ibv_dm_export_dmabuf_fd") == 0
                                     ? version >= v62
                                     : symbols.at(symbol)[version].has_value();
            if (present || (version == v45 && std::strcmp(symbol, "ibv_wr_opcode_str") == 0))
                continue; // v45 with this symbol is v49
            use_release(version);
            fake.added = {symbol};
            assert_refused(std::strncmp(symbol, "verbs_register", 14) == 0 ? ""
                           : std::strstr(symbol, "export") != nullptr      ? "export_dmabuf_fd"
                                                                           : symbol);
        }
    }
}

// A libibverbs without a symbol of the release which it resembles is an unknown one.
void missing_symbol_is_refused(void **) {
    const auto symbols = symbol_data();
    for (std::size_t version = 0; version < num_abi_versions; ++version) {
        for (const char *symbol :
             {"ibv_import_dm", "ibv_query_qp_data_in_order", "ibv_wr_opcode_str",
              "ibv_cmd_alloc_dmah", "ibv_cmd_reg_mr_ex", "ibv_dm_export_dmabuf_fd",
              "ibv_cmd_export_dmabuf_fd", "ibv_cmd_create_comp_cntr"}) {
            const auto row = symbols.find(symbol);
            if ((row != symbols.end() && !row->second[version]) ||
                (version < v62 && std::strcmp(symbol, "ibv_dm_export_dmabuf_fd") == 0) ||
                (version == v49 && std::strcmp(symbol, "ibv_wr_opcode_str") == 0))
                continue; // v49 without this symbol is v45
            use_release(version);
            fake.hidden = {symbol};
            assert_refused(std::strstr(symbol, "export") != nullptr ? "export_dmabuf_fd" : symbol);
        }
    }
}

// The detection finds the offset of verbs_qp.comp_mask by calls of ibv_qp_to_qp_ex(); an offset
// that is not that of the release means an unknown layout.
void comp_mask_offset_mismatch_is_refused(void **) {
    const std::size_t v36_offset = layouts[v36].comp_mask_offset;
    for (std::size_t version = 0; version < num_abi_versions; ++version) {
        for (const std::size_t offset :
             {v36_offset - 8, v36_offset, v36_offset + 8, v36_offset + 16, v36_offset + 24}) {
            use_release(version);
            if (offset == layouts[version].comp_mask_offset ||
                (version <= v45 && offset >= v36_offset && offset <= v36_offset + 16))
                continue; // v36, v44 and v45 differ in this offset only
            fake.comp_masks = {offset};
            assert_refused(version == v49 && offset >= v36_offset
                               ? ""
                               : "ibv_qp_to_qp_ex"); // v49 is then close to v36
        }
        use_release(version);
        fake.comp_masks = {v36_offset - 4, layouts[version].comp_mask_offset};
        assert_refused("ibv_qp_to_qp_ex");
    }
}

void unknown_release_is_refused(void **) {
    use_release(num_abi_versions - 1);
    fake.hidden = {"verbs_register_driver_65"};
    assert_refused("no verbs_register_driver symbol");
}

void log_level_error_hides_refusal(void **) {
    const temporary_log log("1");
    use_release(v44);
    fake.hidden = {"ibv_import_dm"};
    assert_false(is_supported());
    use_release(v44);
    fake.hidden = {"verbs_register_driver_34"};
    assert_false(is_supported());
    use_release(v44);
    fake.hidden = {"ibv_cmd_destroy_qp"};
    assert_false(is_supported());
    assert_true(log.text().empty());
}

void missing_command_leaves_devices_to_other_drivers(void **) {
    const temporary_log log("2");
    use_release(v44);
    fake.hidden = {"ibv_cmd_destroy_qp"};
    assert_true(register_driver(driver_ops));
    assert_false(is_supported());
    assert_false(is_supported());
    assert_string_equal(log.text().c_str(), "coherdma: libibverbs lacks ibv_cmd_destroy_qp; "
                                            "leaving devices to other providers\n");
    use_release(v44);
    assert_true(is_supported());
    assert_null(libibverbs().ibv_cmd_reg_mr_ex);
    use_release(v59);
    assert_true(is_supported());
    assert_non_null(libibverbs().ibv_cmd_reg_mr_ex);
}

template <class type>
type *fake_pointer(std::uintptr_t number) {
    return reinterpret_cast<type *>(number * 16);
}

// Each argument is at the position of the release; arguments unknown to the release are left out,
// and those unknown to the driver are 0. fake_pointer(n) has the address 16 * n; the fake commands
// return 7.
void command_arguments_match_release(void **) {
    for (std::size_t version = 0; version < num_abi_versions; ++version) {
        use_release(version);
        assert_true(is_supported());
        const auto assert_arguments = [](std::vector<std::uintptr_t> expected) {
            assert_true(fake.arguments == expected);
        };
        assert_int_equal(libibverbs().ibv_cmd_get_context(fake_pointer<verbs_context>(1),
                                                          fake_pointer<int>(2), 3,
                                                          fake_pointer<int>(4), 5),
                         7);
        if (version < v57)
            assert_arguments({16, 32, 3, 64, 5});
        else
            assert_arguments({16, 32, 3, 0, 64, 5});
        assert_int_equal(libibverbs().ibv_cmd_create_cq_ex(
                             fake_pointer<ibv_context>(1), fake_pointer<ibv_cq_init_attr_ex>(2),
                             fake_pointer<verbs_cq>(3), fake_pointer<int>(4), 5,
                             fake_pointer<int>(6), 7, 8),
                         7);
        if (version < v59)
            assert_arguments({16, 32, 48, 64, 5, 96, 7, 8});
        else
            assert_arguments({16, 32, 0, 48, 64, 5, 96, 7, 8});
        assert_int_equal(libibverbs().ibv_cmd_create_qp_ex2(
                             fake_pointer<ibv_context>(1), fake_pointer<verbs_qp>(2),
                             fake_pointer<ibv_qp_init_attr_ex>(3), fake_pointer<int>(4), 5,
                             fake_pointer<int>(6), 7),
                         7);
        if (version < v64)
            assert_arguments({16, 32, 48, 64, 5, 96, 7});
        else
            assert_arguments({16, 32, 48, 64, 5, 96, 7, 0});
        assert_int_equal(libibverbs().ibv_cmd_reg_dmabuf_mr(fake_pointer<ibv_pd>(1), 2, 3, 4, 5, 6,
                                                            fake_pointer<verbs_mr>(7)),
                         7);
        if (version < v57)
            assert_arguments({16, 2, 3, 4, 5, 6, 112});
        else
            assert_arguments({16, 2, 3, 4, 5, 6, 112, 0});
    }
}

struct test_context {
    ibv_context verbs;
    char driver_data[1000];
};

int poll(ibv_cq *, int, ibv_wc *) {
    return 0;
}
void unimport(ibv_pd *) {}

void operations_set_at_offsets_of_release(void **) {
    const auto data = layout_data(host_arch);
    ibv_device device = {};
    for (std::size_t version = 0; version < num_abi_versions; ++version) {
        use_release(version);
        assert_true(is_supported());
        auto *const context = init_and_alloc_context<test_context>(&device, -1, RDMA_DRIVER_RXE);
        assert_non_null(context);
        assert_ptr_equal(context->verbs.device, &device);
        std::memset(context->driver_data, 1, sizeof(context->driver_data));
        verbs_context_ops ops = {};
        ops.poll_cq = poll;
        ops.unimport_pd = unimport;
        set_ops(&context->verbs, ops);
        const auto poll_slot = *data.at("verbs_context_ops.poll_cq")[version] / 8;
        const auto last_slot = *data.at("verbs_context_ops.sizeof")[version] / 8 - 1;
        assert_true(fake.context_ops.ops[poll_slot] == reinterpret_cast<void (*)()>(poll));
        assert_true(fake.context_ops.ops[last_slot] == reinterpret_cast<void (*)()>(unimport));
        uninit_and_free_context(&context->verbs);
        assert_int_equal(fake.contexts, 0);
    }
}

void init_and_alloc_context_refuses_layout_mismatch(void **) {
    ibv_device device = {};
    std::strcpy(device.name, "some0");
    for (std::size_t version = 0; version < num_abi_versions; ++version) {
        for (const std::size_t extra : {8U, 16U, 128U}) {
            const temporary_log log("1");
            use_release(version);
            fake.more_context = extra;
            assert_true(is_supported());
            errno = 0;
            assert_null(init_and_alloc_context(&device, -1, sizeof(ibv_context), RDMA_DRIVER_RXE));
            assert_int_equal(errno, EOPNOTSUPP);
            assert_int_equal(fake.contexts, 0);
            assert_non_null(std::strstr(log.text().c_str(), "cannot open some0"));
            assert_true(log.text().ends_with("another size of verbs_context\n"));
        }
        const temporary_log log("1");
        use_release(version);
        fake.more_operations = 1;
        assert_true(is_supported());
        assert_null(init_and_alloc_context(&device, -1, sizeof(ibv_context), RDMA_DRIVER_RXE));
        assert_int_equal(fake.contexts, 0);
        assert_non_null(std::strstr(log.text().c_str(), "another number of operations"));
    }
}

// Only members of the release are written to the QP.
void set_qp_ex_ops_writes_only_members_of_release(void **) {
    const optional_wr_ops wr_ops = {
        fake_pointer<void(ibv_qp_ex *, std::uint32_t, std::uint64_t, const void *)>(1),
        fake_pointer<void(ibv_qp_ex *, std::uint32_t, std::uint64_t, std::size_t, std::uint8_t,
                          std::uint8_t)>(2)};
    const auto data = layout_data(host_arch);
    for (std::size_t version = 0; version < num_abi_versions; ++version) {
        use_release(version);
        assert_true(is_supported());
        verbs_qp qp = {};
        std::array<std::uint64_t, sizeof(verbs_qp) / 8> expected{}, actual{};
        const auto expect = [&](const char *member, std::uint64_t value) {
            if (const auto offset = data.at(member)[version])
                expected[*offset / 8] = value;
        };
        expect("ibv_qp_ex.wr_atomic_write", 16);
        expect("ibv_qp_ex.wr_flush", 32);
        expect("verbs_qp.comp_mask", 2);
        assert_null(fake_detection_functions.to_qp_ex(&qp.qp));
        set_qp_ex_ops(qp, wr_ops);
        std::memcpy(actual.data(), &qp, sizeof(qp));
        assert_true(actual == expected);
        assert_non_null(fake_detection_functions.to_qp_ex(&qp.qp));
    }
}

void log_truncates_lines_and_keeps_errno(void **) {
    const temporary_log log("3");
    errno = 5;
    verbs_log(log_level::debug, "hidden");
    verbs_log(log_level::info, "%d", 1);
    verbs_log(log_level::error, "%s", std::string(1000, 'x').c_str());
    verbs_log(log_level::warning, "next line");
    setenv("VERBS_LOG_FILE", "/dev/null/not", 1);
    verbs_log(log_level::error, "unwritable file");
    assert_int_equal(errno, 5);
    assert_string_equal(
        log.text().c_str(),
        ("coherdma: 1\ncoherdma: " + std::string(500, 'x') + "\ncoherdma: next line\n").c_str());
}

// The release is in the name of the library's file.
void installed_libibverbs_is_recognized(void **) {
    reset_detection({find_libibverbs_symbol, ibv_qp_to_qp_ex});
    Dl_info info;
    char path[PATH_MAX];
    assert_true(dladdr(reinterpret_cast<void *>(ibv_qp_to_qp_ex), &info) != 0);
    assert_non_null(realpath(info.dli_fname, path));
    int release = 0;
    if (std::sscanf(std::strrchr(path, '/'), "/libibverbs.so.1.%*d.%d", &release) != 1) {
        print_message("# skipped: no release in the name of the library's file\n");
        skip();
    }
    assert_null(find_libibverbs_symbol("ibv_import_dm", "IBVERBS_9.9"));
    assert_true(is_supported());
    assert_null(dlerror()); // a failed lookup leaves no error
    int first = 0, last = 0;
    if (std::sscanf(current_layout().releases, "%d %*s %d", &first, &last) < 2)
        last = first;
    assert_true(first <= release && release <= last);
    verbs_device device = {};
    device.refcount = 1;
    auto *const context = init_and_alloc_context<test_context>(&device.device, -1, RDMA_DRIVER_RXE);
    assert_non_null(context);
    assert_int_equal(device.refcount, 2);
    verbs_context_ops ops = {};
    ops.poll_cq = poll;
    set_ops(&context->verbs, ops);
    assert_ptr_equal(context->verbs.ops.poll_cq, poll);
    uninit_and_free_context(&context->verbs);
    assert_int_equal(device.refcount, 1);
    verbs_qp qp = {};
    assert_null(ibv_qp_to_qp_ex(&qp.qp));
    set_qp_ex_ops(qp, {});
    assert_ptr_equal(ibv_qp_to_qp_ex(&qp.qp), &qp);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(each_release_is_recognized),
        cmocka_unit_test(unexpected_symbol_is_refused),
        cmocka_unit_test(missing_symbol_is_refused),
        cmocka_unit_test(comp_mask_offset_mismatch_is_refused),
        cmocka_unit_test(unknown_release_is_refused),
        cmocka_unit_test(log_level_error_hides_refusal),
        cmocka_unit_test(missing_command_leaves_devices_to_other_drivers),
        cmocka_unit_test(command_arguments_match_release),
        cmocka_unit_test(operations_set_at_offsets_of_release),
        cmocka_unit_test(init_and_alloc_context_refuses_layout_mismatch),
        cmocka_unit_test(set_qp_ex_ops_writes_only_members_of_release),
        cmocka_unit_test(log_truncates_lines_and_keeps_errno),
        cmocka_unit_test(installed_libibverbs_is_recognized),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
