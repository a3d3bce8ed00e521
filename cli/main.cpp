// The program: finds the command, parses its options, runs it, and turns whatever happens into one
// of the exit codes of command.h. Errors go to standard error as
//
//   error KV1003: sliding_window is -1
//     remedy: give a window of at least 1
#include <CLI/CLI.hpp>
#include <csignal>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/version.h"
#include "cli/words.h"
#include "properties/subject.h"
#include "properties/subject_registry.h"
#include "properties/temporary_folder.h"
#include "reference/error.h"

namespace kvconform::cli {
namespace {

using Words = std::vector<std::string>;

std::string general_help() {
  std::string text =
      "kvconform: conformance and differential testing of transformer models whose layers share\n"
      "keys and values\n\nUsage: kvconform COMMAND [OPTIONS]\n\nCommands:\n";
  for (const Command& command : commands())
    text += fmt::format("  {:<16} {}\n", command.name, command.summary);
  text += fmt::format("  {:<16} {}\n", "test [--all]",
                      "run the project's own tests (a command of the launcher ./kvconform)");
  return text +
         "\nkvconform COMMAND --help shows the options and an example; kvconform --version the "
         "version.\n";
}

Words command_names() {
  Words names;
  for (const Command& command : commands()) names.emplace_back(command.name);
  return names;
}

// Names of the commands that begin with `word` and have a second word: "golden" -> verify, list, …
Words second_words(const std::string& word) {
  Words seconds;
  for (const std::string& name : command_names())
    if (name.rfind(word + " ", 0) == 0) seconds.push_back(name.substr(word.size() + 1));
  return seconds;
}

const Command* find_command(const std::string& name) {
  for (const Command& command : commands())
    if (command.name == name) return &command;
  return nullptr;
}

[[noreturn]] void unknown_command(const std::string& typed, const Words& choices,
                                  const std::string& after) {
  throw Error("KV4001", fmt::format("unknown command {}{}", typed, did_you_mean(typed, choices)),
              fmt::format("{} {}", after, listed(choices)));
}

bool asks_for_help(const std::string& word) {
  return word == "--help" || word == "-h" || word == "help";
}

// "golden --help": the commands that begin with golden.
std::string help_of_prefix(const std::string& first) {
  std::string text = fmt::format("Usage: kvconform {} COMMAND [OPTIONS]\n\nCommands:\n", first);
  for (const Command& command : commands())
    if (std::string(command.name).rfind(first + " ", 0) == 0)
      text += fmt::format("  {:<16} {}\n", command.name, command.summary);
  return text +
         fmt::format("\nkvconform {} COMMAND --help shows the options and an example.\n", first);
}

// Takes the one or two words of the command off the front of `words`.
const Command& take_command(Words& words) {
  const std::string first = words.front();
  words.erase(words.begin());
  if (const Command* command = find_command(first)) return *command;
  const Words seconds = second_words(first);
  if (seconds.empty()) unknown_command(first, command_names(), "the commands are");
  const std::string after = fmt::format("after {} comes one of", first);
  if (words.empty())
    throw Error("KV4001", fmt::format("{} needs a second word", first),
                after + " " + listed(seconds));
  const std::string second = words.front();
  words.erase(words.begin());
  if (const Command* command = find_command(first + " " + second)) return *command;
  unknown_command(second, seconds, after);
}

Words option_names(const CLI::App& app) {
  Words names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// CLI11's own messages, with our ids, hints and exit code.
Error explained(const CLI::App& app, const CLI::ParseError& error) {
  const std::string remedy = fmt::format("see {} --help", app.get_name());
  for (const std::string& word : app.remaining())
    if (word.size() > 1 && word[0] == '-') {
      const std::string name = word.substr(0, word.find('='));
      return Error("KV4002",
                   fmt::format("unknown option {} of {}{}", name, app.get_name(),
                               did_you_mean(name, option_names(app))),
                   remedy);
    }
  if (!app.remaining().empty())
    return Error("KV4003",
                 fmt::format("{} does not take \"{}\"", app.get_name(), app.remaining()[0]),
                 remedy);
  return Error("KV4003", error.what(), remedy);
}

ExitCode run_command(const Command& command, Words words) {
  CLI::App app(command.summary, fmt::format("kvconform {}", command.name));
  app.footer(fmt::format("\nExample:\n  {}", command.example));
  const Action action = command.add(app);
  try {
    app.parse(Words(words.rbegin(), words.rend()));  // CLI11 takes the words last to first
  } catch (const CLI::CallForHelp&) {
    write_out(app.help());
    return ExitCode::conforms;
  } catch (const CLI::ParseError& error) {
    throw explained(app, error);
  }
  remove_stale_temporary_folders();
  return action();
}

ExitCode dispatch(Words words) {
  if (words.empty()) {
    write_error(general_help());
    return ExitCode::bad_input;
  }
  if (asks_for_help(words[0])) {
    write_out(general_help());
    return ExitCode::conforms;
  }
  if (words.size() > 1 && asks_for_help(words[1]) && !second_words(words[0]).empty()) {
    write_out(help_of_prefix(words[0]));
    return ExitCode::conforms;
  }
  if (words[0] == "test")
    throw Error("KV4001", "test is a command of the launcher, which builds the tests first",
                "run ./kvconform test in the project's folder");
  if (words[0] == "--version") {
    print("{}\n", version_text());
    return ExitCode::conforms;
  }
  if (words[0].rfind('-', 0) == 0)
    throw Error("KV4002",
                fmt::format("unknown option {}{}", words[0],
                            did_you_mean(words[0], {"--help", "--version"})),
                "options of a command come after it: kvconform COMMAND [OPTIONS]");
  const Command& command = take_command(words);
  return run_command(command, std::move(words));
}

ExitCode fail(const std::string& id, const std::string& problem, const std::string& remedy,
              ExitCode code) {
  write_error(fmt::format("{} {}: {}\n  remedy: {}\n",
                          coloured("error", Colour::red, Stream::error), id, problem, remedy));
  return code;
}

// Where this very file lies: its name may be relative, or found along PATH.
std::filesystem::path this_program() {
  std::error_code unknown;
  return std::filesystem::read_symlink("/proc/self/exe", unknown);
}

// Every way in which work can end, as an exit code.
template <typename Work>
ExitCode guarded(Work work) {
  try {
    return work();
  } catch (const HarnessError& error) {
    return fail(error.id(), error.problem(), error.remedy(), ExitCode::harness_failed);
  } catch (const Error& error) {
    return fail(error.id(), error.problem(), error.remedy(), ExitCode::bad_input);
  } catch (const SubjectInterrupted&) {
    return ExitCode::interrupted;
  } catch (const SubjectBroken& broken) {
    return fail("KV4013", fmt::format("the subject broke: {}", broken.what()),
                "run kvconform check on it to see where it breaks", ExitCode::subject_broke);
  } catch (const std::filesystem::filesystem_error& error) {
    return fail("KV4007", error.what(), "check that the path exists and may be read and written",
                ExitCode::bad_input);
  } catch (const std::bad_alloc&) {
    return fail("KV4090", "out of memory", "use fewer --jobs, a smaller model or fewer tokens",
                ExitCode::harness_failed);
  } catch (const std::exception& error) {
    return fail("KV4092", fmt::format("internal error: {}", error.what()),
                "please report it, with the command and the output of kvconform doctor",
                ExitCode::harness_failed);
  }
}

}  // namespace

int run(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that goes away ends the output, not the work
  const ExitCode code = guarded([&] { return dispatch(Words(argv + 1, argv + argc)); });
  const ExitCode output = guarded([] {
    finish_output();
    return ExitCode::conforms;
  });
  // The order 2, 5, 4, 1, 3: a wrong call stays a wrong call.
  const bool failed = output != ExitCode::conforms && code != ExitCode::bad_input;
  return static_cast<int>(failed ? output : code);
}

}  // namespace kvconform::cli

int main(int argc, char** argv) {
  kvconform::serve_subjects_with(kvconform::cli::this_program());
  return kvconform::cli::run(argc, argv);
}
