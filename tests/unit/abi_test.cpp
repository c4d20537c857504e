// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The abi room with a libibverbs of every epoch, played: each is known for what it is, none is when
// a witness contradicts, and what is handed to it is what that release takes. Then with the real
// one of this machine.

#include "abi_data.hpp"
#include "played_verbs.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csetjmp>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <sstream>
#include <unistd.h>

extern "C" {
#include <cmocka.h>
}

using namespace coherdma::abi;

namespace {

const verbs_device_ops driver = {};
constexpr std::size_t v36 = 0, v44 = 1, v45 = 2, v49 = 3, v57 = 4, v59 = 5, v64 = 7;

// A line in a log of its own, for as long as it lives.
struct logged {
    char path[32] = "/tmp/abi_test.XXXXXX";
    explicit logged(const char *level) {
        close(mkstemp(path));
        setenv("VERBS_LOG_LEVEL", level, 1);
        setenv("VERBS_LOG_FILE", path, 1);
    }
    logged(const logged &) = delete;
    logged &operator=(const logged &) = delete;
    ~logged() {
        unlink(path);
        unsetenv("VERBS_LOG_LEVEL");
        unsetenv("VERBS_LOG_FILE");
    }
    [[nodiscard]] std::string words() const {
        std::ostringstream all;
        all << std::ifstream(path).rdbuf();
        return all.str();
    }
};

void every_epoch_is_known(void **) {
    for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
        play(epoch);
        assert_true(ready());
        assert_int_equal(static_cast<std::size_t>(here().which), epoch);
        assert_true(enlist(driver));
        assert_ptr_equal(libibverbs.registered, &driver);
    }
}

// Nothing is called but what was asked for, and the words name the witness.
void refused(const std::string &witness) {
    const logged log("2");
    start_over(to_played);
    assert_false(enlist(driver));
    assert_false(ready());
    assert_null(libibverbs.registered);
    const std::string words = log.words();
    if (words.find("is not known") == std::string::npos || words.find(witness) == std::string::npos)
        fail_msg("not about %s: %s", witness.c_str(), words.c_str());
    assert_true(std::count(words.begin(), words.end(), '\n') == 1); // once, not for each device
}

void a_symbol_that_should_not_be(void **) {
    const auto symbols = symbol_data();
    for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
        for (const char *symbol :
             {"verbs_register_driver_34", "verbs_register_driver_57", "verbs_register_driver_59",
              "verbs_register_driver_64", "verbs_register_driver_65", "ibv_wr_opcode_str",
              "ibv_cmd_alloc_dmah", "ibv_cmd_reg_mr_ex", "ibv_dm_export_dmabuf_fd",
              "ibv_cmd_export_dmabuf_fd", "ibv_cmd_create_comp_cntr"}) {
            const bool there = std::strcmp(symbol, "ibv_dm_export_dmabuf_fd") == 0
                                   ? epoch >= 6
                                   : symbols.at(symbol)[epoch].has_value();
            if (there || (epoch == v45 && std::strcmp(symbol, "ibv_wr_opcode_str") == 0))
                continue; // with it 45 is 49, whole
            play(epoch);
            libibverbs.added = {symbol};
            refused(std::strncmp(symbol, "verbs_register", 14) == 0 ? ""
                    : std::strstr(symbol, "export") != nullptr      ? "export_dmabuf_fd"
                                                                    : symbol);
        }
    }
}

void a_symbol_that_should_be(void **) {
    const auto symbols = symbol_data();
    for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
        for (const char *symbol :
             {"ibv_import_dm", "ibv_query_qp_data_in_order", "ibv_wr_opcode_str",
              "ibv_cmd_alloc_dmah", "ibv_cmd_reg_mr_ex", "ibv_dm_export_dmabuf_fd",
              "ibv_cmd_export_dmabuf_fd", "ibv_cmd_create_comp_cntr"}) {
            const auto row = symbols.find(symbol);
            if ((row != symbols.end() && !row->second[epoch]) ||
                (epoch < 6 && std::strcmp(symbol, "ibv_dm_export_dmabuf_fd") == 0) ||
                (epoch == v49 && std::strcmp(symbol, "ibv_wr_opcode_str") == 0))
                continue; // without it 49 is 45, whole
            play(epoch);
            libibverbs.hidden = {symbol};
            refused(std::strstr(symbol, "export") != nullptr ? "export_dmabuf_fd" : symbol);
        }
    }
}

void another_comp_mask(void **) {
    const std::size_t of_v36 = layouts[v36].comp_mask;
    for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
        for (const std::size_t at : {of_v36 - 8, of_v36, of_v36 + 8, of_v36 + 16, of_v36 + 24}) {
            play(epoch);
            if (at == layouts[epoch].comp_mask ||
                (epoch <= v45 && at >= of_v36 && at <= of_v36 + 16))
                continue; // it is another of the three that only this tells apart
            libibverbs.comp_masks = {at};
            refused(epoch == v49 && at >= of_v36 ? "" : "ibv_qp_to_qp_ex"); // or it is nearly 36
        }
        play(epoch);
        libibverbs.comp_masks = {of_v36 - 4, layouts[epoch].comp_mask};
        refused("ibv_qp_to_qp_ex");
    }
}

