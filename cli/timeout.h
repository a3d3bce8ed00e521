// --timeout, of every command that may start a subject in another process.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/numbers.h"

namespace kvconform::cli {

inline void add_timeout(CLI::App& app, double& seconds) {
  app.add_option("--timeout", seconds, "seconds for one request of a process subject")
      ->check(positive_seconds("--timeout"))
      ->type_name("S")
      ->capture_default_str();
}

}  // namespace kvconform::cli
