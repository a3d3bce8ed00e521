// However a checkpoint is written, the model is the same: any known name prefix, tensors of other
// towers, dead projections of consumers in whatever state, one file or many, a tied head stored
// again.
//
// Source: model-spec.md, section 2; mlx-lm #1158 and vLLM #54917 (projections demanded of
// consumers), tpu-inference #3299, transformers #45336; section 7 (prefixes that loaders do not
// map). Needs: score or cache, whichever the case uses. The weights are the same, and so are the
// calls: the same bits where a subject promises any.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>

#include "properties/case_choice.h"
#include "properties/equivalence.h"
#include "properties/gauge.h"
#include "properties/generated_property.h"
#include "properties/invariants/invariants.h"
#include "properties/model_draft.h"
#include "properties/temporary_folder.h"
#include "properties/transcript_comparison.h"
#include "reference/checkpoint_files.h"
#include "reference/safetensors.h"

namespace kvconform {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// A model as files that this property wrote itself.
class WrittenModel : public ModelSource {
 public:
  explicit WrittenModel(nlohmann::json config) : folder_("kvconform-model"), config_(config) {
    std::ofstream(folder_.path() / "config.json") << config.dump(2);
  }

  std::shared_ptr<const Checkpoint> checkpoint() const override {
    std::call_once(opened_, [&] { checkpoint_ = Checkpoint::open(config_, folder_.path()); });
    return checkpoint_;
  }
  std::filesystem::path weights_path() const override { return folder_.path(); }

  /// Adds a file and its tensors to the index.
  void add(const std::string& file, const TensorTable& table) {
    write_safetensors(folder_.path() / file, table, {{"format", "pt"}});
    for (const auto& [name, view] : table.tensors) index_[name] = file;
  }

  /// The same with zeros in a number format that no model here computes with.
  void add_odd(const std::string& file, const std::vector<std::string>& names, const char* dtype,
               int width) {
    nlohmann::json header = nlohmann::json::object();
    int offset = 0;
    for (const std::string& name : names) {
      header[name] = {
          {"dtype", dtype}, {"shape", {1, 2}}, {"data_offsets", {offset, offset + 2 * width}}};
      offset += 2 * width;
      index_[name] = file;
    }
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');  // data is aligned by spaces after the header
    const std::uint64_t length = text.size();
    std::ofstream out(folder_.path() / file, std::ios::binary);
    for (int byte = 0; byte < 8; ++byte) out.put(static_cast<char>(length >> (8 * byte) & 0xff));
    out << text << std::string(static_cast<std::size_t>(offset), '\0');
  }

  void finish() {
    const nlohmann::json index = {{"metadata", nlohmann::json::object()}, {"weight_map", index_}};
    std::ofstream(folder_.path() / "model.safetensors.index.json") << index.dump(2);
  }

 private:
  TemporaryFolder folder_;
  nlohmann::json config_;
  nlohmann::json index_ = nlohmann::json::object();
  mutable std::once_flag opened_;
  mutable std::shared_ptr<const Checkpoint> checkpoint_;
};

using Source = std::unique_ptr<ModelSource>;

bool has_consumers(const ModelDraft& draft) {
  const std::vector<LayerPlan> plan = draft.plan();
  return std::any_of(plan.begin(), plan.end(), [](const LayerPlan& l) { return !l.owns_keys(); });
}

std::vector<TensorSpec> dead_specs(const ModelDraft& draft) {
  std::vector<TensorSpec> dead = tensor_specs(draft.parsed(), draft.plan());
  std::erase_if(dead, [](const TensorSpec& spec) { return !spec.dead; });
  return dead;
}

void fill(TensorTable& table, const std::string& name, std::vector<std::int64_t> shape,
          float value) {
  auto* numbers = reinterpret_cast<float*>(table.add(name, Dtype::f32, std::move(shape)));
  std::fill_n(numbers, table.tensors[name].count(), value);
}

Source with_dead(ModelDraft draft, float value) {
  for (const TensorSpec& spec : dead_specs(draft)) {
    fill(draft.tensors(), draft.stored_name(spec.name), spec.shape, value);
  }
  return draft.source();
}

Source dead_ones(ModelDraft draft) {
  return with_dead(std::move(draft), 1);
}
Source dead_nan(ModelDraft draft) {
  return with_dead(std::move(draft), kNaN);
}

Source dead_of_another_shape(ModelDraft draft) {
  for (const TensorSpec& spec : dead_specs(draft)) {
    fill(draft.tensors(), draft.stored_name(spec.name), {2, 3}, 1);
  }
  return draft.source();
}

/// Integers, as a quantised export leaves them.
Source dead_integers(ModelDraft draft) {
  auto written = std::make_unique<WrittenModel>(draft.config());
  std::vector<std::string> names;
  for (const TensorSpec& spec : dead_specs(draft)) names.push_back(draft.stored_name(spec.name));
  written->add("model-00001-of-00002.safetensors", draft.tensors());
  written->add_odd("model-00002-of-00002.safetensors", names, "I32", 4);
  written->finish();
  return written;
}

/// Names under another prefix; the head stands where published files of that form have it.
Source renamed(const ModelDraft& draft, const std::string& prefix, const std::string& head) {
  TensorTable table = draft.tensors();
  std::map<std::string, TensorView> tensors;
  for (const auto& [name, view] : table.tensors) {
    tensors[name == "lm_head.weight" ? head : prefix + name.substr(6)] = view;  // after "model."
  }
  table.tensors = std::move(tensors);
  return model_in_memory(draft.config(), std::move(table));
}

Source published_prefix(ModelDraft draft) {
  return renamed(draft, "model.language_model.", "lm_head.weight");
}
Source older_prefix(ModelDraft draft) {
  return renamed(draft, "language_model.model.", "language_model.lm_head.weight");
}
Source no_prefix(ModelDraft draft) {
  return renamed(draft, "", "lm_head.weight");
}

/// Other towers have layers with the same inner names.
Source beside_other_towers(ModelDraft draft) {
  for (const char* name :
       {"model.vision_tower.encoder.layers.0.self_attn.k_proj.weight",
        "model.audio_tower.layers.0.norm.weight", "model.embed_vision.embedding_projection.weight",
        "model.embed_audio.embedding.weight"}) {
    fill(draft.tensors(), name, {3, 2}, kNaN);
  }
  return draft.source();
}

Source sharded(ModelDraft draft) {
  constexpr int shards = 3;
  auto written = std::make_unique<WrittenModel>(draft.config());
  std::vector<TensorTable> tables(shards);
  int next = 0;
  for (const auto& [name, view] : draft.tensors().tensors) {
    tables[next++ % shards].tensors[name] = view;  // neighbours lie in different files
  }
  for (int i = 0; i < shards; ++i) {
    written->add(fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards), tables[i]);
  }
  written->finish();
  return written;
}

