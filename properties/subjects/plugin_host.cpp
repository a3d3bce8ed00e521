// The process that a plugin runs in: a shared library with the interface of properties/plugin.h
// behind the protocol server, on the standard streams. What the library does to this process is its
// verdict.
//
//   plugin_host ./my_engine.so
#include <unistd.h>
#include <ext/stdio_filebuf.h>

#include <exception>
#include <iostream>

#include "properties/subjects/plugin_subject.h"
#include "properties/subjects/protocol_server.h"

namespace {

/// What the plugin prints is no message: standard output becomes standard error for it.
int take_standard_output() {
  const int own = dup(STDOUT_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  return own;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "plugin_host FILE.so\n";
    return 2;
  }
  __gnu_cxx::stdio_filebuf<char> buffer(take_standard_output(), std::ios::out);
  std::ostream replies(&buffer);
  try {
    kvconform::serve(kvconform::load_plugin(argv[1]), std::cin, replies);
    return 0;
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 2;
  }
}