void a_stranger(void **) {
    play(epochs - 1);
    libibverbs.hidden = {"verbs_register_driver_65"};
    refused("no verbs_register_driver is there");
}

void nothing_is_said_unasked(void **) {
    const logged log("1");
    play(v44);
    libibverbs.hidden = {"ibv_import_dm"};
    assert_false(ready());
    play(v44);
    libibverbs.hidden = {"verbs_register_driver_34"};
    assert_false(ready());
    play(v44);
    libibverbs.hidden = {"ibv_cmd_destroy_qp"};
    assert_false(ready());
    assert_true(log.words().empty());
}

void a_command_is_missing(void **) {
    const logged log("2");
    play(v44);
    libibverbs.hidden = {"ibv_cmd_destroy_qp"};
    assert_true(enlist(driver));
    assert_false(ready());
    assert_false(ready());
    assert_string_equal(log.words().c_str(), "coherdma: this libibverbs lacks ibv_cmd_destroy_qp; "
                                             "devices are left to other drivers\n");
    play(v44);
    assert_true(ready());
    assert_null(library().reg_mr_ex);
    play(v59);
    assert_true(ready());
    assert_non_null(library().reg_mr_ex);
}

template <class type>
type *at(std::uintptr_t number) {
    return reinterpret_cast<type *>(number * 16);
}

// Every argument is where the release looks for it, and what it does not know is not there.
void arguments(void **) {
    for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
        play(epoch);
        assert_true(ready());
        const auto are = [](std::vector<std::uintptr_t> wanted) {
            assert_true(libibverbs.arguments == wanted);
        };
        assert_int_equal(library().get_context(at<verbs_context>(1), at<int>(2), 3, at<int>(4), 5),
                         7);
        if (epoch < v57)
            are({16, 32, 3, 64, 5});
        else
            are({16, 32, 3, 0, 64, 5});
        assert_int_equal(library().create_cq_ex(at<ibv_context>(1), at<ibv_cq_init_attr_ex>(2),
                                                at<verbs_cq>(3), at<int>(4), 5, at<int>(6), 7, 8),
                         7);
        if (epoch < v59)
            are({16, 32, 48, 64, 5, 96, 7, 8});
        else
            are({16, 32, 0, 48, 64, 5, 96, 7, 8});
        assert_int_equal(library().create_qp_ex2(at<ibv_context>(1), at<verbs_qp>(2),
                                                 at<ibv_qp_init_attr_ex>(3), at<int>(4), 5,
                                                 at<int>(6), 7),
                         7);
        if (epoch < v64)
            are({16, 32, 48, 64, 5, 96, 7});
        else
            are({16, 32, 48, 64, 5, 96, 7, 0});
        assert_int_equal(library().reg_dmabuf_mr(at<ibv_pd>(1), 2, 3, 4, 5, 6, at<verbs_mr>(7)), 7);
        if (epoch < v57)
            are({16, 2, 3, 4, 5, 6, 112});
        else
            are({16, 2, 3, 4, 5, 6, 112, 0});
    }
}

struct own_context {
    ibv_context verbs;
    char own[1000];
};

int poll(ibv_cq *, int, ibv_wc *) {
    return 0;
}
void unimport(ibv_pd *) {}

void a_context_of_every_epoch(void **) {
    const auto data = layout_data(this_machine);
    ibv_device device = {};
    for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
        play(epoch);
        assert_true(ready());
        auto *const own = open_context<own_context>(&device, -1, 14);
        assert_non_null(own);
        assert_ptr_equal(own->verbs.device, &device);
        std::memset(own->own, 1, sizeof(own->own)); // all of it is ours
        operations able = {};
        able.poll_cq = poll;
        able.unimport_pd = unimport;
        set_operations(&own->verbs, able);
        const auto poll_at = *data.at("verbs_context_ops.poll_cq")[epoch] / 8;
        const auto last = *data.at("verbs_context_ops.sizeof")[epoch] / 8 - 1;
        assert_true(libibverbs.operations.at[poll_at] == reinterpret_cast<void (*)()>(poll));
        assert_true(libibverbs.operations.at[last] == reinterpret_cast<void (*)()>(unimport));
        close_context(&own->verbs);
        assert_int_equal(libibverbs.contexts, 0);
    }
}

