// Taking turns over pipes; see benchmark_program.h for the other end.
#include "bench/interleaved.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <thread>

#include "properties/subjects/child_process.h"
#include "reference/error.h"

namespace kvconform::bench {
namespace {

constexpr auto kPatience = std::chrono::minutes(5);
constexpr std::size_t kLongestLine = 4096;

std::string quoted_word(const std::string& word) {
  std::string out = "'";
  for (char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

/// One benchmark program that waits for its turns.
class Player {
 public:
  Player(const std::filesystem::path& program, const std::string& name,
         const std::atomic<bool>* stop)
      : program_(program),
        child_(fmt::format("exec {} --turns {}", quoted_word(program.string()), quoted_word(name)),
               stop) {}

  /// Waits until the benchmark is prepared and verified.
  void wait_until_ready() {
    if (const std::string line = read(); line != "ready") nonsense(line);
  }

  /// CPU nanoseconds of so many runs.
  double turn(long runs) {
    child_.write(fmt::format("{}\n", runs));
    const std::string line = read();
    double value = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    if (error != std::errc() || end != line.data() + line.size() || !(value > 0)) nonsense(line);
    return value;
  }

 private:
  std::string read() {
    try {
      return child_.read_line(kLongestLine, ChildProcess::Clock::now() + kPatience);
    } catch (const ChildFailure& failure) {
      throw HarnessError(
          "KV5003",
          fmt::format("{} {}: {}", program_.string(), failure.what(), child_.last_words()),
          "build both folders from this version or a later one");
    }
  }
  [[noreturn]] void nonsense(const std::string& line) const {
    throw HarnessError("KV5003", fmt::format("{} answered \"{}\"", program_.string(), line),
                       "build both folders from this version or a later one");
  }

  std::filesystem::path program_;
  ChildProcess child_;
};

/// Runs in a turn, so that it takes about as long as asked for; and at least 20 where that is no
/// more than ten times as long: what happens to one run of twenty shall be in every turn.
long runs_in_a_turn(Player& player, double seconds) {
  long runs = 1;
  for (;;) {
    const double took = player.turn(runs) * 1e-9;
    if (took > seconds / 4) {
      const double fitting = double(runs) * seconds / took;
      return std::max({1L, std::lround(fitting), std::min(20L, std::lround(10 * fitting))});
    }
    runs *= 4;
  }
}

struct Round {
  double before, after;
};

Round play_round(const std::filesystem::path& before, const std::filesystem::path& after,
                 const std::string& name, const Interleaving& options, bool after_first) {
  Player first(after_first ? after : before, name, options.stop);
  first.wait_until_ready();
  Player second(after_first ? before : after, name, options.stop);
  second.wait_until_ready();
  const long runs = runs_in_a_turn(first, options.seconds_a_turn);
  second.turn(runs);  // warm, as the first is
  std::vector<double> of_first, of_second;
  for (int turn = 0; turn < options.turns; turn += 2) {
    of_first.push_back(first.turn(runs));
    of_second.push_back(second.turn(runs));
    of_second.push_back(second.turn(runs));
    of_first.push_back(first.turn(runs));
  }
  const double one = median(of_first) / double(runs), other = median(of_second) / double(runs);
  return after_first ? Round{other, one} : Round{one, other};
}

double first_number_of(const char* file) {
  std::ifstream in(file);
  double value = -1;
  in >> value;
  return value;
}

std::string first_word_of(const char* file) {
  std::ifstream in(file);
  std::string word;
  in >> word;
  return word;
}

/// Share of all processor time since boot that a hypervisor gave to others.
double stolen_share() {
  std::ifstream in("/proc/stat");
  std::string cpu;
  in >> cpu;
  double all = 0, stolen = 0;
  for (int field = 0; field < 8; ++field) {  // user nice system idle iowait irq softirq steal
    double ticks = 0;
    in >> ticks;
    all += ticks;
    if (field == 7) stolen = ticks;
  }
  return all > 0 ? stolen / all : 0;
}

}  // namespace

TimeChange run_interleaved(const std::filesystem::path& before, const std::filesystem::path& after,
                           const std::string& name, const Interleaving& options) {
  std::vector<double> times_before, times_after;
  for (int i = 0; i < options.rounds; ++i) {
    const Round round = play_round(before, after, name, options, i % 2 == 1);
    times_before.push_back(round.before);
    times_after.push_back(round.after);
  }
  return paired_change(name, times_before, times_after);
}

std::vector<std::string> machine_warnings() {
  std::vector<std::string> warnings;
  const std::string governor =
      first_word_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (!governor.empty() && governor != "performance")
    warnings.push_back(fmt::format(
        "the clock frequency may change (governor {}): times of different runs differ by it",
        governor));
  const double load = first_number_of("/proc/loadavg");
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  if (load > 0.5 * cores)
    warnings.push_back(
        fmt::format("other programs are running: load {:.1f} on {} processors", load, cores));
  if (const double stolen = stolen_share(); stolen > 0.01)
    warnings.push_back(fmt::format(
        "a hypervisor has given {:.0f} % of the processor time to others", 100 * stolen));
  return warnings;
}

}  // namespace kvconform::bench
