// The table of commands: the one list that dispatch, help and "did you mean" go by.
#include "cli/command.h"

namespace kvconform::cli {

const std::vector<Command>& commands() {
  static const std::vector<Command> all = {
      {"doctor", "show compilers, libraries, processor, GPU and which subjects can run here",
       "kvconform doctor", add_doctor},
  };
  return all;
}

}  // namespace kvconform::cli
