// Exports: a golden in a form that other projects can use without this program. README.md, "Using
// a golden elsewhere", describes the files.
#pragma once

#include <filesystem>

#include "golden/computation.h"
#include "golden/recipes.h"

namespace kvconform {

/// Writes the recipe's model as a Hugging Face checkpoint into `folder` (made if missing; must be
/// empty otherwise), and beside it case.json (the calls) and expected.safetensors (`I.logits`: what
/// `numerics` computes in call I). Error KV3010 if it cannot be written.
void export_golden(const Recipe& recipe, const Numerics& numerics,
                   const std::filesystem::path& folder);

}  // namespace kvconform
