// golden: verify, list, record, approve, prune and export logits that must not change. The work is
// golden/golden.h's; asking before something is replaced is done here.
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/version.h"
#include "golden/approved_file.h"
#include "golden/golden.h"
#include "golden/golden_export.h"
#include "golden/numerics_kinds.h"
#include "reference/counted.h"
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

ExitCode verify(const std::string& filter, const std::string& subject) {
  std::vector<Numerics> numerics = golden_numerics();
  if (!subject.empty()) numerics = {numerics_of_subject(subject)};
  const std::vector<GoldenResult> results = verify_all(numerics, filter);
  std::size_t same = 0, failed = 0, passed = 0;
  for (const GoldenResult& result : results) {
    same += result.status == GoldenStatus::same;
    failed += result.status == GoldenStatus::failed;
    passed += passes(result.status);
    if (result.status != GoldenStatus::same) print("{}\n", result.message);
  }
  print("{}{}, {} with the approved bits\n", summary_of_causes(results),
        counted(results.size(), "result"), same);
  if (results.empty() && !filter.empty()) find_recipe(filter);  // throws: there is none
  if (failed > 0) return ExitCode::subject_broke;
  if (passed < results.size()) return ExitCode::violated;
  return same == 0 ? ExitCode::nothing_compared : ExitCode::conforms;
}

ExitCode list() {
  for (const Recipe& recipe : list_recipes()) {
    const auto approved = read_golden(recipe.name, Stage::approved);
    const ApprovedNumerics* reference = approved ? approved->find("reference-float32") : nullptr;
    print("{:<36} {:<16}  {}\n", recipe.name,
          reference ? reference->sha256.substr(0, 16) : "not approved", recipe.about);
  }
  return ExitCode::conforms;
}

ExitCode record_all(const Names& names) {
  for (const std::string& name : names) {
    for (const GoldenResult& result : record(find_recipe(name), golden_numerics(), commit()))
      print("{}\n", result.message);
    const bool pending = std::filesystem::exists(golden_json(name, Stage::pending));
    print("golden {}: {}\n", name, pending ? "recorded as pending" : "nothing to approve");
  }
  return ExitCode::conforms;
}

// Why numbers change is asked where there is somebody to ask.
std::string reason_for(const std::string& given, bool yes) {
  if (!given.empty() || yes || isatty(STDIN_FILENO) != 1) return given;
  print("why do they change (one line, kept with them)? ");
  finish_output();
  std::string reason;
  std::getline(std::cin, reason);
  return reason;
}

ExitCode approve_all(const Names& names, const std::string& reason, bool yes) {
  std::vector<PendingGolden> pending;
  if (names.empty()) pending = list_pending();
  for (const std::string& name : names) pending.push_back(find_pending(name));
  for (const PendingGolden& change : pending) print("{}\n", change.message);
  if (pending.empty()) {
    print("nothing is pending\n");
    return ExitCode::conforms;
  }
  if (!confirmed(yes, "approve " + counted(pending.size(), "golden"))) {
    print("nothing was approved\n");
    return ExitCode::conforms;
  }
  const std::string why = reason_for(reason, yes);
  for (const PendingGolden& change : pending) approve(change.name, why);
  print("{} approved\n", counted(pending.size(), "golden"));
  return ExitCode::conforms;
}

ExitCode prune_files(bool yes) {
  const auto files = list_prunable();
  for (const auto& file : files) print("{}\n", file.string());
  if (!files.empty() && confirmed(yes, "remove " + counted(files.size(), "file")))
    print("{} removed\n", counted(prune().size(), "file"));
  return ExitCode::conforms;
}

struct Options {
  Names names;
  std::string name, folder, subject, reason;
  bool all = false, yes = false;
};

}  // namespace

Action add_golden_verify(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("NAME", options->name, "only goldens whose name contains this");
  app.add_option("--subject", options->subject,
                 "who computes: reference, cuda:emulated, cuda:gpu (default: every kind's own)");
  return [options] { return verify(options->name, options->subject); };
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
  app.add_option("--reason", options->reason, "why the logits change; kept with them");
  app.add_flag("--yes", options->yes, "do not ask");
  return [options] { return approve_all(options->names, options->reason, options->yes); };
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
  options->subject = "reference";
  app.add_option("--subject", options->subject, "who computes the expected logits")
      ->capture_default_str();
  return [options] {
    export_golden(find_recipe(options->name), numerics_of_subject(options->subject),
                  options->folder);
    return ExitCode::conforms;
  };
}

}  // namespace kvconform::cli
