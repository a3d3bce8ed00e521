// Taking turns over pipes; see benchmark_program.h for the other end.
#include "bench/interleaved.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <optional>
#include <thread>
#include <utility>

#include "properties/subjects/child_process.h"
#include "reference/counted.h"
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

/// While it lives, children start on one processor: the turn-th of those that we may use. Builds on
/// different processors are not measured by the same yardstick: on a shared machine one processor's
/// caches and its neighbours cost tens of percent more than another's, for seconds.
class OnOneProcessor {
 public:
  explicit OnOneProcessor(int turn) {
    known_ = sched_getaffinity(0, sizeof all_, &all_) == 0 && CPU_COUNT(&all_) > 0;
    if (!known_) return;
    int skip = turn % CPU_COUNT(&all_), processor = 0;
    while (!CPU_ISSET(processor, &all_) || skip-- > 0) ++processor;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    sched_setaffinity(0, sizeof one, &one);
  }
  ~OnOneProcessor() {
    if (known_) sched_setaffinity(0, sizeof all_, &all_);
  }
  OnOneProcessor(const OnOneProcessor&) = delete;
  OnOneProcessor& operator=(const OnOneProcessor&) = delete;

 private:
  cpu_set_t all_;
  bool known_;
};

/// Runs in a turn, so that it takes about as long as asked for.
long runs_in_a_turn(Player& player, double seconds) {
  long runs = 1;
  for (;;) {
    const double took = player.turn(runs) * 1e-9;
    if (took > seconds / 4) return std::max(1L, std::lround(double(runs) * seconds / took));
    runs *= 4;
  }
}

/// CPU nanoseconds a run of both, from turns A B B A.
std::pair<double, double> play(Player& first, Player& second, const Interleaving& options) {
  first.wait_until_ready();
  second.wait_until_ready();
  const long runs = runs_in_a_turn(first, options.seconds_a_turn);
  second.turn(runs);  // warm, as the first is
  double of_first = 0, of_second = 0;
  for (int turn = 0; turn < options.turns; turn += 2) {
    of_first += first.turn(runs);
    of_second += second.turn(runs);
    of_second += second.turn(runs);
    of_first += first.turn(runs);
  }
  const double all_runs = double(runs) * options.turns;
  return {of_first / all_runs, of_second / all_runs};
}

struct Round {
  double before, after;
};

/// Who begins changes from round to round, the processor every other round.
Round play_round(const std::filesystem::path& before, const std::filesystem::path& after,
                 const std::string& name, const Interleaving& options, int index) {
  const bool after_first = index % 2 == 1;
  std::optional<OnOneProcessor> placed(index / 2);
  Player first(after_first ? after : before, name, options.stop);
  Player second(after_first ? before : after, name, options.stop);
  placed.reset();
  const auto [of_first, of_second] = play(first, second, options);
  return after_first ? Round{of_second, of_first} : Round{of_first, of_second};
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
  for (int look = 1, rounds = options.rounds;; ++look, rounds *= 2) {
    for (int i = int(times_before.size()); i < rounds; ++i) {
      const Round round = play_round(before, after, name, options, i);
      times_before.push_back(round.before);
      times_after.push_back(round.after);
    }
    const TimeChange change = paired_change(name, times_before, times_after, options.looks);
    if (look >= options.looks || change.decides(options.gate)) return change;
  }
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
    warnings.push_back(fmt::format("other programs are running: load {:.1f} on {}", load,
                                   counted(cores, "processor")));
  if (const double stolen = stolen_share(); stolen > 0.01)
    warnings.push_back(fmt::format(
        "a hypervisor has given {:.0f} % of the processor time to others", 100 * stolen));
  return warnings;
}

}  // namespace kvconform::bench