void a_context_unlike_its_epoch(void **) {
    ibv_device device = {};
    std::strcpy(device.name, "some0");
    for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
        for (const std::size_t more : {8U, 16U, 128U}) {
            const logged log("1");
            play(epoch);
            libibverbs.more_context = more;
            assert_true(ready());
            errno = 0;
            assert_null(open_context(&device, -1, sizeof(ibv_context), 14));
            assert_int_equal(errno, EOPNOTSUPP);
            assert_int_equal(libibverbs.contexts, 0);
            assert_true(log.words().ends_with("another size of a context; some0 is not opened\n"));
        }
        const logged log("1");
        play(epoch);
        libibverbs.more_operations = 1;
        assert_true(ready());
        assert_null(open_context(&device, -1, sizeof(ibv_context), 14));
        assert_int_equal(libibverbs.contexts, 0);
        assert_non_null(std::strstr(log.words().c_str(), "another number of operations"));
    }
}

// Nothing is written to a queue pair but what its release has there.
void a_queue_pair_of_every_epoch(void **) {
    const newer_posts able = {at<void(ibv_qp_ex *, std::uint32_t, std::uint64_t, const void *)>(1),
                              at<void(ibv_qp_ex *, std::uint32_t, std::uint64_t, std::size_t,
                                      std::uint8_t, std::uint8_t)>(2)};
    const auto data = layout_data(this_machine);
    for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
        play(epoch);
        assert_true(ready());
        verbs_qp qp = {};
        std::array<std::uint64_t, sizeof(verbs_qp) / 8> wanted{}, got{};
        const auto expect = [&](const char *member, std::uint64_t value) {
            if (const auto there = data.at(member)[epoch])
                wanted[*there / 8] = value;
        };
        expect("ibv_qp_ex.wr_atomic_write", 16);
        expect("ibv_qp_ex.wr_flush", 32);
        expect("verbs_qp.comp_mask", 2);
        assert_null(to_played.extended(&qp.qp));
        extend(qp, able);
        std::memcpy(got.data(), &qp, sizeof(qp));
        assert_true(got == wanted);
        assert_non_null(to_played.extended(&qp.qp));
    }
}

void lines_of_a_log(void **) {
    const logged log("3");
    errno = 5;
    say(level::debug, "not this");
    say(level::info, "%d", 1);
    say(level::error, "%s", std::string(1000, 'x').c_str());
    say(level::warning, "after it");
    setenv("VERBS_LOG_FILE", "/dev/null/not", 1);
    say(level::error, "nowhere");
    assert_int_equal(errno, 5);
    assert_string_equal(
        log.words().c_str(),
        ("coherdma: 1\ncoherdma: " + std::string(500, 'x') + "\ncoherdma: after it\n").c_str());
}

// The real one: its file says the release.
void this_machines_own(void **) {
    start_over({find_symbol, ibv_qp_to_qp_ex});
    Dl_info file;
    char path[PATH_MAX];
    assert_true(dladdr(reinterpret_cast<void *>(ibv_qp_to_qp_ex), &file) != 0);
    assert_non_null(realpath(file.dli_fname, path));
    int release = 0;
    if (std::sscanf(std::strrchr(path, '/'), "/libibverbs.so.1.%*d.%d", &release) != 1) {
        print_message("# skipped: its file does not tell the release\n");
        skip();
    }
    assert_null(find_symbol("ibv_import_dm", "IBVERBS_9.9"));
    assert_true(ready());
    assert_null(dlerror()); // what was not found left nothing behind
    int first = 0, last = 0;
    if (std::sscanf(here().releases, "%d %*s %d", &first, &last) < 2)
        last = first;
    assert_true(first <= release && release <= last);
    verbs_device device = {};
    device.refcount = 1;
    auto *const own = open_context<own_context>(&device.device, -1, 14);
    assert_non_null(own);
    assert_int_equal(device.refcount, 2);
    operations able = {};
    able.poll_cq = poll;
    set_operations(&own->verbs, able);
    assert_ptr_equal(own->verbs.ops.poll_cq, poll);
    close_context(&own->verbs);
    assert_int_equal(device.refcount, 1);
    verbs_qp qp = {};
    assert_null(ibv_qp_to_qp_ex(&qp.qp));
    extend(qp, {});
    assert_ptr_equal(ibv_qp_to_qp_ex(&qp.qp), &qp);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(every_epoch_is_known),
        cmocka_unit_test(a_symbol_that_should_not_be),
        cmocka_unit_test(a_symbol_that_should_be),
        cmocka_unit_test(another_comp_mask),
        cmocka_unit_test(a_stranger),
        cmocka_unit_test(nothing_is_said_unasked),
        cmocka_unit_test(a_command_is_missing),
        cmocka_unit_test(arguments),
        cmocka_unit_test(a_context_of_every_epoch),
        cmocka_unit_test(a_context_unlike_its_epoch),
        cmocka_unit_test(a_queue_pair_of_every_epoch),
        cmocka_unit_test(lines_of_a_log),
        cmocka_unit_test(this_machines_own),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
