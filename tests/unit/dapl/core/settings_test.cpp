// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The environment variables of OFED by which QPs are tuned and messages are selected.

#include "fake/objects.hpp"
#include "fake/two_eps.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>

using namespace fake;

namespace {

struct expected_attr {
    ibv_mtu path_mtu;
    int timeout, hop_limit, traffic_class;
};

/// Of the QPs of both EPs; the passive side has the traffic class of the request.
void assert_attr(const expected_attr &expected) {
    const connected_eps eps;
    bool has_traffic_class = false;
    assert_int_equal(get_fabric().qps.size(), 2);
    for (const ibv_qp *qp : get_fabric().qps) {
        const ibv_qp_attr &attr = static_cast<const fake_qp *>(qp)->attr;
        assert_int_equal(attr.path_mtu, expected.path_mtu);
        assert_int_equal(attr.timeout, expected.timeout);
        assert_int_equal(attr.ah_attr.grh.hop_limit, expected.hop_limit);
        has_traffic_class |= attr.ah_attr.grh.traffic_class == expected.traffic_class;
    }
    assert_true(has_traffic_class);
}

void variables_change_qps(void **) {
    assert_attr({.path_mtu = IBV_MTU_512, .timeout = 18, .hop_limit = 3, .traffic_class = 0x60});
}

/// What is written to standard error in its lifetime. In the end it is.
class captured_stderr {
  public:
    captured_stderr()
        : file_(std::tmpfile())
        , old_fd_(dup(STDERR_FILENO)) {
        assert_true(file_ != nullptr && dup2(fileno(file_), STDERR_FILENO) == STDERR_FILENO);
    }
    captured_stderr(const captured_stderr &) = delete;
    captured_stderr &operator=(const captured_stderr &) = delete;
    ~captured_stderr() {
        dup2(old_fd_, STDERR_FILENO);
        std::fputs(text().c_str(), stderr);
        close(old_fd_);
        std::fclose(file_);
    }
    std::string text() const {
        std::string text(4096, '\0');
        text.resize(static_cast<std::size_t>(
            std::max<ssize_t>(pread(fileno(file_), text.data(), text.size(), 0), 0)));
        return text;
    }

  private:
    std::FILE *file_;
    int old_fd_;
};

void messages_say_what_happens(void **state) {
    {
        const connected_eps eps;
        get_fabric().injected.fail_always("ibv_create_qp", EIO);
        DAT_EP_HANDLE ep;
        assert_int_equal(dat().ep_create_func(eps.ia.handle, eps.ia.pz, DAT_HANDLE_NULL,
                                              DAT_HANDLE_NULL, DAT_HANDLE_NULL, nullptr, &ep),
                         DAT_CLASS_ERROR | DAT_INTERNAL_ERROR);
        get_fabric().injected.fail_none();
        ep_fixture unconnected(eps.ia);
        get_fabric().injected.fail_always("rdma_resolve_addr", ENETUNREACH);
        socket_address addr = parse_address("192.0.2.1");
        assert_success(dat().ep_connect_func(unconnected.handle, &addr.sa, 7, DAT_TIMEOUT_INFINITE,
                                             0, nullptr, DAT_QOS_BEST_EFFORT,
                                             DAT_CONNECT_DEFAULT_FLAG));
        wait_event(unconnected.connect_evd, DAT_CONNECTION_EVENT_UNREACHABLE);
        get_fabric().injected.fail_none();
    }
    const std::string text = static_cast<const captured_stderr *>(*state)->text();
    for (const char *part :
         {"DAPL_UCM_RETRY has no effect: rdma_cm connects\n",
          "connection from 192.0.2.1:", "connection to 192.0.2.1:7: Network is unreachable\n",
          "unexpected errno 5 (Input/output error) in "})
        assert_true(text.find(part) != std::string::npos);
}

void set_variables(const char *ack_timer, const char *mtu, const char *hop_limit,
                   const char *traffic_class) {
    setenv("DAPL_ACK_TIMER", ack_timer, 1);
    setenv("DAPL_IB_MTU", mtu, 1);
    setenv("DAPL_HOP_LIMIT", hop_limit, 1);
    setenv("DAPL_TCLASS", traffic_class, 1);
}

constexpr const char *DEFAULTS = "defaults"; ///< the argument of a process with invalid variables

// A process reads the variables once.
void invalid_variables_are_ignored(void **) {
    const pid_t child = fork();
    if (child == 0) {
        set_variables("32", "5000", "256", "0x");
        dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
        // The path: valgrind executes itself for the link.
        const std::string program = std::filesystem::read_symlink("/proc/self/exe");
        execl(program.c_str(), "settings_test", DEFAULTS, nullptr);
        _exit(EXIT_FAILURE);
    }
    int status = 0;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
}

void defaults_are_those_of_the_route(void **) {
    assert_attr({.path_mtu = IBV_MTU_1024, .timeout = 14, .hop_limit = 0, .traffic_class = 0});
}

} // namespace

int main(int argc, char **argv) {
    if (argc == 2 && std::string_view(argv[1]) == DEFAULTS) {
        const CMUnitTest tests[] = {TEST(defaults_are_those_of_the_route)};
        return run_cases(tests);
    }
    set_variables("18", "1000", "3", "0x60");
    setenv("DAPL_UCM_RETRY", "3", 1);
    setenv("DAPL_DBG_TYPE", "0xb", 1);
    captured_stderr errors; // the first message comes when the Provider is loaded
    CMUnitTest tests[] = {TEST(messages_say_what_happens), TEST(variables_change_qps),
                          TEST(invalid_variables_are_ignored)};
    tests[0].initial_state = &errors;
    return run_cases(tests);
}
