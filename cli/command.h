// What a command is: a name, a line for the list, an example for its help, and a function that adds
// its options to a parser and returns what runs once they are parsed.
//
// One thin file a command. A command reads options, calls the folder that does the work, prints and
// returns an exit code; arithmetic, judging and file formats live elsewhere. To add one: write its
// file, declare its `add_…` here and give it a line in commands.cpp.
#pragma once

#include <functional>
#include <vector>

namespace CLI {
class App;
}

namespace kvconform::cli {

/// Scripts rely on these numbers. When several apply, the order is 2, 5, 4, 1, 3.
enum class ExitCode : int {
  conforms = 0,
  violated = 1,
  bad_input = 2,
  nothing_compared = 3,
  subject_broke = 4,
  harness_failed = 5,
  interrupted = 130
};

using Action = std::function<ExitCode()>;

struct Command {
  const char* name;  ///< one word, or two ("golden verify")
  const char* summary;
  const char* example;
  Action (*add)(CLI::App& app);
};

/// Every command, in the order of the help.
const std::vector<Command>& commands();

Action add_check(CLI::App& app);
Action add_replay(CLI::App& app);
Action add_shrink(CLI::App& app);
Action add_plan(CLI::App& app);
Action add_score(CLI::App& app);
Action add_model_create(CLI::App& app);
Action add_golden_verify(CLI::App& app);
Action add_golden_list(CLI::App& app);
Action add_golden_record(CLI::App& app);
Action add_golden_approve(CLI::App& app);
Action add_golden_prune(CLI::App& app);
Action add_golden_export(CLI::App& app);
Action add_faults(CLI::App& app);
Action add_report_merge(CLI::App& app);
Action add_serve(CLI::App& app);
Action add_doctor(CLI::App& app);

}  // namespace kvconform::cli
