// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a function prints on stderr.
#pragma once

#include "cmocka.hpp"

#include <array>
#include <cstddef>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

/// Runs the function in a child, which must end with status 0; returns what it prints on stderr.
template <typename function_type>
std::string captured_stderr(const function_type &function) {
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(fds[1], STDERR_FILENO);
        close(fds[0]);
        function();
        _exit(0);
    }
    close(fds[1]);
    std::string text;
    std::array<char, 4096> buffer;
    for (ssize_t length; (length = read(fds[0], buffer.data(), buffer.size())) > 0;)
        text.append(buffer.data(), static_cast<std::size_t>(length));
    close(fds[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    return text;
}
