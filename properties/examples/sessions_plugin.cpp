// A plugin in C++ with every kind of session: what to start from for an engine with a cache. Its
// "model" is a hash of the tokens so far, and a row's cache is those tokens; put an engine's in
// their place.
//
//     g++ -std=c++20 -shared -fPIC -I properties properties/examples/sessions_plugin.cpp -o
//     sessions.so
//
// No exception leaves a function: guarded() turns it into a status. SESSIONS_PLUGIN_CRASH=1 makes
// every second extend crash, which shows what a crash looks like in a report.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "plugin.h"

namespace {

using Tokens = std::vector<std::int32_t>;

struct Model {
  std::int32_t vocab = 0;
};

struct Session {
  const Model* model = nullptr;
  std::int32_t capacity = 0;
  std::vector<Tokens> rows;
};

struct Invalid : std::runtime_error {
  using std::runtime_error::runtime_error;
};

int say(kv_message* message, int status, const char* text) {
  std::snprintf(message->text, message->size, "%s", text);
  return status;
}

template <class Body>
int guarded(kv_message* message, Body body) {
  try {
    body();
    return KV_OK;
  } catch (const Invalid& e) {
    return say(message, KV_INVALID, e.what());
  } catch (const std::exception& e) {
    return say(message, KV_FAILED, e.what());
  }
}

std::int32_t number_in(const std::string& json, const std::string& name) {
  const std::size_t at = json.find("\"" + name + "\":");
  return at == std::string::npos ? 0 : std::atoi(json.c_str() + at + name.size() + 3);
}

int load(const char* config, const char*, void** model, std::int32_t* vocab_size,
         std::int32_t* layers, kv_message* message) {
  return guarded(message, [&] {
    *vocab_size = number_in(config, "vocab_size");
    *layers = number_in(config, "num_hidden_layers");
    *model = new Model{*vocab_size};
  });
}

void unload(void* model) {
  delete static_cast<Model*>(model);
}

/// Takes a token and writes the logits of its position.
void step(const Model& model, Tokens& row, std::int32_t token, float* logits) {
  if (token < 0 || token >= model.vocab) throw Invalid("no such token");
  row.push_back(token);
  std::uint32_t hash = 2166136261u;
  for (std::int32_t t : row) hash = (hash ^ static_cast<std::uint32_t>(t)) * 16777619u;
  for (std::int32_t v = 0; v < model.vocab; ++v)
    logits[v] = static_cast<float>((hash >> (v % 16)) % 1000) / 100;
}

/// All rows, or none: what is refused has changed nothing.
void run(const Model& model, std::vector<Tokens>& rows, const kv_tokens& tokens, float* logits) {
  if (tokens.rows != static_cast<std::int32_t>(rows.size()))
    throw Invalid("a wrong number of rows");
  std::vector<Tokens> fed = rows;
  const std::int32_t* id = tokens.ids;
  for (std::int32_t r = 0; r < tokens.rows; ++r) {
    for (std::int32_t i = 0; i < tokens.counts[r]; ++i, logits += model.vocab)
      step(model, fed[r], *id++, logits);
  }
  rows = fed;
}

int score(void* model, const kv_tokens* tokens, kv_output* output, kv_message* message) {
  return guarded(message, [&] {
    std::vector<Tokens> rows(tokens->rows);
    run(*static_cast<Model*>(model), rows, *tokens, output->logits);
  });
}

int open(void* model, std::int32_t batch, std::int32_t capacity, std::int32_t start, void** session,
         kv_message* message) {
  if (start != 0) return say(message, KV_UNSUPPORTED, "rows begin at position 0");
  return guarded(message, [&] {
    if (batch < 1 || capacity < 0) throw Invalid("negative sizes");
    *session = new Session{static_cast<Model*>(model), capacity, std::vector<Tokens>(batch)};
  });
}

int extend(void* session, const kv_tokens* tokens, kv_output* output, kv_message* message) {
  static int calls = 0;
  if (std::getenv("SESSIONS_PLUGIN_CRASH") != nullptr && ++calls % 2 == 0) std::abort();
  return guarded(message, [&] {
    Session& s = *static_cast<Session*>(session);
    for (std::int32_t r = 0; r < tokens->rows && r < static_cast<std::int32_t>(s.rows.size());
         ++r) {
      if (static_cast<std::int32_t>(s.rows[r].size()) + tokens->counts[r] > s.capacity)
        throw Invalid("more tokens than the capacity");
    }
    run(*s.model, s.rows, *tokens, output->logits);
  });
}

int rewind(void* session, const std::int32_t* lengths, std::int32_t rows, kv_message* message) {
  return guarded(message, [&] {
    Session& s = *static_cast<Session*>(session);
    if (rows != static_cast<std::int32_t>(s.rows.size())) throw Invalid("a wrong number of rows");
    for (std::int32_t r = 0; r < rows; ++r) {
      if (lengths[r] < 0 || lengths[r] > static_cast<std::int32_t>(s.rows[r].size()))
        throw Invalid("a row can only be cut back");
    }
    for (std::int32_t r = 0; r < rows; ++r) s.rows[r].resize(lengths[r]);
  });
}

int fork(void* session, void** copy, kv_message* message) {
  return guarded(message, [&] { *copy = new Session(*static_cast<Session*>(session)); });
}

int reorder(void* session, const std::int32_t* sources, std::int32_t rows, kv_message* message) {
  return guarded(message, [&] {
    Session& s = *static_cast<Session*>(session);
    const auto batch = static_cast<std::int32_t>(s.rows.size());
    if (rows != batch) throw Invalid("a wrong number of rows");
    std::vector<Tokens> next;
    for (std::int32_t r = 0; r < rows; ++r) {
      if (sources[r] < 0 || sources[r] >= batch) throw Invalid("no such row");
      next.push_back(s.rows[sources[r]]);
    }
    s.rows = next;
  });
}

int save(void* session, const char* path, kv_message* message) {
  return guarded(message, [&] {
    const Session& s = *static_cast<Session*>(session);
    std::ofstream file(path);
    file << s.capacity << ' ' << s.rows.size() << '\n';
    for (const Tokens& row : s.rows) {
      file << row.size();
      for (std::int32_t token : row) file << ' ' << token;
      file << '\n';
    }
    file << "end\n";
    if (!file.flush()) throw std::runtime_error("the file cannot be written");
  });
}

int restore(void* model, const char* path, void** session, std::int32_t* batch,
            kv_message* message) {
  return guarded(message, [&] {
    std::ifstream file(path);
    Session read{static_cast<Model*>(model), 0, {}};
    std::size_t rows = 0, count = 0;
    file >> read.capacity >> rows;
    while (file && read.rows.size() < rows && file >> count) {
      Tokens row;
      for (std::int32_t token = 0; row.size() < count && file >> token;) row.push_back(token);
      read.rows.push_back(row);
    }
    std::string end;
    const bool whole = file >> end && end == "end" && file.get() == '\n' && !read.rows.empty();
    if (!whole) throw Invalid("the file holds no saved session");
    *batch = static_cast<std::int32_t>(read.rows.size());
    *session = new Session(read);
  });
}

void close(void* session) {
  delete static_cast<Session*>(session);
}

}  // namespace

extern "C" const kv_plugin* kvconform_plugin() {
  static const kv_plugin plugin = {
      KVCONFORM_PLUGIN_VERSION,
      "sessions",
      "1",
      "gemma3n_text gemma4_text",
      "float32",
      "score cache chunked batch ragged rewind fork reorder save",
      1000000,  // everything is kept: rows can be rewound to anywhere
      1,
      load,
      unload,
      score,
      open,
      extend,
      rewind,
      fork,
      reorder,
      save,
      restore,
      nullptr,  // no cache report
      close,
  };
  return &plugin;
}
