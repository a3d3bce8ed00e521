// What sharing brings: computed for models of real size, measured and counted for tiny ones.
#include "bench/report_sharing.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/counters.h"
#include "bench/model_cost.h"
#include "bench/plot.h"
#include "bench/report.h"
#include "reference/published_configs.h"

namespace kvconform::bench {
namespace {

constexpr int kBfloat16 = 2;
constexpr int kLongContext = 32768, kPrefill = 8192;

struct SizedModel {
  std::string name;
  ModelConfig config;
  std::vector<LayerPlan> plan;
};

std::vector<SizedModel> sized_models() {
  std::vector<SizedModel> models;
  for (const std::string& name : published_config_names()) {
    const ModelConfig config = parse_model_config(published_config(name));
    models.push_back({name, config, plan_layers(config)});
  }
  return models;
}

std::string tera(double value) {
  return fmt::format("{:.2f} T", value * 1e-12);
}

std::vector<std::string> figures_of(const SizedModel& model) {
  const ModelCost cost(model.config, model.plan, kBfloat16);
  const double whole =
      cost.of({.tokens = kPrefill, .last_only = true, .skip = false}).multiply_adds;
  const double skipping = cost.of({.tokens = kPrefill, .last_only = true}).multiply_adds;
  const CallCost decode = cost.of({.past = kPrefill});
  return {model.name,
          fmt::format("{} instead of {}", bytes_text(cost.cache_bytes(kLongContext)),
                      bytes_text(cost.cache_bytes_unshared(kLongContext))),
          fmt::format("{} instead of {}", tera(skipping), tera(whole)),
          fmt::format("{} + {}", bytes_text(decode.weight_bytes + decode.table_bytes),
                      bytes_text(decode.cache_read_bytes + decode.cache_written_bytes))};
}

/// Names like reference/sharing/decode/gemma3n_text/layers:9/shared:3/context:256.
std::string after(const std::string& name, const std::string& part) {
  const std::size_t at = name.find(part);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + part.size();
  return name.substr(begin, name.find('/', begin) - begin);
}

std::string family_of(const std::string& name) {
  for (const char* family : {"gemma3n_text", "gemma4_text"})
    if (name.find(family) != std::string::npos) return family;
  return "";
}

Table timed_table(const Results& results) {
  Table table{{"model", "call", "layers that share", "time", "of no sharing", "cache bytes",
               "bytes needed"},
              {},
              2};
  double unshared = 0;
  std::string last_kind;
  for (const char* kind : {"decode", "prefill"})
    for (const char* family : {"gemma3n_text", "gemma4_text"})
      for (const Entry* entry :
           results.starting_with(fmt::format("reference/sharing/{}/{}", kind, family))) {
        if (!entry->error.empty()) continue;
        if (after(entry->name, "shared:") == "0") unshared = entry->cpu_nanoseconds;
        table.rows.push_back(
            {family_of(entry->name), kind, after(entry->name, "shared:") + " of 9",
             time_text(entry->cpu_nanoseconds), percent_text(entry->cpu_nanoseconds / unshared),
             bytes_text(entry->counter(kCacheBytes)), bytes_text(entry->counter(kBytesNeeded))});
      }
  return table;
}

/// Size deep only: minutes.
Table real_size_table(const Results& results) {
  Table table{
      {"gemma3n-e2b, call", "layers that share", "time", "cache bytes", "bytes needed"}, {}, 2};
  for (const char* kind : {"decode", "prefill"})
    for (const Entry* entry : results.starting_with(fmt::format("reference/real_size/{}/", kind)))
      if (entry->error.empty())
        table.rows.push_back(
            {kind + ("/" + entry->name.substr(entry->name.rfind('/') + 1)),
             after(entry->name, "shared:") + " of 30", time_text(entry->cpu_nanoseconds),
             bytes_text(entry->counter(kCacheBytes)), bytes_text(entry->counter(kBytesNeeded))});
  return table;
}

Table counted_table(const Results& results) {
  Table table{{"model", "call", "layers that share", "consumers skipped", "multiply-adds",
               "time of the emulation", "bytes read", "written", "launches", "cache bytes"},
              {},
              2};
  for (const char* kind : {"decode", "prefill"})
    for (const Entry* entry : results.starting_with(fmt::format("cuda/sharing/{}", kind))) {
      if (!entry->error.empty()) continue;
      const std::string skip = after(entry->name, "skip:");
      table.rows.push_back({family_of(entry->name), kind, after(entry->name, "shared:") + " of 9",
                            skip.empty()  ? "-"
                            : skip == "1" ? "yes"
                                          : "no",
                            fmt::format("{:.2f} M", entry->counter(kMultiplyAdds) * 1e-6),
                            time_text(entry->cpu_nanoseconds),
                            bytes_text(entry->counter(kBytesRead)),
                            bytes_text(entry->counter(kBytesWritten)),
                            fmt::format("{:.0f}", entry->counter(kLaunches)),
                            bytes_text(entry->counter(kCacheBytes))});
    }
  return table;
}

std::string cost_plot(const Results& results) {
  BarPlot plot{"Cost of a call by layers that share (reference, timed)",
               "time relative to no sharing",
               {},
               0};
  for (const char* kind : {"decode", "prefill"}) {
    double unshared = 0;
    for (const Entry* entry :
         results.starting_with(fmt::format("reference/sharing/{}/gemma3n_text", kind))) {
      const std::string shared = after(entry->name, "shared:");
      if (shared == "0") unshared = entry->cpu_nanoseconds;
      if (!(unshared > 0)) continue;
      const double ratio = entry->cpu_nanoseconds / unshared;
      plot.bars.push_back(
          {fmt::format("{}, {} of 9 share", kind, shared), ratio, fmt::format("{:.2f}", ratio)});
    }
  }
  return svg(plot);
}

std::string skip_plot(const Results& results) {
  BarPlot plot{"Prefill of 16 tokens: bytes moved (CUDA engine, counted)", "bytes", {}, 0};
  for (const Entry* entry : results.starting_with("cuda/sharing/prefill/gemma3n_text")) {
    const double moved = entry->counter(kBytesRead) + entry->counter(kBytesWritten);
    plot.bars.push_back(
        {fmt::format("{} of 9 share, {}", after(entry->name, "shared:"),
                     after(entry->name, "skip:") == "1" ? "consumers skipped" : "all layers"),
         moved, bytes_text(moved)});
  }
  return svg(plot);
}

std::string cache_plot() {
  BarPlot plot{"Keys and values of 32,768 tokens, bfloat16 (computed)", "bytes", {}, 0};
  for (const SizedModel& model : sized_models()) {
    const ModelCost cost(model.config, model.plan, kBfloat16);
    const double shared = cost.cache_bytes(kLongContext);
    const double unshared = cost.cache_bytes_unshared(kLongContext);
    plot.bars.push_back({model.name + ", as it is", shared, bytes_text(shared)});
    plot.bars.push_back({model.name + ", without sharing", unshared, bytes_text(unshared)});
  }
  return svg(plot);
}

}  // namespace

std::string bytes_text(double bytes) {
  if (bytes < 1e4) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1e6) return fmt::format("{:.1f} KB", bytes / 1e3);
  if (bytes < 1e9) return fmt::format("{:.1f} MB", bytes / 1e6);
  return fmt::format("{:.2f} GB", bytes / 1e9);
}

