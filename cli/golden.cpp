// golden: verify, list, record, approve, prune and export logits that must not change. The work is
// golden/golden.h's; asking before something is replaced is done here.
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/version.h"
#include "golden/approved_file.h"
#include "golden/golden.h"
#include "golden/reference_runner.h"
#include "reference/error.h"

namespace kvconform::cli {
namespace {

using Names = std::vector<std::string>;

Names all_recipe_names() {
  Names names;
  for (const Recipe& recipe : list_recipes()) names.push_back(recipe.name);
  return names;
}

// Nothing is replaced or removed without a yes, typed or given with --yes.
bool confirmed(bool yes, const std::string& question) {
  if (yes) return true;
  if (isatty(STDIN_FILENO) != 1)
    throw Error("KV4011", question + " needs a yes, and there is no terminal to ask on",
                "look at what changes, then add --yes");
  print("{}? [y/N] ", question);
  finish_output();
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "yes";
}

ExitCode verify(const std::string& filter) {
  const std::vector<GoldenResult> results = verify_all(reference_runner(), filter);
  std::size_t same = 0, failed = 0;
  for (const GoldenResult& result : results) {
    same += result.status == GoldenStatus::same;
    failed += result.status == GoldenStatus::failed;
    if (result.status != GoldenStatus::same) print("{}\n", result.message);
  }
  print("{} goldens, {} with the approved bits\n", results.size(), same);
  if (results.empty() && !filter.empty()) find_recipe(filter);  // throws: there is none
  if (results.empty()) return ExitCode::nothing_compared;
  if (failed > 0) return ExitCode::subject_broke;
  return same == results.size() ? ExitCode::conforms : ExitCode::violated;
}

ExitCode list() {
  for (const Recipe& recipe : list_recipes()) {
    const auto approved = read_golden(recipe.name, Stage::approved);
    print("{:<40} {:<16}  {}\n", recipe.name,
          approved ? approved->sha256.substr(0, 16) : "not approved", recipe.about);
  }
  return ExitCode::conforms;
}

ExitCode record_all(const Names& names) {
  for (const std::string& name : names) {
    const GoldenResult result = record(find_recipe(name), reference_runner(), commit());
    const bool same = result.status == GoldenStatus::same;
    print("{}{}\n", result.message, same ? "" : "; recorded as pending");
  }
  return ExitCode::conforms;
}

ExitCode approve_all(const Names& names, bool yes) {
  std::vector<PendingGolden> pending;
  if (names.empty()) pending = list_pending();
  for (const std::string& name : names) pending.push_back(find_pending(name));
  for (const PendingGolden& change : pending) print("{}\n", change.message);
  if (pending.empty()) {
    print("nothing is pending\n");
    return ExitCode::conforms;
  }
  if (!confirmed(yes, fmt::format("approve {} goldens", pending.size()))) {
    print("nothing was approved\n");
    return ExitCode::conforms;
  }
  for (const PendingGolden& change : pending) approve(change.name);
  print("{} goldens approved\n", pending.size());
  return ExitCode::conforms;
}

ExitCode prune_files(bool yes) {
  const auto files = list_prunable();
  for (const auto& file : files) print("{}\n", file.string());
  if (!files.empty() && confirmed(yes, fmt::format("remove {} files", files.size())))
    print("{} files removed\n", prune().size());
  return ExitCode::conforms;
}

struct Options {
  Names names;
  std::string name, folder;
  bool all = false, yes = false;
};

}  // namespace

Action add_golden_verify(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("NAME", options->name, "only goldens whose name contains this");
  return [options] { return verify(options->name); };
}

Action add_golden_list(CLI::App&) {
  return list;
}

Action add_golden_record(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* names = app.add_option("NAME", options->names, "goldens to compute");
  auto* all = app.add_flag("--all", options->all, "every golden")->excludes(names);
  return [options, names, all] {
    if (names->empty() && all->empty())
      throw Error("KV4003", "golden record needs names", "name goldens, or add --all");
    return record_all(options->all ? all_recipe_names() : options->names);
  };
}

Action add_golden_approve(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("NAME", options->names, "goldens to approve (default: all that are pending)");
  app.add_flag("--yes", options->yes, "do not ask");
  return [options] { return approve_all(options->names, options->yes); };
}

Action add_golden_prune(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_flag("--yes", options->yes, "do not ask");
  return [options] { return prune_files(options->yes); };
}

Action add_golden_export(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("NAME", options->name, "the golden")->required();
  app.add_option("DIR", options->folder, "a new or empty folder")->required();
  return [options] {
    export_golden(find_recipe(options->name), reference_runner(), options->folder);
    return ExitCode::conforms;
  };
}

}  // namespace kvconform::cli
