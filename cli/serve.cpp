// serve: a built-in subject behind the subject protocol, on standard input and output.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "cli/command.h"
#include "properties/subject_registry.h"
#include "properties/subjects/protocol_server.h"
#include "reference/error.h"

namespace kvconform::cli {
namespace {

struct Options {
  std::string subject;
};

ExitCode serve_subject(const std::string& name) {
  if (name.rfind("process:", 0) == 0)
    throw Error("KV4017", "serve is for subjects of this program, and " + name + " is not one",
                "start that program itself; kvconform doctor lists the subjects");
  serve(make_subject_here(name), std::cin, std::cout);
  return ExitCode::conforms;
}

}  // namespace

Action add_serve(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  app.add_option("SUBJECT", options->subject, "a subject of this program, e.g. reference")
      ->required();
  return [options] { return serve_subject(options->subject); };
}

}  // namespace kvconform::cli