Source head_stored_again(ModelDraft draft) {
  draft.tensors().tensors["lm_head.weight"] =
      draft.tensors().tensors.at(draft.stored_name("embed_tokens.weight"));
  return draft.source();
}

struct Writing {
  const char* description;
  bool (*applies)(const ModelDraft&);
  Source (*write)(ModelDraft);
};

bool any(const ModelDraft&) {
  return true;
}
bool tied(const ModelDraft& draft) {
  return draft.parsed().tie_word_embeddings;
}

constexpr Writing kWritings[] = {
    {"the dead projections of consumers are there", has_consumers, dead_ones},
    {"the dead projections of consumers are NaN", has_consumers, dead_nan},
    {"the dead projections of consumers have another shape", has_consumers, dead_of_another_shape},
    {"the dead projections of consumers are integers", has_consumers, dead_integers},
    {"names begin with model.language_model.", any, published_prefix},
    {"names begin with language_model.model.", any, older_prefix},
    {"names have no prefix", any, no_prefix},
    {"vision and audio towers stand beside the text model", any, beside_other_towers},
    {"the weights are spread over three files with an index", any, sharded},
    {"the tied head is stored again", tied, head_stored_again}};

class LoadTolerance : public GeneratedProperty {
 public:
  const char* name() const override { return "load-tolerance"; }
  const char* sentence() const override {
    return "However a checkpoint is written, the logits are the same: prefixes, towers, shards, "
           "dead projections.";
  }
  const char* source() const override {
    return "mlx-lm #1158, vLLM #54917, tpu-inference #3299, transformers #45336";
  }
  std::vector<std::string> needs() const override { return {}; }

  Verdict judge(const Case& test_case, Judgement& judgement) const override {
    return guarded(test_case, judgement, [&](const ModelConfig& config) {
      if (!is_generated(test_case)) {
        return Verdict{VerdictKind::not_applicable, "only models drawn here are written anew",
                       std::nullopt, 0, ""};
      }
      return judge_writing(test_case, judgement, config);
    });
  }

 protected:
  ModelWishes wishes() const override {
    ModelWishes wishes;
    wishes.consumers = true;
    wishes.dead_tensors = false;  // the property adds them
    return wishes;
  }
  std::vector<Call> calls(Draw& draw, const PromptBounds& bounds) const override {
    const bool score = draw.chance(50);
    if (score || !bounds.cache) return draw_score(draw, bounds);
    return draw_chunked_prompt(draw, bounds, 1);
  }

 private:
  static Verdict judge_writing(const Case& test_case, Judgement& judgement,
                               const ModelConfig& config) {
    const auto plain = with_dead_tensors(judgement.model, DeadTensors::absent);
    const ModelDraft draft = ModelDraft::of(*plain->checkpoint());
    const Writing* writing = choose_fitting(kWritings, test_case, "writing",
                                            [&](const Writing& w) { return w.applies(draft); });
    const auto written = writing->write(draft);
    const bool trace = wants_traces(judgement);
    const auto run = [&](const ModelSource& source) {
      const LoadedModel model(judgement.subject, source);
      return run_calls(judgement.subject, model.id(), test_case.calls, config.vocab_size, trace);
    };
    const Transcript expected = run(*plain);
    Verdict verdict;
    try {
      const Transcript seen = run(*written);
      Gauge gauge(*plain, judgement.subject.info().dtype, &judgement.yardstick);
      gauge.prepare(longest_histories(test_case.calls));
      const SamePlace same(expected, test_case.calls, !config.bidirectional_all);
      TranscriptComparison comparison = comparison_within(
          test_case, judgement, config, [&](const At& at) { return same.find(at); });
      comparison.gauge = &gauge;
      verdict = comparison.judge(seen);
    } catch (const SubjectRefusal& e) {
      if (e.kind == SubjectRefusal::Kind::unsupported) throw;
      verdict.kind = VerdictKind::differs;
      verdict.message = fmt::format("refused: {}", e.what());
    }
    if (verdict.kind == VerdictKind::differs) {
      verdict.message = fmt::format("where {}: {}", writing->description, verdict.message);
      verdict.cause = fmt::format("the loader does not cope where {}", writing->description);
    }
    return verdict;
  }
};

}  // namespace

std::unique_ptr<Property> load_tolerance() {
  return std::make_unique<LoadTolerance>();
}

}  // namespace kvconform