std::string time_text(double nanoseconds) {
  if (nanoseconds < 1e3) return fmt::format("{:.0f} ns", nanoseconds);
  if (nanoseconds < 1e6) return fmt::format("{:.1f} µs", nanoseconds / 1e3);
  if (nanoseconds < 1e9) return fmt::format("{:.2f} ms", nanoseconds / 1e6);
  return fmt::format("{:.2f} s", nanoseconds / 1e9);
}

std::string percent_text(double ratio) {
  return fmt::format("{:.0f} %", 100 * ratio);
}

Table sharing_figures() {
  Table table{{"model (bfloat16)", "cache of 32,768 tokens", "multiply-adds to prefill 8,192",
               "bytes of a decoded token behind them: weights + cache"},
              {},
              1};
  for (const SizedModel& model : sized_models()) table.rows.push_back(figures_of(model));
  return table;
}

Section computed_sharing() {
  Section section{"What sharing brings: models of real size", {}, {cache_plot()}, {}};
  section.sentences = {
      "Computed from the published configurations; nothing here is timed. Cache: with sharing, "
      "instead of one in which every layer keeps its own keys and values. Prefill for the next "
      "token: rows whose logits nobody reads skip the layers above the last owner, instead of "
      "running through all layers. "
      "A decoded token reads each weight once, and what it sees of the cache once a layer."};
  section.tables = {sharing_figures()};
  return section;
}

Section measured_sharing(const Results& results) {
  Section section{"What sharing brings: nine layers, 0, 3 and 6 of them consumers", {}, {}, {}};
  section.plots = {cost_plot(results), skip_plot(results)};
  section.sentences = {
      "First table: the CPU reference, timed once (it runs all layers for every token); where "
      "other "
      "programs are running, a row may be off by tens of percent. Second table: "
      "the CUDA engine on emulated threads, counted, with and without skipping the layers above "
      "the last owner for rows whose logits nobody asked for; its time is what the emulation took, "
      "once, and no kernel's. Size deep adds a model of real size, with the reference, in bfloat16 "
      "and with a vocabulary of 4,096."};
  section.tables = {timed_table(results), counted_table(results)};
  if (const Table table = real_size_table(results); !table.rows.empty())
    section.tables.push_back(table);
  return section;
}

}  // namespace kvconform::bench
