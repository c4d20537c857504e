// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Command line parsing with CLI11. Only cli.cpp includes CLI11, because each file that does takes
// five seconds longer to compile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace tools::cli {

/// Thrown by callbacks for an invalid command line; program::parse prints it.
struct usage_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// An option, flag or positional argument. The functions do the same as those of CLI::Option.
class option {
  public:
    /// Returns an error message for a value, or "".
    using validator = std::function<std::string(const std::string &)>;

    explicit option(CLI::Option *opt) noexcept
        : opt_(opt) {}

    option &type_name(const std::string &name);
    option &required();
    option &delimiter(char separator);
    option &allow_extra_args(bool allowed);
    option &hide(); ///< --help does not have it
    option &capture_default_str();
    option &excludes(const option &other);
    option &check(const validator &validate, const std::string &description = "");
    option &is_member(const std::vector<std::string> &values);
    option &range(int min, int max);
    /// Like check; the function may replace the value.
    option &transform(const std::function<std::string(std::string &)> &replace);
    [[nodiscard]] std::size_t count() const;

  private:
    CLI::Option *opt_;
};

/// A program or a subcommand. The functions do the same as those of CLI::App; besides, options
/// refuse an empty string, and a number that does not fit into 64 bits.
class command {
  public:
    explicit command(CLI::App *app) noexcept
        : app_(app) {}

    command add_subcommand(const std::string &name, const std::string &description);
    option add_flag(const std::string &name, bool &value, const std::string &description);
    option add_option(const std::string &name, std::string &value, const std::string &description);
    option add_option(const std::string &name, std::vector<std::string> &values,
                      const std::string &description);
    option add_option(const std::string &name, int &value, const std::string &description);
    option add_option(const std::string &name, std::int64_t &value, const std::string &description);
    option add_option(const std::string &name, std::uint64_t &value,
                      const std::string &description);
    option add_option(const std::string &name, double &value, const std::string &description);
    void callback(const std::function<void()> &function);
    void footer(const std::string &text);
    void prefix_command();
    /// How often the option was given.
    [[nodiscard]] std::size_t count(const std::string &name) const;
    [[nodiscard]] std::vector<std::string> remaining() const;

  protected:
    CLI::App *app_;
};

class program : public command {
  public:
    /// `version` is the output of --version, `column_width` the width of the option column in
    /// --help.
    program(const std::string &name, const std::string &description, const std::string &version,
            std::size_t column_width);
    ~program();
    program(const program &) = delete;
    program &operator=(const program &) = delete;

    /// Replaces CLI11's description of an option such as --help.
    void describe(const std::string &name, const std::string &description);

    /// Parses the arguments and runs the callbacks; without a subcommand, default_subcommand runs.
    /// Returns the exit status if the program must exit now: after --help, --version or an error.
    std::optional<int> parse(int argc, char **argv,
                             const std::optional<std::string> &default_subcommand = {});

  private:
    std::unique_ptr<CLI::App> owned_app_;
    std::string name_;
};

} // namespace tools::cli
